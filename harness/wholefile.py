"""Write a file whole or not at all: whoever reads finds the old content or the new, whenever the writer was killed."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from harness.errors import InputError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def write(path: Path, parts: Iterable[str | bytes], what: str) -> None:
    """Replace a file by these parts, text in UTF-8; it is on disk when this returns. `what` says in words what it is.

    What is no file of its own, such as a pipe or `/dev/stdout`, cannot be replaced and is written to.

    Raises:
        InputError: the place cannot be written; a file that was there still is as it was.
    """
    try:
        if path.is_symlink() or path.is_fifo() or path.is_char_device():
            with path.open("wb") as stream:
                stream.writelines(map(_raw, parts))
        else:
            _replace(path, parts)
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}; expected a place where {what} can be written") from error


def refuse_no_place(path: Path) -> None:
    """Refuse, before the work, a place where its result could not be written after it.

    Raises:
        InputError: it is a folder, or in none that is there.
    """
    if path.is_dir() or not path.parent.is_dir():
        wrong = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InputError(f"{path}: {wrong}; expected a file in a folder that is there")


def _raw(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part


def _replace(path: Path, parts: Iterable[str | bytes]) -> None:
    draft = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        with draft.open("xb") as stream:
            stream.writelines(map(_raw, parts))
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
