"""The Docker backend: one hardened container for each candidate, with the runner as its process 1."""

from __future__ import annotations

import atexit
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sandbox.base import GuestLimits, Isolation
from sandbox.container import Container, Keeper, NoSocketError, Plan
from sandbox.engine import Remover, connect, is_remote, remove, translated
from sandbox.image import image_tag, require_version
from sandbox.owner import OWNER_LABEL, Owner, remove_dead_folders
from sandbox.pool import Pool
from sandbox.session import RunnerSession

if TYPE_CHECKING:
    from collections.abc import Collection

    from docker import DockerClient

    from sandbox.handshake import Greeting

_SECCOMP_PROFILE = Path(__file__).with_name("container-seccomp.json")
_USER = "65529:65529"  # a uid within the range that distributions leave unused
_RUNNER_MEMORY_BYTES = 64 * 2**20  # the runner and what every child shares with it
_IDLE_BYTES = 26 * 2**20  # what a container that waits holds: its runner and the engine's shim
_MEMORY = Path("/proc/meminfo")
_PATIENCE_S = 30  # with an engine, for any one thing
_PROCESSES = 32  # the engine's own start-up in the container needs some for a moment


class DockerSandbox:
    """A `Sandbox` of containers.

    `runtime` is the engine's name of an OCI runtime, such as `runsc`; `image` is another image than the one of this version;
    `warm` bounds how many containers are kept ready for candidates to come; 0 keeps none. `candidates` says how many come in all,
    where that is known: none is kept ready for a successor of the last. `without` switches layers of the guest off, for tests
    alone. A thread that is pinned to one core and opens a session gets its container on the same core: a decision then costs half
    as much as across cores.

    `relay` says whether runners are spoken with through the engine in place of a shared socket; None finds out: so they are where
    the engine is not reached by a local socket, and where its containers cannot connect to a socket of ours.
    """

    name = "docker"

    def __init__(
        self,
        *,
        runtime: str | None = None,
        image: str | None = None,
        warm: int = 2,
        relay: bool | None = None,
        candidates: int | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._runtime = runtime
        self._image = image or image_tag()
        self._without = without
        self._candidates = candidates
        self._seen: set[int] = set()
        self._lock = threading.Lock()
        self._relay = relay
        self._keeper: Keeper | None = None
        self._greeting: Greeting | None = None
        self._pool: Pool[_Kind, Container] = Pool(
            self._launch, min(warm, affordable(Path("/proc/meminfo").read_text(encoding="ascii")))
        )

    def open(self, source: str, limits: GuestLimits) -> RunnerSession:
        """Return a session for one candidate's source in a container of its own."""
        with self._lock:
            self._seen.add(hash(source))
            more = self._candidates is None or len(self._seen) < self._candidates

        def launch() -> Container:
            # The cores of another machine are not ours to choose.
            core = None if is_remote(self._engine().client) else _own_core()
            return self._pool.take(_Kind(limits.memory_bytes, core), more=more)

        return RunnerSession(launch, source, limits)

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""
        if self._greeting is None:
            self._launch(_Kind(GuestLimits().memory_bytes, None)).remove()
        greeting = self._greeting
        assert greeting is not None  # noqa: S101 - launching sets it
        with translated("inspect the sandbox image"):
            image = str(self._engine().client.images.get(self._image).id)
        clocks = "CPU time as the container's own runner reports it, since the engine is not of this machine"
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
                *([clocks] if self._relay else []),
            ),
            leaves_open=(
                "the kernel is shared: a bug in one of some forty allowed calls is a way out; runtime `runsc` (gVisor) closes it",
                "side channels of the hardware, and of time: a policy can read a clock",
                "who may use the engine's socket is root on this machine: that is the harness, never the policy",
            ),
        )

    def close(self) -> None:
        """Remove every container that is still there, as far as the engine answers. May be called again."""
        self._pool.close()
        atexit.unregister(self.close)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            for container in list(keeper.living):
                container.remove()
            keeper.remover.close()
            keeper.client.close()

    def _engine(self) -> Keeper:
        with self._lock:
            if self._keeper is None:
                client = connect(_PATIENCE_S)
                try:
                    remove_leftovers(client)
                    require_version(client, self._image)
                except BaseException:
                    client.close()
                    raise
                atexit.register(self.close)
                self._keeper = Keeper(client, Remover(), set(), self._pool.leave)
                if self._relay is None and is_remote(client):
                    self._relay = True
            return self._keeper

    def _launch(self, kind: _Kind) -> Container:
        keeper = self._engine()
        try:
            container = Container(keeper, self._plan(keeper.client, kind), relayed=bool(self._relay))
        except NoSocketError:
            if self._relay is False:
                raise
            self._relay = True
            container = Container(keeper, self._plan(keeper.client, kind), relayed=True)
        self._greeting = container.greeting
        return container

    def _plan(self, client: DockerClient, kind: _Kind) -> Plan:
        """Return what a container is made from; tests of its locks override this, one flag at a time."""
        command = ["--without", ",".join(self._without)] if self._without else []
        return Plan(self._image, command, _USER, _host_config(client, kind, self._runtime, relayed=bool(self._relay)))


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
    """Do what `sweep` says with this client, and remove what dead harnesses left in the folder for temporary files."""
    removed = 0
    remove_dead_folders()
    with translated("sweep leftover containers"):
        for found in client.api.containers(all=True, filters={"label": OWNER_LABEL}):
            try:
                dead = Owner.parse(found["Labels"][OWNER_LABEL]).is_dead()
            except ValueError:
                continue  # of another version; it knows its own
            if dead:
                remove(client, found["Id"])
                removed += 1
    return removed


def _own_core() -> int | None:
    """Return the core this thread is pinned to, None where it may move."""
    cores = os.sched_getaffinity(0)
    return next(iter(cores)) if len(cores) == 1 else None


def affordable(meminfo: str) -> int:
    """Return how many containers that only wait there is memory for: what they hold idle, in a tenth of what is available.

    That counts what the kernel would give back of files that it keeps in memory: most of a machine's memory after a while.
    """
    available_kib = next(int(line.split()[1]) for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return available_kib * 1024 // 10 // _IDLE_BYTES


def _host_config(client: DockerClient, kind: _Kind, runtime: str | None, *, relayed: bool) -> dict[str, Any]:
    from docker.types import LogConfig, Ulimit  # noqa: PLC0415 - see sandbox.engine

    memory_bytes = kind.memory_bytes + _RUNNER_MEMORY_BYTES
    config: dict[str, Any] = client.api.create_host_config(
        network_mode="none",
        ipc_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={_profile(relayed=relayed)}"],
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


def _profile(*, relayed: bool) -> str:
    profile = json.loads(_SECCOMP_PROFILE.read_text(encoding="ascii"))
    if relayed:  # then the runner connects to nothing, and makes the pair of sockets itself that the host would have passed it
        for rule in profile["syscalls"]:
            if rule["names"] == ["socket"]:
                rule["names"] = ["socketpair"]
    return json.dumps(profile)


class _Kind(NamedTuple):
    """What must fit between a container that waits and the candidate it is handed to."""

    memory_bytes: int
    core: int | None
