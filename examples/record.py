"""Record example trees: run a small search on real problems and write what it found, one file for each search.

    python examples/record.py --out DIR [--seed N] [--workers N] [--task NAME] [--trees N] [--attempts N] [--force]

The same seed gives the same scores to the bit on the same machine; only seconds and times differ.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

# Before numpy is loaded, whatever the caller's environment says: more threads would add up floats in another order.
for _library in ("OPENBLAS", "OMP", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

from search.recording import TASK_NAMES, Order, record, shape_of, write  # noqa: E402 - threads are set first

if TYPE_CHECKING:
    from collections.abc import Callable

USAGE_ERROR = 2


def main() -> int:
    """Record the trees that the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(description="Record example discovery trees by running a small search on real problems.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to, one folder for each task in it")
    parser.add_argument("--seed", type=_at_least(0), default=1, help="fixes every score (default 1)")
    parser.add_argument("--workers", type=_at_least(1), default=2, help="searches that run at the same time (default 2)")
    parser.add_argument("--task", choices=TASK_NAMES, action="append", help="record this task only; may be given again")
    parser.add_argument("--trees", type=_at_least(1), default=18, help="searches for each task (default 18)")
    parser.add_argument("--attempts", type=_at_least(1), help="end each search after so many attempts")
    parser.add_argument("--force", action="store_true", help="overwrite trees that are there already")
    given = parser.parse_args()

    names = [name for name in TASK_NAMES if given.task is None or name in given.task]
    orders = [Order(name, given.seed, number, given.attempts) for name in names for number in range(given.trees)]
    paths = {order: given.out / order.task / f"{order.name}.jsonl" for order in orders}
    there = [path for path in paths.values() if path.exists()]
    if there and not given.force:
        print(f"{there[0]}: is there already ({len(there)} such); choose another --out or say --force", file=sys.stderr)
        return USAGE_ERROR
    try:
        for folder in {path.parent for path in paths.values()}:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; --out must name a folder that can be written", file=sys.stderr)
        return USAGE_ERROR
    with ProcessPoolExecutor(given.workers) as pool:
        searches = {pool.submit(_record_to, order, paths[order]): order for order in orders}
        for search in as_completed(searches):
            print(f"{paths[searches[search]]}: {search.result()} attempts", flush=True)
    return 0


def _record_to(order: Order, path: Path) -> int:
    rows = record(order, shape_of(order))
    write(rows, path)
    return len(rows) - 1


def _at_least(least: int) -> Callable[[str], int]:
    """Return a type for argparse: a whole number that is not below `least`."""

    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{value} is below {least}")
        return value

    return number


if __name__ == "__main__":
    sys.exit(main())
