"""Jobs in containers: a hardened container for each, whose process 1 is the runner of `sandbox.guest.job`.

The runner is reached through the engine, by its standard input and output, so that an engine on another machine serves as well.
The workspace crosses as a stream and lies in memory of the container: a folder of the host that is mounted has no size, and
lets a hostile command race whoever reads it. When the harness is killed the engine closes the stream, and the runner ends.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sandbox.attach import ATTACHED, Attachment
from sandbox.base import Isolation, SandboxError
from sandbox.docker import remove_leftovers
from sandbox.engine import connect, remove, translated
from sandbox.image import image_tag, require_version
from sandbox.job import NO_INPUTS, JobCancelledError, JobFault, JobFaultKind, JobLimits
from sandbox.jobhost import Channel, ChannelLostError, checked, converse, gathered
from sandbox.owner import IMAGE_LABEL, OWNER_LABEL, Owner, owned_folder

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from types import TracebackType

    from docker import DockerClient
    from docker.types import HostConfig

    from sandbox.guest.archive import Caps
    from sandbox.job import Input, JobResult

_UID = 65_531  # within the range that distributions leave unused
_SECCOMP_PROFILE = Path(__file__).with_name("job-seccomp.json")
_RUNNER = "import sys; sys.path.append('/guest'); from sandbox.guest.job import main; main(sys.argv[1:])"
_ENTRY = ["python3", "-s", "-S", "-P", "-B", "-c", _RUNNER, "--uid", str(_UID)]
_RUNNER_MEMORY_BYTES = 64 * 2**20
_RUNNER_PROCESSES = 4  # the runner, and what the engine needs for a moment to start it
_AF_INET, _AF_INET6 = 2, 10


class DockerJobs:
    """`Jobs` of containers.

    `image` is another image than the sandbox's own, built from it; `runtime` is the engine's name of an OCI runtime, such as
    `runsc`; `without` switches layers of the runner off, for tests alone.
    """

    name = "docker"

    def __init__(self, *, image: str | None = None, runtime: str | None = None, without: Collection[str] = ()) -> None:
        self._image = image or image_tag()
        self._runtime = runtime
        self._without = without
        self._lock = threading.Lock()
        self._client: DockerClient | None = None
        self._borrowers = 0
        self._closed = threading.Event()
        self._python: str | None = None

    def run(
        self,
        command: Sequence[str],
        workspace: Path,
        limits: JobLimits,
        inputs: Mapping[str, Input] = NO_INPUTS,
        network: str | None = None,
        *,
        cancel: threading.Event | None = None,
    ) -> JobResult:
        """Do what `Jobs.run` says."""
        words, given = checked(command), gathered(inputs)
        with self._engine() as client, self._container(client, limits, given.caps, network) as container:
            channel = Channel(
                container.connection, lambda: not (self._closed.is_set() or (cancel and cancel.is_set())), multiplexed=True
            )
            try:
                return converse(channel, words, workspace, limits, given, network=network is not None)[0]
            except ChannelLostError as lost:
                state = container.state()
                if state["OOMKilled"]:
                    message = f"the kernel ended the whole job for want of memory; the limit is {limits.memory_bytes} bytes"
                    raise JobFault(JobFaultKind.OUT_OF_MEMORY, message) from lost
                end = f"it ended with status {state['ExitCode']}" if not state["Running"] else str(lost)
                raise SandboxError(f"the job's runner was lost: {end} {channel.last_words}".strip()) from lost

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""
        if self._python is None:
            with owned_folder() as folder:
                ask = "import platform; print(platform.python_version())"
                inner = folder / "workspace"
                inner.mkdir()
                self._python = self.run(["python3", "-c", ask], inner, JobLimits()).stdout.strip()
        with translated("inspect the image of the jobs"), self._engine() as client:
            image = str(client.images.get(self._image).id)
        return Isolation(
            backend=self.name,
            python=self._python,
            image=image,
            runtime=self._runtime or "the engine's default",
            isolates=(
                "a fresh container for every job, whose files come back as a checked copy",
                "no network but one given by name, no capability, no new privilege, a user of its own",
                "the workspace, and scratch where asked for, as the only writable places: in memory, with size and file count",
                "system calls by an allow list and a deny list behind it: without a network only Unix sockets",
                "memory without swap, CPU time, processors, process count, descriptors, output and wall time",
            ),
            leaves_open=(
                "the kernel is shared: a bug in one of some 250 allowed calls is a way out; runtime `runsc` (gVisor) closes it",
                "side channels of the hardware, and of time",
                "a network given by name is given: what can be reached from there can be reached by the command",
            ),
        )

    def close(self) -> None:
        """End all jobs that are running; they remove their containers themselves. May be called again."""
        self._closed.set()
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _engine(self) -> Iterator[DockerClient]:
        """Lend the one client; the last job to give it back after `close` closes it."""
        with self._lock:
            if self._closed.is_set():
                raise JobCancelledError("the backend of the jobs is closed")
            if self._client is None:
                self._client = self._connected()
            client = self._client
            self._borrowers += 1
        try:
            yield client
        finally:
            with self._lock:
                self._borrowers -= 1
            self._let_go()

    def _connected(self) -> DockerClient:
        client = connect()
        try:
            remove_leftovers(client)
            require_version(client, self._image)
        except BaseException:
            client.close()
            raise
        return client

    def _let_go(self) -> None:
        with self._lock:
            if self._closed.is_set() and not self._borrowers and self._client is not None:
                self._client.close()
                self._client = None

    def _container(self, client: DockerClient, limits: JobLimits, inputs: Caps, network: str | None) -> _Container:
        return _Container(client, self._image, self._arguments(), self._host_config(client, limits, inputs, network))

    def _arguments(self) -> list[str]:
        return ["--without", ",".join(self._without)] if self._without else []

    def _host_config(self, client: DockerClient, limits: JobLimits, inputs: Caps, network: str | None) -> HostConfig:
        from docker.types import LogConfig, Ulimit  # noqa: PLC0415 - see sandbox.engine

        if network is not None and (network in {"host", "none", ""} or ":" in network):
            raise SandboxError(f"a job cannot join {network!r}; give the name of a network of the engine (`docker network ls`)")
        memory_bytes = limits.memory_bytes + inputs.size_bytes + _RUNNER_MEMORY_BYTES
        mine = f"rw,nosuid,nodev,uid={_UID},gid={_UID},mode=0700"
        folders = {
            "/job/workspace": f"{mine},exec,size={limits.workspace_bytes},nr_inodes={limits.workspace_files + 1}",
            "/job/inputs": f"rw,nosuid,nodev,exec,mode=0755,size={inputs.size_bytes},nr_inodes={inputs.files + 1}",
        }
        if limits.scratch_bytes:
            # Where POSIX semaphores and shared memory are looked for, so that pools of processes work with it.
            folders["/dev/shm"] = f"{mine},exec,size={limits.scratch_bytes},nr_inodes={limits.workspace_files + 1}"  # noqa: S108
        config: HostConfig = client.api.create_host_config(
            network_mode=network or "none",
            ipc_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            cap_add=[
                "SETUID",
                "SETGID",
                "KILL",
            ],  # the runner's, which becomes another user for the command; the command has none
            security_opt=["no-new-privileges", f"seccomp={_profile(with_network=network is not None)}"],
            mem_limit=memory_bytes,
            memswap_limit=memory_bytes,
            nano_cpus=int(limits.cpus * 10**9),
            pids_limit=limits.processes + _RUNNER_PROCESSES,
            oom_score_adj=500,
            ulimits=[Ulimit(name="core", soft=0, hard=0), Ulimit(name="nofile", soft=1024, hard=1024)],
            # `ipc none` alone leaves System V IPC usable.
            sysctls={"kernel.shmmni": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0"},
            log_config=LogConfig(type="none"),
            tmpfs=folders,
            runtime=self._runtime,
        )
        return config


class _Container:
    """A container with its runner, from creation to removal."""

    def __init__(self, client: DockerClient, image: str, arguments: list[str], host: HostConfig) -> None:
        self._client = client
        self._id = ""
        self._attachment: Attachment | None = None
        try:
            with translated("start a container for a job"):
                self._start(image, arguments, host)
        except BaseException:
            self._remove()
            raise

    @property
    def connection(self) -> socket.socket:
        """Return the socket to the runner's standard input, output and error."""
        assert self._attachment is not None  # noqa: S101 - starting sets it
        return self._attachment.connection

    def state(self) -> dict[str, Any]:
        """Return what the engine says of the container."""
        with translated("inspect the container of a job"):
            state: dict[str, Any] = self._client.api.inspect_container(self._id)["State"]
            return state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _start(self, image: str, arguments: list[str], host: HostConfig) -> None:
        config = self._client.api.create_container_config(
            image,
            arguments,
            entrypoint=_ENTRY,
            user="0:0",
            working_dir="/",
            labels={OWNER_LABEL: str(Owner.this_process()), IMAGE_LABEL: image},
            host_config=host,
        )
        config.update(ATTACHED)
        self._id = self._client.api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]
        self._attachment = Attachment(self._client, self._id)
        self._client.api.start(self._id)

    def _remove(self) -> None:
        if self._attachment is not None:
            self._attachment.close()
        if self._id:
            with translated("remove the container of a job"):
                remove(self._client, self._id)


def _profile(*, with_network: bool) -> str:
    profile = json.loads(_SECCOMP_PROFILE.read_text(encoding="ascii"))
    if with_network:
        for family in (_AF_INET, _AF_INET6):
            rule = {"index": 0, "value": family, "op": "SCMP_CMP_EQ"}
            profile["syscalls"].append({"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [rule]})
    return json.dumps(profile)
