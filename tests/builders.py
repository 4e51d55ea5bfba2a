"""Builders of trees and policies that stand in the tests themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.tree import Attempt, Frontier, Root, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox.api import Observation


def tree(*edges: str, root: float | None = 0.0, scores: Mapping[str, float | None] | None = None, frontier: str = "leaf") -> Tree:
    """Build a tree from edges such as "root>a" in creation order; scores default to 0."""
    scores = scores or {}
    attempts = []
    for edge in edges:
        parent, child = edge.split(">")
        attempts.append(Attempt(child, None if parent == "root" else parent, scores.get(child, 0.0)))
    return Tree("built", tuple(attempts), frontier=Frontier(frontier), root=Root(score=root))


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
