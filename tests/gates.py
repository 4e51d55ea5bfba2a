"""Builders of evaluations for the gate: what matters is stated, the rest is ordinary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.gate.judge import judge
from harness.gate.spending import level
from harness.gate.verdict import Bounds, Look, PartName, Verdict
from harness.replay import Round, Stop, Trajectory
from harness.score import Evaluation, Figures, Result, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sandbox.api import Fault

FIRST = Look(1, level(0.05, 1), 0.0, 0.05 - level(0.05, 1))


def digest(place: int) -> str:
    """Return the digest of the tree in this place."""
    return f"{place:02d}".ljust(64, "0")


def result(place: int, value: float | None, quality: float | None = None, *, wasted: int = 0, cpu_s: float = 0.001) -> Result:
    """Build the result of a replay of one round that revealed one attempt; the quality is the value unless stated."""
    quality = value if quality is None else quality
    figures = Figures(value, quality, quality, 1, 1, wasted, 1, 1, quality, wasted / (1 + wasted))
    trajectory = Trajectory(digest(place), (Round((0,), (1,), wasted),), Stop.EXHAUSTED)
    return Result(digest(place), f"t{place}", "built", trajectory, figures, cpu_s=cpu_s)


def faulted(place: int, fault: Fault) -> Result:
    """Build the result of a replay that a fault ended."""
    sound = result(place, None)
    return replace(sound, trajectory=Trajectory(digest(place), (), Stop.POLICY_ERROR, fault))


def evaluation(results: Iterable[Result], policy: str = "candidate", sandbox: str = "docker", **settings: Any) -> Evaluation:
    """Build an evaluation of these results."""
    return Evaluation(policy, sandbox, Settings(**settings), tuple(results))


def valued(values: Sequence[float | None], policy: str = "candidate", **how: Any) -> Evaluation:
    """Build an evaluation with these values, one for each tree."""
    return evaluation([result(place, value, **how) for place, value in enumerate(values)], policy)


def judged(
    candidate: Evaluation | Sequence[float],
    incumbent: Evaluation | Sequence[float] | None = None,
    groups: Sequence[str] | Mapping[str, str] | None = None,
    look: Look = FIRST,
    **bounds: Any,
) -> Verdict:
    """Judge two evaluations, or two lists of values; by default the incumbent's values are zero and all trees of one group."""
    ours = candidate if isinstance(candidate, Evaluation) else valued(candidate)
    if incumbent is None:
        incumbent = [0.0] * len(ours.results)
    theirs = incumbent if isinstance(incumbent, Evaluation) else valued(incumbent, "incumbent")
    if groups is None:
        groups = dict.fromkeys((one.tree for one in theirs.results), "all")
    named = groups if hasattr(groups, "keys") else {digest(place): group for place, group in enumerate(groups)}
    return judge(ours, theirs, named, Bounds(**bounds), look)


def answer(verdict: Verdict, name: PartName) -> str:
    """Return one part's outcome."""
    part = verdict.part(name)
    return "not asked" if part is None else part.outcome.value
