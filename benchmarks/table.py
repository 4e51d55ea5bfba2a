"""One printed figure, and how repetitions become one."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

REPETITIONS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A figure with what was wished for; `met` is None where nothing was."""

    name: str
    figure: str
    wish: str = ""
    met: bool | None = None


def cpu_seconds(work: Callable[[], None]) -> float:
    """Return the CPU seconds that this process spends on one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def paired_ratio(one: Callable[[], None], other: Callable[[], None]) -> float:
    """Return the median of `one`'s CPU time over `other`'s, measured in turn so that a drifting machine cancels out."""
    one()
    other()
    return statistics.median(cpu_seconds(one) / cpu_seconds(other) for _ in range(REPETITIONS))
