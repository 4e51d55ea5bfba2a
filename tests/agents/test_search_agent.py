"""The search agent: deterministic, isolated, ended whole, and aware of its siblings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import becomes, running

from harness.agents.base import AgentError, AgentFault, Assignment, Hypothesis, Sibling, SiblingState, Step
from harness.agents.processes import Watched
from harness.agents.search import SearchAgent
from harness.agents.search.worker import load_moves
from harness.errors import InputError
from harness.task import reading
from harness.task.evaluator import Evaluator
from sandbox.localjob import LocalJobs

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS = Path(__file__).parents[2] / "examples" / "tasks"
WITH_MOVES = ("circle_packing", "autocorrelation_first", "autocorrelation_third", "sums_and_differences", "lasso_path")
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
        time.sleep(600)
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
        helper = subprocess.Popen(["sleep", "600"])
        there = Path(__file__).with_name("ids")
        there.with_suffix(".new").write_text(f"{os.getpid()} {helper.pid}")
        there.with_suffix(".new").rename(there)
        time.sleep(600)
    move = load = dump = keep = open
MOVES = Busy()
"""
HARNESS = """
import sys, threading
from dataclasses import replace
from pathlib import Path
from harness.agents.base import Assignment
from harness.agents.processes import Watched
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
    shutil.copytree(task.start, workspace)
    return replace(Assignment(task, workspace, "a1", 7, 60.0, threading.Event()), **fields)  # type: ignore[arg-type]


def answer_of(name: str) -> str:
    return "solver.py" if name == "lasso_path" else "answer.json"


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
    assert sorted(path.name for path in first.workspace.iterdir()) == [".agent", answer_of(name)]
    assert work.cost.tokens == work.cost.usd == 0.0
    assert work.cost.seconds
    child = replace(first, seed=12, attempt="a2", lineage=(step(found.score),))
    agents[name].work(child)
    again = judge.assess(child.workspace)
    better = 1 if first.task.direction.value == "max" else -1
    assert again.status == "ok"
    assert better * ((again.score or 0) / (found.score or 0) - 1) > -0.05


@pytest.mark.parametrize("name", WITH_MOVES)
def test_the_same_seed_gives_the_same_answer_in_whatever_process(
    agents: dict[str, SearchAgent], tmp_path: Path, name: str
) -> None:
    def made(place: int) -> str:
        one = assignment(name, tmp_path / f"w{place}")
        planned = agents[name].plan(one)
        assert agents[name].work(one).hypothesis == planned
        assert len(planned.sentence()) <= 500
        return (one.workspace / answer_of(name)).read_text()

    with ThreadPoolExecutor(3) as pool:
        answers = set(pool.map(made, range(3)))

    assert len(answers) == 1
    other = assignment(name, tmp_path / "other", seed=99)
    agents[name].work(other)
    assert (other.workspace / answer_of(name)).read_text() not in answers


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
        SLOW.replace("import json, time", "import os").replace("time.sleep(600)", "os.write(1, b'solved'); print(1); 1 / 0")
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
    threading.Thread(target=lambda: becomes((tmp_path / "ids").exists) and busy.cancel.set()).start()

    with pytest.raises(AgentFault):
        agent.work(busy)

    worker, helper = map(int, (tmp_path / "ids").read_text().split())
    assert becomes(lambda: not running(worker) and not running(helper))
    agent.close()


def test_a_process_in_the_middle_of_an_attempt_ends_when_the_harness_is_killed(tmp_path: Path) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(BUSY)
    workspace = assignment("circle_packing", tmp_path / "w").workspace
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(TASKS / "circle_packing"), str(moves), str(workspace)])
    try:
        assert becomes((tmp_path / "ids").exists)
    finally:
        harness.kill()
        harness.wait()
    worker, helper = map(int, (tmp_path / "ids").read_text().split())
    try:
        assert becomes(lambda: not running(worker) and not running(helper))
    finally:
        for left in filter(running, (worker, helper)):
            os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(("way", "told"), [("os._exit(5)", "with code 5"), ("os.kill(os.getpid(), 9)", "by signal 9")])
def test_a_process_that_ends_by_itself_is_an_error_of_ours(tmp_path: Path, way: str, told: str) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(SLOW.replace("import json, time", "import os, time").replace("time.sleep(600)", way))
    task = replace(reading.read(TASKS / "circle_packing"), moves=moves)
    agent = SearchAgent(task)

    with pytest.raises(AgentError, match=told):
        agent.work(replace(assignment("circle_packing", tmp_path / "w"), task=task))
    assert agent._idle == []


def test_moves_may_define_dataclasses(tmp_path: Path) -> None:
    moves = tmp_path / "moves.py"
    moves.write_text(WITH_DATACLASS)

    assert load_moves(moves, "max").families == ("only",)


def loading(folder: Path, text: str, load_s: float = 60.0) -> SearchAgent:
    """Return the agent of a task whose moves these are."""
    (folder / "moves.py").write_text(text)
    return SearchAgent(replace(reading.read(TASKS / "circle_packing"), moves=folder / "moves.py"), load_s)


def test_a_task_without_moves_says_what_to_write() -> None:
    with pytest.raises(InputError, match=r"write \[agent.search\] moves"):
        SearchAgent(replace(reading.read(TASKS / "circle_packing"), moves=None))


BROKEN = {
    "no MOVES": ("x = 3\n", "moves.py: defines no MOVES"),
    "MOVES that are none": ("MOVES = 3\n", "moves.py: MOVES lacks families"),
    "no operators": (WITH_DATACLASS.replace('("wait",)', "()"), r"moves.py: MOVES.operators is \(\); expected"),
    "another direction": (WITH_DATACLASS.replace('"max"', '"min"'), "moves.py: MOVES.direction is 'min'; expected 'max'"),
    "an import": ("import json\n\nimport nothing_like_that\n", "moves.py:3: ModuleNotFoundError: No module named"),
    "a line": ("import json\ndef open(:\n", "moves.py:2: SyntaxError"),
    "a property": (
        "class Moves:\n    @property\n    def families(self):\n        return {}[7]\nMOVES = Moves()\n",
        "moves.py:4: KeyError: 7",
    ),
    "what it calls": ("import json\ndef made():\n    json.loads('{')\nMOVES = made()\n", "moves.py:3: JSONDecodeError"),
    "a file beside it": ("from .other import MOVES\n", "other.py:2: ZeroDivisionError"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_moves_that_cannot_be_loaded_are_named_with_file_and_line(tmp_path: Path, what: str) -> None:
    (tmp_path / "other.py").write_text("MOVES = 1\nMOVES / 0\n")
    text, told = BROKEN[what]

    with pytest.raises(InputError, match=told) as caught:
        loading(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path))


def test_moves_whose_import_hangs_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    """The process is ended as well."""
    noted = "Path(__file__).with_name('id').write_text(str(os.getpid()))"
    hangs = f"import os, time\nfrom pathlib import Path\n{noted}\ntime.sleep(600)\n"
    with pytest.raises(AgentError, match=rf"{tmp_path}/moves.py: has not been imported after 3 s"):
        loading(tmp_path, hangs, load_s=3.0)

    left = tmp_path / "id"  # not there where a slow machine had not come to it
    assert not left.exists() or becomes(lambda: not running(int(left.read_text())))


def test_moves_that_end_their_process_while_they_are_imported_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"ended with code 4 .*moves.py"):
        loading(tmp_path, "import os\nos._exit(4)\n")


def test_what_moves_print_is_no_answer(tmp_path: Path) -> None:
    """By Python, by another program, while they are imported or asked."""
    prints = "print('no')\nimport os\nos.system('echo neither')\n"
    agent = loading(tmp_path, prints + PLANS.replace("PLANNING", "print('nor this')"))
    planned = agent.plan(assignment("circle_packing", tmp_path / "w"))
    agent.close()

    assert planned.component == "only"


PLANS = """
import time
class Words(tuple):
    def __getitem__(self, place):
        PLANNING
        return "wait"
