"""The search agent: attempts by small moves and local optimisation, planned and made in processes of its own.

Nothing of a task's moves, and no numerical library, is loaded into the harness.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.agents import processes
from harness.agents.base import LOG_CHARACTERS, AgentError, AgentFault, Hypothesis, SiblingState, Work, told
from harness.errors import InputError
from sandbox.api import Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.agents.base import Assignment
    from harness.task.base import Task

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SLICE_S = 0.05
_LOAD_S = 60.0
_CHUNK_BYTES = 2**16
_ENTRY = "from harness.agents.search.worker import main; main()"


class SearchAgent:
    """Makes attempts at tasks that have a `moves.py`. What one does follows from its seed, its workspace and its siblings."""

    name = "search"

    def __init__(self, task: Task, load_s: float = _LOAD_S) -> None:
        """Load the task's moves, which may take `load_s` seconds, in a first process.

        Raises:
            InputError: the task has no moves, or they cannot be loaded.
            AgentError: a process cannot be started, ends by itself, or has not loaded them in time.
        """
        if task.moves is None:
            raise InputError(
                f'{task.folder}/task.toml: names no moves for the search agent; write [agent.search] moves = "moves.py" and that '
                "file (docs/agents.md), or take another agent with --agent"
            )
        self._path, self._direction = task.moves, task.direction.value
        self._load_s = load_s
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        self._given_back(self._taken(threading.Event()))

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Return family, moves and manner of the attempt, which its seed and what its parent left decide.

        Raises:
            AgentFault, AgentError: as for `work`.
        """
        with self._asked(assignment, plan=True) as heard:
            said = heard()
        if said["fault"] is not None:
            raise AgentFault(f"{said['fault']['message']}.", status=said["fault"]["status"])
        return Hypothesis(*said["hypothesis"])

    def work(self, assignment: Assignment) -> Work:
        """Change the answer in the workspace.

        Raises:
            AgentFault: no answer was found, the work of one attempt was used up, or the time was.
            AgentError: a process cannot be started, or ends by itself.
        """
        began = time.monotonic()
        planned, strategy = Hypothesis(), ""
        try:
            with self._asked(assignment, plan=False) as heard:
                said = heard()
                if said["fault"] is None:
                    planned = Hypothesis(*said["hypothesis"])
                    strategy = f"{planned.component}: {planned.statement}"
                    said = heard()
        except AgentFault as fault:
            cost = Cost(time.monotonic() - began, 0.0, 0.0)
            raise AgentFault(str(fault), status=fault.status, work=Work(planned, cost, strategy=strategy)) from None
        cost = Cost(max(said["cpu_s"], 1e-6) if said["cpu_s"] else time.monotonic() - began, 0.0, 0.0)
        notes = told(said["notes"], LOG_CHARACTERS)
        work = Work(planned, cost, notes, notes, strategy)
        if said["fault"] is not None:
            so_far = f" Moves so far: {notes}." if notes else ""
            raise AgentFault(f"{said['fault']['message']}.{so_far}", status=said["fault"]["status"], work=work)
        return work

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    @contextmanager
    def _asked(self, assignment: Assignment, *, plan: bool) -> Iterator[Callable[[], dict[str, Any]]]:
        """Ask a process and give what returns its next answer; one that does not answer in time is ended."""
        worker = self._taken(assignment.cancel)
        until = time.monotonic() + assignment.timeout_s

        def heard() -> dict[str, Any]:
            said = self._heard(worker, until, assignment.cancel)
            if said is None:
                raise AgentFault(f"took longer than {assignment.timeout_s:g} s", status="timeout")
            return said

        is_done = False
        try:
            try:
                worker.tell({**_ask(assignment), "plan": plan})
            except OSError as error:
                raise self._gone(worker.process) from error
            yield heard
            is_done = True
        finally:
            if is_done:
                self._given_back(worker)
            else:
                worker.end()

    def _heard(self, worker: _Worker, until: float, cancel: threading.Event) -> dict[str, Any] | None:
        """Return what a process says next, None where it says nothing until then.

        Raises:
            AgentFault: the attempt was cancelled.
            AgentError: the process has ended.
        """
        while (line := worker.line()) is None:
            if cancel.is_set():
                raise AgentFault("the attempt was cancelled", status="timeout")
            if time.monotonic() > until:
                return None
        if not line:
            raise self._gone(worker.process)
        said: dict[str, Any] = json.loads(line)
        return said

    def _gone(self, process: subprocess.Popen[bytes]) -> AgentError:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie, so that its group can be ended
        how = (
            "by itself"
            if ended is None
            else f"{'with code' if ended.si_code == os.CLD_EXITED else 'by signal'} {ended.si_status}"
        )
        return AgentError(f"a process of the search agent ended {how} ({self._path}); what it wrote stands above")

    def _taken(self, cancel: threading.Event) -> _Worker:
        """Return a process that has loaded the moves and waits."""
        with self._lock:
            if self._closed:
                raise AgentError("the search agent is closed")
            if self._idle:
                return self._idle.pop()
        worker = self._started()
        is_loaded = False
        try:
            said = self._heard(worker, time.monotonic() + self._load_s, cancel)
            if said is None:
                wanted = "expected a file that defines MOVES"
                raise AgentError(f"{self._path}: has not been imported after {self._load_s:g} s; {wanted}")
            if said["refused"] is not None:
                raise InputError(said["refused"])
            is_loaded = True
        finally:
            if not is_loaded:
                worker.end()
        return worker

    def _started(self) -> _Worker:
        mark = processes.new_mark()
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                [sys.executable, "-P", "-c", _ENTRY, self._direction, str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_ONE_THREAD, processes.VARIABLE: mark},
                start_new_session=True,
            )
        except OSError as error:
            raise AgentError(f"cannot start {sys.executable} for the search agent: {error}") from error
        return _Worker(process, mark)

    def _given_back(self, worker: _Worker) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        worker.end()


@dataclass(slots=True)
class _Worker:
    """A process that makes one attempt after the other; `left` is what it said beyond the last whole line."""

    process: subprocess.Popen[bytes]
    mark: str
    left: bytes = b""

    def tell(self, ask: dict[str, Any]) -> None:
        """Ask it for an attempt.

        Raises:
            OSError: it has ended.
        """
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        self.process.stdin.write(json.dumps(ask).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> bytes | None:
        """Return its next whole line, empty where it has ended, None where there is none within a moment."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        while b"\n" not in self.left:
            if not select.select([self.process.stdout], [], [], _SLICE_S)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), _CHUNK_BYTES)
            if not more:
                return b""
            self.left += more
        line, _, self.left = self.left.partition(b"\n")
        return line

    def end(self) -> None:
        """End it and what the moves in it started."""
        processes.end(self.process, self.mark)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def _ask(assignment: Assignment) -> dict[str, Any]:
    """Return what an attempt depends on."""
    last = assignment.lineage[-1] if assignment.lineage else None
    return {
        "workspace": str(assignment.workspace),
        "seed": assignment.seed,
        "strategy": assignment.strategy,
        "continues": last is not None,
        "status": None if last is None else last.status,
        "score": None if last is None else last.score,
        "avoid": [] if last is not None else _avoided(assignment),
    }


def _avoided(assignment: Assignment) -> list[str]:
    """Return the families that siblings are trying now, or have failed with."""
    busy = (SiblingState.IN_FLIGHT, SiblingState.FAILED)
    return sorted({one.hypothesis.component for one in assignment.siblings if one.state in busy and one.hypothesis.component})
