"""Differences as a row of small bars: below the middle the candidate is behind on that tree, above it ahead."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from harness.score import mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BEHIND = "▄▃▂▁"
_AHEAD = "▅▆▇█"
_EQUAL = "·"
_WIDEST = 40
"""More differences than this are shown as means of neighbours."""


def sparkline(differences: Iterable[float], reach: float) -> str:
    """Return the differences as bars, the smallest first; `reach` is the difference that a full bar stands for."""
    ordered = _few(sorted(differences))
    return "".join(_bar(difference, reach) for difference in ordered)


def _few(ordered: Sequence[float]) -> Sequence[float]:
    count = len(ordered)
    if count <= _WIDEST:
        return ordered
    edges = [place * count // _WIDEST for place in range(_WIDEST + 1)]
    return [mean(ordered[begin:end]) or 0.0 for begin, end in pairwise(edges)]


def _bar(difference: float, reach: float) -> str:
    if difference == 0.0 or reach <= 0.0:
        return _EQUAL
    bars = _AHEAD if difference > 0 else _BEHIND
    return bars[min(len(bars) - 1, int(abs(difference) / reach * len(bars)))]
