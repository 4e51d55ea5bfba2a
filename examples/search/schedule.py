"""Simple live schedulers, for variety in the records: which lines the next round continues, and whether it opens new ones.

A line is one chain from the root. Schedulers see scores in the larger-is-better sense and choose one place at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

ROOT = -1
WIDEST_ROUND = 3
PATIENCE = 2


@dataclass(frozen=True, slots=True)
class Shape:
    """How far a search goes: lines from the root, attempts in a line, attempts in all, and the scheduler's name."""

    lines: int
    depth: int
    attempts: int
    scheduler: str

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Shape:
        """Return the shape of one search: 8 to 12 lines of 6 to 8 attempts, the last few of which are not made."""
        lines = int(rng.choice([8, 9, 10, 11, 12], p=[0.1, 0.1, 0.25, 0.25, 0.3]))
        depth = {8: 8, 9: 8, 10: int(rng.integers(7, 9)), 11: int(rng.integers(6, 9)), 12: int(rng.integers(6, 8))}[lines]
        fewest = max(60, round(0.85 * lines * depth))
        return cls(lines, depth, int(rng.integers(fewest, lines * depth + 1)), str(rng.choice(list(SCHEDULERS))))


Scores = list[float]  # of one line in order, failed attempts as minus infinity


def _breadth(lines: Sequence[Scores], open_places: list[int], _: np.random.Generator) -> int:
    """Open every line, then deepen them evenly."""
    return ROOT if ROOT in open_places else min(open_places, key=lambda line: len(lines[line]))


def _alternate(lines: Sequence[Scores], open_places: list[int], rng: np.random.Generator) -> int:
    """Open a line or deepen the shallowest, by the toss of a coin."""
    deepen = [place for place in open_places if place != ROOT]
    if not deepen or (ROOT in open_places and rng.random() < 0.5):  # noqa: PLR2004 - a fair coin
        return ROOT
    return min(deepen, key=lambda line: len(lines[line]))


def _chance(_: Sequence[Scores], open_places: list[int], rng: np.random.Generator) -> int:
    """Go anywhere."""
    return int(rng.choice(open_places))


def _best(lines: Sequence[Scores], open_places: list[int], rng: np.random.Generator) -> int:
    """Continue the best leaf, and open a line every third time or so."""
    deepen = [place for place in open_places if place != ROOT]
    if not deepen or (ROOT in open_places and rng.random() < 0.3):  # noqa: PLR2004 - about every third time
        return ROOT
    return max(deepen, key=lambda line: lines[line][-1])


def _patient(lines: Sequence[Scores], open_places: list[int], _: np.random.Generator) -> int:
    """Stay with the newest line while it improves, then open another; at last go back to the best."""
    newest = len(lines) - 1
    if lines and newest in open_places:
        scores = lines[newest]
        if len(scores) <= PATIENCE or max(scores[-PATIENCE:]) > max(scores[:-PATIENCE]):
            return newest
    return ROOT if ROOT in open_places else max(open_places, key=lambda line: max(lines[line]))


SCHEDULERS = {"breadth": _breadth, "alternate": _alternate, "chance": _chance, "best": _best, "patient": _patient}


def next_round(shape: Shape, lines: Sequence[Scores], rng: np.random.Generator) -> list[int]:
    """Return the places that the next round continues, each line at most once; `ROOT` opens a line."""
    left = shape.attempts - sum(len(scores) for scores in lines)
    picks: list[int] = []
    for _ in range(min(left, int(rng.integers(1, WIDEST_ROUND + 1)))):
        places = [line for line, scores in enumerate(lines) if len(scores) < shape.depth and line not in picks]
        if len(lines) + picks.count(ROOT) < shape.lines:
            places.append(ROOT)
        if not places:
            break
        picks.append(SCHEDULERS[shape.scheduler](lines, places, rng))
    return picks
