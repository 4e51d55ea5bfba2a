"""`harness evolve`: a run from its start to its report, stopped in every way and taken up again; then what the store tells."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from builders import tree
from commands import PICKS_ALL, environment, named, process

from harness import treefile
from harness.evolve import Split, split_trees
from harness.policy import digest_of
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

STORE = "sqlite:///.harness/harness.db"
LOCAL = ("--sandbox", "local")


@pytest.fixture
def searches(folder: Path) -> Path:
    """Return a folder of eight trees, some of which are held out, in which it pays to stop early or to go on."""
    inside = folder / "searches"
    inside.mkdir()
    for number in range(8):
        edges = [f"root>{branch}0" for branch in "abcd"]
        edges += [f"{branch}{depth}>{branch}{depth + 1}" for depth in range(4) for branch in "abcd"]
        scores = {
            f"{branch}{depth}": ((number * 7 + place * 5 + depth * 3) % 11) / 11 + depth * 0.1 * (place % 2)
            for place, branch in enumerate("abcd")
            for depth in range(5)
        }
        treefile.write(named(tree(*edges, scores=scores), f"search-{number}"), inside / f"{number}.jsonl")
    return inside


def outcome(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what must be the same however often a run was stopped."""
    return [(line["position"], line["digest"], line["value"], line["outcome"]) for line in document["versions"]]


