"""Snapshots in one bare git repository, which `git` reads too: a snapshot is a tree, its address the tree's id.

Many new objects are written as one pack, a few as loose files: a pack costs one wait for the disk, and too many are slow to
search. Writing and collecting hold a lock alone that restores share; a collection spares what was taken a while ago or less,
since whoever took that may not have written its address down yet. An empty folder is an empty tree, which git keeps by itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.errors import reason_of
from harness.workspaces.base import WorkspaceError, WorkspaceFault
from harness.workspaces.tree import require_links, require_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dulwich.objects import ObjectID

GRACE_S = 3_600.0
"""What was taken within this time is spared by a collection."""
MOST_BYTES = 256 * 2**20
MOST_ENTRIES = 20_000
DEEPEST = 64
_PATH_BYTES = 3_000
"""Longer paths no folder could be restored to: a system call takes 4,096 bytes, and what is above the workspace counts."""
_SHOWN = 200
_LOOSE = 16
"""More new objects than this become a pack."""
_FOLDER, _PLAIN, _PROGRAM, _LINK = 0o040000, 0o100644, 0o100755, 0o120000
_ADDRESS = re.compile(r"[0-9a-f]{40}")
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class _Tally:
    """What has been read or written of one workspace."""

    size: int = 0
    entries: int = 0
    links: dict[tuple[bytes, ...], bytes] = field(default_factory=dict)

    def add(self, place: tuple[bytes, ...], size: int) -> None:
        """Count one entry.

        Raises:
            WorkspaceFault: it is too much, or its name is refused.
        """
        shown = b"/".join(place).decode("utf-8", "backslashreplace")
        require_name(place[-1], shown)
        self.entries += 1
        self.size += size
        if len(place) > DEEPEST:
            raise WorkspaceFault(f"{shown!r} lies more than {DEEPEST} folders deep")
        if len(b"/".join(place)) > _PATH_BYTES:
            raise WorkspaceFault(f"the path {shown[:_SHOWN]!r}… has more than {_PATH_BYTES} bytes")
        if self.entries > MOST_ENTRIES:
            raise WorkspaceFault(f"the workspace has more than {MOST_ENTRIES} files and folders")
        if self.size > MOST_BYTES:
            raise WorkspaceFault(f"the workspace has more than {MOST_BYTES // 2**20} MiB")


class GitSnapshots:
    """Keeps workspaces in a bare repository, which is made where it is missing."""

    def __init__(self, repository: Path, grace_s: float = GRACE_S) -> None:
        self._repository = repository
        self._grace_s = grace_s
        try:
            self._make()
        except OSError as error:
            raise WorkspaceError(f"{repository}: {reason_of(error)}; expected a folder for snapshots") from error

    def take(self, folder: Path) -> str:
        """Keep a folder and return its address."""
        objects: dict[bytes, Any] = {}
        tally = _Tally()
        try:
            descriptor = os.open(folder, _OPEN_FOLDER)
            try:
                address = _read_folder(descriptor, (), objects, tally)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise WorkspaceFault(f"the workspace cannot be read: {reason_of(error)}: {error.filename}") from error
        require_links(tally.links)
        try:
            with self._locked(fcntl.LOCK_EX) as store:
                self._write(store, objects)
                self._pin(address.decode())
        except OSError as error:
            raise WorkspaceError(f"{self._repository}: a snapshot cannot be written: {reason_of(error)}") from error
        return address.decode()

    def restore(self, address: str, folder: Path) -> None:
        """Fill a folder that is not there yet: under a name of its own first, so that it is whole or not there."""
        if os.path.lexists(folder):
            raise WorkspaceError(f"{folder}: is there already; a snapshot is restored into a folder that is not")
        try:
            with self._locked(fcntl.LOCK_SH) as store:
                made = Path(tempfile.mkdtemp(prefix=".restoring-", dir=folder.parent))
                try:
                    whole = made / "whole"
                    tally = _Tally()
                    _write_folder(store, _known(address), whole, (), tally)
                    require_links(tally.links)
                    for place, target in tally.links.items():
                        whole.joinpath(*map(os.fsdecode, place)).symlink_to(os.fsdecode(target))
                    whole.rename(folder)
                finally:
                    shutil.rmtree(made)
        except WorkspaceFault as fault:
            raise WorkspaceError(f"snapshot {address} is damaged: {fault}") from fault
        except OSError as error:
            raise WorkspaceError(f"snapshot {address} cannot be restored to {folder}: {reason_of(error)}") from error

    def keep_only(self, addresses: Iterable[str]) -> int:
        """Remove all other snapshots and what they alone hold, and return the bytes that this freed."""
        kept = {_known(address).decode() for address in addresses}
        try:
            with self._locked(fcntl.LOCK_EX) as store:
                return self._collect(store, kept)
        except OSError as error:
            raise WorkspaceError(f"{self._repository}: cannot be cleaned up: {reason_of(error)}") from error

    def damaged(self, addresses: Iterable[str]) -> list[str]:
        """Read snapshots whole, write nothing, and return a sentence on each that could not be restored."""
        found: list[str] = []
        whole: set[bytes] = set()
        try:
            with self._locked(fcntl.LOCK_SH) as store:
                for address in sorted(addresses):
                    try:
                        _read_whole(store, _known(address), _FOLDER, whole)
                    except (WorkspaceFault, WorkspaceError) as trouble:
                        found.append(f"snapshot {address} cannot be restored: {trouble}")
        except OSError as error:
            raise WorkspaceError(f"{self._repository}: cannot be read: {reason_of(error)}") from error
        return found

    def _collect(self, store: Any, kept: set[str]) -> int:
        before = _bytes_below(self._repository / "objects")
        young = time.time() - self._grace_s
        live: set[bytes] = set()
        dropped = []
        for pin in self._pins().iterdir():
            if pin.name in kept or pin.stat().st_mtime > young:
                _reach(store, pin.name.encode(), live)
            else:
                dropped.append(pin)
        for address in kept:
            _reach(store, address.encode(), live)
        for pin in dropped:
            pin.unlink()
        for pack in list(store.packs):
            held = set(pack)
            if held <= live:
                continue
            if staying := [(store[sha], None) for sha in sorted(held & live)]:
                self._add_pack(store, staying)
            base = Path(os.fsdecode(pack._basename))  # noqa: SLF001 - dulwich names it nowhere else
            pack.close()
            base.with_suffix(".idx").unlink()
            base.with_suffix(".pack").unlink()
        for file in (self._repository / "objects").glob("??/*"):
            if len(file.name) == 38 and (file.parent.name + file.name).encode() not in live:  # noqa: PLR2004 - of 40 digits
                file.unlink()
        return max(0, before - _bytes_below(self._repository / "objects"))

    def _make(self) -> None:
        if (self._repository / "HEAD").exists() and self._pins().is_dir():
            return
        for name in ("objects/info", "objects/pack", "refs/heads"):
            (self._repository / name).mkdir(parents=True, exist_ok=True)
        self._pins().mkdir(parents=True, exist_ok=True)
        (self._repository / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        (self._repository / "HEAD").write_text("ref: refs/heads/main\n")

    def _pins(self) -> Path:
        return self._repository / "refs" / "snapshots"

    def _pin(self, address: str) -> None:
        """Have git and collections know that a snapshot is wanted, from now on."""
        pin = self._pins() / address
        if pin.exists():
            os.utime(pin)
            return
        self._write_whole(pin, f"{address}\n".encode())

    @contextmanager
    def _locked(self, how: int) -> Iterator[Any]:
        from dulwich.object_store import DiskObjectStore  # noqa: PLC0415 - paid by those who use snapshots

        with (self._repository / "snapshots.lock").open("ab") as lock:
            fcntl.flock(lock, how)
            # Opened anew: a collection of another process may have removed packs that this one knew.
            store = DiskObjectStore(
                str(self._repository / "objects"),
                pack_compression_level=1,
                fsync_object_files=True,
            )
            try:
                yield store
            finally:
                store.close()

    def _write(self, store: Any, objects: dict[bytes, Any]) -> None:
        new = [made for sha, made in objects.items() if sha not in store]
        if len(new) > _LOOSE:
            self._add_pack(store, [(made, None) for made in new])
            return
        # Not by dulwich, whose lock files outlive a writer that is killed and stop the next one.
        for made in new:
            sha = made.id.decode()
            folder = self._repository / "objects" / sha[:2]
            folder.mkdir(exist_ok=True)
            self._write_whole(folder / sha[2:], made.as_legacy_object(compression_level=1))
        if new:
            _settle(self._repository / "objects")

    def _write_whole(self, file: Path, held: bytes) -> None:
        with self._whole(file) as stream:
            stream.write(held)

    @contextmanager
    def _whole(self, file: Path) -> Iterator[BinaryIO]:
        """Open what becomes a file once it has been written and is on the disk."""
        handle, name = tempfile.mkstemp(dir=self._repository)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(handle)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _settle(file.parent)

    def _add_pack(self, store: Any, objects: list[tuple[Any, None]]) -> None:
        """Write objects as one pack, named by what it holds, its index last: without one it is not there."""
        from dulwich.pack import write_pack_index, write_pack_objects  # noqa: PLC0415 - as above

        # Not by `store.add_objects`, which inflates four times what it has just written: half the time of a first take.
        name = hashlib.sha1(b"".join(sorted(made.sha().digest() for made, _ in objects)), usedforsecurity=False).hexdigest()
        base = self._repository / "objects" / "pack" / f"pack-{name}"
        if base.with_suffix(".pack").exists() and base.with_suffix(".idx").exists():
            return
        with self._whole(base.with_suffix(".pack")) as stream:
            places, checksum = write_pack_objects(stream, objects, store.object_format, compression_level=1)
        index = sorted((sha, place, crc) for sha, (place, crc) in places.items())
        with self._whole(base.with_suffix(".idx")) as stream:
            write_pack_index(stream, index, checksum)


def _read_folder(descriptor: int, place: tuple[bytes, ...], objects: dict[bytes, Any], tally: _Tally) -> ObjectID:
    from dulwich.objects import Tree  # noqa: PLC0415 - as above

    tree = Tree()
    with os.scandir(descriptor) as scan:
        names = sorted(os.fsencode(entry.name) for entry in scan)
    for name in names:
        here = (*place, name)
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        regular = stat.S_ISREG(status.st_mode)
        tally.add(here, status.st_size if regular else 0)
        if stat.S_ISDIR(status.st_mode):
            inner = os.open(name, _OPEN_FOLDER, dir_fd=descriptor)
            try:
                tree.add(name, _FOLDER, _read_folder(inner, here, objects, tally))
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


def _write_folder(store: Any, sha: bytes, folder: Path, place: tuple[bytes, ...], tally: _Tally) -> None:
    folder.mkdir()
    for name, mode, inner in _entries(store, sha):
        here = (*place, name)
        held = b"" if mode == _FOLDER else _object(store, inner, b"blob")
        tally.add(here, len(held))
        path = folder / os.fsdecode(name)
        if mode == _FOLDER:
            _write_folder(store, inner, path, here, tally)
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


def _reach(store: Any, sha: bytes, live: set[bytes]) -> None:
    """Add what a snapshot is made of; where some of it is damaged nothing may be removed."""
    if sha in live:
        return
    live.add(sha)
    try:
        for _, mode, inner in _entries(store, sha):
            if mode == _FOLDER:
                _reach(store, inner, live)
            else:
                live.add(inner)
    except WorkspaceFault as fault:
        raise WorkspaceError(f"a snapshot that is kept is damaged: {fault}; nothing was removed") from fault


def _read_whole(store: Any, sha: bytes, mode: int, whole: set[bytes]) -> None:
    """Read all that a folder or file is made of, but what is known to be whole."""
    if sha in whole:
        return
    if mode == _FOLDER:
        for _, inner_mode, inner in _entries(store, sha):
            _read_whole(store, inner, inner_mode, whole)
    else:
        _object(store, sha, b"blob")
    whole.add(sha)


def _known(address: str) -> bytes:
    if not _ADDRESS.fullmatch(address):
        raise WorkspaceError(f"{address!r} is no address of a snapshot; expected 40 digits of 0-9a-f")
    return address.encode()


def _settle(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
