"""The agent: one attempt opens a family of answers, or continues an earlier attempt with three small moves.

What passes from parent to child is a `State`: the answer reached and the genome, the strategy that reached it. The agent trusts
its own claims while it works; the evaluator sees one answer, at the end, and may refuse it. An attempt depends on its parent's
state and its seed alone, so the same seed gives the same score to the bit, in whatever order a scheduler asks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from harness.agents.search.walk import NOTHING, Genome, State, Walk, walked, ways
from search.base import AnswerFault, Effort, EffortFault, SolverFault, Task, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def attempt(task: Task, parent: State | None, seed: Sequence[int]) -> Attempt:
    """Make one attempt: from the root when `parent` is None, else from where the parent ended."""
    began = time.process_time()
    rng = np.random.default_rng(seed)
    genome = Genome.draw(task, rng) if parent is None else parent.genome.mutated(rng)
    planned = genome.planned(task, rng)
    before = State(genome, None, None) if parent is None else replace(parent, genome=genome)
    effort = Effort(task.effort)
    walk, verdict, status, trouble = Walk(), None, "ok", ""
    try:
        verdict = task.evaluate(walked(task, before, planned, rng=rng, effort=effort, walk=walk).answer)
    except SolverFault as fault:
        status, trouble = "failed", str(fault)
    except AnswerFault as fault:
        status, trouble = "invalid", str(fault)
    except EffortFault as fault:
        status, trouble = "timeout", str(fault)
    figures: dict[str, float] = {"effort": round(effort.spent, 3), "accepted": walk.accepted, "refused": walk.refused}
    if verdict is None or walk.here is None:
        state = replace(before, genome=genome.chastened(status, planned, task, rng))
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


def _hypothesis(task: Task, before: State, planned: list[str]) -> str:
    genome = before.genome
    if before.score is None:
        opening = f"Open a line from the family '{genome.family}'"
    else:
        opening = f"Continue the line of family '{genome.family}' from {before.score:.6f}"
    return f"{opening} with {', '.join(planned)}; {ways(genome, task)}."


def _sentence(task: Task, before: State, walk: Walk, verdict: Verdict) -> str:
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


def _trouble(status: str, trouble: str, planned: list[str], walk: Walk) -> str:
    said = {"failed": "No answer", "invalid": "Refused", "timeout": "Stopped"}[status]
    done = f" Moves so far: {'; '.join(walk.notes)}." if walk.notes else ""
    return f"{said}: {trouble}. Planned {', '.join(planned)}.{done}"
