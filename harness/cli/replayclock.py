"""What `harness replay` says by the clock: how long each replay would have taken, and of two policies which is sooner."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.cli.output import one_line, say, table
from harness.clock import QUALITY, timed
from harness.errors import InputError
from harness.explore.byclock import asking_at_once
from harness.replay import replay
from harness.search import Mode
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.clock import Timed
    from harness.replay import Play
    from harness.score import Evaluation
    from harness.tree import Tree


@dataclass(frozen=True, slots=True)
class Clock:
    """A simulated clock: its workers, when the policy is asked, and the share of a tree's span to which the time is taken."""

    workers: int
    mode: Mode = Mode.ROUNDS
    quality: float = QUALITY

    @property
    def play(self) -> Play:
        """Return how policies are taken through trees under this clock."""
        return asking_at_once(self.workers) if self.mode is Mode.ASYNC else replay


def asked(workers: int | None, mode: str | None, quality: str | None, against: str | None) -> Clock | None:
    """Return the clock that the options ask for, None for none.

    Raises:
        InputError: naming the option.
    """
    if workers is None:
        alone = [name for name, given in (("mode", mode), ("quality", quality)) if given is not None]
        if alone or against is not None:
            flag = f"--clock-{alone[0]}" if alone else "--against"
            raise InputError(f"{flag}: there is no clock; write --clock-workers W as well")
        return None
    if workers == 0:
        raise InputError("--clock-workers: 0 is too few; expected a whole number of at least 1")
    if mode not in (None, *Mode):
        raise InputError(f"--clock-mode: {mode!r} is none; expected rounds or async")
    try:
        share = QUALITY if quality is None else float(quality)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise InputError(f"--clock-quality: {quality!r} is no share; expected a number above 0 and at most 1")
    return Clock(workers, Mode(mode or Mode.ROUNDS), share)


class OnTree(NamedTuple):
    """One tree by the clock: a policy and, where there is one, the other; None where the tree recorded no seconds."""

    name: str
    took: Timed | None
    other: Timed | None = None

    @property
    def ratio(self) -> float | None:
        """Return how many times sooner the policy reaches the quality than the other; None unless both do, after some time."""
        sooner, later = (None if one is None else one.to_quality for one in (self.took, self.other))
        return later / sooner if sooner and later is not None else None


def by_clock(clock: Clock, trees: Sequence[Tree], evaluation: Evaluation, against: Evaluation | None) -> list[OnTree]:
    """Return each tree by the clock."""
    rows = []
    for place, tree in enumerate(trees):
        both = [one.results[place].trajectory for one in (evaluation, against) if one is not None]
        rows.append(OnTree(tree.name, *(timed(one, tree, clock.workers, clock.quality) for one in both)))
    return rows


def document(took: Timed | None, clock: Clock) -> dict[str, Any] | None:
    """Return one replay by the clock, as JSON has it."""
    return None if took is None else asdict(took) | {"mode": clock.mode.value, "quality": clock.quality}


def comparison(rows: Sequence[OnTree]) -> dict[str, Any]:
    """Return how two policies compare by time to the quality, as JSON has it."""
    ratios = [row.ratio for row in rows]
    both = [ratio for ratio in ratios if ratio is not None]
    return {
        "trees": len(both),
        "median_ratio": statistics.median(both) if both else None,
        "reached": sum(row.took is not None and row.took.to_quality is not None for row in rows),
        "reached_by_other": sum(row.other is not None and row.other.to_quality is not None for row in rows),
        "ratios": ratios,
    }


def show(clock: Clock, rows: Sequence[OnTree], names: Sequence[str]) -> None:
    """Print how long each replay would have taken, and of two policies which reached the quality sooner."""
    share = f"{clock.quality * 100:g} %"
    when = "asked whenever a worker is free" if clock.mode is Mode.ASYNC else "asked round by round"
    say(f"\nby the clock, {counted(clock.workers, 'worker')}, {when}:")
    head = ["tree", "seconds", "to best", f"to {share}"]
    if len(names) > 1:
        head += ["other: seconds", "to best", f"to {share}", "times sooner"]
    lines = []
    for row in rows:
        ratio = [] if len(names) == 1 else [*_figures(row.other), _time(row.ratio)]
        lines.append([one_line(row.name), *_figures(row.took), *ratio])
    say(table(head, lines, left=("tree",)))
    assumed = sum(took.assumed for row in rows for took in (row.took, row.other) if took is not None)
    if assumed:
        say(f"{counted(assumed, 'attempt')} without recorded seconds, each taken for the median of its tree")
    if len(names) > 1:
        found = comparison(rows)
        say(
            f"\nto {share} of the span: {names[0]} on {counted(found['reached'], 'tree')}, {names[1]} on "
            f"{counted(found['reached_by_other'], 'tree')}, of {len(rows)}"
        )
        if found["trees"]:
            say(f"where both reach it, {names[0]} is {found['median_ratio']:.2f} times as soon as {names[1]} (median)")


def _figures(took: Timed | None) -> list[str]:
    return ["-"] * 3 if took is None else [_time(took.seconds), _time(took.to_best), _time(took.to_quality)]


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"
