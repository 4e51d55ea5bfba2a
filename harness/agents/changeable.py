"""Which files of a workspace an agent may change, as they stand there now."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from harness.task.base import AGENT_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from harness.agents.base import Assignment


def changeable(assignment: Assignment) -> dict[str, Path]:
    """Return the files by name, in order of their names; links and the agent's own folder are left out."""
    found = {}
    for path in sorted(assignment.workspace.rglob("*")):
        name = path.relative_to(assignment.workspace).as_posix()
        if path.is_symlink() or not path.is_file() or name.startswith(f"{AGENT_FOLDER}/"):
            continue
        if any(fnmatchcase(name, pattern) for pattern in assignment.task.files):
            found[name] = path
    return found
