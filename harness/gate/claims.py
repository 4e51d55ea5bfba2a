"""The parts that have to be shown: the gain in value, and that quality is not sold for it.

Both are claims about trees that nobody has seen, so both are bounds and not means. `gain` uses the level of its look; `quality`
guards against harm and uses alpha as it is: a guard that is asked again and again refuses no less for it.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from harness.gate.bootstrap import lower_bound
from harness.gate.draws import MOST_RESAMPLES, resamples_for
from harness.gate.needed import needed_trees, spread
from harness.gate.signflip import sign_flip
from harness.gate.verdict import Outcome, Part, PartName
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.gate.signflip import SignFlip
    from harness.gate.verdict import Bounds, Figure, Look

_NO_TREE = "no held-out tree is left to ask"


def gain(values: Sequence[Sequence[float]], bounds: Bounds, look: Look, *, by_group: bool) -> Part:
    """Ask that the gain is shown: by the bound, which respects groups, and by the sign-flip test, which supposes nothing."""
    count = sum(map(len, values))
    if not count:
        return Part(PartName.GAIN, Outcome.CANNOT_TELL, _NO_TREE, {"trees": 0, "level": look.level})
    above = [[value - bounds.min_gain for value in group] for group in values]
    mean = weighted_mean(values, by_group=by_group)
    resamples = resamples_for(look.level, bounds.resamples)
    bound = lower_bound(above, look.level, resamples, bounds.seed, by_group=by_group)
    flips = sign_flip(contributions(above, by_group=by_group), resamples, bounds.seed)
    whole = sign_flip(group_contributions(above, by_group=by_group), resamples, bounds.seed)
    figures: dict[str, Figure] = {
        "trees": count,
        "groups": len(values),
        "difference": mean,
        "bound": None if bound is None else bound + bounds.min_gain,
        "p": flips.p,
        "p_groups": whole.p,
        "level": look.level,
        "look": look.number,
        "min_gain": bounds.min_gain,
        "resamples": resamples,
        "design_effect": spread(above, by_group=by_group).design_effect if count > 1 else None,
        "needed_trees": None,
    }
    over = f"mean difference {mean:+z.4f} over {counted(count, 'tree')}, groups: {len(values)}"
    if weighted_mean(above, by_group=by_group) <= 0:
        return Part(PartName.GAIN, Outcome.REFUSE, f"{over}, not above {bounds.min_gain:g}", figures)
    if bound is None:
        words = f"{over}; look {look.number} leaves a level of {look.level:.1e}, too small for {MOST_RESAMPLES:,} resamples"
        return Part(PartName.GAIN, Outcome.CANNOT_TELL, f"{words}: only fresh trees help", figures)
    capped = f"; {MOST_RESAMPLES:,} resamples are the most" if resamples == MOST_RESAMPLES else ""
    shown = (
        f"{over}, at least {bound + bounds.min_gain:+z.4f} (asked: above {bounds.min_gain:g}), "
        f"sign-flip p = {flips.p:.2g} (asked: at most {look.level:.4g}, the level of look {look.number}{capped})"
    )
    agreed = fewest_agree(whole, look.level)
    shown += _said_of_groups(len(values), whole, agreed, look.level)
    if bound > 0 and flips.p <= look.level and whole.p <= agreed:
        return Part(PartName.GAIN, Outcome.PASS, shown, figures)
    needed = needed_trees(above, bound, look.level, bounds.power, by_group=by_group)
    words = shown + _too_few(needed, bounds.power)
    return Part(PartName.GAIN, Outcome.CANNOT_TELL, words, figures | {"needed_trees": needed})


def quality(values: Sequence[Sequence[float]], bounds: Bounds, *, by_group: bool) -> Part:
    """Ask that quality is not sold for cheapness: it may be lower by less than the margin, and that has to be shown."""
    count = sum(map(len, values))
    if not count:
        return Part(PartName.QUALITY, Outcome.CANNOT_TELL, _NO_TREE, {"trees": 0})
    margin = bounds.quality_margin
    above = [[value + margin for value in group] for group in values]
    resamples = resamples_for(bounds.alpha, bounds.resamples)
    bound = lower_bound(above, bounds.alpha, resamples, bounds.seed, by_group=by_group)
    mean = weighted_mean(values, by_group=by_group)
    shown = None if bound is None else bound - margin
    figures: dict[str, Figure] = {
        "difference": mean,
        "bound": shown,
        "margin": margin,
        "level": bounds.alpha,
        "needed_trees": None,
    }
    over = f"mean difference in quality {mean:+z.4f}"
    if weighted_mean(above, by_group=by_group) <= 0:
        return Part(PartName.QUALITY, Outcome.REFUSE, f"{over}, a loss of {margin:g} or more", figures)
    if bound is None:
        words = f"{over}; a level of {bounds.alpha:.1e} is too small for {MOST_RESAMPLES:,} resamples"
        return Part(PartName.QUALITY, Outcome.CANNOT_TELL, words, figures)
    words = f"{over}, at least {bound - margin:+z.4f} (asked: above {-margin:g})"
    if bound > 0:
        return Part(PartName.QUALITY, Outcome.PASS, words, figures)
    needed = needed_trees(above, bound, bounds.alpha, bounds.power, by_group=by_group)
    words += _too_few(needed, bounds.power)
    return Part(PartName.QUALITY, Outcome.CANNOT_TELL, words, figures | {"needed_trees": needed})


def weighted_mean(grouped: Sequence[Sequence[float]], *, by_group: bool) -> float:
    """Return the mean over trees, or that of the groups' means."""
    count = len(grouped) if by_group else sum(map(len, grouped))
    return _sum([part / count for part in contributions(grouped, by_group=by_group)])


def contributions(grouped: Sequence[Sequence[float]], *, by_group: bool) -> list[float]:
    """Return what each tree adds to the mean, up to a factor common to all."""
    return [value / len(group) if by_group else value for group in grouped for value in group]


def group_contributions(grouped: Sequence[Sequence[float]], *, by_group: bool) -> list[float]:
    """Return what each group adds to the mean, up to a factor common to all."""
    count = sum(map(len, grouped))
    return [_sum([part / count for part in contributions([group], by_group=by_group)]) for group in grouped]


def _sum(parts: Sequence[float]) -> float:
    """Return the sum of shares of a mean: it is within the range of a float, though rounding may carry it past the end."""
    try:
        return math.fsum(parts)
    except OverflowError:
        most = sys.float_info.max
        return max(-most, min(2 * math.fsum(part / 2 for part in parts), most))


def fewest_agree(whole: SignFlip, level: float) -> float:
    """Return the p-value asked of flips of whole groups: the level, or what groups too few to reach it show when all agree."""
    return max(level, 1 / whole.ways)


def _said_of_groups(groups: int, whole: SignFlip, agreed: float, level: float) -> str:
    """Return what the groups say as wholes, and what so few of them leave open."""
    if groups == 1:
        return "; a single group: trees alone were resampled, which says nothing of other groups"
    said = f"; flipping whole groups p = {whole.p:.2g} (asked: at most {agreed:.4g}"
    return f"{said}: so few groups have to agree, and do by chance once in {whole.ways})" if agreed > level else f"{said})"


def _too_few(needed: int | None, power: float) -> str:
    if needed is None:
        return "; one tree alone shows no spread"
    return f"; about {needed:,} such trees would show it ({power:.0%} power)"
