"""Bring what an attempt changed into a folder of somebody's: all of it, or nothing.

What changed is the difference between the workspace that the attempt started from and the one that it left. A file of the target
that is neither as the attempt found it nor as it left it is a conflict, and then nothing is written.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from harness.errors import InputError, RefusedError, reason_of
from harness.explore.takeover import look


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


_Content: TypeAlias = "tuple[str, bool, bytes] | None"  # "link" or "file", executable, bytes; None where nothing stands


def changes(before: Path, after: Path) -> list[Change]:
    """Return what differs between two workspaces, by path; the agent's own folder is left out."""
    old, new = (look(folder).files.keys() for folder in (before, after))
    found = []
    for path in sorted(old | new):
        was, became = _content(before / path), _content(after / path)
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
    for change in changes(before, after):
        here, was, becomes = (_content(folder / change.path) for folder in (target, before, after))
        if _leads_outside(target, change.path) or here not in (was, becomes):
            conflicts.append(change.path)
        elif here != becomes:
            wanted.append(change)
    if conflicts:
        raise RefusedError(f"{target}: {', '.join(conflicts)} changed there since; nothing was written")
    if wanted and not dry_run:
        _write(wanted, after, target)
    return wanted


def _write(wanted: list[Change], after: Path, target: Path) -> None:
    """Put everything beside its place first, then move it there; what was there is put back should a move fail."""
    done: list[tuple[Path, Path | None]] = []
    try:
        with tempfile.TemporaryDirectory(prefix=".copy-back-", dir=target) as name:
            room = Path(name)
            for place, change in enumerate(wanted):
                if change.kind is not ChangeKind.REMOVED:
                    shutil.copy2(after / change.path, room / f"new-{place}", follow_symlinks=False)
            try:
                for place, change in enumerate(wanted):
                    there, kept = target / change.path, room / f"old-{place}"
                    there.parent.mkdir(parents=True, exist_ok=True)
                    had = there.exists() or there.is_symlink()
                    if had:
                        there.replace(kept)
                    done.append((there, kept if had else None))
                    if change.kind is not ChangeKind.REMOVED:
                        (room / f"new-{place}").replace(there)
            except OSError:
                for there, old in reversed(done):
                    with suppress(FileNotFoundError):
                        there.unlink()
                    if old is not None:
                        old.replace(there)
                raise
    except OSError as error:
        raise InputError(f"{target}: {reason_of(error)}; nothing was changed") from error


def _content(path: Path) -> _Content:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        return "link", False, os.fsencode(path.readlink())
    if stat.S_ISREG(mode):
        return "file", bool(mode & stat.S_IXUSR), path.read_bytes()
    return "other", False, b""


def _leads_outside(target: Path, path: str) -> bool:
    """Return whether a folder on the way to a file is a link: what is written there would land elsewhere."""
    return any((target / parent).is_symlink() for parent in Path(path).parents if str(parent) != ".")
