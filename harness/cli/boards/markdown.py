"""Leaderboards as Markdown. Names are untrusted and written so that they are nothing but names (`verdicts.markdown`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.boards import cells
from harness.cli.output import number
from harness.cli.verdicts.markdown import code, escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.leaderboard import Leaderboard


def markdown(boards: Iterable[Leaderboard], pictures: Mapping[str, Sequence[tuple[str, str]]] | None = None) -> str:
    """Return the leaderboards as one page. `pictures` are those of each set: what they show, and their files beside the page."""
    lines = [line for board in boards for line in (*_page(board, (pictures or {}).get(board.name, ())), "")]
    return "\n".join([*lines, cells.ABOUT, ""])


def _page(board: Leaderboard, pictures: Sequence[tuple[str, str]]) -> Iterator[str]:
    objective = board.settings.objective
    yield from (f"## {escaped(board.name)}", "", escaped(cells.title(board)), "")
    rows = [[rank, code(name), *rest] for rank, name, *rest in map(cells.row, board.standings)]
    yield from _table(cells.head(board), "rl", rows)
    for words, file in pictures:
        yield from ("", f"![{words}]({file})")
    if board.pairings:
        yield from ("", f"### Differences in {objective}", "", "Row less column; below the diagonal p.", "")
        names = [standing.name for standing in board.standings if standing.rank is not None]
        matrix = [[rank, code(name), *rest] for rank, name, *rest in cells.matrix(board)]
        yield from _table(("#", "policy", *map(str, range(1, len(names) + 1))), "rl", matrix)
        yield from ("", "<details><summary>Every pair with its interval</summary>", "")
        pairs = [[code(pair.first), code(pair.second), *cells.pairing_cells(pair)] for pair in board.pairings]
        yield from _table(("first", "second", "first less second", "interval", "p", "won / tied / lost"), "ll", pairs)
        yield from ("", "</details>")
    if len(board.groups) > 1:
        yield from ("", f"### Mean {objective} by group", "")
        yield from _table(("group", "trees", *(code(one.name) for one in board.standings)), "l", _groups(board))
    if board.prices:
        yield from ("", "### Quality against attempts", "")
        prices = [
            [
                code(point.name),
                number(point.quality),
                cells.mean(point.attempts),
                ", ".join(map(cells.price, point.best_at)) or "-",
                ", ".join(map(code, point.dominated_by)) or "-",
            ]
            for point in board.prices
        ]
        yield from _table(("policy", "quality", "N", "best at beta1", "beaten on both by"), "lrrll", prices)
    if board.left_out:
        yield from ("", "Left out, for nothing in them has a score: " + ", ".join(map(code, board.left_out)))


def _groups(board: Leaderboard) -> Iterator[list[str]]:
    for place, group in enumerate(board.groups):
        of = [standing.groups[place] for standing in board.standings]
        yield [code(group), str(max(one.trees for one in of)), *(number(one.value) for one in of)]


def _table(head: Sequence[str], aligned: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table; columns past those of `aligned` are numbers."""
    rules = ["---:" if side == "r" else "---" for side in aligned.ljust(len(head), "r")]
    yield from (f"| {' | '.join(line)} |" for line in (head, rules, *rows))
