"""Judge one policy over a set of trees, every replay in a fresh sandboxed process.

Trees are asked for one by one as they are needed, so that memory grows with the number of workers, not with the set.
Results come in the order of the trees whatever the number of workers, and end with the first fault when told so: an
evaluation is the same record each time it is made.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import cycle, islice, zip_longest
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from harness.errors import InputError
from harness.policy import digest_of
from harness.replay import Stop, Trajectory, replay
from harness.score import Evaluation, Result, figures
from sandbox.api import (
    FEEDBACK_CHARACTERS,
    HYPOTHESIS_CHARACTERS,
    METRIC_CHARACTERS,
    ROOT,
    Context,
    Fault,
    FaultKind,
    PolicyFault,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from harness.replay import Round
    from harness.score import Effort, Settings
    from harness.tree import Tree
    from sandbox.api import Observation, Outcome
    from sandbox.base import GuestReplay, Sandbox, Session

_Look = TypeVar("_Look")
_PICKS_SHOWN = 20
_BARE_NODE_BYTES = 700
_ENTRY_BYTES = 100  # a number with its place in a dictionary
_NODE_BYTES = _BARE_NODE_BYTES + 4 * (FEEDBACK_CHARACTERS + HYPOTHESIS_CHARACTERS)  # at most, metrics left out
_METRIC_BYTES = _ENTRY_BYTES + 4 * METRIC_CHARACTERS


@dataclass(frozen=True, slots=True)
class Job:
    """One policy to be judged. A policy that the static check refused is never run: every tree then bears that fault."""

    source: str
    settings: Settings
    effort: Effort
    params: Mapping[str, Any] = field(default_factory=dict)
    refused: Fault | None = None


def evaluate(job: Job, trees: Sequence[Tree], sandbox: Sandbox) -> Iterator[Result]:
    """Yield one result for each tree, in order; none after the first fault where the effort says so.

    Raises:
        InputError: a tree may show more than a policy has memory for.
        SandboxError: our side failed; nothing can be said about the policy.
    """
    for result in _refusals(job, trees) if job.refused else _replays(job, trees, sandbox):
        yield result
        if job.effort.stop_at_fault and result.trajectory.fault is not None:
            return


def gather(job: Job, sandbox: Sandbox, results: Iterable[Result]) -> Evaluation:
    """Return the evaluation that these results make."""
    return Evaluation(digest_of(job.source), sandbox.name, job.settings, tuple(results))


def _refusals(job: Job, trees: Sequence[Tree]) -> Iterator[Result]:
    for tree in trees:
        yield _result(job, tree, Trajectory(tree.digest, (), Stop.POLICY_ERROR, job.refused))


def _replays(job: Job, trees: Sequence[Tree], sandbox: Sandbox) -> Iterator[Result]:
    workers = max(1, min(job.effort.workers, len(trees)))
    return _one_by_one(job, trees, sandbox) if workers == 1 else _side_by_side(job, trees, sandbox, workers)


def _one_by_one(job: Job, trees: Sequence[Tree], sandbox: Sandbox) -> Iterator[Result]:
    with _Worker(job, sandbox) as worker:
        again = _SecondLooks(_drawn(job, len(trees)), lambda place: worker.look_again(trees[place]))
        for place in range(len(trees)):
            result = worker.judge(trees[place])
            faulted = result.trajectory.fault is not None
            yield result if faulted else _compared(job, trees, place, result, again.at(place))


def _side_by_side(job: Job, trees: Sequence[Tree], sandbox: Sandbox, workers: int) -> Iterator[Result]:
    with ExitStack() as stack:
        idle: SimpleQueue[_Worker] = SimpleQueue()
        over = threading.Event()
        for core in islice(cycle(_cores()), workers):
            idle.put(stack.enter_context(_Worker(job, sandbox, core, over)))
        mine = threading.local()

        def begin() -> None:
            mine.worker = idle.get()
            mine.worker.pin()

        def judge(place: int) -> Result:
            worker: _Worker = mine.worker
            return worker.judge(trees[place])

        def look_again(place: int) -> Trajectory:
            worker: _Worker = mine.worker
            return worker.look_again(trees[place])

        pool = stack.enter_context(ThreadPoolExecutor(workers, "replay", begin))
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(over.set)  # before that, or an interrupted evaluation would wait for whole replays
        again = _SecondLooks(_drawn(job, len(trees)), lambda place: pool.submit(look_again, place))
        under_way: deque[tuple[int, Future[Result], Future[Trajectory] | None]] = deque()
        for place in range(len(trees)):
            under_way.append((place, pool.submit(judge, place), again.at(place)))
            if len(under_way) > 2 * workers:
                yield _finished(job, trees, *under_way.popleft())
        while under_way:
            yield _finished(job, trees, *under_way.popleft())


def _finished(job: Job, trees: Sequence[Tree], place: int, first: Future[Result], second: Future[Trajectory] | None) -> Result:
    result = first.result()
    if second is None or result.trajectory.fault is not None:
        return result
    return _compared(job, trees, place, result, second.result())


def _drawn(job: Job, count: int) -> list[int]:
    """Return the places of the trees to be looked at twice, in the order of the second looks: another than that of the first."""
    drawn = random.Random(job.settings.seed).sample(range(count), min(job.effort.repeats, count))  # noqa: S311 - a sample, no secret
    return drawn if drawn != sorted(drawn) else drawn[::-1]


class _SecondLooks(Generic[_Look]):
    """Takes second looks in the order drawn, as many as it needs to have the one that is asked for.

    What was looked at before its turn is kept until then: at most the sample, and never a tree.
    """

    def __init__(self, order: Iterable[int], look: Callable[[int], _Look]) -> None:
        self._left = deque(order)
        self._twice = frozenset(self._left)
        self._look = look
        self._taken: dict[int, _Look] = {}

    def at(self, place: int) -> _Look | None:
        """Return the second look at the tree in this place, None where it is not of the sample."""
        if place not in self._twice:
            return None
        while place not in self._taken:
            following = self._left.popleft()
            self._taken[following] = self._look(following)
        return self._taken.pop(place)


def _compared(job: Job, trees: Sequence[Tree], place: int, result: Result, second: Trajectory | None) -> Result:
    """Return the result, without a value if the second look saw the policy take another way."""
    fault = None if second is None else _difference(result.trajectory, second)
    if fault is None:
        return result
    trajectory = replace(result.trajectory, stop=Stop.POLICY_ERROR, fault=_measured(fault, result))
    return replace(result, trajectory=trajectory, figures=figures(trajectory, trees[place], job.settings))


def _cores() -> list[int | None]:
    """Return the cores that workers may keep to; where the system does not say, they keep to none."""
    return list(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else [None]


class _Worker:
    """One container of the candidate, and a second one once a tree has to be replayed again.

    A worker with a core keeps its thread there, and with it the containers it opens: a question and its answer then need no
    other core to wake up. Once nobody waits for results any more, `over`, its replay ends with the next question.
    """

    def __init__(self, job: Job, sandbox: Sandbox, core: int | None = None, over: threading.Event | None = None) -> None:
        self._core = core
        self._over = over or threading.Event()
        self._job = job
        self._sandbox = sandbox
        self._sessions: dict[str, Session] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pin(self) -> None:
        """Keep the calling thread on this worker's core."""
        if self._core is not None:
            os.sched_setaffinity(0, {self._core})

    def judge(self, tree: Tree) -> Result:
        """Replay the policy on this tree and return its result."""
        return self._replay("first", tree)

    def look_again(self, tree: Tree) -> Trajectory:
        """Replay the policy on this tree in the second container."""
        return self._replay("second", tree).trajectory

    def _replay(self, which: str, tree: Tree) -> Result:
        _check_room(tree, self._job)
        if which not in self._sessions:
            session = self._sandbox.open(self._job.source, self._job.effort.limits)
            self._sessions[which] = self._stack.enter_context(session)
        settings = self._job.settings
        frontier = tree.frontier if settings.frontier is None else settings.frontier
        context = Context(self._job.params, settings.seed, settings.limits, frontier.value)
        decider = _Sandboxed(self._sessions[which], context, self._over)
        trajectory = replay(tree, decider, settings.limits, frontier)
        late = decider.end()
        if late is not None:
            trajectory = replace(trajectory, stop=Stop.POLICY_ERROR, fault=late)
        result = replace(_result(self._job, tree, trajectory), **decider.measured())
        if trajectory.fault is None:
            return result
        fault = _measured(trajectory.fault, result)
        return replace(result, trajectory=replace(trajectory, fault=fault))


