"""What every agent keeps: a changed workspace is all that it does, its end is whole, and no attempt knows of another's siblings.

The search agent with moves of a few lines, a command line, and a chat model behind a server that answers as it is told to.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asking import answering, completion, serving
from waiting import becomes

from harness.agents.base import (
    LOG_CHARACTERS,
    OUTPUT_CHARACTERS,
    AgentError,
    AgentFault,
    Assignment,
    Hypothesis,
    Sibling,
    SiblingState,
    Step,
    Work,
)
from harness.agents.command import CommandAgent
from harness.agents.model import ModelAgent
from harness.agents.search import SearchAgent
from harness.models import naming
from harness.models.client import Client
from harness.task.base import Scoring, Task
from harness.task.commandline import CommandSettings
from harness.tree import Direction
from sandbox.job import JobLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.agents.base import Agent

MARK = "CONTRACT_MARK"
STARTS_HELPERS = """
import subprocess, sys, time
def hang():
    helper = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(helper)
    subprocess.Popen(helper, start_new_session=True)
    Path(sys.argv[-1]).with_name("hanging").touch()
    time.sleep(600)
"""
MOVES = f"""
import sys
from pathlib import Path
from harness.agents.search.walk import Proposal, SolverFault
{STARTS_HELPERS}
class Moves:
    families = ("left", "right", "middle")
    operators = ("wait",)
    temperatures = (0.0,)
    effort = 1.0
    direction = "max"
    file = "answer.txt"
    def open(self, rng, family, effort):
        mode = Path(__file__).with_name("mode").read_text()
        if mode == "hang":
            hang()
        if mode == "fail":
            raise SolverFault("found nothing")
        return Proposal([family, float(rng.random())], 1.0, 0.0)
    def move(self, rng, answer, operator, effort):
        mode = Path(__file__).with_name("mode").read_text()
        if mode == "talk":
            raise SolverFault("x" * 2_000_000)
        return Proposal(answer, 2.0, 0.0)
    def dump(self, answer): return repr(answer)
    def keep(self, answer): return repr(answer)
    def load(self, text): return eval(text)
MOVES = Moves()
"""
COMMAND = f"""
import json, sys
from pathlib import Path
{STARTS_HELPERS}
mode = Path(sys.argv[-1]).read_text()
Path("answer.txt").write_text(sys.stdin.read())
Path(".agent").mkdir(exist_ok=True)
said = {{"component": "grid", "statement": "a finer one", "reason": "it was coarse"}}
Path(".agent/hypothesis.json").write_text(json.dumps(said))
if mode == "hang":
    hang()
if mode == "fail":
    sys.exit(3)
if mode == "talk":
    sys.stdout.buffer.write(bytes([255]) * 900_000)
print(json.dumps({{"usd": 0.5, "in": 3, "out": 4}}))
"""


@dataclass
class Case:
    """An agent, how it is told what to do next, and what it was told of its attempt, read from the answer that it left."""

    agent: Agent
    folder: Path
    task: Task
    seen: Callable[[Path], str] = lambda workspace: (workspace / "answer.txt").read_text()
    rooms: Iterator[int] = field(default_factory=lambda: iter(range(1000)))

    def mode(self, mode: str) -> None:
        """Have the next attempts go well, `hang`, `fail` or `talk`."""
        (self.folder / "mode").write_text(mode)

    def assignment(self, *siblings: Sibling, **fields: Any) -> Assignment:
        """Return a fresh one."""
        workspace = self.folder / "rooms" / str(next(self.rooms)) / "workspace"
        workspace.mkdir(parents=True)
        (workspace / "answer.txt").write_text("nothing yet\n")
        (workspace / "fixed.md").write_text("fixed\n")
        fields = {"timeout_s": 60.0, "cancel": threading.Event(), "siblings": siblings} | fields
        return Assignment(self.task, workspace, "a1", 7, **fields)

    def told(self, *siblings: Sibling) -> str:
        """Return what an attempt with these siblings was told, or, where it cannot say, came to."""
        one = self.assignment(*siblings)
        self.agent.work(one)
        return self.seen(one.workspace).replace(str(one.workspace), "WORKSPACE")

    def sibling(self, statement: str = "hexagons") -> Sibling:
        """Return one that is where a plain attempt would go."""
        component = self.agent.plan(self.assignment()).component or "grid"
        return Sibling("a9", SiblingState.IN_FLIGHT, Hypothesis(component, statement, "they are dense"))


@pytest.fixture(params=["search", "command", "model"])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """Return one agent after the other; temporary files go to a folder of the test's own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv(MARK, tmp_path.as_posix())
    scoring = Scoring(("true",), tmp_path, JobLimits())
    task = Task("t", "Pack circles.", Direction.MAX, tmp_path, tmp_path, ("*.txt",), scoring, "d" * 64)
    with MAKERS[request.param](tmp_path, task) as made:
        made.mode("ok")
        yield made
        made.agent.close()


