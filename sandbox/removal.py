"""Remove a folder that a stranger filled: however deep, wide or closed it is, and never through a link.

A folder is emptied by moving the folders in it up beside it, so that neither the stack, nor open files, nor the length of a path
grow with how deep they lie.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, or whatever stands in its place; one that is not there is fine.

    Raises:
        OSError: something in it may not be removed.
    """
    with suppress(FileNotFoundError):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
            return
        with _entered(str(folder)) as top:
            _empty(top)
        folder.rmdir()


def _empty(top: int) -> None:
    token, made = secrets.token_hex(8), 0
    waiting = [""]
    while waiting:
        name = waiting.pop()
        with _entered(name or ".", top) as here:
            with os.scandir(here) as scan:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
            for entry, is_folder in entries:
                if not is_folder:
                    os.unlink(entry, dir_fd=here)
                else:
                    with _entered(entry, here):  # who moves a folder must be allowed to write to it
                        pass
                    made += 1
                    os.rename(entry, f"{token}-{made}", src_dir_fd=here, dst_dir_fd=top)
                    waiting.append(f"{token}-{made}")
        if name:
            os.rmdir(name, dir_fd=top)


@contextmanager
def _entered(name: str, inside: int | None = None) -> Iterator[int]:
    """Open a folder, after giving ourselves the right to."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:  # noqa: PLR2004 - read, write and enter
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - a descriptor, which no link can take the place of
        opened = os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
    try:
        yield opened
    finally:
        os.close(opened)
