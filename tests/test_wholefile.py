"""A file is written whole or not at all; what is no file of its own is written to as it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from harness import wholefile
from harness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def interrupted() -> Iterator[str]:
    yield "half of it"
    raise KeyboardInterrupt


def test_whoever_is_interrupted_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    file.write_text("old")

    with pytest.raises(KeyboardInterrupt):
        wholefile.write(file, interrupted(), "a report")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"report.md": "old"}


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    """`/dev/stdout` is one: put in its place, a file would take standard output away from the whole machine."""
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)

    wholefile.write(link, ["a", "b"], "a report")

    assert link.is_symlink()
    assert target.read_text() == "ab"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        wholefile.write(pipe, ["a report"], "a report")
        assert os.read(reader, 100) == b"a report"
    finally:
        os.close(reader)

    assert pipe.is_fifo()


def test_a_place_that_cannot_be_written_is_named_with_what_was_to_stand_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or directory; expected a place where a report can be written"):
        wholefile.write(tmp_path / "gone" / "report.md", ["text"], "a report")
