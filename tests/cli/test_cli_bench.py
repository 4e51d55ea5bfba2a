"""`harness bench`: policies against each other on named sets, the same figures in every form, and a manifest that verifies."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from builders import tree
from commands import PICKS_ALL, PROJECT

from harness import treefile
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Ended

LAZY = """
class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        return [0] if view.attempts < 1 else []
"""
BROKEN = """
class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        return [99]
"""
LOCAL = ("--sandbox", "local")


@pytest.fixture
def lazy(folder: Path) -> Path:
    """Return the file of a policy that opens one branch."""
    file = folder / "lazy.py"
    file.write_text(LAZY)
    return file


def test_the_better_policy_stands_first_with_what_it_took(
    command: Callable[..., Ended], policy: Path, lazy: Path, trees: Path
) -> None:
    ended = command("bench", lazy, policy, "--trees", trees, *LOCAL)

    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].startswith("trees: 3 trees, digest ")
    assert [line.split()[:3] for line in lines[3:5]] == [["1", "policy.py", "1.0033"], ["2", "lazy.py", "0.1553"]]
    assert "promotion is asked of `harness gate`" in lines[-1]


def test_json_csv_and_markdown_say_the_same(command: Callable[..., Ended], policy: Path, lazy: Path, trees: Path) -> None:
    args = ("bench", policy, lazy, "--trees", trees, *LOCAL)
    (board,) = command(*args, "--json").json["sets"]
    rows = list(csv.DictReader(io.StringIO(command(*args, "--csv").out)))
    page = command(*args, "--markdown").out

    assert [one["name"] for one in board["standings"]] == [row["policy"] for row in rows] == ["policy.py", "lazy.py"]
    assert [one["value"] for one in board["standings"]] == [float(row["value"]) for row in rows]
    assert [one["interval"]["low"] for one in board["standings"]] == [float(row["value_low"]) for row in rows]
    for one in board["standings"]:
        assert f"| {one['value']:.4f} |" in page
    (pairing,) = board["pairings"]
    assert (pairing["wins"], pairing["ties"], pairing["losses"], pairing["p"]) == (3, 0, 0, 0.25)
    assert board["digest"] == set_digest(treefile.read(file).digest for file in treefile.find([trees]))


def test_each_folder_and_each_packed_set_is_a_set_of_its_own_and_single_files_are_one(
    command: Callable[..., Ended], policy: Path, trees: Path, folder: Path
) -> None:
    other = folder / "other"
    shutil.copytree(trees, other)
    (other / "three.jsonl").unlink()
    command("trees", "pack", "all three", trees, "-o", folder / "packed.jsonl")
    (other / "two.jsonl").rename(other / "renamed.jsonl")

    ended = command(
        *(
            "bench",
            policy,
            *LOCAL,
            "--json",
            "--trees",
            other,
            folder / "packed.jsonl",
            trees / "one.jsonl",
            trees / "three.jsonl",
        )
    )

    assert [(one["name"], one["trees"]) for one in ended.json["sets"]] == [("other", 2), ("all three", 3), ("files", 2)]


def test_the_same_trees_count_once_whatever_they_are_called(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    command("trees", "pack", "packed", trees, "-o", "packed.jsonl")

    ended = command("bench", policy, "--trees", trees, "packed.jsonl", *LOCAL, "--json")

    assert [one["name"] for one in ended.json["sets"]] == ["trees"]
    assert "packed: the same trees are given twice and count once" in ended.err


def test_policies_of_one_name_are_told_apart_and_the_same_one_counts_once(
    command: Callable[..., Ended], policy: Path, lazy: Path, trees: Path, folder: Path
) -> None:
    (folder / "elsewhere").mkdir()
    shutil.copy(lazy, folder / "elsewhere" / "policy.py")

    ended = command("bench", policy, "elsewhere/policy.py", lazy, "--trees", trees, *LOCAL, "--json")

    names = [one["name"] for one in ended.json["sets"][0]["standings"]]
    assert names[0] == "policy.py"
    assert names[1].startswith("policy.py (")
    assert "lazy.py: is the same policy as elsewhere/policy.py and counts once" in ended.err


def test_a_policy_that_faults_has_no_rank_and_the_answer_is_no(
    command: Callable[..., Ended], policy: Path, trees: Path, folder: Path
) -> None:
    (folder / "broken.py").write_text(BROKEN)

    ended = command("bench", "broken.py", policy, "--trees", trees, *LOCAL)

    assert ended.code == 1
    assert ended.out.splitlines()[4].split() == ["-", "broken.py", *["-"] * 8, "3", ended.out.splitlines()[4].split()[-1]]
    assert "bad-answer (unknown_node) in round 1" in ended.out


def test_policies_that_are_all_refused_at_the_check_need_no_sandbox(
    command: Callable[..., Ended], trees: Path, folder: Path
) -> None:
    (folder / "refused.py").write_text("class Policy(:\n")

    ended = command("bench", "refused.py", "--trees", trees, "--out", "out", "--plots", "--json")

    assert ended.code == 1
    assert ended.json["isolation"] is None
    assert [(one["rank"], one["faults"]) for one in ended.json["sets"][0]["standings"]] == [(None, 3)]
    assert not list(Path("out").glob("*.png"))


@pytest.mark.parametrize(
    "args", [("--normalize", "none"), ("--objective", "attainment"), ("--max-attempts", "0"), ("--beta1", "1e90")], ids=" ".join
)
def test_pictures_are_drawn_under_any_settings(
    command: Callable[..., Ended], policy: Path, lazy: Path, trees: Path, args: tuple[str, ...]
) -> None:
    for tree_file in (trees, trees / "one.jsonl"):
        ended = command("bench", policy, lazy, "--trees", tree_file, *LOCAL, "--out", "out", "--plots", *args)
        assert (ended.code, "3 pictures" in ended.err) == (0, True), ended.err


def test_everything_is_written_into_one_folder_and_the_manifest_verifies(
    command: Callable[..., Ended], policy: Path, lazy: Path, trees: Path, folder: Path
) -> None:
    ended = command("bench", policy, lazy, "--trees", trees, *LOCAL, "--out", "results/today")

    out = folder / "results" / "today"
    tables = {"leaderboard.csv", "comparisons.csv", "groups.csv", "curves.csv", "prices.csv"}
    assert {file.name for file in out.iterdir()} == {*tables, "leaderboard.md", "bench.json", "manifest.json"}
    assert all(len((out / name).read_text().splitlines()) > 1 for name in tables)
    assert json.loads((out / "bench.json").read_text())["sets"][0]["name"] == "trees"
    assert ended.code == 0
    verified = command("verify", out / "manifest.json", *LOCAL)
    assert (verified.code, verified.out.splitlines()[0]) == (
        0,
        "the same: 6 replays of 2 policies over 3 trees, every trajectory and figure to the last digit",
    )


def test_a_manifest_over_packed_sets_finds_its_trees_in_them(
    command: Callable[..., Ended], policy: Path, trees: Path, folder: Path
) -> None:
    command("trees", "pack", "packed", trees, "-o", "packed.jsonl")
    shutil.rmtree(trees)
    command("bench", policy, "--trees", "packed.jsonl", *LOCAL, "--manifest", "bench.json")

    said = json.loads((folder / "bench.json").read_text())
    verified = command("verify", "bench.json", *LOCAL)

    assert (said["kind"], said["judged"][0]["trees"]) == ("bench", "packed")
    assert {place["file"] for place in said["trees"]} == {"packed.jsonl"}
    assert verified.code == 0, verified.err


def test_objective_and_weight_are_shown_and_stored(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    args = ("--objective", "attainment", "--weight", "group", "--group-by", "task")
    ended = command("bench", policy, "--trees", trees, *LOCAL, *args)

    assert ended.out.splitlines()[0].endswith(", objective attainment, groups weighted alike (task)")
    assert ended.out.splitlines()[2].split()[:3] == ["#", "policy", "attainment"]


def test_figures_are_the_same_digit_for_digit_each_time(
    command: Callable[..., Ended], policy: Path, lazy: Path, trees: Path
) -> None:
    first, second = (
        command("bench", policy, lazy, "--trees", trees, *LOCAL, "--json", "--workers", workers).json["sets"][0]
        for workers in (1, 2)
    )
    for board in (first, second):
        for standing in board["standings"]:
            del standing["decision_s"]

    assert first == second


def test_without_a_policy_all_templates_compete(command: Callable[..., Ended], trees: Path) -> None:
    (board,) = command("bench", "--trees", trees / "one.jsonl", *LOCAL, "--json").json["sets"]

    assert {"greedy", "parallel_refine", "successive_halving"} < {one["name"] for one in board["standings"]}


def test_names_of_trees_and_policies_are_nothing_but_names_in_markdown(command: Callable[..., Ended], folder: Path) -> None:
    made = tree("root>a", scores={"a": 1.0})
    for place, task in enumerate(("[click](http://evil.example)", "<img src=x> | @everyone")):
        treefile.write(replace(made, name=f"t{place}", task=task), folder / f"{place}.jsonl")
    (folder / "a|b.py").write_text(PICKS_ALL)

    page = command("bench", "a|b.py", "--trees", "0.jsonl", "1.jsonl", *LOCAL, "--markdown").out

    assert "](http" not in page
    assert "<img" not in page
    assert "a|b" not in page


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("greedy",), "no trees given; write harness bench POLICY… --trees SET…, or --suite examples"),
        (("greedy", "--suite", "mine"), "--suite: 'mine' is no suite; expected examples or shared"),
        (("greedy", "--trees", "trees", "--plots"), "--plots: there is no place for pictures; write --out DIR as well"),
        (("greedy", "--trees", "trees", "--json", "--csv"), "--json and --csv exclude each other; --out DIR writes all of them"),
        (("greedy", "--trees", "trees", "--out", "policy.py"), "--out: policy.py: file exists; expected a folder"),
        (("greedy", "--trees", "trees", "--manifest", "no/m.json"), "no/m.json: there is no folder no"),
        (("greedy", "--trees", "trees", "--manifest", "trees"), "trees: is a folder"),
        (("nobody", "--trees", "trees"), "nobody: no such file or directory"),
    ],
)
def test_bad_usage_is_named_before_anything_is_replayed(
    command: Callable[..., Ended], policy: Path, trees: Path, args: tuple[str, ...], told: str
) -> None:
    ended = command("bench", *args)

    assert ended.code == 2
    assert told in ended.err
    assert "isolate" not in ended.err


def test_the_suites_are_found_where_the_project_is(
    command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """The one of other systems is where a variable says; the examples come with the checkout or the package."""
    from harness.cli.benchsets import Suite, place_of  # noqa: PLC0415 - beside what it tests

    assert place_of(Suite.EXAMPLES) == PROJECT / "examples" / "trees"
    monkeypatch.setenv("HARNESS_SHARED", str(folder))
    ended = command("bench", "greedy", "--suite", "shared")
    wish = "set HARNESS_SHARED to the folder that holds trees/, or name the trees with --trees"
    assert ended.err == f"harness: --suite: the trees of shared are not here (looked for {folder / 'trees'}); {wish}\n"
    (folder / "trees").mkdir()
    treefile.write(tree("root>a", scores={"a": 1.0}), folder / "trees" / "a.jsonl")
    assert command("bench", "greedy", "--suite", "shared", *LOCAL, "--json").json["sets"][0]["name"] == "shared"


PAGE = (PROJECT / "docs" / "bench.md").read_text()


def without_times(text: str) -> list[list[str]]:
    """Return the words of each line, those that are times of decisions left out."""
    return [re.sub(r"(\d+ +)\d+\.\d$", r"\1T", line.rstrip()).split() for line in text.splitlines()]


@pytest.mark.slow
def test_the_page_on_benchmarks_shows_what_the_command_prints(command: Callable[..., Ended]) -> None:
    """Only times differ from one machine to another."""
    ((line, shown),) = re.findall(r"<!-- output of: harness (.+?) -->\n```text\n(.*?)```", PAGE, re.DOTALL)

    ended = command(*line.split(), *LOCAL)

    assert ended.code == 0
    assert without_times(ended.out) == without_times(shown)


def test_every_file_and_picture_of_the_page_is_written(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    ended = command("bench", policy, "--trees", trees, *LOCAL, "--out", "out", "--plots")

    written = {file.name for file in Path("out").iterdir()}
    tables = set(re.findall(r"`([a-z]+\.(?:md|csv|json))`", PAGE))
    pictures = {
        f"{name.replace('SET', 'trees')}.{end}" for name in re.findall(r"`(SET-[a-z-]+)`", PAGE) for end in ("png", "svg")
    }
    assert written == tables | pictures
    assert "3 pictures as PNG and SVG" in ended.err
    assert "![Cost against quality](trees-cost-quality.png)" in Path("out", "leaderboard.md").read_text()
