"""Start what an agent runs so that it can be ended whole: its process group, and whatever left that group.

Every process is marked in its environment, which children inherit and which `/proc` shows; only what takes the mark out of a
child's environment escapes. Where there is no `/proc` the process group alone is ended.
"""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

VARIABLE = "DREAM_HARNESS_ATTEMPT"
_LOOKS = 50
"""A process that forks faster than it is ended is given up after so many looks."""


def new_mark() -> str:
    """Return a value for `VARIABLE` that nothing else has; within another attempt it holds that one's mark too."""
    return f"{os.environ.get(VARIABLE, '')}:{secrets.token_hex(16)}"


def end(process: subprocess.Popen[Any], mark: str) -> None:
    """End a process that leads its group, its group, and everything that carries its mark."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
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
