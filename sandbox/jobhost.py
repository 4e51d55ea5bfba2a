"""The host's end of one job, whatever the backend: send the order and the files, wait, decode strictly, swap the result in.

Of what comes back nothing is believed beyond its form: fixed-size fields, capped texts, and an archive whose every name and size
is checked again before it is written to a folder that nobody else knows.
"""

from __future__ import annotations

import math
import os
import select
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sandbox.attach import LATER, Streams
from sandbox.base import SandboxError
from sandbox.guest import archive, jobwire
from sandbox.job import JobCancelledError, JobFault, JobFaultKind, JobLimits, JobResult, JobUsage, TimeLimit
from sandbox.process import printable
from sandbox.staging import Staging

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from sandbox.job import Input

_SLICE_MS = 20  # between two looks at whether the job is still wanted
_PATIENCE_S = 60.0  # with a runner that neither takes nor gives a byte, beyond the job's own time
_BUFFER_BYTES = 256 * 1024


class ChannelLostError(Exception):
    """The runner is gone in the middle of the job."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the kernel gave a local runner."""

    namespaces: bool
    landlock_abi: int


class Channel:
    """A stream to a runner and back, with patience and with an eye on whether the job is still wanted.

    `multiplexed` for a stream of the engine, that brings the runner's standard output and error in frames.
    """

    def __init__(self, connection: socket.socket, wanted: Callable[[], bool], *, multiplexed: bool) -> None:
        self._connection = connection
        self._wanted = wanted
        self._streams = Streams()
        self._ready = self._streams.said
        self._take = self._streams.take if multiplexed else self._ready.extend
        self._outgoing = bytearray()
        self.patience_s = _PATIENCE_S
        connection.setblocking(False)

    @property
    def last_words(self) -> str:
        """Return the end of what the runner wrote to its standard error."""
        return self._streams.last_words

    def add(self, data: bytes) -> None:
        """Send this, now or with what comes after it."""
        self._outgoing += data
        if len(self._outgoing) >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send all that was added."""
        left = memoryview(bytes(self._outgoing))
        self._outgoing.clear()
        while left:
            self._check()
            try:
                left = left[self._connection.send(left) :]
            except LATER:
                self._wait(select.POLLOUT)
            except OSError:  # it is gone; what it said last is still to be read
                return

    def receive(self, size: int) -> bytes:
        """Return exactly so many bytes."""
        while len(self._ready) < size:
            self._check()
            try:
                chunk = self._connection.recv(_BUFFER_BYTES)
            except LATER:
                self._wait(select.POLLIN)
                continue
            except OSError as error:
                raise ChannelLostError(str(error)) from error
            if not chunk:
                raise ChannelLostError("the channel was closed")
            self._take(chunk)
        data = bytes(memoryview(self._ready)[:size])
        del self._ready[:size]
        return data

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._connection, event)
        until = time.monotonic() + self.patience_s
        while not poll.poll(_SLICE_MS):
            self._check()
            if time.monotonic() > until:
                raise SandboxError(f"the job's runner has been silent for {self.patience_s:.0f} s")

    def _check(self) -> None:
        if not self._wanted():
            raise JobCancelledError("the job was cancelled")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files beside the workspace, each by its whole name, and the room that they need."""

    files: Mapping[bytes, Input]
    caps: archive.Caps


def checked(command: Sequence[str]) -> list[str]:
    """Return the command as a list; raises ValueError for one that is empty, or a text in place of its words."""
    if isinstance(command, str) or not command:
        raise ValueError(f"the command is {command!r}; it must be a list of a program and its arguments")
    return list(command)


