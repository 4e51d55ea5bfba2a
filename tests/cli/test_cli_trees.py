"""`harness trees`: what is wrong with files, what there is, and what a tree looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from builders import tree
from commands import named

from harness import config, treefile, wiring
from harness.store import Store
from harness.tree import Attempt, Direction, Root, Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended


def test_validate_names_every_bad_file_on_a_line_and_goes_on(command: Callable[..., Ended], trees: Path) -> None:
    (trees / "cut.jsonl").write_text('{"format": "discovery-tree/1", "name": "cut"}\n{"id": "a", "par')
    (trees / "empty.jsonl").write_text("")

    ended = command("trees", "validate", trees, "nowhere")

    assert ended.code == 2
    cut, empty, missing, summary = ended.out.splitlines()
    assert cut.startswith(f"{trees / 'cut.jsonl'}:2:")
    assert empty.startswith(f"{trees / 'empty.jsonl'}:")
    assert missing.startswith("nowhere:")
    assert summary == "3 of 6 tree files are valid"


def test_validate_says_yes_when_all_are_good(command: Callable[..., Ended], trees: Path) -> None:
    ended = command("trees", "validate", trees, "--json")

    assert ended.code == 0
    assert (ended.json["valid"], ended.json["invalid"]) == (3, 0)
    assert [line["attempts"] for line in ended.json["files"]] == [5, 5, 5]


def test_every_recorded_tree_of_other_systems_is_valid(command: Callable[..., Ended], shared: Path) -> None:
    assert command("trees", "validate", shared / "trees").code == 0


def test_list_shows_files_or_what_the_store_holds(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    with Store.open("sqlite:///some.db") as store:
        store.add_trees(map(treefile.read, treefile.find([trees])))

    of_files = command("trees", "list", trees, "--json").json
    of_store = command("trees", "list", "--store", "sqlite:///some.db", "--json").json

    assert of_files == of_store
    assert [line["name"] for line in of_files["trees"]] == ["one", "three", "two"]
    assert command("trees", "list", trees).out.splitlines()[0].split()[0] == "tree"


@pytest.mark.parametrize("url", ["50%25.db", "what?.db", "a b#c.db", "sqlite:///50%2525.db", "sqlite:///a%20b.db?timeout=5"])
def test_a_store_lies_where_its_name_says(command: Callable[..., Ended], folder: Path, trees: Path, url: str) -> None:
    file = folder / {"sqlite:///50%2525.db": "50%25.db", "sqlite:///a%20b.db?timeout=5": "a b.db"}.get(url, url)
    with wiring.open_store(config.Settings(store=url), create=True) as store:
        store.add_trees(map(treefile.read, treefile.find([trees])))

    assert file.is_file()
    assert len(command("trees", "list", "--store", url, "--json").json["trees"]) == 3


def test_show_draws_a_tree_and_marks_the_way_to_its_best_node(command: Callable[..., Ended], trees: Path) -> None:
    ended = command("trees", "show", trees / "three.jsonl")

    assert ended.out.splitlines()[3:9] == [
        "* root  0",
        "  ├─ a  0.1",
        "  │  └─ a2  0.3",
        "  │     └─ a3  0.4",
        "* └─ b  0.2",
        "*    └─ b2  0.9  <- best",
    ]


def test_an_attempt_without_a_score_is_shown_with_its_reason(command: Callable[..., Ended], folder: Path) -> None:
    attempts = (
        Attempt("a", None, None, status="failed", feedback="the agent ended with exit code 3", extra={"log": "hm\nno account\n"}),
        Attempt("b", None, None, status="invalid", feedback="no numbers: empty\nmore"),
        Attempt("c", None, None, status="failed"),
    )
    treefile.write(Tree("sad", attempts), folder / "sad.jsonl")

    assert command("trees", "show", "sad.jsonl").out.splitlines()[-3:] == [
        "  ├─ a  -  failed (the agent ended with exit code 3: no account)",
        "  ├─ b  -  invalid (no numbers: empty)",
        "  └─ c  -  failed",
    ]
    assert [node["feedback"] for node in command("trees", "show", "sad.jsonl", "--json").json["nodes"]] == [
        "the agent ended with exit code 3", "no numbers: empty\nmore", "",
    ]  # fmt: skip


def test_where_smaller_is_better_the_smallest_is_best_and_scores_are_as_recorded(
    command: Callable[..., Ended], folder: Path
) -> None:
    made = tree("root>a", "root>b", root=None, scores={"a": 2.0, "b": 3.0})
    treefile.write(Tree("low", made.attempts, direction=Direction.MIN, root=made.root), folder / "low.jsonl")

    ended = command("trees", "show", "low.jsonl", "--json")

    assert ended.json["best_path"] == ["root", "a"]
    assert (ended.json["best"], ended.json["best_score"]) == (-2.0, 2.0)
    assert "* ├─ a  2  <- best" in command("trees", "show", "low.jsonl").out


def test_show_tells_programs_what_each_attempt_set_out_to_try_and_where_its_workspace_is(
    command: Callable[..., Ended], folder: Path
) -> None:
    tried = Attempt("a", None, 2.0, hypothesis="wider steps", snapshot="git:abc")
    treefile.write(Tree("told", (tried, Attempt("b", "a", None, "failed")), root=Root(0.0)), folder / "told.jsonl")

    nothing: dict[str, object] = {"metrics": {}, "feedback": "", "cost": {}}
    assert command("trees", "show", "told.jsonl", "--json").json["nodes"] == [
        nothing | {"id": "a", "parent": None, "score": 2.0, "status": "ok", "hypothesis": "wider steps", "snapshot": "git:abc"},
        nothing | {"id": "b", "parent": "a", "score": None, "status": "failed", "hypothesis": "", "snapshot": None},
    ]


def test_one_attempt_is_no_plural(command: Callable[..., Ended], folder: Path) -> None:
    treefile.write(Tree("one", (Attempt("a", None, 2.0),), root=Root(0.0)), folder / "one.jsonl")

    assert "\n1 attempt, digest" in command("trees", "show", "one.jsonl").out


def test_a_stored_tree_is_named_by_name_or_by_the_start_of_its_digest(command: Callable[..., Ended], trees: Path) -> None:
    read = [treefile.read(file) for file in treefile.find([trees])]
    with Store.open("sqlite:///some.db") as store:
        store.add_trees([*read, named(read[0], "one")])

    by_name = command("trees", "show", "one", "--store", "sqlite:///some.db", "--json")
    by_digest = command("trees", "show", read[0].digest[:8], "--store", "sqlite:///some.db", "--json")

    assert by_name.json["digest"] == by_digest.json["digest"] == read[0].digest
    assert command("trees", "show", "four", "--store", "sqlite:///some.db").code == 2


def test_a_name_that_several_trees_have_is_not_guessed(command: Callable[..., Ended], trees: Path) -> None:
    first, second, _ = (treefile.read(file) for file in treefile.find([trees]))
    with Store.open("sqlite:///some.db") as store:
        store.add_trees([first, named(second, "one")])

    ended = command("trees", "show", "one", "--store", "sqlite:///some.db")

    assert ended.code == 2
    assert first.digest[:12] in ended.err


def test_a_tree_deeper_than_pythons_calls_is_drawn(command: Callable[..., Ended], folder: Path) -> None:
    edges = ["root>n0", *(f"n{place}>n{place + 1}" for place in range(1500))]
    treefile.write(tree(*edges), folder / "deep.jsonl")

    ended = command("trees", "show", "deep.jsonl")

    assert ended.code == 0
    assert "n1500" in ended.out


def test_words_of_a_tree_cannot_steer_the_terminal(command: Callable[..., Ended], folder: Path) -> None:
    treefile.write(named(tree("root>a\x1b[2J"), "evil\x1b]0;name\x07"), folder / "evil.jsonl")

    for args in (("trees", "show", "evil.jsonl"), ("trees", "list", "evil.jsonl"), ("trees", "validate", "evil.jsonl")):
        assert "\x1b" not in command(*args).out


# Sets of trees


def test_many_trees_are_packed_into_one_file_that_lists_and_validates_like_their_folder(
    command: Callable[..., Ended], trees: Path
) -> None:
    packed = command("trees", "pack", "mine", trees, trees / "one.jsonl", "-o", "mine.jsonl", "--json").json

    assert (packed["name"], packed["trees"], packed["twice"]) == ("mine", 3, 0)
    assert packed["set"] == command("trees", "list", trees, "--json").json["set"]
    assert command("trees", "list", "mine.jsonl", "--json").json == command("trees", "list", trees, "--json").json
    assert command("trees", "validate", "mine.jsonl").out == "3 of 3 tree files are valid\n"


def test_a_tree_of_the_store_is_packed_by_its_name_beside_files_and_can_be_replayed(
    command: Callable[..., Ended], trees: Path
) -> None:
    with Store.open("sqlite:///some.db") as store:
        store.add_trees([named(treefile.read(trees / "one.jsonl"), "live")])

    store_of = ("--store", "sqlite:///some.db")
    packed = command("trees", "pack", "mine", "live", trees / "two.jsonl", "-o", "mine.jsonl", *store_of, "--json").json
    replayed = command("replay", "greedy", "--trees", "mine.jsonl", "--sandbox", "local", "--json").json

    assert packed["trees"] == 2
    assert [tree["name"] for tree in replayed["trees"]] == ["live", "two"]
    assert "neither a file nor a tree" in command("trees", "pack", "mine", "nowhere", "-o", "no.jsonl", *store_of).err
    assert "nowhere: no such file or folder" in command("trees", "pack", "mine", "nowhere", "-o", "no.jsonl").err


def test_a_tree_of_a_set_is_shown_by_the_line_in_which_it_begins(command: Callable[..., Ended], trees: Path) -> None:
    command("trees", "pack", "mine", trees, "-o", "mine.jsonl")

    alone, all_of_them, nowhere = (command("trees", "show", f"mine.jsonl{line}") for line in (":8", "", ":3"))

    assert alone.out == command("trees", "show", trees / "three.jsonl").out
    assert all_of_them.err == "harness: mine.jsonl: is a set of 3 trees; name one by its line, such as mine.jsonl:2 for one\n"
    assert nowhere.err == "harness: mine.jsonl:3: no tree begins in this line; expected one of 2, 8, 14\n"


def test_a_set_that_was_changed_is_invalid(command: Callable[..., Ended], trees: Path, folder: Path) -> None:
    command("trees", "pack", "mine", trees, "-o", "mine.jsonl")
    file = folder / "mine.jsonl"
    file.write_text(file.read_text().replace('"score": 0.7', '"score": 0.8'))

    ended = command("trees", "validate", "mine.jsonl")

    assert ended.code == 2
    assert "mine.jsonl:14: tree 'two' has the digest " in ended.out
