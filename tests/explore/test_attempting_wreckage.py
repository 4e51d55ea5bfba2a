"""Whatever an agent leaves behind is a node that says what was wrong; nothing outside its workspace is touched, nothing is left.

Everything but the agent is real: snapshots, the evaluator and its job.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import tempfile
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_parts import Bench

from harness.agents.base import AgentFault, Hypothesis, Work
from harness.explore.attempting import Attempting, Pick
from harness.explore.base import SearchOver
from harness.explore.explorer import Live, explore
from harness.task.base import Scoring
from harness.task.evaluator import Evaluator
from harness.workspaces.git import GitSnapshots
from harness.workspaces.tree import MOST_ENTRIES
from sandbox.api import Limits
from sandbox.base import GuestLimits
from sandbox.job import JobLimits
from sandbox.local import LocalSandbox
from sandbox.localjob import LocalJobs
from sandbox.owner import owned_folder
from sandbox.removal import remove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.agents.base import Assignment
    from harness.task.base import Task
    from harness.tree import Attempt

EVALUATE = """import json, os
from pathlib import Path
text = (Path(os.environ["JOB_INPUTS"]) / "workspace" / "answer.txt").read_text()
print(json.dumps({"score": int(text)}))
"""


class Leaves:
    """An agent that writes an answer and then does to its workspace what it was told."""

    name = "leaves"

    def __init__(self, behave: Callable[[Path], None]) -> None:
        self._behave = behave

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Plan nothing."""
        del assignment
        return Hypothesis()

    def work(self, assignment: Assignment) -> Work:
        """Wreck it."""
        (assignment.workspace / "answer.txt").write_text("5")
        self._behave(assignment.workspace)
        return Work()

    def close(self) -> None:
        """There is nothing to end."""


