"""The header of a `discovery-tree-set/1` file: many trees in one file, each found without reading the others.

The first line names the set, its digest, and for each tree its digest, name, lines and bytes; the trees follow it one after
the other, each as it would stand in a file of its own (docs/tree-format.md). Nothing is known here of what a tree means.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import InputError, TreeError, reason_of
from harness.jsonlines import BadLine, admit, objects, shown
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from harness.jsonlines import Line

FORMAT = "discovery-tree-set/1"
_BEGINS = re.compile(rb'\s*\{\s*"format"\s*:\s*"discovery-tree-set/')
_SNIFFED_BYTES = 200
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PACK = "expected a file as `harness trees pack` wrote it"


@dataclass(frozen=True, slots=True)
class PackedTree:
    """One tree of a set: where it lies in the file, and what the header says of it."""

    path: Path
    name: str
    digest: str
    line: int
    """Number of its first line in the file."""
    lines: int
    offset: int
    size: int
    """Where its bytes begin, and how many they are."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    def read(self) -> bytes:
        """Return the tree's lines as they stand in the file.

        Raises:
            InputError: the file cannot be read.
            TreeError: its lines are not where the header says.
        """
        try:
            with open_file(self.path) as stream:
                stream.seek(self.offset)
                raw = stream.read(self.size)
        except OSError as error:
            raise InputError(f"{self.path}: {reason_of(error)}; expected a readable tree set") from error
        if len(raw) != self.size or raw.count(b"\n") != self.lines or not raw.endswith(b"\n"):
            raise TreeError(f"{self}: tree {shown(self.name)} does not end where the header says; {_PACK}")
        return raw


@dataclass(frozen=True, slots=True)
class TreeSet:
    """What the header of a set says. `digest` is that of the set of its trees, whatever they are called or packed in."""

    name: str
    digest: str
    trees: tuple[PackedTree, ...]


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading, not waiting: a pipe in a folder of trees, to which nobody writes, would hold up the command."""
    return open(path, "rb", opener=_without_waiting)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def is_set(path: Path) -> bool:
    """Say whether a file begins as a set does; False as well for what cannot be read, which reading it will tell."""
    try:
        with open_file(path) as stream:
            return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and _BEGINS.match(stream.read(_SNIFFED_BYTES)) is not None
    except OSError:
        return False


def read(path: Path) -> TreeSet:
    """Return what the header of a set says; no tree is read.

    Raises:
        InputError: the file cannot be read.
        TreeError: the header breaks the format; the message names file, line, field, value and what was expected.
    """
    try:
        with open_file(path) as stream:
            header = next(objects(str(path), stream))
            begin, end = stream.tell(), os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}; expected a readable tree set") from error
    try:
        _check(header.fields)
        found = TreeSet(header.fields["name"], header.fields["digest"], tuple(_packed(path, begin, header)))
        _refuse_other_size(found.trees, begin, end)
    except BadLine as bad:
        raise TreeError(f"{header.where}: {bad}") from None
    return found


def header_fields(name: str, trees: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the header of a set whose trees have these fields: digest, name, lines, bytes.

    Raises:
        TreeError: the name cannot be one.
    """
    listed = [dict(tree) for tree in trees]
    fields = {"format": FORMAT, "name": name, "digest": set_digest(tree["digest"] for tree in listed), "trees": listed}
    try:
        admit(fields)
        _check(fields)
    except BadLine as bad:
        raise TreeError(f"tree set {shown(name)}: {bad}") from None
    return fields


def _packed(path: Path, begin: int, header: Line) -> Iterator[PackedTree]:
    line, offset = 2, begin
    for tree in header.fields["trees"]:
        yield PackedTree(path, tree["name"], tree["digest"], line, tree["lines"], offset, tree["bytes"])
        line, offset = line + tree["lines"], offset + tree["bytes"]


def _check(fields: Mapping[str, Any]) -> None:
    if fields.get("format") != FORMAT:
        raise BadLine(f"format is {shown(fields.get('format'))}; expected {FORMAT!r}")
    _fields(fields, ("format", "name", "digest", "trees"), "")
    _word(fields["name"], "name")
    trees = fields["trees"]
    if type(trees) is not list or not trees:
        raise BadLine(f"trees is {shown(trees)}; expected a list of the trees that follow, at least one")
    seen: set[str] = set()
    for place, tree in enumerate(trees):
        where = f"trees[{place}]"
        if type(tree) is not dict:
            raise BadLine(f"{where} is {shown(tree)}; expected an object")
        _fields(tree, ("digest", "name", "lines", "bytes"), f"{where}.")
        _word(tree["name"], f"{where}.name")
        if type(tree["digest"]) is not str or not _DIGEST.fullmatch(tree["digest"]) or tree["digest"] in seen:
            raise BadLine(f"{where}.digest is {shown(tree['digest'])}; expected 64 hex digits, each tree once")
        seen.add(tree["digest"])
        for field in ("lines", "bytes"):
            if type(tree[field]) is not int or tree[field] < 1:
                raise BadLine(f"{where}.{field} is {shown(tree[field])}; expected a whole number of at least 1")
    digest = set_digest(seen)
    if fields["digest"] != digest:
        raise BadLine(f"digest is {shown(fields['digest'])}; expected that of the trees it lists, {digest}")


def _fields(fields: Mapping[str, Any], names: tuple[str, ...], prefix: str) -> None:
    for name in names:
        if name not in fields:
            raise BadLine(f"{prefix}{name} is missing; {_PACK}")
    for name in fields:
        if name not in names:
            raise BadLine(f"{prefix}{shown(name)} is no field of {FORMAT!r}; expected {', '.join(names)}")


def _word(value: Any, field: str) -> None:
    if type(value) is not str or not value.strip() or not value.isprintable():
        raise BadLine(f"{field} is {shown(value)}; expected text on one line that is not empty")


def _refuse_other_size(trees: Iterable[PackedTree], begin: int, end: int) -> None:
    said = sum(tree.size for tree in trees)
    if said != end - begin:
        raise BadLine(f"the header counts {said:,} bytes of trees and {end - begin:,} follow it; {_PACK}")
