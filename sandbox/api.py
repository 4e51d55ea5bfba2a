"""What a policy may see and say: the interface of design.md, section 4, and the outcomes of section 5.

This module runs on both sides. Inside the sandbox the guest builds a `View` from the observations it receives; outside,
trusted in-process replays build the same `View` from the same observations. It imports the standard library only, since the
sandbox image holds nothing else. What is not in an `Observation` cannot be reached from a `View`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = 0
FEEDBACK_CHARACTERS = 2_000
HYPOTHESIS_CHARACTERS = 500
METRICS = 1_000
METRIC_CHARACTERS = 200  # of its name

# What a node shows once revealed: score (larger is better), status, metrics, feedback, (seconds, tokens, usd), hypothesis.
# Exact tuples and dicts, not records: they cross to the sandbox through marshal, which knows no subclasses.
Outcome: TypeAlias = tuple[float | None, str, dict[str, float], str, tuple[float | None, float | None, float | None], str]


class Frontier(StrEnum):
    """Which nodes may be picked: root and revealed leaves, or root and every revealed node."""

    LEAF = "leaf"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds one replay; a policy reads them as `context.limits`. `max_attempts` of None means no limit."""

    max_rounds: int = 200
    max_batch: int = 8
    max_attempts: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a policy is constructed with."""

    params: Mapping[str, Any]
    seed: int
    limits: Limits
    frontier: str


class Observation(NamedTuple):
    """What became visible since the last round; the first one holds the root alone.

    `revealed` lists (parent id, outcome) in order of revelation: a node's id is its place among all revealed ones, so ids
    need not cross. The root's parent is -1. `closed` lists ids whose last pick revealed nothing, `pending` ids in flight.
    """

    round: int
    revealed: Sequence[tuple[int, Outcome]]
    closed: Sequence[int] = ()
    pending: Sequence[int] = ()


class Cost(NamedTuple):
    """What an attempt cost; each figure may be unknown."""

    seconds: float | None
    tokens: float | None
    usd: float | None


class ReadOnlyList(list[Any]):
    """A list that refuses the usual ways of changing it, since `view.nodes.sort()` would renumber the policy's own nodes."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        message = "this list belongs to the view and cannot be changed; make your own with list(...) or sorted(...)"
        raise TypeError(message)

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


_append = list.append


class Node:
    """One revealed node. Ids count up in order of revelation; the root is 0.

    `branch` is the id of the root's child it descends from, 0 for the root itself. What few policies read is made when asked
    for, so that revealing a node stays cheap.
    """

    __slots__ = ("_children", "_metrics", "_outcome", "branch", "closed", "depth", "id", "parent", "round", "score")

    def __init__(self, node_id: int, parent: Node | None, outcome: Outcome, revealed_in: int) -> None:
        self.id = node_id
        if parent is None:
            self.parent: int | None = None
            self.depth: int = 0
            self.branch: int = ROOT
        else:
            self.parent = parent.id
            self.depth = parent.depth + 1
            self.branch = parent.branch or node_id
        self.round = revealed_in
        self.score = outcome[0]
        self.closed = False
        self._outcome = outcome
        self._children: list[int] | None = None
        self._metrics: dict[str, float] | None = None

    @property
    def children(self) -> list[int]:
        """Return the ids of its revealed children, in order of revelation."""
        return [] if self._children is None else self._children

    @property
    def status(self) -> str:
        """Return how the attempt ended: "ok", "failed", "timeout" or "invalid"."""
        return self._outcome[1]

    @property
    def metrics(self) -> dict[str, float]:
        """Return the evaluator's numbers."""
        if self._metrics is None:
            # A copy: in trusted in-process replays the outcome belongs to the tree and outlives this replay.
            self._metrics = dict(self._outcome[2])
        return self._metrics

    @property
    def feedback(self) -> str:
        """Return the evaluator's text."""
        return self._outcome[3]

    @property
    def cost(self) -> Cost:
        """Return what the attempt cost."""
        return Cost._make(self._outcome[4])

    @property
    def hypothesis(self) -> str:
        """Return what the attempt set out to try; may be empty."""
        return self._outcome[5]

    def __repr__(self) -> str:
        return f"Node(id={self.id}, parent={self.parent}, score={self.score}, status={self.status!r})"


