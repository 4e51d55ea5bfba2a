"""The search agent: attempts by small moves and local optimisation, made in processes of its own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.agents import processes
from harness.agents.base import LOG_CHARACTERS, AgentError, AgentFault, Hypothesis, SiblingState, Work, told
from harness.errors import InputError
from sandbox.api import Cost

if TYPE_CHECKING:
    from harness.agents.base import Assignment
    from harness.agents.search.worker import TaskMoves
    from harness.task.base import Task

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SLICE_S = 0.05
_ENTRY = "from harness.agents.search.worker import main; main()"


class SearchAgent:
    """Makes attempts at tasks that have a `moves.py`. What one does follows from its seed, its workspace and its siblings."""

    name = "search"

    def __init__(self, task: Task) -> None:
        if task.moves is None:
            raise InputError(
                f'{task.folder}/task.toml: names no moves for the search agent; write [agent.search] moves = "moves.py" and that '
                "file (docs/agents.md), or take another agent with --agent"
            )
        from harness.agents.search.worker import load_moves  # noqa: PLC0415 - numpy and the task's own imports

        self._path = task.moves
        self._moves: TaskMoves = load_moves(task.moves)
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Return family, moves and manner of the attempt, which its seed and what its parent left decide."""
        from harness.agents.search.walk import ways  # noqa: PLC0415
        from harness.agents.search.worker import drawn, state_of  # noqa: PLC0415 - as above

        ask = _ask(assignment)
        kept = state_of(assignment.workspace, self._moves) if ask["continues"] else None
        genome, planned, _ = drawn(self._moves, ask, kept)
        moves = ", ".join(planned)
        statement = f"open with {moves}" if kept is None else f"continue with {moves}"
        return Hypothesis(genome.family, statement, ways(genome, self._moves))

    def work(self, assignment: Assignment) -> Work:
        """Change the answer in the workspace.

        Raises:
            AgentFault: no answer was found, the work of one attempt was used up, or the time was.
            AgentError: a process cannot be started, or ends by itself.
        """
        planned = self.plan(assignment)
        strategy = f"{planned.component}: {planned.statement}"
        began = time.monotonic()
        worker = self._taken()
        said = None
        try:
            said = self._answered(worker.process, assignment)
        except AgentFault as fault:
            cost = Cost(time.monotonic() - began, 0.0, 0.0)
            raise AgentFault(str(fault), status=fault.status, work=Work(planned, cost, strategy=strategy)) from None
        finally:
            if said is None:
                worker.end()
            else:
                self._given_back(worker)
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

    def _answered(self, process: subprocess.Popen[str], assignment: Assignment) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
        until = time.monotonic() + assignment.timeout_s
        try:
            process.stdin.write(json.dumps(_ask(assignment)) + "\n")
            process.stdin.flush()
        except OSError as error:
            raise self._gone(process) from error
        while not select.select([process.stdout], [], [], _SLICE_S)[0]:
            if assignment.cancel.is_set():
                raise AgentFault("the attempt was cancelled", status="timeout")
            if time.monotonic() > until:
                raise AgentFault(f"took longer than {assignment.timeout_s:g} s", status="timeout")
        line = process.stdout.readline()
        if not line:
            raise self._gone(process)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self, process: subprocess.Popen[str]) -> AgentError:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie, so that its group can be ended
        how = (
            "by itself"
            if ended is None
            else f"{'with code' if ended.si_code == os.CLD_EXITED else 'by signal'} {ended.si_status}"
        )
        return AgentError(f"a process of the search agent ended {how} ({self._path}); what it wrote stands above")

    def _taken(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise AgentError("the search agent is closed")
            if self._idle:
                return self._idle.pop()
        mark = processes.new_mark()
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                [sys.executable, "-c", _ENTRY, str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
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


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process that makes one attempt after the other."""

    process: subprocess.Popen[str]
    mark: str

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
