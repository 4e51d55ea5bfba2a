"""The host's end of one guest process: send, wait under deadlines, decode strictly, and say how it ended.

Nothing that comes out of the process is unmarshalled, and nothing it sends is believed beyond its form. Deadlines are CPU
time, read from the process's own clock without its help, with wall time as the backstop; the time that a process was ready to
run and had no core, on a busy machine, does not count, nor that in which the host itself or the runner stood still.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from sandbox.api import Fault, FaultKind, PolicyFault, Rule
from sandbox.base import SandboxError, Usage
from sandbox.guest import calls, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.base import GuestLimits

PATIENCE_S = 10.0  # with our own runner, on a machine that is busy with other work
_STOOD_STILL_S = 0.4  # that a wait of ours, or an answer of the runner's, is late by: neither is a policy's doing
_LAST_WORDS_S = 0.2  # between a closed channel and the end of its process
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_CREDENTIALS_SPACE = socket.CMSG_SPACE(_CREDENTIALS.size)
_TIMEVAL = struct.Struct("ll")
_MOST_BYTES = 2**53  # a count may be the process's own claim; this much every store and every JSON reader can hold
_ENDED_BYTES = wire.ENDED.size + wire.NOTES_BYTES
_FRAME_BYTES = wire.FAULT.size + wire.MESSAGE_BYTES + wire.TRACEBACK_BYTES


class RunnerLostError(Exception):
    """The runner is silent or gone. Whose doing that was is for the session to find out."""


class Loss(NamedTuple):
    """What is known of a runner's end, for people; `ours` when no policy can have caused it."""

    words: str = ""
    ours: bool = False


class Runner(Protocol):
    """A started runner, as a backend hands it to a session.

    `control` has been greeted and has a timeout; `pid` is its process as the host sees it, 0 where it does not. `clock` is None
    where the host reads the CPU clocks of its processes itself, else what returns the seconds of the present one.
    """

    control: socket.socket
    pid: int
    clock: Callable[[], float] | None

    def close(self) -> None:
        """End the runner and everything in it. May be called again."""

    def loss(self) -> Loss:
        """Return what the backend knows about the end of a runner that is silent or gone."""


@dataclass(frozen=True, slots=True)
class _End:
    """How a process ended, as the runner saw it. `by_us` when we ended it; `traceback` if it noted where it stood."""

    status: int
    cpu_s: float
    memory_bytes: int
    by_us: bool
    call: int
    call_name: str | None
    traceback: str


class _Deadline(NamedTuple):
    """What one wait may take, and where it stands so far."""

    doing: str
    limit_cpu_s: float
    cpu_before_s: float
    asked_at: float


