"""Several independent tries at one pick, of which one is kept.

Each try is a whole attempt of its own: workspace, agent call, evaluation. Nothing passes between them, and what the losers did
stays as data of the node that is kept. With n = 1 nothing of this runs: the one attempt is made as it is without rollouts.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from harness.errors import HarnessError, InputError
from harness.explore.selectors import NOTHING_SPENT, Choice, Try, best_score, choose
from harness.tree import Attempt, Direction, Root, Tree
from sandbox.api import FEEDBACK_CHARACTERS, Cost
from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future

    from harness.explore.selectors import Selector

STRATEGIES = (
    "Put correctness first: make the most careful change that is sure to be valid.",
    "Make the smallest change that can help.",
    "Look for what is special: edge cases, extremes, the part that nobody changed yet.",
)
_UNFINISHED = Cost(None, None, None)
_SLICE_S = 0.05


class RolloutsFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """No try at a pick came to anything. `reports` has them all; the first one's exception, if any, is the cause."""

    def __init__(self, reports: Sequence[TryReport], stopped: str = "") -> None:
        said = "; ".join(f"try {one.index}: {one.words or one.status}" for one in reports)
        super().__init__(f"none of {len(reports)} tries succeeded ({said})" if reports else f"no try was started: {stopped}")
        self.reports = tuple(reports)

    def attempt(self, node: str, parent: str | None, snapshot: str) -> Attempt:
        """Return the node that says so: without a score, with its parent's workspace and what every try cost."""
        statuses = {report.status for report in self.reports}
        return Attempt(
            id=node,
            parent=parent,
            score=None,
            status="timeout" if statuses == {"timeout"} else "failed",
            feedback=str(self)[:FEEDBACK_CHARACTERS],
            cost=total([report.cost for report in self.reports])._asdict(),
            snapshot=snapshot,
            created_at=round(time.time(), 3),
            extra={"rollouts": [report_fields(report) | {"winner": False} for report in self.reports]},
        )


class RolloutsCancelledError(HarnessError):
    """The caller wanted no more of this pick; every try was ended first."""


class Retention(StrEnum):
    """Whose workspaces are kept."""

    WINNER = "winner"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Rollouts:
    """How a pick is served by several tries. Times are in seconds; `max_parallel` of 0 starts all at once.

    `escalate` starts with so many tries and adds one at a time while none has succeeded; 0 starts all of them. `early_stop` ends
    the others as soon as one has succeeded, by the clock and not by index.

    Raises:
        InputError: on construction, naming the field.
    """

    n: int = 1
    strategies: tuple[str, ...] = STRATEGIES
    selector: str = "best_score"
    max_parallel: int = 0
    timeout_s: float = 600.0
    deadline_s: float | None = None
    early_stop: bool = False
    escalate: int = 0
    retention: Retention = Retention.WINNER

    def __post_init__(self) -> None:
        _require_whole("rollouts", self.n, least=1)
        _require_whole("rollout_parallel", self.max_parallel, least=0)
        _require_whole("rollout_escalate", self.escalate, least=0)
        for name, seconds in (("rollout_timeout_s", self.timeout_s), ("rollout_deadline_s", self.deadline_s)):
            if seconds is not None and not 0 < seconds < math.inf:
                raise InputError(f"{name} is {seconds}; expected a number above 0")
        if isinstance(self.strategies, str) or not self.strategies:
            raise InputError(f"rollout_strategies is {self.strategies!r}; expected a list of at least one text")
        for place, strategy in enumerate(self.strategies):
            if not isinstance(strategy, str) or not strategy.strip():
                raise InputError(f"rollout_strategies[{place}] is {strategy!r}; expected a text that is not blank")

    @property
    def on(self) -> bool:
        """Return whether there is more than one try: the one condition that every entry asks."""
        return self.n > 1

    def strategy(self, index: int) -> str:
        """Return what the try with this index is told; strategies repeat in order."""
        return self.strategies[index % len(self.strategies)]

    def warning(self) -> str | None:
        """Return what is odd about these settings, None where nothing is."""
        if self.n > len(self.strategies):
            return (
                f"{self.n} tries share {len(self.strategies)} strategies; those that are told the same differ by their seed alone"
            )
        return None


