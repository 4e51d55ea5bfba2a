"""Take a policy through a recorded tree, showing only what its picks reveal (design.md, section 3).

Replay never invents an outcome: a pick without a recorded continuation reveals nothing, costs its round and is counted as
wasted. It has no clock and no randomness; the same picks on the same tree give the same trajectory.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from harness.frontier import Revealed
from sandbox.api import ROOT, Context, Fault, FaultKind, Limits, Observation, PolicyFault, Rule, View, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.tree import Tree
    from sandbox.api import Frontier, Outcome, Policy


class Stop(StrEnum):
    """Why a replay ended."""

    EXHAUSTED = "exhausted"
    MAX_ROUNDS = "max_rounds"
    MAX_ATTEMPTS = "max_attempts"
    POLICY_STOPPED = "policy_stopped"
    POLICY_ERROR = "policy_error"


class Round(NamedTuple):
    """One counted decision: what was picked, what it revealed (places in the tree), how many picks revealed nothing."""

    picks: tuple[int, ...]
    revealed: tuple[int, ...]
    wasted: int


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One policy taken through one tree."""

    tree: str
    """Digest of the tree."""
    rounds: tuple[Round, ...]
    stop: Stop
    fault: Fault | None = None
    ends: tuple[float, ...] = ()
    """Second in which each revealed attempt ended, where the replay itself went by a simulated clock; else empty."""

    @property
    def revealed(self) -> tuple[int, ...]:
        """Return the places of all revealed attempts in order of revelation, the root left out."""
        return tuple(place for turn in self.rounds for place in turn.revealed)

    @property
    def digest(self) -> str:
        """Return the identity of all that must repeat: the tree, each round, the end, and of a fault kind, rule and round.

        A fault's words and figures are left out: they may hold what was measured.
        """
        fault = self.fault
        end = [self.stop.value, None if fault is None else [fault.kind.value, fault.rule and fault.rule.value, fault.round]]
        canonical = json.dumps(["trajectory/1", self.tree, self.rounds, end], separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Decider(Protocol):
    """Whoever answers observations: a sandboxed policy process, or a trusted policy in this process."""

    def decide(self, observation: Observation) -> list[int]:
        """Return the ids to continue; raise `PolicyFault` where the policy broke its contract."""


class Replay:
    """One replay under way, in lock step: `observe`, then `answer`, until `stop` says why it ended."""

    __slots__ = ("_closed", "_limits", "_new", "_revealed", "rounds", "stop")

    def __init__(self, tree: Tree, limits: Limits, frontier: Frontier | None = None) -> None:
        outcomes = tree.outcomes
        self._limits = limits
        self._revealed = Revealed(tree.children, outcomes, tree.frontier if frontier is None else frontier)
        self._new: list[tuple[int, Outcome]] = [(-1, outcomes[ROOT])]
        self._closed: list[int] = []
        self.rounds: list[Round] = []
        self.stop: Stop | None = self._limit_reached()

    def observe(self) -> Observation:
        """Return what became visible since the last round, for the round that is now to be answered."""
        return Observation(len(self.rounds) + 1, self._new, self._closed)

    def answer(self, picks: Sequence[int]) -> None:
        """Serve a batch.

        Raises:
            PolicyFault: the batch breaks a rule; nothing is revealed and the round does not count.
        """
        if not picks:
            self.stop = Stop.POLICY_STOPPED
            return
        limits, revealed = self._limits, self._revealed
        refuse_broken(revealed, limits, picks)
        places = revealed.places
        picked = tuple([places[node] for node in picks])
        room = len(picks) if limits.max_attempts is None else limits.max_attempts - len(revealed) + 1
        new, self._new, self._closed = revealed.serve(picks, room)
        self.rounds.append(Round(picked, new, len(self._closed)))
        if not revealed.open or limits.max_attempts is not None or len(self.rounds) >= limits.max_rounds:
            self.stop = self._limit_reached()

    def _limit_reached(self) -> Stop | None:
        revealed, limits = self._revealed, self._limits
        if not revealed.open:
            return Stop.EXHAUSTED
        if len(self.rounds) >= limits.max_rounds:
            return Stop.MAX_ROUNDS
        if limits.max_attempts is not None and len(revealed) > limits.max_attempts:
            return Stop.MAX_ATTEMPTS
        return None


def refuse_broken(revealed: Revealed, limits: Limits, picks: Sequence[int]) -> None:
    """Refuse a batch that breaks a rule of picking, in a replay or live.

    Raises:
        PolicyFault: the first rule that it breaks, with the pick that breaks it.
    """
    if len(picks) > limits.max_batch:
        message = f"a batch may hold {limits.max_batch} picks and this one holds more"
        raise PolicyFault(Fault(FaultKind.BAD_ANSWER, message, rule=Rule.BATCH_TOO_LARGE))
    broken = revealed.broken_rule(picks)
    if broken is not None:
        rule, node = broken
        shown = node if abs(node) < _LONGEST else f"of {node.bit_length()} bits"
        message = _BROKEN[rule].format(node=shown, last=len(revealed) - 1)
        raise PolicyFault(Fault(FaultKind.BAD_ANSWER, message, rule=rule))


_BROKEN = {
    Rule.UNKNOWN_NODE: "node {node} has not been revealed; ids run from 0 to {last}",
    Rule.NOT_SELECTABLE: "node {node} has been continued; on the leaf frontier only the root and leaves may be picked",
    Rule.DUPLICATE_PICK: "leaf {node} stands twice in one batch; on the leaf frontier only the root may",
}
_LONGEST = 2**64  # Python refuses to write out integers of thousands of digits
_BEFORE_ROUNDS = frozenset({FaultKind.REFUSED_AT_CHECK, FaultKind.LOAD_FAULT})


def replay(tree: Tree, decider: Decider, limits: Limits, frontier: Frontier | None = None) -> Trajectory:
    """Take a decider through a tree to its end. `frontier` of None takes the tree's own."""
    run = Replay(tree, limits, frontier)
    try:
        while run.stop is None:
            run.answer(decider.decide(run.observe()))
    except PolicyFault as fault:
        return faulted(tree, tuple(run.rounds), fault)
    return Trajectory(tree.digest, tuple(run.rounds), run.stop)


def faulted(tree: Tree, rounds: tuple[Round, ...], fault: PolicyFault, ends: tuple[float, ...] = ()) -> Trajectory:
    """Return the trajectory of a policy that broke its contract after these rounds."""
    # A policy that could not be loaded has decided nothing, whichever round asked for it.
    deciding = None if fault.fault.kind in _BEFORE_ROUNDS else len(rounds) + 1
    return Trajectory(tree.digest, rounds, Stop.POLICY_ERROR, replace(fault.fault, round=deciding), ends)


Play: TypeAlias = "Callable[[Tree, Decider, Limits, Frontier | None], Trajectory]"
"""How a decider is taken through a tree: `replay`, or another way that invents no outcome either."""


class InProcess:
    """A trusted policy in this process: for benchmarks and for policies of our own. Never for code of unknown origin."""

    __slots__ = ("_decide", "_view")

    def __init__(self, policy: Callable[[Context], Policy], context: Context) -> None:
        self._view = View(context.frontier)
        self._decide = policy(context).decide

    def decide(self, observation: Observation) -> list[int]:
        """Return the policy's picks."""
        return batch_of(self._decide(self._view.update(observation)))
