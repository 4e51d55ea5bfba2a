"""A task's folder is read whole, and what is wrong in it is named by file, line, value and wish."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from taskfolders import TOML, written

from harness.errors import InputError
from harness.task.base import ATTEMPT_S, Allowance
from harness.task.commandline import CommandSettings
from harness.task.reading import read
from harness.tree import Direction

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
format = "task/1"
name = "sums"
direction = "min"
statement = '''
Write a number.
'''
files = ["answer.txt", "src/**/*.py"]
best_known = 1
attempt_s = 90.5

[start]
folder = "begin"

[evaluate]
command = ["python3", "{evaluator}/judge.py", "{given}"]
folder = "judges"
run = ["python3", "main.py"]
given = "given"
limits = { cpu_s = 2, memory_mib = 64, workspace_mib = 1 }

[evaluate.run_limits]
wall_s = 7.5
memory_mib = 128
workspace_mib = 2
output_kib = 0
processes = 3

[allowance]
attempts = 12
usd = 0.5

[agent.search]
moves = "moves.py"

[agent.command]
command = ["my-agent", "--yes"]
"""


def test_task_of_eight_lines_has_defaults_for_the_rest(tmp_path: Path) -> None:
    task = read(written(tmp_path / "t"))

    assert (task.name, task.statement, task.direction) == ("sums", "Write a number.", Direction.MAX)
    assert (task.start, task.scoring.folder) == (tmp_path / "t" / "start", tmp_path / "t" / "evaluator")
    assert (task.files, task.attempt_s, task.allowance) == (("answer.txt",), ATTEMPT_S, Allowance())
    assert (task.moves, task.best_known, task.scoring.run, task.scoring.given) == (None, None, (), None)


def test_task_of_five_lines_has_the_usual_evaluator(tmp_path: Path) -> None:
    folder = written(tmp_path / "t", TOML.partition("[evaluate]")[0])
    assert read(folder).scoring.command == ("python3", "-I", "{evaluator}/evaluate.py", "{workspace}")

    (folder / "evaluator" / "evaluate.py").rename(folder / "evaluator" / "judge.py")
    with pytest.raises(InputError, match=r"task\.toml: 'evaluate\.command' is missing; expected the evaluator's command, or the"):
        read(folder)


