"""Solvers that the search agent proposes for Lasso paths: honest in what they count, and as good as they claim to be."""

from __future__ import annotations

import json
import runpy
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from exampletasks import FOLDER

from harness.agents.search.walk import Effort, SolverFault
from harness.task.evaluator import Evaluator
from harness.task.reading import read
from tasks.lasso_path.moves import EARLY, ENTERING, LOOKS, MOVES, SHARES, updates
from tasks.lasso_path.rendering import MEASURES, ORDERS, POOLS, Description, render

if TYPE_CHECKING:
    from pathlib import Path

    from harness.task.base import Assessment
    from sandbox.job import Jobs

TASK = FOLDER / "lasso_path"
PLAIN = Description(pool="moving", order="cyclic", measure="gain", share=0.0, entering=1.0, recheck=False, look=0, early=1.0)
GREEDY: Description = {**PLAIN, "measure": "violation", "share": 1.0, "entering": 0.6, "look": 1}
# Each word and the ends of each list at least once.
SEVERAL: tuple[Description, ...] = (
    PLAIN,
    GREEDY,
    {**PLAIN, "pool": "all", "order": "alternating"},
    {**PLAIN, "pool": "strong", "order": "shuffled", "look": 16, "early": 0.2},
    {**PLAIN, "pool": "safe", "order": "steepest", "measure": "step", "look": 4},
    {**PLAIN, "pool": "working", "order": "shuffled", "share": 0.5, "entering": 2.0, "recheck": True, "look": 1},
    {**PLAIN, "pool": "all", "order": "steepest", "share": 0.01, "recheck": True, "look": 4},
)


def assessed(description: Description, jobs: Jobs, folder: Path, task: Path = TASK) -> Assessment:
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "solver.py").write_text(render(description), encoding="utf-8")
    return Evaluator(read(task), jobs).assess(workspace)


@pytest.mark.parametrize("place", range(len(SEVERAL)))
def test_solver_scores_what_its_move_claims(place: int, local_jobs: Jobs, tmp_path: Path) -> None:
    """The claim is computed by the solver itself, so nothing is left to guess; the evaluator finds the same, exactly."""
    found = assessed(SEVERAL[place], local_jobs, tmp_path)

    assert found.status == "ok", found.feedback
    assert found.score == updates(SEVERAL[place], Effort(99.0))


def test_choosing_well_needs_far_fewer_updates_than_sweeping() -> None:
    assert 3 * updates(GREEDY, Effort(99.0)) < updates({**PLAIN, "pool": "all"}, Effort(99.0))


@pytest.mark.parametrize("place", range(len(SEVERAL)))
def test_solver_writes_down_every_update_that_it_tries(place: int) -> None:
    """No rehearsing on a copy: what it minimises, it counts."""
    solver: dict[str, Any] = {"__name__": "solver"}
    exec(render(SEVERAL[place]), solver)  # noqa: S102 - a program of the task's own pieces
    instance = json.loads((TASK / "given" / "instances.json").read_text(encoding="utf-8"))["instances"][1]
    plain, made = solver["Problem"].minimise, []

    def noted(problem: Any, j: int, penalty: float) -> None:
        made.append(j)
        plain(problem, j, penalty)

    solver["Problem"].minimise = noted

    assert [j for places in solver["path"](instance, 1e-6) for j in places] == made


def test_solvers_solve_instances_that_no_search_has_seen(local_jobs: Jobs, tmp_path: Path) -> None:
    shutil.copytree(TASK, tmp_path / "task")
    made = runpy.run_path(str(TASK / "instances.py"))["text"]
    made.__globals__["SEED"] = 4711
    (tmp_path / "task" / "given" / "instances.json").write_text(made(), encoding="utf-8")

    assert made() != (TASK / "given" / "instances.json").read_text(encoding="utf-8")
    for place, description in enumerate((PLAIN, GREEDY)):
        (tmp_path / str(place)).mkdir()
        found = assessed(description, local_jobs, tmp_path / str(place), tmp_path / "task")
        assert found.status == "ok", found.feedback
        assert 3 * (found.score or 0.0) < found.metrics["cyclic_updates"] * 2


def test_every_move_leads_from_a_description_to_another_that_can_be_rendered() -> None:
    """No effort is to be had, so that nothing is run: what a move would run has been rendered by then."""
    rng = np.random.default_rng(3)
    lists = {
        "pool": POOLS,
        "order": ORDERS,
        "measure": MEASURES,
        "share": SHARES,
        "entering": ENTERING,
        "look": LOOKS,
        "early": EARLY,
    }
    here: Description = {**GREEDY, "early": 0.5}
    for operator in MOVES.operators:
        for _ in range(8):
            there = MOVES.changed(rng, here, operator)
            assert [name for name in here if there[name] != here[name]] == [operator]  # type: ignore[literal-required]
            assert operator == "recheck" or there[operator] in lists[operator]  # type: ignore[literal-required]
            compile(render(there), "solver.py", "exec")


def test_solver_that_takes_too_long_is_no_proposal() -> None:
    """Sweeping there and back over everything, looking at the gap after each update."""
    effort = Effort(99.0)

    with pytest.raises(SolverFault, match="takes more than 600000 products"):
        updates({**PLAIN, "pool": "all", "order": "alternating", "look": 1}, effort)
    assert effort.spent == pytest.approx(0.6, abs=1e-5)


def test_change_of_what_a_solver_does_not_use_is_no_proposal() -> None:
    """Without a share, no coordinate that is 0 is weighed."""
    with pytest.raises(SolverFault, match="changes nothing"):
        MOVES.move(np.random.default_rng(1), PLAIN, "entering", Effort(99.0))