class View:
    """All that has been revealed so far. One view serves a whole replay and grows with each observation.

    Work per round is in proportion to what is new: `nodes`, `new` and `best` are kept up to date, `leaves` and
    `selectable` are built when asked for and are the caller's own lists.
    """

    __slots__ = ("_any", "_leaves", "best", "new", "nodes", "pending", "round")

    def __init__(self, frontier: str) -> None:
        self._any = frontier == Frontier.ANY
        self._leaves: dict[int, Node] = {}
        self.round = 0
        self.nodes: ReadOnlyList = ReadOnlyList()
        self.new: list[Node] = []
        self.best: Node | None = None
        self.pending: list[int] = []

    def update(self, observation: Observation) -> View:
        """Take in what the last round revealed and return this view, ready for the round being decided."""
        return self.take(*observation)

    def take(
        self, number: int, revealed: Sequence[tuple[int, Outcome]], closed: Sequence[int] = (), pending: Sequence[int] = ()
    ) -> View:
        """Do what `update` does, with an observation in its parts."""
        nodes, leaves, best = self.nodes, self._leaves, self.best
        revealed_in = self.round
        new = []
        for parent_id, outcome in revealed:
            parent = nodes[parent_id] if parent_id >= 0 else None
            node = Node(len(nodes), parent, outcome, revealed_in)
            _append(nodes, node)
            new.append(node)
            if parent is not None:
                if parent._children is None:  # noqa: SLF001 - the view keeps its nodes' books
                    parent._children = [node.id]  # noqa: SLF001
                else:
                    parent._children.append(node.id)  # noqa: SLF001
                leaves.pop(parent_id, None)
                leaves[node.id] = node
            if node.score is not None and (best is None or best.score is None or node.score > best.score):
                best = node
        for node_id in closed:
            nodes[node_id].closed = True
        self.round = number
        self.new = new
        self.best = best
        self.pending = list(pending)
        return self

    @property
    def attempts(self) -> int:
        """Return the number of revealed attempts: all nodes but the root."""
        return len(self.nodes) - 1

    @property
    def leaves(self) -> list[Node]:
        """Return the revealed nodes without revealed children, root left out, in order of revelation."""
        return list(self._leaves.values())

    @property
    def selectable(self) -> list[int]:
        """Return the ids that may be picked now: root and leaves, or every revealed node on the `any` frontier."""
        return list(range(len(self.nodes))) if self._any else [ROOT, *self._leaves]


class Policy(Protocol):
    """What a policy file defines as `class Policy`."""

    def __init__(self, context: Context) -> None:
        """Start afresh: nothing survives from another replay."""

    def decide(self, view: View) -> list[int]:
        """Return the ids to continue, in order; an empty list ends the search."""


class FaultKind(StrEnum):
    """How an untrusted policy broke its contract (design.md, section 5)."""

    REFUSED_AT_CHECK = "refused-at-check"
    LOAD_FAULT = "load-fault"
    EXCEPTION = "exception"
    BAD_ANSWER = "bad-answer"
    DECISION_TIMEOUT = "decision-timeout"
    REPLAY_TIMEOUT = "replay-timeout"
    OUT_OF_MEMORY = "out-of-memory"
    PROCESS_LIMIT = "process-limit"
    OUTPUT_FLOOD = "output-flood"
    EXITED = "exited"
    KILLED_BY_SECCOMP = "killed-by-seccomp"
    PROTOCOL_FAULT = "protocol-fault"
    NONDETERMINISTIC = "nondeterministic"


class Rule(StrEnum):
    """The rule of replay that a bad answer broke, in the order in which they are checked."""

    NOT_A_LIST = "not_a_list"
    BATCH_TOO_LARGE = "batch_too_large"
    UNKNOWN_NODE = "unknown_node"
    NOT_SELECTABLE = "not_selectable"
    DUPLICATE_PICK = "duplicate_pick"


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken contract with its evidence.

    `round` is the round being decided, None before the first; `traceback` holds the policy's own frames only; `figures` are
    measured against a limit, unit in the name (`cpu_s`, `memory_bytes`).
    """

    kind: FaultKind
    message: str
    rule: Rule | None = None
    round: int | None = None
    traceback: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


class PolicyFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """Raised where an untrusted policy broke its contract; replay turns it into a record.

    `output` is the tail of what it printed, where no `GuestReplay` is there to be asked: it could not be loaded.
    """

    def __init__(self, fault: Fault, output: str = "") -> None:
        super().__init__(f"{fault.kind}: {fault.message}")
        self.fault = fault
        self.output = output


def batch_of(answer: object) -> list[int]:
    """Return a policy's answer as a plain list, or raise the fault `not_a_list`.

    A list or tuple of exact ints: bool, subclasses with tricks and other iterables are refused before they are iterated.
    """
    if type(answer) is list or type(answer) is tuple:
        for pick in answer:
            if type(pick) is not int:
                break
        else:
            return answer if type(answer) is list else list(answer)
    shown = f"{type(answer).__name__}"
    if type(answer) in (list, tuple):
        odd = next(type(pick).__name__ for pick in answer if type(pick) is not int)  # type: ignore[attr-defined]
        shown += f" with an element of type {odd}"
    raise PolicyFault(Fault(FaultKind.BAD_ANSWER, f"decide returned a {shown}; expected a list of int", rule=Rule.NOT_A_LIST))
