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
from sandbox.process import Loss
from sandbox.session import RunnerSession

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sandbox.base import GuestLimits

_UID = 65_530  # within the range that distributions leave unused
_ENTRY = Path(__file__).parent / "guest" / "__main__.py"


class LocalSandbox:
    """A `Sandbox` of processes. A thread pinned to one core pins its runners; `without` switches layers off, for tests."""

    name = "local"

    def __init__(self, *, without: Collection[str] = ()) -> None:
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
        isolates = [
            "a fresh process for every replay, forked before it knows the policy, with an empty environment",
            "system calls by an allow list: no files, sockets, processes, signals, entropy, executable memory",
            "address space, CPU time, wall time, output and descriptors of the process",
        ]
        leaves_open = [
            "no container: a kernel bug in one of some forty allowed calls reaches this machine",
            "no cap on the memory of all sessions together, only on each process",
            "side channels of the hardware, and of time: a policy can read a clock",
        ]
        if greeting.landlock_abi:
            isolates.append(f"files, TCP, abstract sockets and signals once more, by Landlock (ABI {greeting.landlock_abi})")
        else:
            leaves_open.append("this kernel has no Landlock: files are kept away by the system-call filter alone")
        if greeting.namespaces:
            isolates.append("network, System V IPC and host name once more, by empty namespaces")
        else:
            leaves_open.append("this machine allows no namespaces: the network is kept away by the system-call filter alone")
        if os.getuid() == 0:
            isolates.append(f"the user: policies run as uid {_UID}")
        else:
            leaves_open.append(
                "policies run as your user: memory and signals of your processes are kept away by the filter alone"
            )
        return Isolation(self.name, greeting.python, None, None, tuple(isolates), tuple(leaves_open))

    def close(self) -> None:
        """Do nothing: sessions own their runners."""

    def _launch(self) -> _LocalRunner:
        if not sys.platform.startswith("linux") or platform.machine() not in calls.MACHINES:
            known = " or ".join(calls.MACHINES)
            here = f"{platform.system()} on {platform.machine()}"
            raise SandboxError(f"the local sandbox needs Linux on {known}, this is {here}; use --sandbox docker")
        runner = _LocalRunner(self._without)
        self._greeting = runner.greeting
        return runner


class _LocalRunner:
    clock: Callable[[], float] | None = None

    def __init__(self, without: Collection[str]) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-s", "-S", "-P", "-B", str(_ENTRY), "--descriptor", str(theirs.fileno())]
        if os.getuid() == 0:
            command += ["--uid", str(_UID)]
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
                # The last one since what is not bound at the start, each child would bind again.
                env={"PYTHONHASHSEED": "0", "TZ": "UTC", "LD_BIND_NOW": "1"},
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

    def loss(self) -> Loss:
        status = self._process.poll()
        return Loss("" if status is None else f"(the runner ended with status {status})")
