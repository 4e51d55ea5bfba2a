"""The host's end of a relay, spoken to as a runner and a session would."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

from sandbox.guest import relaywire
from sandbox.process import clock_of_next
from sandbox.relay import Relay

HEADER = struct.Struct(">B3xI")


@dataclass
class Stream:
    """Stands where the engine's attach stream does: one end for the relay, one for the test."""

    connection: socket.socket

    def close(self) -> None:
        """Let go of the relay's end."""
        self.connection.close()


def test_a_session_that_lets_go_of_a_flooding_child_leaves_the_relay_standing() -> None:
    """Frames wait for a reader that has gone: they are dropped with the child, and the next order still goes through."""
    relays_end, engine = socket.socketpair()
    relay = Relay(Stream(relays_end))  # type: ignore[arg-type]
    sessions_end, childs_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(relay.control, [b"R"], [childs_end.fileno()])
    childs_end.close()
    assert engine.recv(1024) == relaywire.IN.pack(relaywire.ORDER, 1) + b"R"
    frame = relaywire.OUT.pack(relaywire.DATA, 8000, 0) + bytes(8000)
    for _ in range(120):
        engine.sendall(HEADER.pack(1, len(frame)) + frame)
    time.sleep(0.1)

    sessions_end.close()
    relay.control.send(b"K")

    engine.settimeout(5)
    said = b""
    while not said.endswith(relaywire.IN.pack(relaywire.ORDER, 1) + b"K"):
        chunk = engine.recv(65536)
        assert chunk, "the relay has ended"
        said += chunk
    relay.close()
    engine.close()


def test_a_process_is_not_billed_for_the_one_before() -> None:
    """Until the runner has told of the new one, what its clock shows is the last one's."""
    shown = iter([9.0, 9.0, 0.0, 0.25])
    clock = clock_of_next(shown.__next__)

    assert [clock(), clock(), clock()] == [0.0, 0.0, 0.25]
