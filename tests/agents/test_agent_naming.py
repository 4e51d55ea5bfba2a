"""An agent is named by a preset or by a file of a few lines."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from test_agent_prompt import PLAIN

from harness.agents import naming
from harness.agents.base import Hypothesis
from harness.agents.command import read
from harness.agents.naming import parse
from harness.errors import InputError

PROJECT = Path(__file__).parents[2]
PRESETS = sorted((Path(naming.__file__).parent / "presets").glob("*.toml"))
STAND_IN = """
import json, os, sys
from pathlib import Path
file = next((Path(word).read_text() for word in sys.argv if word.endswith("prompt.md")), "")
given = {"words": sys.argv[1:], "input": sys.stdin.read(), "file": file, "folder": os.getcwd(), "environment": dict(os.environ)}
Path("given").write_text(json.dumps(given))
Path(".agent").mkdir()
Path(".agent/hypothesis.json").write_text('{"component": "c", "statement": "s", "reason": "r"}')
print(json.dumps({"total_cost_usd": 0.25, "usage": {"input_tokens": 3, "output_tokens": 4}}))
"""


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.stem)
def test_a_preset_runs_its_program_with_the_prompt_and_the_keys_that_it_names(
    preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in of that name writes down what it was given; the real ones take accounts."""
    settings = read(preset)
    stand_in = tmp_path / "bin" / settings.command[0]
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!{sys.executable}\n{STAND_IN}")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    for name in (*settings.env, "ANOTHER_API_KEY"):
        monkeypatch.setenv(name, f"key-of-{name}")
    (tmp_path / "workspace" / "sub").mkdir(parents=True)
    for name in ("answer.json", "-n.json", "sub/more.json", "fixed.txt"):
        (tmp_path / "workspace" / name).touch()

    with closing(parse(f"command:{preset.stem}")) as agent:
        work = agent.work(replace(PLAIN, workspace=tmp_path / "workspace", timeout_s=60.0))

    given = json.loads((tmp_path / "workspace" / "given").read_text())
    assert agent.name == f"command:{preset.stem}"
    assert given["folder"] == str(tmp_path / "workspace")
    assert "Pack circles." in (given["file"] if settings.prompt == "file" else given["input"])
    assert not [word for word in given["words"] if "{" in word or "}" in word]
    assert ("{files}" in settings.command) == (given["words"][-3:] == ["./-n.json", "./answer.json", "./sub/more.json"])
    assert {name for name, value in given["environment"].items() if value.startswith("key-of-")} == set(settings.env)
    assert (work.cost.usd, work.cost.tokens) == (0.25 if settings.usd else None, 7.0 if settings.tokens else None)
    assert work.hypothesis == Hypothesis("c", "s", "r")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.stem)
def test_a_preset_says_which_version_was_read_about_and_stands_in_the_docs(preset: Path) -> None:
    assert re.search(r"\d+\.\d+|20\d\d", preset.read_text().partition("\n")[0])
    assert f"`command:{preset.stem}`" in (PROJECT / "docs" / "agents.md").read_text()


def test_one_line_is_an_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('command = ["my-agent"]\n')
    assert parse(str(tmp_path / "mine.toml")).name == "command:mine"


@pytest.mark.parametrize("name", ["command:../x", "nobody", ""])
def test_an_unknown_name_lists_what_there_is(name: str) -> None:
    with pytest.raises(InputError, match="command:claude"):
        parse(name)
