"""Jobs without a container engine: the same runner as an ordinary process, in namespaces where the kernel gives them.

The runner is started by exec with an empty environment, never forked from the harness. Only for who asks for it by name: what it
does not isolate, `describe` says.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sandbox.base import Isolation, SandboxError
from sandbox.guest import calls
from sandbox.job import NO_INPUTS, JobCancelledError, JobLimits
from sandbox.jobhost import Channel, ChannelLostError, Given, checked, converse, gathered
from sandbox.owner import owned_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType

    from sandbox.job import Input, JobResult

_UID = 65_532  # within the range that distributions leave unused
# Appended, never prepended: what lies beside this package must not stand in for a module of the standard library.
_ENTRY = "import sys; sys.path.append(sys.argv.pop(1)); from sandbox.guest.job import main; main(sys.argv[1:])"
_ROOT = Path(__file__).parents[1]
_END_S = 10.0


class LocalJobs:
    """`Jobs` of processes. `without` switches layers off, for tests alone."""

    name = "local"

    def __init__(self, *, without: Collection[str] = ()) -> None:
        self._without = without
        self._closed = threading.Event()
        self._given: Given | None = None

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
        """Do what `Jobs.run` says; a local job never has a network."""
        if network is not None:
            raise SandboxError(f"a local job has no network, {network!r} or other; take the Docker backend for one")
        if not sys.platform.startswith("linux") or platform.machine() not in calls.MACHINES:
            here = f"{platform.system()} on {platform.machine()}"
            raise SandboxError(f"local jobs need Linux on {' or '.join(calls.MACHINES)}, this is {here}; take the Docker backend")
        if self._closed.is_set():
            raise JobCancelledError("the backend of the jobs is closed")
        words, given = checked(command), gathered(inputs)
        process, connection = self._start()
        try:
            channel = Channel(connection, lambda: not (self._closed.is_set() or (cancel and cancel.is_set())), multiplexed=False)
            try:
                result, self._given = converse(channel, words, workspace, limits, given, network=False)
            except ChannelLostError as lost:
                raise SandboxError(f"the job's runner was lost ({lost})") from lost
            return result
        finally:
            connection.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
            process.wait()

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""
        if self._given is None:
            with owned_folder() as folder:
                workspace = folder / "workspace"
                workspace.mkdir()
                self.run(["true"], workspace, JobLimits())
        given = self._given
        assert given is not None  # noqa: S101 - a run sets it
        isolates = [
            "a fresh process group with an empty environment; all that it started is ended with it",
            "system calls by a deny list: no sockets but pairs of them, no tracing, no mounting, no namespaces, no keyrings",
            "CPU time, wall time, memory, processes, output and size of the workspace",
        ]
        leaves_open = [
            "no container: a kernel bug in one of some 250 allowed calls reaches this machine",
            "memory and CPU time are kept by looking twenty times a second, and processes by one count for all local jobs",
            "memory that no process has mapped any more, such as most of a shared mapping, is not seen and not limited",
            "side channels of the hardware, and of time",
        ]
        if not given.namespaces and os.getuid() != 0:
            leaves_open.append("a command that ends its runner outlives the job, unless Landlock (ABI 6) keeps its signals in")
        for present, closed, left in (
            (
                given.namespaces,
                "processes, network, IPC, mounts and host name, by namespaces; the workspace lies in memory of its own size",
                "this machine allows no namespaces: the workspace lies on its disk, its size is checked at the end only",
            ),
            (
                given.landlock_abi,
                f"files but programs, libraries and inputs, by Landlock (ABI {given.landlock_abi})",
                "this kernel has no Landlock: the command can read what everybody on this machine can read",
            ),
            (
                os.getuid() == 0,
                f"the user: commands run as uid {_UID}",
                "commands run as your user: what your user may do, only the layers above keep from them",
            ),
        ):
            (isolates if present else leaves_open).append(closed if present else left)
        return Isolation(self.name, platform.python_version(), None, None, tuple(isolates), tuple(leaves_open))

    def close(self) -> None:
        """End all jobs that are running. May be called again."""
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-s", "-S", "-P", "-B", "-c", _ENTRY, str(_ROOT)]
        command += ["--descriptor", str(theirs.fileno()), "--uid", str(_UID)]
        if self._without:
            command += ["--without", ",".join(self._without)]
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter and our own file
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONHASHSEED": "0", "TZ": "UTC"},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxError(f"a local job cannot start {sys.executable}: {error}") from error
        finally:
            theirs.close()
        return process, ours
