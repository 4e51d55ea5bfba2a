"""How many trees a difference like the observed one takes, for the answer "cannot tell".

It supposes that the mean and spread seen are the true ones and that more trees come with as many more groups: then the distance
between mean and bound, and the error of the mean, both shrink with the root of the number of trees. The error of the mean
respects groups (the cluster-robust variance; its ratio to the plain one is the design effect, Kish 1965).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


_MOST_TIMES = 1e4
"""Beyond so many times its size a distance takes more trees than anybody records, and how many more is of no use."""


class Spread(NamedTuple):
    """The error of the mean, and how many times the variance is what it would be without groups, at least 1."""

    error: float
    design_effect: float


def spread(grouped: Sequence[Sequence[float]], *, by_group: bool = False) -> Spread:
    """Return how far the mean may be off; two values at least."""
    count = sum(map(len, grouped))
    weights = [1 / (len(grouped) * len(group)) if by_group else 1 / count for group in grouped]
    mean = math.fsum(weight * value for group, weight in zip(grouped, weights, strict=True) for value in group)
    off = [[weight * (value - mean) for value in group] for group, weight in zip(grouped, weights, strict=True)]
    plain = math.fsum(part * part for group in off for part in group) * count / (count - 1)
    if len(grouped) == 1 or not plain:
        return Spread(math.sqrt(plain), 1.0)
    sums = [math.fsum(group) for group in off]
    clustered = math.fsum(part * part for part in sums) * len(grouped) / (len(grouped) - 1)
    effect = max(1.0, clustered / plain)
    return Spread(math.sqrt(plain * effect), effect)


def needed_trees(
    grouped: Sequence[Sequence[float]], bound: float, level: float, power: float, *, by_group: bool = False
) -> int | None:
    """Return the number of trees with which the gain would be shown at this level with this power; None with fewer than two.

    The values are differences less the gain asked for, with a mean above zero; `bound` is the lower bound of that mean.
    """
    count = sum(map(len, grouped))
    if count < 2:  # noqa: PLR2004 - one tree shows no spread
        return None
    weights = [1 / (len(grouped) * len(group)) if by_group else 1 / count for group in grouped]
    parts = [weight * value for group, weight in zip(grouped, weights, strict=True) for value in group]
    mean = math.fsum(parts)
    normal = NormalDist()
    whole = [math.fsum(weight * value for value in group) for group, weight in zip(grouped, weights, strict=True)]
    squares = (math.fsum(part * part for part in some) for some in (parts, whole if len(whole) > 1 else ()))
    flips = -normal.inv_cdf(level) * math.sqrt(max(squares))
    units = len(grouped) if len(grouped) > 1 else count
    drop = (mean - bound) * math.sqrt(units / (units - 1))  # a bootstrap of few units understates their spread by this much
    distance = max(drop, flips) + normal.inv_cdf(power) * spread(grouped, by_group=by_group).error
    fewest = math.ceil(-math.log2(level))  # with fewer, not even all signs alike reach the level
    times = min(distance / mean, _MOST_TIMES)
    return max(count + 1, fewest, math.ceil(count * times * times))
