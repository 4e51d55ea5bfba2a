"""Whole campaigns, as commands in processes of their own: what is promoted, what is kept, and that killing one loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.campaign import best_so_far, cycle_of, live_review, mean_curve
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = Path(__file__).parents[2]
SMALL = ("--cycles", "2", "--searches", "3", "--versions", "4", "--attempts", "8", "--sandbox", "local", "--slots", "2")

EVALUATE = """
import json, sys
from pathlib import Path
text = (Path(sys.argv[1]) / "answer.json").read_text()
value = json.loads(text)["value"]
print(json.dumps({"score": value, "feedback": f"read {value}"}))
"""

MOVES = """
import json
from harness.agents.search.walk import Proposal

class Climb:
    families = ("low", "high")
    operators = ("step", "leap")
    temperatures = (0.0,)
    effort = 100.0
    direction = "max"
    file = "answer.json"
    def open(self, rng, family, effort):
        value = float(rng.random()) * (1.0 if family == "low" else 4.0)
        return Proposal(value, value, 0.0)
    def move(self, rng, answer, operator, effort):
        effort.spend(1.0)
        value = answer + float(rng.normal(0.0, 0.1 if operator == "step" else 1.0))
        return Proposal(value, value, 0.0)
    def load(self, text):
        return json.loads(text)["value"]
    def dump(self, answer):
        return json.dumps({"value": answer})
    keep = dump

