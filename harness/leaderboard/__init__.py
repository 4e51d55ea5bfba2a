"""Leaderboards: several policies over one set of trees, with intervals, paired comparisons, curves and prices.

    board = leaderboard("examples", evaluations, climbs, resamples=10_000, seed=0)

Pure and the same to the digit on every machine, but for the decision times, which were measured. A leaderboard decides nothing:
who may be promoted is the gate's answer, which counts its looks at the trees.
"""

from harness.leaderboard.board import leaderboard
from harness.leaderboard.records import (
    CONFIDENCE,
    Curve,
    CurvePoint,
    GroupStanding,
    Interval,
    Leaderboard,
    Pairing,
    Standing,
)

__all__ = [
    "CONFIDENCE",
    "Curve",
    "CurvePoint",
    "GroupStanding",
    "Interval",
    "Leaderboard",
    "Pairing",
    "Standing",
    "leaderboard",
]
