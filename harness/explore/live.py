"""The growing tree of a live search, with the rules of replay: what a policy may pick, and what it is shown of it.

Only what has ended is revealed. A pick that can reveal nothing, for its leaf is done, costs its place in the round and shows the
node as closed, as it would in a replay of the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.frontier import Revealed
from harness.replay import refuse_broken
from sandbox.api import ROOT, Frontier, Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.api import Limits, Outcome


class LiveTree:
    """What has been revealed so far. Ids are the policy's: 0 is the root, others count up in order of revelation."""

    def __init__(self, root: Outcome, limits: Limits, frontier: Frontier, *, close_terminal: bool = False) -> None:
        self._children: list[list[int]] = [[]]
        self._outcomes: list[Outcome] = [root]
        self._revealed = Revealed(self._children, self._outcomes, frontier)
        self._limits = limits
        self._leaf_only = frontier is Frontier.LEAF
        self._close_terminal = close_terminal
        self._done: set[int] = set()
        self._new: list[tuple[int, Outcome]] = [(-1, root)]
        self._closed: list[int] = []
        self._all: list[tuple[int, Outcome]] = [(-1, root)]
        self._all_closed: list[int] = []

    def __len__(self) -> int:
        return len(self._revealed) - 1

    def admit(self, picks: Sequence[int]) -> None:
        """Refuse a batch that breaks a rule.

        Raises:
            PolicyFault: it does; nothing has changed.
        """
        refuse_broken(self._revealed, self._limits, picks)

    def is_done(self, node: int) -> bool:
        """Return whether picking this node reveals nothing: its attempt said that the branch is done."""
        return node in self._done

    def observe(self, number: int, pending: Sequence[int] = ()) -> Observation:
        """Return what became visible since the last observation, for this round."""
        observation = Observation(number, self._new, self._closed, tuple(pending))
        self._new, self._closed = [], []
        return observation

    def observe_all(self, number: int, pending: Sequence[int] = ()) -> Observation:
        """Return everything that is visible, for a policy that has seen nothing of it yet."""
        self._new, self._closed = [], []
        return Observation(number, list(self._all), list(self._all_closed), tuple(pending))

    def reveal(self, parent: int, outcome: Outcome, *, terminal: bool = False) -> int:
        """Add what an attempt from this node came to, and return its id."""
        place = len(self._outcomes)
        self._children[self._revealed.places[parent]].append(place)
        self._children.append([])
        self._outcomes.append(outcome)
        self._revealed.serve((parent,), 1)
        self._new.append((parent, outcome))
        self._all.append((parent, outcome))
        node = len(self._revealed) - 1
        if terminal and self._close_terminal:
            self._done.add(node)
        return node

    def close(self, node: int) -> None:
        """Show a node as closed: it was picked, and reveals nothing more."""
        self._closed.append(node)
        self._all_closed.append(node)

    def is_taken(self, node: int, pending: Sequence[int]) -> bool:
        """Return whether a pick of this node is in flight already and cannot be made twice."""
        return self._leaf_only and node != ROOT and node in pending
