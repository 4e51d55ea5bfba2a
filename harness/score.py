"""What a trajectory is worth by the chosen objective, the figures beside it, and their means (design.md, section 3)."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.errors import InputError
from harness.objective import OBJECTIVES, Course, Normalize, Objective, Step, Weights, share_of_span
from harness.replay import Stop
from sandbox.api import Frontier, Limits
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.replay import Trajectory
    from harness.tree import Tree
    from sandbox.api import Fault


__all__ = [
    "BestSoFar",
    "Effort",
    "Evaluation",
    "Figures",
    "GroupBy",
    "Normalize",
    "Objective",
    "Result",
    "Settings",
    "Weight",
    "Weights",
    "best_so_far",
    "difference",
    "figures",
    "groups_of",
    "mean",
    "mean_over_groups",
    "refuse_mixed",
    "settings_from",
]


class Weight(StrEnum):
    """What counts the same in a mean: every tree, or every group of trees, however many trees it holds."""

    TREE = "tree"
    GROUP = "group"


class GroupBy(StrEnum):
    """What makes trees a group: their task, or the source system that recorded them.

    `auto` takes the source where the trees come from two systems or more, else the task.
    """

    AUTO = "auto"
    TASK = "task"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one replay.

    `value` is what the objective of the settings says. `value`, `quality` and `best` are None after a fault and for a tree
    without a single score. `best` is larger-is-better.
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
    """Everything beside policy and trees that fixes an evaluation. `frontier` of None takes each tree's own.

    Evaluations under different settings are never compared with each other.
    """

    limits: Limits = field(default_factory=Limits)
    frontier: Frontier | None = None
    weights: Weights = field(default_factory=Weights)
    seed: int = 0
    objective: Objective = Objective.VALUE
    weight: Weight = Weight.TREE
    group_by: GroupBy = GroupBy.AUTO


@dataclass(frozen=True, slots=True)
class Effort:
    """How an evaluation is carried out; none of it changes a trajectory.

    `repeats` trees, drawn by the seed and the first one's digest, are replayed a second time in another container, to find
    policies that do not repeat. `workers` containers are used side by side.
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
    task: str = ""
    """What the tree's search worked on, its words."""


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
        """Return the mean over the trees that have a value; None after a fault or where no tree has one."""
        return self.mean([result.figures.value for result in self.results])

    @property
    def quality(self) -> float | None:
        """Return the mean quality, as `value` does."""
        return self.mean([result.figures.quality for result in self.results])

    def mean(self, values: Sequence[float | None]) -> float | None:
        """Return the mean of figures, one for each result, as the settings weigh them; None after a fault."""
        if self.fault:
            return None
        if self.settings.weight is Weight.TREE:
            return mean(values)
        groups = groups_of(self.results, self.settings.group_by)
        return mean_over_groups(zip((groups[result.tree] for result in self.results), values, strict=True))


def groups_of(results: Iterable[Result], group_by: GroupBy) -> dict[str, str]:
    """Return the group of each tree by its digest."""
    results = list(results)
    by_source = group_by is GroupBy.SOURCE or (group_by is GroupBy.AUTO and len({result.system for result in results}) > 1)
    return {result.tree: result.system if by_source else result.task for result in results}


def refuse_mixed(first: Settings, second: Settings) -> None:
    """Keep figures that were made under different settings out of one comparison.

    Raises:
        InputError: the settings differ; the message names where.
    """
    for one in fields(Settings):
        ours, theirs = getattr(first, one.name), getattr(second, one.name)
        if ours != theirs:
            raise InputError(
                f"{one.name} is {_words(ours)} on one side and {_words(theirs)} on the other; "
                "expected both to be judged under the same settings"
            )


def settings_from(document: Mapping[str, Any]) -> Settings:
    """Return the settings that `asdict` made a document of, through JSON or not. What it does not name is the default."""
    said = dict(document)
    weights = Weights(**said["weights"] | {"normalize": Normalize(said["weights"]["normalize"])})
    frontier = None if said["frontier"] is None else Frontier(said["frontier"])
    return Settings(
        Limits(**said["limits"]),
        frontier,
        weights,
        said["seed"],
        Objective(said.get("objective", Objective.VALUE)),
        Weight(said.get("weight", Weight.TREE)),
        GroupBy(said.get("group_by", GroupBy.AUTO)),
    )


def _words(setting: object) -> str:
    return setting.value if isinstance(setting, StrEnum) else str(setting)


def mean_over_groups(valued: Iterable[tuple[str, float | None]]) -> float | None:
    """Return the mean of the groups' means, so that a group counts once however many values it has; None where none is known."""
    groups: dict[str, list[float | None]] = {}
    for group, value in valued:
        groups.setdefault(group, []).append(value)
    return mean(mean(values) for values in groups.values())


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


def figures(trajectory: Trajectory, tree: Tree, settings: Settings) -> Figures:
    """Return what a trajectory is worth on its tree, under the settings that it was made with.

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
    last = climb.steps[-1]
    normalize = settings.weights.normalize
    quality = _quality(last.best, floor, top, normalize)
    most = settings.limits.max_attempts
    budget = len(tree.attempts) if most is None else min(most, len(tree.attempts))
    course = Course(quality, n, k, budget, climb.steps, floor, top)
    value = OBJECTIVES[settings.objective](course, settings.weights)
    area = _quality(climb.mean_best, floor, top, normalize) if n else quality
    return Figures(value, quality, last.best, n, k, wasted, last.attempts, last.rounds, area, off_support)


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """How a replay climbed: after how many attempts each new best was met, and which share of the tree's span it reached.

    `steps` begins with the start (0 attempts); it is empty after a fault and for a tree without a single score. `attempts` is
    how many there were.
    """

    attempts: int
    steps: tuple[tuple[int, float], ...]

    def share(self, attempts: int) -> float | None:
        """Return the share that was reached after so many attempts; past the last attempt that is where it ended."""
        return next((share for met, share in reversed(self.steps) if met <= attempts), None)


def best_so_far(trajectory: Trajectory, tree: Tree) -> BestSoFar:
    """Return how a trajectory climbed on its tree."""
    attempts = sum(len(turn.revealed) for turn in trajectory.rounds)
    floor, top = tree.floor, tree.top
    if trajectory.stop is Stop.POLICY_ERROR or floor is None or top is None:
        return BestSoFar(attempts, ())
    steps = _climb(trajectory, tree, floor).steps
    return BestSoFar(attempts, tuple((step.attempts, share_of_span(step.best, floor, top)) for step in steps))


class _Climb(NamedTuple):
    """How the best score grew: its steps from the start on, and its mean over the attempts."""

    steps: list[Step]
    mean_best: float


def _climb(trajectory: Trajectory, tree: Tree, floor: float) -> _Climb:
    scores = tree.scores
    best = scores[0]
    so_far = floor if best is None else best
    steps = [Step(0, 0, so_far)]
    course: list[float] = []
    for turn, taken in enumerate(trajectory.rounds, start=1):
        for place in taken.revealed:
            score = scores[place]
            if score is not None and (best is None or score > best):
                best = so_far = score
                steps.append(Step(len(course) + 1, turn, score))
            course.append(so_far)
    mean_best = mean(course)
    return _Climb(steps, so_far if mean_best is None else mean_best)


def _quality(best: float, floor: float, top: float, normalize: Normalize) -> float:
    return best if normalize is Normalize.NONE else share_of_span(best, floor, top)
