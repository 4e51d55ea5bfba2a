"""What command tests share: how a command is run and how it ended, and a policy that stops by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.tree import Tree

PROJECT = Path(__file__).parents[2]

PICKS_ALL = """
class Policy:
    def __init__(self, context):
        self.limits = context.limits

    def decide(self, view):
        open_ = [node_id for node_id in view.selectable if not view.nodes[node_id].closed]
        return open_[: self.limits.max_batch]
"""


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the one JSON document on standard output."""
        return json.loads(self.out)


def environment(**variables: str) -> dict[str, str]:
    """Return an environment for a command in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    return inherited | {"PYTHONPATH": str(PROJECT), **variables}


def process(*args: object, cwd: Path, variables: Mapping[str, str] | None = None) -> Ended:
    """Run a command in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "harness", *map(str, args)],
        cwd=cwd,
        env=environment(**(variables or {})),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def named(made: Tree, name: str) -> Tree:
    """Return a tree under another name."""
    return replace(made, name=name)
