"""Tree files: read strictly with one clear error each, written whole or not at all, and equal after both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import tree

from harness import jsonlines, treefields, treefile
from harness.errors import InputError, TreeError
from harness.tree import Attempt, Direction, Root, Tree
from sandbox.api import Frontier

DOCS = Path(__file__).parents[1] / "docs" / "tree-format.md"

HEADER = {"format": "discovery-tree/1", "name": "t7", "direction": "max", "frontier": "leaf", "root": {"score": 0.5}}


def node(name: str, parent: str | None = None, score: Any = 1.0, **more: Any) -> dict[str, Any]:
    return {"id": name, "parent": parent, "score": score, **more}


def text(*lines: dict[str, Any] | str) -> str:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def error_of(content: str | bytes, folder: Path) -> str:
    """Return what reading this content tells, the folder cut off."""
    file = folder / "t7.jsonl"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TreeError) as caught:
        treefile.read(file)
    return str(caught.value).replace(f"{folder}/", "")


# What is read


def test_all_recorded_trees_load_and_survive_reading_and_writing(shared: Path, tmp_path: Path) -> None:
    files = treefile.find([shared / "trees"])
    for file in files:
        first = treefile.read(file)
        treefile.write(first, tmp_path / "again.jsonl")
        again = treefile.read(tmp_path / "again.jsonl")
        assert again == first, file
        assert again.digest == first.digest, file
    assert len(files) == 305


def test_every_field_arrives_and_unknown_ones_are_kept(tmp_path: Path) -> None:
    root = {"score": -1, "metrics": {"loss": 2}, "id": "seed", "note": [1]}
    header = HEADER | {"task": "packing", "direction": "min", "frontier": "any", "source": {"system": "s"}, "lab": {"x": None}}
    full = node(
        "b",
        "a",
        None,
        status="failed",
        metrics={"m": 1.5},
        feedback="no",
        cost={"seconds": 3, "gpu_hours": 0.1},
        hypothesis="wider",
        parents=["a", "elsewhere"],
        snapshot="sha256:0",
        terminal=False,
        created_at="2026-01-01T00:00:00Z",
        island=3,
    )
    file = tmp_path / "t7.jsonl"
    file.write_text(text(header | {"root": root, "created_at": 12.5}, node("a"), full))

    found = treefile.read(file)

    assert found == Tree(
        "t7",
        (
            Attempt("a", None, 1.0),
            Attempt(
                "b",
                "a",
                None,
                "failed",
                {"m": 1.5},
                "no",
                {"seconds": 3, "gpu_hours": 0.1},
                "wider",
                ("a", "elsewhere"),
                "sha256:0",
                terminal=False,
                created_at="2026-01-01T00:00:00Z",
                extra={"island": 3},
            ),
        ),
        task="packing",
        direction=Direction.MIN,
        frontier=Frontier.ANY,
        root=Root(-1, {"loss": 2}, "seed", {"note": [1]}),
        source={"system": "s"},
        created_at=12.5,
        extra={"lab": {"x": None}},
    )
    treefile.write(found, file)
    assert treefile.read(file) == found


def test_header_may_leave_out_all_but_format_and_name(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(text({"format": "discovery-tree/1", "name": "t"}))
    assert treefile.read(file) == Tree("t", ())


@pytest.mark.parametrize(
    "content",
    [
        text(HEADER, node("a")).rstrip("\n"),
        text(HEADER, node("a")).replace("\n", "\r\n"),
        text(HEADER, node("a")) + "\n  \n\n",
    ],
    ids=["no line end after the last line", "CRLF", "blank lines at the end"],
)
def test_line_ends_of_any_editor_are_accepted(content: str, tmp_path: Path) -> None:
    file = tmp_path / "t7.jsonl"
    file.write_bytes(content.encode())
    assert treefile.read(file) == Tree("t7", (Attempt("a", None, 1.0),), root=Root(0.5))


# What is refused: content, and what the message says after `t7.jsonl:`

NESTED = "[" * 200 + "]" * 200
REFUSED = {
    "empty file": ("", " file is empty; expected a header line and then one node a line"),
    "only blank lines": ("\n\n", " file is empty; expected a header line and then one node a line"),
    "not JSON": (
        text(HEADER, "a,b,c"),
        "2: not JSON at column 1, near 'a,b,c': Expecting value; expected one JSON object a line",
    ),
    "two objects on one line": (text(HEADER, "{} {}"), "2: not JSON at column 4, near '{}': Extra data; "),
    "not an object": (text(HEADER, "[1, 2]"), "2: line holds a list [1, 2]; expected a JSON object"),
    "null": (text(HEADER, "null"), "2: line holds null None; expected a JSON object"),
    "number": (text(HEADER, "17"), "2: line holds a number 17; expected a JSON object"),
    "cut line": (text(HEADER) + '{"id": "a", "par', "2: line is cut: the file ends inside its JSON, 16 characters in; "),
    "blank line": (text(HEADER, "", node("a")), "2: line is blank; expected one JSON object a line, blank lines only at the end"),
    "blank first line": ("\n" + text(HEADER), "1: line is blank; "),
    "byte order mark": (b"\xef\xbb\xbf" + text(HEADER).encode(), "1: file begins with a byte order mark; save it as UTF-8"),
    "UTF-16": (text(HEADER).encode("utf-16"), "1: byte 1 of the line (0xff) is not UTF-8; save the file as UTF-8"),
    "Latin-1": (text(HEADER).encode() + b'{"id": "\xe9"}\n', "2: byte 9 of the line (0xe9) is not UTF-8; "),
    "deep": (text(HEADER, '{"id": "a", "parent": null, "score": 1, "x": ' + NESTED + "}"), "2: field x[0][0]"),
    "deeper than the parser": (text(HEADER, "[" * 100_000), "2: JSON nests too deep; expected at most 100 levels"),
    "key twice": (text(HEADER, '{"id": "a", "id": "b"}'), "2: field 'id' stands twice in one object; expected each once"),
    "inner key twice": (text(HEADER, '{"m": {"x": 1, "x": 1}}'), "2: field 'x' stands twice in one object; expected each once"),
    "half a character": (
        text(HEADER, node("a", feedback="\ud83d")),
        "2: feedback holds half of a character (U+D83D, a lone surrogate); expected whole characters",
    ),
    "half a character in a key": (text(HEADER, node("a", metrics={"\udc00": 1})), "2: metrics holds half of a character (U+DC00"),
    "a million and a half metrics": (
        text(HEADER, node("a", metrics=dict.fromkeys(map(str, range(1_500_000)), 0))),
        "2: metrics holds 1,500,000 numbers; expected at most 1,000, since policies are shown all of them",
    ),
    "metrics of the root": (
        text(HEADER | {"root": {"metrics": dict.fromkeys(map(str, range(1_001)), 0)}}),
        "1: root.metrics holds 1,001 numbers; expected at most 1,000",
    ),
    "a book for a name": (
        text(HEADER, node("a", metrics={"m" * 201: 0})),
        "2: metrics has a name of 201 characters; expected at",
    ),
    "header missing": (
        text(node("a")),
        "1: header is missing; expected a first line with the fields format ('discovery-tree/1')",
    ),
    "other format": (text({"format": "graph/2"}), "1: format is 'graph/2'; expected 'discovery-tree/1'"),
    "other version": (text({"format": "discovery-tree/2"}), "1: format is 'discovery-tree/2'; expected 'discovery-tree/1'"),
    "format null": (text({"format": None}), "1: format is None; expected 'discovery-tree/1'"),
    "name missing": (text({"format": "discovery-tree/1"}), "1: name is missing; expected what people call this tree"),
    "two headers": (text(HEADER, HEADER), "2: id is missing; expected a string that no other node has"),
    "id missing": (text(HEADER, {"parent": None, "score": 1}), "2: id is missing; expected a string that no other node has"),
    "parent missing": (text(HEADER, {"id": "a", "score": 1}), "2: parent is missing; null says the root"),
    "score missing": (text(HEADER, {"id": "a", "parent": None}), "2: score is missing; null says not scored"),
    "unknown parent": (
        text(HEADER, node("n4", "n9")),
        "2: node 'n4' has the unknown parent 'n9'; expected an earlier node, or null for the root",
    ),
    "unknown parent before a broken line": (text(HEADER, node("n4", "n9"), "{"), "2: node 'n4' has the unknown parent 'n9'; "),
    "word for the root": (
        text(HEADER, node("a", "root")),
        "2: node 'a' has the unknown parent 'root'; expected an earlier node, or null for the root; null is the root",
    ),
    "later parent": (
        text(HEADER, node("n4", "n9"), node("n9")),
        "2: node 'n4' comes before its parent 'n9'; put parents first",
    ),
    "own parent": (
        text(HEADER, node("a", "a")),
        "2: node 'a' is its own parent; expected an earlier node, or null for the root",
    ),
    "cycle": (
        text(HEADER, node("a", "c"), node("b", "a"), node("c", "b")),
        "2: node 'a' descends from itself through its parent 'c'; expected no cycle",
    ),
    "a later cycle": (
        text(HEADER, node("a", "c"), node("c", "d"), node("d", "c")),
        "2: node 'a' comes before its parent 'c'; put parents first",
    ),
    "root's id as parent": (
        text(HEADER | {"root": {"id": "g0"}}, node("a", "g0")),
        "2: parent 'g0' is the root, which nodes name as null; write null",
    ),
    "root as node": (
        text(HEADER | {"root": {"id": "g0"}}, node("g0")),
        "2: id 'g0' is the root's, which stands in the header; leave this line out",
    ),
    "duplicate id": (text(HEADER, node("a"), node("b"), node("a")), "4: id 'a' is taken by t7.jsonl:2; ids must be unique"),
    "id root": (text(HEADER, node("root")), "2: id is 'root', the word for the root wherever nodes are listed; "),
    "parents with itself": (
        text(HEADER, node("a", parents=["a"])),
        "2: parents names 'a', the node itself; expected other nodes",
    ),
    "parents twice": (text(HEADER, node("a", parents=["b", "b"])), "2: parents is ['b', 'b']; expected each id once"),
    "long value": (
        text(HEADER, node("a", status=["x" * 1000])),
        f"2: status is ['{'x' * 27}...{'x' * 28}']; expected a string that is not empty",
    ),
    "number of many digits": (text(HEADER, '{"id": 1' + "0" * 5000 + "}"), "2: a number of more than"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_file_is_refused_with_one_clear_error(case: str, tmp_path: Path) -> None:
    content, told = REFUSED[case]
    message = error_of(content, tmp_path)
    assert message.startswith(f"t7.jsonl:{told}")
    assert len(message) < 220
    assert "\n" not in message


@pytest.mark.parametrize(
    ("literal", "told"),
    [
        ("NaN", "is nan; expected a finite number or null"),
        ("Infinity", "is inf; expected a finite number or null"),
        ("-Infinity", "is -inf; expected a finite number or null"),
        ("1e999", "is inf; expected a finite number or null"),
        ("-1e999", "is -inf; expected a finite number or null"),
    ],
)
@pytest.mark.parametrize("field", ["score", "metrics.loss", "cost.seconds", "created_at", "anything[0].else"])
def test_numbers_that_are_not_finite_are_refused_in_any_field(field: str, literal: str, told: str, tmp_path: Path) -> None:
    filled = {"metrics": {"loss": 1}, "cost": {"seconds": 1}, "created_at": 1, "anything": [{"else": 1}]}
    line = json.dumps(node("a", score=1, **filled))
    last = re.split(r"\W+", field)[-1]
    content = text(HEADER, line.replace(f'"{last}": 1', f'"{last}": {literal}'))
    assert error_of(content, tmp_path) == f"t7.jsonl:2: {field} {told}"


WRONG = {
    "id": [1, None, "", True, ["a"]],
    "parent": [0, "", False, ["a"]],
    "score": ["1.0", True, [1], {}, 10**309],
    "status": [None, 1, ""],
    "metrics": [None, [], {"m": None}, {"m": True}, {"m": "1"}, {"m": 10**309}],
    "feedback": [None, 1, ["x"]],
    "cost": [None, 3.5, {"seconds": "3"}, {"tokens": True}, {"usd": []}],
    "hypothesis": [None, 7],
    "parents": [None, "a", {"a": 1}, [1], [None], [""], [["a"]]],
    "snapshot": [1, "", {}],
    "terminal": [0, "false"],
    "created_at": [True, [], "", 10**309],
}
WRONG_IN_HEADER = {
    "name": [None, 1, ""],
    "task": [None, 1],
    "direction": ["maximize", "MAX", None, True, ["max"]],
    "frontier": ["leaves", "", None, {}],
    "root": [None, 1.0, []],
    "source": [None, "me", []],
    "created_at": [False, ""],
}
WRONG_IN_ROOT = {"score": ["1", True, 10**309], "metrics": [None, {"m": "x"}], "id": [0, ""]}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_wrong_type_in_a_node_names_line_field_and_wish(field: str, value: Any, tmp_path: Path) -> None:
    message = error_of(text(HEADER, node("a") | {field: value}), tmp_path)
    assert re.match(rf"t7\.jsonl:2: {field}(\.\w+)? is .*; expected ", message)
    assert len(message) < 200


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG_IN_HEADER.items() for value in values])
def test_wrong_type_in_the_header_names_field_and_wish(field: str, value: Any, tmp_path: Path) -> None:
    message = error_of(text(HEADER | {field: value}), tmp_path)
    assert re.match(rf"t7\.jsonl:1: {field} is .*; expected ", message)


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG_IN_ROOT.items() for value in values])
def test_wrong_type_in_the_root_names_field_and_wish(field: str, value: Any, tmp_path: Path) -> None:
    message = error_of(text(HEADER | {"root": {field: value}}), tmp_path)
    assert re.match(rf"t7\.jsonl:1: root\.{field}(\.m)? is .*; expected ", message)


# Size


LIMITED = """
import resource, sys
from pathlib import Path
from harness import treefile
from harness.errors import TreeError
resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20,) * 2)
try:
    treefile.read(Path(sys.argv[1]))
