"""What the host decodes, each behind one function that takes hostile frames: for `benchmarks.fuzz` and the tests.

A target feeds frames to the very code that decodes them in production; only the far end of the channel is scripted. It returns
how many it took, lets the faults and errors pass that its decoder promises, and raises on anything else: that is a crash.
"""

from __future__ import annotations

import os
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.errors import TreeError
from harness.replay import Replay
from harness.tree import Attempt, Root, Tree
from harness.treefile import lines, read
from sandbox.api import Limits, PolicyFault
from sandbox.base import GuestLimits, SandboxError
from sandbox.guest import archive, jobwire, wire
from sandbox.handshake import greet
from sandbox.job import JobFault, JobLimits
from sandbox.jobhost import Channel, ChannelLostError, _ended, _up
from sandbox.process import Loss, Process, RunnerLostError

if TYPE_CHECKING:
    import select
    import socket
    from collections.abc import Callable, Sequence

    from sandbox.api import Fault
    from sandbox.process import Runner

_LIMITS = GuestLimits()
_JOB_LIMITS = JobLimits()
_LONGEST_BATCH = 64
_NO_NOTES = bytes(wire.NOTES_BYTES)
# Of want of memory.
_ENDED = wire.ENDED.pack(wire.ENDED_MARK, 0, wire.NO_CALL, 0, 9, 0, 10_000, 0, 2_000, 60 * 2**10, *bytes(13)) + _NO_NOTES
_HOSTILE_ENDED = wire.ENDED.pack(wire.ENDED_MARK, 0, 101, 0xC000003E, 9, *bytes(18)) + _NO_NOTES


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder: `take` feeds it frames; `seeds` are conversations that it accepts, for mutation to start from."""

    name: str
    take: Callable[[Sequence[bytes]], int]
    seeds: tuple[tuple[bytes, ...], ...]


class _Far:
    """The end of a channel that says what it was told to: each `recv` is one frame, cut as the kernel cuts it."""

    def __init__(self, frames: Sequence[bytes], descriptor: int = -1) -> None:
        self._frames = frames
        self._descriptor = descriptor
        self.taken = 0

    def recv(self, size: int) -> bytes:
        """Return the next frame, or the end."""
        if self.taken == len(self._frames):
            return b""
        self.taken += 1
        return self._frames[self.taken - 1][:size]

    def recvmsg(self, size: int, _space: int) -> tuple[bytes, list[object], int, None]:
        """Return the next frame, from a process out of sight."""
        return self.recv(size), [], 0, None

    def send(self, message: bytes) -> int:
        """Swallow what the host says."""
        return len(message)

    def fileno(self) -> int:
        """Return a descriptor that is always readable."""
        return self._descriptor

    def settimeout(self, _seconds: float) -> None:
        """Do nothing: it never waits."""

    def setblocking(self, _flag: bool) -> None:
        """Do nothing: it never waits."""

    def close(self) -> None:
        """Do nothing: nothing is held."""


class _Control(_Far):
    """A runner's channel, which takes the order to start a child."""

    def sendmsg(self, _buffers: object, _ancillary: object) -> int:
        """Start nothing."""
        return 1


@dataclass(slots=True)
class _Runner:
    control: socket.socket
    pid: int = 0
    clock: Callable[[], float] | None = None

    def close(self) -> None:
        pass

    def loss(self) -> Loss:
        return Loss()


_READABLE, _WRITER = os.pipe()
os.write(_WRITER, b"x")


def _process(frames: Sequence[bytes], ends: Sequence[bytes]) -> tuple[Process, _Far]:
    runner: Runner = _Runner(cast("socket.socket", _Control(ends, _READABLE)))
    process = Process(runner, _LIMITS, _LONGEST_BATCH, b"")
    process._channel.close()  # noqa: SLF001 - its far end is scripted from here on
    far = _Far(frames)
    process._channel = cast("socket.socket", far)  # noqa: SLF001
    process._poll = cast("select.poll", _Silent())  # noqa: SLF001
    return process, far


