"""What keeping a workspace of 200 files and 2 MB costs beside copying it: taken, taken again with a file changed, restored."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import REPETITIONS, Row
from harness.workspaces.git import GitSnapshots

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = 200
FILE_BYTES = 10_000
WISH_S = 0.050


def rows() -> Iterator[Row]:
    """Yield the median wall time of each, every repetition with files of its own."""
    spent: dict[str, list[float]] = {"copytree": [], "first take": [], "take with one file changed": [], "restore": []}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        snapshots = GitSnapshots(base / "snapshots")
        for repetition in range(REPETITIONS + 1):
            workspace = base / f"w{repetition}"
            _fill(workspace, repetition)
            began = [time.perf_counter()]
            shutil.copytree(workspace, base / f"c{repetition}")
            began.append(time.perf_counter())
            snapshots.take(workspace)
            began.append(time.perf_counter())
            (workspace / "d0" / "f0.py").write_text("changed = True\n")
            address = snapshots.take(workspace)
            began.append(time.perf_counter())
            snapshots.restore(address, base / f"r{repetition}")
            began.append(time.perf_counter())
            if repetition:  # the first one imports
                for figures, start, end in zip(spent.values(), began[:-1], began[1:], strict=True):
                    figures.append(end - start)
    for what, figures in spent.items():
        median = statistics.median(figures)
        wish = "" if what == "copytree" else f"{WISH_S * 1000:.0f} ms"
        yield Row(
            f"workspace of 2 MB, {FILES} files: {what}", f"{median * 1000:.1f} ms", wish, met=median <= WISH_S if wish else None
        )


def _fill(folder: Path, seed: int) -> None:
    drawn = random.Random(seed)  # noqa: S311 - text, no secret
    for number in range(FILES):
        file = folder / f"d{number % 10}" / f"f{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"value_{drawn.randrange(10**6)} = {drawn.random()}" for _ in range(FILE_BYTES // 30))
        file.write_text("\n".join(lines)[: FILE_BYTES - 1] + "\n")
    os.sync()
