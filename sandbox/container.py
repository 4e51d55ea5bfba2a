"""One container and the way to its runner: a shared socket where that works, else a relay through the engine.

With a socket, the host accepts one connection, from the process that the engine names as the container's first, and takes the
socket away before any text of a policy is sent. Through the engine there is nothing to connect to: the stream is the container's
own.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sandbox.attach import ATTACHED, Attachment
from sandbox.base import SandboxError
from sandbox.engine import Remover, translated
from sandbox.guest.wire import NO_SOCKET
from sandbox.handshake import greet
from sandbox.owner import IMAGE_LABEL, OWNER_LABEL, Owner, owned_folder
from sandbox.process import Loss
from sandbox.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from docker import DockerClient

_SOCKET_FOLDER = "/channel"
_START_S = 30.0
_LOOK_S = 0.4  # between two looks at a container that does not come up: sooner, most starts would cost the engine one or more
_NOTICE_S = 3.0
_CREDENTIALS = struct.Struct("3i")
_ENDED_FROM_OUTSIDE = (0, 137, 255)
"""Statuses that no policy can cause: told to leave, killed though nothing was short, end unseen by the engine."""


class NoSocketError(SandboxError):
    """The container's runner cannot connect to a socket of ours."""


class Plan(NamedTuple):
    """What a container is made from."""

    image: str
    command: list[str]
    user: str
    host: dict[str, Any]


class Keeper(NamedTuple):
    """Where containers come from, and where they go."""

    client: DockerClient
    remover: Remover
    living: set[Container]
    leave: Callable[[Container], None]


class Container:
    """A container with its runner, from creation to removal."""

    def __init__(self, keeper: Keeper, plan: Plan, *, relayed: bool) -> None:
        self._keeper = keeper
        # Chosen here, so that what is interrupted while the engine creates it can be removed all the same.
        self.name = f"dream-harness-{os.getpid()}-{secrets.token_hex(6)}"
        self._relay: Relay | None = None
        self.pid = 0
        self.clock: Callable[[], float] | None = None
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper.living.add(self)
        try:
            with translated("start a sandbox container"):
                if relayed:
                    self._start_relayed(plan)
                else:
                    with owned_folder() as folder:
                        self._start_with_socket(folder, plan)
            # With the folder its socket is gone, nobody else can connect: only now is anything said.
            self._greet()
        except BaseException:
            self.remove()
            raise

    def close(self) -> None:
        """Say nothing more to it, and have it removed in the background."""
        self.control.close()
        self._keeper.leave(self)

    def remove(self) -> None:
        """Remove it, and wait until it is gone or the engine silent. May be called again."""
        self.control.close()
        if self._relay is not None:
            self._relay.close()
        if self in self._keeper.living:
            self._keeper.living.discard(self)
            self._keeper.remover.remove(self.name)

    def loss(self) -> Loss:
        """Return what the engine tells about the end of the runner."""
        try:
            state = self._state()
            patience = time.monotonic() + _NOTICE_S
            # The engine hears of an end later than we, who see the channel close.
            while state["Running"] and not state["Paused"] and time.monotonic() < patience:
                time.sleep(0.05)
                state = self._state()
        except SandboxError as error:
            return Loss(str(error), ours=True)
        if state["OOMKilled"]:
            return Loss("(the kernel ended the container for want of memory)")
        if state["Paused"]:
            return Loss(
                f"somebody has paused the container {self.name}; `docker unpause` it, or run the command again", ours=True
            )
        if state["Running"]:
            return Loss()
        status = state["ExitCode"]
        if status in _ENDED_FROM_OUTSIDE:
            return Loss(f"somebody has ended its container, which left with status {status}; run the command again", ours=True)
        return Loss(f"(the container ended with status {status})")

    def _start_relayed(self, plan: Plan) -> None:
        self._create(plan, ["--attached"], {})
        attachment = Attachment(self._keeper.client, self.name)
        try:
            self._keeper.client.api.start(self.name)
        except BaseException:
            attachment.close()
            raise
        self._relay = Relay(attachment)
        self.control.close()
        self.control, self.clock = self._relay.control, self._relay.clock

    def _start_with_socket(self, owned: Path, plan: Plan) -> None:
        # The container's user must find the socket and nobody else of this machine: what it is shown lies in a folder of ours.
        folder = owned / "shown"
        folder.mkdir()
        folder.chmod(0o755)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            _bind(listener, folder)
            listener.listen(1)
            listener.settimeout(_LOOK_S)
            self._create(plan, ["--socket", f"{_SOCKET_FOLDER}/s"], {"Binds": [f"{folder}:{_SOCKET_FOLDER}:ro"]})
            self._keeper.client.api.start(self.name)
            connection = self._accept(listener)
        self.control.close()
        self.control = connection
        peer = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
        self.pid = self._state()["Pid"]
        if peer != self.pid:
            raise SandboxError(f"process {peer} answered in place of the sandbox's runner, which is process {self.pid}")

    def _create(self, plan: Plan, channel: list[str], mounts: dict[str, Any]) -> None:
        api = self._keeper.client.api
        host: Any = {**plan.host, **mounts}
        config = api.create_container_config(
            plan.image,
            [*channel, *plan.command],
            user=plan.user,
            working_dir="/",
            network_disabled=plan.host["NetworkMode"] == "none",
            labels={OWNER_LABEL: str(Owner.this_process()), IMAGE_LABEL: plan.image},
            host_config=host,
        )
        if not mounts:
            config.update(ATTACHED)
        api.create_container_from_config(config, self.name)  # type: ignore[no-untyped-call]

    def _accept(self, listener: socket.socket) -> socket.socket:
        for _ in range(int(_START_S / _LOOK_S)):
            with suppress(TimeoutError):
                return listener.accept()[0]
            state = self._state()
            if not state["Running"]:
                if state["ExitCode"] == NO_SOCKET:
                    raise NoSocketError("the engine cannot share a socket with its containers")
                raise SandboxError(
                    f"the sandbox container ended before its runner was up {self.loss().words}; try `harness sandbox build`"
                )
        raise SandboxError(f"the sandbox's runner did not come up within {_START_S:.0f} s; is the machine overloaded?")

    def _greet(self) -> None:
        try:
            self.greeting = greet(self.control)
        except SandboxError as error:
            complaint = "" if self._relay is None else self._relay.last_words
            raise SandboxError(f"{error} {self.loss().words} {complaint}".strip()) from error

    def _state(self) -> dict[str, Any]:
        with translated("inspect a sandbox container"):
            state: dict[str, Any] = self._keeper.client.api.inspect_container(self.name)["State"]
            return state


def _bind(listener: socket.socket, folder: Path) -> None:
    # Through the folder's descriptor, since a socket's path is limited to 107 bytes and TMPDIR's length is not ours.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/s")
    finally:
        os.close(descriptor)
    (folder / "s").chmod(0o666)
