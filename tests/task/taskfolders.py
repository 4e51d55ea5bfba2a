"""Tasks for tests, written into a folder: a `task.toml`, a start and an evaluator of a few lines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
format = "task/1"
name = "sums"
direction = "max"
statement = "Write a number."
files = ["answer.txt"]

[evaluate]
command = ["python3", "-I", "{evaluator}/evaluate.py"]
"""

READS_A_NUMBER = """
import json, os
from pathlib import Path
text = (Path(os.environ["JOB_INPUTS"]) / "workspace" / "answer.txt").read_text()
print(json.dumps({"score": float(text), "metrics": {"characters": len(text)}, "feedback": "read " + text}))
"""


def written(folder: Path, toml: str = TOML, evaluator: str = READS_A_NUMBER, **files: str) -> Path:
    """Return the folder of a task; `files` are more of its files, with `__` for a slash and `_` before the ending for a dot."""
    (folder / "start").mkdir(parents=True)
    (folder / "evaluator").mkdir()
    (folder / "start" / "answer.txt").write_text("3")
    (folder / "task.toml").write_text(toml)
    (folder / "evaluator" / "evaluate.py").write_text(textwrap.dedent(evaluator))
    for name, content in files.items():
        stem, _, ending = name.replace("__", "/").rpartition("_")
        path = folder / f"{stem}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content))
    return folder