except TreeError as error:
    print(error)
"""


def test_line_of_a_gigabyte_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "big.jsonl"
    with file.open("wb") as stream:
        stream.write(text(HEADER).encode())
        stream.truncate(2**30)
    done = subprocess.run([sys.executable, "-c", LIMITED, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{file}:2: line is longer than 64 MiB; expected one node a line\n"


PEAK = r"""
import re, sys
from pathlib import Path
from harness import treefile
attempts = sum(len(treefile.read(file).attempts) for file in treefile.find(map(Path, sys.argv[1:])))
print(attempts, re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
def test_reading_many_trees_costs_the_memory_of_one(tmp_path: Path) -> None:
    """Loading 200 copies one after the other peaks at most 1.3 times above the bare interpreter as loading one."""
    first, folder = tmp_path / "one.jsonl", tmp_path / "many"
    first.write_text(text(HEADER, *(node(f"n{place}", feedback="x" * 20_000) for place in range(150))))
    (bare := tmp_path / "bare.jsonl").write_text(text(HEADER))
    folder.mkdir()
    for place in range(200):
        os.link(first, folder / f"{place}.jsonl")

    def peak(path: Path) -> tuple[int, int]:
        done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
        attempts, kilobytes = map(int, done.stdout.split())
        return attempts, kilobytes

    (_, base), (one, alone), (all_of_them, together) = peak(bare), peak(first), peak(folder)
    assert all_of_them == 200 * one
    assert alone - base > 2_000
    assert together - base <= 1.3 * (alone - base)


# Finding


def test_find_searches_folders_to_any_depth_sorted_and_each_file_once(tmp_path: Path) -> None:
    for name in ("b.jsonl", "deep/er/a.jsonl", "deep/c.jsonl", "deep/manifest.json", "odd.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text(HEADER))
    (tmp_path / "folder.jsonl").mkdir()

    found = treefile.find([tmp_path, tmp_path / "deep", tmp_path / "deep" / ".." / "b.jsonl", tmp_path / "odd.txt"])

    assert [str(file.relative_to(tmp_path)) for file in found] == ["b.jsonl", "deep/c.jsonl", "deep/er/a.jsonl", "odd.txt"]


def test_find_names_a_path_that_is_missing_or_holds_no_tree(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/gone: no such file or folder; expected tree files or folders that hold them"):
        treefile.find([tmp_path / "gone"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"/empty: no tree in this folder; expected \*\.jsonl files in it or below"):
        treefile.find([tmp_path / "empty"])


def test_folder_or_missing_file_is_no_tree_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": is a directory; expected a readable tree file"):
        treefile.read(tmp_path)
    with pytest.raises(InputError, match=r"/gone: no such file or directory; expected a readable tree file"):
        treefile.read(tmp_path / "gone")


# Writing


def test_written_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A tree that the format cannot express leaves the old file and nothing beside it."""
    file = tmp_path / "t.jsonl"
    treefile.write(tree("root>a"), file)
    before = file.read_bytes()

    with pytest.raises(TreeError, match=r"line 2: score is nan; expected a finite number or null"):
        treefile.write(tree("root>a", scores={"a": float("nan")}), file)

    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_writing_where_nothing_can_be_written_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.jsonl: no such file or directory; expected a place where a tree file can be"):
        treefile.write(tree("root>a"), tmp_path / "gone" / "t.jsonl")
    (tmp_path / "taken.jsonl").mkdir()
    with pytest.raises(InputError, match=r"taken\.jsonl: is a directory"):
        treefile.write(tree("root>a"), tmp_path / "taken.jsonl")
    with pytest.raises(InputError, match=r"expected a place where a tree file can be written"):
        treefile.write(tree("root>a"), Path())
    assert [path.name for path in tmp_path.iterdir()] == ["taken.jsonl"]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from harness import treefile
from harness.errors import InputError
from harness.tree import Attempt, Tree
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000,) * 2)
try:
    treefile.write(Tree("t", tuple(Attempt(f"n{place}", None, 1.0) for place in range(10_000))), Path(sys.argv[1]))
except InputError as error:
    print(error)
"""


def test_name_as_long_as_the_file_system_takes_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("t" * 249 + ".jsonl")
    treefile.write(tree("root>a"), file)
    assert list(tmp_path.iterdir()) == [file]


def test_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{file}: file too large; expected a place where a tree file can be written\n"
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "odd",
    [
        Attempt("a", None, 1.0, extra={"score": 2.0}),
        Attempt("a", None, 1.0, metrics={"m": "high"}),
        Attempt("a", None, 1.0, extra={"when": {1, 2}}),
        Attempt("a", None, 1.0, extra={"by": {1: 2}}),
        Attempt("a", None, 1.0, feedback="\ud800"),
        Attempt("root", None, 1.0),
        Attempt("a", None, 1.0, snapshot=""),
    ],
    ids=[
        "known field in extra",
        "text for a number",
        "a set",
        "a number as key",
        "half a character",
        "id root",
        "empty snapshot",
    ],
)
def test_no_file_is_written_that_reading_would_refuse_or_change(odd: Attempt, tmp_path: Path) -> None:
    with pytest.raises(TreeError):
        treefile.write(Tree("t", (odd,)), tmp_path / "t.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_one_node_a_line_in_creation_order() -> None:
    first, *rest = treefile.lines(replace(tree("root>a", "a>b"), name="t\N{LATIN SMALL LETTER U WITH DIAERESIS}r"))
    assert json.loads(first)["name"] == "t\N{LATIN SMALL LETTER U WITH DIAERESIS}r"
    assert [json.loads(line)["id"] for line in rest] == ["a", "b"]
    assert all(line.endswith("}\n") and line.count("\n") == 1 for line in (first, *rest))


# The page for people who write exporters


def test_example_of_the_documentation_is_a_tree_that_survives(tmp_path: Path) -> None:
    example = re.search(r"```jsonl\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example
    file = tmp_path / "example.jsonl"
    file.write_text(example[1])
    found = treefile.read(file)
    treefile.write(found, tmp_path / "again.jsonl")
    assert treefile.read(tmp_path / "again.jsonl") == found
    assert (len(found.attempts), found.floor, found.top) == (4, -0.83, -0.61)


def test_documentation_names_every_known_field() -> None:
    page = DOCS.read_text()
    for field in (*treefields.HEADER, *treefields.ROOT, *treefields.NODE, *treefields.COST):
        assert f"`{field}`" in page, field


def test_documented_errors_are_the_ones_that_are_told(tmp_path: Path) -> None:
    documented = set(re.findall(r"`(t7\.jsonl:? ?\d*: .*?)` \|", DOCS.read_text()))
    contents = [content for content, _ in REFUSED.values()]
    contents += [text(HEADER, node("a", score="1.0")), text(HEADER, '{"id": "a", "parent": null, "score": NaN}')]
    contents += [text(HEADER) + " " * (jsonlines.LINE_BYTES + 1)]
    told = {error_of(content, tmp_path) for content in contents}
    assert len(documented) > 15
    assert documented <= told
