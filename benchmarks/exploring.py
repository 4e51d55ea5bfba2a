"""What the harness itself spends on a live search: an agent and an evaluator that do next to nothing, everything else real.

The policy runs in the local sandbox, workspaces are kept in a git repository and everything is on record in SQLite, as ever. The
wall time of a search over its attempts is then what one attempt costs beside agent and evaluator. Growth is the last quarter of
a search of 1,000 nodes over its first: in time, where 1 is linear, and in memory that stays with the process.
"""

from __future__ import annotations

import gc
import shutil
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Row
from harness.agents.base import Hypothesis, Work
from harness.explore.attempting import Attempting
from harness.explore.base import AttemptEnded
from harness.explore.explorer import Live, explore
from harness.policy import Candidate, Origin
from harness.search import Mode, SearchPlan
from harness.store import Store
from harness.task.base import Assessment, Scoring, Task
from harness.tree import Direction
from harness.workspaces.git import GitSnapshots
from sandbox.api import Cost, Frontier, Limits
from sandbox.base import GuestLimits
from sandbox.job import JobLimits
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from harness.agents.base import Assignment
    from harness.search import Search

NODES = 1_000
FEW = 200
SLOTS = 8
ATTEMPT_WISH_S = 0.050
GROWTH_WISH = 1.5
MEMORY_WISH_MIB = 8.0
WIDE = """
class Policy:
    def __init__(self, context):
        self.batch = context.limits.max_batch
    def decide(self, view):
        free = [node.id for node in view.leaves if node.id not in view.pending and node.depth < 25]
        return (free + [0] * self.batch)[:self.batch]
"""


class Adds:
    """An agent that writes one number."""

    name = "adds"

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Say what will be written."""
        return Hypothesis("answer", f"write {assignment.seed}", "it is another one")

    def work(self, assignment: Assignment) -> Work:
        """Write it."""
        (assignment.workspace / "answer.txt").write_text(str(assignment.seed))
        return Work(cost=Cost(0.0, 0.0, 0.0), strategy="adding")

    def close(self) -> None:
        """There is nothing to end."""


class Takes:
    """An evaluator that takes the number for the score."""

    def assess(self, workspace: Path, *, cancel: threading.Event | None = None) -> Assessment:  # noqa: ARG002 - it is quick
        """Return the number."""
        score = float((workspace / "answer.txt").read_text())
        return Assessment(score, "ok", "", {}, terminal=False, seconds=0.0)


@dataclass(frozen=True, slots=True)
class Watched:
    """When each attempt of a search ended, in seconds from its beginning, and memory at a quarter of it and at its end."""

    ended_s: list[float]
    memory_mib: tuple[float, float]

    @property
    def attempt_s(self) -> float:
        """Return the wall time of the search for each of its attempts."""
        return self.ended_s[-1] / len(self.ended_s)

    @property
    def growth(self) -> float:
        """Return the time of the last quarter over that of the first."""
        quarter = len(self.ended_s) // 4
        return (self.ended_s[-1] - self.ended_s[-quarter - 1]) / self.ended_s[quarter]


def rows() -> Iterator[Row]:
    """Yield the cost of an attempt, one at a time and side by side, and how a large tree grows."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        floor = statistics.median(_bare(room / f"bare{turn}", FEW) for turn in range(3))
        yield Row("the floor of an attempt: a copied folder and a row in SQLite", f"{floor * 1000:.1f} ms", "", met=None)
        _watched(room / "first", FEW, 1, Mode.ROUNDS)  # the first one imports
        for slots, mode in ((1, Mode.ROUNDS), (SLOTS, Mode.ROUNDS), (SLOTS, Mode.ASYNC)):
            spent = statistics.median(_watched(room / f"{slots}{mode}{turn}", FEW, slots, mode).attempt_s for turn in range(3))
            words = f"an attempt beside agent and evaluator, {slots} at a time, {mode.value}"
            yield Row(words, f"{spent * 1000:.1f} ms", f"{ATTEMPT_WISH_S * 1000:.0f} ms", met=spent <= ATTEMPT_WISH_S)
        for mode in Mode:
            large = _watched(room / f"large {mode}", NODES, SLOTS, mode)
            what = f"{NODES} nodes, {SLOTS} at a time, {mode.value}"
            yield Row(
                f"{what}: time of the last quarter over the first",
                f"{large.growth:.2f} x",
                f"{GROWTH_WISH} x",
                met=large.growth <= GROWTH_WISH,
            )
            early, late = large.memory_mib
            words = f"{early:.0f} to {late:.0f} MiB"
            met = late - early <= MEMORY_WISH_MIB
            yield Row(f"{what}: memory at a quarter, at the end", words, f"+{MEMORY_WISH_MIB:.0f} MiB", met=met)


