"""Builders of trees and policies that stand in the tests themselves."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from harness.gate.verdict import Bounds, GroupDifference, Look, Outcome, Part, PartName, TreeDifference, Verdict
from harness.replay import InProcess, replay
from harness.score import Evaluation, Result, Settings, figures
from harness.tree import Attempt, Root, Tree
from sandbox.api import Context, Frontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.policy import Candidate
    from sandbox.api import Observation


def tree(
    *edges: str,
    root: float | None = 0.0,
    scores: Mapping[str, float | None] | None = None,
    frontier: str = "leaf",
    metrics: Mapping[str, float] | None = None,
) -> Tree:
    """Build a tree from edges such as "root>a" in creation order; scores default to 0, `metrics` are the root's."""
    scores = scores or {}
    attempts = []
    for edge in edges:
        parent, child = edge.split(">")
        attempts.append(Attempt(child, None if parent == "root" else parent, scores.get(child, 0.0)))
    return Tree("built", tuple(attempts), frontier=Frontier(frontier), root=Root(score=root, metrics=metrics or {}))


class Scripted:
    """Answers the rounds with these batches in order and [] past their end; the names are recorded ids.

    A name that has not been revealed is answered with an id that does not exist.
    """

    def __init__(self, on: Tree, script: Sequence[Sequence[str]]) -> None:
        self._batches = list(script)
        self._outcomes = {id(outcome): place for place, outcome in enumerate(on.outcomes)}
        self._names: dict[str, int] = {}
        self._tree = on

    def decide(self, observation: Observation) -> list[int]:
        """Return the next batch."""
        for _, outcome in observation.revealed:
            (name,) = self._tree.ids([self._outcomes[id(outcome)]])
            self._names[name] = len(self._names)
        if not self._batches:
            return []
        return [self._names.get(name, 2**32 - 1) for name in self._batches.pop(0)]


def broom(seed: int, chains: int, depth: int) -> Tree:
    """Build a seeded tree of chains in which a good start tends to become a good end; one attempt in eight failed."""
    rng = random.Random(seed)  # noqa: S311 - test data, no secret
    attempts = []
    tips: list[tuple[str | None, float]] = [(None, rng.random()) for _ in range(chains)]
    for step in range(depth):
        for chain, (tip, score) in enumerate(tips):
            climbed = score + rng.random() / (step + 2)
            failed = rng.randrange(8) == 0
            name = f"c{chain}-{step}"
            attempts.append(Attempt(name, tip, None if failed else climbed, "failed" if failed else "ok"))
            tips[chain] = (name, score if failed else climbed)
    return Tree(f"broom-{seed}", tuple(attempts), task=f"task-{seed % 2}", root=Root(score=0.0))


def judged_in_process(candidate: Candidate, trees: Iterable[Tree], settings: Settings | None = None) -> Evaluation:
    """Evaluate a trusted candidate in this process; it ends with the first fault, as in a sandbox."""
    settings = settings or Settings()
    names: dict[str, Any] = {}
    exec(candidate.source, names)  # noqa: S102 - templates of our own, trusted
    results = []
    for on in trees:
        decider = InProcess(names["Policy"], Context({}, settings.seed, settings.limits, on.frontier.value))
        trajectory = replay(on, decider, settings.limits)
        worth = figures(trajectory, on, settings)
        results.append(Result(on.digest, on.name, on.system, trajectory, worth, task=on.task))
        if trajectory.fault is not None:
            break
    return Evaluation(candidate.digest, "in-process", settings, tuple(results))


def verdict(candidate: str, incumbent: str, *, outcome: Outcome = Outcome.PASS, look: Look | None = None) -> Verdict:
    """Build a verdict about two policies by digest, on one tree."""
    parts = (Part(PartName.GAIN, outcome, "gains +0.0100", {"p": 1e-17, "trees": 1, "why": "x", "none": None}),)
    trees = (TreeDifference("d" * 64, "a tree", "task", 0.1 + 0.2, 0.2, 0.1, None),)
    groups = (GroupDifference("task", 1, 0.1, 0.0),)
    left_out = (("t0", "a development tree"),)
    reason = {Outcome.PASS: "better", Outcome.REFUSE: "worse", Outcome.CANNOT_TELL: "too few trees"}[outcome]
    return Verdict(outcome, reason, parts, candidate, incumbent, look, trees, groups, left_out, Settings(), Bounds(), "docker")