def test_everything_that_a_task_can_say_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "t", FULL, begin__main_py="", judges__judge_py="", given__data_txt="1", moves_py="")
    task = read(folder)

    assert (task.direction, task.statement, task.best_known, task.attempt_s) == (Direction.MIN, "Write a number.", 1.0, 90.5)
    assert (task.start, task.moves, task.scoring.given) == (folder / "begin", folder / "moves.py", folder / "given")
    assert task.allowance == Allowance(attempts=12, usd=0.5)
    assert task.command == CommandSettings(("my-agent", "--yes"))
    limits, run_limits = task.scoring.limits, task.scoring.run_limits
    assert (limits.cpu_s, limits.memory_bytes, limits.workspace_bytes) == (2, 64 * 2**20, 2**20)
    assert run_limits is not None
    assert (run_limits.wall_s, run_limits.output_bytes, run_limits.processes) == (7.5, 0, 3)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("task/1", "task/9"), 2, "'format' is 'task/9'; expected 'task/1'"),
        (('name = "sums"', "name = 7"), 3, "'name' is 7; expected a string"),
        (('name = "sums"', 'title = "sums"'), 0, "'title' is not known; expected one of format, name"),
        (('"max"', '"up"'), 4, "'direction' is 'up'; expected 'max' where a larger"),
        (('["answer.txt"]', "[]"), 6, "'files' is []; expected a list of strings"),
        (('["answer.txt"]', '["../x"]'), 6, "expected patterns of files in the workspace"),
        (('["answer.txt"]', '[".agent/x"]'), 6, "expected patterns of files in the workspace"),
        (("[evaluate]", "best_known = true\n\n[evaluate]"), 8, "'best_known' is True; expected a finite number"),
        (("[evaluate]", "attempt_s = inf\n\n[evaluate]"), 8, "'attempt_s' is inf; expected a finite number above 0"),
        (("[evaluate]", "[evaluat]"), 8, "'evaluat' is not known"),
        (("command =", "comand ="), 9, "'evaluate.comand' is not known"),
        (("command =", "run ="), 9, "what candidates run knows nothing of the evaluator"),
        (('["python3", "-I", "{evaluator}/evaluate.py"]', '"python3"'), 9, "'evaluate.command' is 'python3'; expected a list"),
        (("-I", "{given}"), 9, "expected no {given} where the task has no folder 'given'"),
        (("[evaluate]", '[start]\nfolder = "nowhere"\n\n[evaluate]'), 9, "nowhere is none"),
        (("[evaluate]", '[start]\nfolder = "../t"\n\n[evaluate]'), 9, "expected the name of a folder inside"),
        (("[evaluate]", "[allowance]\nattempts = 0\n\n[evaluate]"), 9, "'allowance.attempts' is 0; expected a whole number of"),
        (("[evaluate]", "[allowance]\nattempts = true\n\n[evaluate]"), 9, "'allowance.attempts' is True"),
        (("[evaluate]", '[evaluate]\nrun = ["sh", "{evaluator}/x"]'), 9, "what candidates run knows nothing of the evaluator"),
        (("[evaluate]", "[evaluate]\nlimits = { cpu = 3 }"), 9, "'evaluate.limits.cpu' is not known; expected one of cpu_s"),
        (("[evaluate]", "[evaluate]\nlimits = { memory_mib = 1 }"), 0, "memory_bytes must be at least as much"),
        (("[evaluate]", "[evaluate]\nrun_limits = { cpu_s = 1 }"), 9, "expected nothing where there is no 'run'"),
        (("[evaluate]", '[agent.search]\nmoves = "moves.py"\n\n[evaluate]'), 9, "moves.py is none"),
        (('direction = "max"', ""), 0, "'direction' is missing; expected 'max' where a larger"),
        (
            ("{evaluator}/", "{evaluatr}/"),
            9,
            "expected no {evaluatr}: places are {evaluator}, {workspace}, {given}, {run}; write",
        ),
        (
            ("[evaluate]", '[agent.serch]\nmoves = "moves.py"\n\n[evaluate]'),
            8,
            "'agent.serch' is not known; expected one of",
        ),
        (
            ("[evaluate]", '[agent.search]\nmove = "moves.py"\n\n[evaluate]'),
            9,
            "'agent.search.move' is not known; expected",
        ),
        (
            ("[evaluate]", '[agent.command]\ncomand = ["x"]\n\n[evaluate]'),
            9,
            "'agent.command.comand' is not known;",
        ),
        (
            ("[evaluate]", '[agent.command]\nprompt = "file"\n\n[evaluate]'),
            8,
            "'agent.command.command' is missing; expected",
        ),
        (('"sums"', '"sums\\u001b[2J"'), 3, "expected one line of at most 200 characters that can be printed"),
        (('"sums"', '"sums\\nforged: 3"'), 3, "expected one line of at most 200 characters that can be printed"),
        (('"sums"', f'"{"s" * 201}"'), 3, "expected one line of at most 200 characters that can be printed"),
        (("[evaluate]", "[evaluate"), 0, "not TOML"),
        (("[evaluate]", f"best_known = {10**30}\n\n[evaluate]"), 0, "holds a whole number of more than 64 bits"),
        (("[evaluate]", f"[allowance]\nusd = {'9' * 5_000}\n\n[evaluate]"), 0, "holds a whole number of more than 64 bits"),
        (('["answer.txt"]', f"[[0x{'f' * 5_000}]]"), 0, "holds a whole number of more than 64 bits"),
        (("[evaluate]", f"[evaluate]\ngiven = '{'a' * 5_000}'"), 9, "expected a folder that is there; file name too long"),
        (("[evaluate]", "[evaluate]\ngiven = 'evaluator'"), 9, "expected a folder without the evaluator"),
        (("[evaluate]", "[start]\nfolder = 'evaluator'\n\n[evaluate]"), 9, "expected a folder without the evaluator"),
        (("python3", "python\\u0000"), 9, "none of them empty or with a zero byte"),
    ],
)
def test_wrong_value_is_named_by_file_line_and_wish(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    """A line of 0 stands for a message that names the file; its place in the file may be left open."""
    folder = written(tmp_path / "t", TOML.replace(*change, 1))

    with pytest.raises(InputError) as caught:
        read(folder)
    assert str(caught.value).startswith(f"{folder / 'task.toml'}:{line}:" if line else f"{folder / 'task.toml'}:")
    assert words in str(caught.value)


def test_missing_folder_and_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: is no folder; a task is a folder with a task\.toml"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match=r"task\.toml: no such file"):
        read(tmp_path)


def test_digest_follows_every_file_that_fixes_a_score_and_no_other(tmp_path: Path) -> None:
    folder = written(tmp_path / "t", evaluator__more_py="1")
    first = read(folder).digest
    (folder / "README.md").write_text("words")
    (folder / "evaluator" / "__pycache__").mkdir()
    (folder / "evaluator" / "__pycache__" / "x.pyc").write_bytes(b"made")
    assert read(folder).digest == first

    digests = {first}
    for name, content in {"evaluator/more.py": "2", "start/answer.txt": "4", "start/new": "", "task.toml": TOML + "\n"}.items():
        (folder / name).write_text(content)
        digests.add(read(folder).digest)
    assert len(digests) == 5


def test_link_in_a_task_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "t")
    (folder / "evaluator" / "secret").symlink_to("/etc/hostname")

    with pytest.raises(InputError, match=r"evaluator/secret: is a link"):
        read(folder)


def test_link_out_of_a_task_is_refused_wherever_it_stands_in_a_path(tmp_path: Path) -> None:
    """What lies outside is nothing that a candidate may be given."""
    (tmp_path / "outside" / "inner").mkdir(parents=True)
    folder = written(tmp_path / "t", TOML + 'given = "by/inner"\n')
    (folder / "by").symlink_to(tmp_path / "outside")

    with pytest.raises(InputError, match=r"task\.toml:10: .* a link leads out of it"):
        read(folder)
