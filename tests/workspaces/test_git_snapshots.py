"""Snapshots are exact, stay inside, are shared, and go when nobody needs them."""

from __future__ import annotations

import os
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.workspaces.base import WorkspaceError, WorkspaceFault
from harness.workspaces.git import GitSnapshots

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0", max_codepoint=0xFFFF), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."} and "git" not in name.casefold()
)
FOLDERS = st.recursive(
    st.tuples(st.binary(max_size=40), st.booleans()), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def write(folder: Path, content: dict) -> None:
    folder.mkdir()
    for name, held in content.items():
        if isinstance(held, dict):
            write(folder / name, held)
        else:
            (folder / name).write_bytes(held[0])
            (folder / name).chmod(0o755 if held[1] else 0o644)


def read(folder: Path) -> dict:
    return {
        path.name: str(path.readlink())
        if path.is_symlink()
        else read(path)
        if path.is_dir()
        else (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.iterdir()
    }


@pytest.fixture
def snapshots(tmp_path: Path) -> GitSnapshots:
    return GitSnapshots(tmp_path / "snapshots", grace_s=0.0)


@given(st.dictionaries(NAMES, FOLDERS, max_size=24))
@settings(max_examples=30, deadline=None)
def test_what_is_taken_comes_back_exactly(content: dict) -> None:
    """Bytes, executable bits and empty folders, whatever they are; and the same content has the same address."""
    with tempfile.TemporaryDirectory() as name:
        kept, folder = GitSnapshots(Path(name) / "s"), Path(name) / "w"
        write(folder, content)
        address = kept.take(folder)
        kept.restore(address, Path(name) / "again")

        assert read(Path(name) / "again") == content
        assert kept.take(Path(name) / "again") == address
        assert not list(Path(name).glob(".restoring-*"))


def test_a_link_inside_is_kept_as_a_link(snapshots: GitSnapshots, tmp_path: Path) -> None:
    write(tmp_path / "w", {"a": (b"1", False), "d": {}})
    (tmp_path / "w" / "d" / "l").symlink_to("../a")
    snapshots.restore(snapshots.take(tmp_path / "w"), tmp_path / "x")

    assert (tmp_path / "x" / "d" / "l").readlink() == Path("../a")


@pytest.mark.parametrize("target", ["/etc/passwd", "../out", "d/../../out", "m/a"])
def test_a_link_that_leads_elsewhere_is_refused(snapshots: GitSnapshots, tmp_path: Path, target: str) -> None:
    write(tmp_path / "w", {"d": {}})
    (tmp_path / "w" / "m").symlink_to("d")
    (tmp_path / "w" / "l").symlink_to(target)

    with pytest.raises(WorkspaceFault, match="the link 'l' leads"):
        snapshots.take(tmp_path / "w")


@pytest.mark.parametrize("name", [b".git", b".GIT", b".git ", ".g\u200cit".encode(), b"GIT~1", b"\xff"])
def test_a_hostile_name_is_refused(snapshots: GitSnapshots, tmp_path: Path, name: bytes) -> None:
    (tmp_path / "w").mkdir()
    Path(os.fsdecode(os.path.join(os.fsencode(tmp_path / "w"), name))).write_bytes(b"")  # noqa: PTH118 - bytes

    with pytest.raises(WorkspaceFault):
        snapshots.take(tmp_path / "w")


def test_a_pipe_is_refused(snapshots: GitSnapshots, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    os.mkfifo(tmp_path / "w" / "p")

    with pytest.raises(WorkspaceFault, match="'p' is a special file"):
        snapshots.take(tmp_path / "w")


def test_a_path_that_no_restore_could_write_is_refused_when_it_is_taken(snapshots: GitSnapshots, tmp_path: Path) -> None:
    """Each name is short enough, and folder by folder whoever made it got there."""
    inside = os.open(tmp_path, os.O_RDONLY)
    for name in ["w", *["n" * 250] * 20]:
        os.mkdir(name, dir_fd=inside)
        outside, inside = inside, os.open(name, os.O_RDONLY, dir_fd=inside)
        os.close(outside)
    os.close(inside)

    with pytest.raises(WorkspaceFault, match="has more than 3000 bytes"):
        snapshots.take(tmp_path / "w")


def test_too_much_is_refused_before_it_is_read(snapshots: GitSnapshots, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with (tmp_path / "w" / "sparse").open("wb") as stream:
        stream.truncate(2**33)

    with pytest.raises(WorkspaceFault, match="more than 256 MiB"):
        snapshots.take(tmp_path / "w")


def test_a_target_that_is_there_stays_as_it_is(snapshots: GitSnapshots, tmp_path: Path) -> None:
    write(tmp_path / "w", {"a": (b"1", False)})
    address = snapshots.take(tmp_path / "w")
    (tmp_path / "there").symlink_to("nowhere")

    with pytest.raises(WorkspaceError, match="is there already"):
        snapshots.restore(address, tmp_path / "there")
    assert not (tmp_path / "nowhere").exists()


def test_a_tampered_repository_writes_nothing_outside(snapshots: GitSnapshots, tmp_path: Path) -> None:
    """A tree whose entry is called `..` is an object like any other, and is refused when it is restored."""
    from dulwich.object_store import DiskObjectStore  # noqa: PLC0415
    from dulwich.objects import Blob, ShaFile  # noqa: PLC0415

    blob = Blob.from_string(b"x")
    tree = ShaFile.from_raw_string(2, b"100644 ../out\0" + bytes.fromhex(blob.id.decode()))
    store = DiskObjectStore(str(tmp_path / "snapshots" / "objects"))
    store.add_object(blob)
    store.add_object(tree)
    store.close()

    with pytest.raises(WorkspaceError, match="damaged"):
        snapshots.restore(tree.id.decode(), tmp_path / "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["snapshots"]


def test_a_damaged_object_is_named(snapshots: GitSnapshots, tmp_path: Path) -> None:
    """Other bytes under an object's name are found, and nothing is left of the restore."""
    write(tmp_path / "w", {"a": (b"1", False)})
    address = snapshots.take(tmp_path / "w")
    blob = "56a6051ca2b02b04ef92d5150c9ef600403cb1de"  # git's id of "1"
    file = tmp_path / "snapshots" / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 1\x002"))

    with pytest.raises(WorkspaceError, match=blob):
        snapshots.restore(address, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_all_that_cannot_be_restored_is_found_by_reading(snapshots: GitSnapshots, tmp_path: Path) -> None:
    """One whose file is damaged, and one that was never taken; what is whole is not named, and nothing is written."""
    write(tmp_path / "w", {"a": (b"1", False)})
    write(tmp_path / "v", {"inner": {"a": (b"2", False)}})
    broken, good, unknown = snapshots.take(tmp_path / "w"), snapshots.take(tmp_path / "v"), "0" * 40
    blob = "56a6051ca2b02b04ef92d5150c9ef600403cb1de"  # git's id of "1"
    file = tmp_path / "snapshots" / "objects" / blob[:2] / blob[2:]
    assert snapshots.damaged([broken, good]) == []
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 1\x002"))
    before = sorted((tmp_path / "snapshots").rglob("*"))

    found = snapshots.damaged([broken, good, unknown])

    assert found == [
        f"snapshot {unknown} cannot be restored: object {unknown} is missing",
        f"snapshot {broken} cannot be restored: object {blob} is not what its address says",
    ]
    assert sorted((tmp_path / "snapshots").rglob("*")) == before


def test_an_unknown_address_is_an_error(snapshots: GitSnapshots, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="is missing"):
        snapshots.restore("0" * 40, tmp_path / "x")
    with pytest.raises(WorkspaceError, match="is no address"):
        snapshots.restore("../../x", tmp_path / "x")


@pytest.mark.parametrize("files", [2, 40])
def test_what_nobody_names_is_removed_and_the_rest_stays_whole(snapshots: GitSnapshots, tmp_path: Path, files: int) -> None:
    """Loose or packed: what both share stays."""
    common = {f"f{number}": (os.urandom(2_000), False) for number in range(files)}
    write(tmp_path / "one", {**common, "own": (b"1", False)})
    write(tmp_path / "two", {**common, "own": (os.urandom(9_000), True)})
    one, two = snapshots.take(tmp_path / "one"), snapshots.take(tmp_path / "two")

    assert snapshots.keep_only([one]) > 9_000
    snapshots.restore(one, tmp_path / "again")
    assert read(tmp_path / "again") == read(tmp_path / "one")
    with pytest.raises(WorkspaceError, match="is missing"):
        snapshots.restore(two, tmp_path / "gone")


@pytest.mark.parametrize("lost", ["idx", "pack"])
def test_a_pack_that_was_half_written_is_written_again(snapshots: GitSnapshots, tmp_path: Path, lost: str) -> None:
    """A writer may be killed between a pack and its index."""
    write(tmp_path / "w", {f"f{number}": (os.urandom(2_000), False) for number in range(40)})
    address = snapshots.take(tmp_path / "w")
    (half,) = (tmp_path / "snapshots" / "objects" / "pack").glob(f"*.{lost}")
    half.unlink()
    assert snapshots.damaged([address]) == [f"snapshot {address} cannot be restored: object {address} is missing"]

    assert snapshots.take(tmp_path / "w") == address
    snapshots.restore(address, tmp_path / "again")
    assert read(tmp_path / "again") == read(tmp_path / "w")
    assert [path.suffix for path in sorted(half.parent.iterdir())] == [".idx", ".pack"]


def test_what_was_just_taken_is_spared(tmp_path: Path) -> None:
    """Its address may not be written down yet."""
    snapshots = GitSnapshots(tmp_path / "snapshots")
    write(tmp_path / "w", {"a": (b"1", False)})
    address = snapshots.take(tmp_path / "w")

    assert snapshots.keep_only([]) == 0
    snapshots.restore(address, tmp_path / "x")


def test_takes_beside_collections_are_never_lost(tmp_path: Path) -> None:
    snapshots = GitSnapshots(tmp_path / "snapshots")

    def one(number: int) -> str:
        write(tmp_path / f"w{number}", {"same": (b"s" * 999, False), "own": (str(number).encode(), False)})
        address = GitSnapshots(tmp_path / "snapshots").take(tmp_path / f"w{number}")
        snapshots.keep_only([])
        return address

    with ThreadPoolExecutor(4) as pool:
        addresses = list(pool.map(one, range(12)))
    for number, address in enumerate(addresses):
        snapshots.restore(address, tmp_path / f"x{number}")
        assert read(tmp_path / f"x{number}") == read(tmp_path / f"w{number}")
