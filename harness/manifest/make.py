"""Make a manifest of evaluations."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.errors import InputError
from harness.gate.document import document
from harness.manifest.environment import environment
from harness.manifest.records import FORMAT, FaultLine, Judged, Kind, Manifest, Place, Policy, Replay
from harness.score import refuse_mixed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.gate.verdict import Verdict
    from harness.policy import Candidate
    from harness.replay import Trajectory
    from harness.score import Evaluation, Result
    from sandbox.base import GuestLimits, Isolation


@dataclass(frozen=True, slots=True)
class Entry:
    """One policy as it was judged over one named set of trees. `params` are those that the policy was given."""

    name: str
    candidate: Candidate
    evaluation: Evaluation
    params: Mapping[str, Any] = field(default_factory=dict)
    trees: str = "trees"


@dataclass(frozen=True, slots=True)
class How:
    """How the evaluations were carried out, the same for all: what each process might use, trees replayed twice, isolation.

    `isolation` is None where no policy was run at all.
    """

    guest: GuestLimits
    repeats: int
    isolation: Isolation | None
    checked: bool = True


def make(
    kind: Kind,
    entries: Sequence[Entry],
    how: How,
    *,
    files: Mapping[str, Path],
    beside: Path,
    verdict: Verdict | None = None,
) -> Manifest:
    """Return the manifest of one evaluation or several, all under the same settings.

    `files` says where trees lie, by digest; those that are not in it come from a store. `beside` is the folder that the manifest
    will stand in: paths are relative to it. Trees and replays are ordered by name and digest, whatever order they came in.

    Raises:
        InputError: settings are mixed, a name stands for two policies, or a policy's source is no text that a file can hold.
    """
    settings = entries[0].evaluation.settings
    for entry in entries[1:]:
        refuse_mixed(settings, entry.evaluation.settings)
    results = {result.tree: result for entry in entries for result in entry.evaluation.results}
    places = sorted((_place(result, files.get(digest), beside) for digest, result in results.items()), key=_in_order)
    order = {place.digest: number for number, place in enumerate(places)}
    return Manifest(
        format=FORMAT,
        kind=kind,
        environment=environment(how.isolation),
        settings=settings,
        guest=how.guest,
        repeats=how.repeats,
        checked=how.checked,
        policies=_policies(entries),
        trees=tuple(places),
        judged=tuple(judged_of(_sorted(entry, order)) for entry in entries),
        verdict=None if verdict is None else document(verdict),
    )


def _in_order(place: Place) -> tuple[str, str]:
    return place.name, place.digest


def _place(result: Result, file: Path | None, beside: Path) -> Place:
    where = None if file is None else os.path.relpath(file.resolve(), beside.resolve())
    return Place(result.tree, result.name, result.task, result.system, where)


def _policies(entries: Sequence[Entry]) -> tuple[Policy, ...]:
    found: dict[str, Policy] = {}
    for entry in entries:
        candidate = entry.candidate
        try:
            candidate.source.encode()
        except UnicodeEncodeError:
            raise InputError(f"{entry.name}: the source is not UTF-8, which no manifest can hold; save it as UTF-8") from None
        origin, template = candidate.origin, candidate.template
        policy = Policy(entry.name, candidate.digest, origin, template, dict(entry.params), candidate.source)
        if found.setdefault(entry.name, policy) != policy:
            raise InputError(f"{entry.name}: stands for two policies in one manifest; give each a name of its own")
    return tuple(found.values())


def _sorted(entry: Entry, order: Mapping[str, int]) -> Entry:
    results = sorted(entry.evaluation.results, key=lambda result: order[result.tree])
    return replace(entry, evaluation=replace(entry.evaluation, results=tuple(results)))


def judged_of(entry: Entry) -> Judged:
    """Return what a manifest holds of an evaluation, its replays in their order."""
    evaluation = entry.evaluation
    return Judged(entry.name, entry.trees, evaluation.value, evaluation.quality, tuple(map(_replay, evaluation.results)))


def _replay(result: Result) -> Replay:
    trajectory, fault = result.trajectory, result.trajectory.fault
    line = None if fault is None else FaultLine(fault.kind, fault.rule, fault.round)
    return Replay(result.tree, trajectory.digest, trajectory.stop, line, rounds(trajectory), result.figures)


def rounds(trajectory: Trajectory) -> str:
    """Return what each round picked and revealed, in places of the tree: `0 0>1 2;1>` is two rounds, the second in vain.

    Compact, since a manifest holds thousands; whole, since it must be told where two trajectories part.
    """
    turns = trajectory.rounds
    return ";".join(f"{' '.join(map(str, turn.picks))}>{' '.join(map(str, turn.revealed))}" for turn in turns)
