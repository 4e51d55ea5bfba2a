"""`harness verify`: a result is made again, and every trajectory and figure is the same or is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom
from commands import PICKS_ALL, named, process

from harness import manifest, treefile
from harness.policy import digest_of
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

LOCAL = ("--sandbox", "local")


@pytest.fixture
def searches(folder: Path) -> Path:
    """Return a folder of ten trees."""
    inside = folder / "searches"
    inside.mkdir()
    for number in range(10):
        treefile.write(named(broom(number, 4, 4), f"search-{number}"), inside / f"{number}.jsonl")
    return inside


@pytest.fixture
def recorded(command: Callable[..., Ended], folder: Path, searches: Path) -> Path:
    """Return the manifest of a replay."""
    file = folder / "m.json"
    ended = command("replay", "greedy", "--trees", searches, *LOCAL, "--manifest", file)
    assert ended.code == 0
    return file


def fixed(file: Path) -> dict[str, Any]:
    """Return all of a manifest but its environment."""
    said: dict[str, Any] = json.loads(file.read_text())
    del said["environment"]
    return said


def test_a_result_is_the_same_when_it_is_made_again(command: Callable[..., Ended], recorded: Path) -> None:
    shown, told = command("verify", recorded, *LOCAL), command("verify", recorded, *LOCAL, "--json").json

    assert shown.code == 0
    assert shown.out == "the same: 10 replays of 1 policy over 10 trees, every trajectory and figure to the last digit\n"
    assert (told["same"], told["replays"], told["differences"], told["environment"]) == (True, 10, [], [])


def test_settings_of_the_manifest_hold_and_not_those_around_it(
    command: Callable[..., Ended], folder: Path, searches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "harness.toml").write_text("beta1 = 0.5\nmax_rounds = 1\nseed = 9\n")
    monkeypatch.setenv("HARNESS_OBJECTIVE", "attainment")
    asked = ("--beta1", 0.25, "--max-rounds", 3, "--objective", "value", "--weight", "group", "--frontier", "leaf")
    command("replay", "ucb", "--trees", searches, *LOCAL, *asked, "--param", "width=3", "--manifest", "m.json")

    said = fixed(folder / "m.json")

    assert (said["settings"]["weights"]["beta1"], said["settings"]["seed"], said["policies"][0]["params"]["width"]) == (
        0.25,
        9,
        3,
    )
    monkeypatch.delenv("HARNESS_OBJECTIVE")
    (folder / "harness.toml").write_text("beta2 = 0.5\n")
    assert command("verify", "m.json", *LOCAL).code == 0


@pytest.mark.parametrize("how", [("--workers", 1), ("--workers", 4), ("--repeats", 1, "--workers", 2)])
def test_a_manifest_is_the_same_with_one_worker_or_four(
    command: Callable[..., Ended], searches: Path, recorded: Path, how: tuple[object, ...]
) -> None:
    other = recorded.with_name("other.json")
    command("replay", "greedy", "--trees", searches, *LOCAL, *how, "--manifest", other)

    assert other.read_bytes() == recorded.read_bytes()
    assert command("verify", recorded, *LOCAL, *(how[-2:])).code == 0


def test_a_manifest_is_the_same_in_whatever_order_the_trees_are_replayed(
    command: Callable[..., Ended], searches: Path, recorded: Path, folder: Path
) -> None:
    """Files are replayed in the order of their paths: under other names, the same trees come in another order."""
    back = folder / "back"
    back.mkdir()
    for number in range(10):
        (back / f"{9 - number}.jsonl").write_bytes((searches / f"{number}.jsonl").read_bytes())
    other = recorded.with_name("other.json")
    command("replay", "greedy", "--trees", back, *LOCAL, "--manifest", other)

    said, found = fixed(recorded), fixed(other)
    assert [tree.pop("file") for tree in said["trees"]] == [f"searches/{number}.jsonl" for number in range(10)]
    assert [tree.pop("file") for tree in found["trees"]] == [f"back/{9 - number}.jsonl" for number in range(10)]
    assert said == found
    assert command("verify", recorded, *LOCAL, "--trees", back).code == 0


@pytest.mark.docker
def test_a_result_made_locally_is_the_same_in_docker(
    command: Callable[..., Ended], engine: None, searches: Path, recorded: Path
) -> None:
    other = recorded.with_name("other.json")
    command("replay", "greedy", "--trees", searches, "--sandbox", "docker", "--manifest", other)
    shown = command("verify", recorded, "--sandbox", "docker")

    assert fixed(other) == fixed(recorded)
    assert shown.code == 0
    assert "environment: sandbox is docker, in the manifest local" in shown.out
    assert command("verify", other, *LOCAL).code == 0


def test_a_faulted_policy_is_the_same_fault_again(command: Callable[..., Ended], folder: Path, searches: Path) -> None:
    (folder / "bad.py").write_text(
        "class Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n"
        "        return [0] if view.round < 3 else [99]\n"
    )
    ended = command("replay", "bad.py", "--trees", searches, *LOCAL, "--manifest", "m.json")

    replays = fixed(folder / "m.json")["judged"][0]["replays"]
    assert ended.code == 1
    assert {(one["fault"]["kind"], one["fault"]["rule"], one["fault"]["round"]) for one in replays} == {
        ("bad-answer", "unknown_node", 3)
    }
    assert command("verify", "m.json", *LOCAL).code == 0


def test_a_policy_that_the_check_refused_is_refused_again(command: Callable[..., Ended], folder: Path, searches: Path) -> None:
    (folder / "bad.py").write_text("import socket\n")
    command("replay", "bad.py", "--trees", searches, *LOCAL, "--manifest", "m.json")

    assert fixed(folder / "m.json")["judged"][0]["replays"][0]["fault"]["kind"] == "refused-at-check"
    assert command("verify", "m.json", *LOCAL).code == 0


def test_the_first_tree_and_round_that_differ_are_named(command: Callable[..., Ended], recorded: Path) -> None:
    """A manifest that says something else is as good as a machine that does something else."""
    said = manifest.read(recorded)
    judged = said.judged[0]
    replay = judged.replays[4]
    turns = replay.rounds.split(";")
    picked, _, revealed = turns[2].partition(">")
    turns[2] = f"{picked} 0>{revealed}"
    other = replace(replay, rounds=";".join(turns), trajectory="0" * 64)
    replays = (*judged.replays[:4], other, *judged.replays[5:])
    manifest.write(replace(said, judged=(replace(judged, replays=replays),)), recorded)

    shown, told = command("verify", recorded, *LOCAL), command("verify", recorded, *LOCAL, "--json").json

    assert shown.code == 1
    assert "not the same: 1 difference in 10 replays of 1 policy over 10 trees" in shown.out
    assert f"greedy on tree search-4 in round 3: picked [{picked}], revealed [{revealed}] where the manifest has" in shown.out
    (difference,) = told["differences"]
    assert (difference["policy"], difference["tree"], difference["round"]) == ("greedy", "search-4", 3)


def test_what_differs_in_the_environment_is_said(command: Callable[..., Ended], recorded: Path) -> None:
    said = manifest.read(recorded)
    manifest.write(replace(said, environment=replace(said.environment, python="3.99.0")), recorded)

    shown = command("verify", recorded, *LOCAL)

    assert shown.code == 0
    assert shown.out.splitlines()[1:] == [f"environment: python is {said.environment.python}, in the manifest 3.99.0"]


def test_a_tree_that_has_changed_is_named_and_nothing_is_run(
    command: Callable[..., Ended], recorded: Path, searches: Path
) -> None:
    file = searches / "3.jsonl"
    treefile.write(replace(treefile.read(file), task="other"), file)

    ended = command("verify", recorded, *LOCAL)

    assert (ended.code, ended.out) == (2, "")
    assert f"{recorded}: tree 'search-3' (" in ended.err
    assert f"has changed: {file} is now {treefile.read(file).digest[:12]}; expected the trees that were judged" in ended.err


def test_trees_that_are_nowhere_are_named(command: Callable[..., Ended], recorded: Path, searches: Path) -> None:
    for number in range(5):
        (searches / f"{number}.jsonl").unlink()

    ended = command("verify", recorded, *LOCAL)

    assert ended.code == 2
    assert "tree 'search-0' (" in ended.err
    assert "is not at searches/0.jsonl, nor in the store" in ended.err
    assert "and 2 more trees; expected the trees that were judged; name their files or folders with --trees" in ended.err


def test_trees_are_found_by_what_they_hold(command: Callable[..., Ended], recorded: Path, searches: Path, folder: Path) -> None:
    """Where --trees says, whatever the files are called; where they lay, relative to the manifest; or in the store."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for number in range(5):
        (searches / f"{number}.jsonl").rename(elsewhere / f"x{9 - number}.jsonl")
    assert command("verify", recorded, *LOCAL, "--trees", elsewhere).code == 0

    (folder / "moved").mkdir()
    for name in ("m.json", "searches"):
        (folder / name).rename(folder / "moved" / name)
    with Store.open("sqlite:///other.db") as store:
        store.add_trees(map(treefile.read, treefile.find([elsewhere])))
    ended = command("verify", folder / "moved" / "m.json", *LOCAL, "--store", "sqlite:///other.db")
    assert (ended.code, "the same: 10 replays" in ended.out) == (0, True)


