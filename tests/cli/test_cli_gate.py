"""`harness gate`, from its arguments to its exit code, in the local sandbox unless a test is about the engine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from builders import tree
from commands import PICKS_ALL, Ended, environment, named
from junitparser import JUnitXml

from harness import manifest, treefile
from harness.policy import EventKind
from harness.store import Store
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = ("--sandbox", "local", "--allow-local")
STOPS = "class Policy:\n    def __init__(self, context): ...\n    def decide(self, view): return []\n"
FAULTS = "class Policy:\n    def __init__(self, context): ...\n    def decide(self, view): return [1 // (len(view.nodes) - 1)]\n"
REFUSED = "import socket\nclass Policy: ...\n"
CAREFUL = PICKS_ALL.replace("self.limits.max_batch]", "1]")
SLOW = PICKS_ALL.replace("        open_ =", "        for _ in range(20_000_000): pass\n        open_ =")


@pytest.fixture
def held_out(folder: Path) -> Path:
    """Return a folder of ten trees of two tasks, on each of which whoever looks finds more."""
    inside = folder / "held-out"
    inside.mkdir()
    for place in range(10):
        made = tree("root>a", "root>b", "a>a2", scores={"a": 0.3, "b": 0.2, "a2": 0.5 + place / 100})
        header = {"task": f"task-{place % 2}"}
        treefile.write(type(made)(f"tree-{place}", made.attempts, root=made.root, **header), inside / f"tree-{place}.jsonl")
    return inside


@pytest.fixture
def policies(folder: Path) -> None:
    """Write policies by name: one that looks, one that stops at once, and some that break their contract."""
    sources = {"looks": PICKS_ALL, "careful": CAREFUL, "stops": STOPS, "faults": FAULTS, "refused": REFUSED, "slow": SLOW}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)


@pytest.fixture
def gate(command: Callable[..., Ended], held_out: Path, policies: None) -> Callable[..., Ended]:
    """Return a function that gates a candidate in the local sandbox over the ten trees."""

    def run(candidate: str, against: str, *args: object, trees: Path = held_out) -> Ended:
        return command("gate", candidate, "--against", against, "--trees", trees, *LOCAL, *args)

    return run


def stored(folder: Path) -> Store:
    """Open the store that the command has made."""
    return Store.open(f"sqlite:///{folder}/.harness/harness.db")


def kinds(folder: Path) -> list[str]:
    """Return the kinds of all events."""
    with closing(stored(folder)) as store:
        return [event.kind.value for event in store.events()]


def parts(ended: Ended) -> dict[str, str]:
    """Return what each part answered."""
    return {part["name"]: part["outcome"] for part in ended.json["verdict"]["parts"]}


def test_a_better_policy_passes_and_is_recorded_with_its_verdict(gate: Callable[..., Ended], folder: Path) -> None:
    ended = gate("looks.py", "stops.py", "--by", "me")

    assert ended.code == 0, ended.err
    assert ended.out.startswith("pass: looks.py (v1) against stops.py (v2)\n")
    assert "`harness promote v1 --verdict 1` makes it the incumbent" in ended.out
    assert "look 1 at 10 held-out trees: level 0.0304, local sandbox" in ended.err
    assert kinds(folder) == ["proposed", "proposed", "looked", "gated"]
    with closing(stored(folder)) as store:
        recorded = store.verdict(1)
        assert (recorded.candidate, recorded.incumbent, recorded.by) == (1, 2, "me")
        assert recorded.verdict.passed


def test_the_look_is_recorded_before_the_replays(gate: Callable[..., Ended], folder: Path) -> None:
    """An incumbent that faults ends the command, and the look stands."""
    ended = gate("looks.py", "faults.py")

    assert ended.code == 2
    assert "incumbent" in ended.err
    assert "look 1 is recorded and stands: the same command asks again, at no new level" in ended.err
    assert kinds(folder) == ["proposed", "proposed", "looked"]


def test_the_same_question_is_the_same_look(gate: Callable[..., Ended], folder: Path) -> None:
    first = gate("looks.py", "stops.py", "--json")
    again = gate("looks.py", "stops.py", "--json")

    assert "asked before" in again.err
    assert again.json["verdict"]["look"] == first.json["verdict"]["look"] | {"again": True}
    assert kinds(folder).count("looked") == 1
    measured = {"decision-time"}
    assert [part for part in again.json["verdict"]["parts"] if part["name"] not in measured] == [
        part for part in first.json["verdict"]["parts"] if part["name"] not in measured
    ]


def test_another_candidate_on_the_same_trees_has_less_to_spend(gate: Callable[..., Ended], folder: Path) -> None:
    gate("looks.py", "stops.py")
    ended = gate("careful.py", "stops.py", "--json")

    look = ended.json["verdict"]["look"]
    assert (look["number"], round(look["level"], 4)) == (2, 0.0076)


def test_the_incumbent_itself_is_refused_without_a_look(gate: Callable[..., Ended], folder: Path) -> None:
    (folder / "copy.py").write_text(PICKS_ALL)

    ended = gate("copy.py", "looks.py", "--json")

    assert ended.code == 1
    assert parts(ended) == {"distinct": "refuse"}
    assert "byte for byte" in ended.json["reason"]
    assert "looked" not in kinds(folder)


def test_the_local_sandbox_is_refused_unless_it_is_allowed_by_name(
    command: Callable[..., Ended], held_out: Path, policies: None
) -> None:
    ended = command("gate", "looks.py", "--against", "stops.py", "--trees", held_out, "--sandbox", "local", "--json")

    assert ended.code == 1
    assert parts(ended) == {"distinct": "pass", "sandbox": "refuse"}
    assert ended.json["verdict"]["look"] is None


@pytest.mark.docker
def test_without_a_word_about_it_the_sandbox_is_docker(
    engine: None, command: Callable[..., Ended], held_out: Path, policies: None
) -> None:
    ended = command("gate", "looks.py", "--against", "stops.py", "--trees", held_out, "--json")

    assert ended.code == 0, ended.err
    assert ended.json["verdict"]["sandbox"] == "docker"


def test_a_policy_that_the_check_refuses_is_never_run_and_spends_no_look(gate: Callable[..., Ended], folder: Path) -> None:
    ended = gate("refused.py", "stops.py", "--json")

    assert ended.code == 1
    assert parts(ended) == {"distinct": "pass", "faults": "refuse"}
    assert "socket" in ended.json["reason"]
    assert "looked" not in kinds(folder)


def test_a_policy_that_faults_is_refused_with_the_fault(gate: Callable[..., Ended]) -> None:
    ended = gate("faults.py", "stops.py", "--json")

    assert ended.code == 1
    assert parts(ended)["faults"] == "refuse"
    assert "ZeroDivisionError" in ended.json["reason"]


def test_a_worse_policy_is_refused_by_its_gain(gate: Callable[..., Ended]) -> None:
    ended = gate("stops.py", "looks.py", "--json")

    assert ended.code == 1
    assert parts(ended)["gain"] == "refuse"


def test_too_few_trees_cannot_tell_and_say_how_many_it_takes(gate: Callable[..., Ended], held_out: Path, folder: Path) -> None:
    ended = gate("looks.py", "stops.py", "--json", "--junit", "gate.xml", trees=held_out / "tree-3.jsonl")

    assert ended.code == 1
    assert ended.json["outcome"] == "cannot-tell"
    cases = [case for suite in JUnitXml.fromfile("gate.xml") for case in suite]
    assert {failure.type for case in cases for failure in case.result} == {"cannot-tell"}


def test_trees_without_a_score_and_trees_given_twice_are_named(gate: Callable[..., Ended], held_out: Path) -> None:
    mute = tree("root>a", root=None, scores={"a": None})
    treefile.write(named(mute, "mute"), held_out / "mute.jsonl")
    (held_out / "twice.jsonl").write_bytes((held_out / "tree-0.jsonl").read_bytes())

    ended = gate("looks.py", "stops.py")

    assert ended.code == 0
    assert "1 tree left out, it has no score: mute" in ended.out
    assert "twice.jsonl: tree 'tree-0' stands in another file as well and counts once" in ended.err
    assert "look 1 at 10 held-out trees, 1 left out" in ended.err


def test_trees_that_developed_the_candidate_never_count(command: Callable[..., Ended], held_out: Path) -> None:
    evolved = command("evolve", "--trees", held_out, "--versions", "2", "--holdout", "0.4", "--sandbox", "local", "--json")
    assert evolved.code == 0, evolved.err
    developed_on, held = evolved.json["development"]["trees"], evolved.json["held_out"]["trees"]

    ended = command("gate", "v2", "--against", "v1", "--trees", held_out, *LOCAL, "--json")

    assert len(ended.json["verdict"]["trees"]) == held
    assert [why for _, why in ended.json["verdict"]["left_out"]] == ["the candidate was developed on it"] * developed_on


def test_a_near_copy_of_what_developed_the_candidate_never_counts(
    command: Callable[..., Ended], held_out: Path, folder: Path
) -> None:
    """The same task and seed with another budget: its first attempts are those that development has seen."""
    searches = folder / "searches"
    searches.mkdir()
    for place, file in enumerate(sorted(held_out.iterdir())):
        read = treefile.read(file)
        source = {"task_digest": "f00", "seed": place}
        treefile.write(replace(read, attempts=read.attempts[:2], source=source), searches / file.name)
        treefile.write(replace(read, source=source | {"seed": 2 * place}), file)
    evolved = command("evolve", "--trees", searches, "--versions", "2", "--holdout", "0", "--sandbox", "local", "--json")
    assert evolved.code == 0, evolved.err

    ended = command("gate", "v2", "--against", "v1", "--trees", held_out, *LOCAL, "--json")

    left_out = ended.json["verdict"]["left_out"]
    assert [why for _, why in left_out] == ["the candidate was developed on a search of the same task and seed"] * 5
    assert len(ended.json["verdict"]["trees"]) == 5


def test_without_trees_those_that_the_candidates_run_held_out_are_looked_at(
    command: Callable[..., Ended], held_out: Path, policies: None
) -> None:
    """The end of the run was a look at them already; where that was this pair, it is the same look."""
    start = ("--trees", held_out, "--versions", "3", "--holdout", "0.4", "--incumbent", "stops.py")
    evolved = command("evolve", *start, "--sandbox", "local", "--json")
    best = evolved.json["best"]
    assert best != 1

    ended = command("gate", f"v{best}", "--against", "v1", *LOCAL, "--json")

    assert len(ended.json["verdict"]["trees"]) == evolved.json["held_out"]["trees"]
    assert ended.json["verdict"]["left_out"] == []
    assert ended.json["verdict"]["look"]["again"] is True


def test_where_no_tree_is_left_nothing_can_be_told_and_nothing_is_spent(
    command: Callable[..., Ended], held_out: Path, folder: Path
) -> None:
    command("evolve", "--trees", held_out, "--versions", "2", "--holdout", "0", "--sandbox", "local")

    ended = command("gate", "v2", "--against", "v1", "--trees", held_out, *LOCAL, "--json")

    assert (ended.code, ended.json["outcome"]) == (1, "cannot-tell")
    assert "no held-out tree is left to ask; record fresh ones" in ended.json["reason"]
    assert ended.json["verdict"]["look"] is None
    assert parts(ended) == {"distinct": "pass", "gain": "cannot-tell"}
    assert len(ended.json["verdict"]["left_out"]) == 10
    assert "looked" not in kinds(folder)
    assert "no look at the trees was spent" in command("gate", "v2", "--against", "v1", "--trees", held_out, *LOCAL).out


def test_an_incumbent_that_is_not_run_at_all_costs_no_look(gate: Callable[..., Ended]) -> None:
    ended = gate("looks.py", "refused.py")

    assert ended.code == 2
    assert "incumbent refused.py: refused-at-check: line 1" in ended.err
    assert ended.err.endswith("; compare with a policy that runs\n")
    assert "look" not in ended.err.replace("looks.py", "")


def test_a_refusal_for_the_sandbox_says_what_takes_it(command: Callable[..., Ended], held_out: Path, policies: None) -> None:
    ended = command("gate", "looks.py", "--against", "stops.py", "--trees", held_out, "--sandbox", "local")

    assert ended.code == 1
    assert "refused by sandbox: local is no boundary: the gate asks for docker, unless --allow-local says otherwise" in ended.out


def test_a_new_store_says_that_it_knows_of_no_other_looks(gate: Callable[..., Ended]) -> None:
    assert "the store is new" in gate("looks.py", "stops.py").out
    assert "the store is new" not in gate("looks.py", "stops.py").out


@pytest.mark.usefixtures("held_out", "policies")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no candidate given; write harness gate CANDIDATE"),
        (("looks.py",), "there is no incumbent yet: no version was promoted; name what the candidate must beat with --against"),
        (("looks.py", "--against", "gone.py"), "gone.py: no such file"),
        (("looks.py", "--against", "stops.py"), "no trees given, and there is no store to take held-out ones from"),
        (("looks.py", "--against", "stops.py", "--trees", "gone"), "gone: "),
        (
            ("looks.py", "--against", "stops.py", "--trees", "held-out", "--alpha", "2"),
            "--alpha: alpha is '2'; expected a chance",
        ),
        (("looks.py", "--against", "stops.py", "--trees", "held-out", "--junit", "no/x.xml"), "no/x.xml: there is no folder no"),
        (("looks.py", "--against", "stops.py", "--trees", "held-out", "--markdown", "held-out"), "held-out: is a folder"),
        (("looks.py", "--base", "main"), "--base: 'main' is a commit to read a policy's folder at; expected --policy-dir"),
        (("--policy-dir", "held-out"), "held-out: has no policy.py"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(
    command: Callable[..., Ended], folder: Path, args: tuple[str, ...], message: str
) -> None:
    ended = command("gate", *args)

    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert not (folder / ".harness").exists()


def test_a_policy_without_text_is_bad_input(gate: Callable[..., Ended], folder: Path) -> None:
    (folder / "binary.py").write_bytes(b"x = '\xff'\n")

    ended = gate("binary.py", "stops.py")

    assert ended.code == 2
    assert "binary.py: line 1: the source is not UTF-8" in ended.err


@pytest.fixture
def policy_dir(folder: Path, held_out: Path, policies: None) -> Path:
    """Return a policy's folder: the policy that stops at the commit `base`, the one that looks in the work tree."""
    made = folder / "policies" / "mine"
    made.mkdir(parents=True)
    digest = set_digest(treefile.read(file).digest for file in treefile.find([held_out]))
    (made / "policy.toml").write_text(f'format = "policy/1"\n[trees]\npaths = ["../../held-out"]\ndigest = "{digest}"\n')
    (made / "policy.py").write_text(STOPS)
    for args in (("init", "-q"), ("add", "policies"), ("commit", "-q", "-m", "first"), ("tag", "base")):
        subprocess.run(["git", "-c", "user.name=me", "-c", "user.email=me@example.org", *args], check=True)
    (made / "policy.py").write_text(PICKS_ALL)
    return Path("policies/mine")