MOVES = Climb()
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a folder with a task whose attempts take no time."""
    task = tmp_path / "climb"
    (task / "start").mkdir(parents=True)
    (task / "evaluator").mkdir()
    (task / "start" / "answer.json").write_text('{"value": 0.0}')
    (task / "evaluator" / "evaluate.py").write_text(EVALUATE)
    (task / "moves.py").write_text(MOVES)
    (task / "task.toml").write_text(
        'format = "task/1"\nname = "climb"\ndirection = "max"\nstatement = "Climb."\nfiles = ["answer.json"]\n'
        '[agent.search]\nmoves = "moves.py"\n'
    )
    return tmp_path


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "harness", *args]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")} | {"PYTHONPATH": str(PROJECT)}


def harness(desk: Path, *args: str, code: int = 0) -> Any:
    done = subprocess.run(command(*args), cwd=desk, env=environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if "--json" in args else done.stdout


def scores(desk: Path) -> dict[str, list[float | None]]:
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        assert store.check() == []
        return {row.name: [one.score for one in store.tree(row.digest).attempts] for row in store.tree_rows()}


@pytest.mark.slow
def test_a_campaign_ends_with_a_report_and_its_control_arm_meets_the_same_luck(desk: Path) -> None:
    """The first cycle of both arms is the same search to the digit: same agent, evaluator, start, seeds and budget."""
    said = harness(desk, "run", "climb", *SMALL, "--control", "--report", "drawn", "--json")

    assert said["finished"]
    assert [cycle["attempts"] for cycle in said["cycles"]] == [24, 24]
    assert said["other_arm"]["fixed"]
    assert said["cycles"][0]["best"] == said["other_arm"]["cycles"][0]["best"]
    assert {one["outcome"] for one in said["other_arm"]["cycles"]} == {"fixed"}
    found = scores(desk)
    assert [found[f"climb-c1.1.{place}"] for place in (1, 2, 3)] == [found[f"climb-c2.1.{place}"] for place in (1, 2, 3)]
    assert (desk / "drawn" / "campaign.png").stat().st_size > 1000
    assert b"cycle 1, developed" in (desk / "drawn" / "campaign.svg").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [(0.9, 1.4), (1.8, 2.3), (2.8, 3.5)])
def test_killing_a_campaign_anywhere_and_resuming_ends_as_it_would_have(
    desk: Path, tmp_path: Path, kills: Sequence[float]
) -> None:
    """Killed without warning, twice, at whatever it was doing then."""
    for seconds in kills:
        args = ["run", "climb", *SMALL] if not (desk / ".harness").exists() or not _began(desk) else ["run", "--resume"]
        with subprocess.Popen(
            command(*args),
            cwd=desk,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            time.sleep(seconds)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        is_over = bool(store.campaigns()) and store.campaigns()[0].finished_at is not None
    if not is_over:
        harness(desk, "run", *(["--resume"] if _began(desk) else ["climb", *SMALL]))

    whole = tmp_path / "whole"
    shutil.copytree(desk / "climb", whole / "climb")
    harness(whole, "run", "climb", *SMALL)
    assert scores(desk) == scores(whole)


def _began(desk: Path) -> bool:
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        return bool(store.campaigns())


@pytest.mark.slow
def test_a_version_that_passes_the_gate_steers_the_next_cycle(desk: Path) -> None:
    """Beginning with a policy that opens one branch and stops, many a template is better, and the gate says so."""
    (desk / "poor.py").write_text(
        "class Policy:\n    def __init__(self, context): pass\n"
        "    def decide(self, view): return [0] if view.round < 3 else [view.leaves[0].id] if view.round < 9 else []\n"
    )
    wide = (*SMALL[:2], "--searches", "12", "--versions", "9", *SMALL[6:])

    said = harness(
        desk, "run", "climb", *wide, "--policy", "poor.py", "--allow-local", "--alpha", "0.2", "--beta1", "0", "--trees",
        str(PROJECT / "examples" / "trees" / "circle-packing-26"), "--json",
    )  # fmt: skip

    outcomes = [cycle["outcome"] for cycle in said["cycles"]]
    assert any("promoted" in outcome for outcome in outcomes), outcomes
    if "promoted" in outcomes[0]:
        assert f"v{said['cycles'][1]['version']} promoted" == outcomes[0]
    history = harness(desk, "history", "--promotions", "--json")
    assert any("campaign 1, cycle" in event["facts"]["by"] for event in history["events"])


@pytest.mark.slow
def test_the_gate_takes_no_local_result_unless_told_and_the_policy_is_kept(desk: Path) -> None:
    said = harness(desk, "run", "climb", *SMALL, "--json")

    assert {cycle["outcome"].split(":")[0] for cycle in said["cycles"]} == {"kept"}
    assert said["incumbent"] is None


@pytest.mark.slow
def test_where_every_tree_is_held_out_the_policy_is_kept_and_the_report_says_why(desk: Path) -> None:
    said = harness(desk, "run", "climb", *SMALL, "--holdout", "0.999", "--json")

    assert said["finished"]
    assert [cycle["outcome"] for cycle in said["cycles"]] == ["kept: no tree to develop on"] * 2


def test_a_task_that_changed_stops_a_campaign_that_goes_on(desk: Path) -> None:
    harness(desk, "run", "climb", "--cycles", "1", "--searches", "1", "--attempts", "1", "--versions", "1", "--fixed", *SMALL[8:])
    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        (campaign,) = store.campaigns()
        assert campaign.finished_at is not None
        assert cycle_of(store, campaign, 1).has_explored(1)
        assert not live_review(store, campaign, 0.05).fell
    (desk / "climb" / "start" / "answer.json").write_text('{"value": 1.0}')

    done = subprocess.run(
        command("run", "--resume", "1"), cwd=desk, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "has changed since campaign 1 began" in done.stderr


def test_a_campaign_makes_no_search_again_that_the_store_has_unless_the_seed_is_named(desk: Path) -> None:
    small = ("--cycles", "1", "--searches", "2", "--versions", "1", "--sandbox", "local", "--holdout", "0")
    for budget, seed in (("1", ()), ("2", ()), ("3", ("--seed", "1"))):
        harness(desk, "run", "climb", *small, "--attempts", budget, *seed)

    with Store.open(f"sqlite:///{desk / '.harness' / 'harness.db'}") as store:
        assert [search.plan.seed for search in store.searches()] == [0, 1, 2, 3, 1, 2]


def test_best_so_far_starts_with_the_root_and_means_go_on_where_a_search_has_ended() -> None:
    assert best_so_far([None, 1.0, None, 0.5, 2.0]) == [None, 1.0, 1.0, 1.0, 2.0]
    assert mean_curve([[None, 1.0], [0.0, 2.0, 4.0]]) == [(1, 1.5), (2, 2.5)]
    assert mean_curve([]) == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--seed", "7"), "--seed"),
        (("--attempts", "3"), "--attempts"),
        (("--tokens", "3"), "--tokens"),
        (("--searches", "2"), "--searches"),
        (("--fixed",), "--fixed"),
    ],
)
def test_a_campaign_goes_on_with_the_plan_it_began_with(desk: Path, given: Sequence[str], named: str) -> None:
    asked = command("run", "--resume", "1", *given)
    done = subprocess.run(asked, cwd=desk, env=environment(), capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert f"{named}: a campaign goes on with the plan it began with" in done.stderr
