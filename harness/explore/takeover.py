"""Take over from an agent's workspace what the task lets it change, and put everything else back as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from harness.task.base import AGENT_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_NAMED = 5


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
        found = {name: _mark(path) for name, path in entries(workspace) if not _is_free(name, patterns)}
        return cls(found, tuple(patterns), frozenset(_folders(workspace)))

    def put_back(self, workspace: Path, original: Callable[[], Path]) -> list[str]:
        """Put the workspace's other files back and return which those were.

        `original` gives a folder with the workspace as it was; it is asked only where something has to come from there.
        """
        here = {name: path for name, path in entries(workspace) if not _is_free(name, self.patterns)}
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
                shutil.copy2(source / name, there, follow_symlinks=False)
        for name in sorted(set(_folders(workspace)) - self.folders, reverse=True):
            with suppress(OSError):  # one that holds something stays
                (workspace / name).rmdir()
        return odd

    def _differs(self, name: str, path: Path | None) -> bool:
        return path is None or self.files.get(name) != _mark(path)


def told(left_out: Sequence[str]) -> str:
    """Return a sentence on what was put back, empty where nothing was."""
    if not left_out:
        return ""
    names = ", ".join(left_out[:_NAMED]) + (f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else "")
    return f"Not among the files that may be changed, and left out: {names}."


def entries(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file and link, never following one, the agent's own folder left out."""
    for place, folders, names in os.walk(workspace):
        here = Path(place)
        if here == workspace and AGENT_FOLDER in folders:
            folders.remove(AGENT_FOLDER)
        links = [name for name in folders if (here / name).is_symlink()]
        for name in (*names, *links):
            yield (here / name).relative_to(workspace).as_posix(), here / name


def _folders(workspace: Path) -> Iterator[str]:
    for place, folders, _ in os.walk(workspace):
        here = Path(place)
        if here == workspace and AGENT_FOLDER in folders:
            folders.remove(AGENT_FOLDER)
        yield from ((here / name).relative_to(workspace).as_posix() for name in folders if not (here / name).is_symlink())


def _is_free(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _mark(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {os.fsencode(path.readlink())!r}"
    if not stat.S_ISREG(mode):
        return "special"
    with path.open("rb") as stream:
        return f"{mode & stat.S_IXUSR} {hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _make_room(workspace: Path, folder: Path) -> None:
    """Make a folder where the agent left something else in its place, or nothing."""
    for parent in [*reversed(folder.relative_to(workspace).parents), folder.relative_to(workspace)]:
        here = workspace / parent
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()
        here.mkdir(exist_ok=True)
