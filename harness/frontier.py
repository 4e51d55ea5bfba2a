"""What has been revealed of a tree, and which of it may be picked (design.md, section 3).

Node ids here are the policy's: 0 is the root, others count up in order of revelation. `Revealed` never tells anything of a
node that has not been revealed, and each call costs the same whatever the size of the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.api import ROOT, Frontier

if TYPE_CHECKING:
    from collections.abc import Sequence


class Revealed:
    """The revealed part of one tree during one replay."""

    __slots__ = ("_children", "_open", "leaf_only", "opened", "parents", "places")

    def __init__(self, children: Sequence[Sequence[int]], frontier: Frontier) -> None:
        """Start with the root alone. `children` lists each node's children by place, in creation order."""
        self._children = children
        self.leaf_only = frontier is Frontier.LEAF
        self.places = [ROOT]
        """The place in the tree of each revealed node, by id."""
        self.parents = [-1]
        """The id of each revealed node's parent, by id."""
        self.opened = [0]
        """How many children of each revealed node are revealed, by id."""
        self._open = 1 if children[ROOT] else 0

    def __len__(self) -> int:
        return len(self.places)

    def knows(self, node: int) -> bool:
        """Return whether this id has been revealed."""
        return 0 <= node < len(self.places)

    def selectable(self, node: int) -> bool:
        """Return whether a revealed node stands on the frontier."""
        return not self.leaf_only or node == ROOT or not self.opened[node]

    @property
    def exhausted(self) -> bool:
        """Return whether nothing on the frontier has an unrevealed child."""
        return not self._open

    def reveal(self, node: int) -> int | None:
        """Reveal the picked node's first unrevealed child in creation order; return its place, None where there is none."""
        children = self._children[self.places[node]]
        opened = self.opened[node]
        if opened == len(children):
            return None
        place = children[opened]
        self.opened[node] = opened + 1
        # A leaf leaves the leaf frontier with its first child, whatever else it holds; other nodes with their last.
        if opened + 1 == len(children) or (self.leaf_only and node != ROOT):
            self._open -= 1
        if self._children[place]:
            self._open += 1
        self.places.append(place)
        self.parents.append(node)
        self.opened.append(0)
        return place
