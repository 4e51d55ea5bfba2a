"""What has been revealed of a tree, and which of it may be picked (design.md, section 3).

Node ids here are the policy's: 0 is the root, others count up in order of revelation. `Revealed` never tells anything of a
node that has not been revealed, and each call costs the same whatever the size of the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sandbox.api import ROOT, Frontier, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.api import Outcome


class Served(NamedTuple):
    """What a batch revealed: places in the tree, what to show of them (parent id, outcome), and ids that had nothing left."""

    places: tuple[int, ...]
    shown: list[tuple[int, Outcome]]
    empty: list[int]


class Revealed:
    """The revealed part of one tree during one replay."""

    __slots__ = ("_children", "_leaf_only", "_outcomes", "open", "opened", "places")

    def __init__(self, children: Sequence[Sequence[int]], outcomes: Sequence[Outcome], frontier: Frontier) -> None:
        """Start with the root alone. `children` (in creation order) and `outcomes` are listed by place in the tree."""
        self._children = children
        self._outcomes = outcomes
        self._leaf_only = frontier is Frontier.LEAF
        self.places = [ROOT]
        """The place in the tree of each revealed node, by id."""
        self.opened = [0]
        """How many children of each revealed node are revealed, by id."""
        self.open = 1 if children[ROOT] else 0
        """How many nodes on the frontier have an unrevealed child; 0 ends the replay."""

    def __len__(self) -> int:
        return len(self.places)

    def broken_rule(self, picks: Sequence[int]) -> tuple[Rule, int] | None:
        """Return the first rule of picking that this batch breaks and the pick that breaks it."""
        opened, leaf_only = self.opened, self._leaf_only
        count = len(opened)
        # One pass for a good batch; only a bad one is looked at rule by rule.
        for node in picks:
            if not 0 <= node < count or (leaf_only and node != ROOT and opened[node]):
                break
        else:
            if not leaf_only or len(picks) == 1 or len(set(picks)) == len(picks):
                return None
        return self._first_broken(picks)

    def _first_broken(self, picks: Sequence[int]) -> tuple[Rule, int] | None:
        count = len(self.opened)
        inner = [node for node in picks if node != ROOT]
        for node in picks:
            if not 0 <= node < count:
                return Rule.UNKNOWN_NODE, node
        for node in inner if self._leaf_only else ():
            if self.opened[node]:
                return Rule.NOT_SELECTABLE, node
        for place, node in enumerate(inner if self._leaf_only else ()):
            if node in inner[:place]:
                return Rule.DUPLICATE_PICK, node
        return None

    def serve(self, picks: Sequence[int], room: int) -> Served:
        """Reveal, in order, each picked node's first unrevealed child in creation order.

        Picks must be known and selectable. Once `room` children have been revealed, the remaining picks are dropped.
        """
        recorded, outcomes, places, opened = self._children, self._outcomes, self.places, self.opened
        leaf_only = self._leaf_only
        revealed: list[int] = []
        shown: list[tuple[int, Outcome]] = []
        empty: list[int] = []
        for node in picks:
            if len(revealed) == room:
                break
            children = recorded[places[node]]
            taken = opened[node]
            if taken == len(children):
                empty.append(node)
                continue
            place = children[taken]
            taken += 1
            opened[node] = taken
            # A leaf leaves the leaf frontier with its first child, whatever else it holds; other nodes with their last.
            if taken == len(children) or (leaf_only and node != ROOT):
                self.open -= 1
            if recorded[place]:
                self.open += 1
            places.append(place)
            opened.append(0)
            revealed.append(place)
            shown.append((node, outcomes[place]))
        return Served(tuple(revealed), shown, empty)
