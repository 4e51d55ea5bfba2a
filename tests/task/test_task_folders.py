"""What all example tasks have in common."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tasks import FOLDER

from harness.task.reading import read

if TYPE_CHECKING:
    from pathlib import Path

TASKS = sorted(path.parent.name for path in FOLDER.glob("*/task.toml"))


def test_the_tasks_of_the_paper_are_there() -> None:
    packing, sums = ["circle_packing"], ["lasso_path", "sums_and_differences"]
    assert ["autocorrelation_first", "autocorrelation_third", *packing, *sums] == TASKS


@pytest.mark.parametrize("name", TASKS)
def test_task_is_read_and_says_what_there_is_to_win(name: str) -> None:
    task = read(FOLDER / name)

    assert task.name == name.replace("_", "-") + ("-26" if name == "circle_packing" else "")
    assert (task.best_known is None) == (name == "lasso_path")
    assert (task.folder / "README.md").is_file()
    assert task.scoring.command[:2] == ("python3", "-I")


def test_all_evaluators_read_answers_by_the_same_program() -> None:
    assert len({(FOLDER / name / "evaluator" / "answers.py").read_bytes() for name in TASKS}) == 1


@pytest.mark.parametrize("name", TASKS)
def test_evaluator_imports_the_standard_library_alone(name: str) -> None:
    """The image of the jobs holds nothing else."""
    folder = FOLDER / name / "evaluator"
    program = (
        "import ast, json, sys; print(json.dumps(sorted({name.split('.')[0] for path in sys.argv[1:]"
        " for node in ast.walk(ast.parse(open(path).read()))"
        " for name in ([node.module] if isinstance(node, ast.ImportFrom) else"
        " [alias.name for alias in node.names] if isinstance(node, ast.Import) else [])}"
        " - set(sys.stdlib_module_names))))"
    )
    files = map(str, folder.glob("*.py"))
    done = subprocess.run([sys.executable, "-c", program, *files], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == ["answers"]


@pytest.fixture(scope="module")
def type_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder where the types of the standard library are read once."""
    return tmp_path_factory.mktemp("types")


@pytest.mark.parametrize("name", TASKS)
def test_evaluators_are_typed_strictly(name: str, type_cache: Path) -> None:
    """Programs of their own folders, which `mypy` in the project's root cannot tell apart."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(type_cache), "evaluate.py", "answers.py"]
    done = subprocess.run(command, cwd=FOLDER / name / "evaluator", capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
