"""`harness explore` as a user runs it: with the search agent, with a command line put in by a few lines of TOML, interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.errors import StoreError
from harness.store import Store

PROJECT = Path(__file__).parents[2]
TASK = (
    'format = "task/1"\nname = "count"\ndirection = "max"\nstatement = "Count as far as you can."\nfiles = ["answer.txt"]\n'
    "[allowance]\nattempts = 6\n"
)
EVALUATE = (
    "import json, sys\nfrom pathlib import Path\n"
    'text = (Path(sys.argv[1]) / "answer.txt").read_text()\nprint(json.dumps({"score": int(text)}))\n'
)
AGENT = """import json, pathlib, sys
prompt = sys.stdin.read()
assert "Count as far as you can." in prompt
pathlib.Path(".agent").mkdir(exist_ok=True)
said = {"component": "count", "statement": "one more", "reason": "it is larger"}
pathlib.Path(".agent/hypothesis.json").write_text(json.dumps(said))
path = pathlib.Path("answer.txt")
path.write_text(str(int(path.read_text()) + 1))
pathlib.Path("notes.txt").write_text("mine")
print(json.dumps({"total_cost_usd": 0.25, "usage": {"input_tokens": 100, "output_tokens": 10}}))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    task = tmp_path / "count"
    (task / "start").mkdir(parents=True)
    (task / "evaluator").mkdir()
    (task / "start" / "answer.txt").write_text("0")
    (task / "evaluator" / "evaluate.py").write_text(EVALUATE)
    (task / "task.toml").write_text(TASK)
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "my_agent.toml").write_text(
        f'command = ["{sys.executable}", "{tmp_path / "my_agent.py"}"]\n'
        'prompt = "stdin"\nusd = "total_cost_usd"\ntokens = ["usage.input_tokens", "usage.output_tokens"]\ntimeout_s = 60\n'
    )
    return tmp_path


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")} | {"PYTHONPATH": str(PROJECT)}


def harness(desk: Path, *args: str, code: int = 0) -> tuple[Any, str]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=desk, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return (json.loads(done.stdout) if "--json" in args else done.stdout), done.stderr


def test_a_coding_agents_command_line_is_put_in_with_five_lines_of_toml(desk: Path) -> None:
    said, told = harness(desk, "explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", "--json")

    (search,) = said["searches"]
    assert search["agent"] == "command:my_agent"
    assert (search["attempts"], search["best"]) == (6, 1.0)
    assert search["spent"]["usd"] == 1.5
    assert search["spent"]["tokens"] == 660.0
    assert "runs as your user" in told
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        node = store.tree(search["tree"]).attempts[0]
    assert node.hypothesis == "[count] one more (it is larger)"
    assert "left out: notes.txt" in node.feedback


