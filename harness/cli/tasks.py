"""`harness task`: read a task and score its start, before a search is built on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import wiring
from harness.cli.exits import Exit
from harness.cli.output import note, say, say_json, table
from harness.errors import InputError
from harness.task.evaluator import Evaluator
from harness.task.reading import FILE, read

if TYPE_CHECKING:
    from pathlib import Path

    from harness.config import Settings
    from harness.task.base import Assessment, Task


def check(folder: Path, settings: Settings, as_json: bool) -> int:
    """Read a task, score its start and print what came out.

    Raises:
        InputError: the task is none, its moves cannot be loaded, or its start has no score.
    """
    task = read(folder)
    wiring.check_moves(task)
    with wiring.jobs(settings, note, ours=True) as jobs:
        found = Evaluator(task, jobs).assess(task.start)
        backend = jobs.name
    if as_json:
        say_json(_document(task, found, backend))
    else:
        _print(task, found, backend)
    if found.score is None:
        raise InputError(
            f"{folder / FILE}: the start workspace {task.start} is {found.status}; expected one that its evaluator scores: "
            f"{found.feedback or 'the evaluator said nothing'}"
        )
    return Exit.DONE


def _document(task: Task, found: Assessment, backend: str) -> dict[str, object]:
    return {
        "task": task.name,
        "digest": task.digest,
        "direction": task.direction,
        "best_known": task.best_known,
        "files": list(task.files),
        "sandbox": backend,
        "start": {
            "score": found.score,
            "status": found.status,
            "metrics": dict(found.metrics),
            "feedback": found.feedback,
            "terminal": found.terminal,
            "seconds": found.seconds,
        },
    }


def _print(task: Task, found: Assessment, backend: str) -> None:
    better = "larger is better" if task.direction == "max" else "smaller is better"
    known = "" if task.best_known is None else f"; best known {task.best_known:g}"
    say(f"{task.name}: {better}{known}")
    if found.score is None:
        return
    say(f"the start scores {found.score:.9g}, in {found.seconds:.2f} s in the {backend} sandbox")
    if found.feedback:
        say(f"\n{found.feedback}")
    if found.metrics:
        say(
            "\n" + table(("metric", "value"), [[name, f"{value:.6g}"] for name, value in found.metrics.items()], left=("metric",))
        )
