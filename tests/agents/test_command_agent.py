"""A coding agent is a command line: what it does, says and costs goes on record, and it is ended whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from test_agent_prompt import PLAIN
from waiting import becomes, running

from harness.agents.base import AgentError, AgentFault, Hypothesis
from harness.agents.command import CommandAgent, read
from harness.errors import InputError
from harness.task.commandline import CommandSettings
from sandbox.owner import Owner


def work(tmp_path: Path, script: str, timeout_s: float = 60.0, **more: object):  # noqa: ANN201
    with closing(CommandAgent("command:fake", CommandSettings(command=("sh", "-c", script), **more))) as agent:
        return agent.work(replace(PLAIN, workspace=tmp_path, timeout_s=timeout_s))


def test_its_changes_cost_and_hypothesis_are_kept(tmp_path: Path) -> None:
    script = """cat > seen; mkdir .agent; echo '{"component": "c", "statement": "s"}' > .agent/hypothesis.json
    echo '{"total_cost_usd": 0.5, "usage": {"in": 3, "out": 4}}'"""
    done = work(tmp_path, script, usd="total_cost_usd", tokens=("usage.in", "usage.out"))

    assert (done.cost.usd, done.cost.tokens, done.hypothesis) == (0.5, 7.0, Hypothesis("c", "s"))
    assert "Pack circles." in (tmp_path / "seen").read_text()


def test_its_prompt_lies_where_a_sweep_finds_it_when_the_harness_was_killed(tmp_path: Path) -> None:
    work(tmp_path, "dirname {prompt_file} > where")

    folder = (tmp_path / "where").read_text().strip()
    assert str(Owner.this_process()).replace("/", "_") in folder


@pytest.mark.parametrize(
    ("script", "timeout_s", "status", "said"),
    [
        ("sleep 600", 0.5, "timeout", "out of time"),
        ("yes", 600.0, "failed", "more than"),
        ("exit 3", 600.0, "failed", "exit code 3"),
    ],
)
def test_what_goes_wrong_is_its_fault(tmp_path: Path, script: str, timeout_s: float, status: str, said: str) -> None:
    with pytest.raises(AgentFault, match=said) as fault:
        work(tmp_path, script, timeout_s, output_bytes=100_000)
    assert fault.value.status == status


def fence(*lines: str, mark: str = "json") -> str:
    return "\n".join([f"```{mark}", *lines, "```"])


SAID = '{"component": "c", "statement": "s", "reason": "r"}'
OTHER = '{"component": "x", "statement": "y", "reason": "z"}'


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (fence(SAID), Hypothesis("c", "s", "r")),
        (fence(SAID.replace(", ", ",\n")), Hypothesis("c", "s", "r")),
        (fence(OTHER) + "\nNo:\n" + fence(SAID, mark="JSON"), Hypothesis("c", "s", "r")),
        (fence(SAID) + "\n" + fence("[1, 2]") + "\n" + fence("{"), Hypothesis("c", "s", "r")),
        (json.dumps({"result": f"Done.\n{fence(SAID)}", "usage": {"in": 1}}), Hypothesis("c", "s", "r")),
        (fence('{"statement": "s", "component": 7, "reason": ["r"]}'), Hypothesis("", "s", "")),
        (fence(json.dumps({"statement": "s" * 3_000})), Hypothesis("", "s" * 500, "")),
        (fence('{"statement": "half \\ud800 of it"}'), Hypothesis("", "half ? of it", "")),
        (SAID, Hypothesis()),
        (fence(SAID, mark="python"), Hypothesis()),
        (fence(SAID)[:-3], Hypothesis()),
        (fence('{"component": "c"}'), Hypothesis()),
        (fence('{"statement": " "}'), Hypothesis()),
        (fence("[" * 100_000), Hypothesis()),
        (fence("9" * 100_000), Hypothesis()),
        ("```json\n" * 100_000, Hypothesis()),
    ],
)
def test_what_it_sets_out_to_try_may_be_said_in_a_fence_of_json(tmp_path: Path, output: str, found: Hypothesis) -> None:
    """The last one that is one counts; whatever else stands there does no harm."""
    (tmp_path / "said").write_text(output)

    assert work(tmp_path, "cat said").hypothesis == found


def test_what_it_wrote_down_counts_before_what_it_said(tmp_path: Path) -> None:
    script = f"mkdir .agent; echo '{SAID}' > .agent/hypothesis.json; cat said"
    (tmp_path / "said").write_text(fence(OTHER))

    assert work(tmp_path, script).hypothesis == Hypothesis("c", "s", "r")


def test_what_the_parent_set_out_to_try_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """The agent's own folder is handed from parent to child."""
    work(tmp_path, f"mkdir .agent; echo '{SAID}' > .agent/hypothesis.json; touch .agent/notes")

    assert work(tmp_path, "ls .agent").output == "notes\n"
    assert work(tmp_path, "true").hypothesis == Hypothesis()


