"""What all example tasks have in common."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from exampletasks import FOLDER

from harness.task.evaluator import Evaluator
from harness.task.reading import read

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.job import Jobs

PROJECT = FOLDER.parents[1]
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


@pytest.mark.parametrize("name", TASKS)
def test_folder_that_is_copied_out_alone_is_searched(name: str, tmp_path: Path) -> None:
    """Its moves need nothing of the repository beside the package, from wherever a user starts."""
    shutil.copytree(FOLDER / name, tmp_path / "copied", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HARNESS_")}

    def said(*words: str) -> Any:
        command = [sys.executable, "-P", "-m", "harness", *words, "--sandbox", "local", "--json"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    start = said("task", "check", "copied")["start"]["score"]
    (search,) = said("explore", "copied", "--attempts", "2", "--slots", "2")["searches"]
    assert (search["agent"], search["attempts"], search["root"]) == ("search", 2, start)
    assert search["best"] is not None


def test_both_autocorrelations_make_the_same_moves() -> None:
    first, third = (FOLDER / f"autocorrelation_{which}" / "autocorrelation.py" for which in ("first", "third"))

    assert first.read_bytes() == third.read_bytes()


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


SHADOWS = ("json", "fractions", "math", "os", "pathlib", "answers", "evaluate", "sitecustomize", "usercustomize", "encodings")
FORGED = "print('{\"score\": 1e9}')\nraise SystemExit\n"


@pytest.mark.parametrize("name", TASKS)
def test_modules_in_a_workspace_are_not_what_an_evaluator_imports(name: str, jobs: Jobs, tmp_path: Path) -> None:
    task = read(FOLDER / name)
    clean, dirty = tmp_path / "clean", tmp_path / "dirty"
    for workspace in (clean, dirty):
        shutil.copytree(task.start, workspace)
    # A program that is run has its own folder on its path, as any Python program, and may shadow what it likes for itself.
    for module in SHADOWS if not task.scoring.run else ("answers", "evaluate", "sitecustomize"):
        (dirty / f"{module}.py").write_text(FORGED, encoding="utf-8")
    (dirty / "pyvenv.cfg").write_text("home = .\n", encoding="utf-8")
    evaluator = Evaluator(task, jobs)

    found = evaluator.assess(dirty)
    assert (found.score, found.status) == (evaluator.assess(clean).score, "ok")


@pytest.mark.parametrize("name", [name for name in TASKS if name != "lasso_path"])
def test_answer_that_is_a_folder_or_a_link_to_the_evaluator_has_no_score(name: str, local_jobs: Jobs, tmp_path: Path) -> None:
    task = read(FOLDER / name)
    (tmp_path / "folder" / "answer.json").mkdir(parents=True)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "answer.json").symlink_to(FOLDER / name / "start" / "answer.json")
    evaluator = Evaluator(task, local_jobs)

    assert [evaluator.assess(tmp_path / kind).status for kind in ("folder", "link")] == ["invalid", "invalid"]
