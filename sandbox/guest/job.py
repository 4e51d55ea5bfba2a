"""The runner of one job: take in a workspace, run one command, end all that it started, hand the workspace back.

In a container it is process 1, with no capability but to become another user and to end that user's processes. What it takes in
is the host's; what it hands back it only copies, when nobody is left who could change it. Of the command it reads bytes alone.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import select
import signal
import sys
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from sandbox.guest import archive, jail, jobcalls, jobwire, kernel
from sandbox.guest.meter import CgroupMeter, Meter, ProcessMeter, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE")
_SLICE_S = 0.02  # between two looks at a control group
_LONG_SLICE_S = 0.05  # between two looks at all processes
_PIPE_BYTES = 64 * 1024
_NOTICE_S = 10.0  # for what has been killed to be gone
_LEFT = 70
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OPEN_FILES = 1024
_NICE = 10  # the runner comes first on the one core that they share
_ADDRESS_SPACE_FACTOR = 4  # of the memory limit, where the runner keeps it by looking


class _NotStartedError(Exception):
    """The command cannot be started."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """How this runner was started."""

    receive_from: int
    send_to: int
    uid: int
    without: frozenset[str]
    is_container: bool


def main(arguments: list[str]) -> None:
    """Do one job for the host at the other end of the channel."""
    parser = ArgumentParser(prog="job")
    parser.add_argument(
        "--descriptor", type=int, help="inherited descriptor of the channel; without it standard input and output"
    )
    parser.add_argument("--uid", type=int, required=True, help="the user that the command runs as, where that can be chosen")
    parser.add_argument("--without", default="", help="tests only: of namespaces,landlock,seccomp")
    options = parser.parse_args(arguments)
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    is_container = options.descriptor is None
    if not is_container:
        os.set_inheritable(options.descriptor, False)  # a command that held the channel could speak for the runner
    receive_from, send_to = (0, 1) if is_container else (options.descriptor, options.descriptor)
    _Job(_Setting(receive_from, send_to, options.uid, frozenset(options.without.split(",")), is_container)).work()


class _Job:
    def __init__(self, setting: _Setting) -> None:
        self._setting = setting
        self._owner = (setting.uid, setting.uid) if os.getuid() == 0 else (os.getuid(), os.getgid())
        self._room: jail.Room | None = None
        self._namespaces = setting.is_container
        self._command = 0

    def work(self) -> NoReturn:
        setting = self._setting
        if not setting.is_container and jobwire.NAMESPACES not in setting.without:
            self._namespaces = jail.enter_namespaces(setting.receive_from)
        if not self._namespaces:
            kernel.adopt_orphans()
        try:
            order = jobwire.unpacked(self._receive(*jobwire.ORDER.unpack(self._receive(jobwire.ORDER.size))))
            self._prepare(order)
            self._take_in(order)
            ended = self._run(order)
            self._send(ended)
            self._hand_back(order)
        except _NotStartedError as error:
            self._fail(jobwire.NOT_STARTED_MARK, str(error))
        except Exception as error:
            self._fail(jobwire.FAILED_MARK, f"{type(error).__name__}: {error}")
        self._leave()

    # The job, step by step

    def _prepare(self, order: jobwire.Order) -> None:
        sizes = (order.workspace_bytes, order.input_bytes, order.scratch_bytes)
        if self._setting.is_container:
            self._room = jail.container_room(scratch=bool(order.scratch_bytes))
        elif self._namespaces:
            self._room = jail.namespaced_room(self._owner, sizes, (order.workspace_files, order.input_files))
        else:
            self._room = jail.plain_room(self._owner, scratch=bool(order.scratch_bytes))
        self._landlock = None
        if not self._setting.is_container and jobwire.LANDLOCK not in self._setting.without:
            self._landlock = jail.Landlock(self._room)
        kernel.forbid_new_privileges()
        kernel.forbid_inspection()
        gc.disable()
        abi = 0 if self._landlock is None else self._landlock.abi
        self._send(jobwire.UP.pack(jobwire.UP_MARK, self._namespaces, abi))

    def _take_in(self, order: jobwire.Order) -> None:
        room = self._in_room()
        with self._as_owner():
            caps = archive.Caps(order.workspace_bytes, order.workspace_files)
            archive.unpack(self._receive, os.fsencode(room.workspace), archive.Tally(caps))
        caps = archive.Caps(order.input_bytes, order.input_files)
        archive.unpack(self._receive, os.fsencode(room.inputs), archive.Tally(caps))
        if self._namespaces and not self._setting.is_container:
            jail.make_read_only(room.inputs)

    def _run(self, order: jobwire.Order) -> bytes:
        streams = (_Tail(order.output_bytes), _Tail(order.output_bytes))
        self._start(order, streams)
        started_at = time.monotonic()
        watch = _Watch(order, self._meter, started_at)
        self._wait(streams, watch)
        wall_s = time.monotonic() - started_at
        status = self._end_all()
        for tail in streams:
            while tail.read():
                pass
        frame = jobwire.ENDED.pack(
            jobwire.ENDED_MARK,
            status,
            jobwire.TIME_LIMITS.index(watch.passed),
            watch.out_of_memory or self._meter.oom_kills() > 0,
            int(self._meter.cpu_s() * 1e6),
            int(wall_s * 1e6),
            max(watch.peak_bytes, self._meter.peak_bytes()),
            *(tail.total for tail in streams),
            *(len(tail.bytes()) for tail in streams),
        )
        return frame + streams[0].bytes() + streams[1].bytes()

    def _wait(self, streams: tuple[_Tail, _Tail], watch: _Watch) -> None:
        """Return when the command has ended or has passed a limit."""
        poll = select.poll()
        ended = os.pidfd_open(self._command)
        for descriptor in (self._setting.receive_from, ended, streams[0].descriptor, streams[1].descriptor):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(watch.slice_s * 1000)}
            if self._setting.receive_from in ready:
                self._leave()  # the host is gone, or wants no more
            for tail in streams:
                if tail.descriptor in ready and not tail.read():
                    poll.unregister(tail.descriptor)
            if watch.is_over() or ended in ready:
                return

    def _hand_back(self, order: jobwire.Order) -> None:
        tally = archive.Tally(archive.Caps(order.workspace_bytes, order.workspace_files))
        with self._as_owner(), _Buffer(self._send) as buffer:
            workspace = self._in_room().workspace
            os.chmod(workspace, 0o700)  # noqa: PTH101 - before it is opened, since the command may have locked it
            root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                archive.pack(root, buffer.add, tally, result=True)
                archive.pack_end(buffer.add)
            except archive.RefusedFault as refused:
                archive.pack_refusal(buffer.add, refused)

    # The command's process

    def _start(self, order: jobwire.Order, streams: tuple[_Tail, _Tail]) -> None:
        # Everything is prepared before the fork, while it can still be said what failed.
        is_container, machine = self._setting.is_container, os.uname().machine
        lock = None
        if jobwire.SECCOMP not in self._setting.without:
            code = jobcalls.build_filter(machine, unix_sockets=is_container, network=order.network, memory_files=is_container)
            lock = kernel.SeccompLock(code)
        limits = self._resource_limits(order)
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in streams]
        trouble, report = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._meter = _meter(self._setting, None if self._in_room().temporary else self._in_room().workspace)
        self._command = os.fork()
        if self._command == 0:
            try:
                self._become(order, lock, limits, (null, pipes[0][1], pipes[1][1]))
            except BaseException as error:
                os.write(report, (str(error) or repr(error)).encode("utf-8", "replace")[: jobwire.MESSAGE_BYTES])
            finally:
                os._exit(_LEFT)
        os.close(report)
        os.close(null)
        for tail, (reading, writing) in zip(streams, pipes, strict=True):
            os.close(writing)
            os.set_blocking(reading, False)
            tail.descriptor = reading
        said = os.read(trouble, jobwire.MESSAGE_BYTES)
        os.close(trouble)
        if said:
            os.waitpid(self._command, 0)
            raise _NotStartedError(said.decode("utf-8", "replace"))

    def _become(
        self, order: jobwire.Order, lock: kernel.SeccompLock | None, limits: list[tuple[int, int]], streams: tuple[int, int, int]
    ) -> None:
        room = self._in_room()
        for place, descriptor in enumerate(streams):
            os.dup2(descriptor, place)
        os.setsid()
        with contextlib.suppress(OSError):  # of use where the kernel chooses whom to end; not everywhere there
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        os.nice(_NICE)
        for name in _IGNORED:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        for limit, value in limits:
            resource.setrlimit(limit, (value, value))
        if os.getuid() == 0:
            uid, gid = self._owner
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        os.umask(0o022)
        os.chdir(room.workspace)
        if self._landlock is not None:
            self._landlock.close()
        if lock is not None:
            lock.close()
        try:
            os.execvpe(order.command[0], order.command, self._environment(order))  # noqa: S606 - which is what a job is
        except OSError as error:
            raise OSError(f"{order.command[0]}: {error.strerror}") from None

    def _environment(self, order: jobwire.Order) -> dict[str, str]:
        room = self._in_room()
        home = room.scratch or room.workspace
        # A local command finds the interpreter that the harness itself has, with the packages beside it.
        path = _PATH if self._setting.is_container else f"{Path(sys.executable).parent}:{_PATH}"
        return {
            "PATH": path,
            "HOME": home,
            "TMPDIR": home,
            "JOB_INPUTS": room.inputs,
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": str(order.threads),
        }

    def _resource_limits(self, order: jobwire.Order) -> list[tuple[int, int]]:
        limits = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
            (resource.RLIMIT_NOFILE, _OPEN_FILES),
            (resource.RLIMIT_CPU, int(order.cpu_s) + 2),
            (resource.RLIMIT_FSIZE, max(order.workspace_bytes, order.scratch_bytes)),
        ]
        if not self._setting.is_container:
            limits.append((resource.RLIMIT_AS, _ADDRESS_SPACE_FACTOR * order.memory_bytes))
            limits.append((resource.RLIMIT_NPROC, order.processes + self._threads_of_user()))
        return limits

    def _threads_of_user(self) -> int:
        """Return how many threads the command's user has already: the kernel counts them all against one limit."""
        count = 0
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if process.name.isdigit() and process.stat().st_uid == self._owner[0]:
                    count += len(list((process / "task").iterdir()))
        return count

    # The end

    def _end_all(self) -> int:
        """End whatever the command started, and return how the command itself ended."""
        status = None
        patience = time.monotonic() + _NOTICE_S
        with contextlib.suppress(ChildProcessError):
            while True:
                self._kill_all()
                pid, ended = os.waitpid(-1, os.WNOHANG)
                while pid:
                    status = ended if pid == self._command else status
                    pid, ended = os.waitpid(-1, os.WNOHANG)
                if time.monotonic() > patience:
                    raise OSError(errno.EBUSY, "what the command started does not end")
                time.sleep(0.0005)
        self._command = 0
        return 0 if status is None else status

    def _kill_all(self) -> None:
        # Only as process 1 of its own namespace: anywhere else kill(-1) would end every process of the machine.
        if os.getpid() == 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return
        for pid in processes():
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _leave(self) -> NoReturn:
        """Wait until the host lets go, and leave nothing behind."""
        if self._command:
            with contextlib.suppress(OSError):
                self._end_all()
        with contextlib.suppress(OSError):
            while os.read(self._setting.receive_from, archive.CHUNK_BYTES):
                pass
        if self._room is not None and self._room.temporary is not None:
            _remove(self._room.temporary)
        os._exit(0)

    def _fail(self, mark: bytes, message: str) -> None:
        text = message.encode("utf-8", "replace")[: jobwire.MESSAGE_BYTES]
        with contextlib.suppress(OSError):
            self._send(jobwire.FAILED.pack(mark, len(text)) + text)

    # The channel

    def _receive(self, size: int) -> bytes:
        chunks = []
        while size:
            chunk = os.read(self._setting.receive_from, min(size, archive.CHUNK_BYTES))
            if not chunk:
                self._leave()
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._setting.send_to, left) :]

    def _in_room(self) -> jail.Room:
        assert self._room is not None  # noqa: S101 - prepared first
        return self._room

    @contextlib.contextmanager
    def _as_owner(self) -> Iterator[None]:
        """Touch the workspace as the user that owns it: the runner may not read what others own, and needs no such right."""
        if os.getuid() != 0:
            yield
            return
        uid, gid = self._owner
        os.setegid(gid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)


