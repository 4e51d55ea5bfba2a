"""Means of figures by group, with the gate's bootstrap on both sides of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.gate.bootstrap import lower_bound
from harness.leaderboard.records import CONFIDENCE, Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.score import Result


def by_group(results: Iterable[Result], groups: Mapping[str, str], figures: Mapping[str, float | None]) -> list[list[float]]:
    """Return the figures that are known, one list for each group that has one.

    Groups stand in the order of their names and trees in that of their digests, so that the order in which trees were given
    changes nothing, not even a draw.
    """
    found: dict[str, list[float]] = {}
    for tree in sorted(result.tree for result in results):
        figure = figures[tree]
        if figure is not None:
            found.setdefault(groups[tree], []).append(figure)
    return [found[group] for group in sorted(found)]


def interval(grouped: Sequence[Sequence[float]], resamples: int, seed: int, *, weigh_groups: bool) -> Interval | None:
    """Return the two-sided interval of the mean, None where there is no value: groups are drawn, then trees within each.

    None as well for a single tree: whatever is drawn of it is that tree, which says nothing of others.

    It is the gate's bound (`harness.gate.bootstrap`) from below, and from above by the same draws.
    """
    if sum(map(len, grouped)) <= 1:
        return None
    first = grouped[0][0]
    if all(value == first for group in grouped for value in group):  # nor may rounding to the grid of the draws move it
        return Interval(first, first)
    level = (1 - CONFIDENCE) / 2
    low = lower_bound(grouped, level, resamples, seed, by_group=weigh_groups)
    turned = lower_bound([[-value for value in group] for group in grouped], level, resamples, seed, by_group=weigh_groups)
    return None if low is None or turned is None else Interval(low, 0.0 - turned)
