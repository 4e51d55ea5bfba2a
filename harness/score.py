"""What a trajectory is worth (design.md, section 3): V = quality - beta1·N + beta2·N / max(1, k), and the figures beside it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from harness.replay import Stop
from sandbox.api import Limits
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.replay import Trajectory
    from harness.tree import Tree
    from sandbox.api import Fault, Frontier


class Normalize(StrEnum):
    """How `best` becomes quality: as it is, or as the share of the tree's span from floor to top."""

    TREE = "tree"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the value formula."""

    beta1: float = 0.001
    beta2: float = 0.005
    normalize: Normalize = Normalize.TREE


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one replay.

    `value`, `quality` and `best` are None after a fault and for a tree without a single score. `best` is larger-is-better.
    `area` is the mean quality so far over the attempts, in the unit of quality. `off_support` is wasted picks / served picks.
    """

    value: float | None
    quality: float | None
    best: float | None
    n: int
    k: int
    wasted: int
    attempts_to_best: int | None
    rounds_to_best: int | None
    area: float | None
    off_support: float


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything beside policy and trees that fixes an evaluation. `frontier` of None takes each tree's own."""

    limits: Limits = field(default_factory=Limits)
    frontier: Frontier | None = None
    weights: Weights = field(default_factory=Weights)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Effort:
    """How an evaluation is carried out; none of it changes a trajectory.

    `repeats` trees, drawn by the seed, are replayed a second time in another container, to find policies that do not repeat.
    `workers` containers are used side by side.
    """

    limits: GuestLimits = field(default_factory=GuestLimits)
    repeats: int = 1
    workers: int = 1
    stop_at_fault: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One replay judged. Times and memory are measured, all else repeats to the digit."""

    tree: str
    """Digest of the tree; `name` and `system` are its words for people."""
    name: str
    system: str
    trajectory: Trajectory
    figures: Figures
    decide_s: float = 0.0
    """Wall seconds from an observation to its answer, all rounds together."""
    cpu_s: float = 0.0
    memory_bytes: int = 0
    output: str = ""
    """The tail of what the policy printed: untrusted text."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One policy judged over a set of trees, every tree once."""

    policy: str
    """Digest of the policy's source."""
    sandbox: str
    settings: Settings
    results: tuple[Result, ...]

    @property
    def fault(self) -> Fault | None:
        """Return the first fault; a version with one has no value and cannot be selected."""
        return next((result.trajectory.fault for result in self.results if result.trajectory.fault), None)

    @property
    def value(self) -> float | None:
        """Return the plain mean over the trees that have a value; None after a fault or where no tree has one."""
        return None if self.fault else mean(result.figures.value for result in self.results)

    @property
    def quality(self) -> float | None:
        """Return the mean quality, as `value` does."""
        return None if self.fault else mean(result.figures.quality for result in self.results)


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of those that are known, None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    try:
        return math.fsum(known) / len(known)
    except OverflowError:  # their sum is beyond the range of a float, their mean is not
        return math.fsum(value / _SCALE for value in known) / len(known) * _SCALE


def difference(first: float | None, second: float | None) -> float | None:
    """Return how far the second is above the first, None where one is not known; never infinite."""
    if first is None or second is None:
        return None
    return max(-sys.float_info.max, min(second - first, sys.float_info.max))


_SCALE = 2.0**64


def figures(trajectory: Trajectory, tree: Tree, weights: Weights) -> Figures:
    """Return what a trajectory is worth on its tree.

    Source: design.md, section 3.
    """
    k = len(trajectory.rounds)
    n = sum(len(turn.revealed) for turn in trajectory.rounds)
    wasted = sum(turn.wasted for turn in trajectory.rounds)
    off_support = wasted / (n + wasted) if n + wasted else 0.0
    floor, top = tree.floor, tree.top
    if trajectory.stop is Stop.POLICY_ERROR or floor is None or top is None:
        return Figures(None, None, None, n, k, wasted, None, None, None, off_support)
    climb = _climb(trajectory, tree, floor)
    best = floor if climb.best is None else climb.best
    quality = _quality(best, floor, top, weights.normalize)
    value = quality - weights.beta1 * n + weights.beta2 * n / max(1, k)
    area = _quality(climb.mean_best, floor, top, weights.normalize) if n else quality
    return Figures(value, quality, best, n, k, wasted, climb.attempts, climb.rounds, area, off_support)


class _Climb(NamedTuple):
    """How the best score grew: the final best, the attempts and rounds it took, and its mean over the attempts."""

    best: float | None
    attempts: int
    rounds: int
    mean_best: float


def _climb(trajectory: Trajectory, tree: Tree, floor: float) -> _Climb:
    scores = tree.scores
    best = scores[0]
    so_far = floor if best is None else best
    attempts = rounds = 0
    course: list[float] = []
    for turn, taken in enumerate(trajectory.rounds, start=1):
        for place in taken.revealed:
            score = scores[place]
            if score is not None and (best is None or score > best):
                best = so_far = score
                attempts, rounds = len(course) + 1, turn
            course.append(so_far)
    mean_best = mean(course)
    return _Climb(best, attempts, rounds, so_far if mean_best is None else mean_best)


def _quality(best: float, floor: float, top: float, normalize: Normalize) -> float:
    if normalize is Normalize.NONE:
        return best
    if top == floor:
        return 1.0
    if math.isinf(top - floor):  # scores at both ends of the range: halved, their span is a float
        best, floor, top = best / 2, floor / 2, top / 2
    return (best - floor) / (top - floor)