class _OverError(Exception):
    """Nobody waits for this replay's result any more."""


class _Sandboxed:
    """Decides through a sandboxed process that starts with the first question: a replay that asks nothing costs nothing."""

    __slots__ = ("_context", "_guest", "_output", "_over", "_session", "decide_s")

    def __init__(self, session: Session, context: Context, over: threading.Event) -> None:
        self._session = session
        self._over = over
        self._context = context
        self._guest: GuestReplay | None = None
        self._output = ""
        self.decide_s = 0.0

    def decide(self, observation: Observation) -> list[int]:
        if self._over.is_set():
            raise _OverError
        if self._guest is None:
            self._guest = self._started()
        asked = time.perf_counter()
        try:
            return self._guest.decide(observation)
        finally:
            self.decide_s += time.perf_counter() - asked

    def _started(self) -> GuestReplay:
        try:
            return self._session.start(self._context)
        except PolicyFault as fault:
            self._output = fault.output
            raise

    def end(self) -> Fault | None:
        """End the process, and return the fault of one that had ended by itself after its last answer."""
        if self._guest is not None:
            try:
                self._guest.finish()
            except PolicyFault as broken:
                return broken.fault
        return None

    def measured(self) -> dict[str, Any]:
        """Return what the process used, once it has ended, as fields of `Result`."""
        if self._guest is None:
            return {"output": self._output}
        usage = self._guest.finish()
        return {
            "decide_s": self.decide_s,
            "cpu_s": usage.cpu_s,
            "memory_bytes": usage.memory_bytes,
            "output": self._guest.output,
        }


