"""The Docker backend: one hardened container for each candidate, with the runner as its process 1.

The container reaches the host through one Unix socket alone. The host accepts one connection on it, from the process that
the engine names as the container's first, and takes the socket away before any text of a policy is sent.
"""

from __future__ import annotations

import atexit
import os
import socket
import struct
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sandbox.base import Isolation, SandboxError
from sandbox.engine import connect, translated
from sandbox.handshake import Greeting, greet
from sandbox.image import image_tag
from sandbox.owner import Owner
from sandbox.pool import Pool
from sandbox.session import RunnerSession

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from docker import DockerClient

    from sandbox.base import GuestLimits

OWNER_LABEL = "dream-harness.owner"
IMAGE_LABEL = "dream-harness.image"
_USER = "65529:65529"  # a uid within the range that distributions leave unused
_SOCKET_FOLDER = "/channel"
_SECCOMP_PROFILE = Path(__file__).with_name("container-seccomp.json")
_RUNNER_MEMORY_BYTES = 64 * 2**20  # the runner and what every child shares with it
_IDLE_BYTES = 26 * 2**20  # what a container that waits holds: its runner and the engine's shim
_PROCESSES = 32  # the engine's own start-up in the container needs some for a moment
_START_S = 30.0
_CREDENTIALS = struct.Struct("3i")


class DockerSandbox:
    """A `Sandbox` of containers.

    `runtime` is the engine's name of an OCI runtime, such as `runsc`; `image` is another image than the one of this version;
    `warm` bounds how many containers are kept ready for candidates to come; 0 keeps none. `without` switches layers of the
    guest off, for tests alone. A thread that is pinned to one core and opens a session gets its container on the same core: a
    decision then costs half as much as across cores.
    """

    name = "docker"

    def __init__(
        self, *, runtime: str | None = None, image: str | None = None, warm: int = 2, without: Collection[str] = ()
    ) -> None:
        self._runtime = runtime
        self._image = image or image_tag()
        self._without = without
        self._lock = threading.Lock()
        self._client: DockerClient | None = None
        self._containers: set[_Container] = set()
        self._greeting: Greeting | None = None
        self._pool: Pool[_Kind, _Container] = Pool(self._launch, min(warm, _affordable()))

    def open(self, source: str, limits: GuestLimits) -> RunnerSession:
        """Return a session for one candidate's source in a container of its own."""
        return RunnerSession(lambda: self._pool.take(_Kind(limits.memory_bytes, _own_core())), source, limits)

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""
        from sandbox.base import GuestLimits  # noqa: PLC0415

        if self._greeting is None:
            self._launch(_Kind(GuestLimits().memory_bytes, None)).remove()
        greeting = self._greeting
        assert greeting is not None  # noqa: S101 - launching sets it
        with translated("inspect the sandbox image"):
            image = str(self._engine().images.get(self._image).id)
        landlock = f"; files again by Landlock (ABI {greeting.landlock_abi})" if greeting.landlock_abi else ""
        return Isolation(
            backend=self.name,
            python=greeting.python,
            image=image,
            runtime=self._runtime or "the engine's default",
            isolates=(
                "a fresh container for every candidate, a fresh process for every replay",
                "no network, no capability, no new privilege, a user of its own, a file system without a writable place",
                "processes, users of the machine, System V and POSIX IPC, by namespaces and system limits",
                f"system calls by two allow lists, the container's and a far smaller one of each replay{landlock}",
                "memory without swap, one CPU, process count, descriptors, output and time",
            ),
            leaves_open=(
                "the kernel is shared: a bug in one of some forty allowed calls is a way out; runtime `runsc` (gVisor) closes it",
                "side channels of the hardware, and of time: a policy can read a clock",
                "who may use the engine's socket is root on this machine: that is the harness, never the policy",
            ),
        )

    def close(self) -> None:
        """Remove every container that is still there. May be called again."""
        self._pool.close()
        for container in list(self._containers):
            container.remove()
        atexit.unregister(self.close)
        if self._client is not None:
            self._client.close()
            self._client = None

    def _engine(self) -> DockerClient:
        with self._lock:
            if self._client is None:
                client = connect()
                remove_leftovers(client)
                atexit.register(self.close)
                self._client = client
            return self._client

    def _launch(self, kind: _Kind) -> _Container:
        client = self._engine()
        container = _Container(client, self._plan(client, kind), self._containers, self._pool.leave)
        self._greeting = container.greeting
        return container

    def _plan(self, client: DockerClient, kind: _Kind) -> _Plan:
        """Return what a container is made from; tests of its locks override this, one flag at a time."""
        command = ["--without", ",".join(self._without)] if self._without else []
        return _Plan(self._image, command, _USER, _host_config(client, kind, self._runtime))


def sweep() -> int:
    """Remove what dead harnesses left behind and return how many containers that were. Never touches a living one's.

    Raises:
        SandboxError: no engine answers.
    """
    client = connect()
    try:
        return remove_leftovers(client)
    finally:
        client.close()


def remove_leftovers(client: DockerClient) -> int:
    """Do what `sweep` says with this client."""
    removed = 0
    with translated("sweep leftover containers"):
        for found in client.api.containers(all=True, filters={"label": OWNER_LABEL}):
            try:
                dead = Owner.parse(found["Labels"][OWNER_LABEL]).is_dead()
            except ValueError:
                continue  # of another version; it knows its own
            if dead:
                _remove(client, found["Id"])
                removed += 1
    return removed