def _bare(room: Path, attempts: int) -> float:
    """Return the seconds that it takes to copy a folder of one file and to commit a row, for each attempt."""
    start = room / "start"
    start.mkdir(parents=True)
    (start / "answer.txt").write_text("0")
    with closing(sqlite3.connect(room / "bare.db")) as database:
        database.execute("CREATE TABLE attempts (number INTEGER PRIMARY KEY, score REAL, words TEXT)")
        began = time.perf_counter()
        for number in range(attempts):
            shutil.copytree(start, room / f"w{number}")
            with database:
                database.execute("INSERT INTO attempts VALUES (?, ?, ?)", (number, float(number), "w" * 500))
        return (time.perf_counter() - began) / attempts


def _watched(room: Path, attempts: int, slots: int, mode: Mode) -> Watched:
    """Make one search, in a folder of its own."""
    start = room / "start"
    start.mkdir(parents=True)
    (start / "answer.txt").write_text("0")
    scoring = Scoring(("true",), start, JobLimits())
    task = Task("adding", "Add.", Direction.MAX, room, start, ("answer.txt",), scoring, "d" * 64, attempt_s=20.0)
    store, sandbox = Store.open(f"sqlite:///{room / 'harness.db'}"), LocalSandbox()
    try:
        snapshots = GitSnapshots(room / "workspaces.git")
        search = _begun(store, snapshots, task, (attempts, slots, mode))
        live = Live(store, sandbox, GuestLimits(), Attempting(task, Adds(), Takes(), snapshots, 0.0))
        return _timed(search, live, attempts)
    finally:
        sandbox.close()
        store.close()


def _begun(store: Store, snapshots: GitSnapshots, task: Task, size: tuple[int, int, Mode]) -> Search:
    attempts, slots, mode = size
    version = store.record(Candidate(WIDE, Origin.TEMPLATE))
    plan = SearchPlan(
        name=f"adding-{attempts}",
        task=task.name,
        task_digest=task.digest,
        folder=str(task.folder),
        direction=task.direction,
        version=version.number,
        policy=version.candidate.digest,
        seed=1,
        limits=Limits(10 * attempts, SLOTS, attempts),
        frontier=Frontier.LEAF,
        mode=mode,
        slots=slots,
        agent=Adds.name,
        sandbox="local",
    )
    return store.begin_search(plan, snapshots.take(task.start), 0.0, {})


def _timed(search: Search, live: Live, attempts: int) -> Watched:
    ended: list[float] = []
    early = 0.0
    began, paused = time.perf_counter(), 0.0
    for progress in explore(search, live):
        if isinstance(progress, AttemptEnded):
            ended.append(time.perf_counter() - began - paused)
            if len(ended) == attempts // 4:
                looked = time.perf_counter()
                early = _memory_mib()
                paused += time.perf_counter() - looked
    return Watched(ended, (early, _memory_mib()))


def _memory_mib() -> float:
    """Return what this process holds in memory, garbage left out."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError  # Linux tells it
