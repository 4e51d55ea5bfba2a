"""Help is quick, complete, and imports nothing but typer."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
import typer
from commands import PROJECT, environment

from harness import __version__
from harness.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from commands import Ended

HEAVY = {"rich", "pydantic", "sqlalchemy", "alembic", "docker", "jinja2", "optuna", "numpy", "scipy", "structlog", "requests"} | {
    "pydantic_ai",
    "openai",
    "anthropic",
    "genai_prices",
    "httpx2",
}


def commands(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_option_has_a_sentence_of_help(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]

    assert command.help.strip().endswith(".")
    assert [option.name for option in command.params if not (option.help or "").strip().endswith(".")] == []


@pytest.mark.parametrize("group", [(), ("trees",), ("sandbox",), ("models",)], ids=" ".join)
def test_no_sentence_of_a_list_of_commands_is_cut(command: Callable[..., Ended], group: tuple[str, ...]) -> None:
    assert "..." not in command(*group, "--help").out.partition("Commands:")[2]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_printed(command: Callable[..., Ended], words: tuple[str, ...]) -> None:
    ended = command(*words, "--help")

    assert ended.code == 0
    assert ended.out.startswith(f"Usage: harness {' '.join(words)}")


def test_every_command_that_answers_can_answer_in_json() -> None:
    assert [words for words, command in COMMANDS.items() if "as_json" not in {option.name for option in command.params}] == []


@pytest.mark.parametrize("args", [["--help"], ["replay", "--help"], ["evolve", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(folder: Path, args: list[str]) -> None:
    program = (
        "import sys\nfrom harness.cli.app import run\n"
        f"run({args!r})\nsys.stderr.write(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    )

    ended = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True)

    assert HEAVY & set(ended.stderr.split()) == set()


@pytest.mark.slow
def test_help_takes_little_longer_than_the_import_of_typer() -> None:
    """A ratio: how fast a machine is cancels out. Both are measured in turn, and the medians compared."""
    seconds: dict[str, list[float]] = {"bare": [], "help": []}
    for _ in range(7):
        for name, args in (("bare", ["-c", "import typer"]), ("help", ["-m", "harness", "--help"])):
            began = time.perf_counter()
            subprocess.run([sys.executable, *args], cwd=PROJECT, env=environment(), capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - began)

    assert median(seconds["help"]) < 2 * median(seconds["bare"])


def test_the_version_is_printed_by_flag_and_by_command(command: Callable[..., Ended]) -> None:
    assert command("--version").out == f"harness {__version__}\n"
    assert command("version", "--json").json["harness"] == __version__


def test_no_command_at_all_shows_the_help(command: Callable[..., Ended]) -> None:
    ended = command()

    assert "evolve" in ended.out + ended.err
    assert ended.code == 2
