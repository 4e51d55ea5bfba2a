"""Replay a recorded tree as a live search in async mode goes: a freed worker asks at once, by the seconds that were recorded.

The rules of asking, serving and revealing are those of the live search. Attempts take the seconds that they took, deciding takes
none, and an outcome that was not recorded is not invented: such a pick reveals nothing and shows its node as closed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from harness.clock import lasting
from harness.explore.live import LiveTree
from harness.replay import Round, Stop, Trajectory, faulted
from sandbox.api import ROOT, Frontier, PolicyFault

if TYPE_CHECKING:
    from harness.replay import Decider, Play
    from harness.tree import Tree
    from sandbox.api import Limits


def asking_at_once(workers: int) -> Play:
    """Return what takes a policy through a tree with so many workers; the trajectory says when each attempt ended.

    Raises:
        ValueError: there is no worker.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}; expected at least 1")
    return partial(_played, workers=workers)


def _played(tree: Tree, decider: Decider, limits: Limits, frontier: Frontier | None = None, *, workers: int) -> Trajectory:
    run = _Slots(tree, limits, tree.frontier if frontier is None else frontier, workers)
    try:
        stop = run.going(decider)
    except PolicyFault as fault:
        return faulted(tree, run.rounds(), fault, ends=tuple(run.ends))
    return Trajectory(tree.digest, run.rounds(), stop, ends=tuple(run.ends))


class _Flight(NamedTuple):
    """An attempt under way. Of those that end together, the one that was asked for first comes first."""

    ends: float
    number: int
    node: int
    place: int


@dataclass(slots=True)
class _Turn:
    """A counted decision, and what was revealed between it and the next one."""

    picks: list[int]
    revealed: list[int] = field(default_factory=list)
    wasted: int = 0


class _Slots:
    def __init__(self, tree: Tree, limits: Limits, frontier: Frontier, workers: int) -> None:
        self._tree, self._limits, self._workers = tree, limits, workers
        self._leaf_only = frontier is Frontier.LEAF
        self._seen = LiveTree(tree.outcomes[ROOT], limits, frontier)
        self._lasts = lasting(tree)
        self._places = [ROOT]
        """The place in the tree of each revealed node, by the policy's id."""
        self._taken = [0]
        """How many children of each revealed node have been asked for, by id."""
        self._open = {ROOT} if tree.children[ROOT] else set()
        """Nodes on the frontier with a recorded child that nobody has asked for."""
        self._flights: list[_Flight] = []
        self._asked = 0
        self._now = 0.0
        self._turns: list[_Turn] = []
        self.ends: list[float] = []

    def rounds(self) -> tuple[Round, ...]:
        """Return the counted decisions so far."""
        return tuple(Round(tuple(turn.picks), tuple(turn.revealed), turn.wasted) for turn in self._turns)

    def going(self, decider: Decider) -> Stop:
        """Ask whenever a worker is free, unless the policy wants nothing until something has ended.

        Raises:
            PolicyFault: the policy broke its contract; what is under way is lost.
        """
        is_waiting = False
        while True:
            stop = self._limit_reached()
            if stop is None and not is_waiting and len(self._flights) < self._workers:
                pending = tuple(flight.node for flight in sorted(self._flights, key=lambda one: one.number))
                batch = decider.decide(self._seen.observe(len(self._turns) + 1, pending))
                self._seen.admit(batch)
                if not batch and not self._flights:
                    return Stop.POLICY_STOPPED
                is_waiting = self._serve(batch, pending) == 0 and bool(self._flights)
            elif self._flights:
                self._land()
                is_waiting = False
            else:
                return stop or Stop.POLICY_STOPPED

    def _limit_reached(self) -> Stop | None:
        if not self._open:
            return Stop.EXHAUSTED
        if len(self._turns) >= self._limits.max_rounds:
            return Stop.MAX_ROUNDS
        if self._is_full():
            return Stop.MAX_ATTEMPTS
        return None

    def _is_full(self) -> bool:
        return self._limits.max_attempts is not None and self._asked >= self._limits.max_attempts

    def _serve(self, batch: list[int], pending: tuple[int, ...]) -> int:
        """Start what was picked as far as workers are free, and return how many attempts that are."""
        turn, started = _Turn([]), 0
        for node in batch:
            if len(self._flights) >= self._workers or self._is_full():
                break
            if self._seen.is_taken(node, pending):
                continue
            children = self._tree.children[self._places[node]]
            turn.picks.append(self._places[node])
            if self._taken[node] == len(children):
                self._seen.close(node)
                turn.wasted += 1
                continue
            place = children[self._taken[node]]
            self._taken[node] += 1
            if self._taken[node] == len(children) or (self._leaf_only and node != ROOT):
                self._open.discard(node)
            self._asked += 1
            started += 1
            heapq.heappush(self._flights, _Flight(self._now + self._lasts[place - 1], self._asked, node, place))
        if turn.picks:
            self._turns.append(turn)
        return started

    def _land(self) -> None:
        """Go to when the next attempt ends, and reveal it and all that end with it."""
        self._now = self._flights[0].ends
        while self._flights and self._flights[0].ends == self._now:
            flight = heapq.heappop(self._flights)
            node = self._seen.reveal(flight.node, self._tree.outcomes[flight.place])
            self._places.append(flight.place)
            self._taken.append(0)
            if self._tree.children[flight.place]:
                self._open.add(node)
            self._turns[-1].revealed.append(flight.place)
            self.ends.append(self._now)
