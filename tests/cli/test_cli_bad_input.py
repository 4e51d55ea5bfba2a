"""Bad input ends with exit code 2 and one sentence that names the thing, its value and what was expected. Never a traceback."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import environment, process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

REPLAY = ("replay", "policy.py", "--trees", "trees", "--sandbox", "local")
EVOLVE = ("evolve", "--trees", "trees", "--sandbox", "local", "--versions", "1")

BAD = {
    "no command": (("nosuch",), ("nosuch",)),
    "unknown flag": ((*REPLAY, "--max-bach", "3"), ("--max-bach", "--max-batch")),
    "no policy": (("replay", "--trees", "trees"), ("no policy given", "replay POLICY --trees PATH")),
    "policy swallowed by trees": (
        ("replay", "--trees", "trees", "policy.py"),
        ("no policy given", "the policy before the trees"),
    ),
    "no trees": (("replay", "policy.py"), ("no trees given", "--trees PATH")),
    "trees without a value": (("replay", "policy.py", "--trees"), ("--trees", "requires an argument")),
    "missing policy": (("replay", "nosuch.py", "--trees", "trees"), ("nosuch.py: no such file", "expected a Python file")),
    "policy is a folder": (("replay", "trees", "--trees", "trees"), ("trees: is a directory", "expected a Python file")),
    "template for a policy": (("replay", "mine/greedy.py.j2", "--trees", "trees"), ("is a template", "by its name, here greedy")),
    "policy far too large": (("replay", "/dev/zero", "--trees", "trees"), ("/dev/zero", "expected a Python file")),
    "policy with NUL in its name": (("replay", "a\0b", "--trees", "trees"), ("null byte", "expected a Python file")),
    "version without a store": (("replay", "v3", "--trees", "trees"), ("no store yet", "harness evolve")),
    "missing trees": (("replay", "policy.py", "--trees", "nowhere"), ("nowhere: no such file or folder", "expected tree files")),
    "empty folder": (("replay", "policy.py", "--trees", "empty"), ("empty: no tree", "*.jsonl")),
    "cut tree": (("replay", "policy.py", "--trees", "cut.jsonl"), ("cut.jsonl:2", "line is cut")),
    "negative batch": ((*REPLAY, "--max-batch", "-1"), ("--max-batch: max_batch is '-1'", "expected a whole number")),
    "batch beyond a frame": ((*REPLAY, "--max-batch", "99999"), ("--max-batch: max_batch is '99999'", "to 32000")),
    "batch in words": ((*REPLAY, "--max-batch", "many"), ("--max-batch: max_batch is 'many'", "expected a whole number")),
    "half a round": ((*REPLAY, "--max-rounds", "1.5"), ("--max-rounds: max_rounds is '1.5'", "whole number of at least 0")),
    "negative attempts": ((*REPLAY, "--max-attempts=-1"), ("--max-attempts: max_attempts is '-1'", "at least 0, or none")),
    "no number": ((*REPLAY, "--beta1", "nan"), ("--beta1: beta1 is 'nan'", "expected a finite number")),
    "endless": ((*REPLAY, "--beta2", "inf"), ("--beta2: beta2 is 'inf'", "expected a finite number")),
    "beyond reason": ((*REPLAY, "--beta1", "-1e300"), ("--beta1: beta1 is '-1e300'", "1e100 at most")),
    "beyond a float": ((*REPLAY, "--beta2", "1e999"), ("--beta2: beta2 is '1e999'", "expected a finite number")),
    "normalize": ((*REPLAY, "--normalize", "yes"), ("--normalize: normalize is 'yes'", "expected tree or none")),
    "frontier": ((*REPLAY, "--frontier", "root"), ("--frontier: frontier is 'root'", "expected leaf, any")),
    "sandbox": (
        ("replay", "policy.py", "--trees", "trees", "--sandbox", "jail"),
        ("--sandbox: sandbox is 'jail'", "auto, docker or local"),
    ),
    "seed": ((*REPLAY, "--seed", "-3"), ("--seed: seed is '-3'", "expected a whole number from 0")),
    "workers": ((*REPLAY, "--workers", "-1"), ("--workers: workers is '-1'", "at least 0")),
    "param without value": ((*REPLAY, "--param", "width"), ("--param: 'width' is no NAME=JSON",)),
    "param that is no JSON": ((*REPLAY, "--param", "width=four"), ("--param: width is 'four'", "expected JSON")),
    "param that is no number": ((*REPLAY, "--param", "width=NaN"), ("--param: width is 'NaN'", "expected JSON")),
    "missing settings": ((*REPLAY, "--config", "no.toml"), ("no.toml: no such file", "expected a readable settings file")),
    "holdout of all": ((*EVOLVE, "--holdout", "1"), ("--holdout: holdout is '1'", "share from 0 up to but not 1")),
    "everything held out": ((*EVOLVE, "--holdout", "0.999999"), ("holds out all 3", "--holdout 0")),
    "no version": (("evolve", "--trees", "trees", "--versions", "0"), ("--versions: versions is '0'", "at least 1")),
    "nothing to evolve on": (("evolve",), ("no trees given", "evolve --trees PATH")),
    "unknown incumbent": ((*EVOLVE, "--incumbent", "best"), ("best: no such file", "version such as v3")),
    "nothing to resume": (("evolve", "--resume", "--store", "sqlite:///none.db"), ("none.db: there is no store",)),
    "history without a store": (("history",), ("there is no store yet", "--store")),
    "show without a number": (("show", "latest", "--store", "sqlite:///none.db"), ("none.db: there is no store",)),
    "limit that is no number": (("history", "--limit", "x"), ("--limit: 'x' is no number", "whole number")),
    "store of another kind": (("history", "--store", "mysql://there/h"), ("mysql is not supported", "sqlite:///FILE")),
    "unknown event": (("history", "--kind", "won"), ("--kind: kind is 'won'", "selected")),
    "no tree": (("trees", "show", "nowhere.jsonl"), ("there is no store yet",)),
    "bad tree shown": (("trees", "show", "cut.jsonl"), ("cut.jsonl:2", "line is cut")),
    "bad tree listed": (("trees", "list", "cut.jsonl"), ("cut.jsonl:2", "line is cut")),
}


@pytest.mark.parametrize(("args", "fragments"), BAD.values(), ids=BAD)
@pytest.mark.usefixtures("policy", "trees")
def test_bad_input_is_named_and_changes_nothing(
    command: Callable[..., Ended], folder: Path, args: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    (folder / "empty").mkdir()
    (folder / "cut.jsonl").write_text('{"format": "discovery-tree/1", "name": "cut"}\n{"id": "a", "par')
    before = sorted(folder.rglob("*"))

    ended = command(*args)

    assert ended.code == 2
    assert ended.out == ""
    assert "Traceback" not in ended.err
    for fragment in fragments:
        assert fragment in ended.err
    assert sorted(folder.rglob("*")) == before


def test_a_name_that_is_no_text_is_shown_and_does_not_crash(folder: Path) -> None:
    ended = process("replay", b"\xff.py".decode("utf-8", "surrogateescape"), "--trees", "x", cwd=folder)

    assert ended.code == 2
    assert "no such file" in ended.err
    assert "Traceback" not in ended.err


def test_a_store_that_cannot_be_used_is_out_of_reach(command: Callable[..., Ended], folder: Path, trees: Path) -> None:
    (folder / "text.db").write_text("this is no database, but long enough to be taken for one" * 100)

    ended = command("history", "--store", "sqlite:///text.db")

    assert ended.code == 3
    assert "text.db" in ended.err
    assert "Traceback" not in ended.err


def test_a_folder_that_cannot_be_written_is_named(folder: Path, trees: Path) -> None:
    """Under a file, nobody may make a folder; not even root, who may write where others may not."""
    (folder / "taken").write_text("")

    ended = process(*EVOLVE, "--store", "sqlite:///taken/harness.db", cwd=folder)

    assert ended.code == 3
    assert "taken" in ended.err
    assert "Traceback" not in ended.err


def test_an_engine_out_of_reach_is_exit_3_and_scores_nobody(folder: Path, policy: Path, trees: Path) -> None:
    gone = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}

    ended = process("replay", policy, "--trees", trees, "--sandbox", "docker", "--json", cwd=folder, variables=gone)

    assert ended.code == 3
    assert ended.out == ""
    assert "Docker engine" in ended.err


def test_whoever_stops_reading_gets_no_complaint(folder: Path, trees: Path) -> None:
    """The answer is longer than a pipe holds, and nobody takes it."""
    answers = " ".join([str(trees / "one.jsonl")] * 1_000)
    shown = f"set -o pipefail; {sys.executable} -m harness trees validate --json {answers} | head -c 1 > /dev/null"

    ended = subprocess.run(["bash", "-c", shown], cwd=folder, env=environment(), capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("args", ["config", "trees list trees", "replay policy.py --trees trees --sandbox local --json"])
@pytest.mark.usefixtures("policy", "trees")
def test_an_answer_that_cannot_be_written_is_told(folder: Path, args: str) -> None:
    command = f"{sys.executable} -m harness {args} > /dev/full"

    ended = subprocess.run(["bash", "-c", command], cwd=folder, env=environment(), capture_output=True, text=True, check=False)

    assert ended.returncode == 3
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