def test_a_policy_under_version_control_is_judged_against_itself_at_a_commit(
    command: Callable[..., Ended], policy_dir: Path
) -> None:
    ended = command("gate", "--policy-dir", policy_dir, "--base", "base", *LOCAL)

    assert ended.code == 0, ended.err
    assert ended.out.startswith("pass: policies/mine/policy.py (v1) against policies/mine/policy.py at base (v2)\n")


def test_rules_that_change_with_the_policy_are_told(command: Callable[..., Ended], policy_dir: Path) -> None:
    with (policy_dir / "policy.toml").open("a") as rules:
        rules.write("[gate]\nalpha = 0.2\n")

    ended = command("gate", "--policy-dir", policy_dir, "--base", "base", *LOCAL, "--markdown", "gate.md")

    assert ended.code == 0, ended.err
    assert "policies/mine/policy.toml differs from base: gate.alpha (default) -> 0.2" in ended.out
    assert "> ⚠️ policies/mine/policy.toml differs from base: gate.alpha" in Path("gate.md").read_text()


def test_a_policy_that_is_new_must_beat_what_is_named(command: Callable[..., Ended], policy_dir: Path) -> None:
    new = policy_dir.with_name("new")
    new.mkdir()
    for file in policy_dir.iterdir():
        (new / file.name).write_bytes(file.read_bytes())

    unnamed = command("gate", "--policy-dir", new, "--base", "base", *LOCAL)
    assert unnamed.code == 2
    assert "policies/new/policy.py: is new, base has no such file; name what it must beat with --against" in unnamed.err

    ended = command("gate", "--policy-dir", new, "--base", "base", "--against", "stops.py", *LOCAL)
    assert ended.code == 0, ended.err
    assert "policies/new/policy.py is new: base has no such file, it is compared with stops.py" in ended.out


