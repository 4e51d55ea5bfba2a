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

from harness.agents.search.walk import Effort, EffortFault, Moves, Proposal, SolverFault

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AnswerFault", "Array", "Effort", "EffortFault", "Proposal", "SolverFault", "Task", "Verdict"]

Array: TypeAlias = npt.NDArray[np.float64]


class AnswerFault(Exception):  # noqa: N818 - "fault" is the agent's, "error" is ours (style.md, section 3)
    """The evaluator refuses an answer: it breaks the rules of the task."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluator found: the score in the task's own sense, figures beside it, and what limits the answer in words."""

    score: float
    metrics: Mapping[str, float]
    limits: str


class Task(Moves, Protocol):
    """One problem: its evaluator, and the families and operators that a search can use on it.

    `root_scores` says whether trees hold the start's score as that of their root, or leave the root without one, so that
    the worst recorded attempt is their floor.
    """

    name: str
    root_scores: bool

    def root(self) -> Verdict:
        """Return the verdict on the answer that a search starts from."""

    def evaluate(self, answer: Array) -> Verdict:
        """Return the exact verdict on an answer.

        Raises:
            AnswerFault: the answer breaks the rules.
        """
