"""`harness task check` scores a start, and the page about tasks shows what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from commands import PROJECT, environment, process

from harness.task.reading import FACTORS, LIMITS
from sandbox.job import JobLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

PAGE = (PROJECT / "docs" / "tasks.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (.+?) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))
OUTPUTS = dict(re.findall(r"<!-- output of: harness (.+?) -->\n```text\n(.*?)```", PAGE, re.DOTALL))
EXAMPLE = PROJECT / "examples" / "tasks" / "circle_packing"


def made(folder: Path) -> Path:
    """Return the task of the page."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder / "my_task"


def test_the_pages_task_is_checked_as_the_page_shows(folder: Path, command: Callable[..., Ended]) -> None:
    made(folder)
    (line,) = OUTPUTS
    ended = command(*line.split(), "--sandbox", "local")

    def steady(text: str) -> str:
        return re.sub(r"in [\d.]+ s in the \w+ sandbox", "in T s", text).strip()

    assert (ended.code, len(FILES)) == (0, 3)
    assert steady(ended.out) == steady(OUTPUTS[line])


def test_page_names_every_limit_with_its_default() -> None:
    for key, name in LIMITS.items():
        default = getattr(JobLimits(), name) / FACTORS.get(key, 1)
        assert f"`{key}` {default:g}" in PAGE


def test_document_has_the_digest_and_what_the_start_is_worth(command: Callable[..., Ended]) -> None:
    ended = command("task", "check", EXAMPLE, "--sandbox", "local", "--json")

    assert ended.code == 0
    assert (ended.json["task"], ended.json["direction"], ended.json["best_known"]) == ("circle-packing-26", "max", 2.635983)
    assert (ended.json["start"]["score"], ended.json["start"]["status"], ended.json["sandbox"]) == (2.54142105, "ok", "local")
    assert re.fullmatch("[0-9a-f]{64}", ended.json["digest"])


def test_start_without_a_score_is_bad_input_and_says_why(folder: Path, command: Callable[..., Ended]) -> None:
    task = made(folder)
    (task / "start" / "numbers.txt").write_text("1 2 3")
    ended = command("task", "check", "my_task", "--sandbox", "local")

    assert ended.code == 2
    assert "my_task/task.toml: the start workspace my_task/start is invalid; expected one that its evaluator scores" in ended.err
    assert "3 numbers, sum 6" in ended.err


def test_evaluator_with_a_bug_is_bad_input_and_shows_it(folder: Path, command: Callable[..., Ended]) -> None:
    task = made(folder)
    (task / "evaluator" / "evaluate.py").write_text("raise RuntimeError('a bug')")
    ended = command("task", "check", "my_task", "--sandbox", "local", "--json")

    assert ended.code == 2
    assert "RuntimeError: a bug" in ended.err
    assert ended.json["start"]["score"] is None


def test_wrong_task_is_named_by_file_and_line(folder: Path, command: Callable[..., Ended]) -> None:
    task = made(folder)
    (task / "task.toml").write_text(FILES["my_task/task.toml"].replace('"max"', '"most"'))
    ended = command("task", "check", "my_task")

    assert (ended.code, ended.out) == (2, "")
    assert "my_task/task.toml:3: 'direction' is 'most'; expected 'max'" in ended.err


def test_start_is_scored_without_an_engine_and_an_agents_work_only_when_asked(folder: Path) -> None:
    made(folder)
    gone = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    ended = process("task", "check", "my_task", cwd=folder, variables=gone)
    assert (ended.code, "in the local sandbox" in ended.out) == (0, True)
    assert "until then, the task is scored in the local sandbox" in ended.err
    assert "does not isolate everything" in ended.err

    refused = process("task", "check", "my_task", "--sandbox", "docker", cwd=folder, variables=gone)
    assert (refused.code, refused.out) == (3, "")

    program = "from harness import config, wiring\nwith wiring.jobs(config.load({}).settings, print, ours=False): pass"
    command = [sys.executable, "-c", program]
    strict = subprocess.run(command, cwd=folder, env=environment(**gone), capture_output=True, text=True, check=False)
    assert strict.returncode == 1
    assert "or say --sandbox local: what an agent left is scored without an engine only when asked" in strict.stderr


def test_command_that_is_no_program_is_bad_input(folder: Path, command: Callable[..., Ended]) -> None:
    task = made(folder)
    with (task / "task.toml").open("a") as file:
        file.write('[evaluate]\ncommand = ["python-of-nowhere"]\n')
    ended = command("task", "check", "my_task", "--sandbox", "local")

    assert ended.code == 2
    assert "python-of-nowhere" in ended.err


def test_moves_that_cannot_be_loaded_are_found_by_the_check(folder: Path, command: Callable[..., Ended]) -> None:
    """And not by the first search on the task."""
    task = made(folder)
    with (task / "task.toml").open("a") as file:
        file.write('[agent.search]\nmoves = "moves.py"\n')

    (task / "moves.py").write_text("def (")
    broken = command("task", "check", task, "--sandbox", "local")
    (task / "moves.py").write_text("MOVES = 1")
    empty = command("task", "check", task, "--sandbox", "local")

    assert (broken.code, empty.code) == (2, 2)
    assert "moves.py:1: SyntaxError" in broken.err
    assert "moves.py: MOVES lacks families" in empty.err


def test_an_evaluator_that_is_no_program_is_named_by_its_key(folder: Path, command: Callable[..., Ended]) -> None:
    task = made(folder)
    with (task / "task.toml").open("a") as file:
        file.write('[evaluate]\ncommand = ["no-such-program"]\n')

    ended = command("task", "check", task, "--sandbox", "local")

    assert ended.code == 2
    assert "task.toml: 'evaluate.command': the command cannot be started: no-such-program" in ended.err