def stopped(searches: Path, after: str, how: signal.Signals, *args: str) -> subprocess.CompletedProcess[str]:
    """Begin a run in a process of its own and stop it with a signal once it has told a certain line."""
    running = subprocess.Popen(
        [sys.executable, "-m", "harness", "evolve", "--trees", str(searches), *LOCAL, *args],
        cwd=searches.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = []
    assert running.stderr is not None
    for line in running.stderr:
        told.append(line)
        if after in line:
            running.send_signal(how)
            break
    out, err = running.communicate(timeout=60)
    return subprocess.CompletedProcess(running.args, running.returncode, out, "".join(told) + err)


def test_a_run_tells_each_version_and_reports_both_sides(command: Callable[..., Ended], searches: Path) -> None:
    ended = command("evolve", "--trees", searches, *LOCAL, "--versions", 4, "--verbose")

    lines = [line for line in ended.err.splitlines() if "/4  v" in line]
    assert ended.code == 0
    assert [line.split()[1] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]
    assert "parallel_refine" in lines[0]
    assert lines[0].endswith("selected")
    assert "development" in ended.out
    assert "held-out" in ended.out
    assert all(f"search-{number}" in ended.out for number in range(8))


def test_the_report_for_programs_agrees_with_itself(command: Callable[..., Ended], searches: Path) -> None:
    told = command("evolve", "--trees", searches, *LOCAL, "--versions", 4, "--json").json

    for split in ("development", "held_out"):
        of_side = [line for line in told["trees"] if line["split"] == split]
        for who in ("incumbent", "best"):
            assert told[split][who] == pytest.approx(sum(line[who] for line in of_side) / len(of_side), abs=1e-12)
        assert told[split]["trees"] == len(of_side) > 0
    values = {line["version"]: line["value"] for line in told["versions"]}
    assert values[told["best"]] == max(values.values()) == told["development"]["best"]
    assert len(told["trees"]) == 8


def test_the_report_has_a_row_for_each_system_and_for_each_task_of_several(command: Callable[..., Ended], searches: Path) -> None:
    of = {0: ("one", "packing"), 1: ("one", "sorting"), 2: ("one", "packing"), 3: ("other", "packing")}
    for number, file in enumerate(sorted(searches.iterdir())):
        if number in of:
            system, task = of[number]
            treefile.write(replace(treefile.read(file), task=task, source={"system": system}), file)
        else:
            file.unlink()

    ended = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--holdout", 0)

    rows = ended.out.split("difference\n")[1].split("\n\n")[0].splitlines()
    assert [re.match(r"( *\S+) +(\d)", row).groups() for row in rows] == [
        ("development", "4"),
        ("  one", "3"),
        ("    packing", "2"),
        ("    sorting", "1"),
        ("  other", "1"),
    ]
    told = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--holdout", 0, "--json").json
    assert [(line["system"], line["task"], line["trees"]) for line in told["tasks"]] == [
        ("one", "packing", 2),
        ("one", "sorting", 1),
        ("other", "packing", 1),
    ]


def test_one_line_is_logged_for_each_version(command: Callable[..., Ended], searches: Path, folder: Path) -> None:
    (folder / "harness.toml").write_text('log_level = "info"\nlog_format = "json"\n')

    ended = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--json")

    logged = [json.loads(line) for line in ended.err.splitlines() if line.startswith("{")]
    judged = [line for line in logged if line["event"] == "version.judged"]
    assert [line["value"] for line in judged] == [line["value"] for line in ended.json["versions"]]


def test_the_same_seed_gives_the_same_run(command: Callable[..., Ended], searches: Path) -> None:
    runs = [
        command(
            "evolve", "--trees", searches, *LOCAL, "--versions", 6, "--seed", 3, "--store", f"sqlite:///{name}.db", "--json"
        ).json
        for name in ("one", "two")
    ]

    assert outcome(runs[0]) == outcome(runs[1])
    assert runs[0]["trees"] == runs[1]["trees"]


@pytest.mark.slow
def test_a_killed_run_resumes_and_ends_as_it_would_have(folder: Path, searches: Path) -> None:
    """Killed without a chance to say goodbye, in the middle of judging; the same versions and values in the end."""
    whole = process("evolve", "--trees", searches, *LOCAL, "--versions", 8, "--store", "sqlite:///whole.db", "--json", cwd=folder)

    killed = stopped(searches, " 3/8  v", signal.SIGKILL, "--versions", "8")
    resumed = process("evolve", "--resume", "--json", cwd=folder)

    assert killed.returncode == -signal.SIGKILL
    assert resumed.code == 0, resumed.err
    assert outcome(resumed.json) == outcome(whole.json)
    assert [line["resumed"] for line in resumed.json["versions"]][:3] == [True] * 3
    assert not all(line["resumed"] for line in resumed.json["versions"])
    assert resumed.json["trees"] == whole.json["trees"]


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(command: Callable[..., Ended], searches: Path) -> None:
    ended = stopped(searches, " 2/20  v", signal.SIGINT)

    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr
    assert "harness evolve --resume 1" in ended.stderr
    assert ended.stdout == ""
    again = command("evolve", "--trees", searches, *LOCAL, "--versions", 1)
    assert "run 1 has not ended" in again.err, "a second evolve says so and begins a run of its own"
    assert "run 2:" in again.err


@pytest.mark.slow
def test_a_stop_by_a_supervisor_is_as_clean(searches: Path) -> None:
    ended = stopped(searches, " 1/20  v", signal.SIGTERM, "--store", "sqlite:///other.db")

    assert ended.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in ended.stderr
    assert "harness evolve --resume 1 --store sqlite:///other.db" in ended.stderr


def test_a_run_goes_on_with_the_plan_it_began_with(command: Callable[..., Ended], searches: Path) -> None:
    command("evolve", "--trees", searches, *LOCAL, "--versions", 1)

    for flag, value in (("--seed", "3"), ("--versions", "9"), ("--trees", str(searches)), ("--sandbox", "docker")):
        ended = command("evolve", "--resume", flag, value)
        assert (ended.code, ended.out) == (2, "")
        assert f"{flag}: a run goes on with the plan it began with" in ended.err


def test_a_run_that_has_ended_is_not_resumed(command: Callable[..., Ended], searches: Path) -> None:
    command("evolve", "--trees", searches, *LOCAL, "--versions", 1)

    assert "run 1 has ended" in command("evolve", "--resume", 1).err
    assert "no run is unfinished" in command("evolve", "--resume").err
    assert "there is no run 7" in command("evolve", "--resume", 7).err
    assert "--resume: run is 'first'" in command("evolve", "--resume", "first").err


def test_an_incumbent_may_be_a_file_a_version_or_a_template(command: Callable[..., Ended], searches: Path, folder: Path) -> None:
    (folder / "mine.py").write_text(PICKS_ALL)
    first = command("evolve", "--trees", searches, *LOCAL, "--versions", 1, "--incumbent", "greedy", "--json").json
    second = command("evolve", *LOCAL, "--versions", 1, "--incumbent", "mine.py", "--json").json
    third = command("evolve", *LOCAL, "--versions", 1, "--incumbent", "v1", "--json").json

    assert first["versions"][0]["template"] == "greedy"
    assert second["versions"][0]["digest"] == digest_of(PICKS_ALL)
    assert third["versions"][0]["digest"] == first["versions"][0]["digest"]
    assert len(third["trees"]) == 8, "without --trees, those of the store"


def test_a_faulted_version_is_told_with_its_kind_and_cannot_win(
    command: Callable[..., Ended], searches: Path, folder: Path
) -> None:
    (folder / "broken.py").write_text(
        "class Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n        return [99]\n"
    )

    ended = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--incumbent", "broken.py", "--json")

    assert ended.code == 0
    assert "faulted: bad-answer" in ended.err
    first, second = ended.json["versions"]
    assert (first["value"], first["fault"]["rule"]) == (None, "unknown_node")
    assert ended.json["best"] == second["version"]
    assert ended.json["development"]["difference"] is None
    shown = command("show", f"v{first['version']}")
    assert "bad-answer (unknown_node) in round 1" in shown.out


def test_a_fault_on_held_out_trees_is_told_and_that_version_cannot_win(
    command: Callable[..., Ended], searches: Path, folder: Path
) -> None:
    read = {on.digest: on for on in map(treefile.read, sorted(searches.iterdir()))}
    odd = read[split_trees({digest: on.luck for digest, on in read.items()}, 0.7)[Split.HELD_OUT][-1]].scores[1]
    forged = r"by zero\nthe best is v9"
    breaks = f"if view.attempts and view.nodes[1].score == {odd}:\n            raise ZeroDivisionError('{forged}')"
    frail = PICKS_ALL.replace("view):\n", f"view):\n        {breaks}\n")
    (folder / "frail.py").write_text(frail)

    ended = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--holdout", 0.7, "--incumbent", "frail.py")

    assert ended.code == 0
    assert "v1 faulted on held-out trees and cannot win: exception: ZeroDivisionError" in ended.out
    assert [line[:14] for line in ended.out.splitlines() if line.startswith("the best is")] == ["the best is v2"]
    held_out = ended.out.split("\nheld-out")[1].splitlines()[:2]
    assert [line.split()[-3::2] for line in held_out] == [["-", "-"]] * 2, "no mean over the trees before its fault"
    assert "raise ZeroDivisionError" in command("show", "v1").out


def test_without_an_engine_templates_run_locally_and_it_is_said(searches: Path, folder: Path) -> None:
    gone = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}

    ended = process("evolve", "--trees", searches, "--versions", 1, "--json", cwd=folder, variables=gone)

    assert ended.code == 0
    assert ended.json["sandbox"] == "local"
    assert "run in the local sandbox" in ended.err


