"""A runner whose host is at the other end of its standard input and output: for engines that cannot share a socket with us.

What passes through here, questions and answers, lies in memory of its own that is wiped or given back: the next child is a copy
of this process, freed memory included, and must not find there what another replay was about. Nor does a child share that memory:
it could write there what the next one reads, or orders to this process.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import select
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, NoReturn

from sandbox.guest import relaywire, wire
from sandbox.guest.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.guest import child
    from sandbox.guest.runner import Part

_READ_BYTES = 256 * 1024
_FIGURES = 256  # more than go by unused since the last child


class Stream:
    """Standard input and output, moved out of the way of the children, which find /dev/null there."""

    def __init__(self) -> None:
        self.incoming, self._outgoing = os.dup(0), os.dup(1)
        self._input = io.FileIO(self.incoming)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        self._view = memoryview(_own_memory(relaywire.IN.size + relaywire.FRAME_BYTES + _READ_BYTES))
        self._end = 0

    def send(self, frame: bytes) -> None:
        """Send a frame of the control channel."""
        self.put(relaywire.ORDER, frame, 0)

    def sendmsg(self, parts: list[Part]) -> None:
        """Send a frame of the control channel that lies in several places."""
        self._write([relaywire.OUT.pack(relaywire.ORDER, sum(map(len, parts)), 0), *parts])

    def put(self, kind: bytes, payload: Part, cpu_us: int) -> None:
        """Send a frame of any kind."""
        self._write([relaywire.OUT.pack(kind, len(payload), cpu_us), payload])

    def _write(self, parts: list[Part]) -> None:
        left = [memoryview(part) for part in parts]
        while left:
            written = os.writev(self._outgoing, left)
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]

    def read(self) -> bool:
        """Read once; return False when the host is gone."""
        size = self._input.readinto(self._view[self._end : self._end + _READ_BYTES])
        self._end += size
        return size > 0

    def frames(self) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the frames that are whole; each is wiped as soon as the next one is asked for."""
        start = 0
        while self._end - start >= relaywire.IN.size:
            kind, size = relaywire.IN.unpack_from(self._view, start)
            stop = start + relaywire.IN.size + size
            if self._end < stop:
                break
            yield kind, self._view[start + relaywire.IN.size : stop]
            self._view[start:stop] = bytes(stop - start)
            start = stop
        if start:
            left = self._end - start
            self._view[:left] = self._view[start : self._end]
            self._view[left : self._end] = bytes(start)
            self._end = left


def _own_memory(size: int) -> mmap.mmap:
    """Return memory that goes back to the kernel when it is let go, and that no child shares, as it would by default."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class RelayedRunner(Runner):
    """Obeys the orders that a stream brings, and copies between it and the channel of the one child there is."""

    def __init__(self, stream: Stream, layers: child.Layers) -> None:
        super().__init__(stream, layers)
        self._stream = stream
        self._channel: socket.socket | None = None
        self._undelivered: deque[mmap.mmap] = deque()
        self._frame = memoryview(_own_memory(relaywire.FRAME_BYTES))
        self._longest = 0
        self._credit = 0
        self._clock = 0
        self._cpu_us = 0

    def serve(self) -> NoReturn:
        """Serve the host until it closes the stream."""
        self.announce()
        self._poll.register(self._stream.incoming, select.POLLIN)
        watch = self._layers.watch
        if watch is not None:
            self._poll.register(watch, select.POLLIN)
        while True:
            ready = self._ready()
            if self._ended in ready:
                self._reap()
                continue
            if watch is not None and watch in ready:
                self._end_hostile(watch)
            if self._channel is not None and (events := ready.get(self._channel.fileno())):
                self._exchange(self._channel, events)
            if self._stream.incoming in ready:
                if not self._stream.read():
                    self._leave()
                for kind, payload in self._stream.frames():
                    self._take(kind, payload)
            elif not ready:
                self._report()

    def _ready(self) -> dict[int, int]:
        channel = self._channel
        wanted = (select.POLLIN if self._credit > 0 else 0) | (select.POLLOUT if self._undelivered else 0)
        if channel is not None and wanted:
            self._poll.register(channel, wanted)
        # `dict(...)` would take its memory elsewhere than where it goes back to, which is one more that a replay has left.
        ready: dict[int, int] = {}
        try:
            ready.update(self._poll.poll(relaywire.REPORT_S * 1000 if self._ended >= 0 else None))
            return ready
        finally:
            if channel is not None and wanted:
                self._poll.unregister(channel)

    def _take(self, kind: bytes, payload: memoryview) -> None:
        if kind == relaywire.DATA:
            if self._channel is not None:
                kept = _own_memory(len(payload))
                kept[:] = payload
                self._undelivered.append(kept)
                self._deliver(self._channel)
        elif kind == relaywire.GRANT:
            self._credit += relaywire.GRANTED.unpack(payload)[0]
        elif payload[:1] == wire.RUN_MARK:
            self._close_channel()
            self._forget()
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._channel.setblocking(False)
            self.obey(bytes(payload), [theirs.detach()])
            self._clock = (~self._child << 3) | 2  # of another process, as the kernel numbers clocks
        else:
            self.obey(bytes(payload), [])

    def _forget(self) -> None:
        """Leave nothing of the last child to the next one."""
        self._credit, self._cpu_us = relaywire.WINDOW_BYTES, 0
        self._frame[: self._longest] = bytes(self._longest)
        self._longest = 0
        for _ in [2**60 + place for place in range(_FIGURES)]:  # lie where the figures that went by have lain
            pass

    def _exchange(self, channel: socket.socket, events: int) -> None:
        if events & select.POLLOUT:
            self._deliver(channel)
        if events & ~select.POLLOUT and not self._copy(channel):
            self._close_channel()

    def _deliver(self, channel: socket.socket) -> None:
        try:
            while self._undelivered:
                channel.send(self._undelivered[0])
                self._undelivered.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it has closed its end
            self._undelivered.clear()

    def _copy(self, channel: socket.socket) -> bool:
        """Hand one frame of the child on; return whether there was one."""
        try:
            size = channel.recv_into(self._frame)
        except OSError:
            return False
        if size:
            self._longest = max(self._longest, size)
            self._credit -= size
            self._stream.put(relaywire.DATA, self._frame[:size], self._cpu_time_us())
        return size > 0

    def _reap(self) -> None:
        """Hand on what the child said last before it is told that it has ended."""
        if self._channel is not None:
            while self._credit > 0 and self._copy(self._channel):
                pass
            self._close_channel()
        super()._reap()

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
            self._undelivered.clear()
            self._stream.put(relaywire.CLOSED, b"", self._cpu_us)

    def _report(self) -> None:
        before = self._cpu_us
        if self._cpu_time_us() != before:
            self._stream.put(relaywire.CLOCK, b"", self._cpu_us)

    def _cpu_time_us(self) -> int:
        with contextlib.suppress(OSError):  # it has ended, or this kernel shows no clock of another process
            self._cpu_us = time.clock_gettime_ns(self._clock) // 1000
        return self._cpu_us