def _own_core() -> int | None:
    """Return the core this thread is pinned to, None where it may move."""
    cores = os.sched_getaffinity(0)
    return next(iter(cores)) if len(cores) == 1 else None


def _affordable() -> int:
    """Return how many containers that only wait this machine has memory for: what they hold idle, in a tenth of what is free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return free // 10 // _IDLE_BYTES


def _host_config(client: DockerClient, kind: _Kind, runtime: str | None) -> dict[str, Any]:
    from docker.types import LogConfig, Ulimit  # noqa: PLC0415 - see sandbox.engine

    memory_bytes = kind.memory_bytes + _RUNNER_MEMORY_BYTES
    profile = _SECCOMP_PROFILE.read_text(encoding="ascii")
    config: dict[str, Any] = client.api.create_host_config(
        network_mode="none",
        ipc_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={profile}"],
        mem_limit=memory_bytes,
        memswap_limit=memory_bytes,
        nano_cpus=10**9,
        cpuset_cpus=None if kind.core is None else str(kind.core),
        pids_limit=_PROCESSES,
        oom_score_adj=500,
        ulimits=[Ulimit(name="core", soft=0, hard=0), Ulimit(name="nofile", soft=64, hard=64)],
        # `ipc none` alone leaves System V IPC usable, and its segments outlive the process that made them.
        sysctls={"kernel.shmmni": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0"},
        log_config=LogConfig(type="none"),
        runtime=runtime,
    )
    return config


def _remove(client: DockerClient, container: str) -> None:
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - see sandbox.engine

    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if "already in progress" not in str(error):
            raise


class _Kind(NamedTuple):
    """What must fit between a container that waits and the candidate it is handed to."""

    memory_bytes: int
    core: int | None


class _Plan(NamedTuple):
    """What a container is made from."""

    image: str
    command: list[str]
    user: str
    host: dict[str, Any]


class _Container:
    """A container with its runner, from creation to removal."""

    def __init__(self, client: DockerClient, plan: _Plan, living: set[_Container], leave: Callable[[_Container], None]) -> None:
        self._client = client
        self._living = living
        self._leave = leave
        self._id = ""
        self.pid = 0
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        living.add(self)
        try:
            with tempfile.TemporaryDirectory(prefix="dream-harness-") as folder, translated("start a sandbox container"):
                self._start(Path(folder), plan)
            # The folder and its socket are gone, nobody else can connect: only now is anything said.
            self.greeting = greet(self.control)
        except BaseException:
            self.remove()
            raise

    def _start(self, folder: Path, plan: _Plan) -> None:
        folder.chmod(0o755)  # the container's user must find the socket; its name is unknown to others
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            _bind(listener, folder)
            listener.listen(1)
            listener.settimeout(0.1)
            created = self._client.api.create_container(
                plan.image,
                ["--socket", f"{_SOCKET_FOLDER}/s", *plan.command],
                user=plan.user,
                working_dir="/",
                network_disabled=plan.host["NetworkMode"] == "none",
                labels={OWNER_LABEL: str(Owner.this_process()), IMAGE_LABEL: plan.image},
                host_config={**plan.host, "Binds": [f"{folder}:{_SOCKET_FOLDER}:ro"]},
            )
            self._id = created["Id"]
            self._client.api.start(self._id)
            connection = self._accept(listener)
        self.control.close()
        self.control = connection
        peer = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
        first = self._state()["Pid"]
        self.pid = first
        if peer != first:
            raise SandboxError(f"process {peer} answered in place of the sandbox's runner, which is process {first}")

    def _accept(self, listener: socket.socket) -> socket.socket:
        for _ in range(int(_START_S / 0.1)):
            with suppress(TimeoutError):
                return listener.accept()[0]
            if not self._state()["Running"]:
                raise SandboxError(
                    f"the sandbox container ended before its runner was up {self.last_words()}; try `harness sandbox build`"
                )
        raise SandboxError(f"the sandbox's runner did not come up within {_START_S:.0f} s; is the engine on another machine?")

    def close(self) -> None:
        """Say nothing more to it, and have it removed in the background."""
        self.control.close()
        if self._id:
            self._leave(self)

    def remove(self) -> None:
        """Remove it, and wait until it is gone. May be called again."""
        self.control.close()
        container, self._id = self._id, ""
        if container:
            with translated("remove a sandbox container"):
                _remove(self._client, container)
        self._living.discard(self)

    def last_words(self) -> str:
        with suppress(SandboxError):
            state = self._state()
            if state["OOMKilled"]:
                return "(the kernel ended the container for want of memory)"
            if not state["Running"]:
                return f"(the container ended with status {state['ExitCode']})"
        return ""

    def _state(self) -> dict[str, Any]:
        with translated("inspect a sandbox container"):
            state: dict[str, Any] = self._client.api.inspect_container(self._id)["State"]
            return state


def _bind(listener: socket.socket, folder: Path) -> None:
    # Through the folder's descriptor, since a socket's path is limited to 107 bytes and TMPDIR's length is not ours.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/s")
    finally:
        os.close(descriptor)
    (folder / "s").chmod(0o666)
