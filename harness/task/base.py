"""A task as a record: what is sought, where a search starts, what an agent may change, and how an attempt is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.search import Allowance

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.task.commandline import CommandSettings
    from harness.tree import Direction
    from sandbox.job import JobLimits

ATTEMPT_S = 600.0
"""What one attempt may take where the task says nothing."""

AGENT_FOLDER = ".agent"
"""The agent's own folder in a workspace: it is kept from parent to child, and no evaluator sees it."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a workspace is scored.

    `run`, where there is one, is a command of the candidate's own world: it runs in a first job, in a copy of the workspace, with
    `given` (a folder of the task that candidates may read) as its input. `command` is the evaluator, in a second job that
    holds the evaluator's folder and what became of the workspace as read-only inputs and nothing that the candidate started.
    """

    command: tuple[str, ...]
    folder: Path
    limits: JobLimits
    run: tuple[str, ...] = ()
    run_limits: JobLimits | None = None
    given: Path | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task, read from its folder. `files` are the patterns of what an agent may change, `moves` the search agent's file.

    `digest` is the SHA-256 of everything that fixes what a search finds: `task.toml`, start, evaluator, given, moves and the
    Python files beside these.
    """

    name: str
    statement: str
    direction: Direction
    folder: Path
    start: Path
    files: tuple[str, ...]
    scoring: Scoring
    digest: str
    allowance: Allowance = field(default_factory=Allowance)
    attempt_s: float = ATTEMPT_S
    moves: Path | None = None
    best_known: float | None = None
    command: CommandSettings | None = None
    """The command line of the agent that the task brings along, where it does."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an evaluator found. `score` is raw (the task's direction says its sense), None unless `status` is "ok"."""

    score: float | None
    status: str
    """One of `tree.VIEWED_STATUSES`."""
    feedback: str
    metrics: Mapping[str, float]
    terminal: bool
    """True where the evaluator says that this branch is done."""
    seconds: float