@dataclass(frozen=True, slots=True)
class Made:
    """A whole attempt as it was made: the node it would be, and what the agent said."""

    attempt: Attempt
    output: str = ""


class Making(Protocol):
    """Makes one whole attempt in a workspace of its own. Called from several threads at once."""

    def __call__(self, index: int, strategy: str, timeout_s: float, cancel: threading.Event) -> Made | None:
        """Return the attempt; None, or an attempt whose status is not "ok", counts as failed.

        It ends soon after `cancel` is set, with everything that it started.
        """


Forbidden: TypeAlias = "Callable[[Sequence[Cost]], str | None]"
"""Given what the tries at this pick that have ended cost, says which budget forbids another one; None where none does."""


@dataclass(frozen=True, slots=True)
class TryReport:
    """What became of one try. `status` is the node's own, or "timeout" and "cancelled" by us; `by` says whose time-out it was."""

    index: int
    strategy: str
    status: str
    score: float | None
    seconds: float
    cost: Cost
    words: str = ""
    by: str = ""
    snapshot: str | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class RolledOut:
    """The attempt that is kept, what became of every try, and all that they cost together. None of it is lost."""

    attempt: Attempt
    reports: tuple[TryReport, ...]
    choice: Choice
    stopped: str = ""
    """Why no more tries were started, where fewer than n were."""


def is_ok(made: Made | None) -> bool:
    """Return whether an attempt succeeded: whether the evaluator says so."""
    return made is not None and made.attempt.status == "ok"


@dataclass(frozen=True, slots=True)
class Roller:
    """Serves picks by several tries, as `plan` says."""

    plan: Rollouts
    selector: Selector = best_score
    direction: Direction = Direction.MAX

    def roll(self, making: Making, cancel: threading.Event, forbidden: Forbidden = lambda _: None) -> RolledOut:
        """Serve one pick. `forbidden` is asked before each try but the first.

        Raises:
            RolloutsFault: no try succeeded, and none left an attempt that could go on record.
            RolloutsCancelledError: `cancel` was set; all tries have ended.
            InputError: called from within a try.
            HarnessError, SandboxError, OSError: our side failed in a try; the others have ended.
        """
        with _marked_active():
            return self._plain(making, cancel) if not self.plan.on else self._several(making, cancel, forbidden)

    def _plain(self, making: Making, cancel: threading.Event) -> RolledOut:
        made = making(0, "", self.plan.timeout_s, cancel)
        if made is None:
            raise RolloutsFault([TryReport(0, "", "failed", None, 0.0, _UNFINISHED, "it came to nothing")])
        return RolledOut(made.attempt, (), Choice(0))

    def _several(self, making: Making, cancel: threading.Event, forbidden: Forbidden) -> RolledOut:
        going = _Going(self.plan, making, cancel, forbidden)
        going.run()
        if going.trouble is not None:
            raise going.trouble
        if cancel.is_set():
            raise RolloutsCancelledError("the pick was cancelled; all of its tries have ended")
        return self._kept(going)

    def _kept(self, going: _Going) -> RolledOut:
        finished = sorted((one for one in going.tries if one.made is not None), key=lambda one: one.index)
        if not finished:
            raise RolloutsFault([one.report(kept=False) for one in going.tries], going.stopped) from going.first_error()
        shown = [self._shown(one) for one in finished]
        choice = choose(self.selector, shown)
        winner = finished[choice.place]
        assert winner.made is not None  # noqa: S101 - only those with one are finished
        reports = tuple(one.report(kept=one is winner or self.plan.retention is Retention.ALL) for one in going.tries)
        spent = total([report.cost for report in reports] + [choice.cost])
        told = [report_fields(report) | {"winner": report.index == winner.index} for report in reports]
        extra = dict(winner.made.attempt.extra) | {"rollouts": told}
        if choice.words or going.stopped:
            extra["rollouts_note"] = "; ".join(filter(None, (choice.words, going.stopped)))
        cost = dict(winner.made.attempt.cost) | {name: getattr(spent, name) for name in Cost._fields}
        return RolledOut(replace(winner.made.attempt, cost=cost, extra=extra), reports, choice, going.stopped)

    def _shown(self, one: _Try) -> Try:
        assert one.made is not None  # noqa: S101 - as above
        attempt = one.made.attempt
        sense = 1.0 if self.direction is Direction.MAX else -1.0
        score = None if attempt.score is None else sense * attempt.score
        return Try(
            one.index, one.strategy, one.succeeded, score, one.made.output, attempt.feedback, one.seconds, one.ended_as or 0
        )


