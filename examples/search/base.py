"""What an agent needs from a task, and what a task's evaluator answers.

An evaluator judges answers and knows nothing of moves; moves propose answers and their claims count for nothing until the
evaluator has looked. Everything random comes in as a generator, every limit is counted work and never a clock, so that an
attempt repeats to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

Array: TypeAlias = npt.NDArray[np.float64]


class AnswerFault(Exception):  # noqa: N818 - "fault" is the agent's, "error" is ours (style.md, section 3)
    """The evaluator refuses an answer: it breaks the rules of the task."""


class EffortFault(Exception):  # noqa: N818 - as above
    """An attempt wanted more work than one attempt may do."""


class SolverFault(Exception):  # noqa: N818 - as above
    """A solver ended without a usable answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluator found: the score in the task's own sense, figures beside it, and what limits the answer in words."""

    score: float
    metrics: Mapping[str, float]
    limits: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """An answer as its move sees it: `claim` is the score it believes in, `violation` how far it breaks the rules."""

    answer: Array
    claim: float
    violation: float


class Effort:
    """The work one attempt may do, counted in solver steps weighed by their size."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.spent = 0.0

    def spend(self, work: float) -> None:
        """Count `work`.

        Raises:
            EffortFault: more has been spent than the limit allows.
        """
        self.spent += work
        if self.spent > self.limit:
            raise EffortFault(f"needed more than {self.limit:g} units of solver work")


class Task(Protocol):
    """One problem: its evaluator, and the families and operators that a search can use on it.

    `root_scores` says whether trees hold the start's score as that of their root, or leave the root without one, so that
    the worst recorded attempt is their floor.
    """

    name: str
    direction: str
    families: tuple[str, ...]
    operators: tuple[str, ...]
    temperatures: tuple[float, ...]
    effort: float
    root_scores: bool

    def root(self) -> Verdict:
        """Return the verdict on the answer that a search starts from."""

    def evaluate(self, answer: Array) -> Verdict:
        """Return the exact verdict on an answer.

        Raises:
            AnswerFault: the answer breaks the rules.
        """

    def open(self, rng: np.random.Generator, family: str, effort: Effort) -> Proposal:
        """Return a first, briefly optimised answer of a family."""

    def move(self, rng: np.random.Generator, answer: Array, operator: str, effort: Effort) -> Proposal:
        """Return what `operator` makes of an answer.

        Raises:
            SolverFault: nothing usable came out.
            EffortFault: the attempt's work is used up.
        """
