"""The identity of a task: everything that fixes what a search of it finds."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from harness.errors import InputError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MADE_BY_PYTHON = "__pycache__"


def digest_of(folder: Path, parts: Iterable[Path | None]) -> str:
    """Return the SHA-256 of these files and of the files in these folders, with their names below `folder`.

    Raises:
        InputError: one is a link or no plain file, or cannot be read.
    """
    total = hashlib.sha256()
    for name, path in sorted({found.relative_to(folder).as_posix(): found for part in parts for found in _files(part)}.items()):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: {reason_of(error)}; expected a readable file of the task") from error
        total.update(f"{len(name.encode())}:{name}:{len(content)}:".encode())
        total.update(content)
    return total.hexdigest()


def _files(part: Path | None) -> list[Path]:
    if part is None:
        return []
    found = [part, *part.rglob("*")] if part.is_dir() else [part]
    for path in found:
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise InputError(f"{path}: is a link or special file; expected plain files and folders in a task")
    return [path for path in found if path.is_file() and _MADE_BY_PYTHON not in path.parts]
