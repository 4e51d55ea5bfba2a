"""What every form of a verdict shows, under the names that people know the policies by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.cli import rules
from harness.cli.output import number, short
from harness.cli.verdicts.spark import sparkline
from harness.gate.document import document
from harness.gate.verdict import Outcome
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.gate.verdict import Bounds, Figure, GroupDifference, Look, Verdict

DIGEST_SHOWN = 12
"""So many characters of a digest tell it from others."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A verdict, and the names of both policies. Text of names, groups and reasons is untrusted."""

    verdict: Verdict
    candidate: str
    incumbent: str
    version: int | None = None
    """The candidate's number in the store, and `number` the verdict's own; None where nothing was recorded."""
    number: int | None = None
    notes: Sequence[str] = ()
    """What a reader should know beside the verdict, a sentence each."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of trees by digest, those left out among them."""

    @property
    def title(self) -> str:
        """Return who is compared with whom, and by what where that is not the default."""
        return f"{self.candidate} against {self.incumbent}{rules.words(self.verdict.settings)}"


def figures(of: Mapping[str, Figure]) -> str:
    """Return the figures of a part on one line, in their own order."""
    return ", ".join(f"{name} {figure(value)}" for name, value in of.items())


def figure(value: Figure) -> str:
    """Return one figure: six digits tell a p-value and a bound apart from their limits."""
    if value is None:
        return "none"
    return format(value, ".6g") if isinstance(value, float) else str(value)


def sparklines(verdict: Verdict) -> dict[str, str]:
    """Return a sparkline for each group, all drawn to one scale."""
    by_group: dict[str, list[float]] = {}
    for tree in verdict.trees:
        if tree.difference is not None:
            by_group.setdefault(tree.group, []).append(tree.difference)
    reach = max((abs(difference) for group in by_group.values() for difference in group), default=0.0)
    return {group: sparkline(differences, reach) for group, differences in by_group.items()}


def group_cells(group: GroupDifference) -> list[str]:
    """Return a group as cells: its trees, its mean difference in value and in quality."""
    return [str(group.trees), number(group.difference, signed=True), number(group.quality_difference, signed=True)]


def look_words(look: Look | None, bounds: Bounds) -> list[str]:
    """Say what this look cost and what is left of the level on these trees, a line each."""
    if look is None:
        return ["Nothing was replayed: no look at the trees was spent."]
    left = f"Of alpha {bounds.alpha:g}, {look.left:.6f} is left on the most looked-at of these trees."
    ledger = [f"Its entry in the ledger: {look.ledger}"] if look.ledger else []
    if look.again:
        return [f"This question was asked before: it is look {look.number} again, and no level is spent. {left}", *ledger]
    return [f"This is look {look.number} at these trees, judged at level {look.level:.6f}. {left}", *ledger]


def left_out_words(shown: Shown) -> list[str]:
    """Return a sentence for each reason why trees were left out, with their number."""
    reasons: dict[str, list[str]] = {}
    for tree, why in shown.verdict.left_out:
        reasons.setdefault(why, []).append(shown.names.get(tree, tree[:DIGEST_SHOWN]))
    return [f"{counted(len(trees), 'tree')} left out, {why}: {_some(trees)}" for why, trees in reasons.items()]


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(short(name, 40) for name in names[:most]) + more


def next_words(shown: Shown) -> str | None:
    """Say what follows from the verdict."""
    if shown.number is None:
        return None
    if shown.verdict.outcome is Outcome.PASS:
        return f"`harness promote v{shown.version} --verdict {shown.number}` makes it the incumbent"
    return f"recorded as verdict {shown.number} about v{shown.version}"


def shown_document(shown: Shown) -> dict[str, Any]:
    """Return everything as a value of JSON."""
    return {
        "outcome": shown.verdict.outcome.value,
        "reason": shown.verdict.reason,
        "number": shown.number,
        "candidate": {"name": shown.candidate, "version": shown.version, "digest": shown.verdict.candidate},
        "incumbent": {"name": shown.incumbent, "digest": shown.verdict.incumbent},
        "notes": list(shown.notes),
        "verdict": document(shown.verdict),
    }
