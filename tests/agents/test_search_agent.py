"""The search agent: deterministic, isolated, ended whole, and aware of its siblings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.agents.base import AgentError, AgentFault, Assignment, Hypothesis, Sibling, SiblingState, Step
from harness.agents.search import SearchAgent
from harness.agents.search.worker import load_moves
from harness.errors import InputError
from harness.task import reading
from harness.task.evaluator import Evaluator
from sandbox.localjob import LocalJobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TASKS = Path(__file__).parents[2] / "examples" / "tasks"
WITH_MOVES = ("circle_packing", "autocorrelation_first", "autocorrelation_third", "sums_and_differences")
SLOW = """
import json, time
from harness.agents.search.walk import Proposal
class Slow:
    families = ("only",)
    operators = ("wait",)
    temperatures = (0.0,)
    effort = 1.0
    direction = "max"
    file = "answer.json"
    def open(self, rng, family, effort):
        time.sleep(60)
    move = load = dump = keep = open
MOVES = Slow()
"""


BUSY = """
import os, subprocess, time
from pathlib import Path
class Busy:
    families = ("only",)
    operators = ("wait",)
    temperatures = (0.0,)
    effort = 1.0
    direction = "max"
    file = "answer.json"
    def open(self, rng, family, effort):
        helper = subprocess.Popen(["sleep", "60"])
        there = Path(__file__).with_name("ids")
        there.with_suffix(".new").write_text(f"{os.getpid()} {helper.pid}")
        there.with_suffix(".new").rename(there)
        time.sleep(60)
    move = load = dump = keep = open
MOVES = Busy()
"""
HARNESS = """
import sys, threading
from dataclasses import replace
from pathlib import Path
from harness.agents.base import Assignment
from harness.agents.search import SearchAgent
from harness.task import reading
task = replace(reading.read(Path(sys.argv[1])), moves=Path(sys.argv[2]))
SearchAgent(task).work(Assignment(task, Path(sys.argv[3]), "a1", 7, 60.0, threading.Event()))
"""
WITH_DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Plain:
    families: tuple[str, ...] = ("only",)
    operators: tuple[str, ...] = ("wait",)
    temperatures: tuple[float, ...] = (0.0,)
    effort: float = 1.0
    direction: str = "max"
    file: str = "answer.json"
    def open(self, rng, family, effort): ...
    move = load = dump = keep = open
MOVES = Plain()
"""


@pytest.fixture(scope="module")
def agents() -> Iterator[dict[str, SearchAgent]]:
    made = {name: SearchAgent(reading.read(TASKS / name)) for name in WITH_MOVES}
    yield made
    for agent in made.values():
        agent.close()


def assignment(name: str, workspace: Path, **fields: object) -> Assignment:
    task = reading.read(TASKS / name)
    workspace.mkdir()
    (workspace / "answer.json").write_text((task.start / "answer.json").read_text())
    return replace(Assignment(task, workspace, "a1", 7, 60.0, threading.Event()), **fields)  # type: ignore[arg-type]


