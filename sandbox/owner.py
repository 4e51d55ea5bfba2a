"""Who a container or a temporary folder belongs to: a label, or a name, that tells a living harness from a dead one."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sandbox.base import SandboxError
from sandbox.removal import remove

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNER_LABEL = "dream-harness.owner"
IMAGE_LABEL = "dream-harness.image"
_FOLDER = "dream-harness-"
_FIELDS = 4  # of an owner
_FIELDS_AFTER_NAME = 19  # in /proc/PID/stat, from the state that follows the name to the start time


@dataclass(frozen=True, slots=True)
class Owner:
    """One process of one boot of one machine, as seen in one PID namespace."""

    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def this_process(cls) -> Self:
        """Return the owner that the calling process is."""
        return cls(_boot(), _namespace(), os.getpid(), _start_time(os.getpid()) or "")

    @classmethod
    def parse(cls, label: str) -> Self:
        """Read the label that `str` wrote; raises ValueError for any other text."""
        boot, namespace, pid, started = label.split("/")
        return cls(boot, namespace, int(pid), started)

    def __str__(self) -> str:
        return f"{self.boot}/{self.namespace}/{self.pid}/{self.started}"

    def is_dead(self) -> bool:
        """Return whether the owner is certainly gone: a process of another machine or namespace may well be alive."""
        return self.boot == _boot() and self.namespace == _namespace() and _start_time(self.pid) != self.started


@contextmanager
def owned_folder() -> Iterator[Path]:
    """Lend a temporary folder that tells its owner by its name.

    Raises:
        SandboxError: none can be made.
    """
    name = str(Owner.this_process()).replace("/", "_")
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{name}_"))
    except OSError as error:
        raise SandboxError(
            f"cannot make a folder for temporary files: {error.strerror or error}; make room in {tempfile.gettempdir()}, or set "
            "TMPDIR to another place"
        ) from error
    try:
        yield folder
    finally:
        with suppress(OSError):  # what may not be removed is tried again by whoever sweeps
            remove(folder)


def remove_dead_folders() -> None:
    """Remove the temporary folders of dead harnesses of this user."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*_*"):
        # What is no owner's name is of another kind; what is gone by now, another harness has swept.
        with suppress(ValueError, OSError):
            owner = Owner.parse("/".join(folder.name.removeprefix(_FOLDER).split("_")[:_FIELDS]))
            if owner.is_dead() and folder.lstat().st_uid == os.getuid():
                remove(folder)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_time(pid: int) -> str | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return status.rpartition(")")[2].split()[_FIELDS_AFTER_NAME]
