"""The joint between the live search and whoever makes its attempts.

An agent is given a fresh copy of the parent's workspace and changes it in place; it keeps nothing between attempts but what it
writes to the workspace. What it leaves is a stranger's: files outside the task's patterns are put back, and the evaluator
alone says what the rest is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from harness.errors import HarnessError
from sandbox.api import HYPOTHESIS_CHARACTERS, Cost

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from harness.task.base import Task

UNKNOWN_COST = Cost(None, None, None)
OUTPUT_CHARACTERS = 2**20
LOG_CHARACTERS = 4_000


def told(text: str, characters: int) -> str:
    """Return the end of what an agent said, at most so long; halves of characters, which no file can hold, become `?`."""
    return text[-characters:].encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What an attempt sets out to try: the part of the solution it changes, what it expects, and why."""

    component: str = ""
    statement: str = ""
    reason: str = ""

    def sentence(self) -> str:
        """Return it as a node's hypothesis: one line, empty where nothing was said, cut where too much was."""
        head = f"[{self.component}] {self.statement}" if self.component else self.statement
        return (f"{head} ({self.reason})" if self.reason else head)[:HYPOTHESIS_CHARACTERS]


class SiblingState(StrEnum):
    """How far an attempt of another branch is."""

    IN_FLIGHT = "in_flight"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Sibling:
    """What another branch is trying or has tried; `score` is raw, `strategy` the agent's own word for its approach."""

    attempt: str
    state: SiblingState
    hypothesis: Hypothesis
    strategy: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt on the way from the root to the parent, as far as an agent may know it. `score` is raw."""

    attempt: str
    score: float | None
    status: str
    feedback: str
    hypothesis: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt to be made. `workspace` is the agent's alone, a fresh copy of the parent's snapshot.

    `seed` depends on the search's seed and the attempt's place in the tree alone, never on when it is made. `lineage` leads from
    the root's child to the parent, and is empty for a new branch. `siblings` is a snapshot, empty where there is no sibling
    context. `strategy` is a rollout's prefix, empty for a plain attempt.
    """

    task: Task
    workspace: Path
    attempt: str
    seed: int
    timeout_s: float
    cancel: threading.Event
    lineage: tuple[Step, ...] = ()
    siblings: tuple[Sibling, ...] = ()
    strategy: str = ""
    root_score: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent did. `output` is what it said (selectors look at it), `log` the end of its own log, for people.

    Neither is longer than `OUTPUT_CHARACTERS` and `LOG_CHARACTERS`. Seconds are known, tokens and money where somebody says them.
    `strategy` is its own word for its approach, shown to siblings. `terminal` says that the branch is done.
    """

    hypothesis: Hypothesis = field(default_factory=Hypothesis)
    cost: Cost = UNKNOWN_COST
    output: str = ""
    log: str = ""
    strategy: str = ""
    terminal: bool = False


class AgentFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """An attempt failed by the agent's doing; it goes on record as a node. `work` is what is known of it."""

    def __init__(self, message: str, *, status: str = "failed", work: Work | None = None) -> None:
        super().__init__(message)
        self.status = status
        """"failed" or "timeout"."""
        self.work = work or Work()


class AgentError(HarnessError):
    """No agent can work: program missing, provider out of reach. Nothing is recorded; the run can be resumed. Exit code 3."""


class Agent(Protocol):
    """Makes attempts. Called from several threads at once, each with a workspace of its own.

    An attempt touches nothing but its workspace, and nothing of what it was told is kept once it has ended, however it ended. It
    ends soon after its time is over or `cancel` is set, in both cases as a fault of status "timeout", and no process goes on.
    """

    @property
    def name(self) -> str:
        """Return what settings, stores and people call it, such as `search` or `command:aider`."""

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Return what the attempt will try, before it works; what siblings see of it while it is in flight.

        Cheap and without effect on the workspace. An agent that cannot know returns an empty one.

        Raises:
            AgentFault, AgentError: as for `work`, which is then not asked.
        """

    def work(self, assignment: Assignment) -> Work:
        """Change the workspace.

        Raises:
            AgentFault: the attempt failed, ran out of time or was cancelled by its limit.
            AgentError: our side failed, or the agent is closed.
        """

    def close(self) -> None:
        """End every process it started. May be called again."""
