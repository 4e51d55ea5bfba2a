"""One attempt of a search without a model: open a family of answers, or make a few small moves from an earlier one.

What passes from parent to child is an answer and a genome, the strategy that reached it. Moves propose answers whose claims count
for nothing until an evaluator has looked. Everything random comes in as a generator and every limit is counted work, never a
clock, so that an attempt repeats to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOVES = 3
NOTHING = 1e-9  # a smaller gain is none
CHECKED_TO = 1e-7  # what a careful agent lets pass as rounding
CARELESS = 0.1  # share of branches that believe their solver
LEARNS = 0.7  # chance that a refusal makes a careless branch careful


class EffortFault(Exception):  # noqa: N818 - "fault" is the agent's, "error" is ours (style.md, section 3)
    """An attempt wanted more work than one attempt may do."""


class SolverFault(Exception):  # noqa: N818 - as above
    """A solver ended without a usable answer."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An answer as its move sees it: `claim` is the score it believes in, `violation` how far it breaks the rules."""

    answer: Any
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


class Moves(Protocol):
    """What a search can do about one problem. A family is a kind of start, an operator a kind of small change."""

    families: tuple[str, ...]
    operators: tuple[str, ...]
    temperatures: tuple[float, ...]
    """Losses that a branch may accept, in the score's units; 0.0 accepts gains only. One is drawn for each branch."""
    effort: float
    direction: str

    def open(self, rng: np.random.Generator, family: str, effort: Effort) -> Proposal:
        """Return a first, briefly optimised answer of a family."""

    def move(self, rng: np.random.Generator, answer: Any, operator: str, effort: Effort) -> Proposal:
        """Return what an operator makes of an answer.

        Raises:
            SolverFault: nothing usable came out.
            EffortFault: the attempt's work is used up.
        """


@dataclass(frozen=True, slots=True)
class Genome:
    """A strategy: where its branch began, which operators it favours, how large a loss it accepts, whether it checks claims."""

    family: str
    weights: tuple[float, ...]
    temperature: float
    careful: bool

    @classmethod
    def draw(cls, moves: Moves, rng: np.random.Generator, avoid: Collection[str] = ()) -> Genome:
        """Return a strategy for a new branch, of another family than those to avoid where there is one."""
        families = tuple(family for family in moves.families if family not in avoid) or moves.families
        return cls(
            family=str(rng.choice(families)),
            weights=tuple(rng.dirichlet([0.5] * len(moves.operators)).tolist()),
            temperature=float(rng.choice(moves.temperatures)),
            careful=bool(rng.random() > CARELESS),
        )

    def mutated(self, rng: np.random.Generator) -> Genome:
        """Return a child's strategy: the parent's, with its preferences shifted a little."""
        weights = np.array(self.weights) * np.exp(rng.normal(0.0, 0.25, len(self.weights)))
        return replace(self, weights=tuple((weights / weights.sum()).tolist()))

    def chastened(self, status: str, planned: Sequence[str], moves: Moves, rng: np.random.Generator) -> Genome:
        """Return what a strategy learns from a failure: check claims after a refusal, use what failed less."""
        if status == "invalid":
            return replace(self, careful=self.careful or bool(rng.random() < LEARNS))
        weights = np.array([w * (0.5 if name in planned else 1.0) for name, w in zip(moves.operators, self.weights, strict=True)])
        return replace(self, weights=tuple((weights / weights.sum()).tolist()))

    def planned(self, moves: Moves, rng: np.random.Generator) -> list[str]:
        """Return the moves that an attempt is going to make."""
        return [str(name) for name in rng.choice(moves.operators, MOVES, p=self.weights)]


@dataclass(frozen=True, slots=True)
class State:
    """What a child inherits. `answer` is None while nothing in this branch has passed the evaluator."""

    genome: Genome
    answer: Any
    score: float | None


@dataclass(slots=True)
class Walk:
    """The moves of one attempt: where it stands, None before a start is found, and what each move came to."""

    here: Proposal | None = None
    notes: list[str] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0


def walked(
    moves: Moves, before: State, planned: Sequence[str], *, rng: np.random.Generator, effort: Effort, walk: Walk
) -> Proposal:
    """Return where the planned moves lead; `walk` keeps what each came to, also when the attempt ends in a fault.

    Raises:
        SolverFault: no start was found, or every move failed.
        EffortFault: the work of one attempt is used up.
    """
    here = _start(moves, before, rng, effort)
    walk.here = here
    sense = 1.0 if moves.direction == "max" else -1.0
    for operator in planned:
        try:
            there = moves.move(rng, here.answer, operator, effort)
        except SolverFault as fault:
            walk.refused += 1
            walk.notes.append(f"{operator}: {fault}")
            continue
        gain = sense * (there.claim - here.claim)
        if before.genome.careful and there.violation > CHECKED_TO:
            walk.refused += 1
            walk.notes.append(f"{operator} ended {there.violation:.1g} outside the rules")
        elif gain > NOTHING:
            walk.here, walk.accepted = there, walk.accepted + 1
            walk.notes.append(f"{operator} gained {gain:.2g}")
        elif gain < -NOTHING and before.genome.temperature > 0.0 and rng.random() < np.exp(gain / before.genome.temperature):
            walk.here, walk.accepted = there, walk.accepted + 1
            walk.notes.append(f"{operator} gave up {-gain:.2g} on purpose")
        else:
            walk.notes.append(f"{operator} found nothing better")
        here = walk.here
    if walk.refused == len(planned):
        raise SolverFault("every move failed")
    return here


def _start(moves: Moves, before: State, rng: np.random.Generator, effort: Effort) -> Proposal:
    """Return the parent's answer, or a new one of the family where this branch has none yet."""
    if before.answer is not None and before.score is not None:
        return Proposal(before.answer, before.score, 0.0)
    opened = moves.open(rng, before.genome.family, effort)
    if before.genome.careful and opened.violation > CHECKED_TO:
        raise SolverFault(f"the start ended {opened.violation:.2g} outside the rules")
    return opened


def ways(genome: Genome, moves: Moves) -> str:
    """Return in words how a strategy goes about it."""
    favourite = moves.operators[int(np.argmax(genome.weights))]
    losses = "accept gains only" if genome.temperature == 0.0 else f"accept losses of about {genome.temperature:g}"
    check = "" if genome.careful else ", take the solver's word"
    return f"favour {favourite} ({max(genome.weights):.0%}), {losses}{check}"