class Process:
    """One child of a runner, from fork to end.

    Every method raises PolicyFault when the policy broke its contract, after which the process is gone; SandboxError when the
    runner reports a failure of ours; RunnerLostError when the runner no longer answers.
    """

    def __init__(self, runner: Runner, limits: GuestLimits, longest_batch: int, program: bytes) -> None:
        self._control = runner.control
        self._runner_pid = runner.pid
        self._limits = limits
        self._frame_bytes = max(_FRAME_BYTES, wire.ANSWER.size + 4 * min(longest_batch + 1, wire.LONGEST_BATCH))
        self._cpu_limit_s = math.ceil(limits.load_cpu_s + limits.replay_cpu_s) + 1
        self._end: _End | None = None
        self._clock = None if runner.clock is None else clock_of_next(runner.clock)
        self._schedule = ""  # the file that counts how long the process waited for a core; "" where there is none
        self._known = runner.clock is not None  # which process it is, or that nobody here can know
        self._starved_before_s: float | None = None  # None until a question is first found to take long
        self._starved_s = 0.0  # since then
        self._forgiven_s = 0.0  # of all its waiting for a core, what no question was charged with
        self._slice_s = min(0.1, max(0.005, min(limits.load_cpu_s, limits.decision_cpu_s) / 5))  # of a wait
        self._looked_at = 0.0
        self._away_s = 0.0  # of this question
        self._early_end: bytes | None = None
        self._last_cpu_s = 0.0
        self._cpu_at_ready_s = math.inf
        self._waited_s = 0.0
        self._started_at = time.monotonic()
        self.decisions = 0
        self.output_bytes = 0
        self.output_tail = b""
        self._program = program
        self._channel = self._start()
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)

    def compile(self) -> bytes:
        """Return the code that this throw-away process compiled: opaque here, for other children to load."""
        frame = self._first_frame("compiling the policy")
        if len(frame) != wire.CODE.size or frame[:1] != wire.CODE_MARK:
            self._break("sent no code")
        size = wire.CODE.unpack(frame)[1]
        if size > wire.CODE_BYTES:
            self._break(f"announced {size} bytes of code (limit {wire.CODE_BYTES})")
        deadline = _Deadline("sending the code", self._limits.load_cpu_s, self._cpu_s(), time.monotonic())
        code = b""
        while len(code) < size:
            # Whole chunks alone: crumbs that never make it wait would keep the host busy past any deadline.
            expected = min(wire.CHUNK_BYTES, size - len(code))
            chunk = self._receive(deadline, self._channel.recv, wire.CHUNK_BYTES)
            if len(chunk) != expected:
                self._break(f"sent {len(chunk)} bytes of code where {expected} were due")
            code += chunk
        return code

    def load(self) -> None:
        """Have the policy loaded and constructed."""
        if self._first_frame("loading the policy") != wire.READY_MARK:
            self._break("answered something else than that the policy is loaded")
        self._cpu_at_ready_s = self._cpu_s()
        self._waited_s = 0.0

    def ask(self, number: int, question: bytes) -> list[int]:
        """Return the ids that answer this question."""
        frame = self._exchange(question)
        size = len(frame) - wire.ANSWER.size
        if size < 0 or size % 4 or wire.ANSWER.unpack_from(frame) != (wire.ANSWER_MARK, number):
            self._break("sent something else than the answer to the question")
        self.decisions += 1
        return list(struct.unpack_from(f"<{size // 4}I", frame, wire.ANSWER.size))

    def finish(self) -> Usage:
        """End the process, wait until nothing of it is left, and return what it used. May be called again, after a fault as well.

        To wait for that is what a process does with its last answer. Not to is a fault: otherwise a policy that ends in one way
        or another would have its runner, of which the next process is a copy, do one thing or another, with nobody the wiser.
        """
        if self._end is None and not _was_waiting(self._wait_for_end()):
            fault = _cause_of_death(replace(self._wait_for_end(), by_us=False), self._cpu_limit_s, self._limits)
            self._stop(replace(fault, message=f"{fault.message}, after its last answer"))
        end = self._wait_for_end()
        return Usage(end.cpu_s, time.monotonic() - self._started_at, end.memory_bytes, self.output_bytes, self.decisions)

    def abandon(self) -> Usage:
        """Let go of a process whose runner is lost or about to be ended, and return what is known of it."""
        self._channel.close()
        wall_s = time.monotonic() - self._started_at
        return Usage(self._cpu_s(), wall_s, 0, self.output_bytes, self.decisions)

    # Start and end, with the runner

    def _start(self) -> socket.socket:
        """Order a process, with its program already waiting for it: it reads nothing before it is locked."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = self._limits
        timeout = _TIMEVAL.pack(int(self._slice_s), int(self._slice_s % 1 * 1e6))
        # Timeouts of the kernel, so that an answer in time costs one system call and no poll before it.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        if not self._known:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        order = wire.RUN.pack(wire.RUN_MARK, limits.memory_bytes, self._cpu_limit_s, limits.output_bytes)
        try:
            if len(self._program) <= wire.CHUNK_BYTES:
                ours.send(self._program)
            socket.send_fds(self._control, [order], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise RunnerLostError(f"the runner takes no orders: {error}") from error
        finally:
            theirs.close()
        return ours

    def _first_frame(self, doing: str) -> bytes:
        """Return what the process says to its program; the kernel tells with it which process that is."""
        self._starved_before_s = 0.0  # all its life is in the deadline
        deadline = _Deadline(doing, self._limits.load_cpu_s, 0.0, time.monotonic())
        if len(self._program) > wire.CHUNK_BYTES:
            self._send(self._program, deadline)
        return self._answered(self._receive(deadline, self._read_first), deadline.asked_at)

    def _read_first(self, longest: int) -> bytes:
        # The kernel writes the credentials first, and they fill what is there for them: no descriptor can come with them.
        frame, extra, _, _ = self._channel.recvmsg(longest, _CREDENTIALS_SPACE)
        if extra:
            self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
            self._meet(_CREDENTIALS.unpack(extra[0][2])[0])
        return frame

    def _seek(self) -> bool:
        """Find out which process it is before it has said anything; return False when it has not been started yet."""
        try:
            children = Path(f"/proc/{self._runner_pid}/task/{self._runner_pid}/children").read_text(encoding="ascii").split()
        except OSError:
            self._meet(0)
            return True
        if children:
            self._meet(int(children[0]))
        return bool(children)

    def _meet(self, pid: int) -> None:
        """Take note of the number of the process; 0 means that it lives out of our sight: wall time then."""
        self._known = True
        if pid:
            self._clock = partial(time.clock_gettime, (~pid << 3) | 2)  # of another process, as the kernel numbers clocks
            self._schedule = f"/proc/{pid}/schedstat"

    def _wait_for_end(self, grace_s: float = 0.0, order: bytes = wire.KILL_MARK) -> _End:
        if self._end is None:
            by_us = self._early_end is None and not (grace_s and select.select([self._control], [], [], grace_s)[0])
            try:
                if by_us:
                    self._control.send(order)
                frame = self._early_end or self._control.recv(_ENDED_BYTES)
            except TimeoutError as error:
                raise RunnerLostError(f"the runner has been silent for {PATIENCE_S:.0f} s") from error
            except OSError as error:
                raise RunnerLostError(f"the runner is gone: {error}") from error
            finally:
                self._channel.close()  # not before, or the process would end by itself
            if frame[:1] == wire.FAILED_MARK:
                raise SandboxError(f"the sandbox's runner failed: {frame[1:].decode('utf-8', 'replace')}")
            if len(frame) != _ENDED_BYTES or frame[:1] != wire.ENDED_MARK:
                raise RunnerLostError("the runner is gone")
            _, _, call, machine, status, *usage = wire.ENDED.unpack_from(frame)
            user_s, user_us, system_s, system_us, memory_kib = usage[:5]
            if not all(0 <= figure <= _MOST_BYTES // 1024 for figure in usage[:5]):
                raise RunnerLostError("the runner speaks of more time or memory than there is")
            trace = self._take_notes(frame[wire.ENDED.size :])
            cpu_s, name = user_s + system_s + (user_us + system_us) / 1e6, calls.name_of(call, machine)
            self._end = _End(status, cpu_s, memory_kib * 1024, by_us, call, name, trace)
        return self._end

    def _take_notes(self, notes: bytes) -> str:
        """Keep what the process has printed, by its own account, and return the traceback that it has left."""
        (printed,) = wire.PRINTED.unpack_from(notes)
        self.output_bytes = min(printed, _MOST_BYTES)
        ring = notes[wire.PRINTED.size : wire.PRINTED.size + wire.OUTPUT_TAIL_BYTES]
        oldest = printed % wire.OUTPUT_TAIL_BYTES
        self.output_tail = ring[oldest:] + ring[:oldest] if printed > wire.OUTPUT_TAIL_BYTES else ring[:printed]
        return printable(notes[-wire.TRACEBACK_BYTES :].rstrip(b"\0"))

    # Frames and deadlines

    def _cpu_s(self) -> float:
        if self._clock is not None:
            try:
                self._last_cpu_s = self._clock()
            except OSError:  # it has ended
                self._clock = None
        return self._last_cpu_s

    def _all_starved_s(self) -> float:
        """Return how long the process has been ready to run and waited for a core, 0.0 where the kernel does not count that."""
        if self._schedule:
            try:
                return int(Path(self._schedule).read_bytes().split()[1]) / 1e9
            except (OSError, IndexError):
                self._schedule = ""
        return 0.0

    def _exchange(self, question: bytes) -> bytes:
        """Send one question and return the one frame that answers it."""
        channel, longest = self._channel, self._frame_bytes
        if self._poll.poll(0) and self._receive(None, channel.recv):
            self._break("spoke before it was asked")
        cpu_s = self._cpu_s()
        # Not by the wall time of many short waits: on a busy machine, or across a network, most of that is not the policy's.
        if cpu_s - self._cpu_at_ready_s > self._limits.replay_cpu_s:
            self._time_out_replay(cpu_s)
        asked_at = time.monotonic()
        # Most questions are taken and answered at once, which is all that is paid for here.
        try:
            sent = channel.send(question) if len(question) <= wire.CHUNK_BYTES else 0
        except OSError:
            sent = 0
        if not sent:
            self._send(question, self._deciding(cpu_s, asked_at))
        try:
            frame = channel.recv(longest + 1)
        except OSError:
            frame = self._receive(self._deciding(cpu_s, asked_at), channel.recv)
        else:
            self._require_whole(frame, longest)
        return self._answered(frame, asked_at)

    def _deciding(self, cpu_before_s: float, asked_at: float) -> _Deadline:
        return _Deadline("deciding", self._limits.decision_cpu_s, cpu_before_s, asked_at)

    def _answered(self, frame: bytes, asked_at: float) -> bytes:
        now = time.monotonic()
        if now - asked_at > _STOOD_STILL_S:
            self._notice_absence(now, asked_at)
        self._waited_s += now - asked_at - self._starved_s - self._away_s
        self._forgiven_s += self._starved_s
        self._starved_before_s, self._starved_s, self._away_s = None, 0.0, 0.0
        if frame[:1] == wire.FAULT_MARK:
            self._take_fault(frame)
        return frame

    def _send(self, message: bytes, deadline: _Deadline) -> None:
        if len(message) <= wire.CHUNK_BYTES:
            self._send_frame(message, deadline)
            return
        self._send_frame(wire.LONG.pack(wire.LONG_MARK, len(message)), deadline)
        for start in range(0, len(message), wire.CHUNK_BYTES):
            self._send_frame(message[start : start + wire.CHUNK_BYTES], deadline)

    def _send_frame(self, frame: bytes, deadline: _Deadline) -> None:
        while True:
            try:
                self._channel.send(frame)
            except BlockingIOError:
                self._check(deadline)
            except OSError:  # it has ended; what it said last is still to be read
                return
            else:
                return

    def _receive(self, deadline: _Deadline | None, read: Callable[[int], bytes], longest: int = 0) -> bytes:
        longest = longest or self._frame_bytes
        while True:
            try:
                frame = read(longest + 1)
            except BlockingIOError:
                if deadline is not None:
                    self._check(deadline)
                continue
            except ConnectionResetError:
                frame = b""
            self._require_whole(frame, longest)
            return frame

    def _require_whole(self, frame: bytes, longest: int) -> None:
        if not frame:
            self._died()
        if len(frame) > longest:
            self._break(f"sent a frame of more than {longest} bytes")

    def _check(self, deadline: _Deadline) -> None:
        if not self._known and not self._seek():
            unborn_s = time.monotonic() - deadline.asked_at
            if unborn_s > PATIENCE_S:
                self._channel.close()
                raise RunnerLostError(f"no process was started within {PATIENCE_S:.0f} s")
            self._starved_before_s = -unborn_s  # no time of the process
            self._looked_at = time.monotonic()
            return
        cpu_s, starved_s = self._cpu_s(), self._all_starved_s()
        if self._starved_before_s is None:
            self._starved_before_s = starved_s
        self._starved_s = max(self._starved_s, starved_s - self._starved_before_s)
        now = time.monotonic()
        self._notice_absence(now, deadline.asked_at)
        wall_s = now - deadline.asked_at - self._starved_s - self._away_s
        used_s, limits = cpu_s - deadline.cpu_before_s, self._limits
        limit_wall_s = deadline.limit_cpu_s * limits.wall_factor
        figures = {"used_cpu_s": used_s, "limit_cpu_s": deadline.limit_cpu_s, "used_wall_s": wall_s, "limit_wall_s": limit_wall_s}
        if used_s >= deadline.limit_cpu_s:
            message = f"{deadline.doing} took {used_s:.2f} s of CPU time; the limit is {deadline.limit_cpu_s:g} s"
            self._time_out(Fault(FaultKind.DECISION_TIMEOUT, message, figures=figures))
        too_long = self._waited_too_long(wall_s)
        if (wall_s >= limit_wall_s or too_long) and self._runner_stood_still():
            self._away_s += wall_s
            return
        if wall_s >= limit_wall_s:
            message = f"{deadline.doing} took {wall_s:.2f} s of wall time; the limit is {limit_wall_s:g} s"
            self._time_out(Fault(FaultKind.DECISION_TIMEOUT, message, figures=figures))
        if cpu_s - self._cpu_at_ready_s > limits.replay_cpu_s or too_long:
            self._time_out_replay(cpu_s)

    def _notice_absence(self, now: float, asked_at: float) -> None:
        """Do not count the time by which a wait of ours is late: then we stood still ourselves."""
        late_s = now - max(self._looked_at, asked_at) - self._slice_s
        if late_s > _STOOD_STILL_S:
            self._away_s += late_s
        self._looked_at = now

    def _waited_too_long(self, now_s: float) -> bool:
        """Return whether all answers, with so many seconds for the present one, took more wall time than a replay may."""
        limit_s = self._limits.replay_cpu_s * self._limits.wall_factor
        if self._waited_s + now_s <= limit_s:
            return False
        # In waits that were too short to be looked at, it may have waited for a core.
        unseen_s = max(0.0, self._all_starved_s() - self._forgiven_s - self._starved_s)
        self._waited_s -= unseen_s
        self._forgiven_s += unseen_s
        return self._waited_s + now_s > limit_s

    def _runner_stood_still(self) -> bool:
        """Return whether the runner is slow to answer as well: it has a process of its own, and no policy can hold it up."""
        asked_at = time.monotonic()
        try:
            self._control.send(wire.PING_MARK)
            while (frame := self._control.recv(_ENDED_BYTES))[:1] != wire.PONG_MARK:
                if frame[:1] != wire.ENDED_MARK or self._early_end is not None:
                    raise RunnerLostError("the runner answers out of turn")
                self._early_end = frame
        except OSError as error:
            raise RunnerLostError(f"the runner does not say that it is there: {error}") from error
        return time.monotonic() - asked_at > _STOOD_STILL_S

    def _time_out_replay(self, cpu_s: float) -> NoReturn:
        limit_s = self._limits.replay_cpu_s
        used_s = max(0.0, cpu_s - self._cpu_at_ready_s)
        limit_wall_s = limit_s * self._limits.wall_factor
        message = f"all decisions took {used_s:.2f} s of CPU time; the limit is {limit_s:g} s, or {limit_wall_s:g} s of wall time"
        figures = {"used_cpu_s": used_s, "limit_cpu_s": limit_s, "used_wall_s": self._waited_s, "limit_wall_s": limit_wall_s}
        self._time_out(Fault(FaultKind.REPLAY_TIMEOUT, message, figures=figures))

    # What the policy did wrong

    def _take_fault(self, frame: bytes) -> NoReturn:
        if len(frame) < wire.FAULT.size:
            self._break("sent a broken frame of fault")
        _, place, size = wire.FAULT.unpack_from(frame)
        text = frame[wire.FAULT.size :]
        if place >= len(wire.FAULTS) or size > min(len(text), wire.MESSAGE_BYTES) or len(text) - size > wire.TRACEBACK_BYTES:
            self._break("sent a broken frame of fault")
        kind = wire.FAULTS[place]
        figures: dict[str, float] = {}
        if kind is FaultKind.OUT_OF_MEMORY:
            figures["limit_memory_bytes"] = self._limits.memory_bytes
        elif kind is FaultKind.OUTPUT_FLOOD:
            figures["limit_output_bytes"] = self._limits.output_bytes
        elif kind is FaultKind.PROCESS_LIMIT:
            figures["limit_processes"] = 1
        rule = Rule.NOT_A_LIST if kind is FaultKind.BAD_ANSWER else None
        self._stop(Fault(kind, printable(text[:size]), rule, traceback=printable(text[size:]), figures=figures))

    def _break(self, what: str) -> NoReturn:
        self._stop(Fault(FaultKind.PROTOCOL_FAULT, f"the policy's process {what}"))

    def _died(self) -> NoReturn:
        end = self._wait_for_end(_LAST_WORDS_S)
        if _is_killed_from_outside(end, self._cpu_limit_s, self._limits):
            raise RunnerLostError(
                f"its process was killed from outside, by SIGKILL, while it held {end.memory_bytes} bytes: by somebody, or by "
                "the kernel when the machine was out of memory"
            )
        if os.WIFSIGNALED(end.status) and os.WTERMSIG(end.status) == wire.UNLOCKED_SIGNAL:
            raise SandboxError(f"the sandbox cannot lock its process: {end.traceback}")
        self._stop(_cause_of_death(end, self._cpu_limit_s, self._limits))

    def _time_out(self, fault: Fault) -> NoReturn:
        """Have the process say where it stands, if it still can, and end it."""
        self._stop(replace(fault, traceback=self._wait_for_end(order=wire.TELL_MARK).traceback))

    def _stop(self, fault: Fault) -> NoReturn:
        end = self._wait_for_end()
        measured = {"cpu_s": end.cpu_s, "memory_bytes": end.memory_bytes, "output_bytes": self.output_bytes}
        raise PolicyFault(replace(fault, figures={**measured, **fault.figures}))


def clock_of_next(told: Callable[[], float]) -> Callable[[], float]:
    """Return the clock of the process that is about to be started, as told: what stands there until then is another's."""
    of_last = told()

    def clock() -> float:
        cpu_s = told()
        return 0.0 if cpu_s == of_last else cpu_s

    return clock


