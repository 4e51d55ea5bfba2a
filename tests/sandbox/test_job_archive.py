"""A stream that claims to be a folder is not believed: what is not exactly right is refused, and nothing leaves the folder."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.guest.archive import ENTRY, Caps, Refusal, RefusedFault, Tally, pack, pack_end, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

CAPS = Caps(size_bytes=64 * 1024, files=20)
END = ENTRY.pack(b"E", 0, 0, 0)


class CutShortError(Exception):
    """The stream ended before its end."""


def reader(stream: bytes) -> Callable[[int], bytes]:
    """Return what gives out exactly so many bytes of the stream, as a channel does."""
    left = memoryview(stream)

    def receive(size: int) -> bytes:
        nonlocal left
        if size > len(left):
            raise CutShortError
        taken, left = bytes(left[:size]), left[size:]
        return taken

    return receive


def entry(mark: bytes, path: bytes, content: bytes = b"", mode: int = 0o644) -> bytes:
    """Return one entry of a stream."""
    return ENTRY.pack(mark, mode, len(path), len(content)) + path + content


def packed(folder: Path, *, result: bool = True) -> bytes:
    """Return the stream of a folder."""
    chunks: list[bytes] = []
    root = os.open(folder, os.O_RDONLY)
    try:
        pack(root, chunks.append, Tally(CAPS), result=result)
    finally:
        os.close(root)
    pack_end(chunks.append)
    return b"".join(chunks)


names = st.text(st.characters(whitelist_categories=["L", "N", "P"], blacklist_characters="/"), min_size=1, max_size=8)


@given(st.dictionaries(names.filter(lambda name: name not in {".", ".."}), st.binary(max_size=500), max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_folder_comes_back_as_it_was(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        for name, content in files.items():
            (Path(first, "folder")).mkdir(exist_ok=True)
            Path(first, "folder", name).write_bytes(content)
        stream = packed(Path(first))
        unpack(reader(stream), os.fsencode(second), Tally(CAPS))

        assert packed(Path(second)) == stream
        assert {path.name: path.read_bytes() for path in Path(second, "folder").glob("*")} == files


BROKEN = {
    "absolute": (entry(b"F", b"/etc/evil"), Refusal.BAD_NAME),
    "climbing": (entry(b"F", b"../evil"), Refusal.BAD_NAME),
    "climbing inside": (entry(b"D", b"a") + entry(b"F", b"a/../../evil"), Refusal.BAD_NAME),
    "a dot": (entry(b"F", b"./evil"), Refusal.BAD_NAME),
    "empty": (entry(b"F", b""), Refusal.BAD_NAME),
    "trailing slash": (entry(b"D", b"a/"), Refusal.BAD_NAME),
    "NUL": (entry(b"F", b"a\0b"), Refusal.BAD_NAME),
    "long name": (entry(b"F", b"a" * 256), Refusal.BAD_NAME),
    "long path": (ENTRY.pack(b"F", 0o644, 1025, 0) + b"a/" * 512 + b"a", Refusal.PROTOCOL_FAULT),
    "deep": (entry(b"F", b"/".join([b"a"] * 33)), Refusal.TOO_DEEP),
    "folder missing": (entry(b"F", b"a/b"), Refusal.PROTOCOL_FAULT),
    "below a file": (entry(b"F", b"a") + entry(b"F", b"a/b"), Refusal.PROTOCOL_FAULT),
    "file twice": (entry(b"F", b"a") * 2, Refusal.PROTOCOL_FAULT),
    "folder twice": (entry(b"D", b"a") * 2, Refusal.PROTOCOL_FAULT),
    "file over folder": (entry(b"D", b"a") + entry(b"F", b"a"), Refusal.PROTOCOL_FAULT),
    "set-uid": (entry(b"F", b"a", mode=0o4755), Refusal.PROTOCOL_FAULT),
    "unknown mark": (entry(b"L", b"a"), Refusal.PROTOCOL_FAULT),
    "folder with content": (entry(b"D", b"a", b"x"), Refusal.PROTOCOL_FAULT),
    "end with a name": (entry(b"E", b"a", mode=0), Refusal.PROTOCOL_FAULT),
    "too large": (ENTRY.pack(b"F", 0o644, 1, 2**63) + b"a", Refusal.TOO_LARGE),
    "too large in pages": (b"".join(entry(b"F", b"%d" % n, b"x") for n in range(17)), Refusal.TOO_LARGE),
    "too many": (b"".join(entry(b"D", b"%d" % n) for n in range(21)), Refusal.TOO_MANY_FILES),
    "refused by its writer": (entry(b"R", b"hard-link: 'a' is a hard link", mode=0), Refusal.HARD_LINK),
    "refused for no known reason": (entry(b"R", b"because", mode=0), Refusal.PROTOCOL_FAULT),
    "refused with an escape": (entry(b"R", b"hard-link: \x1b[2J", mode=0), Refusal.PROTOCOL_FAULT),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_exactly_right_is_refused(tmp_path: Path, name: str) -> None:
    """By the reader alone, and before anything is written outside of its folder."""
    stream, kind = BROKEN[name]
    root = tmp_path / "inside"
    root.mkdir()
    with pytest.raises(RefusedFault) as refused:
        unpack(reader(stream + END), os.fsencode(root), Tally(CAPS))

    assert refused.value.kind is kind
    assert refused.value.message.isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


marks = st.sampled_from([b"D", b"F", b"E", b"R", b"L", b"\0"])
paths = st.sampled_from([b"a", b"b", b"a/b", b"a/b/c", b"..", b"/", b"", b"a/", b"\xff", b"hard-link: x"]) | st.binary(
    max_size=12
)
headers = st.builds(
    lambda mark, mode, path, size, content: ENTRY.pack(mark, mode, len(path), size) + path + content,
    marks,
    st.sampled_from([0, 0o644, 0o755, 0o4755]) | st.integers(0, 2**16 - 1),
    paths,
    st.integers(0, 20) | st.integers(0, 2**64 - 1),
    st.binary(max_size=20),
)


@given(st.lists(headers | st.binary(max_size=40), max_size=12).map(b"".join))
@settings(max_examples=500, deadline=None)
def test_no_stream_does_anything_but_fill_its_folder_or_be_refused(stream: bytes) -> None:
    """Whatever comes: plain files and folders within the caps, or a refusal."""
    with tempfile.TemporaryDirectory() as outside:
        root = Path(outside, "inside")
        root.mkdir()
        tally = Tally(CAPS)
        with suppress(RefusedFault, CutShortError):
            unpack(reader(stream), os.fsencode(root), tally)
        made = list(root.rglob("*"))

        assert [path.name for path in Path(outside).iterdir()] == ["inside"]
        assert len(made) <= CAPS.files
        assert all(not path.is_symlink() and (path.is_dir() or path.is_file()) for path in made)
        assert sum(path.stat().st_size for path in made if path.is_file()) <= CAPS.size_bytes


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a device")
def test_a_device_is_refused(tmp_path: Path) -> None:
    os.mknod(tmp_path / "device", 0o020_600, os.makedev(1, 3))
    with pytest.raises(RefusedFault, match="'device' is a device"):
        packed(tmp_path)


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(RefusedFault, match="'s' is a socket"):
            packed(tmp_path)


def test_a_sparse_file_counts_as_long_as_it_says(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RefusedFault) as refused:
        packed(tmp_path)

    assert refused.value.kind is Refusal.TOO_LARGE


def test_a_folder_of_the_callers_own_may_hold_hard_links(tmp_path: Path) -> None:
    """Stores of snapshots make them; the copy has none."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("x", encoding="utf-8")
    (tmp_path / "in" / "b").hardlink_to(tmp_path / "in" / "a")
    (tmp_path / "out").mkdir()
    unpack(reader(packed(tmp_path / "in", result=False)), os.fsencode(tmp_path / "out"), Tally(CAPS))

    assert [(tmp_path / "out" / name).stat().st_nlink for name in "ab"] == [1, 1]
