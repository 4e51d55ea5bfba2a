"""Take over from an agent's workspace what the task lets it change, and put everything else back as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from harness.task.base import AGENT_FOLDER
from harness.workspaces.tree import DEEPEST
from sandbox.removal import remove

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_NAMED = 5
_NAME_CHARACTERS = 200
_PATH_BYTES = 1_024
"""No evaluator takes a longer path; what lies in a folder whose path is longer is out of reach."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The files of a workspace that an agent may not change, as they were: content, kind and mode by path."""

    files: dict[str, str]
    patterns: tuple[str, ...]
    folders: frozenset[str] = frozenset()
    """All folders that there were: a new one that is empty is not handed on."""

    @classmethod
    def of(cls, workspace: Path, patterns: Sequence[str]) -> Fixed:
        """Return what stands there now."""
        seen = look(workspace)
        found = {name: _mark(path) for name, path in seen.files.items() if not _is_free(name, patterns)}
        return cls(found, tuple(patterns), frozenset(seen.folders))

    def put_back(self, workspace: Path, original: Callable[[], Path]) -> list[str]:
        """Put the workspace's other files back and return which those were; what lies too deep to be kept is left out as well.

        `original` gives a folder with the workspace as it was; it is asked only where something has to come from there.
        """
        seen = look(workspace)
        for name in seen.too_deep:
            remove(workspace / name)
        here = {name: path for name, path in seen.files.items() if not _is_free(name, self.patterns)}
        odd = sorted(name for name in here.keys() | self.files.keys() if self._differs(name, here.get(name)))
        for name in odd:
            if name in here:
                here[name].unlink()
        lost = [name for name in odd if name in self.files]
        if lost:
            source = original()
            for name in lost:
                there = workspace / name
                _make_room(workspace, there.parent)
                remove(there)  # a folder may stand there
                shutil.copy2(source / name, there, follow_symlinks=False)
        for name in sorted(seen.folders - self.folders, reverse=True):
            with suppress(OSError):  # one that holds something stays
                (workspace / name).rmdir()
        return [*odd, *seen.too_deep]

    def _differs(self, name: str, path: Path | None) -> bool:
        return path is None or name not in self.files or not _is_as(self.files[name], path)


def told(left_out: Sequence[str]) -> str:
    """Return a sentence on what was put back, empty where nothing was."""
    if not left_out:
        return ""
    names = ", ".join(map(_shown, left_out[:_NAMED])) + (f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else "")
    return f"Not among the files that may be changed, and left out: {names}."


def missing(workspace: Path) -> str:
    """Return what has become of a workspace that is no folder any more, empty where it is one."""
    for folder in (workspace.parent, workspace):
        try:
            mode = folder.lstat().st_mode
        except OSError:
            return "The agent removed its workspace."
        if not stat.S_ISDIR(mode):
            return f"The agent put {'a link' if stat.S_ISLNK(mode) else 'a file'} in the place of its workspace."
    return ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands in a workspace, by path: files and links of all kinds, folders, and folders too deep to be looked into."""

    files: dict[str, Path]
    folders: set[str]
    too_deep: list[str]


def look(workspace: Path) -> Seen:
    """Look through a workspace of ours, never through a link; the agent's own folder is left out of files and folders.

    Folders that were closed to us are opened on the way.
    """
    seen = Seen({}, set(), [])
    waiting = [""]
    while waiting:
        at = waiting.pop()
        folder = workspace / at
        if folder.lstat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
            folder.chmod(stat.S_IRWXU)
        mine = at.partition("/")[0] == AGENT_FOLDER
        with os.scandir(folder) as scan:
            entries = [(f"{at}/{entry.name}" if at else entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
        for name, is_folder in entries:
            if is_folder and (name.count("/") + 1 > DEEPEST or len(os.fsencode(name)) > _PATH_BYTES):
                seen.too_deep.append(name)
            elif is_folder:
                waiting.append(name)
                if not (mine or name == AGENT_FOLDER):
                    seen.folders.add(name)
            elif not mine:
                seen.files[name] = workspace / name
    return seen


def _is_free(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _mark(path: Path) -> str:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return f"link {os.fsencode(path.readlink())!r}"
    if not stat.S_ISREG(status.st_mode):
        return "special"
    head = _head(status)
    try:
        with path.open("rb") as stream:
            return f"{head}{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except PermissionError:
        return "closed"


def _head(status: os.stat_result) -> str:
    return f"{status.st_mode & stat.S_IXUSR} {status.st_size} "


def _is_as(mark: str, path: Path) -> bool:
    """Return whether a file is as it was marked; one of another size, which may be a huge one, is not read."""
    status = path.lstat()
    if stat.S_ISREG(status.st_mode) and not mark.startswith(_head(status)):
        return False
    return _mark(path) == mark


def _shown(name: str) -> str:
    return (name if name.isprintable() else ascii(name)[1:-1])[:_NAME_CHARACTERS]


def _make_room(workspace: Path, folder: Path) -> None:
    """Make a folder where the agent left something else in its place, or nothing."""
    for parent in [*reversed(folder.relative_to(workspace).parents), folder.relative_to(workspace)]:
        here = workspace / parent
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()
        here.mkdir(exist_ok=True)