@dataclass(slots=True)
class _Try:
    """One try on its way."""

    index: int
    strategy: str
    cancel: threading.Event = field(default_factory=threading.Event)
    began: float = 0.0
    seconds: float = 0.0
    made: Made | None = None
    succeeded: bool = False
    error: BaseException | None = None
    ended_as: int | None = None
    late: str = ""
    """Whose limit ended it, before it had ended by itself: its result is not looked at then."""

    def report(self, *, kept: bool) -> TryReport:
        """Return what became of it."""
        attempt = None if self.made is None else self.made.attempt
        status = "failed" if attempt is None else attempt.status
        if self.late:
            status = "timeout" if self.late in ("try", "deadline") else "cancelled"
        words = {"try": "its time ran out", "deadline": "the time for all tries ran out"}.get(self.late, self.late)
        if self.error is not None:
            words = f"{type(self.error).__name__}: {self.error}"
        elif not words and attempt is None:
            words = "it came to nothing"
        by = "rollouts" if self.late in ("try", "deadline") else "agent" if status == "timeout" else ""
        cost = _UNFINISHED if attempt is None else cost_of(attempt)
        score = None if attempt is None else attempt.score
        snapshot = None if attempt is None or not kept else attempt.snapshot
        return TryReport(self.index, self.strategy, status, score, self.seconds, cost, words, by, snapshot, kept)


class _Going:
    """The tries at one pick while they run: starts them as the plan says, and ends them when their time is over."""

    def __init__(self, plan: Rollouts, making: Making, cancel: threading.Event, forbidden: Forbidden) -> None:
        self._plan = plan
        self._making = making
        self._cancel = cancel
        self._forbidden = forbidden
        self._began = time.monotonic()
        self._ended = 0
        self._lock = threading.Lock()
        self.tries: list[_Try] = []
        self.stopped = ""
        self.trouble: Exception | None = None
        """What failed on our side: it says nothing of a try."""

    def run(self) -> None:
        """Make the tries, and return when every one that was started has ended."""
        parallel = self._plan.max_parallel or self._plan.n
        waiting = [_Try(index, self._plan.strategy(index)) for index in range(self._plan.n)]
        at_once = min(parallel, self._plan.escalate or parallel)
        with ThreadPoolExecutor(parallel, "rollout") as pool:
            under_way: dict[Future[None], _Try] = {}
            try:
                while True:
                    while waiting and len(under_way) < at_once and self._may_start():
                        one = waiting.pop(0)
                        self.tries.append(one)
                        one.began = time.monotonic()
                        under_way[pool.submit(self._make, one)] = one
                    if not under_way:
                        return
                    ended, _ = wait(under_way, timeout=self._patience(under_way.values()), return_when=FIRST_COMPLETED)
                    for future in ended:
                        under_way.pop(future)
                    self._enforce(under_way.values())
                    if self._plan.escalate:  # those beyond the first ones come one by one
                        at_once = min(parallel, self._plan.escalate) if len(self.tries) < self._plan.escalate else 1
            finally:
                for one in under_way.values():
                    one.cancel.set()

    def first_error(self) -> BaseException | None:
        """Return what the first try that raised raised."""
        return next((one.error for one in self.tries if one.error is not None), None)

    def _may_start(self) -> bool:
        if self._cancel.is_set() or self.trouble is not None or self._over():
            return False
        if (self._plan.escalate or self._plan.early_stop) and any(one.succeeded for one in self.tries):
            held = self._plan.escalate and len(self.tries) < self._plan.escalate and not self._plan.early_stop
            if not held:
                self.stopped = self.stopped or "a try had succeeded"
                return False
        if not self.tries:  # the pick itself was allowed
            return True
        with self._lock:
            paid = [cost_of(one.made.attempt) for one in self.tries if one.made is not None]
        reason = self._forbidden(paid)
        if reason is not None:
            self.stopped = reason
        return reason is None

    def _make(self, one: _Try) -> None:
        _ACTIVE.set(True)
        made: Made | None = None
        error: BaseException | None = None
        try:
            made = self._making(one.index, one.strategy, self._plan.timeout_s, one.cancel)
        except BaseException as raised:  # noqa: BLE001 - one try that exits must not orphan the others; it is on record
            error = raised
        with self._lock:
            one.seconds = time.monotonic() - one.began
            if one.late:
                return
            if isinstance(error, HarnessError | SandboxError | OSError):
                self.trouble = self.trouble or error
            one.made, one.error = made, error
            one.succeeded = error is None and is_ok(made)
            one.ended_as, self._ended = self._ended, self._ended + 1

    def _enforce(self, under_way: Collection[_Try]) -> None:
        now = time.monotonic()
        succeeded = self._plan.early_stop and any(one.succeeded for one in self.tries)
        for one in under_way:
            late = ""
            if self._cancel.is_set() or self.trouble is not None:
                late = "cancelled"
            elif self._over():
                late = "deadline"
            elif now - one.began > self._plan.timeout_s:
                late = "try"
            elif succeeded:
                late = "another try succeeded first"
            with self._lock:
                if late and one.ended_as is None and not one.late:
                    one.late = late
                    one.cancel.set()

    def _over(self) -> bool:
        return self._plan.deadline_s is not None and time.monotonic() - self._began > self._plan.deadline_s

    def _patience(self, under_way: Collection[_Try]) -> float:
        # The caller's event has no way to wake this thread, so it is looked at twenty times a second.
        now = time.monotonic()
        nearest = min((one.began + self._plan.timeout_s - now for one in under_way if not one.late), default=_SLICE_S)
        return max(0.001, min(_SLICE_S, nearest))


