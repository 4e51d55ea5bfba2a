"""Tree sets: many trees in one file, the same bytes for the same trees, each read by itself and strictly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom, tree

from harness import treefile, treeset
from harness.errors import InputError, TreeError
from harness.lazytrees import TreeFiles
from harness.tree import set_digest
from harness.treeset import PackedTree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TREES = [broom(seed, 3, 4) for seed in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three tree files whose names do not sort as the trees' own do."""
    inside = tmp_path / "trees"
    inside.mkdir()
    for made, name in zip(TREES, ("c", "a", "b"), strict=True):
        treefile.write(made, inside / f"{name}.jsonl")
    return inside


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    """Return a file that holds the three trees as one set."""
    file = tmp_path / "set.jsonl"
    treefile.pack("brooms", treefile.find([folder]), file)
    return file


def edited(file: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a set."""
    header, _, rest = file.read_bytes().partition(b"\n")
    fields = json.loads(header)
    edit(fields)
    file.write_bytes(json.dumps(fields).encode() + b"\n" + rest)


def refused(file: Path) -> str:
    """Return what finding and reading the trees of a set tells, the folder cut off."""
    with pytest.raises(TreeError) as caught:
        [treefile.read(found) for found in treefile.find([file])]
    return str(caught.value).replace(f"{file.parent}/", "")


def test_a_set_gives_back_every_tree_it_was_made_of(packed: Path) -> None:
    assert [treefile.read(found) for found in treefile.find([packed])] == TREES


def test_a_set_is_known_by_its_name_and_the_digest_of_its_trees(packed: Path) -> None:
    found = treeset.read(packed)

    assert found.name == "brooms"
    assert found.digest == set_digest(made.digest for made in TREES)


def test_the_same_trees_give_the_same_bytes_in_whatever_order_and_from_whatever_files(
    folder: Path, packed: Path, tmp_path: Path
) -> None:
    again, repacked = tmp_path / "again.jsonl", tmp_path / "repacked.jsonl"

    treefile.pack("brooms", [folder / "b.jsonl", folder / "a.jsonl", folder / "c.jsonl", folder / "a.jsonl"], again)
    treefile.pack("brooms", treefile.find([packed]), repacked)

    assert packed.read_bytes() == again.read_bytes() == repacked.read_bytes()


def test_a_tree_of_a_set_is_read_without_the_others(packed: Path) -> None:
    """What stands before and after it is overwritten: it is still the tree that the header says."""
    second = treeset.read(packed).trees[1]
    raw = bytearray(packed.read_bytes())
    header = raw.index(b"\n") + 1
    raw[header : second.offset] = b"?" * (second.offset - header)
    raw[second.offset + second.size :] = b"?" * (len(raw) - second.offset - second.size)
    packed.write_bytes(raw)

    assert TreeFiles(treefile.find([packed]))[1] == TREES[1]


def test_a_set_in_a_folder_is_found_there_among_files_of_one_tree(packed: Path, folder: Path) -> None:
    packed.rename(folder / "aa.jsonl")

    found = treefile.find([folder])

    assert [type(one) for one in found] == [type(folder), PackedTree, PackedTree, PackedTree, type(folder), type(folder)]


def test_a_tree_of_a_set_is_named_by_file_and_line(packed: Path) -> None:
    assert [str(one) for one in treefile.find([packed])] == [f"{packed}:{line}" for line in (2, 15, 28)]


def test_what_is_wrong_in_a_tree_is_named_by_its_line_in_the_set(packed: Path) -> None:
    lines = packed.read_bytes().splitlines(keepends=True)
    lines[16] = lines[16].replace(b'"parent": null', b'"parent": "zz"').replace(b', "status": "ok"', b"")
    packed.write_bytes(b"".join(lines))
    edited(packed, lambda header: header["trees"][1].update(bytes=sum(map(len, lines[14:27]))))

    assert (
        refused(packed) == "set.jsonl:17: node 'c1-0' has the unknown parent 'zz'; expected an earlier node, or null for the root"
    )


def test_a_tree_that_was_changed_is_refused(packed: Path) -> None:
    raw = packed.read_bytes()
    packed.write_bytes(raw.replace(b'"task-1"', b'"task-0"'))

    said = f"tree 'broom-1' has the digest {replace(TREES[1], task='task-0').digest[:12]}"
    assert refused(packed) == (
        f"set.jsonl:15: {said} and the header says {TREES[1].digest[:12]}; expected a set as it was packed"
    )


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (
            lambda header: header.update(format="discovery-tree-set/2"),
            "format is 'discovery-tree-set/2'; expected 'discovery-tree-set/1'",
        ),
        (lambda header: header.pop("name"), "name is missing; expected a file as `harness trees pack` wrote it"),
        (lambda header: header.update(name="two\nlines"), "name is 'two\\nlines'; expected text on one line that is not empty"),
        (
            lambda header: header.update(more=1),
            "'more' is no field of 'discovery-tree-set/1'; expected format, name, digest, trees",
        ),
        (lambda header: header.update(trees=[]), "trees is []; expected a list of the trees that follow, at least one"),
        (lambda header: header.update(digest="0"), "digest is '0'; expected that of the trees it lists, "),
        (lambda header: header["trees"].append(header["trees"][0]), "; expected 64 hex digits, each tree once"),
        (lambda header: header["trees"][2].update(lines=0), "trees[2].lines is 0; expected a whole number of at least 1"),
        (lambda header: header["trees"][2].update(bytes=True), "trees[2].bytes is True; expected a whole number of at least 1"),
        (lambda header: header["trees"][2].update(bytes=7), " bytes of trees and "),
    ],
)
def test_a_header_that_breaks_the_format_is_named_by_field_and_value(
    packed: Path, edit: Callable[[dict[str, Any]], None], told: str
) -> None:
    edited(packed, edit)

    message = refused(packed)
    assert message.startswith("set.jsonl:1: ")
    assert told in message


def test_a_tree_that_does_not_end_where_the_header_says_is_refused(packed: Path) -> None:
    def shift(header: dict[str, Any]) -> None:
        header["trees"][0]["bytes"] += 1
        header["trees"][1]["bytes"] -= 1

    edited(packed, shift)

    assert "set.jsonl:2: tree 'broom-0' does not end where the header says" in refused(packed)


def test_a_name_that_is_none_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="name is ' '; expected text on one line"):
        treefile.pack(" ", treefile.find([folder]), tmp_path / "set.jsonl")

    assert not (tmp_path / "set.jsonl").exists()


def test_a_place_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or directory; expected a place where a tree set can be written"):
        treefile.pack("brooms", treefile.find([folder]), tmp_path / "nowhere" / "set.jsonl")


def test_a_tree_file_with_the_words_of_a_set_in_it_is_one_tree(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    treefile.write(replace(tree("root>a"), name='{"format": "discovery-tree-set/1"'), file)

    assert treefile.find([file]) == [file]
