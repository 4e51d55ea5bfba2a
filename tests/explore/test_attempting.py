"""One attempt: what it is given, what is taken over, and that nothing of it is seen by another."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from live_parts import Bench, Counts, Reads

from harness.agents.base import AgentFault, Hypothesis
from harness.explore.attempting import Attempting, Pick
from harness.explore.rollouts import Roller, Rollouts
from harness.workspaces.git import GitSnapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.agents.base import Assignment


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def attempting(bench: Bench, behave: Callable[[Assignment], None] = lambda _: None) -> tuple[Attempting, Pick, GitSnapshots]:
    bench.agent = Counts(behave)
    snapshots = GitSnapshots(bench.folder / "workspaces.git")
    start = snapshots.take(bench.task.start)
    return Attempting(bench.task, bench.agent, Reads(), snapshots), Pick(1, None, start, seed=7), snapshots


def rolled(bench: Bench, behave: Callable[[Assignment], None], n: int = 3) -> list[Assignment]:
    """Make several tries at one pick and return what each was given."""
    given: list[Assignment] = []
    lock = threading.Lock()

    def noted(assignment: Assignment) -> None:
        with lock:
            given.append(assignment)
        behave(assignment)

    making, pick, _ = attempting(bench, noted)

    def one(index: int, strategy: str, timeout_s: float, cancel: threading.Event) -> Any:
        return making.make(pick, cancel, strategy=strategy, timeout_s=timeout_s, seed=index)

    Roller(Rollouts(n=n)).roll(one, threading.Event())
    return given


def test_b10_b15_each_try_starts_from_the_same_snapshot_with_its_own_strategy(bench: Bench) -> None:
    """The strategy stands beside the task, whose statement is as it was."""
    seen: list[str] = []

    given = rolled(bench, lambda assignment: seen.append((assignment.workspace / "answer.txt").read_text()))

    assert seen == ["0", "0", "0"]
    assert len({assignment.strategy for assignment in given}) == 3
    assert {assignment.task.statement for assignment in given} == {"Count."}


def test_b13_the_parents_snapshot_is_as_it_was(bench: Bench, tmp_path: Path) -> None:
    making, pick, snapshots = attempting(bench, lambda assignment: (assignment.workspace / "readme.txt").unlink())

    made = making.make(pick, threading.Event())

    snapshots.restore(pick.snapshot, tmp_path / "again")
    assert snapshots.take(tmp_path / "again") == pick.snapshot
    assert made.attempt.snapshot != pick.snapshot
    assert "left out: readme.txt" in made.attempt.feedback


def test_b14_b16_every_attempt_has_a_folder_of_its_own_and_none_is_left(bench: Bench) -> None:
    together = threading.Barrier(3, timeout=60)

    given = rolled(bench, lambda _: together.wait() and None)

    folders = [assignment.workspace for assignment in given]
    assert len(set(folders)) == 3
    assert not any(folder.exists() for folder in folders)


def test_b17_what_one_try_writes_no_other_sees(bench: Bench) -> None:
    together = threading.Barrier(3, timeout=60)
    seen: list[list[str]] = []

    def writes(assignment: Assignment) -> None:
        (assignment.workspace / f"mine-{assignment.seed}.txt").write_text("x")
        together.wait()
        seen.append(sorted(path.name for path in assignment.workspace.glob("mine-*")))

    rolled(bench, writes)

    assert sorted(seen) == [["mine-0.txt"], ["mine-1.txt"], ["mine-2.txt"]]


def plants_a_link(assignment: Assignment) -> None:
    (assignment.workspace / "answer.txt").unlink()
    (assignment.workspace / "answer.txt").symlink_to("/etc/passwd")


def takes_the_rights(assignment: Assignment) -> None:
    (assignment.workspace / ".agent").mkdir(exist_ok=True)
    (assignment.workspace / ".agent").chmod(0o000)


def makes_a_repository(assignment: Assignment) -> None:
    (assignment.workspace / ".git" / "objects").mkdir(parents=True)
    (assignment.workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def test_a_repository_that_an_agent_makes_for_itself_is_left_out(bench: Bench) -> None:
    making, pick, _ = attempting(bench, makes_a_repository)

    made = making.make(pick, threading.Event()).attempt

    assert made.status == "ok"
    assert "left out: .git/HEAD" in made.feedback


def test_a_link_that_leads_outside_scores_nothing_and_the_attempt_is_on_record(bench: Bench) -> None:
    _, pick, snapshots = attempting(bench)

    class Plants(Counts):
        def work(self, assignment: Assignment) -> Any:
            plants_a_link(assignment)
            raise AgentFault("gave up")

    making = Attempting(bench.task, Plants(), Reads(), snapshots)
    made = making.make(pick, threading.Event()).attempt

    assert (made.status, made.score, made.snapshot) == ("failed", None, pick.snapshot)
    assert "cannot be kept" in made.feedback


def test_a_folder_that_was_closed_to_us_is_opened_again(bench: Bench) -> None:
    class Closes(Counts):
        def work(self, assignment: Assignment) -> Any:
            done = super().work(assignment)
            takes_the_rights(assignment)
            return done

    _, pick, snapshots = attempting(bench)
    made = Attempting(bench.task, Closes(), Reads(), snapshots).make(pick, threading.Event()).attempt

    assert made.status == "ok"


def test_a_file_in_the_place_of_a_folder_is_put_right(bench: Bench) -> None:
    (bench.task.start / "data").mkdir()
    (bench.task.start / "data" / "table.csv").write_text("1,2\n")

    def swaps(assignment: Assignment) -> None:
        (assignment.workspace / "data" / "table.csv").unlink()
        (assignment.workspace / "data").rmdir()
        (assignment.workspace / "data").write_text("no folder")

    making, pick, snapshots = attempting(bench, swaps)
    made = making.make(pick, threading.Event()).attempt

    snapshots.restore(made.snapshot or "", bench.folder / "again")
    assert (bench.folder / "again" / "data" / "table.csv").read_text() == "1,2\n"


def test_a_plan_that_fails_is_a_node_and_nobody_works_on_it(bench: Bench) -> None:
    class Planless(Counts):
        def plan(self, assignment: Assignment) -> Hypothesis:
            raise AgentFault(f"found no way for {assignment.attempt}", status="timeout")

    making, pick, snapshots = attempting(bench)
    agent = Planless()

    made = Attempting(making.task, agent, Reads(), snapshots).make(pick, threading.Event()).attempt

    assert (made.status, made.score, made.feedback, made.hypothesis) == ("timeout", None, "found no way for a1", "")
    assert agent.most == 0
