"""Copy a workspace that a stranger left, without following a link and without taking more than was agreed."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from harness.task.base import AGENT_FOLDER
from sandbox.guest.archive import Caps, Refusal, RefusedFault, Tally, check_path, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.job import JobLimits

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 2**20
_AS_INPUT = b"workspace/"
"""What stands before the name of each file when the evaluator gets it: it counts in how long and how deep a path may be."""


def copy(workspace: Path, target: Path, limits: JobLimits) -> None:
    """Fill `target`, which is made, with the workspace's files and folders; the agent's own folder stays out.

    Raises:
        RefusedFault: the workspace holds a link or a special file, a name that no job takes, or too much.
        OSError: it cannot be read or written.
    """
    target.mkdir()
    _copy_folder(workspace, target, b"", Tally(Caps(limits.workspace_bytes, limits.workspace_files)))


def check_names(workspace: Path) -> None:
    """Refuse what a job has left under a name that is too long or too deep for it to be another job's input.

    Raises:
        RefusedFault: there is such a name.
    """
    for path in workspace.rglob("*"):
        check_path(_AS_INPUT + os.fsencode(path.relative_to(workspace)))


def _copy_folder(source: Path, target: Path, prefix: bytes, tally: Tally) -> None:
    with _readable(prefix), os.scandir(source) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        if not prefix and entry.name == AGENT_FOLDER:
            continue
        path = prefix + os.fsencode(entry.name)
        check_path(_AS_INPUT + path)
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            tally.add(path, 0)
            (target / entry.name).mkdir()
            _copy_folder(source / entry.name, target / entry.name, path + b"/", tally)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(source / entry.name, target / entry.name, path, tally)
        else:
            what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a special file"
            kind = Refusal.SYMBOLIC_LINK if stat.S_ISLNK(status.st_mode) else Refusal.SPECIAL_FILE
            raise RefusedFault(kind, f"{shown(path)} is {what}; a workspace that is scored holds plain files and folders")


@contextmanager
def _readable(path: bytes) -> Iterator[None]:
    """Refuse what whoever left it does not let us read: that is the workspace's fault and none of ours."""
    try:
        yield
    except PermissionError:
        raise RefusedFault(Refusal.SPECIAL_MODE, f"{shown(path)} cannot be read; its owner may not") from None


def _copy_file(source: Path, target: Path, path: bytes, tally: Tally) -> None:
    with ExitStack() as stack:
        with _readable(path):
            reading = os.open(source, _FILE)
        stack.callback(os.close, reading)
        status = os.fstat(reading)
        tally.add(path, status.st_size)
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, status.st_mode & 0o755 | 0o600)
        stack.callback(os.close, writing)
        left = status.st_size
        while left and (chunk := os.read(reading, min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            while chunk:
                chunk = chunk[os.write(writing, chunk) :]
