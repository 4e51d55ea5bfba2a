"""Run commands as a user does: in an empty folder, with nothing set in the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from builders import tree
from commands import PICKS_ALL, Ended, named

from harness import treefile
from harness.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory, with no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("HARNESS_"):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return a function that runs a command in this process."""

    def end(*args: object) -> Ended:
        code = run([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return end


@pytest.fixture
def policy(folder: Path) -> Path:
    """Return the file of a policy that opens whatever is open."""
    file = folder / "policy.py"
    file.write_text(PICKS_ALL)
    return file


@pytest.fixture
def trees(folder: Path) -> Path:
    """Return a folder of three recorded trees."""
    inside = folder / "trees"
    inside.mkdir()
    for name, best in (("one", 0.5), ("three", 0.9), ("two", 0.7)):
        made = tree("root>a", "root>b", "a>a2", "b>b2", "a2>a3", scores={"a": 0.1, "b": 0.2, "a2": 0.3, "b2": best, "a3": 0.4})
        treefile.write(named(made, name), inside / f"{name}.jsonl")
    return inside
