"""The agent: one attempt opens a family of answers, or continues an earlier attempt with three small moves.

What passes from parent to child is a `State`: the answer reached and the genome, the strategy that reached it. The agent trusts
its own claims while it works; the evaluator sees one answer, at the end, and may refuse it. An attempt depends on its parent's
state and its seed alone, so the same seed gives the same score to the bit, in whatever order a scheduler asks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from search.base import AnswerFault, Array, Effort, EffortFault, Proposal, SolverFault, Task, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

MOVES = 3
NOTHING = 1e-9  # a smaller gain is none
CHECKED_TO = 1e-7  # what a careful agent lets pass as rounding
CARELESS = 0.1  # share of families that believe their solver
LEARNS = 0.7  # chance that a refusal makes a careless line careful


@dataclass(frozen=True, slots=True)
class Genome:
    """A strategy: where its line began, which operators it favours, how large a loss it accepts, whether it checks claims."""

    family: str
    weights: tuple[float, ...]
    temperature: float
    careful: bool

    @classmethod
    def draw(cls, task: Task, rng: np.random.Generator) -> Genome:
        """Return a strategy for a new line."""
        return cls(
            family=str(rng.choice(task.families)),
            weights=tuple(rng.dirichlet([0.5] * len(task.operators)).tolist()),
            temperature=float(rng.choice(task.temperatures)),
            careful=bool(rng.random() > CARELESS),
        )

    def mutated(self, rng: np.random.Generator) -> Genome:
        """Return a child's strategy: the parent's, with its preferences shifted a little."""
        weights = np.array(self.weights) * np.exp(rng.normal(0.0, 0.25, len(self.weights)))
        return replace(self, weights=tuple((weights / weights.sum()).tolist()))


@dataclass(frozen=True, slots=True)
class State:
    """What a child inherits. `answer` is None while nothing in this line has passed the evaluator."""

    genome: Genome
    answer: Array | None
    score: float | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt's outcome as it goes on record, and the state it leaves."""

    state: State
    score: float | None
    status: str
    metrics: dict[str, float]
    feedback: str
    hypothesis: str
    cpu_s: float


@dataclass(slots=True)
class _Walk:
    """The moves of one attempt: where it stands, None before a start is found, and what each move came to."""

    here: Proposal | None = None
    notes: list[str] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0


def attempt(task: Task, parent: State | None, seed: Sequence[int]) -> Attempt:
    """Make one attempt: from the root when `parent` is None, else from where the parent ended."""
    began = time.process_time()
    rng = np.random.default_rng(seed)
    genome = Genome.draw(task, rng) if parent is None else parent.genome.mutated(rng)
    planned = [str(name) for name in rng.choice(task.operators, MOVES, p=genome.weights)]
    before = State(genome, None, None) if parent is None else replace(parent, genome=genome)
    effort = Effort(task.effort)
    walk, verdict, status, trouble = _Walk(), None, "ok", ""
    try:
        verdict = task.evaluate(_walked(task, before, planned, rng=rng, effort=effort, walk=walk).answer)
    except SolverFault as fault:
        status, trouble = "failed", str(fault)
    except AnswerFault as fault:
        status, trouble = "invalid", str(fault)
    except EffortFault as fault:
        status, trouble = "timeout", str(fault)
    figures: dict[str, float] = {"effort": round(effort.spent, 3), "accepted": walk.accepted, "refused": walk.refused}
    if verdict is None or walk.here is None:
        state = replace(before, genome=_chastened(genome, status, planned, task, rng))
        feedback = _trouble(status, trouble, planned, walk)
    else:
        state = State(genome, walk.here.answer, verdict.score)
        feedback = _sentence(task, before, walk, verdict)
        figures |= verdict.metrics
    return Attempt(
        state=state,
        score=None if verdict is None else verdict.score,
        status=status,
        metrics=figures,
        feedback=feedback,
        hypothesis=_hypothesis(task, before, planned),
        cpu_s=time.process_time() - began,
    )


def _walked(task: Task, before: State, planned: list[str], *, rng: np.random.Generator, effort: Effort, walk: _Walk) -> Proposal:
    """Return where the planned moves lead; `walk` keeps what each came to, also when the attempt ends in a fault.

    Raises:
        SolverFault: no start was found, or every move failed.
        EffortFault: the work of one attempt is used up.
    """
    here = _start(task, before, rng, effort)
    walk.here = here
    sense = 1.0 if task.direction == "max" else -1.0
    for operator in planned:
        try:
            there = task.move(rng, here.answer, operator, effort)
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


def _start(task: Task, before: State, rng: np.random.Generator, effort: Effort) -> Proposal:
    """Return the parent's answer, or a new one of the family where this line has none yet."""
    if before.answer is not None and before.score is not None:
        return Proposal(before.answer, before.score, 0.0)
    opened = task.open(rng, before.genome.family, effort)
    if before.genome.careful and opened.violation > CHECKED_TO:
        raise SolverFault(f"the start ended {opened.violation:.2g} outside the rules")
    return opened


def _chastened(genome: Genome, status: str, planned: list[str], task: Task, rng: np.random.Generator) -> Genome:
    """Return what a strategy learns from a failure: check claims after a refusal, use what failed less."""
    if status == "invalid":
        return replace(genome, careful=genome.careful or bool(rng.random() < LEARNS))
    weights = np.array([w * (0.5 if name in planned else 1.0) for name, w in zip(task.operators, genome.weights, strict=True)])
    return replace(genome, weights=tuple((weights / weights.sum()).tolist()))


def _hypothesis(task: Task, before: State, planned: list[str]) -> str:
    genome = before.genome
    favourite = task.operators[int(np.argmax(genome.weights))]
    ways = "accept gains only" if genome.temperature == 0.0 else f"accept losses of about {genome.temperature:g}"
    check = "" if genome.careful else ", take the solver's word"
    if before.score is None:
        opening = f"Open a line from the family '{genome.family}'"
    else:
        opening = f"Continue the line of family '{genome.family}' from {before.score:.6f}"
    return f"{opening} with {', '.join(planned)}; favour {favourite} ({max(genome.weights):.0%}), {ways}{check}."


def _sentence(task: Task, before: State, walk: _Walk, verdict: Verdict) -> str:
    if before.score is None:
        change = f"first of family '{before.genome.family}'"
    elif abs(verdict.score - before.score) <= NOTHING:
        change = "no change"
    else:
        better = (verdict.score > before.score) == (task.direction == "max")
        change = f"{'better' if better else 'worse'} by {abs(verdict.score - before.score):.2g}"
    moves = "; ".join(walk.notes)
    return (
        f"{verdict.score:.8f} ({change}). Accepted {walk.accepted} of {len(walk.notes)} moves: {moves}. Limit: {verdict.limits}."
    )


def _trouble(status: str, trouble: str, planned: list[str], walk: _Walk) -> str:
    said = {"failed": "No answer", "invalid": "Refused", "timeout": "Stopped"}[status]
    done = f" Moves so far: {'; '.join(walk.notes)}." if walk.notes else ""
    return f"{said}: {trouble}. Planned {', '.join(planned)}.{done}"