@dataclass
class Site:
    """Where an attempt is made, and what lies beside it."""

    bench: Bench
    task: Task
    snapshots: GitSnapshots
    start: str
    outside: Path
    temporary: Path

    def attempt(self, behave: Callable[[Path], None], task: Task | None = None) -> Attempt:
        """Make one attempt that leaves what `behave` does."""
        task = task or self.task
        making = Attempting(task, Leaves(behave), Evaluator(task, LocalJobs()), self.snapshots)
        return making.make(Pick(1, None, self.start, seed=7), threading.Event()).attempt

    def is_untouched(self) -> bool:
        """Return whether what lies outside is as it was, and no temporary folder is left."""
        kept = self.outside / "kept" / "kept.txt"
        return kept.read_text() == "kept" and kept.stat().st_mode & 0o777 == 0o640 and list(self.temporary.iterdir()) == []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("temporary", "outside/kept", "evaluator"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside" / "kept" / "kept.txt").write_text("kept")
    (tmp_path / "outside" / "kept" / "kept.txt").chmod(0o640)
    (tmp_path / "evaluator" / "evaluate.py").write_text(EVALUATE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    bench = Bench(tmp_path)
    scoring = Scoring(("python3", "-I", "{evaluator}/evaluate.py"), tmp_path / "evaluator", JobLimits())
    task = replace(bench.task, scoring=scoring, files=("answer.txt", "mine/*"))
    snapshots = GitSnapshots(tmp_path / "workspaces.git")
    yield Site(bench, task, snapshots, snapshots.take(bench.task.start), tmp_path / "outside", tmp_path / "temporary")
    bench.store.close()


def removes_it(workspace: Path) -> None:
    shutil.rmtree(workspace)


def removes_what_holds_it(workspace: Path) -> None:
    shutil.rmtree(workspace.parent)


def makes_it_a_file(workspace: Path) -> None:
    shutil.rmtree(workspace)
    workspace.write_text("no folder")


def makes_it_a_link(workspace: Path) -> None:
    shutil.rmtree(workspace)
    workspace.symlink_to(workspace.parents[2] / "outside")


def makes_what_holds_it_a_link(workspace: Path) -> None:
    (workspace.parents[2] / "outside" / "workspace").mkdir()
    shutil.rmtree(workspace.parent)
    workspace.parent.symlink_to(workspace.parents[2] / "outside")


def leaves_a_fifo(workspace: Path) -> None:
    (workspace / "answer.txt").unlink()
    os.mkfifo(workspace / "answer.txt")


def leaves_a_socket(workspace: Path) -> None:
    here = Path.cwd()
    os.chdir(workspace)  # an address has room for some 100 characters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("mine.sock")
    finally:
        os.chdir(here)
    (workspace / "answer.txt").unlink()
    (workspace / "mine.sock").rename(workspace / "answer.txt")


def leaves_a_device(workspace: Path) -> None:
    (workspace / "answer.txt").unlink()
    try:
        os.mknod(workspace / "answer.txt", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, which has no end
    except PermissionError:
        pytest.skip("making device files takes root")


def leaves_deep_folders(workspace: Path, name: str = "mine") -> None:
    """A thousand levels, far beyond what a path can say."""
    handle = os.open(workspace, os.O_RDONLY)
    for _ in range(1000):
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("answer.txt", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)


def leaves_deep_folders_with_long_names(workspace: Path) -> None:
    leaves_deep_folders(workspace, "m" * 255)


def leaves_odd_names(workspace: Path) -> None:
    for name in (b"caf\xe9", b"\x1b[2Jred", b"two\nlines"):
        (workspace / os.fsdecode(name)).write_text("x")


def leaves_odd_names_that_it_may_leave(workspace: Path) -> None:
    (workspace / "mine").mkdir()
    leaves_odd_names(workspace / "mine")


def leaves_many_files(workspace: Path, files: int = 2_000) -> None:
    (workspace / "more").mkdir()
    for number in range(files):
        os.close(os.open(f"{workspace}/more/{number}", os.O_CREAT | os.O_WRONLY))


def leaves_many_files_that_it_may_leave(workspace: Path) -> None:
    leaves_many_files(workspace, MOST_ENTRIES)
    (workspace / "more").rename(workspace / "mine")


def leaves_a_huge_file(workspace: Path) -> None:
    os.truncate(workspace / "answer.txt", 3 * 2**30)


def leaves_a_huge_file_elsewhere(workspace: Path) -> None:
    """Larger than anybody could read: a terabyte."""
    os.truncate(workspace / "readme.txt", 2**40)
    (workspace / "other.txt").touch()
    os.truncate(workspace / "other.txt", 2**40)


def leaves_a_folder_in_the_place_of_a_file(workspace: Path) -> None:
    (workspace / "readme.txt").unlink()
    (workspace / "readme.txt" / "deeper").mkdir(parents=True)
    (workspace / "readme.txt" / "deeper" / "more.txt").write_text("x")


def links_its_own_folder_away(workspace: Path) -> None:
    (workspace / ".agent").symlink_to(workspace.parents[2] / "outside" / "kept")


def closes_everything(workspace: Path) -> None:
    (workspace / "mine" / "inner").mkdir(parents=True)
    (workspace / "mine" / "inner" / "a.txt").write_text("x")
    (workspace / "mine" / "inner").chmod(0)
    (workspace / "mine").chmod(0)
    (workspace / "readme.txt").chmod(0)
    workspace.chmod(0)


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (removes_it, "removed its workspace"),
        (removes_what_holds_it, "removed its workspace"),
        (makes_it_a_file, "put a file in the place of its workspace"),
        (makes_it_a_link, "put a link in the place of its workspace"),
        (makes_what_holds_it_a_link, "put a link in the place of its workspace"),
        (leaves_a_fifo, "'answer.txt' is a special file"),
        (leaves_a_socket, "'answer.txt' is a special file"),
        (leaves_a_device, "'answer.txt' is a special file"),
        (leaves_odd_names_that_it_may_leave, "no UTF-8"),
        (leaves_many_files_that_it_may_leave, "more than 20000 files"),
        (leaves_a_huge_file, "more than 256 MiB"),
    ],
)
def test_what_cannot_be_kept_scores_nothing_and_is_told(site: Site, behave: Callable[[Path], None], said: str) -> None:
    """A child of the attempt starts where its parent did."""
    made = site.attempt(behave)

    assert (made.status, made.score, made.snapshot) == ("invalid", None, site.start)
    assert said in made.feedback
    assert site.is_untouched()


@pytest.mark.parametrize(
    ("behave", "left_out"),
    [
        (leaves_deep_folders, "/".join(["mine"] * 65)[:100]),
        (leaves_deep_folders_with_long_names, "m" * 200),
        (leaves_odd_names, r"\x1b[2Jred, caf\udce9, two\nlines"),
        (leaves_many_files, "and 1995 more"),
        (leaves_a_huge_file_elsewhere, "other.txt, readme.txt"),
        (links_its_own_folder_away, ".agent"),
        (leaves_a_folder_in_the_place_of_a_file, "readme.txt, readme.txt/deeper/more.txt"),
    ],
)
def test_what_no_pattern_lets_it_leave_is_left_out_and_the_rest_is_scored(
    site: Site, behave: Callable[[Path], None], left_out: str, tmp_path: Path
) -> None:
    made = site.attempt(behave)

    assert (made.status, made.score) == ("ok", 5.0)
    assert left_out in made.feedback.partition("left out: ")[2]
    site.snapshots.restore(made.snapshot or "", tmp_path / "again")
    assert (tmp_path / "again" / "readme.txt").read_text() == "fixed\n"
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["answer.txt", "readme.txt"]
    assert site.is_untouched()


def drop_roots_rights() -> None:
    """Take from this thread what lets root read what nobody may: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    sets[0] &= ~0b110
    assert libc.capset(header, sets) == 0


@pytest.mark.parametrize("name", ["readme.txt", "answer.txt"])
def test_what_was_closed_to_us_is_opened_put_back_or_refused_whoever_we_are(site: Site, name: str) -> None:
    made: list[Attempt] = []

    def closes(workspace: Path) -> None:
        (workspace / name).chmod(0)
        closes_everything(workspace)

    def run() -> None:
        drop_roots_rights()
        made.append(site.attempt(closes))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    status, told = {
        "readme.txt": ("ok", "left out: readme.txt"),
        "answer.txt": ("invalid", "The workspace cannot be read: Permission denied"),
    }[name]
    assert made[0].status == status
    assert told.lower() in made[0].feedback.lower()
    assert site.is_untouched()


def test_what_an_agent_that_gave_up_left_is_no_trouble_either(site: Site) -> None:
    def gives_up(workspace: Path) -> None:
        makes_it_a_link(workspace)
        raise AgentFault("gave up")

    made = site.attempt(gives_up)

    assert (made.status, made.snapshot) == ("failed", site.start)
    assert "put a link in the place of its workspace. gave up" in made.feedback
    assert site.is_untouched()


def test_a_workspace_whose_files_may_all_be_changed_may_be_removed_as_well(site: Site) -> None:
    """Nothing has to be put back, so that nothing is there for the evaluator."""
    made = site.attempt(removes_it, replace(site.task, files=("*",)))

    assert (made.status, made.snapshot) == ("invalid", site.start)
    assert site.is_untouched()


def test_a_search_whose_every_attempt_wrecks_its_workspace_ends_with_its_tree(site: Site) -> None:
    wrecks = [removes_it, makes_it_a_file, makes_it_a_link, leaves_a_fifo, leaves_deep_folders, leaves_odd_names]

    class Wrecks(Leaves):
        def work(self, assignment: Assignment) -> Work:
            self._behave = wrecks[int(assignment.attempt.removeprefix("a")) % len(wrecks)]
            return super().work(assignment)

    policy = "class Policy:\n    def __init__(self, context): pass\n    def decide(self, view): return [0] * 3\n"
    search = replace(site.bench.begin(policy, slots=1, limits=Limits(20, 8, 12)), start=site.start)
    making = Attempting(site.task, Wrecks(removes_it), Evaluator(site.task, LocalJobs()), site.snapshots, 0.0)
    with closing(LocalSandbox()) as sandbox:
        *_, last = explore(search, Live(site.bench.store, sandbox, GuestLimits(), making))

    assert isinstance(last, SearchOver)
    attempts = site.bench.store.tree(last.search.tree or "").attempts
    assert [attempt.status for attempt in attempts] == ["invalid", "invalid", "invalid", "ok", "ok", "invalid"] * 2
    assert site.is_untouched()


def test_a_borrowed_folder_goes_away_whatever_became_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def filled(folder: Path) -> Any:
        leaves_deep_folders(folder)
        (folder / "closed").mkdir(0)
        (folder / "away").symlink_to(tmp_path)

    for behave in (filled, removes_it, makes_it_a_file):
        with owned_folder() as folder:
            behave(folder)
        assert list(tmp_path.iterdir()) == []
    remove(tmp_path / "gone")
