"""Builders of runs: versions judged in this process on trees that stand in the test, and what to ask about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from builders import broom, judged_in_process

from harness.policy import Candidate, Origin, Version
from harness.propose.base import Brief, Judged
from harness.propose.edits import EditKind
from harness.propose.prompts import Ask, DevelopmentTrees
from harness.replay import Round, Stop, Trajectory
from harness.score import Evaluation, Figures, Result, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.tree import Tree

STOPS = "class Policy:\n    def __init__(self, context): ...\n    def decide(self, view): return []\n"
BREAKS = "class Policy:\n    def __init__(self, context): ...\n    def decide(self, view): return [99]\n"
OPENS = """class Policy:
    def __init__(self, context): ...
    def decide(self, view): return [0] * 4 if view.round == 1 else []
"""
FOLLOWS = """class Policy:
    def __init__(self, context): ...
    def decide(self, view): return [view.nodes[-1].id] if view.round < 4 else []
"""
TREES = tuple(broom(seed, chains=4, depth=4) for seed in range(4))


def judged(
    number: int,
    source: str,
    trees: Iterable[Tree] = TREES,
    *,
    parent: int | None = None,
    rationale: str = "",
    settings: Settings | None = None,
) -> Judged:
    """Judge a policy of our own as the version of this number."""
    candidate = Candidate(source, Origin.MODEL, rationale or f"why {number}", parent=parent)
    return Judged(Version(number, candidate, "2026-01-01T00:00:00Z"), judged_in_process(candidate, trees, settings))


def moved(number: int, value: float | None, *picks: Sequence[int], stop: Stop = Stop.POLICY_STOPPED) -> Judged:
    """Build a version of this value that picked these places, each pick revealing the next place there is."""
    place = 0
    rounds = []
    for batch in picks:
        rounds.append(Round(tuple(batch), tuple(range(place + 1, place + 1 + len(batch))), 0))
        place += len(batch)
    figures = Figures(value, value, value, place, len(rounds), 0, None, None, None, 0.0)
    result = Result("t", "t", "s", Trajectory("t", tuple(rounds), stop), figures)
    candidate = Candidate(f"# {number}\n", Origin.MODEL, f"why {number}")
    evaluation = Evaluation(candidate.digest, "in-process", Settings(), (result,))
    return Judged(Version(number, candidate, "2026-01-01T00:00:00Z"), evaluation)


def asked(history: Sequence[Judged], trees: Iterable[Tree] = TREES, **said: object) -> Ask:
    """Ask for an edit of the last version of a history whose best one is the first with the highest value."""
    found = {tree.digest: tree for tree in trees}
    best = max(history, key=lambda one: float("-inf") if one.value is None else one.value)
    brief = Brief(history[0], best, tuple(history))
    ask = Ask(brief, EditKind.BLOCKS, (history[-1],), DevelopmentTrees(found, found.__getitem__))
    return replace(ask, **said)  # type: ignore[arg-type] # fields of the record