@pytest.mark.parametrize(
    "usd", ["1e400", "1" + "0" * 400, "1e300", "-1", "true", '"5"', "null", "NaN", "[1]", "{}"], ids=lambda text: text[:8]
)
def test_a_figure_that_cannot_be_is_unknown(tmp_path: Path, usd: str) -> None:
    (tmp_path / "said").write_text(f'{{"usd": {usd}, "in": {usd}, "out": 4}}')

    cost = work(tmp_path, "cat said", usd="usd", tokens=("in", "out")).cost

    assert (cost.usd, cost.tokens) == (None, None)


def test_a_key_is_masked_in_what_it_wrote_down_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_AGENT", "very-secret-value")
    script = """mkdir .agent; echo "{\\"statement\\": \\"I saw $FAKE_AGENT\\"}" > .agent/hypothesis.json"""

    assert work(tmp_path, script, env=("FAKE_AGENT",)).hypothesis == Hypothesis("", "I saw ***", "")


@pytest.mark.parametrize("session", ["", "setsid "], ids=["in its group", "in a session of its own"])
def test_what_it_started_is_ended_with_an_attempt_that_went_well(tmp_path: Path, session: str) -> None:
    work(tmp_path, f"{session}sh -c 'echo $$ > id.new; mv id.new id; sleep 600' & while [ ! -e id ]; do sleep 0.02; done")

    assert becomes(lambda: not running(int((tmp_path / "id").read_text())))


HARNESS = """
import sys
from dataclasses import replace
from pathlib import Path
from harness.agents.command import CommandAgent
from harness.task.commandline import CommandSettings
from test_agent_prompt import PLAIN
settings = CommandSettings(command=("sh", "-c", "setsid sleep 600 & echo $$ $! > ids.new; mv ids.new ids; sleep 600"))
CommandAgent("a", settings).work(replace(PLAIN, workspace=Path(sys.argv[1]), timeout_s=600.0))
"""


def test_an_attempt_ends_when_the_harness_is_killed(tmp_path: Path) -> None:
    there = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(tmp_path)], env={**os.environ, "PYTHONPATH": there})
    try:
        assert becomes((tmp_path / "ids").exists)
    finally:
        harness.kill()
        harness.wait()
    agent, helper = map(int, (tmp_path / "ids").read_text().split())
    try:
        assert becomes(lambda: not running(agent) and not running(helper))
    finally:
        for left in filter(running, (agent, helper)):
            os.kill(left, signal.SIGKILL)


def test_a_key_is_given_by_name_and_never_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_AGENT", "very-secret-value")
    monkeypatch.setenv("OTHER_AGENT", "not-for-this-one")
    done = work(tmp_path, 'echo "$FAKE_AGENT $OTHER_AGENT"', env=("FAKE_AGENT",))
    assert done.output == "*** \n"


def test_a_program_that_is_missing_is_our_error(tmp_path: Path) -> None:
    agent = CommandAgent("a", CommandSettings(command=("no-such-agent",)))
    with closing(agent), pytest.raises(AgentError, match="cannot be run"):
        agent.work(replace(PLAIN, workspace=tmp_path))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("output_bytes = -1", "'output_bytes' is -1; expected a whole number of at least 1"),
        ('prompt = "argument"', "'prompt' is 'argument'; expected 'stdin' (on its standard input) or 'file'"),
        ('prompts = "file"', "'prompts' is not known; expected one of command, prompt, timeout_s"),
        ('timeout_s = "soon"', "'timeout_s' is 'soon'; expected a finite number above 0"),
        ("success = [true]", "'success' is [True]; expected a list of exit codes"),
        ("env = [7]", "'env' is [7]; expected a list of strings"),
        ("usd = 1", "'usd' is 1; expected a string"),
    ],
)
def test_a_wrong_setting_is_named_by_its_line(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "a.toml").write_text(f'command = ["x"]\n{line}\n')
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.toml")
    assert f"a.toml:2: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            '["x", "{promptfile}"]',
            "expected no {promptfile}: places are {workspace}, {prompt_file}, {files}; write {{promptfile}}",
        ),
        ('["x", "--files={files}"]', "expected {files} as a word of its own"),
        ("[]", "'command' is []; expected a list of strings"),
    ],
)
def test_a_place_that_is_not_known_is_refused(tmp_path: Path, command: str, said: str) -> None:
    (tmp_path / "a.toml").write_text(f"\ncommand = {command}\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.toml")
    assert f"a.toml:2: 'command' is {command}".replace('"', "'") in str(caught.value)
    assert said in str(caught.value)


def test_braces_that_are_doubled_are_text(tmp_path: Path) -> None:
    work(tmp_path, "printf '%s' '{{files}} {workspace} {1..2}' > answer.json")

    assert (tmp_path / "answer.json").read_text() == f"{{files}} {tmp_path} {{1..2}}"
