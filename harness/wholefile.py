"""Write a file whole or not at all: whoever reads finds the old content or the new, whenever the writer was killed."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def write(path: Path, parts: Iterable[str]) -> None:
    """Replace a file by these parts in UTF-8; it is on disk when this returns.

    Raises:
        OSError: the place cannot be written; what was there still is.
    """
    draft = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        with draft.open("xb") as stream:
            for part in parts:
                stream.write(part.encode())
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
