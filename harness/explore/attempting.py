"""Make one attempt: a fresh copy of the parent's workspace, the agent's work in it, the evaluator's word on that, a snapshot.

Whatever the agent does is on record as a node, a failure as well; what fails on our side is raised and leaves nothing behind.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from harness.agents.base import LOG_CHARACTERS, AgentFault, Assignment, Hypothesis, Work
from harness.explore.rollouts import Made
from harness.explore.takeover import Fixed, missing, told
from harness.task.base import Assessment
from harness.tree import Attempt
from harness.workspaces.base import WorkspaceFault
from sandbox.api import FEEDBACK_CHARACTERS
from sandbox.owner import owned_folder
from sandbox.removal import remove

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.agents.base import Agent, Sibling, Step
    from harness.task.base import Task
    from harness.workspaces.base import Snapshots


class Assesses(Protocol):
    """Scores workspaces: `harness.task.evaluator.Evaluator` does."""

    def assess(self, workspace: Path, *, cancel: threading.Event | None = None) -> Assessment:
        """Return what a workspace is worth; the workspace stays as it is."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One attempt to be made. `number` counts attempts from 1 in the order in which they were asked for.

    `snapshot` is the parent's workspace, `seed` follows from the search's seed and the place in the tree. `siblings` is asked
    once the workspace is there, and `planned` is told right after that what the agent is about to try.
    """

    number: int
    parent: str | None
    snapshot: str
    seed: int
    lineage: tuple[Step, ...] = ()
    siblings: Callable[[], tuple[Sibling, ...]] = field(default=tuple)
    planned: Callable[[Hypothesis], None] = field(default=lambda _: None)

    @property
    def id(self) -> str:
        """Return the id that the node will have."""
        return f"a{self.number}"


def is_agents_fault(attempt: Attempt) -> bool:
    """Return whether the agent failed, or ran out of time, so that no evaluator was asked about what it left."""
    return attempt.status in {"failed", "timeout"} and attempt.cost.get("evaluator_seconds") == 0.0


@dataclass(frozen=True, slots=True)
class Attempting:
    """Makes the attempts of one search. Called from several threads at once; attempts share nothing but what is here."""

    task: Task
    agent: Agent
    evaluator: Assesses
    snapshots: Snapshots
    root_score: float | None = None

    def make(
        self, pick: Pick, cancel: threading.Event, *, strategy: str = "", timeout_s: float | None = None, seed: int | None = None
    ) -> Made:
        """Return the attempt as a node, and what the agent said.

        Raises:
            AgentError, SandboxError, WorkspaceError, OSError: our side failed, or `cancel` was set; nothing is recorded.
        """
        began = time.monotonic()
        with self._workspace(pick) as workspace:
            assignment = Assignment(
                task=self.task,
                workspace=workspace,
                attempt=pick.id,
                seed=pick.seed if seed is None else seed,
                timeout_s=min(self.task.attempt_s, timeout_s or self.task.attempt_s),
                cancel=cancel,
                lineage=pick.lineage,
                siblings=pick.siblings(),
                strategy=strategy,
                root_score=self.root_score,
            )
            fixed = Fixed.of(workspace, self.task.files)
            work, fault = self._worked(assignment, pick)
            agent_s = time.monotonic() - began
            gone = missing(workspace)
            left_out = [] if gone else fixed.put_back(workspace, lambda: self._original(pick, workspace))
            if fault is not None:
                found = Assessment(None, fault.status, str(fault), {}, terminal=False, seconds=0.0)
            elif gone:
                found = Assessment(None, "invalid", "", {}, terminal=False, seconds=0.0)
            else:
                found = self.evaluator.assess(workspace, cancel=cancel)
            snapshot, trouble = (pick.snapshot, gone) if gone else self._taken(workspace, pick)
        if trouble and found.status == "ok":
            found = replace(found, score=None, status="invalid")
        found = replace(found, feedback=" ".join(filter(None, (trouble, found.feedback, told(left_out)))))
        if work.cost.seconds is None:
            work = replace(work, cost=work.cost._replace(seconds=agent_s))
        return Made(self._node(pick, work, found, snapshot, strategy), work.output)

    def _worked(self, assignment: Assignment, pick: Pick) -> tuple[Work, AgentFault | None]:
        planned = Hypothesis()
        broken: AgentFault | None = None
        try:
            planned = self.agent.plan(assignment)
            pick.planned(planned)
            work = self.agent.work(assignment)
        except AgentFault as fault:
            work, broken = fault.work, fault
        return (work if work.hypothesis != Hypothesis() else replace(work, hypothesis=planned)), broken

    @contextmanager
    def _workspace(self, pick: Pick) -> Iterator[Path]:
        with owned_folder() as folder:
            workspace = folder / "workspace"
            self.snapshots.restore(pick.snapshot, workspace)
            yield workspace

    def _original(self, pick: Pick, workspace: Path) -> Path:
        there = workspace.with_name("original")
        remove(there)
        self.snapshots.restore(pick.snapshot, there)
        return there

    def _taken(self, workspace: Path, pick: Pick) -> tuple[str, str]:
        try:
            return self.snapshots.take(workspace), ""
        except WorkspaceFault as fault:
            return pick.snapshot, f"The workspace cannot be kept: {fault}."

    def _node(self, pick: Pick, work: Work, found: Assessment, snapshot: str, rollout: str) -> Attempt:
        told_more = {"strategy": work.strategy, "rollout": rollout, "log": work.log[-LOG_CHARACTERS:]}
        extra: dict[str, Any] = {"agent": self.agent.name} | {name: said for name, said in told_more.items() if said}
        if work.hypothesis != Hypothesis():
            extra["hypothesis_parts"] = asdict(work.hypothesis)
        return Attempt(
            id=pick.id,
            parent=pick.parent,
            score=found.score,
            status=found.status,
            metrics=dict(found.metrics),
            feedback=found.feedback[:FEEDBACK_CHARACTERS],
            cost={
                "seconds": round((work.cost.seconds or 0.0) + found.seconds, 4),
                "tokens": work.cost.tokens,
                "usd": work.cost.usd,
                "evaluator_seconds": round(found.seconds, 4),
            },
            hypothesis=work.hypothesis.sentence(),
            snapshot=snapshot,
            terminal=True if work.terminal or found.terminal else None,
            created_at=round(time.time(), 3),
            extra=extra,
        )
