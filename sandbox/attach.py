"""A container's standard input, output and error through the engine: how an engine on another machine is spoken with."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sandbox.process import printable

if TYPE_CHECKING:
    from docker import DockerClient

LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a connection that does not block raises where it would."""
_HEADER = struct.Struct(">BxxxI")  # of the engine: which stream, bytes that follow
_STDOUT = 1
_LAST_WORDS_BYTES = 2_000
# The engine closes the runner's input when we are gone, and the runner ends.
ATTACHED = {"OpenStdin": True, "StdinOnce": True, "AttachStdin": True}


class Attachment:
    """The connection to one container's streams, made before it starts."""

    def __init__(self, client: DockerClient, container: str) -> None:
        self._stream: Any = client.api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})

    @property
    def connection(self) -> socket.socket:
        """Return the socket that carries all three."""
        connection: socket.socket = getattr(self._stream, "_sock", self._stream)
        return connection

    def close(self) -> None:
        """Let go of it. May be called again."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        # The stream of a local engine carries the response that it was taken from, which has to be closed in its place.
        getattr(self._stream, "_response", self._stream).close()


class Streams:
    """Takes apart what comes: `said` is standard output, `last_words` the end of standard error."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._complaint = b""
        self.said = bytearray()

    @property
    def last_words(self) -> str:
        """Return the end of what was written to standard error."""
        return printable(self._complaint)

    def take(self, chunk: bytes) -> None:
        """Sort this into its streams."""
        self._raw += chunk
        while len(self._raw) >= _HEADER.size:
            stream, size = _HEADER.unpack_from(self._raw)
            end = _HEADER.size + size
            if len(self._raw) < end:
                return
            payload = self._raw[_HEADER.size : end]
            del self._raw[:end]
            if stream == _STDOUT:
                self.said += payload
            else:
                self._complaint = (self._complaint + payload)[-_LAST_WORDS_BYTES:]
