"""Where a job's result lies until it is complete, and how it takes the workspace's place: at one stroke, or not at all."""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from sandbox.base import SandboxError
from sandbox.owner import Owner
from sandbox.removal import remove

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class Staging:
    """A folder beside the workspace that either replaces it or goes away."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace.resolve()
        if not self._workspace.is_dir():
            raise SandboxError(f"the workspace {workspace} is no folder")
        self.folder = self._workspace.with_name(
            f"{self._prefix()}{str(Owner.this_process()).replace('/', '+')}+{secrets.token_hex(4)}"
        )

    def take(self) -> None:
        """Put the staged folder in the workspace's place."""
        self.folder.chmod(stat.S_IMODE(self._workspace.stat().st_mode))
        libc = ctypes.CDLL(None, use_errno=True)
        ends = (os.fsencode(self.folder), os.fsencode(self._workspace))
        if libc.renameat2(_AT_FDCWD, ends[0], _AT_FDCWD, ends[1], _RENAME_EXCHANGE) == 0:
            return
        # Not every file system can exchange two folders: then for a moment there is none under the name.
        old = self.folder.with_name(f"{self.folder.name}.old")
        self._workspace.rename(old)
        try:
            self.folder.rename(self._workspace)
        except OSError:
            old.rename(self._workspace)
            raise
        old.rename(self.folder)

    def __enter__(self) -> Self:
        try:
            self._remove_leftovers()
            self.folder.mkdir(0o700)
        except OSError as error:
            raise SandboxError(f"cannot make a folder beside the workspace {self._workspace}: {error}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(OSError):
            remove(self.folder)

    def _prefix(self) -> str:
        return f".{self._workspace.name}.job+"

    def _remove_leftovers(self) -> None:
        for found in self._workspace.parent.iterdir():
            if found.name.startswith(self._prefix()):
                label = found.name.removeprefix(self._prefix()).rpartition("+")[0].replace("+", "/")
                with suppress(ValueError, OSError):
                    if Owner.parse(label).is_dead() and found.lstat().st_uid == os.getuid():
                        remove(found)
