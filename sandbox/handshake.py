"""The first frame of a runner: what it is and what its kernel offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import SandboxError
from sandbox.guest import wire
from sandbox.process import PATIENCE_S

if TYPE_CHECKING:
    import socket

_START_S = 30.0  # loading the standard library on a machine that is busy with other work


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a runner says of itself."""

    python: str
    landlock_abi: int
    namespaces: bool


def greet(control: socket.socket) -> Greeting:
    """Wait for the runner to be ready and set the channel's patience.

    Raises:
        SandboxError: it failed, or did not come up.
    """
    control.settimeout(_START_S)
    try:
        frame = control.recv(wire.MESSAGE_BYTES)
    except OSError as error:
        raise SandboxError(f"the sandbox's runner did not come up within {_START_S:.0f} s: {error}") from error
    if frame[:1] == wire.FAILED_MARK:
        raise SandboxError(f"the sandbox's runner cannot lock itself on this machine: {frame[1:].decode('utf-8', 'replace')}")
    if len(frame) != wire.UP.size or frame[:1] != wire.UP_MARK:
        raise SandboxError("the sandbox's runner ended before it was ready; try `harness sandbox check`")
    control.settimeout(PATIENCE_S)
    _, version, landlock_abi, namespaces = wire.UP.unpack(frame)
    return Greeting(f"{version >> 24}.{version >> 16 & 0xFF}.{version >> 8 & 0xFF}", landlock_abi, namespaces)