def _check_room(tree: Tree, job: Job) -> None:
    """Refuse a tree of which more may be shown than a policy's process can hold: that would be no fault of the policy's."""
    limits, room_bytes = job.settings.limits, job.effort.limits.memory_bytes // 2
    attempts = min(len(tree.attempts), limits.max_rounds * limits.max_batch)
    shown = 1 + (attempts if limits.max_attempts is None else min(attempts, limits.max_attempts))
    widest = max(tree.outcomes, key=lambda outcome: len(outcome[2]))
    most_bytes = shown * (_NODE_BYTES + len(widest[2]) * _METRIC_BYTES)
    if most_bytes <= room_bytes:  # true of all but trees with hundreds of metrics, and known at once
        return
    shown_bytes = sum(nlargest(shown, map(_shown_bytes, tree.outcomes)))
    if shown_bytes > room_bytes:
        (node,) = tree.ids([tree.outcomes.index(widest)])
        raise InputError(
            f"tree {tree.name!r} may show {shown_bytes / 2**20:.0f} MiB to a policy, of whose memory of "
            f"{job.effort.limits.memory_bytes / 2**20:.0f} MiB that may be half; raise memory_mib, or record fewer metrics "
            f"(node {node!r} has {len(widest[2])})"
        )


def _shown_bytes(outcome: Outcome) -> int:
    """Return what a node takes in a policy's process, roughly and rather too much."""
    _, _, metrics, feedback, _, hypothesis = outcome
    names = sum(map(sys.getsizeof, metrics))
    return _BARE_NODE_BYTES + len(metrics) * _ENTRY_BYTES + names + sys.getsizeof(feedback) + sys.getsizeof(hypothesis)


def _result(job: Job, tree: Tree, trajectory: Trajectory) -> Result:
    worth = figures(trajectory, tree, job.settings)
    return Result(tree.digest, tree.name, tree.system, trajectory, worth, task=tree.task)


def _measured(fault: Fault, result: Result) -> Fault:
    """Return the fault with what its replay used, where the sandbox did not find it: answers are judged by the replay core."""
    if fault.kind is FaultKind.REFUSED_AT_CHECK:  # nothing was run
        return fault
    used = {"cpu_s": result.cpu_s, "memory_bytes": result.memory_bytes}
    return replace(fault, figures=used | dict(fault.figures))


def _difference(first: Trajectory, second: Trajectory) -> Fault | None:
    """Return the fault of a policy whose second replay in another container took another way."""
    if second.fault is not None:
        message = f"the second replay of this tree, in another container, ended in a fault: {second.fault.message}"
        return Fault(FaultKind.NONDETERMINISTIC, message, round=second.fault.round, traceback=second.fault.traceback)
    ids = {place: node for node, place in enumerate((ROOT, *first.revealed))}
    for turn, (one, other) in enumerate(zip_longest(first.rounds, second.rounds), start=1):
        if one != other:
            picked = f"it picked {_picks(one, ids)}, and in another container, with the same seed, {_picks(other, ids)}"
            return Fault(
                FaultKind.NONDETERMINISTIC, f"round {turn} differs between two replays of this tree: {picked}", round=turn
            )
    return None


def _picks(turn: Round | None, ids: Mapping[int, int]) -> str:
    """Return a batch as the policy answered it; up to the first difference both replays have given nodes the same ids."""
    if turn is None:
        return "nothing"
    more = ", ..." if len(turn.picks) > _PICKS_SHOWN else ""
    return f"[{', '.join(str(ids[place]) for place in turn.picks[:_PICKS_SHOWN])}{more}]"
