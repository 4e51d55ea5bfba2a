"""A runner whose host is at the other end of its standard input and output: for engines that cannot share a socket with us."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, NoReturn

from sandbox.guest import relaywire, wire
from sandbox.guest.runner import Runner

if TYPE_CHECKING:
    from sandbox.guest import child

_READ_BYTES = 256 * 1024


class Stream:
    """Standard input and output, moved out of the way of the children, which find /dev/null there."""

    def __init__(self) -> None:
        self.incoming, self._outgoing = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        self._pending = bytearray()

    def send(self, frame: bytes) -> None:
        """Send a frame of the control channel."""
        self.put(relaywire.ORDER, frame, 0)

    def put(self, kind: bytes, payload: bytes, cpu_us: int) -> None:
        """Send a frame of any kind."""
        left = memoryview(relaywire.OUT.pack(kind, len(payload), cpu_us) + payload)
        while left:
            left = left[os.write(self._outgoing, left) :]

    def take(self) -> list[tuple[bytes, bytes]] | None:
        """Read once, and return the frames that are whole; None when the host is gone."""
        chunk = os.read(self.incoming, _READ_BYTES)
        if not chunk:
            return None
        pending, frames = self._pending, []
        pending += chunk
        while len(pending) >= relaywire.IN.size:
            kind, size = relaywire.IN.unpack_from(pending)
            end = relaywire.IN.size + size
            if len(pending) < end:
                break
            frames.append((kind, bytes(pending[relaywire.IN.size : end])))
            del pending[:end]
        return frames


class RelayedRunner(Runner):
    """Obeys the orders that a stream brings, and copies between it and the channel of the one child there is."""

    def __init__(self, stream: Stream, layers: child.Layers) -> None:
        super().__init__(stream, layers)
        self._stream = stream
        self._channel: socket.socket | None = None
        self._undelivered: deque[bytes] = deque()
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
                frames = self._stream.take()
                if frames is None:
                    self._leave()
                for kind, payload in frames:
                    self._take(kind, payload)
            elif not ready:
                self._report()

    def _ready(self) -> dict[int, int]:
        channel = self._channel
        wanted = (select.POLLIN if self._credit > 0 else 0) | (select.POLLOUT if self._undelivered else 0)
        if channel is not None and wanted:
            self._poll.register(channel, wanted)
        try:
            return dict(self._poll.poll(relaywire.REPORT_S * 1000 if self._ended >= 0 else None))
        finally:
            if channel is not None and wanted:
                self._poll.unregister(channel)

    def _take(self, kind: bytes, payload: bytes) -> None:
        if kind == relaywire.DATA:
            if self._channel is not None:
                self._undelivered.append(payload)
                self._deliver(self._channel)
        elif kind == relaywire.GRANT:
            self._credit += relaywire.GRANTED.unpack(payload)[0]
        elif payload[:1] == wire.RUN_MARK:
            self._close_channel()
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._channel.setblocking(False)
            self._credit, self._cpu_us = relaywire.WINDOW_BYTES, 0
            self.obey(payload, [theirs.detach()])
            self._clock = (~self._child << 3) | 2  # of another process, as the kernel numbers clocks
        else:
            self.obey(payload, [])

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
            frame = channel.recv(relaywire.FRAME_BYTES)
        except OSError:
            return False
        if frame:
            self._credit -= len(frame)
            self._stream.put(relaywire.DATA, frame, self._cpu_time_us())
        return bool(frame)

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
