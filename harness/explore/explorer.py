"""Take a live search to its end from wherever it stands: ask the policy, serve its picks by attempts, record each as it ends.

The same policy, view and rules as in replay. Everything is on record before it is told, so that a killed search loses at most
what was in flight. Taken up again, a fresh process of the policy is shown what it was shown before and must answer as it did, and
the attempts that are missing are made with the seeds that they would have had.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.agents.base import AgentError
from harness.errors import InputError
from harness.explore.attempting import Pick, is_agents_fault
from harness.explore.base import AttemptEnded, Decided, FellBack, SearchOver
from harness.explore.caps import Used, cap_in_the_way, limit_reached, spent_already
from harness.explore.live import LiveTree
from harness.explore.places import Place, Places, lineage, seed_of
from harness.explore.registry import Flight, Registry
from harness.explore.rollouts import Made, Roller, Rollouts, RolloutsFault, cost_of, total
from harness.explore.selectors import NOTHING_SPENT
from harness.explore.siblings import SiblingRule, hypothesis_of, siblings
from harness.explore.steering import Steering
from harness.policy import Event, EventKind
from harness.search import Decision, Finished, Mode, SearchStop
from harness.tree import Direction, Root, Tree, outcome_of
from sandbox.api import Fault, FaultKind, PolicyFault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from harness.agents.base import Hypothesis, Sibling
    from harness.explore.attempting import Attempting
    from harness.explore.base import Progress
    from harness.policy import Version
    from harness.search import Search
    from harness.store import Store
    from sandbox.api import Cost
    from sandbox.base import GuestLimits, Sandbox


_BATCHES = 2
"""An agent that fails in the same way for so many batches from the start on is taken for one that cannot work."""


@dataclass(frozen=True, slots=True)
class Live:
    """What a search works with.

    `fallback` names the version that steers once one has broken its contract, None where none is left. `provenance` goes into the
    source of the tree.
    """

    store: Store
    sandbox: Sandbox
    guest: GuestLimits
    attempting: Attempting
    fallback: Callable[[Version], Version | None] = lambda _: None
    siblings: SiblingRule = field(default_factory=SiblingRule)
    roller: Roller = field(default_factory=lambda: Roller(Rollouts()))
    provenance: Mapping[str, Any] = field(default_factory=dict)


def explore(search: Search, live: Live) -> Generator[Progress, None, None]:
    """Take a search to its end.

    Raises:
        SandboxError, AgentError, WorkspaceError, StoreError: our side failed; the search can be taken up again.
        InputError: the search has ended, or there is a cap on what the agent does not tell.
    """
    if search.stop is not None:
        raise InputError(f"search {search.number} has ended; start another one")
    with ExitStack() as stack:
        run = _Rounds(search, live, stack) if search.plan.mode is Mode.ROUNDS else _Slots(search, live, stack)
        yield from run.resumed()
        yield from run.going()
        yield run.over()


class _Run:
    """A search under way. All that it knows follows from what is recorded, and one thread alone changes it."""

    def __init__(self, search: Search, live: Live, stack: ExitStack) -> None:
        plan = search.plan
        self.search, self.live, self.plan = search, live, plan
        self._sense = 1.0 if plan.direction is Direction.MAX else -1.0
        score = None if search.root_score is None else self._sense * search.root_score
        root = (score, "ok", dict(search.root_metrics), "", (None, None, None), "")
        self.tree = LiveTree(root, plan.limits, plan.frontier, close_terminal=plan.close_terminal)
        self.steering = Steering(plan, live.sandbox, live.guest, live.store.version(plan.version), stack)
        self.stop: SearchStop | None = None
        self.rounds = 0
        self.decisions = 0
        self.recorded: dict[int, Finished] = {}
        """Attempts that have ended, by number."""
        self.reserved: dict[int, Place] = {}
        """Picks that are taken up and not revealed yet, by number."""
        self.flying: dict[Future[Made], Place] = {}
        self.revealed: list[Finished] = []
        self._known: dict[int, Finished] = {}  # those that are revealed, by number
        self._costs: list[Cost] = []
        self._spent: Cost = NOTHING_SPENT
        self._best = search.root_score
        self._numbers: list[int | None] = [None]  # of the attempt behind each id that policies know; the root has none
        self._places = Places()
        self._registry = Registry()
        self._fallbacks: list[dict[str, Any]] = []
        self._made = 0  # attempts that ended since the search was taken up
        self._before_s = 0.0
        self._began = time.monotonic()
        self._cancel = threading.Event()
        self._pool = ThreadPoolExecutor(plan.slots, "attempt")
        stack.callback(self._pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(self._cancel.set)

    def resumed(self) -> Iterator[Progress]:
        """Go through what is on record, as it went then, and make what is missing."""
        attempts, decisions = self.live.store.attempts(self.search), self.live.store.decisions(self.search)
        self._before_s = max([0.0, *(one.elapsed_s for one in attempts), *(one.elapsed_s for one in decisions)])
        ended = {one.number: one for one in attempts}
        lost: Fault | None = None
        for decision in decisions:
            yield from self.caught_up(decision, attempts, ended)
            self.decisions = decision.number
            if decision.fault is not None:
                yield self._fall_back(decision)
                lost = None
                continue
            lost = lost or self.steering.differs(self.tree, decision)
            places = self.served(decision)
            yield Decided(decision, resumed=True)
            for place in places:
                if place.number in ended:
                    self._register(place, ended[place.number])
        yield from self.caught_up(None, attempts, ended)
        if lost is not None:
            yield self._new_fallback(lost)

    def caught_up(self, decision: Decision | None, attempts: list[Finished], ended: Mapping[int, Finished]) -> Iterator[Progress]:
        """Bring the tree to where a decision on record saw it; None is where the record ends."""
        raise NotImplementedError

    def going(self) -> Iterator[Progress]:
        """Ask and serve to the end."""
        raise NotImplementedError

    # Asking

    def may_ask(self) -> bool:
        """Return whether the policy may be asked; `stop` says why where it may not."""
        if self.stop is not SearchStop.POLICY_ERROR:
            self.stop = limit_reached(self.plan, self._used())
        return self.stop is None

    def asked(self, pending: tuple[int, ...]) -> Generator[Progress, None, tuple[Decision, list[Place]] | None]:
        """Ask the policy, record its answer and take its picks up; None where it broke its contract and another one steers."""
        number, seen = self.rounds + 1, len(self.revealed)
        try:
            picks = self.steering.decide(self.tree, number, pending)
        except PolicyFault as broken:
            yield self._new_fallback(replace(broken.fault, round=number))
            return None
        self.decisions += 1
        version = self.steering.version.number
        decision = Decision(self.decisions, number, version, seen, pending, picks, elapsed_s=self._elapsed())
        decision = replace(decision, served=self._room(decision))
        self.live.store.decide(self.search, decision)
        places = self.served(decision)
        yield Decided(decision)
        return decision, places

    def served(self, decision: Decision) -> list[Place]:
        """Take up the picks that are served, or show their nodes as closed, and count the round where that did anything."""
        places, closed = [], 0
        for node in decision.picks[: decision.served]:
            if self.tree.is_done(node):
                self.tree.close(node)
                closed += 1
            elif not self.tree.is_taken(node, decision.pending):
                place = self._places.take(node, self._numbers[node], decision.number)
                self.reserved[place.number] = place
                places.append(place)
        if places or closed:
            self.rounds = decision.round
        return places

    def _room(self, decision: Decision) -> int:
        """Return how many of the picks can be served before a limit is reached."""
        limit, used, made = self.plan.limits.max_attempts, self._used(), 0
        for place, node in enumerate(decision.picks):
            if limit is not None and used.attempts + made >= limit:
                return place
            if made >= self.slots_free() or cap_in_the_way(self.plan, used, made + 1) is not None:
                return place
            made += not (self.tree.is_done(node) or self.tree.is_taken(node, decision.pending))
        return len(decision.picks)

    def slots_free(self) -> int:
        """Return how many picks may be taken up now."""
        raise NotImplementedError

    # Attempts

    def begin(self, place: Place) -> None:
        """Start an attempt. What it is told of others is what was known now, and what all that were asked for before it plan."""
        made = dict(self._known)
        earlier = [one for one in self.reserved.values() if one.number < place.number]
        parent = None if place.parent is None else made[place.parent].attempt
        told: list[tuple[Sibling, ...]] = []
        lock = threading.Lock()

        def others() -> tuple[Sibling, ...]:
            for one in earlier:
                one.is_planned.wait()
            with lock:  # the tries at one pick are told the same
                if not told:
                    flights = [flight for flight in self._registry.snapshot() if flight.number < place.number]
                    told.append(siblings(self.live.siblings, made, flights, place.parent, self.plan.direction))
            return told[0]

        def planned(hypothesis: Hypothesis) -> None:
            with lock:
                if not place.is_planned.is_set():
                    self._registry.add(Flight(place.attempt, place.number, place.parent, hypothesis))
                    place.is_planned.set()

        self._registry.add(Flight(place.attempt, place.number, place.parent))
        pick = Pick(
            number=place.number,
            parent=None if parent is None else parent.id,
            snapshot=self.search.start if parent is None or parent.snapshot is None else parent.snapshot,
            seed=seed_of(self.plan.seed, place.path),
            lineage=lineage(made, place.parent),
            siblings=others,
            planned=planned,
        )
        self.flying[self._pool.submit(self._make, place, pick)] = place

    def _make(self, place: Place, pick: Pick) -> Made:
        attempting, roller = self.live.attempting, self.live.roller
        wall_s = self.plan.allowance.wall_s

        def one_try(index: int, strategy: str, timeout_s: float, cancel: threading.Event) -> Made:
            left_s = None if wall_s is None else max(0.001, wall_s - self._elapsed())
            seed = seed_of(self.plan.seed, (*place.path, index), "rollout") if roller.plan.on else pick.seed
            limit_s = min(timeout_s, left_s or timeout_s) if roller.plan.on else left_s
            return attempting.make(pick, cancel, strategy=strategy, timeout_s=limit_s, seed=seed)

        def forbidden(paid: Sequence[Cost]) -> str | None:
            return spent_already(self.plan, self._elapsed(), (*self._costs, *paid))

        try:
            return Made(roller.roll(one_try, self._cancel, forbidden).attempt)
        except RolloutsFault as fault:
            if fault.__cause__ is not None:  # what a try raised is no fault of the agent's
                raise fault.__cause__ from None
            return Made(fault.attempt(pick.id, pick.parent, pick.snapshot))
        finally:
            place.is_planned.set()

    def landed(self) -> list[Finished]:
        """Wait for attempts to end and record them, in the order in which they were asked for.

        Raises:
            SandboxError, AgentError, WorkspaceError: our side failed in one; the others that have ended are recorded.
        """
        done, _ = wait(self.flying, return_when=FIRST_COMPLETED)
        ended, trouble = [], None
        for future in sorted(done, key=lambda one: self.flying[one].number):
            place = self.flying.pop(future)
            error = future.exception()
            if error is not None:
                trouble = trouble or error
                continue
            attempt, order = future.result().attempt, len(self.recorded) + 1
            finished = Finished(place.number, order, place.decision, place.parent, attempt, round(self._elapsed(), 3))
            self.live.store.finish_attempt(self.search, finished)
            self.record(finished)
            ended.append(finished)
        if trouble is not None:
            raise trouble
        self._made += len(ended)
        self._refuse_a_dead_agent()
        return ended

    def _refuse_a_dead_agent(self) -> None:
        """Stop where the agent has failed in the same way ever since the start, for as many attempts as two batches hold.

        Only those that were made since the search was taken up count, so that whoever has mended the agent can go on.

        Raises:
            AgentError: it has.
        """
        enough = _BATCHES * self.plan.limits.max_batch
        if self._made < enough:
            return
        attempts = [one.attempt for one in self.recorded.values()]
        ways = {(one.status, one.feedback) for one in attempts}
        if len(ways) == 1 and all(is_agents_fault(one) for one in attempts):
            ((status, feedback),) = ways
            raise AgentError(
                f"agent {self.plan.agent}: all {len(attempts)} attempts so far are {status}, and in the same way: {feedback}; "
                "see that it works, and go on"
            )

    def record(self, finished: Finished) -> None:
        """Take an attempt that is on record into the figures."""
        self.recorded[finished.number] = finished
        cost, score = cost_of(finished.attempt), finished.attempt.score
        self._costs.append(cost)
        self._spent = total([self._spent, cost])
        if score is not None and (self._best is None or self._sense * score > self._sense * self._best):
            self._best = score

    def reveal(self, finished: Finished) -> None:
        """Show an attempt that has ended."""
        place, attempt = self.reserved.pop(finished.number), finished.attempt
        self._registry.remove(place.attempt)
        score = None if attempt.score is None else self._sense * attempt.score + 0.0
        self.tree.reveal(place.node, outcome_of(attempt, score), terminal=bool(attempt.terminal))
        self._numbers.append(finished.number)
        self._known[finished.number] = finished
        self.revealed.append(finished)

    def ended(self, finished: Finished, *, resumed: bool = False) -> AttemptEnded:
        """Return the progress that an attempt makes."""
        return AttemptEnded(finished, self._best, self._spent, len(self.flying), resumed)

    def _register(self, place: Place, finished: Finished) -> None:
        self._registry.add(Flight(place.attempt, place.number, place.parent, hypothesis_of(finished.attempt)))
        place.is_planned.set()

    # Falling back

    def _new_fallback(self, fault: Fault) -> FellBack:
        version, number = self.steering.version, self.rounds + 1
        following = self.live.fallback(version)
        self.decisions += 1
        told = {"kind": fault.kind.value, "message": fault.message, "of": version.number, "last": following is None}
        then = version if following is None else following
        decision = Decision(self.decisions, number, then.number, len(self.revealed), fault=told, elapsed_s=self._elapsed())
        words = f"{fault.kind} steering live search {self.search.number}, round {number}: {fault.message}"
        facts = told | {"search": self.search.number, "then": None if following is None else following.number}
        self.live.store.decide(self.search, decision, [Event(EventKind.FAULTED, version.number, None, words, facts=facts)])
        return self._fall_back(decision)

    def _fall_back(self, decision: Decision) -> FellBack:
        told = dict(decision.fault or {})
        fault = Fault(FaultKind(told["kind"]), told["message"], round=decision.round)
        self._fallbacks.append({**told, "to": decision.version, "round": decision.round})
        if told["last"]:
            self.stop = SearchStop.POLICY_ERROR
            return FellBack(fault, told["of"], None)
        self.steering.take_over(self.live.store.version(decision.version))
        return FellBack(fault, told["of"], decision.version)

    # The end, and figures

    def over(self) -> SearchOver:
        """Store the tree, and end the search."""
        stop = self.stop or SearchStop.POLICY_STOPPED
        search = self.live.store.end_search(self.search, stop, self._grown(stop))
        return SearchOver(search, self._best, self._spent, len(self.revealed), self.rounds)

    def _grown(self, stop: SearchStop) -> Tree:
        plan, search = self.plan, self.search
        source = {
            **self.live.provenance,
            "search": search.number,
            "task_digest": plan.task_digest,
            "policy": plan.policy,
            "version": plan.version,
            "seed": plan.seed,
            "agent": plan.agent,
            "mode": plan.mode.value,
            "slots": plan.slots,
            "siblings": asdict(self.live.siblings),
            "rollouts": self.live.roller.plan.n,
            "stop": stop.value,
            "start_snapshot": search.start,
        }
        if self._fallbacks:
            source["fallbacks"] = self._fallbacks
        nodes = tuple(one.attempt for one in self.revealed)
        root = Root(search.root_score, dict(search.root_metrics))
        return Tree(plan.name, nodes, plan.task, plan.direction, plan.frontier, root, source, search.started_at)

    def _used(self) -> Used:
        attempts = len(self.revealed) + len(self.reserved)
        in_flight = sum(number not in self.recorded for number in self.reserved)
        return Used(self.rounds, attempts, in_flight, self._elapsed(), self._costs)

    def _elapsed(self) -> float:
        return self._before_s + time.monotonic() - self._began


class _Rounds(_Run):
    """The whole batch ends before the policy is asked again; it is revealed in the order of the picks."""

    def slots_free(self) -> int:
        """Return no limit: those beyond the slots wait for their turn."""
        return self.plan.limits.max_batch

    def caught_up(self, decision: Decision | None, attempts: list[Finished], ended: Mapping[int, Finished]) -> Iterator[Progress]:
        """Reveal the batch before this decision, once what is missing of it has been made."""
        del decision, attempts
        for finished in sorted((ended[number] for number in self.reserved if number in ended), key=lambda one: one.order):
            self.record(finished)
            yield self.ended(finished, resumed=True)
        yield from self._batch()

    def going(self) -> Iterator[Progress]:
        """Ask and serve, batch by batch."""
        while self.may_ask():
            answer = yield from self.asked(())
            if answer is None:
                continue
            if not answer[0].picks:
                self.stop = SearchStop.POLICY_STOPPED
                return
            yield from self._batch()

    def _batch(self) -> Iterator[Progress]:
        """Make what is missing of the batch, and reveal it."""
        for number in sorted(self.reserved):
            if number not in self.recorded:
                self.begin(self.reserved[number])
        while self.flying:
            for finished in self.landed():
                yield self.ended(finished)
        for number in sorted(self.reserved):
            self.reveal(self.recorded[number])


class _Slots(_Run):
    """A freed slot asks at once. Attempts are revealed as they end, and the view shows those in flight."""

    def slots_free(self) -> int:
        """Return how many slots are free."""
        return self.plan.slots - len(self.reserved)

    def caught_up(self, decision: Decision | None, attempts: list[Finished], ended: Mapping[int, Finished]) -> Iterator[Progress]:
        """Reveal attempts in the order in which they ended; at the end of the record, take up those that were in flight."""
        del ended
        seen = len(attempts) if decision is None else decision.seen
        for finished in attempts[len(self.revealed) : seen]:
            self.record(finished)
            self.reveal(finished)
            yield self.ended(finished, resumed=True)
        if decision is None:
            for place in self.reserved.values():
                self.begin(place)

    def going(self) -> Iterator[Progress]:
        """Ask whenever a slot is free, unless the policy wants nothing until something has ended."""
        is_waiting = False
        while True:
            if not is_waiting and self.slots_free() > 0 and self.may_ask():
                answer = yield from self.asked(tuple(place.node for place in self.reserved.values()))
                if answer is None:
                    continue
                decision, places = answer
                for place in places:
                    self.begin(place)
                if not decision.picks and not self.flying:
                    self.stop = SearchStop.POLICY_STOPPED
                    return
                is_waiting = not places and bool(self.flying)
            elif self.flying:
                for finished in self.landed():
                    self.reveal(finished)
                    yield self.ended(finished)
                is_waiting = False
            else:
                return