class Search:
    """Moves of a few lines, in processes of the agent's own."""

    def __init__(self, folder: Path, task: Task) -> None:
        (folder / "moves.py").write_text(MOVES)
        self._case = Case(SearchAgent(replace(task, moves=folder / "moves.py")), folder, task)

    def __enter__(self) -> Case:
        return self._case

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""


class Command:
    """A program that writes what it was told into the answer."""

    def __init__(self, folder: Path, task: Task) -> None:
        (folder / "program.py").write_text(COMMAND)
        settings = CommandSettings(
            command=(sys.executable, str(folder / "program.py"), str(folder / "mode")),
            env=(MARK,),
            usd="usd",
            tokens=("in", "out"),
        )
        self._case = Case(CommandAgent("command:contract", settings), folder, task)

    def __enter__(self) -> Case:
        return self._case

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""


class Model:
    """A server whose answers write what it was told into the answer, in base64, which ends no fence."""

    def __init__(self, folder: Path, task: Task) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._server = serving(self._reply)
        self._task = task

    def __enter__(self) -> Case:
        client = Client(naming.parse(f"openai-compatible:m@{self._server.__enter__()}"))
        agent = ModelAgent(client, temperature=0.5, max_output_tokens=1000, timeout_s=60.0)
        return Case(agent, self._folder, self._task, seen)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.__exit__(None, None, None)

    def _reply(self, handler: Any) -> None:
        mode = (self._folder / "mode").read_text()
        asked = "\n".join(message["content"] for message in json.loads(handler.body)["messages"])
        if mode == "hang":
            (self._folder / "hanging").touch()
            self._over.wait(600)
            return
        said = '{"component": "grid", "statement": "a finer one", "reason": "it was coarse"}\n'
        said += f"answer.txt\n```\n{base64.b64encode(asked.encode()).decode()}\n```\n"
        if mode == "talk":
            said += "\ud800" * 100_000
        answering(completion("I would not change it." if mode == "fail" else said))(handler)


def seen(workspace: Path) -> str:
    """Return what the server wrote down."""
    return base64.b64decode((workspace / "answer.txt").read_text()).decode()


MAKERS: dict[str, Any] = {"search": Search, "command": Command, "model": Model}


def marked(folder: Path) -> list[str]:
    """Return the command lines of processes that carry this test's mark, zombies and ourselves left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and f"{MARK}={folder}\0".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def none_is_left(folder: Path) -> bool:
    """Wait until a killed process has gone from `/proc` as well."""
    return becomes(lambda: not marked(folder))


def state(folder: Path, without: Path) -> str:
    """Return a digest of all files below a folder, but those in one of its own."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if not path.is_relative_to(without) and "__pycache__" not in path.parts:
            total.update(f"{path} {path.lstat().st_mode}".encode() + (path.read_bytes() if path.is_file() else b""))
    return total.hexdigest()


def cancel_once_it_hangs(case: Case, assignment: Assignment) -> None:
    def cancel() -> None:
        becomes((case.folder / "hanging").exists)
        assignment.cancel.set()

    threading.Thread(target=cancel, daemon=True).start()


def test_a_changed_workspace_is_all_that_an_attempt_does(case: Case) -> None:
    one = case.assignment()
    before, here = state(case.folder, one.workspace), sorted(Path.cwd().iterdir())

    case.agent.work(one)

    assert (one.workspace / "answer.txt").read_text() != "nothing yet\n"
    assert (one.workspace / "fixed.md").read_text() == "fixed\n"
    assert state(case.folder, one.workspace) == before
    assert sorted(Path.cwd().iterdir()) == here


def test_what_it_did_is_said_in_parts_with_what_it_cost(case: Case) -> None:
    work = case.agent.work(case.assignment())

    assert isinstance(work, Work)
    assert all(
        isinstance(part, str) and part for part in (work.hypothesis.component, work.hypothesis.statement, work.hypothesis.reason)
    )
    assert (work.cost.seconds or 0.0) > 0.0
    assert all(figure is None or (isinstance(figure, float) and figure >= 0) for figure in (work.cost.tokens, work.cost.usd))
    assert work.terminal is False


