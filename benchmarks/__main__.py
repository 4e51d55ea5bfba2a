"""Print every figure: `python -m benchmarks [NAME …]`, or one that runs only when named, with its arguments: `soak 50000`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks import (
    attacks,
    exploring,
    fuzz,
    honesty,
    live,
    main_job,
    prompting,
    replay_core,
    sandboxed,
    soak,
    timing,
    workspaces,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.table import Row

FIGURES = {
    "replay_core": replay_core.rows,
    "sandboxed": sandboxed.rows,
    "main_job": main_job.rows,
    "prompting": prompting.rows,
    "workspaces": workspaces.rows,
    "exploring": exploring.rows,
}
ONLY_NAMED: dict[str, Callable[..., Iterator[Row]]] = {
    "attacks": attacks.rows,
    "fuzz": fuzz.rows,
    "honesty": honesty.rows,
    "live": live.rows,
    "soak": soak.rows,
    "timing": timing.rows,
}


def main(words: list[str]) -> int:
    """Print the named figures, or all; return 1 when one misses what was wished for."""
    missed = 0
    for rows in _chosen(words):
        for row in rows:
            verdict = "" if row.met is None else ("met" if row.met else "MISSED")
            missed += row.met is False
            print(f"{row.name:70} {row.figure:>24}  {row.wish:>10}  {verdict}".rstrip(), flush=True)
    return 1 if missed else 0


def _chosen(words: list[str]) -> Iterator[Iterator[Row]]:
    if words and words[0] in ONLY_NAMED:
        yield ONLY_NAMED[words[0]](*[int(word) if word.isdecimal() else word for word in words[1:]])
        return
    for name in words or FIGURES:
        yield FIGURES[name]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