class _Silent:
    """A poll that never finds a frame before its time: that case is tested with real channels."""

    def poll(self, _timeout: int) -> list[tuple[int, int]]:
        """Return nothing."""
        return []


def _is_sound(fault: Fault) -> None:
    if not all(c.isprintable() or c in "\n\t" for c in fault.message + fault.traceback):
        raise AssertionError(f"a fault steers a terminal: {fault.message!r}")
    if len(fault.traceback) > wire.TRACEBACK_BYTES or any(not -(2**63) <= value < 2**63 for value in fault.figures.values()):
        raise AssertionError(f"a fault is out of bounds: {fault.figures}")


def take_answers(frames: Sequence[bytes]) -> int:
    """Load a policy and ask it questions."""
    process, far = _process(frames, [_ENDED])
    try:
        process.load()
        number = 0
        while far.taken < len(frames):
            batch = process.ask(number, b"i")
            number += 1
            if len(batch) > max(2500, _LONGEST_BATCH + 1) or not all(0 <= pick <= wire.NO_SUCH_ID for pick in batch):
                raise AssertionError(f"a batch that cannot be: {batch[:9]}")
    except PolicyFault as broken:
        _is_sound(broken.fault)
    except RunnerLostError:  # ended from outside, as its runner tells
        pass
    finally:
        process.finish()
    return max(1, far.taken)


def take_code(frames: Sequence[bytes]) -> int:
    """Have a policy compiled."""
    process, far = _process(frames, [_ENDED])
    try:
        if len(process.compile()) > wire.CODE_BYTES:
            raise AssertionError("more code than may be")
    except PolicyFault as broken:
        _is_sound(broken.fault)
    except RunnerLostError:  # ended from outside, as its runner tells
        pass
    finally:
        process.finish()
    return max(1, far.taken)


def take_ends(frames: Sequence[bytes]) -> int:
    """Have the runner say how a policy's process, that closed its channel, ended."""
    for frame in frames:
        process, _ = _process([], [frame])
        try:
            process.load()
        except PolicyFault as broken:
            _is_sound(broken.fault)
        except (SandboxError, RunnerLostError):
            pass
    return len(frames)


def take_greetings(frames: Sequence[bytes]) -> int:
    """Greet a runner."""
    for frame in frames:
        with suppress(SandboxError):
            greet(cast("socket.socket", _Far([frame])))
    return len(frames)


def take_batches(frames: Sequence[bytes]) -> int:
    """Replay a tree with batches of any ids whatever."""
    replay = Replay(_TREE, Limits(max_rounds=1000))
    for place, frame in enumerate(frames):
        picks = struct.unpack(f"<{len(frame) // 4}I", frame[: len(frame) // 4 * 4])
        replay.observe()
        rounds = len(replay.rounds)
        try:
            replay.answer(picks)
        except PolicyFault as broken:
            _is_sound(broken.fault)
            if len(replay.rounds) != rounds:
                raise AssertionError("a refused batch counted") from None
            return place + 1
        if replay.stop is not None:
            return place + 1
    return max(1, len(frames))


def take_archive(frames: Sequence[bytes]) -> int:
    """Unpack what a command left into a folder, and find nothing outside of it."""
    stream = b"".join(frames)
    place = 0

    def receive(size: int) -> bytes:
        nonlocal place
        if place + size > len(stream):
            raise ChannelLostError
        place += size
        return stream[place - size : place]

    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_MEMORY) as folder:
        room = Path(folder) / "room"
        room.mkdir()
        tally = archive.Tally(archive.Caps(256 * 1024, 30))
        with suppress(archive.RefusedFault, ChannelLostError):
            archive.unpack(receive, os.fsencode(room), tally)
        found = list(room.rglob("*"))
        if os.listdir(folder) != ["room"] or len(found) > 30 or any(path.is_symlink() for path in found):  # noqa: PTH208, PLR2004 - names; the cap above
            raise AssertionError(f"an archive got out, or past its caps: {found}")
    return max(1, len(frames))


def take_job(frames: Sequence[bytes]) -> int:
    """Hear a job's runner to its end, through the engine's stream."""
    stream = b"".join(frames)
    channel = Channel(cast("socket.socket", _Far([stream])), lambda: True, multiplexed=bool(frames and frames[0][:1] == b"\x01"))
    with suppress(JobFault, SandboxError, ChannelLostError):
        _up(channel)
        told = _ended(channel, _JOB_LIMITS)
        if len(told.stdout) > _JOB_LIMITS.output_bytes or not -(2**31) <= told.exit_code < 2**31:
            raise AssertionError("a job's end that cannot be")
    return max(1, len(frames))


def take_tree(frames: Sequence[bytes]) -> int:
    """Read a tree file."""
    with tempfile.NamedTemporaryFile(prefix="fuzz-", dir=_MEMORY) as file:
        file.write(b"".join(frames))
        file.flush()
        with suppress(TreeError):
            read(Path(file.name))
    return max(1, len(frames))


_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - in memory where there is such a place
_EDGES = [("a", None), ("b", None), ("c", None), ("a1", "a"), ("b1", "b"), ("a2", "a1")]
_TREE = Tree("small", tuple(Attempt(name, up, place / 10) for place, (name, up) in enumerate(_EDGES)), root=Root(score=0.0))


def _ids(*ids: int) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)


