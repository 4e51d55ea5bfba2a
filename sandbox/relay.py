"""The host's end of a relay: a runner behind a stream of the engine, as near as one behind a socket.

A session speaks to two local sockets, the control channel and the channel of the one child there is, and cannot tell that a
thread carries their frames to the container and back. Frames of the child are handed on as they came; what frames them is our
runner's, and a frame that it would not send ends the relay.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox.attach import LATER, Streams
from sandbox.guest import relaywire, wire

if TYPE_CHECKING:
    from sandbox.attach import Attachment

_READ_BYTES = 256 * 1024
_ORDER_BYTES = max(wire.MESSAGE_BYTES, wire.ENDED.size + wire.NOTES_BYTES)


class _BrokenError(Exception):
    """The stream has ended, or brought what our runner never sends."""


class Relay:
    """Carries frames in a thread of its own until either side is gone. `control` is the session's end."""

    def __init__(self, attachment: Attachment) -> None:
        self.control, self._orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._attachment = attachment
        self._connection = attachment.connection
        self._streams = Streams()
        self._child: socket.socket | None = None
        self._undelivered: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._delivered_bytes = 0
        self._outgoing = bytearray()
        self._cpu_us = 0
        self._connection.setblocking(False)
        self._thread = threading.Thread(target=self._carry, name="relay", daemon=True)
        self._thread.start()

    @property
    def last_words(self) -> str:
        """Return what the runner wrote to its standard error."""
        return self._streams.last_words

    def clock(self) -> float:
        """Return the CPU seconds of the present child, as the runner told them last: at most some hundredths old."""
        return self._cpu_us / 1e6

    def close(self) -> None:
        """End both connections and wait until the thread has let go of them. May be called again."""
        self.control.close()
        self._thread.join()

    def _carry(self) -> None:
        try:
            while True:
                self._turn()
        except (_BrokenError, OSError):
            pass
        finally:
            self._drop_child()
            self._orders.close()
            self._attachment.close()

    def _turn(self) -> None:
        ready = self._ready()
        if self._connection.fileno() in ready:
            self._receive()
        # The child's frames before the orders: what was sent to a child must not follow the order that ends it.
        child = self._child
        if child is not None and (events := ready.get(child.fileno())):
            if events & select.POLLOUT:
                self._deliver()  # which lets go of a child whose session has closed its end
            if events & ~select.POLLOUT and self._child is child:
                self._take_question(child)
        if self._orders.fileno() in ready:
            self._take_order()
        self._flush()

    def _ready(self) -> dict[int, int]:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        poll.register(self._orders, select.POLLIN)
        if self._child is not None:
            poll.register(self._child, select.POLLIN | (select.POLLOUT if self._undelivered else 0))
        return dict(poll.poll())

    # From the session to the runner

    def _take_order(self) -> None:
        frame, descriptors, _, _ = socket.recv_fds(self._orders, wire.MESSAGE_BYTES, 1)
        if not frame:
            raise _BrokenError
        if descriptors:
            self._drop_child()
            self._child = socket.socket(fileno=descriptors[0])
            self._child.setblocking(False)
            self._delivered_bytes = self._cpu_us = 0
        self._send(relaywire.ORDER, frame)

    def _take_question(self, child: socket.socket) -> None:
        try:
            frame = child.recv(relaywire.FRAME_BYTES)
        except OSError:
            frame = b""
        if frame:
            self._send(relaywire.DATA, frame)
        else:
            self._drop_child()

    def _send(self, kind: bytes, payload: bytes) -> None:
        self._outgoing += relaywire.IN.pack(kind, len(payload)) + payload

    def _flush(self) -> None:
        with suppress(*LATER):
            while self._outgoing:
                del self._outgoing[: self._connection.send(self._outgoing)]

    # From the runner to the session

    def _receive(self) -> None:
        with suppress(*LATER):
            while True:  # to the last byte, since a poll cannot see what a layer of encryption holds
                chunk = self._connection.recv(_READ_BYTES)
                if not chunk:
                    raise _BrokenError
                self._streams.take(chunk)
                self._sort()

    def _sort(self) -> None:
        said = self._streams.said
        while len(said) >= relaywire.OUT.size:
            kind, size, cpu_us = relaywire.OUT.unpack_from(said)
            if size > relaywire.FRAME_BYTES:
                raise _BrokenError
            end = relaywire.OUT.size + size
            if len(said) < end:
                return
            payload = bytes(said[relaywire.OUT.size : end])
            del said[:end]
            self._take(kind, payload, cpu_us)

    def _take(self, kind: bytes, payload: bytes, cpu_us: int) -> None:
        if kind == relaywire.ORDER:
            if len(payload) > _ORDER_BYTES:
                raise _BrokenError
            self._orders.send(payload)
            return
        self._cpu_us = cpu_us
        if kind == relaywire.DATA:
            if self._child is not None:
                self._undelivered.append(payload)
                self._waiting_bytes += len(payload)
                self._deliver()
            if self._waiting_bytes > relaywire.WINDOW_BYTES + relaywire.FRAME_BYTES:
                raise _BrokenError
        elif kind == relaywire.CLOSED:
            self._undelivered.append(b"")  # once all before it is handed on
            self._deliver()
        elif kind != relaywire.CLOCK:
            raise _BrokenError

    def _deliver(self) -> None:
        child = self._child
        try:
            while child is not None and self._undelivered:
                frame = self._undelivered[0]
                if not frame:
                    self._drop_child()
                    return
                child.send(frame)
                self._undelivered.popleft()
                self._waiting_bytes -= len(frame)
                self._delivered_bytes += len(frame)
        except BlockingIOError:
            return
        except OSError:  # the session has closed its end
            self._drop_child()
        if self._delivered_bytes > relaywire.WINDOW_BYTES // 4:
            self._send(relaywire.GRANT, relaywire.GRANTED.pack(self._delivered_bytes))
            self._delivered_bytes = 0

    def _drop_child(self) -> None:
        self._undelivered.clear()
        self._waiting_bytes = 0
        if self._child is not None:
            self._child.close()
            self._child = None
