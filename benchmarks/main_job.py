"""The README's main job, `make run`: how long it takes, and by how much its best version beats the hand-written start.

Both policies are judged on the held-out example trees, which took no part in development. One run is one draw, so the figure
is given for several seeds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import REPETITIONS, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

HARNESS = Path(sys.executable).with_name("harness")
TREES = Path(__file__).parents[1] / "examples" / "trees"


def rows() -> Iterator[Row]:
    """Yield the main job's figures."""
    gains, seconds = [], []
    for seed in range(REPETITIONS):
        began = time.monotonic()
        report = _evolve(seed)
        seconds.append(time.monotonic() - began)
        gains.append(report["held_out"]["difference"])
    yield Row("make run: wall seconds after set-up (seed 0)", f"{seconds[0]:.0f} s", "< 180 s", met=seconds[0] < 180)  # noqa: PLR2004
    yield Row("make run: gain over parallel-refine on held-out trees (seed 0)", f"{gains[0]:+.4f}", "> 0", met=gains[0] > 0)
    shown = ", ".join(f"{gain:+.4f}" for gain in gains)
    yield Row("make run: the same for seeds 0 to 4", f"median {statistics.median(gains):+.4f} ({shown})")


def _evolve(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/harness.db"
        command = [str(HARNESS), "evolve", "--trees", str(TREES), "--seed", str(seed), "--store", store, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report
