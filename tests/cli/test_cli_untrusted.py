"""What people are shown of untrusted text stays text: it steers no terminal, forges no line of ours, and files cannot stop us."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from commands import PICKS_ALL, process

from harness.config import without_password

if TYPE_CHECKING:
    from pathlib import Path

STEERING = "\x1b[31mname\x1b]0;title\x07\u202e\x9b2J\r\x08"
FORGED = f"{STEERING}\nmean   9.9999"
SHOUTS = f"""
class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        print({FORGED!r})
        raise ValueError({FORGED!r})
"""


@pytest.fixture
def hostile(folder: Path) -> Path:
    """Return a tree whose every text would steer a terminal and forge lines."""
    header = {"format": "discovery-tree/1", "name": FORGED, "task": FORGED, "source": {"system": FORGED}, "root": {"score": 0}}
    node = {"id": FORGED, "parent": None, "score": 1, "status": FORGED, "feedback": FORGED, "hypothesis": FORGED}
    path = folder / "hostile.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, node | {"metrics": {FORGED: 1}})))
    return path


@pytest.mark.parametrize("source", [PICKS_ALL, SHOUTS], ids=["good", "shouting"])
@pytest.mark.parametrize("more", [(), ("--trajectory",), ("--json",)], ids=["table", "trajectory", "json"])
def test_a_replay_shows_untrusted_text_as_text(folder: Path, hostile: Path, source: str, more: tuple[str, ...]) -> None:
    (folder / "tried.py").write_text(source)

    ended = process("replay", "tried.py", "--no-check", "--trees", hostile, "--sandbox", "local", *more, cwd=folder)

    assert ended.code in {0, 1}
    assert shows_text_alone(ended.out + ended.err)
    assert [line for line in ended.out.splitlines() if line.startswith("mean   9")] == []


@pytest.mark.parametrize("command", [("list",), ("show",), ("validate",)])
def test_a_tree_is_shown_as_text(folder: Path, hostile: Path, command: tuple[str, ...]) -> None:
    ended = process("trees", *command, hostile, cwd=folder)

    assert ended.code == 0
    assert shows_text_alone(ended.out + ended.err)
    assert [line for line in ended.out.splitlines() if line.startswith("mean   9")] == []


@pytest.mark.parametrize("command", [("replay",), ("trees", "validate"), ("trees", "show")])
def test_what_is_wrong_with_a_name_forges_no_line(folder: Path, command: tuple[str, ...]) -> None:
    name = "a\nmean   9.9999.jsonl"
    (folder / name).write_text("{}\n")

    ended = process(*command, name, cwd=folder)

    assert ended.code == 2
    assert [line for line in (ended.out + ended.err).splitlines() if line.startswith("mean   9")] == []


def shows_text_alone(text: str) -> bool:
    """Return whether a text is free of what a terminal obeys."""
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize(
    "command", [("trees", "validate"), ("trees", "list"), ("replay", "p.py", "--sandbox", "local", "--trees")]
)
def test_a_pipe_among_trees_is_named_and_not_waited_for(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "p.py").write_text(PICKS_ALL)
    (folder / "trees").mkdir(exist_ok=True)
    os.mkfifo(folder / "trees" / "pipe.jsonl")

    ended = process(*command, "trees", cwd=folder)

    assert ended.code == 2
    assert "pipe.jsonl: is a pipe or a device; expected a regular file" in ended.err + ended.out


def test_a_settings_file_without_end_is_refused(folder: Path) -> None:
    ended = process("config", "--config", "/dev/zero", cwd=folder)

    assert (ended.code, ended.err) == (2, "harness: /dev/zero: has more than 1048576 bytes; expected a settings file\n")


def test_a_settings_file_that_nests_too_deep_is_refused(folder: Path) -> None:
    (folder / "deep.toml").write_text(f"seed = {'[' * 50_000}")

    ended = process("config", "--config", "deep.toml", cwd=folder)

    assert ended.code == 2
    assert ended.err.startswith("harness: deep.toml: nests too deep")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:SECRET@there/h",
        "postgresql://me:a@SECRET@there:5432/h",
        "postgresql://me:a/SECRET@there/h",
        "postgresql://me:SECRET/h",
        "postgresql://there/h?sslmode=require&password=SECRET&x=1",
        "postgresql://there/h?sslpassword=SECRET",
        "['postgresql://me:SECRET@there/h']",
    ],
)
def test_a_password_is_hidden_however_a_url_is_written(url: str) -> None:
    assert "SECRET" not in without_password(url)


@pytest.mark.parametrize(
    "url", ["postgresql://me@there:5432/h", "sqlite:////folder/a@b:c.db", "postgresql://me:***@there/h", "h.db"]
)
def test_a_url_without_a_password_stays_as_it_is(url: str) -> None:
    assert without_password(url) == url


def test_a_wrong_store_is_named_without_its_password(folder: Path) -> None:
    (folder / "wrong.toml").write_text('store = ["postgresql://me:SECRET@there/h"]\n')

    ended = process("config", "--config", "wrong.toml", cwd=folder)

    assert ended.code == 2
    assert "SECRET" not in ended.err
