"""What every objective is given, and what it keeps.

An objective is a pure function of one replay's course: larger is better, finite, the same on every machine. It never sees
another replay, so that a tree's figure does not depend on which other trees or policies were looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Objective(StrEnum):
    """What a replay is judged by; each has a file of this folder."""

    VALUE = "value"
    ATTAINMENT = "attainment"


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


class Step(NamedTuple):
    """A new best score, after how many attempts and in which round it was met; 0 of both is the start."""

    attempts: int
    rounds: int
    best: float


class Course(NamedTuple):
    """How one replay went, as far as objectives ask. `n` and `k` are attempts and rounds, `quality` is the final one.

    `budget` is how many attempts could have been revealed: those of the tree, or fewer where a limit says so. `climb` holds every
    new best from the start on; `floor` and `top` are the ends of the tree's span.
    """

    quality: float
    n: int
    k: int
    budget: int
    climb: Sequence[Step]
    floor: float
    top: float


def share_of_span(best: float, floor: float, top: float) -> float:
    """Return how far from the floor to the top a score lies, in [0, 1]; 1 where the tree has no span."""
    if top == floor:
        return 1.0
    if math.isinf(top - floor):  # scores at both ends of the range: halved, their span is a float
        best, floor, top = best / 2, floor / 2, top / 2
    return (best - floor) / (top - floor)


class Judge(Protocol):
    """The one function of an objective."""

    def __call__(self, course: Course, weights: Weights) -> float:
        """Return what the course is worth; larger is better."""