def test_without_an_engine_a_file_as_incumbent_is_not_run_unasked(searches: Path, folder: Path) -> None:
    (folder / "mine.py").write_text(PICKS_ALL)
    gone = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}

    ended = process("evolve", "--trees", searches, "--incumbent", "mine.py", cwd=folder, variables=gone)

    assert ended.code == 3
    assert "--sandbox local" in ended.err
    assert not (folder / ".harness").exists(), "a command that cannot begin leaves everything as it was"


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_docker_and_local_give_the_same_run(command: Callable[..., Ended], searches: Path) -> None:
    runs = [
        command(
            "evolve", "--trees", searches, "--sandbox", name, "--versions", 3, "--store", f"sqlite:///{name}.db", "--json"
        ).json
        for name in ("docker", "local")
    ]

    assert [run["sandbox"] for run in runs] == ["docker", "local"]
    assert outcome(runs[0]) == outcome(runs[1])


def test_what_the_store_knows_can_be_asked_afterwards(command: Callable[..., Ended], searches: Path) -> None:
    """History with its filters, a version with its lineage, its code, and the difference of two."""
    told = command("evolve", "--trees", searches, *LOCAL, "--versions", 5, "--json").json
    last = told["versions"][-1]

    events = command("history", "--json").json["events"]
    chosen = command("history", "--kind", "selected", "rolled-back", "--json").json["events"]
    shown = command("show", f"v{last['version']}", "--json").json

    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    assert {event["kind"] for event in chosen} <= {"selected", "rolled_back"}
    assert command("history", "--limit", "2", "--json").json["events"] == events[-2:]
    assert all(event["version"] == 2 for event in command("history", "--version", "v2", "--json").json["events"])
    assert (shown["digest"], shown["params"], shown["template"]) == (last["digest"], last["params"], last["template"])
    assert shown["runs"][0]["splits"]["development"]["value"] == last["value"]
    assert shown["lineage"][-1] == 1
    assert digest_of(command("show", last["version"], "--source").out) == last["digest"]
    with Store.open(STORE) as store:
        assert store.check() == []


