"""A leaderboard on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.boards import cells
from harness.cli.output import number, one_line, say, table

if TYPE_CHECKING:
    from harness.leaderboard import Leaderboard

_LEFT = ("policy", "group", "best at beta1", "beaten by")


def print_board(board: Leaderboard) -> None:
    """Print standings, the matrix of comparisons, values by group, and what each price of an attempt makes best."""
    say(one_line(f"{board.name}: {cells.title(board)}") + "\n")
    say(table(cells.head(board), map(cells.row, board.standings), left=_LEFT))
    names = [standing.name for standing in board.standings if standing.rank is not None]
    if len(names) > 1:
        say(f"\nmean difference in {board.settings.objective}, row less column; below the diagonal its p:\n")
        say(table(("", "policy", *map(str, range(1, len(names) + 1))), cells.matrix(board), left=_LEFT))
    if len(board.groups) > 1:
        say(f"\nmean {board.settings.objective} by group:\n")
        by_group = [{one.group: one.value for one in standing.groups} for standing in board.standings]
        rows = [[group, *(number(values[group]) for values in by_group)] for group in board.groups]
        say(table(("group", *(one_line(standing.name) for standing in board.standings)), rows, left=_LEFT))
    if board.prices:
        say("\nquality against attempts, and the prices of an attempt (beta1) at which each is best:\n")
        rows = [
            [
                point.name,
                number(point.quality),
                cells.mean(point.attempts),
                ", ".join(map(cells.price, point.best_at)) or "-",
                ", ".join(point.dominated_by) or "-",
            ]
            for point in board.prices
        ]
        say(table(("policy", "quality", "N", "best at beta1", "beaten by"), rows, left=_LEFT))
    if board.left_out:
        say(f"\nleft out, for nothing in them has a score: {one_line(', '.join(board.left_out))}")