def test_other_trees_than_the_pinned_ones_are_refused(
    command: Callable[..., Ended], policy_dir: Path, held_out: Path, folder: Path
) -> None:
    ended = command("gate", "--policy-dir", policy_dir, "--base", "base", "--trees", held_out / "tree-1.jsonl", *LOCAL)

    assert ended.code == 2
    assert "policies/mine/policy.toml:4: digest is " in ended.err
    assert not (folder / ".harness").exists()


@pytest.mark.slow
def test_an_interrupted_gate_says_that_its_look_stands(folder: Path, held_out: Path, policies: None) -> None:
    args = ("gate", "slow.py", "--against", "stops.py", "--trees", "held-out", *LOCAL)
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *args], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = ""
        while "look 1 at" not in said:
            said += process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said += process.stderr.read()

    assert process.returncode == 130, said
    assert "look 1 is recorded and stands" in said
    with closing(stored(folder)) as store:
        assert len(store.looks()) == 1
        assert store.events(kinds=[EventKind.GATED]) == []


def test_a_gate_is_held_again_from_its_manifest_to_the_same_verdict(
    gate: Callable[..., Ended], command: Callable[..., Ended], folder: Path
) -> None:
    asked = gate("looks.py", "stops.py", "--manifest", "gate.json", "--weight", "group", "--json")
    shown = command("verify", "gate.json", "--sandbox", "local", "--store", "sqlite:///none.db")

    assert asked.code == 0
    assert shown.code == 0, shown.out
    assert "20 replays of 2 policies over 10 trees" in shown.out
    assert "and the verdict with every figure of its parts" in shown.out
    said = manifest.read(folder / "gate.json")
    assert said.verdict == asked.json["verdict"]
    with closing(stored(folder)) as store:
        recorded = store.verdict(1).manifest
    assert [tree.pop("file") for tree in recorded["trees"]] == [None] * 10, "the store holds the trees itself"
    assert recorded["judged"] == manifest.plain(said)["judged"]
    assert [policy.name for policy in said.policies] == ["candidate looks.py", "incumbent stops.py"]


