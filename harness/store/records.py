"""Records that only the store gives out: a run of evolve with its plan, and a tree's line in a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.score import Settings
    from harness.tree import Direction
    from sandbox.api import Frontier


class RunState(StrEnum):
    """Whether a run of evolve has ended."""

    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything that fixes a run of evolve. A run that was interrupted resumes from its plan alone.

    `development` and `held_out` are digests of trees that the store holds, in the order in which they are replayed.
    `versions` counts the incumbent. `options` is the proposer's own: values of JSON with text as keys, or they come back changed.
    """

    seed: int
    versions: int
    settings: Settings
    sandbox: str
    development: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    incumbent: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of evolve, numbered from 1. `best` is the version it selected last or went back to since, None before the first."""

    number: int
    plan: RunPlan
    state: RunState
    started_at: str
    finished_at: str | None = None
    best: int | None = None


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A stored tree without its attempts. `best` is its highest score, larger is better; None where nothing was scored."""

    digest: str
    name: str
    task: str
    system: str
    direction: Direction
    frontier: Frontier
    attempts: int
    best: float | None
