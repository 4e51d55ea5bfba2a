"""What the cells of a leaderboard say, the same on a terminal and in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli import rules
from harness.cli.output import number
from harness.leaderboard import CONFIDENCE
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.leaderboard import Interval, Leaderboard, Pairing, Standing

_LEAST_P = 0.0001
DIGEST_SHOWN = 12


def title(board: Leaderboard) -> str:
    """Return what a leaderboard is over."""
    groups = f", groups: {len(board.groups)}" if len(board.groups) > 1 else ""
    return f"{counted(board.trees, 'tree')}{groups}, digest {board.digest[:DIGEST_SHOWN]}{rules.words(board.settings)}"


def head(board: Leaderboard) -> tuple[str, ...]:
    """Return the head of the table of standings."""
    shown = f"{CONFIDENCE:.0%} interval"
    figures = ("quality", "N", "k", "N to best", "k to best", "wasted", "faults", "ms/decision")
    return ("#", "policy", board.settings.objective.value, shown, *figures)


def row(standing: Standing) -> list[str]:
    """Return one policy under `head`."""
    means = (standing.attempts, standing.rounds, standing.attempts_to_best, standing.rounds_to_best, standing.wasted)
    return [
        "-" if standing.rank is None else str(standing.rank),
        standing.name,
        number(standing.value),
        interval(standing.interval),
        number(standing.quality),
        *map(mean, means),
        str(standing.faults),
        "-" if standing.decision_s is None else f"{standing.decision_s * 1000:.1f}",
    ]


def mean(value: float | None) -> str:
    """Return a mean of counts."""
    return "-" if value is None else f"{value:.1f}"


def interval(between: Interval | None, signed: bool = False) -> str:
    """Return an interval."""
    return "-" if between is None else f"{number(between.low, signed)} to {number(between.high, signed)}"


def chance(p: float) -> str:
    """Return a p-value."""
    return f"{p:.4f}" if p >= _LEAST_P else f"{p:.0e}"


def matrix(board: Leaderboard) -> Iterator[list[str]]:
    """Yield a row for each policy that has a value: above the diagonal differences (row less column), below it p-values."""
    pairs = by_names(board)
    names = [standing.name for standing in board.standings if standing.rank is not None]
    for place, name in enumerate(names):
        cells = [f"p {chance(pairs[other, name].p)}" for other in names[:place]]
        cells += [""]
        cells += [number(pairs[name, other].difference, signed=True) for other in names[place + 1 :]]
        yield [str(place + 1), name, *cells]


def by_names(board: Leaderboard) -> Mapping[tuple[str, str], Pairing]:
    """Return the pairings by the names of both."""
    return {(pairing.first, pairing.second): pairing for pairing in board.pairings}


def pairing_cells(pairing: Pairing) -> list[str]:
    """Return what is known of two policies: difference, interval, p, and trees won, tied and lost by the first."""
    trees = f"{pairing.wins} / {pairing.ties} / {pairing.losses}"
    return [number(pairing.difference, signed=True), interval(pairing.interval, signed=True), chance(pairing.p), trees]


def price(beta1: float) -> str:
    """Return a price of an attempt."""
    return f"{beta1:g}"


ABOUT = (
    f"Intervals hold the mean with {CONFIDENCE:.0%} confidence: groups of trees are resampled, then trees within each. "
    "p is two-sided, by sign flips. Neither decides anything: promotion is asked of `harness gate`."
)
