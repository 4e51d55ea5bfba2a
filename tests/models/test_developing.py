"""The whole path over HTTP to a real, small language model: weak text, real protocol, and no run that is stopped by it."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom

from harness import treefile
from harness.cli.app import run
from harness.store import Store

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

ENOUGH_TOKENS = 4096
STORE = "sqlite:///.harness/harness.db"


@pytest.fixture
def searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of trees, and work beside it with no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("HARNESS_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "searches"
    folder.mkdir()
    for seed in range(6):
        treefile.write(broom(seed, chains=3, depth=4), folder / f"{seed}.jsonl")
    return folder


def developed(url: str, searches: Path, capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    """Run evolve with a model in the local sandbox and return its report."""
    model = f"openai-compatible:smollm2@{url}"
    shared = ("--sandbox", "local", "--prompt-chars", 4000, "--max-output-tokens", 48, "--json")
    code = run(["evolve", "--trees", str(searches), "--model", model, *map(str, (*shared, *args))])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    document: dict[str, Any] = json.loads(captured.out)
    return document


@pytest.mark.slow
def test_a_local_model_is_asked_for_versions_and_whatever_it_says_the_run_comes_to_its_end(
    llama_of_its_own: Callable[..., AbstractContextManager[tuple[str, subprocess.Popen[str]]]],
    searches: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with llama_of_its_own(ENOUGH_TOKENS) as (url, _):
        told = developed(url, searches, capsys, "--versions", 5, "--edits", "parameters", "--budget-calls", 2)

    models = told["models"]
    assert len(told["versions"]) == 5
    assert 1 <= models["answers"] <= 2
    assert models["versions"] + sum(models["faults"].values()) == models["answers"]
    assert models["cost_usd"] is None
    assert models["input_tokens"] > 500
    assert models["output_tokens"] > 0
    with Store.open(STORE) as store:
        assert store.check() == []


@pytest.mark.slow
def test_a_prompt_that_a_local_model_cannot_hold_costs_its_turn_and_nothing_else(
    llama: str, searches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = developed(llama, searches, capsys, "--versions", 8, "--edits", "blocks", "whole")

    assert len(told["versions"]) == 8
    assert told["models"]["calls"] >= 2
    assert told["models"]["answers"] == 0
    with Store.open(STORE) as store:
        kinds = {call.exchange.kind for call in store.calls(store.run(1))}
    assert kinds == {"context-overflow"}


@pytest.mark.slow
def test_a_local_server_that_is_killed_in_mid_answer_stops_the_run_with_all_that_was_found_kept(
    llama_of_its_own: Callable[..., AbstractContextManager[tuple[str, subprocess.Popen[str]]]],
    searches: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with llama_of_its_own(ENOUGH_TOKENS) as (url, process):
        killed = threading.Timer(6, process.kill)
        killed.start()
        model = ("--model", f"openai-compatible:smollm2@{url}", "--edits", "blocks", "--prompt-chars", "4000")
        code = run(["evolve", "--trees", str(searches), "--sandbox", "local", "--proposer", "model", "--versions", "9", *model])
        killed.cancel()

    told = capsys.readouterr().err
    assert code == 3, told
    assert "harness evolve --resume 1" in told
    with Store.open(STORE) as store:
        assert len(store.run_versions(store.run(1))) >= 1
        assert store.check() == []
