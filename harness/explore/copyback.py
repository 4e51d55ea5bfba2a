"""Bring what an attempt changed into a folder of somebody's: all of it, or nothing.

What changed is the difference between the workspace that the attempt started from and the one that it left. A file of the target
that is neither as the attempt found it nor as it left it is a conflict, and then nothing is written. So is a folder in the place
of a file, where it holds anything that the attempt does not remove. Links are compared and never followed.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from harness.errors import InputError, RefusedError, reason_of
from harness.explore.takeover import look
from sandbox.removal import remove

if TYPE_CHECKING:
    from collections.abc import Collection


class ChangeKind(StrEnum):
    """What happens to a file."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One file that an attempt changed, by its path from the workspace."""

    path: str
    kind: ChangeKind


_Content: TypeAlias = "tuple[str, bool, bytes] | None"  # "link" or "file", executable, bytes; None where no file stands


def changes(before: Path, after: Path) -> list[Change]:
    """Return what differs between two workspaces, by path; the agent's own folder is left out."""
    names = {path for folder in (before, after) for path in look(folder).files}
    found = []
    for path in sorted(names):
        was, became = _content(before, path), _content(after, path)
        if was != became:
            kind = ChangeKind.ADDED if was is None else ChangeKind.REMOVED if became is None else ChangeKind.CHANGED
            found.append(Change(path, kind))
    return found


def copy_back(before: Path, after: Path, target: Path, *, dry_run: bool = False) -> list[Change]:
    """Bring the changes into `target` and return those that it did not have yet. A dry run writes nothing.

    Raises:
        RefusedError: a file of the target is neither as it was before nor as it is after; nothing was written.
        InputError: the target is no folder, or cannot be written.
    """
    if not target.is_dir():
        raise InputError(f"{target}: is no folder; expected the workspace that the changes go to")
    wanted, conflicts = [], []
    made = changes(before, after)
    removed = {change.path for change in made if change.kind is ChangeKind.REMOVED}
    for change in made:
        here, was, becomes = (_content(folder, change.path) for folder in (target, before, after))
        in_the_way = set() if becomes is None else _held(target, change.path)
        if _leads_outside(target, change.path, removed) or here not in (was, becomes) or not in_the_way <= removed:
            conflicts.append(change.path)
        elif here != becomes:
            wanted.append(change)
    if conflicts:
        named = ", ".join(path if path.isprintable() else ascii(path) for path in conflicts)
        raise RefusedError(f"{target}: {named} changed there since; nothing was written")
    if wanted and not dry_run:
        # Removed first: a file may come where a folder was, or a folder where a file was.
        _write(sorted(wanted, key=lambda change: change.kind is not ChangeKind.REMOVED), after, target)
    return wanted


def _write(wanted: list[Change], after: Path, target: Path) -> None:
    """Put everything beside its place first, then move it there; what was there is put back should a move fail."""
    try:
        room = Path(tempfile.mkdtemp(prefix=".copy-back-", dir=target))
        done: list[tuple[Path, Path | None]] = []
        try:
            for place, change in enumerate(wanted):
                if change.kind is not ChangeKind.REMOVED:
                    shutil.copy2(after / change.path, room / f"new-{place}", follow_symlinks=False)
            for place, change in enumerate(wanted):
                there, kept = target / change.path, room / f"old-{place}"
                there.parent.mkdir(parents=True, exist_ok=True)
                had = os.path.lexists(there)
                if had:
                    there.replace(kept)
                done.append((there, kept if had else None))
                if change.kind is not ChangeKind.REMOVED:
                    (room / f"new-{place}").replace(there)
        except BaseException:
            _put_back(done)  # where that fails the room stays, with what was there in it
            remove(room)
            raise
        remove(room)
    except OSError as error:
        raise InputError(f"{target}: {reason_of(error)}; nothing was changed") from error


def _put_back(done: list[tuple[Path, Path | None]]) -> None:
    for there, old in reversed(done):
        if there.is_dir() and not there.is_symlink():
            for folder, _, _ in os.walk(there, topdown=False):  # made for what has been moved out of it again
                Path(folder).rmdir()
        else:
            there.unlink(missing_ok=True)
        if old is not None:
            old.replace(there)


def _content(folder: Path, path: str) -> _Content:
    """Return what stands at a path; a folder is no file, and neither is what a link on the way leads to."""
    here = folder / path
    try:
        mode = here.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(mode) or _leads_outside(folder, path):
        return None
    if stat.S_ISLNK(mode):
        return "link", False, os.fsencode(here.readlink())
    if stat.S_ISREG(mode):
        return "file", bool(mode & stat.S_IXUSR), here.read_bytes()
    return "other", False, b""


def _held(target: Path, path: str) -> set[str]:
    """Return the files and links in the folder that stands at a path; nothing where there is none."""
    found: set[str] = set()
    if (target / path).is_dir() and not (target / path).is_symlink():
        for folder, folders, files in os.walk(target / path, onerror=_raised):
            inside = [Path(folder, name) for name in (*folders, *files)]
            found |= {str(one.relative_to(target)) for one in inside if one.is_symlink() or not one.is_dir()}
    return found


def _raised(error: OSError) -> NoReturn:
    raise InputError(f"{error.filename}: {reason_of(error)}; nothing was changed") from error


def _leads_outside(folder: Path, path: str, removed: Collection[str] = ()) -> bool:
    """Return whether something on the way to a file is a link that stays: what is written there would land elsewhere."""
    return any((folder / parent).is_symlink() for parent in Path(path).parents if str(parent) not in {".", *removed})