def _was_waiting(end: _End) -> bool:
    """Return whether the process was there to be killed, and in no call that no policy needs."""
    return os.WIFSIGNALED(end.status) and os.WTERMSIG(end.status) == signal.SIGKILL and end.call == wire.NO_CALL


def _is_killed_from_outside(end: _End, cpu_limit_s: int, limits: GuestLimits) -> bool:
    """Return whether neither we nor any limit ended it: no CPU time ran out, and too little memory was held to be the reason."""
    killed = os.WIFSIGNALED(end.status) and os.WTERMSIG(end.status) == signal.SIGKILL
    by_rule = end.by_us or end.call != wire.NO_CALL or end.cpu_s >= cpu_limit_s
    return killed and not by_rule and end.memory_bytes < limits.memory_bytes / 2


def _cause_of_death(end: _End, cpu_limit_s: int, limits: GuestLimits) -> Fault:
    if end.call != wire.NO_CALL or (os.WIFSIGNALED(end.status) and os.WTERMSIG(end.status) == signal.SIGSYS):
        # Without a number: another machine's calls, or a kernel that does not tell.
        known = end.call_name is not None
        which = f"the system call {end.call_name}, which" if known else "a system call of unknown name that"
        message = f"the policy made {which} no policy needs"
        return Fault(FaultKind.KILLED_BY_SECCOMP, message, figures={"system_call": end.call} if known else {})
    if end.by_us:
        return Fault(FaultKind.EXITED, "the policy's process closed its channel to the host")
    if os.WIFEXITED(end.status):
        status = os.WEXITSTATUS(end.status)
        return Fault(FaultKind.EXITED, f"the policy's process exited with status {status}", figures={"status": status})
    number = os.WTERMSIG(end.status)
    if number == signal.SIGXCPU or (number == signal.SIGKILL and end.cpu_s >= cpu_limit_s):
        message = f"the policy's process used {end.cpu_s:.2f} s of CPU time; the kernel's limit is {cpu_limit_s} s"
        return Fault(FaultKind.REPLAY_TIMEOUT, message, figures={"limit_cpu_s": cpu_limit_s})
    if number == signal.SIGKILL:  # by nobody but the kernel, which does it for want of memory
        message = f"the kernel ended the policy's process for want of memory; the limit is {limits.memory_bytes} bytes"
        return Fault(FaultKind.OUT_OF_MEMORY, message, figures={"limit_memory_bytes": limits.memory_bytes})
    return Fault(FaultKind.EXITED, f"the policy's process died of {_signal_name(number)}", figures={"signal": number})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of the real-time signals, Python names the first and the last
        return f"signal {number}"


def printable(text: bytes) -> str:
    """Return untrusted text for people: no control, bidirectional or otherwise invisible characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text.decode("utf-8", "replace"))
