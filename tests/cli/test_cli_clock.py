"""`harness replay --clock-workers`: how long replays would have taken, and which of two policies is sooner at a quality."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import treefile
from harness.tree import Attempt, Root, Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

WIDE = """
class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        return [0, 0] if not view.leaves else [node.id for node in view.leaves if node.id not in view.pending]
"""
DEEP = WIDE.replace("[0, 0] if not view.leaves", "[0] if not view.leaves and not view.pending")


@pytest.fixture
def raced(folder: Path) -> Path:
    """Return the tree root > a (4 s) > a2 (4 s, half of the span) and root > b (1 s) > b2 (2 s, the best), with two policies.

    With two workers in rounds, `wide.py` takes 4 s for a and b, then 4 s for a2 and b2: the best is there at 6. Async, b2 begins
    at 1 and ends at 3. `deep.py` never opens b: half of the span is there at 8.
    """
    attempts = (
        Attempt("a", None, 0.1, cost={"seconds": 4.0}),
        Attempt("b", None, 0.2, cost={"seconds": 1.0}),
        Attempt("a2", "a", 0.5, cost={"seconds": 4.0}),
        Attempt("b2", "b", 1.0, cost={"seconds": 2.0}),
    )
    treefile.write(Tree("raced", attempts, root=Root(0.0)), folder / "raced.jsonl")
    (folder / "wide.py").write_text(WIDE)
    (folder / "deep.py").write_text(DEEP)
    return folder


def clocked(command: Callable[..., Ended], policy: str, *more: str) -> Ended:
    return command("replay", policy, "--trees", "raced.jsonl", "--sandbox", "local", "--clock-workers", "2", *more)


@pytest.mark.parametrize(("mode", "to_best", "rounds"), [("rounds", 6.0, 2), ("async", 3.0, 3)])
def test_each_replay_says_its_seconds_by_the_clock(
    command: Callable[..., Ended], raced: Path, mode: str, to_best: float, rounds: int
) -> None:
    ended = clocked(command, "wide.py", "--clock-mode", mode, "--json", "--trajectory")

    (told,) = ended.json["trees"]
    assert told["clock"] == {
        "workers": 2, "seconds": 8.0, "to_best": to_best, "to_quality": to_best, "assumed": 0, "mode": mode, "quality": 0.9,
    }  # fmt: skip
    assert (len(told["rounds"]), told["n"], told["fault"]) == (rounds, 4, None)


def test_two_policies_are_compared_by_the_time_that_they_take_to_a_quality(command: Callable[..., Ended], raced: Path) -> None:
    """Half of the span: `wide.py` has it at 3 s with the best of b, `deep.py` at 8 s."""
    asked = ("--against", "deep.py", "--clock-mode", "async", "--clock-quality", "0.5")

    told = clocked(command, "wide.py", *asked, "--json").json
    shown = clocked(command, "wide.py", *asked).out

    assert [one["trees"][0]["clock"]["to_quality"] for one in (told, told["against"])] == [3.0, 8.0]
    assert told["by_clock"] == {"trees": 1, "median_ratio": 8 / 3, "reached": 1, "reached_by_other": 1, "ratios": [8 / 3]}
    assert "raced     8.00     3.00     3.00            8.00     8.00     8.00          2.67" in shown
    assert "where both reach it, wide.py is 2.67 times as soon as deep.py (median)" in shown
    assert shown.count("policy ") >= 2


def test_a_quality_that_one_of_two_never_reaches_gives_no_ratio(command: Callable[..., Ended], raced: Path) -> None:
    told = clocked(command, "wide.py", "--against", "deep.py", "--json").json

    assert told["against"]["trees"][0]["clock"]["to_quality"] is None
    assert told["by_clock"] == {"trees": 0, "median_ratio": None, "reached": 1, "reached_by_other": 0, "ratios": [None]}


def test_a_tree_without_seconds_has_no_clock(command: Callable[..., Ended], raced: Path) -> None:
    treefile.write(Tree("plain", (Attempt("a", None, 1.0),), root=Root(0.0)), raced / "raced.jsonl")

    assert clocked(command, "wide.py", "--json").json["trees"][0]["clock"] is None
    assert "plain        -        -        -" in clocked(command, "wide.py").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--clock-workers", "0"], "--clock-workers: 0 is too few"),
        (["--clock-workers", "two"], "--clock-workers: 'two' is no number"),
        (["--clock-mode", "async"], "--clock-mode: there is no clock; write --clock-workers W as well"),
        (["--clock-quality", "0.5"], "--clock-quality: there is no clock"),
        (["--against", "deep.py"], "--against: there is no clock"),
        (["--clock-workers", "2", "--clock-mode", "slow"], "--clock-mode: 'slow' is none; expected rounds or async"),
        (["--clock-workers", "2", "--clock-quality", "1.5"], "--clock-quality: '1.5' is no share"),
        (["--clock-workers", "2", "--clock-quality", "nan"], "--clock-quality: 'nan' is no share"),
        (["--clock-workers", "2", "--clock-mode", "async", "--manifest", "m.json"], "--manifest: it fixes one policy in rounds"),
    ],
)
def test_what_no_clock_can_do_is_refused_by_name(
    command: Callable[..., Ended], raced: Path, options: list[str], words: str
) -> None:
    ended = command("replay", "wide.py", "--trees", "raced.jsonl", "--sandbox", "local", *options)

    assert ended.code == 2
    assert words in ended.err
