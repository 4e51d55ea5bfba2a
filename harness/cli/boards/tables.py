"""Leaderboards as tables of plain values, for CSV files and JSON. Numbers are whole: reading them gives the same float."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.pareto import SWEEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.leaderboard import Interval, Leaderboard, Standing

_MEANS = ("attempts_to_best", "rounds_to_best", "wasted", "off_support", "faults", "decision_s")


def standings(boards: Iterable[Leaderboard]) -> str:
    """Return one line for each policy on each set."""
    head = ["set", "set_digest", "trees", "rank", "policy", "policy_digest", "objective", "value", "value_low", "value_high"]
    head += ["quality", "quality_low", "quality_high", "attempts", "attempts_low", "attempts_high", "rounds", *_MEANS]
    return _csv(head, (_standing(board, standing) for board in boards for standing in board.standings))


def _standing(board: Leaderboard, standing: Standing) -> list[Any]:
    return [
        *(board.name, board.digest, board.trees, standing.rank, standing.name, standing.policy, board.settings.objective.value),
        *(standing.value, *_ends(standing.interval)),
        *(standing.quality, *_ends(standing.quality_interval)),
        *(standing.attempts, *_ends(standing.attempts_interval)),
        *(standing.rounds, *(getattr(standing, name) for name in _MEANS)),
    ]


def pairings(boards: Iterable[Leaderboard]) -> str:
    """Return one line for each two policies on each set."""
    head = ("set", "first", "second", "trees", "difference", "low", "high", "p", "wins", "ties", "losses")
    return _csv(
        head,
        (
            [
                *(board.name, one.first, one.second, one.trees, one.difference, *_ends(one.interval)),
                *(one.p, one.wins, one.ties, one.losses),
            ]
            for board in boards
            for one in board.pairings
        ),
    )


def groups(boards: Iterable[Leaderboard]) -> str:
    """Return one line for each policy on each group of trees."""
    head = ("set", "policy", "group", "trees", "value", "low", "high", "quality")
    return _csv(
        head,
        (
            [board.name, standing.name, one.group, one.trees, one.value, *_ends(one.interval), one.quality]
            for board in boards
            for standing in board.standings
            for one in standing.groups
        ),
    )


def curves(boards: Iterable[Leaderboard]) -> str:
    """Return one line for each point of each best-so-far curve."""
    return _csv(
        ("set", "policy", "attempts", "share", "low", "high"),
        (
            [board.name, curve.name, point.attempts, point.share, *_ends(point.interval)]
            for board in boards
            for curve in board.curves
            for point in curve.points
        ),
    )


def prices(boards: Iterable[Leaderboard]) -> str:
    """Return one line for each policy at each price of an attempt."""
    return _csv(
        ("set", "policy", "attempts", "quality", "dominated", "beta1", "value", "best"),
        (
            [
                board.name,
                point.name,
                point.attempts,
                point.quality,
                bool(point.dominated_by),
                beta1,
                value,
                beta1 in point.best_at,
            ]
            for board in boards
            for point in board.prices
            for beta1, value in zip(SWEEP, point.values, strict=True)
        ),
    )


def document(board: Leaderboard) -> dict[str, Any]:
    """Return a leaderboard as JSON."""
    said = asdict(board)
    said["prices"] = {"beta1": list(SWEEP), "policies": said["prices"]}
    return said


def as_json(document: Any) -> str:
    """Return a JSON document as the text of a file."""
    return json.dumps(document, allow_nan=False, indent=1) + "\n"


def _ends(between: Interval | None) -> Iterator[float | None]:
    yield from (None, None) if between is None else (between.low, between.high)


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
