"""Read and write recorded trees as `discovery-tree/1` files: JSON Lines, a header and then one node a line (docs/tree-format.md).

Reading is strict and takes one line at a time: the first thing that is wrong ends it with the file, the line, the field, the
value and what was expected. What this version does not know is kept, so that a file survives reading and writing. Writing
never leaves half a file, and never a file that reading refuses.

A file may also hold a whole set of trees (`harness.treeset`); each is then found and read by itself.
"""

from __future__ import annotations

import json
import os
import stat
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from harness import treeset, wholefile
from harness.errors import InputError, TreeError, reason_of
from harness.jsonlines import BadLine, Line, admit, objects, shown
from harness.tree import attempt_fields, attempt_of, header_fields, tree_of
from harness.treefields import check_header, check_node
from harness.treeset import PackedTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.tree import Attempt, Tree
    from harness.treeset import TreeSet


TreeFile: TypeAlias = Path | PackedTree
"""Where a tree lies: in a file of its own, or in one that holds a set."""


def read(file: TreeFile) -> Tree:
    """Return the tree of one file, or of one place in a set.

    Raises:
        InputError: the file cannot be read.
        TreeError: the file breaks the format; the message names file, line, field, value and what was expected.
    """
    if isinstance(file, PackedTree):
        return _unpacked(file)
    try:
        with treeset.open_file(file) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InputError(f"{file}: is a pipe or a device; expected a regular file, since trees are read more than once")
            return _tree(str(file), objects(str(file), stream))
    except OSError as error:
        raise InputError(f"{file}: {reason_of(error)}; expected a readable tree file") from error


def _unpacked(packed: PackedTree) -> Tree:
    tree = _tree(str(packed), objects(str(packed.path), BytesIO(packed.read()), packed.line))
    if tree.digest != packed.digest:
        said = f"tree {shown(tree.name)} has the digest {tree.digest[:12]} and the header says {packed.digest[:12]}"
        raise TreeError(f"{packed}: {said}; expected a set as it was packed")
    return tree


def path_of(file: TreeFile) -> Path:
    """Return the file that a tree lies in."""
    return file.path if isinstance(file, PackedTree) else file


def pack(name: str, files: Iterable[TreeFile], path: Path) -> TreeSet:
    """Write the trees of these files as one set, each once, whole or not at all. The same trees give the same bytes.

    Trees are read twice, one at a time: for the header, which says where each one lies, and for their lines.

    Raises:
        InputError: a file cannot be read, has changed meanwhile, or the place cannot be written.
        TreeError: a tree breaks the format, or the name cannot be one.
    """
    found: dict[str, TreeFile] = {}
    listed: list[dict[str, Any]] = []
    for file in files:
        tree = read(file)
        if tree.digest not in found:
            found[tree.digest] = file
            sizes = [len(line.encode()) for line in lines(tree)]
            listed.append({"digest": tree.digest, "name": tree.name, "lines": len(sizes), "bytes": sum(sizes)})
    listed.sort(key=lambda one: (one["name"], one["digest"]))
    header = treeset.header_fields(name, listed)
    in_order = [(digest, found[digest]) for digest in (one["digest"] for one in listed)]
    wholefile.write(path, _packed(header, in_order), "a tree set")
    return treeset.read(path)


def _packed(header: Mapping[str, Any], files: Iterable[tuple[str, TreeFile]]) -> Iterator[str]:
    yield json.dumps(header, ensure_ascii=False, allow_nan=False) + "\n"
    for digest, file in files:
        tree = read(file)
        if tree.digest != digest:
            raise InputError(f"{file}: the file has changed while it was packed; run the command again")
        yield from lines(tree)


def write(tree: Tree, path: Path) -> None:
    """Write a tree whole or not at all, replacing what was there.

    Raises:
        InputError: the place cannot be written.
        TreeError: the tree holds what the format cannot express, such as an infinite score.
    """
    wholefile.write(path, lines(tree), "a tree file")


