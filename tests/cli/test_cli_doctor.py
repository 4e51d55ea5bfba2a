"""`harness doctor` and `harness sandbox`: what is there, what is missing, and which command helps."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from commands import process

from harness.policy import Candidate, Origin, digest_of
from harness.score import Settings
from harness.search import Mode, SearchPlan
from harness.store import Question, Store
from harness.tree import Direction
from harness.workspaces.git import GitSnapshots
from sandbox.api import Frontier, Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

GONE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


def states(document: dict[str, Any]) -> dict[str, str]:
    """Return the state of each thing looked at."""
    return {finding["name"]: finding["state"] for finding in document["findings"]}


def test_a_machine_without_an_engine_is_healthy_when_local_will_do(folder: Path) -> None:
    ended = process("doctor", "--json", cwd=folder, variables=GONE)

    assert ended.code == 0
    assert states(ended.json)["engine"] == "note"
    assert states(ended.json)["sandbox"] == "good"
    assert not (folder / ".harness").exists()


def test_an_engine_that_was_asked_for_and_is_not_there_is_missing(folder: Path) -> None:
    ended = process("doctor", "--sandbox", "docker", cwd=folder, variables=GONE)

    assert ended.code == 3
    assert "start a Docker engine" in ended.out
    assert "--sandbox local" in ended.out
    assert "Traceback" not in ended.err


def test_a_template_that_is_not_declared_as_it_must_be_is_found(folder: Path) -> None:
    """Everything else is looked at all the same. The working directory comes first where modules are looked for."""
    (folder / "policy_templates").mkdir()
    (folder / "policy_templates/__init__.py").touch()
    (folder / "policy_templates/broken.py.j2").write_text('{#\nname = "x"\n#}\n')

    ended = process("doctor", "--sandbox", "local", "--json", cwd=folder)

    assert ended.code == 3
    assert states(ended.json)["templates"] == "missing"
    assert states(ended.json)["sandbox"] == "good"
    assert "template broken: name is 'x'" in ended.out


def test_a_damaged_store_is_found(folder: Path) -> None:
    (folder / "text.db").write_text("no database at all, though long enough to be taken for one " * 100)

    ended = process("doctor", "--sandbox", "local", "--store", "sqlite:///text.db", "--json", cwd=folder)

    assert ended.code == 3
    assert states(ended.json)["store"] == "missing"


def test_a_whole_store_is_counted(folder: Path) -> None:
    Store.open("sqlite:///some.db").close()

    ended = process("doctor", "--sandbox", "local", "--store", "sqlite:///some.db", cwd=folder)

    assert ended.code == 0
    assert "0 versions, 0 trees, all whole" in ended.out


def test_a_look_taken_out_of_the_ledger_is_found(folder: Path) -> None:
    """Whoever would have looked less often at the held-out trees."""
    with Store.open("sqlite:///some.db") as store:
        store.propose(None, Candidate("x", Origin.MODEL), 0)
        store.look(Question(digest_of("x"), digest_of("y"), Settings()), ["t"], 0.05, "ci")
    database = sqlite3.connect("some.db")
    database.executescript("DROP TRIGGER append_only_looks_delete; DELETE FROM looks;")
    database.close()

    ended = process("doctor", "--sandbox", "local", "--store", "sqlite:///some.db", cwd=folder)

    assert ended.code == 3
    assert "nothing keeps the rows of looks from delete" in ended.out
    assert "entry 1 of the ledger of looks was deleted" in ended.out


def test_workspaces_of_live_searches_are_read_and_those_that_are_lost_are_named(folder: Path) -> None:
    """The place itself is not made by looking for it."""
    (folder / "start").mkdir()
    (folder / "start" / "answer.txt").write_text("0")
    kept = GitSnapshots(folder / "workspaces.git")
    with Store.open("sqlite:///some.db") as store:
        version = store.record(Candidate("x", Origin.TEMPLATE))
        plan = SearchPlan(
            "one", "count", "d" * 64, "count", Direction.MAX, version.number, version.candidate.digest, 1, Limits(1, 1, 1),
            Frontier.LEAF, Mode.ROUNDS, 1, "counts", "local",
        )  # fmt: skip
        store.begin_search(plan, kept.take(folder / "start"), 0.0, {})
    asked = ("doctor", "--sandbox", "local", "--store", "sqlite:///some.db")

    whole = process(*asked, cwd=folder)
    assert whole.code == 0
    assert "workspaces.git: 1 workspace, all whole" in whole.out

    for file in (folder / "workspaces.git" / "objects").glob("??/*"):
        file.unlink()
    lost = process(*asked, cwd=folder)
    assert lost.code == 3
    assert "1 of 1 workspace cannot be restored" in lost.out

    shutil.rmtree(folder / "workspaces.git")
    gone = process(*asked, cwd=folder)
    assert gone.code == 3
    assert "is not there, and should hold 1 workspace" in gone.out
    assert not (folder / "workspaces.git").exists()


def test_sandbox_check_says_what_is_isolated_and_what_is_left_open(command: Callable[..., Ended]) -> None:
    ended = command("sandbox", "check", "--sandbox", "local", "--json")

    told = ended.json
    assert ended.code == 0
    assert told["held"] is True
    assert told["isolation"]["backend"] == "local"
    assert told["isolation"]["leaves_open"]
    assert {probe["name"] for probe in told["probes"]} >= {"network", "reading files", "memory limit"}


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_every_probe_is_held_in_docker(command: Callable[..., Ended]) -> None:
    ended = command("sandbox", "check", "--sandbox", "docker")

    assert ended.code == 0
    assert "HOLE" not in ended.out
    assert "attempts to get out were held" in ended.out


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_build_and_sweep_say_what_they_did(command: Callable[..., Ended]) -> None:
    assert command("sandbox", "build", "--json").json["image"].startswith("dream-harness-sandbox:")
    assert command("sandbox", "sweep", "--json").json["removed"] >= 0


def test_build_and_sweep_without_an_engine_are_out_of_reach(folder: Path) -> None:
    for name in ("build", "sweep"):
        ended = process("sandbox", name, cwd=folder, variables=GONE)
        assert (ended.code, ended.out) == (3, "")
        assert "Docker engine" in ended.err


def test_build_may_be_asked_for_where_an_engine_answers_alone(folder: Path) -> None:
    """For scripts that set a machine up, whatever it is."""
    ended = process("sandbox", "build", "--if-engine", "--json", cwd=folder, variables=GONE)

    assert (ended.code, ended.json) == (0, {"image": None})
    assert "no image is built" in ended.err


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_an_image_that_was_set_and_is_none_of_the_sandboxs_is_found(folder: Path) -> None:
    ended = process("doctor", "--image", "dream-harness-sandbox:gone", "--json", cwd=folder)

    assert ended.code == 3
    assert states(ended.json)["image"] == states(ended.json)["sandbox"] == "missing"
    assert "there is no image dream-harness-sandbox:gone on the engine; run `harness sandbox build`" in ended.out