def test_diff_shows_the_change_of_code_and_of_value_largest_first(command: Callable[..., Ended], searches: Path) -> None:
    told = command("evolve", "--trees", searches, *LOCAL, "--versions", 3, "--json").json
    values = {line["version"]: line["value"] for line in told["versions"]}

    difference = command("diff", "v1", "v2", "--json").json

    steps = [abs(line["difference"]) for line in difference["trees"]]
    assert difference["diff"].startswith("--- v1\n+++ v2")
    assert steps == sorted(steps, reverse=True)
    assert len(steps) > 0
    of_development = [line for line in difference["trees"] if line["split"] == "development"]
    assert sum(line["difference"] for line in of_development) / len(of_development) == pytest.approx(values[2] - values[1])
    assert "+++ v2" in command("diff", "1", "2").out
    assert "the code is the same" in command("diff", "1", "1").out


def test_replay_of_a_version_repeats_its_value(command: Callable[..., Ended], searches: Path) -> None:
    told = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--holdout", 0, "--json").json

    ended = command("replay", "v2", "--trees", searches, *LOCAL, "--json")

    assert ended.json["mean_value"] == told["versions"][1]["value"]
    assert ended.json["policy"] == {"digest": told["versions"][1]["digest"], "name": "v2", "version": 2}


def test_a_version_that_is_not_there_is_named(command: Callable[..., Ended], searches: Path) -> None:
    command("evolve", "--trees", searches, *LOCAL, "--versions", 1)

    for args in (("show", "v9"), ("diff", "v1", "v9"), ("replay", "v9", "--trees", searches), ("history", "--version", "9")):
        ended = command(*args)
        assert (ended.code, ended.out) == (2, "")
        assert "there is no version 9" in ended.err
    assert "expected the number of a version" in command("show", "latest").err
    assert "there is no run 5" in command("history", "--run", 5).err


def test_a_run_is_judged_by_one_objective_from_its_beginning_to_its_end(command: Callable[..., Ended], searches: Path) -> None:
    asked = ("--objective", "attainment", "--weight", "group", "--group-by", "task")
    for number, file in enumerate(sorted(searches.iterdir())):
        treefile.write(replace(treefile.read(file), task="packing" if number < 6 else "sorting"), file)

    shown = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--holdout", 0, *asked)
    told = command("evolve", "--trees", searches, *LOCAL, "--versions", 2, "--holdout", 0, *asked, "--json").json

    words = ", objective attainment, groups weighted alike (task)"
    assert f"local sandbox{words}" in shown.err
    assert words in shown.out.splitlines()[0]
    assert (told["objective"], told["weight"], told["group_by"]) == ("attainment", "group", "task")
    of_task = {line["task"]: line["incumbent"] for line in told["tasks"]}
    assert told["development"]["incumbent"] == pytest.approx(sum(of_task.values()) / 2, abs=1e-12)
    assert told["versions"][0]["value"] == told["development"]["incumbent"]
    with Store.open(STORE) as store:
        assert (store.run(1).plan.settings.objective, store.run(1).plan.settings.weight) == ("attainment", "group")
    assert f"attainment by tree, run 2{words}" in command("diff", "v1", "v2").out
    assert "objective attainment" in command("show", "v1").out
    assert command("show", "v1", "--json").json["runs"][0]["objective"] == "attainment"
    refused = command("evolve", "--resume", "--objective", "value")
    assert "--objective: a run goes on with the plan it began with" in refused.err
