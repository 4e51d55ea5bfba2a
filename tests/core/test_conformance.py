"""The rules of replay and of value, pinned to the last digit by the cases of `conformance-replay.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import Scripted

from harness.replay import replay
from harness.score import Normalize, Settings, Weights, figures
from harness.tree import Attempt, Root, Tree
from sandbox.api import Frontier, Limits

CASES = json.loads(Path(__file__).parents[1].joinpath("conformance-replay.json").read_text())["cases"]


def test_all_cases_are_here() -> None:
    assert len(CASES) == 154


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_replay_has_exactly_the_recorded_outcome(case: dict[str, Any]) -> None:
    attempts = [
        Attempt(node["id"], None if node["parent"] == "root" else node["parent"], node["score"]) for node in case["nodes"]
    ]
    tree = Tree(case["name"], tuple(attempts), frontier=Frontier(case["frontier"]), root=Root(case["root_score"]))
    given = {name: case[name] for name in ("max_rounds", "max_batch", "max_attempts") if case[name] is not None}
    weights = Weights(case["beta1"], case["beta2"], Normalize(case["normalize"]))
    expected = case["expected"]

    trajectory = replay(tree, Scripted(tree, case["script"]), Limits(**given))
    result = figures(trajectory, tree, Settings(weights=weights))

    rounds = [{"picks": [*tree.ids(turn.picks)], "revealed": [*tree.ids(turn.revealed)]} for turn in trajectory.rounds]
    assert trajectory.stop == expected["stop"]
    assert rounds == expected["rounds"]
    assert (result.n, result.k, result.wasted) == (expected["n"], expected["k"], expected["wasted"])
    assert (result.best, result.quality, result.value) == (expected.get("best"), expected.get("quality"), expected["value"])
    assert (trajectory.fault.rule if trajectory.fault else None) == expected.get("error")
