"""Records that only the store gives out: runs with their plans, a tree's line in a list, the ledger's entries, verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.gate.verdict import Verdict
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
class UnusableAnswer:
    """An answer of a model that became no version: the fault of the proposal, the n-th call for a position of a run."""

    run: int
    position: int
    number: int
    model: str
    kind: str
    """Of edit."""
    reason: str
    message: str
    at: str


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A stored tree without its attempts. `best` is its highest score, larger is better; None where nothing was scored.

    `luck` is that of the tree: near copies share it.
    """

    digest: str
    name: str
    task: str
    system: str
    direction: Direction
    frontier: Frontier
    attempts: int
    best: float | None
    luck: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a look at held-out trees asks: is this policy better than that one, judged by these settings? Both by digest."""

    candidate: str
    incumbent: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One look at held-out trees, as it was recorded before they were replayed.

    `look` counts the different looks at any of these trees, this one included; `level` is what it may use of `alpha`, `spent`
    what the most looked-at of its trees had used before. `previous` and `digest` bind it to the entry before.
    """

    number: int
    question: Question
    trees: tuple[str, ...]
    alpha: float
    look: int
    level: float
    spent: float
    by: str
    at: str
    previous: str
    digest: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What looks at some trees have used up: `looks` at any of them, and of alpha `spent` at the most looked-at one.

    `following` is the level that another look at all of them would have.
    """

    looks: int
    spent: float
    left: float
    following: float


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A verdict with its number and the versions that it is about; `incumbent` is None where the store does not hold that one.

    `manifest` is empty where none was given. `digest` is that of verdict and manifest together.
    """

    number: int
    candidate: int
    incumbent: int | None
    verdict: Verdict
    manifest: Mapping[str, Any]
    manifest_digest: str | None
    digest: str
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Everything that fixes a campaign beside its task's folder, which must still have the digest named here.

    Each of `cycles` makes `searches` searches, with seeds that go on from `seed`. `version` steers until another is promoted.
    With `fixed` the policy never changes: the control arm, the same in everything else. `trees` are developed on beside those
    that searches of the task left, and `settings` hold throughout.
    """

    task: str
    task_digest: str
    folder: str
    cycles: int
    searches: int
    seed: int
    version: int
    fixed: bool = False
    trees: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign as it is stored."""

    number: int
    plan: CampaignPlan
    started_at: str
    finished_at: str | None = None

    def mark(self, cycle: int) -> str:
        """Return who acts in a cycle, as the history has it."""
        return f"campaign {self.number}, cycle {cycle}"

    def search_name(self, cycle: int, place: int) -> str:
        """Return the name of a search, and of the tree that it becomes."""
        return f"{self.plan.task}-c{self.number}.{cycle}.{place}"

    def seed(self, cycle: int, place: int) -> int:
        """Return the seed of a search; both arms have the same ones."""
        return self.plan.seed + (cycle - 1) * self.plan.searches + place - 1
