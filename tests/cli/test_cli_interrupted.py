"""Ctrl-C, wherever a command is by then: exit code 130, one line that says so, no traceback.

Where that is, is known by what the interpreter tells its audit hooks, and not by a time: a module that is about to be imported,
a store that is about to be opened, a process that is about to be started.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from commands import PROJECT, process

from harness import config, treefile, wiring

if TYPE_CHECKING:
    from pathlib import Path

INTERRUPTS_ITSELF = """
import os, signal, sys

stop_at = os.environ.pop("STOP_AT")

def heard(event, args):
    global stop_at
    if stop_at and stop_at == (event if event != "import" else f"import {args[0]}"):
        stop_at = ""
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(heard)
"""
REPLAY = ("replay", "policy.py", "--trees", "trees")
EVOLVE = ("evolve", "--trees", "trees", "--versions", "2", "--store", "sqlite:///some.db")
EXPLORE = ("explore", PROJECT / "examples" / "tasks" / "circle_packing", "--store", "sqlite:///some.db")
RUN = ("run", *EXPLORE[1:])
STORED = ("import harness.config", "import sqlalchemy", "sqlite3.connect", "subprocess.Popen")


@pytest.mark.parametrize(
    ("args", "stop_at"),
    [
        *((REPLAY, at) for at in ("import harness.cli", "import typer", "import harness.cli.app", "import harness.cli.replay")),
        *((REPLAY, at) for at in ("import harness.config", "import harness.wiring", "import sandbox.local", "subprocess.Popen")),
        *((command, at) for command in (EVOLVE, EXPLORE, RUN) for at in STORED),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else part,
)
def test_ctrl_c_while_a_command_starts_up_ends_with_130_and_one_clear_line(
    folder: Path, trees: Path, policy: Path, args: tuple[object, ...], stop_at: str
) -> None:
    (folder / "hooks").mkdir()
    (folder / "hooks" / "sitecustomize.py").write_text(INTERRUPTS_ITSELF)
    with wiring.open_store(config.Settings(store="sqlite:///some.db"), create=True) as store:
        store.add_trees(map(treefile.read, treefile.find([trees])))
    found = os.pathsep.join(map(str, (folder / "hooks", PROJECT)))

    ended = process(*args, "--sandbox", "local", cwd=folder, variables={"STOP_AT": stop_at, "PYTHONPATH": found})

    assert ended.code == 130, ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err
    said = [line for line in ended.err.splitlines() if line.startswith(("harness: interrupted", "harness: stopped"))]
    assert len(said) == 1, ended.err
