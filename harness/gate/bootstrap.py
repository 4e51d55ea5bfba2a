"""The two-stage bootstrap: how far below the mean the truth may lie when trees of one group are alike.

Each resample draws groups with replacement, then within each drawn group as many trees as it has. Trees of one task or source
say much the same, so a gain that rests on one group alone falls away in the resamples that miss it. The bound is the level's
percentile of the resampled means. With a single group there is no first stage: trees alone are drawn.

scipy's bootstrap draws one stage, through `Generator`, and sums floats in an order of its own; tests hold this one against it
where the two must agree.

Source: Davison & Hinkley 1997, section 3.8 (resampling hierarchical data); Field & Welsh 2007.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from harness.gate.draws import BLOCK, on_grid, stream, whole_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from harness.gate.draws import Whole

_GROUPS, _TREES = 1, 2


def lower_bound(
    grouped: Sequence[Sequence[float]], level: float, resamples: int, seed: int, *, by_group: bool = False, block: int = BLOCK
) -> float | None:
    """Return the one-sided lower confidence bound of the mean at 1 - level, None where so few resamples cannot reach the level.

    `grouped` holds one sequence of values per group. The mean is that over trees, or that of group means where `by_group`.
    """
    rank = math.floor(level * (resamples + 1))
    if rank < 1:
        return None
    grid = on_grid([value for group in grouped for value in group])
    members = np.split(grid.values, np.cumsum([len(group) for group in grouped])[:-1])
    drawn = _means(members, resamples, seed, by_group=by_group, block=block)
    return grid.back(float(np.partition(drawn, rank - 1)[rank - 1]))


def _means(members: Sequence[Whole], resamples: int, seed: int, *, by_group: bool, block: int) -> NDArray[np.float64]:
    """Return the resampled means. Every group draws its trees from a stream of its own, so that blocks of any size agree."""
    count = len(members)
    sizes = np.array([len(group) for group in members])
    groups = stream(seed, _GROUPS)
    trees = [stream(seed, _TREES, place) for place in range(count)]
    rows = max(1, block // max(1, int(sizes.sum())))
    means = np.empty(resamples)
    for first in range(0, resamples, rows):
        taken = min(rows, resamples - first)
        picks = whole_below(groups, taken, count, count)
        sums = _sums(members, picks, trees)
        if by_group:
            means[first : first + taken] = (sums // sizes[picks]).sum(axis=1) / count
        else:
            means[first : first + taken] = sums.sum(axis=1) / sizes[picks].sum(axis=1)
    return means


def _sums(members: Sequence[Whole], picks: Whole, trees: Sequence[np.random.PCG64]) -> Whole:
    """Return for each drawn group the sum over its trees, drawn anew each time the group is."""
    sums = np.empty(picks.size, dtype=np.int64)
    order = np.argsort(picks, axis=None, kind="stable")
    ends = np.cumsum(np.bincount(picks.ravel(), minlength=len(members)))
    for group, words, where in zip(members, trees, np.split(order, ends[:-1]), strict=True):
        sums[where] = group[whole_below(words, len(where), len(group), len(group))].sum(axis=1)
    return sums.reshape(picks.shape)