def gathered(inputs: Mapping[str, Input]) -> Inputs:
    """Return these inputs with folders taken apart.

    Raises:
        SandboxError: a name or a file is none that can be given.
    """
    files: dict[bytes, Input] = {}
    for name, content in inputs.items():
        found = {name: content}
        if isinstance(content, Path) and content.is_dir():
            found = {
                f"{name}/{path.relative_to(content).as_posix()}": path for path in sorted(content.rglob("*")) if not path.is_dir()
            }
        for inner, file in found.items():
            path = os.fsencode(inner)
            if isinstance(file, Path) and not file.is_file():
                raise SandboxError(f"the input {inner!r} is {file}, which is no file")
            try:
                archive.check_path(path)
            except archive.RefusedFault as refused:
                raise SandboxError(f"an input cannot be given under this name: {refused.message}") from None
            files[path] = file
    sizes = [file.stat().st_size if isinstance(file, Path) else len(file) for file in files.values()]
    size_bytes = sum(size + archive.PAGE_BYTES for size in sizes)
    return Inputs(files, archive.Caps(size_bytes + archive.PAGE_BYTES, len(files) + len(_folders(files))))


def _folders(files: Mapping[bytes, Input]) -> list[bytes]:
    found = set()
    for path in files:
        names = path.split(b"/")
        found |= {b"/".join(names[:depth]) for depth in range(1, len(names))}
    return sorted(found)


def converse(
    channel: Channel,
    command: list[str],
    workspace: Path,
    limits: JobLimits,
    inputs: Inputs,
    *,
    network: bool,
) -> tuple[JobResult, Given]:
    """Take one job through its channel.

    Raises:
        JobFault: as `Jobs.run` says.
        ChannelLostError: the runner is gone; why, the backend may know.
        JobCancelledError, SandboxError: as `Jobs.run` says.
    """
    with Staging(workspace) as staging:
        order = jobwire.Order(
            command=command,
            cpu_s=float(limits.cpu_s),
            wall_s=float(limits.wall_s),
            memory_bytes=limits.memory_bytes,
            workspace_bytes=limits.workspace_bytes,
            workspace_files=limits.workspace_files,
            scratch_bytes=limits.scratch_bytes,
            input_bytes=inputs.caps.size_bytes,
            input_files=inputs.caps.files,
            output_bytes=limits.output_bytes,
            processes=limits.processes,
            threads=max(1, math.floor(limits.cpus)),
            network=network,
        )
        channel.add(jobwire.packed(order))
        _send_workspace(channel, workspace, limits)
        _send_inputs(channel, inputs)
        channel.flush()
        given = _up(channel)
        channel.patience_s = limits.wall_s + _PATIENCE_S
        told = _ended(channel, limits)
        channel.patience_s = _PATIENCE_S
        tally = archive.Tally(archive.Caps(limits.workspace_bytes, limits.workspace_files))
        try:
            archive.unpack(channel.receive, os.fsencode(staging.folder), tally)
            staging.take()
        except archive.RefusedFault as refused:
            message = f"what the command left is refused: {refused.message}"
            raise JobFault(JobFaultKind(refused.kind), message, told.result(tally)) from None
        except OSError as error:
            raise SandboxError(f"cannot put the job's result in the place of {workspace}: {error}") from error
        return told.result(tally), given


@dataclass(frozen=True, slots=True)
class _Told:
    """What the runner says of the command's end."""

    exit_code: int
    timed_out: TimeLimit | None
    out_of_memory: bool
    cpu_s: float
    wall_s: float
    memory_bytes: int
    output_bytes: int
    stdout: bytes
    stderr: bytes

    def result(self, tally: archive.Tally) -> JobResult:
        usage = JobUsage(self.cpu_s, self.wall_s, self.memory_bytes, self.output_bytes, tally.size_bytes, tally.files)
        texts = (printable(self.stdout), printable(self.stderr))
        return JobResult(self.exit_code, *texts, self.timed_out, self.out_of_memory, usage)


