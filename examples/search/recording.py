"""One search taken through its rounds and written as a tree file, `discovery-tree/1`.

What an attempt finds depends on the seed, its line and its place in the line, not on when it is asked for. So a replay of
the record is exact for every order: another scheduler would have seen these very outcomes, live.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from search.agent import attempt
from search.autocorrelation_task import AutocorrelationTask
from search.packing_task import PackingTask
from search.schedule import ROOT, Shape, next_round

if TYPE_CHECKING:
    from pathlib import Path

    from harness.agents.search.walk import State
    from search.base import Task

GENERATOR = 1  # counts up whenever the same seed would give other scores
TASKS: tuple[Task, ...] = (PackingTask(), AutocorrelationTask(signed=False), AutocorrelationTask(signed=True))
TASK_NAMES = tuple(task.name for task in TASKS)


@dataclass(frozen=True, slots=True)
class Order:
    """One tree to be recorded: task, seed and number fix every score in it; `attempts` may cut it short."""

    task: str
    seed: int
    number: int
    attempts: int | None = None

    @property
    def name(self) -> str:
        """Return the tree's name, which is its file's as well."""
        return f"{self.task}-s{self.seed}-{self.number:02d}"


def shape_of(order: Order) -> Shape:
    """Return the shape that an order's search has."""
    shape = Shape.draw(_dice(order, 0))
    return shape if order.attempts is None else replace(shape, attempts=min(shape.attempts, order.attempts))


def record(order: Order, shape: Shape) -> list[dict[str, Any]]:
    """Run one search and return its header and its attempts in the order in which they were made."""
    place = TASK_NAMES.index(order.task)
    task = TASKS[place]
    rng = _dice(order, 1)
    sense = 1.0 if task.direction == "max" else -1.0
    rows = [_header(order, task, shape)]
    lines: list[list[float]] = []
    states: list[State] = []
    tips: list[str] = []
    while picks := next_round(shape, lines, rng):
        for pick in picks:
            line = len(lines) if pick == ROOT else pick
            parent = None if pick == ROOT else tips[line]
            depth = 0 if pick == ROOT else len(lines[line])
            made = attempt(task, None if pick == ROOT else states[line], [order.seed, place, order.number, line, depth])
            if pick == ROOT:
                lines.append([])
                states.append(made.state)
                tips.append("")
            states[line], tips[line] = made.state, f"a{len(rows):03d}"
            lines[line].append(-np.inf if made.score is None else sense * made.score)
            rows.append(
                {
                    "id": tips[line],
                    "parent": parent,
                    "score": made.score,
                    "status": made.status,
                    "metrics": made.metrics,
                    "feedback": made.feedback,
                    "hypothesis": made.hypothesis,
                    "cost": {"seconds": round(made.cpu_s, 4)},
                    "created_at": round(time.time(), 3),
                }
            )
    return rows


def _dice(order: Order, use: int) -> np.random.Generator:
    return np.random.default_rng([order.seed, TASK_NAMES.index(order.task), order.number, use])


def _header(order: Order, task: Task, shape: Shape) -> dict[str, Any]:
    start = task.root()
    command = f"python examples/record.py --out DIR --task {order.task} --seed {order.seed} --trees {order.number + 1}"
    return {
        "format": "discovery-tree/1",
        "name": order.name,
        "task": order.task,
        "direction": task.direction,
        "frontier": "leaf",
        "root": {
            "score": start.score if task.root_scores else None,
            "metrics": {"start_score": start.score, **start.metrics},
        },
        "source": {
            "system": "dream-harness-example",
            "generator": GENERATOR,
            "command": command if order.attempts is None else f"{command} --attempts {order.attempts}",
            "seed": order.seed,
            "scheduler": shape.scheduler,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "created_at": round(time.time(), 3),
    }


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write a tree file as a whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