def test_the_lines_that_the_docs_show_are_an_agent(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lines,) = re.findall(r"^```toml\n(.*?)^```", (PROJECT / "docs" / "agents.md").read_text(), re.MULTILINE | re.DOTALL)
    assert lines.count("\n") == 5
    (desk / "my_agent.toml").write_text(lines)
    program = desk / "bin" / "my-agent"
    program.parent.mkdir()
    asked = 'assert sys.argv[1] == "--prompt"\nprompt = pathlib.Path(sys.argv[2]).read_text()'
    program.write_text(f"#!{sys.executable}\n{AGENT.replace('prompt = sys.stdin.read()', asked)}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    said, _ = harness(desk, "explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", "--attempts", "2", "--json")

    (search,) = said["searches"]
    assert (search["best"], search["spent"]["usd"], search["spent"]["tokens"]) == (1.0, 0.5, 220.0)


def test_an_attempt_that_fails_says_why_at_once(desk: Path) -> None:
    (desk / "my_agent.py").write_text("import sys\nsys.exit('cannot log in: no account')\n")

    _, told = harness(desk, "explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", "--attempts", "1")

    assert "a1 from root: failed (the agent ended with exit code 1: cannot log in: no account), best 0" in told


def test_a_task_may_bring_its_command_along_and_a_name_that_is_none_lists_the_known_ones(desk: Path) -> None:
    lines = (desk / "my_agent.toml").read_text()
    (desk / "count" / "task.toml").write_text(f"{TASK}[agent.command]\n{lines}")

    said, told = harness(desk, "explore", "count", "--agent", "command", "--sandbox", "local", "--attempts", "2", "--json")
    assert said["searches"][0]["best"] == 1.0
    left_open = [line for line in told.splitlines() if line.startswith("      - ")]
    assert left_open
    assert len(left_open) == len(set(left_open))

    _, told = harness(desk, "explore", "count", "--agent", "nobody", "--sandbox", "local", code=2)
    assert "agent 'nobody' is not known; expected search, model:NAME, command:" in told
    assert "runs as your user" not in told


def test_a_nodes_workspace_can_be_written_out_and_brought_back(desk: Path) -> None:
    said, _ = harness(desk, "explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", "--attempts", "1", "--json")
    name = said["searches"][0]["name"]

    harness(desk, "trees", "workspace", "a1", "out", "--tree", name)
    assert (desk / "out" / "answer.txt").read_text() == "1"
    assert (desk / "out" / ".agent" / "hypothesis.json").exists()
    best, _ = harness(desk, "trees", "workspace", "best", "the-best", "--tree", name, "--json")
    assert best["node"] == "a1"
    assert (desk / "the-best" / "answer.txt").read_text() == "1"
    _, told = harness(desk, "trees", "workspace", "a9", "other", "--tree", name, code=2)
    assert "no attempt is called 'a9'" in told

    mine = desk / "mine"
    mine.mkdir()
    (mine / "answer.txt").write_text("0")
    tried, _ = harness(desk, "trees", "workspace", "a1", "mine", "--apply", "--dry-run", "--json")
    assert tried["changes"] == [{"path": "answer.txt", "kind": "changed"}]
    assert (mine / "answer.txt").read_text() == "0"
    harness(desk, "trees", "workspace", "a1", "mine", "--apply")
    assert (mine / "answer.txt").read_text() == "1"
    (mine / "answer.txt").write_text("somebody else's")
    _, told = harness(desk, "trees", "workspace", "a1", "mine", "--apply", code=1)
    assert "changed there since" in told


def test_an_agent_whose_program_is_missing_is_ours_and_the_search_goes_on_later(desk: Path) -> None:
    good = (desk / "my_agent.toml").read_text()
    (desk / "my_agent.toml").write_text('command = ["no-such-agent"]\n')
    _, told = harness(desk, "explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", code=3)
    assert "'no-such-agent' cannot be run" in told
    assert "`harness explore --resume 1` goes on from there" in told

    (desk / "my_agent.toml").write_text(good)
    for option, value in (("--seed", "7"), ("--rounds", "2"), ("--agent", "search"), ("--searches", "2")):
        _, told = harness(desk, "explore", "--resume", option, value, code=2)
        assert f"{option}: a search goes on with the plan it began with" in told
    said, _ = harness(desk, "explore", "--resume", "--json")
    assert said["searches"][0]["attempts"] == 6


def test_a_search_that_is_interrupted_or_killed_goes_on_and_ends_as_it_would_have(desk: Path) -> None:
    (desk / "my_agent.py").write_text(AGENT.replace("prompt = sys", "import time; time.sleep(0.3); prompt = sys"))
    args = ["explore", "count", "--agent", "my_agent.toml", "--sandbox", "local"]
    for made, (how, code) in enumerate(((signal.SIGINT, 130), (signal.SIGKILL, -9)), start=1):
        with subprocess.Popen(
            [sys.executable, "-m", "harness", *args],
            cwd=desk, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            _wait_for_attempts(desk, made)
            process.send_signal(how)
            _, told = process.communicate(timeout=30)
        assert process.returncode in (code, 0)
        assert process.returncode != 130 or "goes on from there" in told
        args = ["explore", "--resume"]
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        (search,) = store.searches()
        over = search.stop is not None
    if not over:
        harness(desk, "explore", "--resume")
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        (search,) = store.searches()
        assert [one.score for one in store.tree(search.tree or "").attempts] == [1.0] * 6
        assert store.check() == []


def _wait_for_attempts(desk: Path, wanted: int) -> None:
    """Wait until so many attempts are on record, or nothing goes on any more."""
    file = desk / ".harness" / "harness.db"
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(0.05)
        if not file.exists():
            continue
        with suppress(StoreError), Store.open(f"sqlite:///{file}") as store:
            searches = store.searches()
            if searches and (searches[0].stop is not None or len(store.attempts(searches[0])) >= wanted):
                return


def test_several_tries_are_chosen_from_by_a_function_of_ones_own_and_a_judge_needs_a_model(desk: Path) -> None:
    (desk / "mine.py").write_text("def last(tries):\n    return len(tries) - 1\n")
    args = ("explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", "--rollouts", "2", "--attempts", "1")

    said, _ = harness(desk, *args, "--rollout-selector", "mine:last", "--json")
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        (node,) = store.tree(said["searches"][0]["tree"]).attempts
    assert [one["winner"] for one in node.extra["rollouts"]] == [False, True]
    assert said["searches"][0]["spent"]["usd"] == 0.5

    for selector, told in (
        ("mine:none", "has no attribute"),
        ("judge", "no model is named"),
        ("luck", "expected one of first_succ"),
    ):
        assert told in harness(desk, *args, "--rollout-selector", selector, code=2)[1]


def test_workspaces_that_nobody_needs_are_swept_and_the_others_stay(desk: Path) -> None:
    said, _ = harness(desk, "explore", "count", "--agent", "my_agent.toml", "--sandbox", "local", "--attempts", "2", "--json")

    swept, _ = harness(desk, "trees", "sweep", "--json")

    assert swept["kept"] >= 2
    harness(desk, "trees", "workspace", "a2", "out", "--tree", said["searches"][0]["name"])


@pytest.mark.parametrize("line", [("explore", "count"), ("run", "count", "--cycles", "2")])
def test_moves_that_cannot_be_loaded_are_told_at_the_start(desk: Path, line: tuple[str, ...]) -> None:
    """By file and line, before anything is on record."""
    (desk / "count" / "task.toml").write_text(f'{TASK}[agent.search]\nmoves = "moves.py"\n')
    (desk / "count" / "moves.py").write_text("import json\nMOVES = json.nothing()\n")

    _, told = harness(desk, *line, "--sandbox", "local", code=2)

    assert "count/moves.py:2: AttributeError: module 'json' has no attribute 'nothing'; expected" in told
    assert "Traceback" not in told
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        assert not store.searches()
