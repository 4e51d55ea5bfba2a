"""Records to rows and back. What comes back equals what went in, floats to the last bit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.policy import Candidate, Event, EventKind, Origin, Version
from harness.replay import Round, Stop, Trajectory
from harness.score import Evaluation, Figures, Result, Settings, settings_from
from harness.store.records import Run, RunPlan, RunState, TreeRow
from harness.tree import Direction, Tree, attempt_fields, attempt_of, header_fields, luck_of, tree_of
from sandbox.api import Fault, FaultKind, Frontier, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Row


def tree_row(tree: Tree) -> dict[str, Any]:
    """Return a tree's row."""
    return {
        "digest": tree.digest,
        "name": tree.name,
        "task": tree.task,
        "system": tree.system,
        "direction": tree.direction.value,
        "frontier": tree.frontier.value,
        "attempts": len(tree.attempts),
        "best": tree.top,
        "header": header_fields(tree),
        "nodes": [attempt_fields(attempt) for attempt in tree.attempts],
    }


def tree_from(row: Row[*tuple[Any, ...]]) -> Tree:
    """Return the tree of a row."""
    return tree_of(row.header, map(attempt_of, row.nodes))


def tree_line(row: Row[*tuple[Any, ...]]) -> TreeRow:
    """Return a tree's line in a list."""
    direction, frontier = Direction(row.direction), Frontier(row.frontier)
    luck = luck_of(row.digest, row.header.get("source", {}))
    return TreeRow(row.digest, row.name, row.task, row.system, direction, frontier, row.attempts, row.best, luck)


def plan_row(plan: RunPlan) -> dict[str, Any]:
    """Return a plan as a value of JSON."""
    return {
        "seed": plan.seed,
        "versions": plan.versions,
        "settings": settings_row(plan.settings),
        "sandbox": plan.sandbox,
        "development": list(plan.development),
        "held_out": list(plan.held_out),
        "incumbent": plan.incumbent,
        "options": dict(plan.options),
    }


def run_from(row: Row[*tuple[Any, ...]]) -> Run:
    """Return the run of a row."""
    said = row.plan
    plan = RunPlan(
        **said
        | {
            "settings": settings_from(said["settings"]),
            "development": tuple(said["development"]),
            "held_out": tuple(said["held_out"]),
        }
    )
    return Run(row.number, plan, RunState(row.state), row.started_at, row.finished_at, row.best)


def settings_row(settings: Settings) -> dict[str, Any]:
    """Return settings as a value of JSON."""
    return asdict(settings)


def provenance_row(candidate: Candidate) -> dict[str, Any]:
    """Return where a candidate came from: all of it but its source."""
    return {
        "origin": candidate.origin.value,
        "rationale": candidate.rationale,
        "template": candidate.template,
        "params": dict(candidate.params),
        "parent": candidate.parent,
    }


def version_from(row: Row[*tuple[Any, ...]]) -> Version:
    """Return the version of a row."""
    candidate = Candidate(row.source, Origin(row.origin), row.rationale, row.template, row.params, row.parent)
    return Version(row.number, candidate, row.created_at)


def result_row(result: Result) -> dict[str, Any]:
    """Return a replay's row: a few columns to ask for, and the whole result as a value of JSON."""
    trajectory, fault = result.trajectory, result.trajectory.fault
    whole = {
        "name": result.name,
        "system": result.system,
        "trajectory": trajectory.tree,
        "rounds": [[turn.picks, turn.revealed, turn.wasted] for turn in trajectory.rounds],
        "fault": None if fault is None else asdict(fault),
        "figures": asdict(result.figures),
        "decide_s": result.decide_s,
        "cpu_s": result.cpu_s,
        "memory_bytes": result.memory_bytes,
        "output": result.output,
    }
    return {
        "tree": result.tree,
        "value": result.figures.value,
        "stop": trajectory.stop.value,
        "fault": None if fault is None else fault.kind.value,
        "result": whole,
    }


def result_from(row: Row[*tuple[Any, ...]]) -> Result:
    """Return the result of a replay's row with the task of its tree."""
    said = row.result
    rounds = tuple(Round(tuple(picks), tuple(revealed), wasted) for picks, revealed, wasted in said.pop("rounds"))
    fault = said.pop("fault")
    trajectory = Trajectory(said.pop("trajectory"), rounds, Stop(row.stop), None if fault is None else _fault_from(fault))
    figures = Figures(**said.pop("figures"))
    return Result(tree=row.tree, task=row.task, trajectory=trajectory, figures=figures, **said)


def evaluation_from(row: Row[*tuple[Any, ...]], replays: Iterable[Row[*tuple[Any, ...]]]) -> Evaluation:
    """Return the evaluation of a row and its replays in order."""
    return Evaluation(row.policy, row.sandbox, settings_from(row.settings), tuple(map(result_from, replays)))


def event_row(event: Event) -> dict[str, Any]:
    """Return an event's row, without the number and time that the store gives it."""
    return {
        "kind": event.kind.value,
        "version": event.version,
        "run": event.run,
        "to": event.to,
        "reason": event.reason,
        "facts": dict(event.facts),
    }


def event_from(row: Row[*tuple[Any, ...]]) -> Event:
    """Return the event of a row."""
    return Event(EventKind(row.kind), row.version, row.run, row.reason, row.to, row.facts, row.number, row.at)


def _fault_from(said: dict[str, Any]) -> Fault:
    rule = said["rule"]
    return Fault(**said | {"kind": FaultKind(said["kind"]), "rule": None if rule is None else Rule(rule)})