def lines(tree: Tree) -> Iterator[str]:
    """Yield a tree's lines, each with its line end.

    Raises:
        TreeError: before the first line, when the tree holds what the format cannot express.
    """
    fields = [header_fields(tree), *map(attempt_fields, tree.attempts)]
    for number, line in enumerate(fields, start=1):
        try:
            admit(line)
        except BadLine as bad:
            raise TreeError(f"{tree.name}: line {number}: {bad}") from None
    again = _tree(tree.name, (Line(f"{tree.name}: line {number}", line) for number, line in enumerate(fields, start=1)))
    if again != tree:
        raise TreeError(
            f"{tree.name}: the tree would not survive its file; expected no known field in `extra`, and null for no value"
        )
    for line in fields:
        yield json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def find(paths: Iterable[Path]) -> list[TreeFile]:
    """Return the trees in files and folders, each file once: sorted by path, those of a set in its order.

    Folders are searched to any depth for `*.jsonl`; a file may hold one tree or a set of them.

    Raises:
        InputError: a path does not exist, or a folder holds no tree file or cannot be searched.
        TreeError: a file that begins as a set does breaks that format.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(_inside(path))
            if not inside:
                raise InputError(f"{path}: no tree in this folder; expected *.jsonl files in it or below")
        elif path.exists():
            inside = [path]
        else:
            raise InputError(f"{path}: no such file or folder; expected tree files or folders that hold them")
        for file in inside:
            found.setdefault(file.resolve(), file)
    return [tree for file in sorted(found.values()) for tree in _trees_in(file)]


def _trees_in(file: Path) -> Sequence[TreeFile]:
    return treeset.read(file).trees if treeset.is_set(file) else [file]


def _inside(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> NoReturn:
        raise InputError(f"{error.filename}: {reason_of(error)}; expected a folder that can be searched") from error

    for where, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(where, name) for name in names if name.endswith(".jsonl"))


def _tree(name: str, numbered: Iterable[Line]) -> Tree:
    rest = iter(numbered)
    header = next(rest, None)
    if header is None:
        raise TreeError(f"{name}: file is empty; expected a header line and then one node a line")
    _check(header, check_header)
    return tree_of(header.fields, _attempts(header.fields.get("root", {}).get("id"), rest))


def _attempts(root_id: str | None, rest: Iterator[Line]) -> Iterator[Attempt]:
    places: dict[str, str] = {}
    for line in rest:
        _check(line, check_node)
        node, parent = line.fields["id"], line.fields["parent"]
        if node in places:
            raise TreeError(f"{line.where}: id {shown(node)} is taken by {places[node]}; ids must be unique")
        if node == root_id:
            raise TreeError(f"{line.where}: id {shown(node)} is the root's, which stands in the header; leave this line out")
        if parent is not None and parent not in places:
            raise TreeError(f"{line.where}: {_orphan(node, parent, root_id, rest)}")
        places[node] = line.where
        yield attempt_of(line.fields)


def _orphan(node: str, parent: str, root_id: str | None, rest: Iterator[Line]) -> str:
    """Say why a parent is not there: reads on, as far as the file allows, to tell a later parent from an unknown one."""
    if parent == node:
        return f"node {shown(node)} is its own parent; expected an earlier node, or null for the root"
    if parent == root_id:
        return f"parent {shown(parent)} is the root, which nodes name as null; write null"
    later: dict[Any, Any] = {}
    try:
        for line in rest:
            if isinstance(line.fields.get("id"), str):
                later[line.fields["id"]] = line.fields.get("parent")
    except TreeError:
        pass  # the first thing wrong is what is told; what follows it only helps to tell it
    if parent not in later:
        root = "; null is the root" if parent in ("root", "", "0", "null", "None") else ""
        return f"node {shown(node)} has the unknown parent {shown(parent)}; expected an earlier node, or null for the root{root}"
    above: Any = later[parent]
    passed = {parent}
    while isinstance(above, str) and above not in passed:
        passed.add(above)
        if above == node:
            return f"node {shown(node)} descends from itself through its parent {shown(parent)}; expected no cycle"
        above = later.get(above)
    return f"node {shown(node)} comes before its parent {shown(parent)}; put parents first"


def _check(line: Line, check: Callable[[Mapping[str, Any]], None]) -> None:
    try:
        check(line.fields)
    except BadLine as bad:
        raise TreeError(f"{line.where}: {bad}") from None
