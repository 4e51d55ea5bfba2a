"""A Lasso solver is scored by the updates that it wrote down: they are made again, and the gap is computed without rounding."""

from __future__ import annotations

import json
import runpy
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from exampletasks import FOLDER
from sklearn.linear_model import Lasso

from harness.task.evaluator import Evaluator
from harness.task.reading import read

if TYPE_CHECKING:
    from pathlib import Path

    from harness.task.base import Assessment
    from sandbox.job import Jobs

TASK = FOLDER / "lasso_path"
INSTANCES = json.loads((TASK / "given" / "instances.json").read_text(encoding="utf-8"))
START = (TASK / "start" / "solver.py").read_text(encoding="utf-8")

ACTIVE = START.replace(
    """            for j in range(len(problem.b)):
                problem.minimise(j, penalty)
                made.append(j)
""",
    """            slopes = [abs(fsum(map(mul, column, problem.r))) for column in problem.columns]
            for j in [j for j in range(len(problem.b)) if problem.b[j] or slopes[j] > penalty]:
                problem.minimise(j, penalty)
                made.append(j)
""",
)


def solved(solver: str, jobs: Jobs, folder: Path, task: Path = TASK, **files: str) -> Assessment:
    """Return what the task makes of a solver; `files` are modules beside it."""
    workspace = folder / "workspace"
    shutil.copytree(TASK / "start", workspace)
    (workspace / "solver.py").write_text(solver, encoding="utf-8")
    for name, content in files.items():
        (workspace / f"{name}.py").write_text(content, encoding="utf-8")
    return Evaluator(read(task), jobs).assess(workspace)


def writing(answer: Any) -> str:
    """Return a solver that writes this, given as Python."""
    return f"import json\nn = 3\npaths = [[[] for _ in range(10)] for _ in range(n)]\n{answer}\n"


def test_cyclic_sweeps_with_warm_starts_score_what_the_evaluator_counts_for_them(jobs: Jobs, tmp_path: Path) -> None:
    found = solved(START, jobs, tmp_path)

    assert found.status == "ok", found.feedback
    assert (found.score, found.metrics["cyclic_updates"], found.metrics["share_of_cyclic"]) == (114_360, 114_360, 1.0)
    assert found.metrics["run_wall_s"] > 0


def test_solver_that_leaves_out_what_cannot_move_needs_far_fewer(jobs: Jobs, tmp_path: Path) -> None:
    found = solved(ACTIVE, jobs, tmp_path)

    assert found.status == "ok", found.feedback
    assert found.score is not None
    assert found.score < 114_360 / 2


def test_scikit_learn_needs_as_many_updates_in_the_same_run(tmp_path: Path, local_jobs: Jobs) -> None:
    """Its own cyclic descent, warm from penalty to penalty and to the same gap: it looks at the gap more rarely, so a bound."""
    updates = 0
    for instance in INSTANCES["instances"]:
        x, y = np.asfortranarray(instance["x"], dtype=float), np.array(instance["y"], dtype=float)
        # Half the square of y is what our gap is a share of; scikit-learn's tol is a share of the whole square.
        lasso = Lasso(fit_intercept=False, warm_start=True, tol=INSTANCES["accuracy"] / 2, max_iter=100_000)
        for penalty in instance["lambdas"]:
            lasso.set_params(alpha=penalty / len(y)).fit(x, y)
            updates += int(lasso.n_iter_) * x.shape[1]
    found = solved(ACTIVE, local_jobs, tmp_path)

    assert 0.5 < updates / found.metrics["cyclic_updates"] < 2.0
    assert found.score is not None
    assert found.score < updates


def test_instances_are_those_that_their_program_writes() -> None:
    assert runpy.run_path(str(TASK / "instances.py"))["text"]() == (TASK / "given" / "instances.json").read_text(encoding="utf-8")


