"""Start what an agent runs so that it can be ended whole: its process group, and whatever left that group.

Every process is marked in its environment, which children inherit and which `/proc` shows; only what takes the mark out of a
child's environment escapes. Where there is no `/proc` the process group alone is ended.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

VARIABLE = "DREAM_HARNESS_ATTEMPT"
_LOOKS = 50
"""A process that forks faster than it is ended is given up after so many looks."""


def new_mark() -> str:
    """Return a value for `VARIABLE` that nothing else has; within another attempt it holds that one's mark too."""
    return f"{os.environ.get(VARIABLE, '')}:{secrets.token_hex(16)}"


class Watched:
    """Marks for the processes of one agent, which are ended when it is closed, and also when the harness is killed outright.

    A process of its own waits for that, and carries no mark.
    """

    def __init__(self) -> None:
        self._mark = new_mark()
        self._numbers = count(1)
        self._watcher: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def mark(self) -> str:
        """Return a mark for one attempt.

        Raises:
            OSError: nobody can watch over it.
        """
        with self._lock:
            if self._watcher is None:
                self._watcher = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                    [sys.executable, "-P", "-c", _WATCH, self._mark],
                    env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                )
            return f"{self._mark}-{next(self._numbers)};"

    def close(self) -> None:
        """End everything that is marked, and the watcher."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.communicate()


_WATCH = "from harness.agents.processes import watch; watch()"


def watch() -> None:
    """Wait for the end of the input, which comes with that of the harness, and end what carries the mark."""
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])


def end(process: subprocess.Popen[Any], mark: str) -> None:
    """End a process that leads its group, its group, and everything that carries its mark."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_marked(mark)


def end_marked(mark: str) -> None:
    """End everything that carries a mark."""
    for _ in range(_LOOKS):
        if not _ended(mark.encode()):
            return


def _ended(mark: bytes) -> bool:
    """End what carries a mark now, and return whether there was anything."""
    found = False
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is gone by now, or another user's
            handle = os.pidfd_open(int(entry.name))
            try:
                if mark in (entry / "environ").read_bytes():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    found = True
            finally:
                os.close(handle)
    return found
