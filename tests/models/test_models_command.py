"""`harness models check`, and that nothing of models is loaded where none is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asking import answering, completion, serving
from builders import tree

from harness import config, treefile, wiring
from harness.cli.app import run
from harness.models.base import Message, Request, Role
from harness.models.budget import Budget, BudgetSpentError

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

PROJECT = Path(__file__).parents[2]
OF_MODELS = {"pydantic_ai", "openai", "anthropic", "genai_prices", "httpx2", "harness.models.client"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("HARNESS_"):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.slow
def test_check_asks_every_configured_model(llmock: LLMock, llama: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local = f"openai-compatible:smollm2@{llama}"
    (folder / "harness.toml").write_text(f'model = ["openai:gpt-4o-mini", "{local}"]\n')

    assert run(["models", "check", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert run(["models", "check"]) == 0
    shown = capsys.readouterr().out

    hosted, at_home = told["models"]
    assert told["reachable"]
    assert (hosted["model"], hosted["usd_per_million"]) == ("openai:gpt-4o-mini", {"input": 0.15, "output": 0.6})
    assert hosted["cost_usd"] > 0
    assert (at_home["model"], at_home["cost_usd"], at_home["usd_per_million"]) == (local, None, None)
    assert at_home["latency_s"] > 0
    assert at_home["output_tokens"] > 0
    assert "0.15 in, 0.6 out" in shown
    assert shown.count("unknown") == 2


def test_check_ends_in_exit_3_when_one_is_out_of_reach(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(answering(b"")) as gone:
        pass
    with serving(answering(completion("ready"))) as url:
        names = [f"openai-compatible:m@{url}", f"openai-compatible:m@{gone}"]
        code = run(["models", "check", "--json", "--model-price", f"{names[0]}=0/0", "--model", *names])

    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert code == 3
    assert [model["reachable"] for model in told["models"]] == [True, False]
    assert told["models"][0]["cost_usd"] == 0.0
    assert f"is a server running at {gone}?" in told["models"][1]["error"]


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        ([], "no model is configured; give --model NAME"),
        (["--model", "gpt-5"], "model 'gpt-5' names no provider; expected PROVIDER:NAME"),
        (["--model", "replay:3"], "replay:3: is answered from the store"),
        (["--model", "openai:m", "--model-price", "openai:m=cheap"], "model_price 'openai:m=cheap' is no price; expected"),
        (["--model", "openai:m", "--temperature", "3"], "--temperature: temperature is '3'; expected a number from 0 to 2"),
    ],
)
def test_bad_input_is_named(args: list[str], fragment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "check", *args]) == 2

    assert fragment in capsys.readouterr().err


def test_a_missing_client_names_the_command_that_installs_it(folder: Path) -> None:
    """In an interpreter that finds none of the optional packages."""
    program = (
        "import importlib.machinery, sys\n"
        "class Without(importlib.machinery.PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        return None if name.split('.')[0] == 'pydantic_ai' else super().find_spec(name, path, target)\n"
        "sys.meta_path[:] = [Without if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]\n"
        "from harness.cli.app import run\n"
        "sys.exit(run(['models', 'check', '--model', 'openai-compatible:m@http://127.0.0.1:9/v1']))\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False)

    assert ended.returncode == 3
    assert 'pip install "dream-harness[llm]"' in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_nothing_of_models_is_loaded_without_a_model(folder: Path) -> None:
    """A whole run of the embedded default."""
    for name, best in (("one", 0.5), ("two", 0.7), ("three", 0.9)):
        made = tree("root>a", "root>b", "a>a2", "b>b2", scores={"a": 0.1, "b": 0.2, "a2": 0.3, "b2": best})
        treefile.write(made, folder / f"{name}.jsonl")
    program = (
        "import sys; from harness.cli.app import run\n"
        "code = run(['evolve', '--trees', '.', '--versions', '3', '--holdout', '0', '--sandbox', 'local'])\n"
        f"print('code', code, 'loaded', sorted({OF_MODELS!r} & set(sys.modules)), file=sys.stderr)\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False)

    assert "code 0 loaded []" in ended.stderr, ended.stderr


def test_the_settings_take_names_as_a_list_a_text_or_flags(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = ("a:b", "c:d")
    (folder / "harness.toml").write_text('model = ["a:b", "c:d"]\n')
    assert config.load({}).settings.model == expected
    for text in ("a:b c:d", "a:b, c:d", " a:b,c:d "):
        monkeypatch.setenv("HARNESS_MODEL", text)
        assert config.load({}).settings.model == expected
    assert config.load({"model": "none"}).settings.model is None
    assert config.load({"model": ["e:f"]}).settings.model == ("e:f",)


def test_a_key_in_a_models_url_is_not_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "openai-compatible:m@https://me:sk-planted@h/v1", "openai-compatible:m@https://h/v1?api_key=sk-planted"
    (folder / "harness.toml").write_text(f"model = {list(names)}\n")

    for args in (["config"], ["config", "--json"], ["models", "check"], ["doctor"]):
        run([*args])
        captured = capsys.readouterr()
        assert "planted" not in captured.out + captured.err


def test_a_wired_model_is_asked_within_its_budget() -> None:
    calls: list[int] = []

    def reply(handler: object) -> None:
        calls.append(1)
        answering(completion("fresh", usage=(100, 10)))(handler)  # type: ignore[arg-type]

    with serving(reply) as url:
        name = f"openai-compatible:m@{url}"
        settings = config.load({"model_price": f"{name}=1/1"}).settings
        request = Request((Message(Role.USER, "Say yes."),), name, 0.0, 1, 100, 20.0)
        budget = Budget(usd=0.0003)
        model = wiring.language_model(name, settings, budget)
        assert model.complete(request).text == "fresh"
        other = Request((Message(Role.USER, "x" * 200),), name, 0.0, 1, 100, 20.0)
        with pytest.raises(BudgetSpentError):
            model.complete(other)

    assert len(calls) == 1
    assert budget.spent.usd == pytest.approx(0.00011)


def environment() -> dict[str, str]:
    """Return this process's environment, with ours to be imported."""
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
