"""Wait for what other processes do, as long as a slow machine may need."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 60.0


def becomes(said: Callable[[], bool]) -> bool:
    """Wait until something is so, and return whether it is."""
    until = time.monotonic() + PATIENCE_S
    while not (there := said()) and time.monotonic() < until:
        time.sleep(0.02)
    return there


def running(process: int) -> bool:
    """Return whether a process is there and no zombie that waits for whoever adopted it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
