"""Promotion, rollback and their history at the command line, and a version as files of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from builders import verdict
from commands import PICKS_ALL, environment

from harness.gate.verdict import Outcome
from harness.policy import Candidate, Origin, digest_of
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from commands import Ended

URL = "sqlite:///.harness/harness.db"
OTHER = PICKS_ALL + "\n# the other one\r\n"
THIRD = PICKS_ALL + "\n# the third\n"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    """Return a store with three versions, the second based on the first."""
    with Store.open(URL) as opened:
        opened.propose(None, Candidate(PICKS_ALL, Origin.FILE, "picks all"), 0)
        opened.propose(None, Candidate(OTHER, Origin.MODEL, "comments", parent=1), 1)
        opened.propose(None, Candidate(THIRD, Origin.FILE), 2)
        yield opened


def gated(store: Store, number: int, against: int, outcome: Outcome = Outcome.PASS) -> int:
    mine, theirs = store.version(number), store.version(against)
    said = verdict(mine.candidate.digest, theirs.candidate.digest, outcome=outcome)
    return store.record_verdict(said, mine, theirs, manifest={"figures": [0.1]})


def forced(command: Callable[..., Ended], version: str) -> None:
    assert command("promote", version, "--force", "--reason", "by hand").code == 0


def test_a_verdict_promotes_and_a_rollback_returns_the_former_bytes(
    command: Callable[..., Ended], store: Store, folder: Path
) -> None:
    forced(command, "v1")
    gated(store, 2, 1)

    promoted = command("promote", "v2", "--json")
    back = command("rollback", "--reason", "slower", "--by", "jo", "--json")

    assert (promoted.code, promoted.json["incumbent"], promoted.json["before"]) == (0, 2, 1)
    assert promoted.json["event"]["facts"]["verdict"] == 1
    assert (back.code, back.json["incumbent"], back.json["digest"]) == (0, 1, digest_of(PICKS_ALL))
    assert (back.json["event"]["reason"], back.json["event"]["facts"]["by"]) == ("slower", "jo")
    assert command("export", "incumbent", "there").code == 0
    assert (folder / "there/policy.py").read_bytes() == PICKS_ALL.encode()


def test_what_is_decided_is_told_in_words(command: Callable[..., Ended], store: Store) -> None:
    first = command("promote", "v1", "--force", "--reason", "to begin", "--by", "jo")
    gated(store, 2, 1)
    second = command("promote", "v2", "--verdict", "1", "--by", "jo")

    assert first.out == ("v1 is the incumbent, there was none before\nrecorded as event 4: without a verdict, to begin (jo)\n")
    assert second.out == "v2 is the incumbent, before it was v1\nrecorded as event 6: verdict 1: better (jo)\n"


@pytest.mark.parametrize("outcome", [Outcome.REFUSE, Outcome.CANNOT_TELL])
def test_a_promotion_that_the_gate_did_not_allow_is_answered_with_no(
    command: Callable[..., Ended], store: Store, outcome: Outcome
) -> None:
    gated(store, 2, 1, outcome)

    for asked in (["promote", "v2"], ["promote", "v2", "--verdict", "1"], ["promote", "v3"]):
        ended = command(*asked)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("harness: verdict 1 " if "v2" in asked else "harness: v3 has no verdict; `harness gate v3`")
    assert store.incumbent() is None


def test_a_policy_may_be_named_by_its_file(command: Callable[..., Ended], store: Store, policy: Path) -> None:
    gated(store, 1, 2)

    assert command("promote", policy.name).code == 0
    assert store.incumbent().number == 1


def test_a_file_that_was_never_recorded_has_no_verdict(command: Callable[..., Ended], store: Store, folder: Path) -> None:
    (folder / "new.py").write_text(PICKS_ALL + "# new\n")

    ended = command("promote", "new.py")

    assert ended.code == 1
    assert "new.py: has no verdict; `harness gate new.py` asks for one" in ended.err


def test_the_first_incumbent_may_be_a_file_and_makes_the_store(command: Callable[..., Ended], policy: Path, folder: Path) -> None:
    ended = command("promote", policy.name, "--force", "--reason", "what we have used so far")

    assert ended.code == 0
    with Store.open(URL) as store:
        assert store.incumbent().candidate.source == PICKS_ALL
        assert store.incumbent().candidate.origin is Origin.FILE


def test_evolve_begins_at_the_incumbent(command: Callable[..., Ended], policy: Path, trees: Path) -> None:
    forced(command, policy.name)

    ended = command("evolve", "--trees", trees, "--versions", "1", "--holdout", "0", "--sandbox", "local", "--json")

    assert ended.json["versions"][0]["digest"] == digest_of(PICKS_ALL)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["promote", "v2", "--force"], 2, "--force: needs --reason TEXT"),
        (["promote", "v2", "--force", "--reason", " "], 2, "--reason: is empty"),
        (["promote", "v2", "--force", "--reason", "x", "--verdict", "1"], 2, "leave --verdict out"),
        (["promote", "v2", "--verdict", "one"], 2, "--verdict: 'one' is no number"),
        (["promote", "v2", "--verdict", "7"], 2, "there is no verdict 7"),
        (["promote", "v9"], 2, "there is no version 9"),
        (["promote", "nowhere.py"], 2, "nowhere.py: no such file"),
        (["promote", "broken.py", "--force", "--reason", "x"], 2, "broken.py: line 1, column 14: syntax error"),
        (["promote", "v1", "--force", "--reason", "x"], 2, "v1 is the incumbent already"),
        (
            ["promote", "v2", "--force", "--reason", "x", "--if-incumbent", "v3"],
            1,
            "--if-incumbent: is v3, and v1 is the incumbent",
        ),
        (["promote", "v2", "--force", "--reason", "x", "--if-incumbent", "none"], 1, "--if-incumbent: is none, and v1 is"),
        (["promote", "v2", "--force", "--reason", "x", "--if-incumbent", "x"], 2, "version is 'x'"),
        (["rollback"], 2, "--reason: is missing"),
        (["rollback", "--reason", "x"], 2, "v1 is the first incumbent"),
        (["rollback", "--reason", "x", "--to", "v3"], 2, "v3 never was the incumbent"),
        (["rollback", "--reason", "x", "--to", "last"], 2, "version is 'last'"),
        (["show", "v1", "--store", "sqlite:///none.db"], 2, "none.db: there is no store yet"),
        (["export", "v9", "there"], 2, "there is no version 9"),
        (["export", "v1", "broken.py"], 2, "broken.py: is no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said_and_changes_nothing(  # noqa: PLR0917 - fixtures and cases
    command: Callable[..., Ended], store: Store, folder: Path, args: list[str], code: int, words: str
) -> None:
    forced(command, "v1")
    (folder / "broken.py").write_text("class Policy(:\n")
    head, files = store.head(), sorted(folder.iterdir())

    ended = command(*args)

    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1
    assert (store.head(), sorted(folder.iterdir())) == (head, files)


def test_whoever_expects_the_present_incumbent_comes_through(command: Callable[..., Ended], store: Store) -> None:
    assert command("promote", "v1", "--force", "--reason", "x", "--if-incumbent", "none").code == 0
    assert command("promote", "v2", "--force", "--reason", "x", "--if-incumbent", "v1").code == 0
    assert command("rollback", "--reason", "x", "--if-incumbent", "v2").code == 0


def test_of_two_commands_that_decide_on_the_same_incumbent_one_is_refused(
    command: Callable[..., Ended], store: Store, folder: Path
) -> None:
    """Each is a process of its own, started at the same time; which one comes first is chance."""
    forced(command, "v1")
    deciding = [
        subprocess.Popen(
            [sys.executable, "-m", "harness", "promote", version, "--force", "--reason", "mine", "--if-incumbent", "v1"],
            cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for version in ("v2", "v3")
    ]  # fmt: skip

    ended = {process.wait(120): process.communicate() for process in deciding}

    assert sorted(ended) == [0, 1]
    assert "decide again" in ended[1][1]
    assert ended[0][0].startswith(f"v{store.incumbent().number} is the incumbent, before it was v1")
    assert len(store.turns()) == 2


@pytest.mark.parametrize(
    ("variables", "who"),
    [
        (
            {
                "GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://forge", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7",
                "GITHUB_ACTOR": "jo", "GITHUB_JOB": "gate",
            },
            "jo, job gate of https://forge/a/b/actions/runs/7",
        ),
        (
            {"GITLAB_CI": "true", "GITLAB_USER_LOGIN": "jo", "CI_JOB_NAME": "gate", "CI_JOB_URL": "https://lab/a/b/-/jobs/9"},
            "jo, job gate of https://lab/a/b/-/jobs/9",
        ),
        ({"BUILD_URL": "https://jenkins/job/x/3/", "JOB_NAME": "x"}, "job x of https://jenkins/job/x/3/"),
        ({"BUILD_URL": "https://jenkins/job/x/3/"}, "job https://jenkins/job/x/3/"),
        ({"USER": "jo", "LOGNAME": "jo"}, f"jo@{os.uname().nodename}"),
    ],
    ids=["github", "gitlab", "jenkins", "another builder", "a person"],
)  # fmt: skip
def test_who_does_it_is_read_from_the_environment(
    command: Callable[..., Ended], store: Store, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], who: str
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILD_URL", "JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    forced(command, "v1")

    assert store.turns()[0].facts["by"] == who


# What is told of it afterwards


@pytest.fixture
def decided(command: Callable[..., Ended], store: Store) -> Store:
    """Return a store in which v1 was forced, v2 passed and promoted, and rolled back."""
    forced(command, "v1")
    gated(store, 2, 1)
    gated(store, 3, 1, Outcome.REFUSE)
    assert command("promote", "v2", "--by", "jo").code == 0
    assert command("rollback", "--reason", "worse\nlive", "--by", "ann").code == 0
    return store


def test_history_lists_promotions_and_rollbacks_with_what_they_rest_on(command: Callable[..., Ended], decided: Store) -> None:
    manifest = decided.verdict(1).manifest_digest

    lines = command("history", "--promotions").out.splitlines()
    events = command("history", "--promotions", "--json").json["events"]

    assert [line.split()[2:8] for line in lines[1:]] == [
        ["promoted", "-", "v1", "forced", "-", events[0]["facts"]["by"]],
        ["promoted", "v1", "v2", "1", manifest[:12], "jo"],
        ["rolled_back", "v2", "v1", "-", "-", "ann"],
    ]
    assert lines[3].endswith(" worse live")
    assert [event["facts"].get("manifest") for event in events] == [None, manifest, None]
    kinds = [event["kind"] for event in command("history", "--json").json["events"]]
    assert kinds == ["proposed"] * 3 + ["promoted", "gated", "gated", "promoted", "rolled_back"]


def test_show_tells_what_was_decided_about_a_version(command: Callable[..., Ended], decided: Store) -> None:
    told, words = command("show", "v2", "--json").json, command("show", "v2").out

    assert (told["incumbent"], told["lineage"]) == (False, [1])
    assert [event["kind"] for event in told["promotions"]] == ["promoted", "rolled_back"]
    assert [row["verdict"]["outcome"] for row in told["verdicts"]] == ["pass"]
    assert told["verdicts"][0]["verdict"]["parts"][0]["name"] == "gain"
    assert "verdict 1: pass, v2 against v1: better" in words
    assert "gains +0.0100" in words
    assert "v1  (the incumbent)" in command("show", "incumbent").out
    assert len(command("show", "v1", "--json").json["verdicts"]) == 2


def test_diff_compares_two_versions_by_their_verdict_from_either_side(command: Callable[..., Ended], decided: Store) -> None:
    told, turned = command("diff", "v1", "v2", "--json").json, command("diff", "v2", "v1", "--json").json

    (tree,) = told["verdicts"][0]["trees"]
    (other,) = turned["verdicts"][0]["trees"]
    assert (tree["first"], tree["second"], tree["difference"]) == (0.2, 0.1 + 0.2, 0.1 + 0.2 - 0.2)
    assert (other["first"], other["second"]) == (tree["second"], tree["first"])
    assert told["verdicts"][0]["mean"]["difference"] == tree["difference"]
    assert "value by held-out tree, verdict 1 (pass)" in command("diff", "v1", "v2").out
    assert "no run and no verdict has judged both" in command("diff", "v2", "v3").out


# Export


def test_an_export_is_the_policy_and_everything_decided_about_it(
    command: Callable[..., Ended], decided: Store, folder: Path
) -> None:
    ended = command("export", "v2", "a/b", "--json")

    manifest = json.loads((folder / "a/b/manifest.json").read_bytes())
    assert (folder / "a/b/policy.py").read_bytes() == OTHER.encode()
    assert ended.json["manifest"] == manifest
    assert (manifest["version"], manifest["digest"], manifest["incumbent"]) == (2, digest_of(OTHER), False)
    assert (manifest["origin"], manifest["rationale"]) == ("model", "comments")
    assert manifest["lineage"] == [{"version": 1, "digest": digest_of(PICKS_ALL), "origin": "file"}]
    assert [row["verdict"]["reason"] for row in manifest["verdicts"]] == ["better"]
    assert [event["kind"] for event in manifest["promotions"]] == ["promoted", "rolled_back"]
    assert sorted(file.name for file in (folder / "a/b").iterdir()) == ["manifest.json", "policy.py"]


def test_an_export_again_is_the_same_bytes_and_leaves_other_files_alone(
    command: Callable[..., Ended], decided: Store, folder: Path
) -> None:
    command("export", "v2", "there")
    (folder / "there/policy.toml").write_text("[limits]\n")
    before = {file.name: file.read_bytes() for file in (folder / "there").iterdir()}

    assert command("export", "v2", "there").code == 0
    assert {file.name: file.read_bytes() for file in (folder / "there").iterdir()} == before


def test_another_policy_is_replaced_only_by_force(command: Callable[..., Ended], decided: Store, folder: Path) -> None:
    command("export", "v1", "there")

    refused = command("export", "v2", "there")
    kept = (folder / "there/policy.py").read_bytes()
    forced_ = command("export", "v2", "there", "--force")

    assert (refused.code, kept) == (2, PICKS_ALL.encode())
    assert "there/policy.py: is another policy than v2; --force replaces it" in refused.err
    assert forced_.code == 0
    assert (folder / "there/policy.py").read_bytes() == OTHER.encode()
    assert json.loads((folder / "there/manifest.json").read_bytes())["version"] == 2


def test_somebody_elses_manifest_is_replaced_only_by_force(command: Callable[..., Ended], decided: Store, folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "there/manifest.json").write_text('{"name": "a browser extension"}')

    assert "is no manifest of an exported policy" in command("export", "v1", "there").err
    assert sorted(file.name for file in (folder / "there").iterdir()) == ["manifest.json"]


def test_a_write_that_fails_leaves_the_former_export_whole(command: Callable[..., Ended], decided: Store, folder: Path) -> None:
    """The disk takes no file as large as the new policy."""
    command("export", "v1", "there")
    before = {file.name: file.read_bytes() for file in (folder / "there").iterdir()}
    decided.propose(None, Candidate(PICKS_ALL + "#" * 2**20, Origin.MODEL), decided.head())
    limited = f"ulimit -f 512; exec {sys.executable} -m harness export v4 there --force"

    ended = subprocess.run(["bash", "-c", limited], cwd=folder, env=environment(), capture_output=True, text=True, check=False)

    assert ended.returncode == 3
    assert "File too large" in ended.stderr
    assert {file.name: file.read_bytes() for file in (folder / "there").iterdir()} == before
