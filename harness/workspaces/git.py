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
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.errors import reason_of
from harness.workspaces.base import WorkspaceError, WorkspaceFault
from harness.workspaces.objects import FOLDER, OPEN_FOLDER, reach, read_folder, read_whole, write_folder
from harness.workspaces.tree import Tally, require_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GRACE_S = 3_600.0
"""What was taken within this time is spared by a collection."""
_LOOSE = 16
"""More new objects than this become a pack."""
_ADDRESS = re.compile(r"[0-9a-f]{40}")


class GitSnapshots:
    """Keeps workspaces in a bare repository, which is made where it is missing."""

    def __init__(self, repository: Path, grace_s: float = GRACE_S) -> None:
        self._repository = repository
        self._grace_s = grace_s
        try:
            self._make()
        except OSError as error:
            raise WorkspaceError(f"{repository}: {reason_of(error)}; expected a folder for snapshots") from error

    def used_by(self, store: str) -> set[str]:
        """Note that a store keeps its workspaces here, and return which others have said so."""
        noted = self._repository / "stores"
        mine = hashlib.sha256(store.encode("utf-8", "surrogateescape")).hexdigest()
        try:
            noted.mkdir(exist_ok=True)
            if not (noted / mine).exists():
                self._write_whole(noted / mine, f"{store}\n".encode("utf-8", "surrogateescape"))
            others = [file for file in noted.iterdir() if file.name != mine]
            return {file.read_text(encoding="utf-8", errors="surrogateescape").strip() for file in others}
        except OSError as error:
            raise WorkspaceError(f"{noted}: {reason_of(error)}; expected a folder for notes") from error

    def take(self, folder: Path) -> str:
        """Keep a folder and return its address."""
        objects: dict[bytes, Any] = {}
        tally = Tally()
        try:
            descriptor = os.open(folder, OPEN_FOLDER)
            try:
                address = read_folder(descriptor, (), objects, tally)
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
                    tally = Tally()
                    write_folder(store, _known(address), whole, (), tally)
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
                        read_whole(store, _known(address), FOLDER, whole)
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
                reach(store, pin.name.encode(), live)
            else:
                dropped.append(pin)
        for address in kept:
            reach(store, address.encode(), live)
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
