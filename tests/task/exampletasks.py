"""What tests of the example tasks share: a task by its name, and the assessment of an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.task.evaluator import Evaluator
from harness.task.reading import read

if TYPE_CHECKING:
    from harness.task.base import Assessment
    from sandbox.job import Jobs

FOLDER = Path(__file__).parents[2] / "examples" / "tasks"


def assessed(task: str, answer: Any, jobs: Jobs, folder: Path) -> Assessment:
    """Return what an example task makes of an answer, given as JSON text or as what becomes JSON."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    (workspace / "answer.json").write_text(text, encoding="utf-8")
    return Evaluator(read(FOLDER / task), jobs).assess(workspace)


def start_of(task: str) -> Any:
    """Return the answer that a search of an example task starts from."""
    return json.loads((FOLDER / task / "start" / "answer.json").read_text(encoding="utf-8"))
