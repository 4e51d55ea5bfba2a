"""A live search as records: what fixes it, what a policy decided, what became of each attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.tree import Direction
from sandbox.api import Frontier, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.tree import Attempt


class Mode(StrEnum):
    """When the policy is asked: once all of its batch have ended (the paper), or whenever a slot is free."""

    ROUNDS = "rounds"
    ASYNC = "async"


class SiblingContext(StrEnum):
    """When an attempt is told of its siblings."""

    OFF = "off"
    NEW_BRANCH = "new_branch"
    UNTIL_SUCCESS = "until_success"
    ALWAYS = "always"


class SearchStop(StrEnum):
    """Why a live search ended."""

    POLICY_STOPPED = "policy_stopped"
    MAX_ROUNDS = "max_rounds"
    MAX_ATTEMPTS = "max_attempts"
    WALL = "wall_s"
    TOKENS = "tokens"
    USD = "usd"
    POLICY_ERROR = "policy_error"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one live search may use; None is no cap. A cap counts what is in flight and is never passed."""

    attempts: int | None = None
    rounds: int | None = None
    wall_s: float | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Everything that fixes a live search but its task's folder, which must still have the digest named here.

    Version `version`, whose source has the digest `policy`, steers it. `limits` bound the policy as in a replay, `allowance` what
    attempts may use. `options` are the settings of agent, siblings and rollouts: values of JSON.
    """

    name: str
    task: str
    task_digest: str
    folder: str
    direction: Direction
    version: int
    policy: str
    seed: int
    limits: Limits
    frontier: Frontier
    mode: Mode
    slots: int
    agent: str
    sandbox: str
    allowance: Allowance = field(default_factory=Allowance)
    close_terminal: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer of a policy, recorded before any of its attempts begins.

    `seen` counts the attempts that were revealed when it was asked; `pending` holds the ids in flight then. `picks` are what it
    answered, of which the first `served` were served before a limit dropped the rest. One with a fault has no picks: from there
    on `version` decides, another one than before.
    """

    number: int
    round: int
    version: int
    seen: int
    pending: tuple[int, ...] = ()
    picks: tuple[int, ...] = ()
    served: int = 0
    fault: Mapping[str, Any] | None = None
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """One attempt, recorded when it ends.

    `number` counts attempts in the order in which they were asked for, `order` in the order in which they ended, both from 1.
    `parent` is the number of the attempt that it continues, None for the root.
    """

    number: int
    order: int
    decision: int
    parent: int | None
    attempt: Attempt
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Search:
    """A live search as it is stored. `start` is the address of the start workspace, `root_score` what that is worth, raw.

    `stop` and `tree`, a digest, are there once it has ended.
    """

    number: int
    plan: SearchPlan
    start: str
    root_score: float | None
    root_metrics: Mapping[str, float]
    started_at: str
    finished_at: str | None = None
    stop: SearchStop | None = None
    tree: str | None = None


def plan_fields(plan: SearchPlan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    fields = {name: getattr(plan, name) for name in SearchPlan.__slots__}
    limits, allowance = plan.limits, plan.allowance
    fields["limits"] = [limits.max_rounds, limits.max_batch, limits.max_attempts]
    fields["allowance"] = {name: getattr(allowance, name) for name in Allowance.__slots__}
    fields["options"] = dict(plan.options)
    return fields | {name: str(fields[name]) for name in ("direction", "frontier", "mode")}


def plan_of(fields: Mapping[str, Any]) -> SearchPlan:
    """Build a plan from its fields; the reverse of `plan_fields`."""
    kinds = {"direction": Direction, "frontier": Frontier, "mode": Mode}
    built: dict[str, Any] = {name: kind(fields[name]) for name, kind in kinds.items()}
    built |= {"limits": Limits(*fields["limits"]), "allowance": Allowance(**fields["allowance"])}
    return SearchPlan(**{**fields, **built})


def decision_fields(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON has it."""
    fields = {name: getattr(decision, name) for name in Decision.__slots__}
    return fields | {"pending": list(decision.pending), "picks": list(decision.picks)}


def decision_of(fields: Mapping[str, Any]) -> Decision:
    """Build a decision from its fields; the reverse of `decision_fields`."""
    return Decision(**{**fields, "pending": tuple(fields["pending"]), "picks": tuple(fields["picks"])})
