"""The backend for machines without a container engine: the same runner and the same locks, as an ordinary process.

The runner is started by exec with an empty environment, never forked from the harness, so that no secret lies in its memory.
As root it becomes an unused user once its modules are loaded. What it does not isolate, `describe` says.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import Isolation, SandboxError
from sandbox.guest import calls
from sandbox.handshake import Greeting, greet
from sandbox.session import RunnerSession

if TYPE_CHECKING:
    from collections.abc import Collection

    from sandbox.base import GuestLimits

_UID = 65_530  # within the range that distributions leave unused
_ENTRY = Path(__file__).parent / "guest" / "__main__.py"


class LocalSandbox:
    """A `Sandbox` of processes. `cpu` keeps its runners on one core; `without` switches layers off, for tests alone."""

    name = "local"

    def __init__(self, *, cpu: int | None = None, without: Collection[str] = ()) -> None:
        self._cpu = cpu
        self._without = without
        self._greeting: Greeting | None = None

    def open(self, source: str, limits: GuestLimits) -> RunnerSession:
        """Return a session for one candidate's source in a runner of its own."""
        return RunnerSession(self._launch, source, limits)

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""
        if self._greeting is None:
            self._launch().close()
        greeting = self._greeting
        assert greeting is not None  # noqa: S101 - launching sets it
        landlock = (
            (f"files, TCP and abstract sockets, by Landlock (ABI {greeting.landlock_abi})",) if greeting.landlock_abi else ()
        )
        open_ends = ("no Landlock in this kernel: files are kept away by the system-call filter alone",)
        return Isolation(
            backend=self.name,
            python=greeting.python,
            image=None,
            runtime=None,
            isolates=(
                "a fresh process for every replay, forked before it knows the policy",
                "system calls by an allow list: no files, sockets, processes, entropy, executable memory",
                *landlock,
                "address space, CPU time, output and descriptors of the process",
                f"the user: uid {greeting.uid}" if os.getuid() == 0 else "memory of other processes",
            ),
            leaves_open=(
                *(() if greeting.landlock_abi else open_ends),
                "no container: kernel bugs in the allowed calls reach the machine, not a namespace",
                "no cap on memory and CPU of all processes together, one process at a time only",
                "the process sees the machine's clock and Python, and shares its caches with other programs",
            ),
        )

    def close(self) -> None:
        """Do nothing: sessions own their runners."""

    def _launch(self) -> _LocalRunner:
        if not sys.platform.startswith("linux") or platform.machine() not in calls.MACHINES:
            known = " or ".join(calls.MACHINES)
            here = f"{platform.system()} on {platform.machine()}"
            raise SandboxError(f"the local sandbox needs Linux on {known}, this is {here}; use --sandbox docker")
        runner = _LocalRunner(self._cpu, self._without)
        self._greeting = runner.greeting
        return runner


class _LocalRunner:
    def __init__(self, cpu: int | None, without: Collection[str]) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-s", "-S", "-P", "-B", str(_ENTRY), "--descriptor", str(theirs.fileno())]
        if os.getuid() == 0:
            command += ["--uid", str(_UID)]
        if cpu is not None:
            command += ["--cpu", str(cpu)]
        if without:
            command += ["--without", ",".join(without)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own file
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
            self.control.close()
            raise SandboxError(f"the local sandbox cannot start {sys.executable}: {error}") from error
        finally:
            theirs.close()
        self.pid = self._process.pid
        try:
            self.greeting = greet(self.control)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.control.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        status = self._process.poll()
        return "" if status is None else f"(the runner ended with status {status})"