def _answer(number: int, *ids: int) -> bytes:
    return wire.ANSWER.pack(wire.ANSWER_MARK, number) + _ids(*ids)


def _entry(mark: bytes, mode: int, path: bytes, content: bytes = b"") -> bytes:
    return archive.ENTRY.pack(mark, mode, len(path), len(content)) + path + content


_JOB_END = (
    jobwire.UP.pack(jobwire.UP_MARK, True, 7),
    jobwire.ENDED.pack(jobwire.ENDED_MARK, 256, 1, False, 1000, 2000, 2**20, 7, 5, 4, 3) + b"told" + b"err",
)
_TREE_LINES = tuple(f"{line}\n".encode() for line in lines(_TREE))

TARGETS = (
    Target(
        "answers of a policy's process",
        take_answers,
        (
            (wire.READY_MARK, _answer(0, 0, 1), _answer(1)),
            (wire.READY_MARK, wire.FAULT.pack(wire.FAULT_MARK, 1, 4) + b"oopsTraceback"),
            (wire.READY_MARK, _answer(0, wire.NO_SUCH_ID)),
        ),
    ),
    Target("compiled code", take_code, ((wire.CODE.pack(wire.CODE_MARK, 5), b"12345"),)),
    Target(
        "ends, from a runner",
        take_ends,
        (
            (
                _ENDED,
                _HOSTILE_ENDED,
                _ENDED[: wire.ENDED.size] + wire.PRINTED.pack(2**63).ljust(wire.NOTES_BYTES, b"\x9b"),
                wire.FAILED_MARK + b"no",
            ),
        ),
    ),
    Target("greetings", take_greetings, ((wire.UP.pack(wire.UP_MARK, 0x030B02F0, 7, True), wire.FAILED_MARK + b"no lock"),)),
    Target("batches against the rules", take_batches, ((_ids(0, 0, 0), _ids(1, 2), _ids(4, 5)),)),
    Target(
        "archives of jobs",
        take_archive,
        (
            (
                _entry(b"D", 0o755, b"out"),
                _entry(b"F", 0o644, b"out/a.txt", b"text"),
                _entry(b"F", 0o600, b"b"),
                _entry(b"E", 0, b""),
            ),
            (_entry(b"F", 0o644, b"../climbs", b"x"), _entry(b"R", 0, b"hard-link: it is")),
        ),
    ),
    Target(
        "jobs",
        take_job,
        (
            _JOB_END,
            tuple(struct.pack(">BxxxI", 1, len(part)) + part for part in _JOB_END),
            (jobwire.FAILED.pack(jobwire.NOT_STARTED_MARK, 4) + b"none",),
        ),
    ),
    Target("tree files", take_tree, (_TREE_LINES,)),
)
