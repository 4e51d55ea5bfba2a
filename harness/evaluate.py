"""Judge one policy over a set of trees, every replay in a fresh sandboxed process.

Trees are asked for one by one as they are needed, so that memory grows with the number of workers, not with the set.
Results come in the order of the trees whatever the number of workers, and end with the first fault when told so: an
evaluation is the same record each time it is made.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import cycle, islice, zip_longest
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from harness.policy import digest_of
from harness.replay import Stop, Trajectory, replay
from harness.score import Evaluation, Result, figures
from sandbox.api import Context, Fault, FaultKind, PolicyFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from harness.score import Effort, Settings
    from harness.tree import Tree
    from sandbox.api import Observation
    from sandbox.base import GuestReplay, Sandbox, Session


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
    count = len(trees)
    workers = max(1, min(job.effort.workers, count))
    twice = frozenset(random.Random(job.settings.seed).sample(range(count), min(job.effort.repeats, count)))  # noqa: S311 - a sample, no secret
    with ExitStack() as stack:
        if workers == 1:
            worker = stack.enter_context(_Worker(job, sandbox))
            yield from (worker.judge(trees[place], twice=place in twice) for place in range(count))
            return
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for core in islice(cycle(_cores()), workers):
            idle.put(stack.enter_context(_Worker(job, sandbox, core)))
        mine = threading.local()

        def begin() -> None:
            mine.worker = idle.get()
            mine.worker.pin()

        def judge(place: int) -> Result:
            worker: _Worker = mine.worker
            return worker.judge(trees[place], twice=place in twice)

        pool = stack.enter_context(ThreadPoolExecutor(workers, "replay", begin))
        under_way: deque[Future[Result]] = deque()
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        for place in range(count):
            under_way.append(pool.submit(judge, place))
            if len(under_way) > 2 * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _cores() -> list[int | None]:
    """Return the cores that workers may keep to; where the system does not say, they keep to none."""
    return list(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else [None]


class _Worker:
    """One container of the candidate, and a second one once a tree has to be replayed again.

    A worker with a core keeps its thread there, and with it the containers it opens: a question and its answer then need no
    other core to wake up.
    """

    def __init__(self, job: Job, sandbox: Sandbox, core: int | None = None) -> None:
        self._core = core
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

    def judge(self, tree: Tree, *, twice: bool) -> Result:
        """Replay the policy on this tree and return its result."""
        result = self._replay("first", tree)
        if not twice or result.trajectory.fault is not None:
            return result
        fault = _difference(result.trajectory, self._replay("second", tree).trajectory)
        return result if fault is None else self._spoilt(tree, result, fault)

    def _replay(self, which: str, tree: Tree) -> Result:
        if which not in self._sessions:
            session = self._sandbox.open(self._job.source, self._job.effort.limits)
            self._sessions[which] = self._stack.enter_context(session)
        settings = self._job.settings
        frontier = tree.frontier if settings.frontier is None else settings.frontier
        context = Context(self._job.params, settings.seed, settings.limits, frontier.value)
        decider = _Sandboxed(self._sessions[which], context)
        trajectory = replay(tree, decider, settings.limits, frontier)
        return replace(_result(self._job, tree, trajectory), **decider.measured())

    def _spoilt(self, tree: Tree, result: Result, fault: Fault) -> Result:
        trajectory = replace(result.trajectory, stop=Stop.POLICY_ERROR, fault=fault)
        return replace(result, trajectory=trajectory, figures=figures(trajectory, tree, self._job.settings.weights))


class _Sandboxed:
    """Decides through a sandboxed process that starts with the first question: a replay that asks nothing costs nothing."""

    __slots__ = ("_context", "_guest", "_output", "_session", "decide_s")

    def __init__(self, session: Session, context: Context) -> None:
        self._session = session
        self._context = context
        self._guest: GuestReplay | None = None
        self._output = ""
        self.decide_s = 0.0

    def decide(self, observation: Observation) -> list[int]:
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

    def measured(self) -> dict[str, Any]:
        """End the process and return what it used, as fields of `Result`."""
        if self._guest is None:
            return {"output": self._output}
        usage = self._guest.finish()
        return {
            "decide_s": self.decide_s,
            "cpu_s": usage.cpu_s,
            "memory_bytes": usage.memory_bytes,
            "output": self._guest.output,
        }


def _result(job: Job, tree: Tree, trajectory: Trajectory) -> Result:
    return Result(tree.digest, tree.name, tree.system, trajectory, figures(trajectory, tree, job.settings.weights))


def _difference(first: Trajectory, second: Trajectory) -> Fault | None:
    """Return the fault of a policy whose second replay in another container took another way."""
    if second.fault is not None:
        message = f"the second replay of this tree, in another container, ended in a fault: {second.fault.message}"
        return Fault(FaultKind.NONDETERMINISTIC, message, round=second.fault.round, traceback=second.fault.traceback)
    for turn, (one, other) in enumerate(zip_longest(first.rounds, second.rounds), start=1):
        if one != other:
            message = f"round {turn} differs between two replays of this tree in two containers with the same seed"
            return Fault(FaultKind.NONDETERMINISTIC, message, round=turn)
    return None
