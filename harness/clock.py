"""How long a replay would have taken: a simulated clock over recorded seconds, with so many workers.

In rounds, as a live search in rounds goes, the attempts of a batch are given to whichever worker is free first, in the order of
the picks, and the policy is asked again when the last of them has ended. A trajectory that says itself when its attempts ended
(`harness.explore.byclock`) is taken at its word. Deciding takes no time. Two policies can so be compared by the time that they
take to a quality, and not by attempts alone.
"""

from __future__ import annotations

import heapq
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.objective.base import share_of_span
from sandbox.api import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.replay import Trajectory
    from harness.tree import Tree

QUALITY = 0.9
"""Share of a tree's span to which the time is taken where no other is asked for."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A replay by the clock, in seconds from its start.

    `to_best` is when the best that it revealed had been found, `to_quality` when that share of the tree's span was reached;
    None where that never happened. `assumed` counts attempts whose seconds were not recorded: each counts with the median of
    the others.
    """

    workers: int
    seconds: float
    to_best: float | None
    to_quality: float | None
    assumed: int


def timed(trajectory: Trajectory, tree: Tree, workers: int, quality: float = QUALITY) -> Timed | None:
    """Return how long a replay would have taken, None where the tree recorded no seconds at all.

    Raises:
        ValueError: there is no worker.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}; expected at least 1")
    recorded = [_seconds(tree, place) for place in range(1, len(tree.attempts) + 1)]
    if recorded.count(None) == len(recorded):
        return None
    assumed = sum(recorded[place - 1] is None for place in trajectory.revealed)
    if trajectory.ends:
        ends, now = list(zip(trajectory.ends, trajectory.revealed, strict=True)), max(trajectory.ends)
    else:
        ends, now = _in_rounds(trajectory, lasting(tree), workers)
    return Timed(workers, now, *_reached(tree, [(0.0, ROOT), *sorted(ends)], quality), assumed)


def lasting(tree: Tree) -> list[float]:
    """Return how long each attempt lasts, in creation order: as recorded, else the median of the others; 0 where none was."""
    recorded = [_seconds(tree, place) for place in range(1, len(tree.attempts) + 1)]
    known = [seconds for seconds in recorded if seconds is not None]
    usual = statistics.median(known) if known else 0.0
    return [usual if seconds is None else seconds for seconds in recorded]


def _in_rounds(trajectory: Trajectory, lasts: Sequence[float], workers: int) -> tuple[list[tuple[float, int]], float]:
    """Return when each attempt ends, with its place, and when the last round does."""
    now, ends = 0.0, []
    for turn in trajectory.rounds:
        ended = _ends([lasts[place - 1] for place in turn.revealed], workers)
        ends += [(now + end, place) for end, place in zip(ended, turn.revealed, strict=True)]
        now += max(ended, default=0.0)
    return ends, now


def _ends(lasts: Sequence[float], workers: int) -> list[float]:
    """Return when each of these ends, when the first free worker takes the next."""
    free = [0.0] * min(workers, max(1, len(lasts)))
    ends = []
    for seconds in lasts:
        end = heapq.heappop(free) + seconds
        heapq.heappush(free, end)
        ends.append(end)
    return ends


def _reached(tree: Tree, ends: Sequence[tuple[float, int]], quality: float) -> tuple[float | None, float | None]:
    scores, floor, top = tree.scores, tree.floor, tree.top
    best, to_best, to_quality = -math.inf, None, None
    for at, place in ends:
        score = scores[place]
        if score is None or score <= best:
            continue
        best, to_best = score, at
        if to_quality is None and floor is not None and top is not None and share_of_span(score, floor, top) >= quality:
            to_quality = at
    return to_best, to_quality


def _seconds(tree: Tree, place: int) -> float | None:
    seconds = tree.attempts[place - 1].cost.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        return None
    return float(seconds)
