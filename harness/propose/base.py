"""The joint between what has been learnt so far and whoever writes the next version.

A proposer gets one frozen brief and answers with one candidate. It asks for nothing else: the same briefs in the same order
give the same candidates, which is what makes a run resumable. Held-out trees never stand in a brief.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.policy import Candidate, Version
    from harness.score import Evaluation


@dataclass(frozen=True, slots=True)
class Judged:
    """A version with its evaluation on the development trees: values, trajectories and, if it failed, its fault."""

    version: Version
    evaluation: Evaluation

    @property
    def value(self) -> float | None:
        """Return the mean value; None where the version faulted."""
        return self.evaluation.value


@dataclass(frozen=True, slots=True)
class Brief:
    """All that is known when the next version is asked for.

    `history` holds every version of this run in order, the incumbent first. `best` is the one to build on.
    """

    incumbent: Judged
    best: Judged
    history: tuple[Judged, ...]

    @property
    def refused(self) -> tuple[Judged, ...]:
        """Return the versions that faulted; their evaluations say why."""
        return tuple(judged for judged in self.history if judged.evaluation.fault is not None)


class Proposer(Protocol):
    """Writes candidates: from templates, by a model, or by both."""

    def propose(self, brief: Brief) -> Candidate | None:
        """Return the next candidate, whose code differs from all in the brief; None when there is nothing left to try."""