def test_a_plan_changes_nothing(case: Case) -> None:
    one = case.assignment()
    before = state(case.folder, case.folder / "temporary")

    assert case.agent.plan(one) == case.agent.plan(one)

    assert state(case.folder, case.folder / "temporary") == before


def test_however_much_it_says_is_capped_and_can_be_stored(case: Case) -> None:
    case.mode("talk")
    try:
        work = case.agent.work(case.assignment())
    except AgentFault as fault:
        work = fault.work

    assert 0 < len(work.output) <= OUTPUT_CHARACTERS
    assert 0 < len(work.log) <= LOG_CHARACTERS
    assert work.output.endswith(work.log[-100:])
    work.output.encode()


@pytest.mark.parametrize("how", ["cancelled", "too late"])
def test_an_attempt_that_does_not_end_is_ended_whole(case: Case, how: str) -> None:
    """Also what moved to a session of its own; what it was is a time-out, and what it took is known."""
    case.mode("hang")
    one = case.assignment(timeout_s=1.5 if how == "too late" else 600.0)
    if how == "cancelled":
        cancel_once_it_hangs(case, one)

    with pytest.raises(AgentFault) as caught:
        case.agent.work(one)

    assert caught.value.status == "timeout"
    assert how == "too late" or (case.folder / "hanging").exists()
    assert (caught.value.work.cost.seconds or 0.0) > 0.0
    assert none_is_left(case.folder)
    assert list((case.folder / "temporary").iterdir()) == []


def test_an_attempt_that_is_cancelled_before_it_begins_does_not_work(case: Case) -> None:
    case.mode("hang")
    one = case.assignment()
    one.cancel.set()

    with pytest.raises(AgentFault, match="cancelled"):
        case.agent.work(one)

    assert none_is_left(case.folder)


def test_the_same_assignment_can_be_made_again(case: Case) -> None:
    """In a fresh copy with the same outcome, and in the workspace as the first time left it."""
    first, second = case.assignment(), case.assignment()

    works = [case.agent.work(one) for one in (first, second)]

    assert works[0].hypothesis == works[1].hypothesis
    case.agent.work(second)
    case.agent.work(replace(second, lineage=(Step("a1", 1.0, "ok", "", ""),)))


def test_a26_without_siblings_an_attempt_is_told_nothing_of_them(case: Case) -> None:
    told = case.told()

    assert told == case.told()
    assert "other branches" not in told


def test_a30_siblings_reach_whatever_makes_the_attempt(case: Case) -> None:
    sibling = case.sibling()

    told = case.told(sibling)

    assert told != case.told()
    assert "hexagons" in told or sibling.hypothesis.component not in told


def test_a32_attempts_at_once_each_know_their_own_siblings(case: Case) -> None:
    """Which is why they are an argument, and no state of the agent."""
    siblings = [case.sibling(f"statement-{number}-") for number in range(6)]
    alone = case.told(siblings[0]).replace("statement-0-", "statement-N-")

    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(case.told, siblings))

    for number, one in enumerate(told):
        assert set(re.findall(r"statement-\d-", one)) <= {f"statement-{number}-"}
        assert "<data-" in one or one == alone


@pytest.mark.parametrize("end", ["success", "failure", "cancelled", "too late"])
def test_a33_nothing_of_siblings_stays_however_an_attempt_ended(case: Case, end: str) -> None:
    before = case.told()
    one = case.assignment(case.sibling(), timeout_s=1.5 if end == "too late" else 600.0)
    case.mode({"success": "ok", "failure": "fail"}.get(end, "hang"))
    if end == "cancelled":
        cancel_once_it_hangs(case, one)
    if end == "success":
        case.agent.work(one)
    else:
        with pytest.raises(AgentFault):
            case.agent.work(one)
    case.mode("ok")

    assert case.told() == before
    assert list((case.folder / "temporary").iterdir()) == []


def test_a_closed_agent_makes_no_attempt_and_may_be_closed_again(case: Case) -> None:
    case.agent.work(case.assignment())

    case.agent.close()
    case.agent.close()

    assert none_is_left(case.folder)
    with pytest.raises(AgentError, match="closed"):
        case.agent.work(case.assignment())
