"""What every objective is given, and what it keeps.

An objective is a pure function of one replay's course: larger is better, finite, the same on every machine. It never sees
another replay, so that a tree's figure does not depend on which other trees or policies were looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


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


@dataclass(frozen=True, slots=True)
class Course:
    """How one replay went, as far as objectives ask. `n` and `k` are attempts and rounds, `quality` is the final one.

    `budget` is how many attempts could have been revealed: those of the tree, or fewer where a limit says so. `climb` holds,
    from the start on, after how many attempts a new best was met and which share of the tree's span, in [0, 1], it reached.
    """

    quality: float
    n: int
    k: int
    budget: int
    climb: tuple[tuple[int, float], ...]


class Judge(Protocol):
    """The one function of an objective."""

    def __call__(self, course: Course, weights: Weights) -> float:
        """Return what the course is worth; larger is better."""
