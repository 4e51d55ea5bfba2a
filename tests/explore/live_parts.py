"""Real parts for tests of live searches, small enough to read: an agent that counts, an evaluator that reads, folders kept."""

from __future__ import annotations

import hashlib
import random
import shutil
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.agents.base import AgentFault, Assignment, Hypothesis, Work
from harness.errors import HarnessError
from harness.explore.attempting import Attempting
from harness.explore.explorer import Live
from harness.policy import Candidate, Origin
from harness.search import Allowance, Mode, SearchPlan
from harness.store import Store
from harness.task.base import Assessment, Scoring, Task
from harness.tree import Direction
from sandbox.api import Cost, Frontier, Limits
from sandbox.base import GuestLimits
from sandbox.job import JobLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.search import Search
    from sandbox.local import LocalSandbox

WIDE_THEN_DEEP = """
class Policy:
    def __init__(self, context):
        self.limits = context.limits
    def decide(self, view):
        if view.round == 1:
            return [0, 0, 0]
        if view.round > 5:
            return []
        tips = sorted(view.leaves, key=lambda node: (-(node.score or 0), node.id))
        return [node.id for node in tips if node.id not in view.pending][:2] + ([0] if view.round == 3 else [])
"""

ONE_AT_A_TIME = """
class Policy:
    def __init__(self, context):
        pass
    def decide(self, view):
        free = [node.id for node in view.leaves if node.id not in view.pending]
        return [free[-1]] if free and view.attempts % 3 else [0]
"""


class Counts:
    """An agent that adds a number to `answer.txt`, drawn from its seed; slow, failing or faulty where it is told."""

    name = "counts"

    def __init__(self, behave: Callable[[Assignment], None] = lambda _: None, cost: Cost = Cost(0.5, 10.0, 0.01)) -> None:  # noqa: B008
        self._behave = behave
        self._cost = cost
        self._lock = threading.Lock()
        self.running, self.most = 0, 0
        self.seen: dict[str, Assignment] = {}

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Say what will be added."""
        with self._lock:
            self.seen[assignment.attempt] = assignment
        return Hypothesis("answer", f"add {_drawn(assignment)}", "it is larger")

    def work(self, assignment: Assignment) -> Work:
        """Add it."""
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            self._behave(assignment)
            answer = assignment.workspace / "answer.txt"
            answer.write_text(str(int(answer.read_text()) + _drawn(assignment)))
            (assignment.workspace / ".agent").mkdir(exist_ok=True)
            (assignment.workspace / ".agent" / "notes").write_text(assignment.attempt)
        finally:
            with self._lock:
                self.running -= 1
        return Work(cost=self._cost, output=f"added {_drawn(assignment)}", strategy="counting")

    def close(self) -> None:
        """There is nothing to end."""


def _drawn(assignment: Assignment) -> int:
    return random.Random(f"{assignment.seed} {assignment.strategy}").randrange(1000)  # noqa: S311 - a draw, no secret


class Reads:
    """An evaluator whose score is the number in `answer.txt`."""

    def assess(self, workspace: Path, *, cancel: threading.Event | None = None) -> Assessment:  # noqa: ARG002 - it is quick
        """Return the number; what is none is invalid."""
        text = (workspace / "answer.txt").read_text() if (workspace / "answer.txt").exists() else "nothing"
        if not text.isdecimal():
            return Assessment(None, "invalid", f"{text!r} is no number", {}, terminal=False, seconds=0.0)
        return Assessment(
            float(text), "ok", f"read {text}", {"digits": float(len(text))}, terminal=text.endswith("7"), seconds=0.0
        )


@dataclass
class Folders:
    """Snapshots as plain copies, addressed by their content."""

    room: Path
    taken: list[str] = field(default_factory=list)

    def take(self, folder: Path) -> str:
        """Copy a folder."""
        total = hashlib.sha256()
        for path in sorted(folder.rglob("*")):
            total.update(f"{path.relative_to(folder)}:".encode() + (path.read_bytes() if path.is_file() else b"folder"))
        address = total.hexdigest()
        self.taken.append(address)
        self.room.mkdir(exist_ok=True)
        if not (self.room / address).exists():
            shutil.copytree(folder, self.room / address, symlinks=True)
        return address

    def restore(self, address: str, folder: Path) -> None:
        """Copy it back."""
        shutil.copytree(self.room / address, folder, symlinks=True)

    def keep_only(self, addresses: object) -> int:  # noqa: ARG002 - as it says
        """Keep all."""
        return 0


@dataclass
class Bench:
    """A store, a task and everything else that a live search needs, in one folder."""

    folder: Path
    agent: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.store = Store.open(f"sqlite:///{self.folder / 'harness.db'}")
        self.snapshots = Folders(self.folder / "snapshots")
        start = self.folder / "start"
        start.mkdir(exist_ok=True)
        (start / "answer.txt").write_text("0")
        (start / "readme.txt").write_text("fixed\n")
        scoring = Scoring(("true",), start, JobLimits())
        self.task = Task(
            "counting", "Count.", Direction.MAX, self.folder, start, ("answer.txt",), scoring, "d" * 64, attempt_s=20.0
        )

    def begin(self, source: str, *, mode: Mode = Mode.ROUNDS, seed: int = 1, **plan: object) -> Search:
        """Record a search under a policy."""
        version = self.store.record(Candidate(source, Origin.TEMPLATE))
        said = {
            "name": "counting-1",
            "task": "counting",
            "task_digest": self.task.digest,
            "folder": str(self.folder),
            "direction": Direction.MAX,
            "version": version.number,
            "policy": version.candidate.digest,
            "seed": seed,
            "limits": Limits(20, 8, 40),
            "frontier": Frontier.LEAF,
            "mode": mode,
            "slots": 3,
            "agent": "counts",
            "sandbox": "local",
            "allowance": Allowance(),
        }
        return self.store.begin_search(SearchPlan(**{**said, **plan}), self.snapshots.take(self.task.start), 0.0, {})  # type: ignore[arg-type]

    def live(self, sandbox: LocalSandbox, **parts: object) -> Live:
        """Return what a search works with."""
        attempting = Attempting(self.task, self.agent, Reads(), self.snapshots, 0.0)
        return Live(self.store, sandbox, GuestLimits(), attempting, **parts)  # type: ignore[arg-type]


def fails(assignment: Assignment) -> None:
    """Fail every third attempt."""
    if int(assignment.attempt.removeprefix("a")) % 3 == 0:
        raise AgentFault("could not think of anything")


def naps(assignment: Assignment) -> None:
    """Take so long that later attempts end first."""
    time.sleep(0.03 * (4 - int(assignment.attempt.removeprefix("a")) % 4))


def breaks(assignment: Assignment) -> None:
    """Be out of reach."""
    raise HarnessError(f"no agent for {assignment.attempt}")
