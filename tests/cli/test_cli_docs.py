"""What the documents show is executed, and what they list is what there is."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import TYPE_CHECKING

import pytest
import typer
from commands import PROJECT

from harness import config, treefile
from harness.cli import policyfolder
from harness.cli.app import app
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

COMMANDS = PROJECT.joinpath("docs", "commands.md").read_text()
EXPLORE = PROJECT.joinpath("docs", "explore.md").read_text() + PROJECT.joinpath("docs", "campaigns.md").read_text()
SETTINGS = PROJECT.joinpath("docs", "settings.md").read_text()
TREES_OF_A_TASK = 2


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def desk(folder: Path) -> Path:
    """Return a folder with some of the example trees and the policy of the document."""
    for task in sorted(PROJECT.joinpath("examples", "trees").iterdir()):
        if task.is_dir():
            (folder / "examples" / "trees" / task.name).mkdir(parents=True)
            for file in sorted(task.glob("*.jsonl"))[:TREES_OF_A_TASK]:
                (folder / "examples" / "trees" / task.name / file.name).write_bytes(file.read_bytes())
    (policy,) = blocks(COMMANDS, "python")
    (folder / "my_policy.py").write_text(policy)
    return folder


@pytest.mark.slow
def test_every_example_of_the_commands_runs(command: Callable[..., Ended], desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the document, in one folder, in the local sandbox so that it runs everywhere."""
    monkeypatch.setenv("HARNESS_SANDBOX", "local")
    monkeypatch.setenv("HARNESS_ALLOW_LOCAL", "true")
    shown = [line.removeprefix("$ ") for block in blocks(COMMANDS, "console") for line in block.splitlines()]

    ended = {line: command(*shlex.split(line)[1:]) for line in shown}

    assert len(shown) > 15
    assert {line: end.err for line, end in ended.items() if end.code != 0} == {}


def test_every_command_and_option_that_is_a_setting_is_documented() -> None:
    group = typer.main.get_command(app)
    names = [
        *group.commands,
        *group.commands["trees"].commands,
        *group.commands["sandbox"].commands,
        "models check",
        "task check",
    ]  # type: ignore[attr-defined]
    judged = ("replay", "evolve", "gate", "explore", "run")
    flags = {option.opts[0] for name in judged for option in group.commands[name].params[1:]}  # type: ignore[attr-defined]

    assert [name for name in names if name not in COMMANDS] == []
    assert [flag for flag in flags if flag.startswith("--") and flag not in COMMANDS + SETTINGS + EXPLORE] == []


def test_the_table_of_settings_is_that_of_the_program() -> None:
    listed = [
        tuple(cell.strip() for cell in row.split("|")[1:-1])
        for row in SETTINGS.splitlines()
        if row.startswith("| `") and "`" in row
    ]
    fields = config.Settings.model_fields
    defaults = {name: "none" if fields[name].default is None else str(fields[name].default) for name in config.FIELDS}

    expected = [(f"`{name}`", defaults[name], config.wish(name), str(fields[name].description)) for name in config.FIELDS]
    assert [row for row in listed if len(row) == len(expected[0])] == expected


def test_the_example_of_a_policys_rules_is_read(folder: Path) -> None:
    """The document shows a part of the example in the repository, and every key that it names is known."""
    (example,) = blocks(PROJECT.joinpath("docs", "ci.md").read_text(), "toml")
    (folder / "policy.py").write_text("class Policy: ...\n")
    (folder / "policy.toml").write_text(example)

    shown = policyfolder.read(folder)
    real = policyfolder.read(PROJECT / "examples" / "policies" / "halving")

    assert shown.pins.items() <= real.pins.items()
    assert shown.set_digest == real.set_digest
    for table in policyfolder.SETTINGS:
        (named,) = re.findall(rf"^\[{table}\] +# (.+)$", example, re.MULTILINE)
        assert tuple(named.split(", ")) == policyfolder.TABLES[table]


def test_the_example_of_a_policy_pins_everything_at_its_default(folder: Path) -> None:
    example = policyfolder.read(PROJECT / "examples" / "policies" / "halving")

    assert example.pinned(config.load({})).settings == config.load({"repeats": 4}).settings
    assert {key for table in policyfolder.SETTINGS for key in policyfolder.TABLES[table]} == set(example.pins)
    assert set_digest(treefile.read(file).digest for file in treefile.find(example.trees)) == example.set_digest


def test_the_example_of_a_settings_file_loads(folder: Path) -> None:
    (example,) = blocks(SETTINGS, "toml")
    (folder / "harness.toml").write_text(example)

    loaded = config.load({})

    assert {name for name, origin in loaded.origins.items() if origin.startswith("harness.toml:")} == set(tomllib.loads(example))
