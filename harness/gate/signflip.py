"""The sign-flip test: how often would labels swapped at random show a gain as large?

If candidate and incumbent were exchangeable on every tree, each difference could as well have had the other sign. The
p-value is the share of all ways of flipping signs whose sum is at least the one observed. Nothing is assumed of the
distribution, and the chance of p <= level is at most the level: exactly where all ways are counted, and as exactly with drawn
ones, since the observed way is counted among them.

A flipped sum reaches the observed one where the flipped differences alone sum to zero or less; that is what is counted.

Flipping whole groups in place of trees asks the same where trees of a group go one way together.

Source: Fisher 1935; Phipson & Smyth 2010 for (b + 1) / (m + 1). scipy's `permutation_test` is what the tests hold it against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.gate.draws import BLOCK, on_grid, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.gate.draws import Whole

MOST_COUNTED = 36
"""Up to this many differences all ways of flipping are counted, as pairs of ways for two halves."""
_FLIPS = 3
_BYTE, _WORD = 8, 64


class SignFlip(NamedTuple):
    """The p-value, and from how many ways of flipping; `drawn` is False where these are all there are."""

    p: float
    ways: int
    drawn: bool


def sign_flip(differences: Sequence[float], resamples: int, seed: int, *, block: int = BLOCK) -> SignFlip:
    """Test one-sided whether the differences are centred above zero.

    Differences without effect (zeros) count in no way. Sums that only rounding could tell apart count as reached.
    """
    values = on_grid([difference for difference in differences if difference]).values
    if len(values) <= MOST_COUNTED:
        ways = 2 ** len(values)
        return SignFlip(_counted(values) / ways, ways, drawn=False)
    reached = _drawn(values, resamples, stream(seed, _FLIPS), block)
    return SignFlip((reached + 1) / (resamples + 1), resamples, drawn=True)


def _counted(values: Whole) -> int:
    half = len(values) // 2
    some, others = _subset_sums(values[:half]), np.sort(_subset_sums(values[half:]))
    return int(np.searchsorted(others, _slack(values) - some, side="right").sum())


def _subset_sums(values: Whole) -> Whole:
    """Return the sums of all subsets; entry `i` is that of the values whose bits are set in `i`."""
    sums = np.zeros(1, dtype=np.int64)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _slack(values: Whole) -> int:
    """Return how far a sum can be off for the grid: a step for each value."""
    return len(values)


def _drawn(values: Whole, resamples: int, words: np.random.PCG64, block: int) -> int:
    """Return how many of the drawn subsets sum to zero or less. Each bit of a word decides over one value."""
    tables = [_subset_sums(values[first : first + _BYTE]) for first in range(0, len(values), _BYTE)]
    per_row = -(-len(values) // _WORD)
    rows = max(1, block // (per_row * _BYTE))
    slack, reached = _slack(values), 0
    for first in range(0, resamples, rows):
        taken = min(rows, resamples - first)
        raw = words.random_raw(taken * per_row).reshape(taken, per_row)
        sums = np.zeros(taken, dtype=np.int64)
        for place, table in enumerate(tables):
            word, byte = divmod(place, _WORD // _BYTE)
            sums += table[(raw[:, word] >> np.uint64(_BYTE * byte)) & np.uint64(len(table) - 1)]
        reached += int(np.count_nonzero(sums <= slack))
    return reached
