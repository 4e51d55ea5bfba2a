"""`harness replay`: the answer for people, the answer for programs, and what a faulted policy is told."""

from __future__ import annotations

import json
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from builders import tree
from commands import PICKS_ALL, PROJECT, environment, named, process

from harness import treefile
from harness.policy import digest_of
from harness.tree import Attempt, Root, Tree
from sandbox.api import Frontier

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Ended

CASES = {
    case["name"]: case
    for case in json.loads(PROJECT.joinpath("tests", "conformance-replay.json").read_text())["cases"]
    if not case["name"].startswith("random-")
}
IN_DOCKER = ("worked-example", "pick-inner-node", "no-score-anywhere", "any-frontier-twice")

SCRIPTED = """
class Policy:
    script = {script!r}

    def __init__(self, context):
        self.names = {{"root": 0}}

    def decide(self, view):
        self.names |= {{node.hypothesis: node.id for node in view.new if node.id}}
        batches = self.script[view.round - 1:]
        return [self.names.get(name, 4_000_000_000) for name in batches[0]] if batches else []
"""


def conformance(command: Callable[..., Ended], folder: Path, case: dict[str, Any], sandbox: str) -> None:
    """Take one conformance case through the whole command."""
    attempts = tuple(
        Attempt(node["id"], None if node["parent"] == "root" else node["parent"], node["score"], hypothesis=node["id"])
        for node in case["nodes"]
    )
    recorded = Tree(case["name"], attempts, frontier=Frontier(case["frontier"]), root=Root(case["root_score"]))
    treefile.write(recorded, folder / "case.jsonl")
    (folder / "scripted.py").write_text(SCRIPTED.format(script=case["script"]))
    limits = [
        f"--{name.replace('_', '-')}={case[name]}"
        for name in ("max_rounds", "max_batch", "max_attempts")
        if case[name] is not None
    ]
    weights = [f"--{name}={case[name]}" for name in ("beta1", "beta2", "normalize")]
    expected = case["expected"]

    ended = command(
        "replay", "scripted.py", "--trees", "case.jsonl", "--sandbox", sandbox, "--json", "--trajectory", *limits, *weights
    )

    (told,) = ended.json["trees"]
    assert told["rounds"] == expected["rounds"]
    assert (told["n"], told["k"], told["wasted"]) == (expected["n"], expected["k"], expected["wasted"])
    assert (told["best"], told["quality"], told["value"]) == (expected.get("best"), expected.get("quality"), expected["value"])
    assert told["stop"] == expected["stop"]
    assert (told["fault"] or {}).get("rule") == expected.get("error")
    assert ended.json["mean_value"] == expected["value"]
    assert ended.code == (1 if expected.get("error") else 0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_of_the_contract_ends_as_recorded_in_the_local_sandbox(
    command: Callable[..., Ended], folder: Path, case: dict[str, Any]
) -> None:
    conformance(command, folder, case, "local")


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", IN_DOCKER)
def test_a_case_of_the_contract_ends_as_recorded_in_docker(command: Callable[..., Ended], folder: Path, name: str) -> None:
    conformance(command, folder, CASES[name], "docker")


def test_the_document_holds_what_the_contract_names(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    """Digest and settings of the evaluation, a line for each tree in order of path, no rounds unless asked for."""
    ended = command("replay", policy, "--trees", trees, "--sandbox", "local", "--seed", 5, "--max-rounds", 9, "--json")

    told = ended.json
    assert ended.code == 0
    assert told["policy"]["digest"] == digest_of(policy.read_text())
    assert told["sandbox"] == "local"
    assert told["isolation"] == {"backend": "local", "python": platform.python_version(), "image": None, "runtime": None}
    assert {"beta1": 0.001, "beta2": 0.005, "normalize": "tree", "max_batch": 8, "seed": 5, "max_rounds": 9}.items() <= told[
        "settings"
    ].items()
    assert [line["name"] for line in told["trees"]] == ["one", "three", "two"]
    assert all("rounds" not in line and line["fault"] is None for line in told["trees"])
    assert told["mean_value"] == pytest.approx(sum(line["value"] for line in told["trees"]) / 3, abs=1e-15)


def test_people_see_an_aligned_table_and_the_mean(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    ended = command("replay", policy, "--trees", trees, "--sandbox", "local")

    head, *lines = [line for line in ended.out.splitlines()[2:] if line]
    assert head.split() == ["tree", "value", "quality", "best", "N", "k", "wasted", "stop"]
    assert [line.split()[0] for line in lines] == ["one", "three", "two", "mean"]
    assert {line.index(line.split()[-1]) for line in lines[:3]} == {head.index("stop")}


def test_trees_may_follow_one_flag_or_several(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    one, two, three = (trees / f"{name}.jsonl" for name in ("one", "two", "three"))

    ended = command("replay", policy, "--trees", one, two, f"--trees={three}", "--sandbox", "local", "--json")

    assert [line["name"] for line in ended.json["trees"]] == ["one", "three", "two"]


def test_the_local_sandbox_says_once_what_it_leaves_open(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    ended = command("replay", policy, "--trees", trees, "--sandbox", "local")

    assert ended.err.count("does not isolate everything") == 1
    assert "no container" in ended.err


def test_a_tree_without_scores_is_named_and_left_out_of_the_mean(
    command: Callable[..., Ended], policy: Path, trees: Path
) -> None:
    bare = tree("root>a", root=None, scores={"a": None})
    treefile.write(named(bare, "bare"), trees / "bare.jsonl")

    ended = command("replay", policy, "--trees", trees, "--sandbox", "local", "--json")

    first, *others = ended.json["trees"]
    assert ended.code == 0
    assert "'bare' has no score" in ended.err
    assert (first["name"], first["value"], first["fault"]) == ("bare", None, None)
    assert ended.json["mean_value"] == pytest.approx(sum(line["value"] for line in others) / 3, abs=1e-15)


def test_zero_as_a_limit_is_a_limit_of_zero(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    one = trees / "one.jsonl"
    stops = {}
    for limit in ("rounds", "attempts", "batch"):
        ended = command("replay", policy, "--trees", one, "--sandbox", "local", f"--max-{limit}", 0, "--json")
        stops[limit] = (ended.code, ended.json["trees"][0]["stop"], ended.json["trees"][0]["n"])

    assert stops == {"rounds": (0, "max_rounds", 0), "attempts": (0, "max_attempts", 0), "batch": (0, "policy_stopped", 0)}


def test_a_fault_is_told_with_the_policys_own_lines_and_what_it_printed(
    command: Callable[..., Ended], folder: Path, trees: Path
) -> None:
    (folder / "broken.py").write_text(
        "class Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n"
        "        if view.round == 2:\n            print('about to divide')\n            return [1 // 0]\n        return [0]\n"
    )

    ended = command("replay", "broken.py", "--trees", trees, "--sandbox", "local")
    told = command("replay", "broken.py", "--trees", trees, "--sandbox", "local", "--json").json

    assert ended.code == 1
    assert "exception in round 2" in ended.out
    assert "ZeroDivisionError" in ended.out
    assert "line 6, in decide" in ended.out
    assert "about to divide" in ended.out
    assert ended.out.count("ZeroDivisionError") == 2, "the sentence and the traceback, once for all trees"
    fault = told["trees"][0]["fault"]
    assert set(fault) == {"kind", "rule", "message", "round", "traceback", "figures"}
    assert (fault["kind"], fault["round"], told["mean_value"]) == ("exception", 2, None)
    assert told["trees"][0]["value"] is None


def test_what_a_policy_prints_cannot_steer_the_terminal(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    (folder / "loud.py").write_text(
        "class Policy:\n    def __init__(self, context): print('\\x1b[2J\\x07gone')\n    def decide(self, view): return []\n"
    )

    ended = command("replay", "loud.py", "--trees", trees, "--sandbox", "local")

    assert "gone" in ended.out
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out


REFUSED = {
    "imports": (b"import os\nclass Policy:\n    pass\n", (), "module os is not for policies"),
    "not UTF-8": (b"class Policy:\n    name = '\xff'\n", (), "UTF-8"),
    "not UTF-8, unchecked": (b"class Policy:\n    name = '\xff'\n", ("--no-check",), "line 2: the source is not UTF-8"),
    "lone surrogate, unchecked": (b"name = '\xed\xa0\x80'\n", ("--no-check",), "line 1: the source is not UTF-8"),
    "too large": (b"#" * 300_000, (), "300000 bytes"),
    "too large, unchecked": (b"#" * 300_000, ("--no-check",), "300000 bytes"),
    "no policy": (b"x = 1\n", (), "Policy"),
}


@pytest.mark.parametrize(("source", "flags", "reason"), REFUSED.values(), ids=REFUSED)
def test_source_that_is_not_run_at_all_is_a_fault_of_the_policy(
    command: Callable[..., Ended], trees: Path, source: bytes, flags: tuple[str, ...], reason: str
) -> None:
    """It needs no sandbox: the answer comes on a machine without any."""
    Path("refused.py").write_bytes(source)

    ended = command("replay", "refused.py", "--trees", trees, "--sandbox", "docker", *flags, "--json")

    assert ended.code == 1
    assert {line["fault"]["kind"] for line in ended.json["trees"]} == {"refused-at-check"}
    assert reason in ended.json["trees"][0]["fault"]["message"]


def test_unchecked_code_meets_the_sandbox(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    (folder / "reaching.py").write_text("open('/etc/passwd')\n")

    ended = command("replay", "reaching.py", "--trees", trees, "--sandbox", "local", "--no-check", "--json")

    assert ended.code == 1
    assert ended.json["trees"][0]["fault"]["kind"] == "load-fault"


def test_parameters_reach_the_policy(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    (folder / "wide.py").write_text(
        "class Policy:\n    def __init__(self, context): self.width = context.params['width']\n"
        "    def decide(self, view): return [0] * self.width if view.round == 1 else []\n"
    )

    ended = command("replay", "wide.py", "--trees", trees, "--sandbox", "local", "--param", "width=2", 'note="x"', "--json")

    assert [line["n"] for line in ended.json["trees"]] == [2, 2, 2]
    assert ended.json["settings"]["params"] == {"width": 2, "note": "x"}


def test_a_template_is_a_policy_by_its_name_unless_a_file_is_called_so(
    command: Callable[..., Ended], folder: Path, policy: Path, trees: Path
) -> None:
    """Our own code: without an engine it runs locally."""
    gone = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    of_template = process("replay", "greedy", "--trees", trees, "--json", cwd=folder, variables=gone)
    (folder / "greedy").write_text(policy.read_text())
    of_file = command("replay", "greedy", "--trees", trees, "--sandbox", "local", "--json")

    assert (of_template.code, of_template.json["sandbox"]) == (0, "local")
    assert of_template.json["settings"]["params"] != {}
    assert of_file.json["policy"]["digest"] == digest_of(policy.read_text())


def test_without_an_engine_code_from_a_file_is_not_run_unasked(policy: Path, trees: Path, folder: Path) -> None:
    """`auto` never steps down in silence: it names both ways on."""
    ended = process("replay", policy, "--trees", trees, cwd=folder, variables={"DOCKER_HOST": "unix:///nowhere/docker.sock"})

    assert ended.code == 3
    assert ended.out == ""
    assert "start one" in ended.err
    assert "--sandbox local" in ended.err


@pytest.mark.slow
def test_ctrl_c_ends_a_replay_cleanly(folder: Path, trees: Path) -> None:
    """The policy takes its time; what has been replayed is counted, and nothing is left running."""
    (folder / "slow.py").write_text(
        "import time\nclass Policy:\n    def __init__(self, context): pass\n"
        "    def decide(self, view):\n        time.sleep(0.3)\n        return [0]\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "harness", "replay", "slow.py", "--no-check", "--trees", "trees", "--sandbox", "local"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    first = running.stderr.readline()
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)

    assert "local sandbox" in first
    assert (running.returncode, out) == (130, "")
    assert "interrupted after" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("policy")
def test_figures_of_any_size_stay_readable(command: Callable[..., Ended], trees: Path) -> None:
    ended = command("replay", "policy.py", "--trees", trees, "--sandbox", "local", "--beta2", "1e90")

    assert max(map(len, ended.out.splitlines())) < 120


def test_replay_leaves_nothing_behind(command: Callable[..., Ended], folder: Path, policy: Path, trees: Path) -> None:
    before = sorted(folder.rglob("*"))

    command("replay", policy, "--trees", trees, "--sandbox", "local")

    assert sorted(folder.rglob("*")) == before


def test_figures_of_a_fault_are_whole_numbers_where_they_count(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    (folder / "greedy.py").write_text(PICKS_ALL.replace("open_ = ", "bytearray(2**30); open_ = "))

    ended = command("replay", "greedy.py", "--trees", trees, "--sandbox", "local")

    assert "limit_memory_bytes 100,663,296" in ended.out
    assert "e+0" not in ended.out


def test_a_refusal_shows_its_finding_and_no_count_of_one(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    (folder / "clock.py").write_text("import time\n" + PICKS_ALL)

    ended = command("replay", "clock.py", "--trees", trees, "--sandbox", "local")

    assert "line 1, column 1: module time is not for policies" in ended.out
    assert "findings" not in ended.out


def test_one_bug_is_told_once_whatever_the_trees_make_of_its_words(
    command: Callable[..., Ended], folder: Path, trees: Path
) -> None:
    source = PICKS_ALL.rpartition("return")[0] + "raise KeyError(view.nodes[0].score)\n"
    (folder / "buggy.py").write_text(source)
    for place, file in enumerate(sorted(trees.iterdir())):
        header, *nodes = file.read_text().splitlines()
        file.write_text("\n".join([json.dumps(json.loads(header) | {"root": {"score": float(place)}}), *nodes]) + "\n")

    ended = command("replay", "buggy.py", "--trees", trees, "--sandbox", "local")

    assert ended.code == 1
    assert ended.out.count("raise KeyError(view.nodes[0].score)") == 1
    assert "and 2 more trees: exception in round 1" in ended.out


def test_another_objective_is_named_wherever_its_figures_stand(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    args = ("replay", policy, "--trees", trees, "--sandbox", "local", "--objective", "attainment")

    shown, told = command(*args), command(*args, "--json").json

    assert "sandbox local, 3 trees, objective attainment)" in shown.out
    assert re.search(r"tree +attainment +quality", shown.out)
    assert told["settings"]["objective"] == "attainment"
    assert told["mean_value"] == pytest.approx(sum(tree["value"] for tree in told["trees"]) / 3)
    assert all(0 < tree["value"] <= 1 for tree in told["trees"])


def test_groups_of_trees_count_once_each_where_asked_for(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    for name, task in (("one", "packing"), ("two", "packing"), ("three", "sorting")):
        file = trees / f"{name}.jsonl"
        treefile.write(replace(treefile.read(file), task=task), file)
    args = ("replay", policy, "--trees", trees, "--sandbox", "local")

    shown, told = command(*args, "--weight", "group"), command(*args, "--weight", "group", "--group-by", "task", "--json").json

    value = {tree["name"]: tree["value"] for tree in told["trees"]}
    packing = (value["one"] + value["two"]) / 2
    assert [(group["group"], group["trees"]) for group in told["groups"]] == [("packing", 2), ("sorting", 1)]
    assert told["groups"][0]["value"] == pytest.approx(packing, abs=1e-12)
    assert told["mean_value"] == pytest.approx((packing + value["three"]) / 2, abs=1e-12)
    assert "groups weighted alike (auto)" in shown.out
    assert re.search(rf"group packing +{packing:.4f}", shown.out)
    assert re.search(rf"mean +{told['mean_value']:.4f}", shown.out)
