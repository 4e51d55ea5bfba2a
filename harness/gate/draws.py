"""Random draws and exact sums that are the same digit for digit on every machine.

Draws come from the raw words of numpy's PCG64, whose stream is fixed (NEP 19 promises that for bit generators, and not for the
methods of `Generator`). Sums are sums of integers: values are put on a grid of 2^-40 of the largest, so that neither the order
of a sum nor the width of a machine's vectors can change a digit of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

GRID_BITS = 40
MOST_RESAMPLES = 1_000_000
PER_TAIL = 20
"""How many resamples are wanted beyond the level's quantile."""
BLOCK = 2**20
"""Draws held in memory at a time; no result depends on it."""


@dataclass(frozen=True, slots=True)
class OnGrid:
    """Values as whole multiples of 2^-shift."""

    values: Whole
    shift: int

    def back(self, value: float) -> float:
        """Return a value in units of the grid as the number that it stands for."""
        return math.ldexp(value, -self.shift)


def on_grid(values: Sequence[float]) -> OnGrid:
    """Put finite values on a grid whose step is 2^-40 of the power of two above the largest, each at the step nearer to zero."""
    largest = max((abs(value) for value in values), default=0.0)
    shift = GRID_BITS - math.frexp(largest)[1] if largest else 0
    return OnGrid(np.array([int(math.ldexp(value, shift)) for value in values], dtype=np.int64), shift)


def resamples_for(level: float, least: int) -> int:
    """Return how many resamples a level takes: enough to have 20 beyond it, at least `least`, at most a million."""
    return min(max(least, math.ceil(PER_TAIL / level)), MOST_RESAMPLES)


def stream(seed: int, *purpose: int) -> np.random.PCG64:
    """Return the words drawn for one purpose; streams of different purposes share nothing."""
    return np.random.PCG64(np.random.SeedSequence((seed, *purpose)))


def whole_below(words: np.random.PCG64, rows: int, width: int, high: int) -> Whole:
    """Draw `rows` times `width` whole numbers in [0, high), row by row, so that drawing fewer rows at a time changes nothing.

    Each takes half a word; the bias of at most high / 2^32 is far below what any number of resamples could show.
    """
    per_row = (width + 1) // 2
    raw = words.random_raw(rows * per_row).reshape(rows, per_row)
    halves = np.concatenate([raw & np.uint64(2**32 - 1), raw >> np.uint64(32)], axis=1)[:, :width]
    return ((halves * np.uint64(high)) >> np.uint64(32)).astype(np.int64)
