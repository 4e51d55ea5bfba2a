"""Relays from TCP on loopback to an engine's Unix socket, for tests of engines that are not reached by a socket."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress
from typing import Self

from wants import want_of_docker


class TcpRelay:
    """Passes bytes between TCP connections on loopback and a Unix socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._ends: dict[socket.socket, socket.socket] = {}
        self._stopped = threading.Event()

    @classmethod
    def to_engine(cls) -> Self:
        """Return one to the engine at hand, or skip or fail."""
        engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        if not engine.startswith("unix://"):
            want_of_docker("the engine is reached otherwise than by a local socket already; unset DOCKER_HOST")
        return cls(engine.removeprefix("unix://"))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            for ready in select.select([self._listener, *self._ends], [], [], 0.05)[0]:
                if ready is self._listener:
                    near, far = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    far.connect(self._path)
                    self._ends |= {near: far, far: near}
                elif ready in self._ends:
                    self._pass(ready)

    def _pass(self, ready: socket.socket) -> None:
        other = self._ends[ready]
        with suppress(OSError):
            chunk = ready.recv(65536)
            if chunk:
                other.sendall(chunk)
                return
        for end in (ready, other):
            del self._ends[end]
            end.close()