def _send_workspace(channel: Channel, workspace: Path, limits: JobLimits) -> None:
    tally = archive.Tally(archive.Caps(limits.workspace_bytes, limits.workspace_files))
    try:
        root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            archive.pack(root, channel.add, tally)
        finally:
            os.close(root)
    except archive.RefusedFault as refused:
        raise JobFault(JobFaultKind(refused.kind), f"the workspace given to the job is refused: {refused.message}") from None
    except OSError as error:
        raise SandboxError(f"cannot read the workspace {workspace}: {error}") from error
    archive.pack_end(channel.add)


def _send_inputs(channel: Channel, inputs: Inputs) -> None:
    tally = archive.Tally(inputs.caps)
    for path in _folders(inputs.files):
        tally.add(path, 0)
        channel.add(archive.ENTRY.pack(archive.FOLDER_MARK, 0o755, len(path), 0) + path)
    try:
        for path, content in inputs.files.items():
            if isinstance(content, Path):
                descriptor = os.open(content, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    archive.pack_file(descriptor, path, channel.add, tally, mode=content.stat().st_mode & 0o555 | 0o444)
                finally:
                    os.close(descriptor)
            else:
                tally.add(path, len(content))
                channel.add(archive.ENTRY.pack(archive.FILE_MARK, 0o444, len(path), len(content)) + path)
                channel.add(content)
    except OSError as error:
        raise SandboxError(f"cannot read an input: {error}") from error
    except archive.RefusedFault as refused:
        raise SandboxError(f"the inputs changed while they were read: {refused.message}") from None
    archive.pack_end(channel.add)


def _up(channel: Channel) -> Given:
    mark = channel.receive(1)
    if mark != jobwire.UP_MARK:
        _failed(channel, mark)
    _, namespaces, landlock_abi = jobwire.UP.unpack(mark + channel.receive(jobwire.UP.size - 1))
    return Given(namespaces, landlock_abi)


def _ended(channel: Channel, limits: JobLimits) -> _Told:
    mark = channel.receive(1)
    if mark != jobwire.ENDED_MARK:
        _failed(channel, mark)
    fields = jobwire.ENDED.unpack(mark + channel.receive(jobwire.ENDED.size - 1))
    _, status, passed, out_of_memory, cpu_us, wall_us, memory_bytes, stdout_bytes, stderr_bytes, *tails = fields
    if passed >= len(jobwire.TIME_LIMITS) or max(tails) > limits.output_bytes:
        raise JobFault(JobFaultKind.PROTOCOL_FAULT, "the job's runner sent a broken frame")
    with suppress(ValueError):
        name = jobwire.TIME_LIMITS[passed]
        return _Told(
            exit_code=os.waitstatus_to_exitcode(status),
            timed_out=None if name is None else TimeLimit(name),
            out_of_memory=out_of_memory,
            cpu_s=cpu_us / 1e6,
            wall_s=wall_us / 1e6,
            memory_bytes=memory_bytes,
            output_bytes=stdout_bytes + stderr_bytes,
            stdout=channel.receive(tails[0]),
            stderr=channel.receive(tails[1]),
        )
    raise JobFault(JobFaultKind.PROTOCOL_FAULT, "the job's runner sent a broken frame")


def _failed(channel: Channel, mark: bytes) -> NoReturn:
    """Raise what the runner says in place of what was awaited."""
    if mark not in {jobwire.FAILED_MARK, jobwire.NOT_STARTED_MARK}:
        raise JobFault(JobFaultKind.PROTOCOL_FAULT, "the job's runner sent a broken frame")
    _, size = jobwire.FAILED.unpack(mark + channel.receive(jobwire.FAILED.size - 1))
    if size > jobwire.MESSAGE_BYTES:
        raise JobFault(JobFaultKind.PROTOCOL_FAULT, "the job's runner sent a broken frame")
    text = printable(channel.receive(size))
    if mark == jobwire.NOT_STARTED_MARK:
        raise JobFault(JobFaultKind.NOT_STARTED, f"the command cannot be started: {text}")
    raise SandboxError(f"the job's runner failed: {text}")
