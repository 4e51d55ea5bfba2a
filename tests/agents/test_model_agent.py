"""A chat model as an agent: its edits are made, repaired or refused, and what it cost is on record."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.agents.base import AgentError, AgentFault, Assignment, Hypothesis, Sibling, SiblingState
from harness.agents.edits import edited
from harness.agents.model import ModelAgent
from harness.models.base import Answer, Finish, ModelError, ModelTimeout, Usage
from harness.models.budget import BudgetSpentError
from harness.propose.edits.base import FaultReason, ProposalFault
from harness.search import Allowance
from harness.task.base import Scoring, Task
from harness.tree import Direction
from sandbox.job import JobLimits

if TYPE_CHECKING:
    from pathlib import Path

    from harness.models.base import Request

BLOCK = """{"component": "step", "statement": "a larger step", "reason": "it crept"}
solver.py
<<<<<<< SEARCH
STEP = 1
=======
STEP = 2
>>>>>>> REPLACE
"""


class Scripted:
    """A model that says what it was given, in order."""

    name = "test:model"

    def __init__(self, *said: str | Exception, usage: Usage = Usage(100, 20), usd: float | None = 0.5) -> None:  # noqa: B008
        self._said = list(said)
        self._usage, self._usd = usage, usd
        self.asked: list[Request] = []

    def complete(self, request: Request) -> Answer:
        """Say the next thing."""
        self.asked.append(request)
        said = self._said.pop(0)
        if isinstance(said, Exception):
            raise said
        return Answer(said, self._usage, self._usd, Finish.STOP, 2.0, "model-1")


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "solver.py").write_text("STEP = 1\nprint(STEP)\n")
    (workspace / "readme.md").write_text("fixed\n")
    scoring = Scoring(("true",), tmp_path, JobLimits())
    task = Task("steps", "Step far.", Direction.MAX, tmp_path, tmp_path, ("*.py",), scoring, "d" * 64, Allowance())
    return Assignment(task, workspace, "a1", 7, 60.0, threading.Event())


def agent(model: Scripted) -> ModelAgent:
    return ModelAgent(model, temperature=0.5, max_output_tokens=1000, timeout_s=30.0)


def test_a_block_is_made_and_the_hypothesis_and_cost_are_on_record(assignment: Assignment) -> None:
    model = Scripted(BLOCK)

    work = agent(model).work(assignment)

    assert (assignment.workspace / "solver.py").read_text() == "STEP = 2\nprint(STEP)\n"
    assert work.hypothesis == Hypothesis("step", "a larger step", "it crept")
    assert work.cost == (2.0, 120.0, 0.5)
    (request,) = model.asked
    assert "STEP = 1" in request.messages[0].text
    assert "fixed" not in request.messages[0].text, "a file that may not be changed is not shown"
    assert request.timeout_s == 30.0, "the shorter of the model's and what is left of the attempt's"


def test_a_whole_file_a_new_one_and_several_at_once(assignment: Assignment) -> None:
    answer = f"{BLOCK}\n\n### extra/util.py\n```python\nX = 1\n```\n"
    assignment = replace(assignment, task=replace(assignment.task, files=("*.py",)))

    agent(Scripted(answer)).work(assignment)

    assert (assignment.workspace / "extra" / "util.py").read_text() == "X = 1\n"
    assert "STEP = 2" in (assignment.workspace / "solver.py").read_text()


def test_what_cannot_be_made_goes_back_with_its_reason_and_all_answers_are_paid_for(assignment: Assignment) -> None:
    model = Scripted("I would change the step.", BLOCK.replace("STEP = 1", "STRIDE = 9"), BLOCK)

    work = agent(model).work(assignment)

    assert len(model.asked) == 3
    assert "changes nothing" in model.asked[1].messages[-1].text
    assert work.cost == (6.0, 360.0, 1.5)


def test_a30_siblings_stand_in_every_request_of_an_attempt(assignment: Assignment) -> None:
    sibling = Sibling("a9", SiblingState.IN_FLIGHT, Hypothesis("grid", "hexagons", "they are dense"))
    model = Scripted("I would change the step.", BLOCK)

    agent(model).work(replace(assignment, siblings=(sibling,)))

    assert len(model.asked) == 2
    assert all("hexagons" in request.messages[0].text for request in model.asked)


def test_the_hypothesis_may_stand_in_a_fence_of_several_lines(assignment: Assignment) -> None:
    said, _, block = BLOCK.partition("\n")
    answer = "```json\n" + said.replace(", ", ",\n") + f"\n```\n{block}"

    assert agent(Scripted(answer)).work(assignment).hypothesis == Hypothesis("step", "a larger step", "it crept")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("solver.py/x.py\n```\nbad\n```\n", "no folder"),
        ("taken.py\n```\nbad\n```\n", "a file and a folder"),
        ("new.py\n```\nX = 1\n```\nnew.py/x.py\n```\nbad\n```\n", "a file and a folder"),
        ("new.py\n```\nX = 1\n```\n" + "d/" * 40 + "x.py\n```\nbad\n```\n", "may not be changed"),
        ("d" * 190 + "\u00e9" * 5 + ".py\n```\nX = 1\n```\n" + "\u00e9/" + "\u20ac" * 90 + ".py\n```\nbad\n```\n", "may not be"),
        ("a/\x00.py\n```\nbad\n```\n", "may not be changed"),
    ],
)
def test_edits_that_cannot_all_be_made_change_nothing_and_fail(assignment: Assignment, answer: str, said: str) -> None:
    (assignment.workspace / "taken.py").mkdir()
    before = sorted(assignment.workspace.iterdir())

    with pytest.raises(AgentFault, match=said) as caught:
        agent(Scripted(answer, answer, answer)).work(assignment)

    assert sorted(assignment.workspace.iterdir()) == before
    assert caught.value.work.cost.tokens


def test_halves_of_characters_do_not_reach_a_file(assignment: Assignment) -> None:
    agent(Scripted(BLOCK.replace("STEP = 2", "STEP = '\ud800'"))).work(assignment)

    assert (assignment.workspace / "solver.py").read_text() == "STEP = '?'\nprint(STEP)\n"


def test_three_answers_that_are_no_edits_are_a_fault_and_nothing_is_changed(assignment: Assignment) -> None:
    with pytest.raises(AgentFault, match="no answer was an edit") as caught:
        agent(Scripted("no", "no", "no")).work(assignment)

    assert caught.value.work.cost.tokens == 360.0
    assert "STEP = 1" in (assignment.workspace / "solver.py").read_text()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("readme.md", "may not be changed"), ("../out.py", "may not be changed"), ("/etc/x.py", "may not be changed")],
)
def test_a_file_that_may_not_be_changed_is_refused(assignment: Assignment, tmp_path: Path, name: str, reason: str) -> None:
    answer = f"{name}\n```\nbad\n```\n"

    with pytest.raises(AgentFault, match=reason):
        agent(Scripted(answer, answer, answer)).work(assignment)

    assert not (tmp_path / "out.py").exists()


def test_nothing_is_written_through_a_link(assignment: Assignment, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (assignment.workspace / "sub").symlink_to(elsewhere)

    with pytest.raises(AgentFault, match="behind a link"):
        agent(Scripted("sub/x.py\n```\nbad\n```\n")).work(assignment)

    assert list(elsewhere.iterdir()) == []


def test_a_figure_that_the_provider_does_not_say_is_unknown(assignment: Assignment) -> None:
    work = agent(Scripted(BLOCK, usage=Usage(100, None), usd=None)).work(assignment)

    assert (work.cost.tokens, work.cost.usd) == (None, None)


def test_a_time_out_is_the_attempts_and_may_have_cost(assignment: Assignment) -> None:
    with pytest.raises(AgentFault) as caught:
        agent(Scripted("no", ModelTimeout("too slow", billed=True))).work(assignment)

    assert caught.value.status == "timeout"
    assert caught.value.work.cost.usd is None


@pytest.mark.parametrize("error", [ModelError("key refused"), BudgetSpentError("the cap is reached")])
def test_a_provider_out_of_reach_or_a_budget_that_is_spent_is_ours(assignment: Assignment, error: Exception) -> None:
    with pytest.raises(AgentError, match=str(error)):
        agent(Scripted(error)).work(assignment)


def test_a_cancelled_attempt_asks_nothing(assignment: Assignment) -> None:
    model = Scripted(BLOCK)
    assignment.cancel.set()

    with pytest.raises(AgentFault) as caught:
        agent(model).work(assignment)

    assert (caught.value.status, model.asked) == ("timeout", [])


FILES = {"a.py": "one\ntwo\n", "b.py": "three\n"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE", FaultReason.WRONG_FILE),
        ("c.py\n<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE", FaultReason.WRONG_FILE),
        ("a.py\n<<<<<<< SEARCH\nfive\n=======\n1\n>>>>>>> REPLACE", FaultReason.NO_MATCH),
        ("a.py\n<<<<<<< SEARCH\none\n=======\n1\n", FaultReason.TRUNCATED),
        ("a.py\n```python\none", FaultReason.TRUNCATED),
        ("a.py\n```\none\ntwo\n```", FaultReason.NO_EDIT),
        ("```python\nprint()\n```", FaultReason.NO_EDIT),
        ("x" * 400_001, FaultReason.TOO_LARGE),
        ("", FaultReason.NO_EDIT),
    ],
)
def test_an_answer_that_is_no_edit_says_why(answer: str, reason: FaultReason) -> None:
    with pytest.raises(ProposalFault) as caught:
        edited(answer, FILES, ("*.py",))

    assert caught.value.reason is reason
