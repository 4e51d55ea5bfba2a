"""The records of a leaderboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.pareto import Point
    from harness.score import Settings

CONFIDENCE = 0.95
"""Of every interval here, two-sided."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a mean may truly lie."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """One policy on the trees of one group: trees with a score, and means over them."""

    group: str
    trees: int
    value: float | None
    interval: Interval | None
    quality: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """One policy on a leaderboard; figures are means, weighed as the settings say, and None for a policy that faulted.

    Policies of equal value share a `rank`. `faults` counts trees. `decision_s` is the mean wall time of one decision, measured.
    """

    rank: int | None
    name: str
    policy: str
    """Digest of the policy's source."""
    value: float | None
    interval: Interval | None
    quality: float | None
    quality_interval: Interval | None
    attempts: float | None
    attempts_interval: Interval | None
    rounds: float | None
    attempts_to_best: float | None
    rounds_to_best: float | None
    wasted: float | None
    off_support: float | None
    faults: int
    decision_s: float | None
    groups: tuple[GroupStanding, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two policies on the same trees: the mean of `first` minus `second`, tree by tree.

    `p` is two-sided, by the sign-flip test: how often labels swapped at random would show a mean as far from zero.
    `wins`, `ties` and `losses` count trees, as `first` sees them.
    """

    first: str
    second: str
    trees: int
    difference: float
    interval: Interval | None
    p: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Mean share of the trees' spans that was reached after so many attempts, and where that mean may truly lie."""

    attempts: int
    share: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Best-so-far of one policy. Past a policy's last attempt it stays where it is; `attempts` is the mean of that last one."""

    name: str
    attempts: float
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Policies over one set of trees, best first; those that faulted stand last and in no pairing, curve or price.

    `left_out` names trees without a score.
    """

    name: str
    trees: int
    digest: str
    """Identity of the set of trees."""
    settings: Settings
    groups: tuple[str, ...]
    left_out: tuple[str, ...]
    standings: tuple[Standing, ...]
    pairings: tuple[Pairing, ...]
    curves: tuple[Curve, ...]
    prices: tuple[Point, ...]
