"""Judge one policy over a set of trees, every replay in a fresh sandboxed process.

Trees are asked for one by one as they are needed, so that memory grows with the number of workers, not with the set.
Results come in the order of the trees whatever the number of workers, and end with the first fault when told so: an
evaluation is the same record each time it is made.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import cycle, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from harness.errors import InputError
from harness.policy import digest_of
from harness.replay import Stop, Trajectory, replay
from harness.score import Evaluation, Result, figures
from harness.secondlook import SecondLooks, difference, drawn
from sandbox.api import (
    FEEDBACK_CHARACTERS,
    HYPOTHESIS_CHARACTERS,
    METRIC_CHARACTERS,
    Context,
    Fault,
    FaultKind,
    PolicyFault,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from harness.replay import Play
    from harness.score import Effort, Settings
    from harness.tree import Tree
    from sandbox.api import Observation, Outcome
    from sandbox.base import GuestReplay, Sandbox, Session

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
    play: Play = replay


def evaluate(job: Job, trees: Sequence[Tree], sandbox: Sandbox) -> Generator[Result, None, None]:
    """Yield one result for each tree, in order; none after the first fault where the effort says so.

    Raises:
        InputError: a tree may show more than a policy has memory for.
        SandboxError: our side failed; nothing can be said about the policy.
    """
    yield from _to_first_fault(job, _refusals(job, trees) if job.refused else _replays(job, trees, sandbox))


def evaluate_all(
    asked: Sequence[tuple[Job, Sequence[Tree]]], sandbox: Sandbox, workers: int, step: Callable[[], None] = lambda: None
) -> list[tuple[Result, ...]]:
    """Return the results of several policies in their order, `workers` of them judged side by side.

    `step` is called at the end of every replay, one call at a time.

    A whole candidate in one container costs less than its trees shared among several, each of which the engine has to make. Only
    those that are left over at the end, too few to keep every core busy, are shared as by `evaluate`.

    Raises:
        InputError, SandboxError: as `evaluate`; replays under way end with their next question.
    """
    running = [place for place, (job, _) in enumerate(asked) if job.refused is None]
    left = running[len(running) - len(running) % workers :]
    shared = {place for place in left if 2 * len(left) <= asked[place][0].effort.workers}
    lock, over = threading.Lock(), threading.Event()

    def watched(results: Iterable[Result]) -> tuple[Result, ...]:
        kept = []
        for result in results:
            kept.append(result)
            with lock:
                step()
        return tuple(kept)

    def alone(job: Job, trees: Sequence[Tree]) -> tuple[Result, ...]:
        return watched(_to_first_fault(job, _one_by_one(job, trees, sandbox, over)))

    with ExitStack() as stack:
        pool = _threads(stack, workers, over)
        ahead = {place: pool.submit(alone, *asked[place]) for place in running if place not in shared}
        for ended in wait(ahead.values(), return_when=FIRST_EXCEPTION).done:
            ended.result()
        whole = {place: future.result() for place, future in ahead.items()}
    return [whole[place] if place in whole else watched(evaluate(*one, sandbox)) for place, one in enumerate(asked)]


def gather(job: Job, sandbox: Sandbox, results: Iterable[Result]) -> Evaluation:
    """Return the evaluation that these results make."""
    return Evaluation(digest_of(job.source), sandbox.name, job.settings, tuple(results))


def _to_first_fault(job: Job, results: Iterator[Result]) -> Iterator[Result]:
    """Yield results up to the first fault, and that one, where the effort says so; else all."""
    for result in results:
        yield result
        if job.effort.stop_at_fault and result.trajectory.fault is not None:
            return


def _refusals(job: Job, trees: Sequence[Tree]) -> Iterator[Result]:
    for tree in trees:
        yield _result(job, tree, Trajectory(tree.digest, (), Stop.POLICY_ERROR, job.refused))


def _replays(job: Job, trees: Sequence[Tree], sandbox: Sandbox) -> Iterator[Result]:
    workers = max(1, min(job.effort.workers, len(trees)))
    if workers == 1:
        return _one_by_one(job, trees, sandbox, threading.Event())
    return _side_by_side(job, trees, sandbox, workers)


def _one_by_one(job: Job, trees: Sequence[Tree], sandbox: Sandbox, over: threading.Event) -> Iterator[Result]:
    with _Worker(job, sandbox, over) as worker:
        again = SecondLooks(_twice(job, trees), lambda place: worker.look_again(trees[place]))
        for place in range(len(trees)):
            result = worker.judge(trees[place])
            faulted = result.trajectory.fault is not None
            yield result if faulted else _compared(job, trees, place, result, again.at(place))


def _side_by_side(job: Job, trees: Sequence[Tree], sandbox: Sandbox, workers: int) -> Iterator[Result]:
    with ExitStack() as stack:
        over, idle, mine = threading.Event(), SimpleQueue[_Worker](), threading.local()
        for _ in range(workers):
            idle.put(stack.enter_context(_Worker(job, sandbox, over)))

        def worker() -> _Worker:
            if not hasattr(mine, "worker"):
                mine.worker = idle.get()
            own: _Worker = mine.worker
            return own

        def judge(place: int) -> Result:
            return worker().judge(trees[place])

        def look_again(place: int) -> Trajectory:
            return worker().look_again(trees[place])

        pool = _threads(stack, workers, over)
        again = SecondLooks(_twice(job, trees), lambda place: pool.submit(look_again, place))
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


def _twice(job: Job, trees: Sequence[Tree]) -> list[int]:
    repeats = job.effort.repeats
    return drawn(len(trees), repeats, f"{job.settings.seed} {trees[0].digest}") if repeats and trees else []


def _compared(job: Job, trees: Sequence[Tree], place: int, result: Result, second: Trajectory | None) -> Result:
    """Return the result, without a value if the second look saw the policy take another way."""
    fault = None if second is None else difference(result.trajectory, second)
    if fault is None:
        return result
    trajectory = replace(result.trajectory, stop=Stop.POLICY_ERROR, fault=_measured(fault, result))
    return replace(result, trajectory=trajectory, figures=figures(trajectory, trees[place], job.settings))


def _threads(stack: ExitStack, workers: int, over: threading.Event) -> ThreadPoolExecutor:
    """Return threads that end with the stack, which sets `over` first, or what is interrupted would wait for whole replays.

    Each keeps to a core, and with it the containers that it opens: a question and its answer then need no other core to wake up.
    Where the system does not say which cores there are, they keep to none.
    """
    cores: SimpleQueue[int] = SimpleQueue()
    known = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else ()
    for core in islice(cycle(known), workers):
        cores.put(core)

    def pin() -> None:
        if known:
            os.sched_setaffinity(0, {cores.get()})

    pool = stack.enter_context(ThreadPoolExecutor(workers, "replay", pin))
    stack.callback(pool.shutdown, wait=True, cancel_futures=True)
    stack.callback(over.set)
    return pool


class _Worker:
    """One container of the candidate, and a second one once a tree has to be replayed again.

    Once nobody waits for results any more, `over`, its replay ends with the next question.
    """

    def __init__(self, job: Job, sandbox: Sandbox, over: threading.Event) -> None:
        self._over = over
        self._job = job
        self._sandbox = sandbox
        self._sessions: dict[str, Session] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

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
        trajectory = self._job.play(tree, decider, settings.limits, frontier)
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
