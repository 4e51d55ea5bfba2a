"""What a snapshot is made of: git's trees and blobs, read from a folder, written to one, or looked up in a store.

Nothing is believed of a store: what it gives must be what its address says.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from typing import TYPE_CHECKING, Any

from harness.workspaces.base import WorkspaceError, WorkspaceFault

if TYPE_CHECKING:
    from pathlib import Path

    from dulwich.objects import ObjectID

    from harness.workspaces.tree import Tally

FOLDER = 0o040000
"""The mode of a folder, as git has it."""
_PLAIN, _PROGRAM, _LINK = 0o100644, 0o100755, 0o120000
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_folder(descriptor: int, place: tuple[bytes, ...], objects: dict[bytes, Any], tally: Tally) -> ObjectID:
    """Read an open folder into `objects`, by their ids, and return its own; `place` is its path below the workspace.

    Raises:
        WorkspaceFault: it holds what no snapshot may, or changed while it was read.
        OSError: it cannot be read.
    """
    from dulwich.objects import Tree  # noqa: PLC0415 - paid by those who use snapshots

    tree = Tree()
    with os.scandir(descriptor) as scan:
        names = sorted(os.fsencode(entry.name) for entry in scan)
    for name in names:
        here = (*place, name)
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        regular = stat.S_ISREG(status.st_mode)
        tally.add(here, status.st_size if regular else 0)
        if stat.S_ISDIR(status.st_mode):
            inner = os.open(name, OPEN_FOLDER, dir_fd=descriptor)
            try:
                tree.add(name, FOLDER, read_folder(inner, here, objects, tally))
            finally:
                os.close(inner)
        elif stat.S_ISLNK(status.st_mode):
            tally.links[here] = os.readlink(name, dir_fd=descriptor)
            tree.add(name, _LINK, _kept(tally.links[here], objects))
        elif regular:
            held = _read_file(descriptor, name, status.st_size)
            tree.add(name, _PROGRAM if status.st_mode & stat.S_IXUSR else _PLAIN, _kept(held, objects))
        else:
            raise WorkspaceFault(f"{b'/'.join(here).decode()!r} is a special file")
    objects[tree.id] = tree
    return tree.id


def _read_file(folder: int, name: bytes, size: int) -> bytes:
    with os.fdopen(os.open(name, _OPEN_FILE, dir_fd=folder), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise WorkspaceFault(f"{name.decode()!r} became a special file while it was read")
        held = stream.read(size + 1)
    if len(held) != size:
        raise WorkspaceFault(f"{name.decode()!r} changed while it was read")
    return held


def _kept(held: bytes, objects: dict[bytes, Any]) -> ObjectID:
    from dulwich.objects import Blob  # noqa: PLC0415 - as above

    blob = Blob.from_string(held)
    objects[blob.id] = blob
    return blob.id


def write_folder(store: Any, sha: bytes, folder: Path, place: tuple[bytes, ...], tally: Tally) -> None:
    """Make a folder of what a store holds of it. Links are not made: `tally.links` has them.

    Raises:
        WorkspaceFault: some of it is missing, damaged, or what no snapshot may hold.
        OSError: it cannot be written.
    """
    folder.mkdir()
    for name, mode, inner in _entries(store, sha):
        here = (*place, name)
        held = b"" if mode == FOLDER else _object(store, inner, b"blob")
        tally.add(here, len(held))
        path = folder / os.fsdecode(name)
        if mode == FOLDER:
            write_folder(store, inner, path, here, tally)
        elif mode == _LINK:
            tally.links[here] = held
        elif mode in {_PLAIN, _PROGRAM}:
            with path.open("xb") as stream:
                stream.write(held)
            if mode == _PROGRAM:
                path.chmod(0o755)
        else:
            raise WorkspaceFault(f"object {sha.decode()} has an entry of mode {mode:o}")


def _entries(store: Any, sha: bytes) -> list[tuple[bytes, int, bytes]]:
    """Return name, mode and id of what a folder holds."""
    from dulwich.errors import ObjectFormatException  # noqa: PLC0415 - as above
    from dulwich.objects import Tree  # noqa: PLC0415 - as above

    try:
        tree = Tree.from_string(_object(store, sha, b"tree"))
        return [(bytes(entry.path), entry.mode, bytes(entry.sha)) for entry in tree.iteritems()]
    except (ObjectFormatException, ValueError) as error:
        raise WorkspaceFault(f"object {sha.decode()} is no folder") from error


def _object(store: Any, sha: bytes, kind: bytes) -> bytes:
    """Return an object's bytes, which must have the id that they were asked for by."""
    from dulwich.errors import ChecksumMismatch, ObjectFormatException  # noqa: PLC0415 - as above

    try:
        _, held = store.get_raw(sha)
    except KeyError:
        raise WorkspaceFault(f"object {sha.decode()} is missing") from None
    except (ChecksumMismatch, ObjectFormatException, zlib.error, ValueError, AssertionError, EOFError) as error:
        raise WorkspaceFault(f"object {sha.decode()} cannot be read") from error
    if hashlib.sha1(b"%s %d\0" % (kind, len(held)) + held, usedforsecurity=False).hexdigest().encode() != sha:
        raise WorkspaceFault(f"object {sha.decode()} is not what its address says")
    return bytes(held)


def reach(store: Any, sha: bytes, live: set[bytes]) -> None:
    """Add the ids of what a snapshot is made of; where some of it is damaged nothing may be removed.

    Raises:
        WorkspaceError: some of it is damaged.
    """
    if sha in live:
        return
    live.add(sha)
    try:
        for _, mode, inner in _entries(store, sha):
            if mode == FOLDER:
                reach(store, inner, live)
            else:
                live.add(inner)
    except WorkspaceFault as fault:
        raise WorkspaceError(f"a snapshot that is kept is damaged: {fault}; nothing was removed") from fault


def read_whole(store: Any, sha: bytes, mode: int, whole: set[bytes]) -> None:
    """Read all that a folder or file is made of, but what is known to be whole, and add it to that.

    Raises:
        WorkspaceFault: some of it is missing or damaged.
    """
    if sha in whole:
        return
    if mode == FOLDER:
        for _, inner_mode, inner in _entries(store, sha):
            read_whole(store, inner, inner_mode, whole)
    else:
        _object(store, sha, b"blob")
    whole.add(sha)