class Plans:
    families = ("only",)
    operators = Words(["wait"])
    temperatures = (0.0,)
    effort = 1.0
    direction = "max"
    file = "answer.json"
    def open(self, rng, family, effort): ...
    move = load = dump = keep = open
MOVES = Plans()
"""


@pytest.mark.parametrize("how", ["time", "cancel"])
def test_a_plan_that_takes_too_long_is_an_attempt_that_did(tmp_path: Path, how: str) -> None:
    """Nothing of a task's moves runs in the harness, where nobody could end it."""
    agent = loading(tmp_path, PLANS.replace("PLANNING", "time.sleep(600)"))
    slow = replace(assignment("circle_packing", tmp_path / "w"), timeout_s=0.5 if how == "time" else 60.0)
    if how == "cancel":
        threading.Timer(0.5, slow.cancel.set).start()

    with pytest.raises(AgentFault, match="longer than 0.5 s" if how == "time" else "cancelled") as caught:
        agent.plan(slow)
    agent.close()

    assert caught.value.status == "timeout"
    assert agent._idle == []


def test_a_plan_that_fails_is_an_attempt_that_did(tmp_path: Path) -> None:
    agent = loading(tmp_path, PLANS.replace("PLANNING", "raise KeyError('which')"))
    one = assignment("circle_packing", tmp_path / "w")

    for asked in (agent.plan, agent.work):
        with pytest.raises(AgentFault, match="KeyError: 'which'") as caught:
            asked(one)
        assert caught.value.status == "failed"
    agent.close()


def test_neither_moves_nor_numerical_libraries_are_loaded_into_the_harness(tmp_path: Path) -> None:
    program = (
        "import sys, threading\nfrom pathlib import Path\nfrom harness.agents.base import Assignment\n"
        "from harness.agents.search import SearchAgent\nfrom harness.task import reading\n"
        "task = reading.read(Path(sys.argv[1]))\nagent = SearchAgent(task)\n"
        "one = Assignment(task, Path(sys.argv[2]), 'a1', 7, 60.0, threading.Event())\nagent.plan(one)\nagent.work(one)\n"
        "agent.close()\nprint([name for name in sys.modules if name in ('numpy', 'scipy') or name.startswith('task_moves')])\n"
    )
    workspace = assignment("sums_and_differences", tmp_path / "w").workspace
    command = [sys.executable, "-c", program, str(TASKS / "sums_and_differences"), str(workspace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_its_processes_load_no_module_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a stranger's checkout may lie: what is called like a module of Python's own does not run in its place."""
    for module in ("json", "importlib", "subprocess", "traceback"):
        (tmp_path / f"{module}.py").write_text("open('ran', 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # one that says `.` would ask for them
    SearchAgent(reading.read(TASKS / "circle_packing")).close()
    watched = Watched()
    watched.mark()
    watched.close()

    assert not (tmp_path / "ran").exists()