DUMP = "json.dump({'paths': paths}, open('answer.json', 'w'))"
CHEATS: dict[str, tuple[str, str, str]] = {
    "no updates": (writing(DUMP), "invalid", "path 0, penalty 0: after 0 updates the gap is"),
    "one sweep too few": (
        START.replace("    return updates", "    del updates[-1][-60:]\n    return updates"),
        "invalid",
        "the gap is",
    ),
    "an accuracy of its own": (START.replace("0.999 *", "2.0 *"), "invalid", "it must be at most 1e-06"),
    "a score on its output": (writing("print('{\"score\": 1}')"), "invalid", "no file answer.json"),
    "a score beside the paths": (
        writing("json.dump({'paths': paths, 'score': 1}, open('answer.json', 'w'))"),
        "invalid",
        "no other",
    ),
    "coefficients in place of updates": (writing("paths[0][0] = [0.5]; " + DUMP), "invalid", "holds 0.5 at penalty 0"),
    "true for 1": (writing("paths[0][0] = [True]; " + DUMP), "invalid", "holds true at penalty 0"),
    "a coordinate from the end": (writing("paths[0][0] = [-1]; " + DUMP), "invalid", "holds -1 at penalty 0"),
    "a coordinate too many": (writing("paths[0][0] = [60]; " + DUMP), "invalid", "a whole number from 0 to 59"),
    "one path": (writing("paths = paths[:1]; " + DUMP), "invalid", "a list of 3 paths"),
    "nine penalties": (writing("paths[1].pop(); " + DUMP), "invalid", "path 1 must be a list of 10 lists"),
    "numbers of updates": (writing("paths[1][1] = 7; " + DUMP), "invalid", "path 1 holds 7 at penalty 1"),
    "half a million": (writing("paths[0][0] = [0] * 500_001; " + DUMP), "invalid", "500000 are the most"),
    "huge": (writing("open('answer.json', 'w').write('[' + '0,' * 3_000_000)"), "invalid", "more than 4194304 bytes"),
    "deep": (writing("open('answer.json', 'w').write('[' * 100_000)"), "invalid", "nests too deep"),
    "not a number": (writing("paths[0][0] = [float('nan')]; " + DUMP), "invalid", "holds NaN"),
    "twice": (writing("open('answer.json', 'w').write('{\"paths\": [], \"paths\": []}')"), "invalid", "the same field twice"),
    "a link": (writing("import os; os.symlink('/etc/passwd', 'answer.json')"), "invalid", "symbolic-link"),
    "an error": (writing("raise ValueError('on purpose')"), "failed", "ended with exit code 1: Traceback"),
    "an answer, then an error": (START + "    raise SystemExit(3)\n", "failed", "ended with exit code 3"),
    "easier instances": (
        START.replace(
            "    with open(sys.argv[1]) as file:", "    open(sys.argv[1], 'w').write('{}')\n    with open(sys.argv[1]) as file:"
        ),
        "failed",
        "ended with exit code 1",
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheating_solver_has_no_score_and_is_told_why(cheat: str, jobs: Jobs, tmp_path: Path) -> None:
    solver, status, words = CHEATS[cheat]
    found = solved(solver, jobs, tmp_path)

    assert (found.score, found.status, found.metrics) == (None, status, {}), found.feedback
    assert words in found.feedback


def test_modules_that_a_solver_leaves_are_not_what_the_evaluator_imports(jobs: Jobs, tmp_path: Path) -> None:
    """The solver imports them, as it may; the score stays that of the updates."""
    forged = "print('{\"score\": 1}')\nraise SystemExit\n"
    late = START.replace(
        "if __name__",
        "import os\nfor name in ('fractions', 'json', 'sitecustomize'):\n"
        f"    open(name + '.py', 'w').write({forged!r})\nif __name__",
        1,
    )
    found = solved(late, jobs, tmp_path, answers=forged, evaluate=forged)

    assert (found.score, found.status) == (114_360, "ok")


def test_solver_that_takes_too_long_is_a_timeout(local_jobs: Jobs, tmp_path: Path) -> None:
    shutil.copytree(TASK, tmp_path / "task")
    toml = (TASK / "task.toml").read_text(encoding="utf-8")
    (tmp_path / "task" / "task.toml").write_text(toml.replace("cpu_s = 20", "cpu_s = 1"), encoding="utf-8")
    found = solved("while True: pass", local_jobs, tmp_path, tmp_path / "task")

    assert (found.score, found.status) == (None, "timeout")
    assert "ran out of cpu time" in found.feedback