def test_the_manifest_of_a_refusal_for_a_fault_is_the_same_again(
    gate: Callable[..., Ended], command: Callable[..., Ended]
) -> None:
    assert gate("faults.py", "stops.py", "--manifest", "gate.json").code == 1
    assert command("verify", "gate.json", "--sandbox", "local").code == 0


def test_a_refusal_without_a_replay_has_no_manifest(gate: Callable[..., Ended], folder: Path) -> None:
    ended = gate("looks.py", "looks.py", "--manifest", "gate.json")
    assert ended.code == 1
    assert "gate.json: not written, since nothing was replayed" in ended.err
    assert not (folder / "gate.json").exists()


def test_the_verdict_of_an_exported_policy_is_made_again(
    gate: Callable[..., Ended], command: Callable[..., Ended], folder: Path, held_out: Path
) -> None:
    gate("looks.py", "stops.py")
    exports = {version: command("export", version, version) for version in ("v1", "v2")}

    nowhere = ("--sandbox", "local", "--store", "sqlite:///none.db")
    shown = command("verify", folder / "v1" / "manifest.json", *nowhere, "--trees", held_out)
    blank = command("verify", folder / "v2" / "manifest.json", *nowhere)

    assert {end.code for end in exports.values()} == {0}
    assert shown.code == 0, shown.err
    assert "and the verdict with every figure of its parts" in shown.out
    assert blank.code == 2
    assert "is an exported policy without a verdict that could be made again" in blank.err