def running(process: int) -> bool:
    """Return whether a process is there and no zombie that waits for whoever adopted it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def within(seconds: float, said: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not (there := said()) and time.monotonic() < until:
        time.sleep(0.02)
    return there


def step(score: float | None, status: str = "ok") -> Step:
    return Step("a1", score, status, "", "")


@pytest.mark.parametrize("name", WITH_MOVES)
def test_an_attempt_and_its_child_are_scored_by_the_exact_evaluator(
    agents: dict[str, SearchAgent], tmp_path: Path, name: str
) -> None:
    """What it hands in passes a check that knows no rounding, and only its own folder and its answer change."""
    first = assignment(name, tmp_path / "w")
    work = agents[name].work(first)
    judge = Evaluator(first.task, LocalJobs())
    found = judge.assess(first.workspace)

    assert found.status == "ok", found.feedback
    assert sorted(path.name for path in first.workspace.iterdir()) == [".agent", "answer.json"]
    assert work.cost.tokens == work.cost.usd == 0.0
    assert 0 < (work.cost.seconds or 0) < 10
    child = replace(first, seed=12, attempt="a2", lineage=(step(found.score),))
    agents[name].work(child)
    again = judge.assess(child.workspace)
    better = 1 if first.task.direction.value == "max" else -1
    assert again.status == "ok"
    assert better * ((again.score or 0) - (found.score or 0)) > -0.05


@pytest.mark.parametrize("name", WITH_MOVES)
def test_the_same_seed_gives_the_same_answer_in_whatever_process(
    agents: dict[str, SearchAgent], tmp_path: Path, name: str
) -> None:
    def made(place: int) -> str:
        one = assignment(name, tmp_path / f"w{place}")
        planned = agents[name].plan(one)
        assert agents[name].work(one).hypothesis == planned
        assert len(planned.sentence()) <= 500
        return (one.workspace / "answer.json").read_text()

    with ThreadPoolExecutor(3) as pool:
        answers = set(pool.map(made, range(3)))

    assert len(answers) == 1
    other = assignment(name, tmp_path / "other", seed=99)
    agents[name].work(other)
    assert (other.workspace / "answer.json").read_text() not in answers


def test_a_rollouts_strategy_makes_another_try_of_it(agents: dict[str, SearchAgent], tmp_path: Path) -> None:
    plain, told = (assignment("circle_packing", tmp_path / name) for name in ("plain", "told"))
    told = replace(told, strategy="Make the smallest change.")

    agents["circle_packing"].work(plain)
    agents["circle_packing"].work(told)

    assert (plain.workspace / "answer.json").read_text() != (told.workspace / "answer.json").read_text()


def test_a_new_branch_takes_a_family_that_no_sibling_is_at(agents: dict[str, SearchAgent], tmp_path: Path) -> None:
    agent = agents["circle_packing"]
    first = assignment("circle_packing", tmp_path / "w")
    family = agent.plan(first).component
    busy = Sibling("a9", SiblingState.IN_FLIGHT, Hypothesis(family))
    failed = Sibling("a8", SiblingState.FAILED, Hypothesis(family))
    good = Sibling("a7", SiblingState.SUCCEEDED, Hypothesis(family))

    assert agent.plan(replace(first, siblings=(busy,))).component != family
    assert agent.plan(replace(first, siblings=(failed,))).component != family
    assert agent.plan(replace(first, siblings=(good,))) == agent.plan(first)
    everywhere = tuple(replace(busy, hypothesis=Hypothesis(name)) for name in ("random", "rows", "grid", "rings", "spiral"))
    assert agent.plan(replace(first, siblings=everywhere)) == agent.plan(first), "where all are taken, none is"


def test_what_the_evaluator_refused_is_not_built_on(agents: dict[str, SearchAgent], tmp_path: Path) -> None:
    agent = agents["circle_packing"]
    first = assignment("circle_packing", tmp_path / "w")
    agent.work(first)
    good = json.loads((first.workspace / ".agent" / "search.json").read_text())["answer"]
    agent.work(replace(first, seed=12, lineage=(step(2.6),)))
    agent.work(replace(first, seed=13, lineage=(step(2.6), step(None, "invalid"))))

    assert json.loads((first.workspace / ".agent" / "search.json").read_text())["before"] == good


@pytest.mark.parametrize(
    "change",
    [
        {"genome": None},
        {"genome": {}},
        {"genome": {"weights": [1.0]}},
        {"genome": {"weights": ["a"] * 6}},
        {"genome": {"weights": [float("nan")] * 6}},
        {"genome": {"family": "nowhere"}},
        {"genome": {"temperature": "hot"}},
        {"planned": 5},
        {"answer": {"x": 1}},
        {"before_score": "much"},
    ],
    ids=str,
)
def test_what_another_agent_left_in_its_place_is_not_gone_on_from(
    agents: dict[str, SearchAgent], tmp_path: Path, change: dict[str, Any]
) -> None:
    """It opens anew, as it does where nothing was left."""
    agent = agents["circle_packing"]
    first = assignment("circle_packing", tmp_path / "w")
    agent.work(first)
    path = first.workspace / ".agent" / "search.json"
    kept = json.loads(path.read_text())
    if change.get("genome"):
        change = {"genome": kept["genome"] | change["genome"]}
    path.write_text(json.dumps(kept | change))
    child = replace(first, lineage=(step(2.6),))

    assert agent.plan(child).statement.startswith("open with")
    assert agent.work(child).hypothesis == agent.plan(replace(child, lineage=()))


def test_what_libraries_in_the_moves_print_is_no_answer(tmp_path: Path) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(
        SLOW.replace("import json, time", "import os").replace("time.sleep(60)", "os.write(1, b'solved'); print(1); 1 / 0")
    )
    task = replace(reading.read(TASKS / "circle_packing"), moves=moves)
    agent = SearchAgent(task)

    with pytest.raises(AgentFault, match="division by zero"):
        agent.work(replace(assignment("circle_packing", tmp_path / "w"), task=task))
    agent.close()


@pytest.mark.parametrize("how", ["time", "cancel"])
def test_an_attempt_that_takes_too_long_is_ended_with_its_process(tmp_path: Path, how: str) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(SLOW)
    task = replace(reading.read(TASKS / "circle_packing"), moves=moves)
    agent = SearchAgent(task)
    slow = replace(assignment("circle_packing", tmp_path / "w"), task=task, timeout_s=0.5 if how == "time" else 60.0)
    if how == "cancel":
        threading.Timer(0.5, slow.cancel.set).start()

    with pytest.raises(AgentFault) as caught:
        agent.work(slow)

    assert caught.value.status == "timeout"
    assert agent._idle == []
    agent.close()
    with pytest.raises(AgentError, match="closed"):
        agent.work(slow)


def test_what_the_moves_started_is_ended_with_an_attempt_that_takes_too_long(tmp_path: Path) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(BUSY)
    task = replace(reading.read(TASKS / "circle_packing"), moves=moves)
    agent = SearchAgent(task)
    busy = replace(assignment("circle_packing", tmp_path / "w"), task=task, timeout_s=60.0)
    threading.Thread(target=lambda: within(20, (tmp_path / "ids").exists) and busy.cancel.set()).start()

    with pytest.raises(AgentFault):
        agent.work(busy)

    worker, helper = map(int, (tmp_path / "ids").read_text().split())
    assert within(5, lambda: not running(worker) and not running(helper))
    agent.close()


def test_a_process_in_the_middle_of_an_attempt_ends_when_the_harness_is_killed(tmp_path: Path) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(BUSY)
    workspace = assignment("circle_packing", tmp_path / "w").workspace
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(TASKS / "circle_packing"), str(moves), str(workspace)])
    try:
        assert within(20, (tmp_path / "ids").exists)
    finally:
        harness.kill()
        harness.wait()
    worker, helper = map(int, (tmp_path / "ids").read_text().split())
    try:
        assert within(5, lambda: not running(worker) and not running(helper))
    finally:
        for left in filter(running, (worker, helper)):
            os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(("way", "told"), [("os._exit(5)", "with code 5"), ("os.kill(os.getpid(), 9)", "by signal 9")])
def test_a_process_that_ends_by_itself_is_an_error_of_ours(tmp_path: Path, way: str, told: str) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(SLOW.replace("import json, time", "import os, time").replace("time.sleep(60)", way))
    task = replace(reading.read(TASKS / "circle_packing"), moves=moves)
    agent = SearchAgent(task)

    with pytest.raises(AgentError, match=told):
        agent.work(replace(assignment("circle_packing", tmp_path / "w"), task=task))
    assert agent._idle == []


def test_moves_may_define_dataclasses(tmp_path: Path) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(WITH_DATACLASS)

    assert load_moves(moves).families == ("only",)


def test_a_task_without_moves_says_what_to_write(tmp_path: Path) -> None:
    task = reading.read(TASKS / "circle_packing")

    with pytest.raises(InputError, match=r"write \[agent.search\] moves"):
        SearchAgent(replace(task, moves=None))
    moves = tmp_path / "moves.py"
    moves.write_text("MOVES = 3\n")
    with pytest.raises(InputError, match="MOVES lacks families"):
        SearchAgent(replace(task, moves=moves))
    moves.write_text("import nothing_like_that\n")
    with pytest.raises(InputError, match="ModuleNotFoundError"):
        SearchAgent(replace(task, moves=moves))