class _Watch:
    """Looks at the meter now and then, and says when a limit is passed."""

    def __init__(self, order: jobwire.Order, meter: Meter, started_at: float) -> None:
        self._order = order
        self._meter = meter
        self._started_at = self._looked_at = started_at
        self.slice_s = _SLICE_S if meter.keeps_memory else _LONG_SLICE_S
        self.passed: str | None = None
        self.out_of_memory = False
        self.peak_bytes = 0

    def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < self.slice_s:
            return False
        self._looked_at = now
        used_bytes = self._meter.memory_bytes()
        self.peak_bytes = max(self.peak_bytes, used_bytes)
        self.out_of_memory = not self._meter.keeps_memory and used_bytes > self._order.memory_bytes
        if self._meter.cpu_s() >= self._order.cpu_s:
            self.passed = "cpu"
        elif now - self._started_at >= self._order.wall_s:
            self.passed = "wall"
        return self.out_of_memory or self.passed is not None


class _Tail:
    """The end of what a stream said, and how much that was; memory stays flat."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._last = bytearray()
        self.total = 0
        self.descriptor = -1

    def read(self) -> bool:
        """Take what is there; return False when there will be no more, or is none now."""
        try:
            chunk = os.read(self.descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return False
        self.total += len(chunk)
        self._last += chunk
        if len(self._last) > self._kept + _PIPE_BYTES:
            del self._last[: len(self._last) - self._kept]
        return bool(chunk)

    def bytes(self) -> bytes:
        """Return the tail."""
        return bytes(self._last[-self._kept :]) if self._kept else b""


class _Buffer:
    """Joins small pieces: a call of the kernel for each would be most of the work."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._pieces = bytearray()

    def add(self, piece: bytes) -> None:
        """Take one piece."""
        self._pieces += piece
        if len(self._pieces) >= archive.CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._send(bytes(self._pieces))
        self._pieces.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()


def _meter(setting: _Setting, files: str | None) -> Meter:
    if setting.is_container:
        with contextlib.suppress(OSError):
            return CgroupMeter()
    return ProcessMeter(files)


def _remove(folder: str) -> None:
    """Remove a folder, however deep it is and however locked what lies in it."""
    import subprocess  # noqa: PLC0415 - rarely needed, and long to load

    for command in (["chmod", "-R", "u+rwx", "--", folder], ["rm", "-rf", "--", folder]):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # noqa: S603 - our own words