_ACTIVE: ContextVar[bool] = ContextVar("rollouts_active", default=False)


def active() -> bool:
    """Return whether this thread is within the tries at a pick."""
    return _ACTIVE.get()


@contextmanager
def _marked_active() -> Iterator[None]:
    if _ACTIVE.get():
        raise InputError("rollouts were asked for within a rollout; a try is one plain attempt")
    token = _ACTIVE.set(True)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def cost_of(attempt: Attempt) -> Cost:
    """Return what an attempt cost, None where a figure is unknown."""
    return Cost(*(attempt.cost.get(name) for name in Cost._fields))


def total(costs: Sequence[Cost]) -> Cost:
    """Return the sum; a figure that one of them does not know is unknown."""
    return Cost(*(None if None in figures else sum(figures) for figures in zip(*costs, strict=True))) if costs else NOTHING_SPENT


def report_fields(report: TryReport) -> dict[str, Any]:
    """Return a report as it stands in a node's data."""
    fields = {name: getattr(report, name) for name in TryReport.__slots__}
    return fields | {"cost": report.cost._asdict(), "seconds": round(report.seconds, 3)}


def tree_of_rollouts(attempt: Attempt, task: str, direction: Direction) -> Tree | None:
    """Return the tries of a node as a tree of their own, a child of the root each, None where the node had a single one."""
    told = attempt.extra.get("rollouts")
    if not told:
        return None
    nodes = tuple(
        Attempt(
            f"{attempt.id}.{one['index']}",
            None,
            one["score"] if one["status"] == "ok" else None,
            one["status"],
            feedback=one["words"],
            cost=one["cost"],
            hypothesis=one["strategy"][:500],
            snapshot=one["snapshot"],
        )
        for one in told
    )
    return Tree(f"rollouts of {attempt.id}", nodes, task, direction, root=Root())


def _require_whole(name: str, value: Any, *, least: int) -> None:
    if type(value) is not int or value < least:
        raise InputError(f"{name} is {value!r}; expected a whole number of at least {least}")