def test_a_file_that_is_no_tree_is_not_read_out(command: Callable[..., Ended], recorded: Path, folder: Path) -> None:
    """A manifest may name any file of the machine."""
    (folder / "secret").write_text("password: hunter2\n")
    said = json.loads(recorded.read_text())
    said["trees"][0] |= {"file": "secret", "digest": "0" * 64}
    said["judged"][0]["replays"][0]["tree"] = "0" * 64
    recorded.write_text(json.dumps(said))

    ended = command("verify", recorded, *LOCAL)

    assert ended.code == 2
    assert "is no tree file" in ended.err
    assert "hunter2" not in ended.err


def test_a_setting_out_of_range_is_named_with_its_file(command: Callable[..., Ended], recorded: Path) -> None:
    said = json.loads(recorded.read_text())
    said["settings"]["limits"]["max_batch"] = -3
    recorded.write_text(json.dumps(said))

    ended = command("verify", recorded, *LOCAL)

    assert ended.code == 2
    assert f"{recorded}: max_batch is -3; expected a whole number from 0 to" in ended.err


def test_a_manifest_that_is_missing_or_cannot_be_written_is_bad_input(
    command: Callable[..., Ended], policy: Path, trees: Path
) -> None:
    for args, words in (
        (("verify",), "no manifest given; write harness verify MANIFEST"),
        (("verify", "no.json"), "no.json: no such file or directory; expected a readable manifest"),
        (("replay", policy, "--trees", trees, "--manifest", "no/m.json"), "no/m.json: there is no folder no"),
        (("replay", policy, "--trees", trees, "--manifest", trees), f"{trees}: is a folder"),
    ):
        ended = command(*args)
        assert (ended.code, ended.out) == (2, "")
        assert words in ended.err


def test_what_a_manifest_says_of_a_policys_origin_is_not_believed(recorded: Path, folder: Path) -> None:
    """Without an engine, code of our own templates runs locally; that it is such code, only rendering the template shows."""
    gone = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    genuine = process("verify", "m.json", cwd=folder, variables=gone)
    said = manifest.read(recorded)
    (policy,) = said.policies
    forged = replace(policy, source=PICKS_ALL, digest=digest_of(PICKS_ALL))
    manifest.write(replace(said, policies=(forged,)), recorded)

    refused = process("verify", "m.json", cwd=folder, variables=gone)
    asked = process("verify", "m.json", *LOCAL, cwd=folder, variables=gone)

    assert (forged.origin, forged.template) == ("template", "greedy")
    assert (genuine.code, refused.code, asked.code) == (0, 3, 1)
    assert "--sandbox local" in refused.err
