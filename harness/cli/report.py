"""What a run of evolve came to: the incumbent and the best version on trees that they were developed on, and on others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.cli import modeluse, rules
from harness.cli.output import number, one_line, say, say_json, table
from harness.cli.replay import fault_document
from harness.evolve import Split
from harness.score import Weight, difference, groups_of, mean, mean_over_groups
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.cli.modeluse import ModelUse
    from harness.evolve import HeldOut, Progress
    from harness.policy import Version
    from harness.propose.base import Judged
    from harness.score import Result
    from harness.store import Run
    from sandbox.api import Fault


class Ended(StrEnum):
    """What ended a run: it has all its versions, or there was nobody to write another one."""

    VERSIONS = "versions"
    BUDGET = "budget"
    PROVIDER = "provider"
    NO_USABLE_ANSWER = "no-usable-answer"
    NOTHING_LEFT = "nothing-left"


@dataclass(frozen=True, slots=True)
class Ending:
    """What ended a run, and the sentence that says why it has fewer versions than planned; None where it has all."""

    by: Ended
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A run that has ended: every version as it was told, and the look at the held-out trees."""

    run: Run
    store: str
    judged: Sequence[Progress]
    held_out: Sequence[HeldOut]
    seconds: float
    ending: Ending
    isolation: Mapping[str, Any] | None
    """What the results were made in; None where nobody asks."""
    models: ModelUse | None = None
    """What was asked of models; None for a run without."""

    @property
    def incumbent(self) -> Judged:
        """Return the version that the run started from."""
        return self.judged[0].judged

    @property
    def best(self) -> Judged:
        """Return the version that won."""
        return self.held_out[-1].best if self.held_out else self.judged[-1].best

    def results(self, split: Split, version: Version) -> Sequence[Result]:
        """Return the replays of the incumbent or the best version on one side of the trees."""
        looked_at = [entry.judged for entry in self.held_out]
        judged = [self.incumbent, self.best] if split is Split.DEVELOPMENT else looked_at
        return next((entry.evaluation.results for entry in judged if entry.version.number == version.number), ())


class _Pair(NamedTuple):
    """One tree under the incumbent and under the best version; None where a version has no value on it."""

    split: Split
    name: str
    digest: str
    system: str
    task: str
    group: str
    incumbent: float | None
    best: float | None


class _Means(NamedTuple):
    """Both versions over some trees; None for one that faulted among them, though it may have values on single trees."""

    trees: int
    incumbent: float | None
    best: float | None
    difference: float | None


def show(report: Report, verbose: bool, as_json: bool) -> None:
    """Print a report."""
    pairs = [pair for split in Split for pair in _pairs(report, split)]
    if as_json:
        say_json(_document(report, pairs))
    else:
        _print(report, pairs, verbose)


def _pairs(report: Report, split: Split) -> Iterable[_Pair]:
    first = {result.tree: result for result in report.results(split, report.incumbent.version)}
    second = {result.tree: result for result in report.results(split, report.best.version)}
    groups = groups_of([*first.values(), *second.values()], report.run.plan.settings.group_by)
    for digest, result in {**first, **second}.items():
        values = [of[digest].figures.value if digest in of else None for of in (first, second)]
        yield _Pair(split, result.name, digest, result.system, result.task, groups[digest], values[0], values[1])


def _means(pairs: Iterable[_Pair], weight: Weight = Weight.TREE) -> _Means:
    """Return the means over pairs: plain ones, or of one side as its run weighs trees."""
    pairs = list(pairs)
    incumbent = _mean([(pair.group, pair.incumbent) for pair in pairs], weight)
    best = _mean([(pair.group, pair.best) for pair in pairs], weight)
    return _Means(len(pairs), incumbent, best, difference(incumbent, best))


def _mean(valued: Sequence[tuple[str, float | None]], weight: Weight) -> float | None:
    values = [value for _, value in valued]
    if None in values:  # trees without a score take no part in a run: a value that is missing is a fault's
        return None
    return mean(values) if weight is Weight.TREE else mean_over_groups(valued)


def _by(what: Callable[[_Pair], str], pairs: Iterable[_Pair]) -> list[tuple[str, list[_Pair]]]:
    """Return groups of pairs, by the name that they share."""
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        groups.setdefault(what(pair), []).append(pair)
    return sorted(groups.items())


def _systems(pairs: Iterable[_Pair], side: Split) -> list[tuple[str, list[_Pair]]]:
    return _by(lambda pair: pair.system, _side(pairs, side))


def _tasks(pairs: Iterable[_Pair]) -> list[tuple[str, list[_Pair]]]:
    return _by(lambda pair: pair.task, pairs)


def _side(pairs: Iterable[_Pair], side: Split) -> list[_Pair]:
    return [pair for pair in pairs if pair.split is side]


def _print(report: Report, pairs: Sequence[_Pair], verbose: bool) -> None:
    incumbent, best, settings = report.incumbent.version, report.best.version, report.run.plan.settings
    head = ("trees", "count", f"incumbent v{incumbent.number}", f"best v{best.number}", "difference")
    rows = []
    for side in [split for split in Split if _side(pairs, split)]:
        rows.append([_words(side), *_cells(_means(_side(pairs, side), settings.weight))])
        for system, recorded in _systems(pairs, side):
            rows.append([f"  {system}", *_cells(_means(recorded))])
            tasks = _tasks(recorded)
            rows += [[f"    {task}", *_cells(_means(group))] for task, group in tasks if len(tasks) > 1]
    count, planned = len(report.judged), report.run.plan.versions
    of = f" of {planned}" if count < planned else ""
    say(f"run {report.run.number}: {counted(count, 'version')}{of} in {report.seconds:.1f} s{rules.words(settings)}\n")
    say(table(head, rows, left=("trees",)))
    if verbose:
        each = [[p.name, _words(p.split), *_cells(_means([p]))[1:]] for p in pairs]
        say("\n" + table(("tree", "side", *head[2:]), each, left=("tree", "side")))
    if report.models is not None:
        modeluse.show(report.models)
    if report.ending.reason is not None:
        say(one_line(f"the run ended after {count} of {counted(planned, 'version')}: {report.ending.reason}"))
    for version, fault in _faults(report).items():
        evidence = f"{fault.kind}: {one_line(fault.message)}; `harness show v{version}` says more"
        say(f"\nv{version} faulted on held-out trees and cannot win: {evidence}")
    if best.number == incumbent.number:
        say(f"\nno version was better than the incumbent v{incumbent.number}; another search: {_going_on(report)}")
        return
    say(f"\nthe best is v{best.number}: {one_line(best.candidate.rationale)}")
    say(f"`harness show v{best.number}` shows it, `harness diff v{incumbent.number} v{best.number}` what it changed")
    say(f"`harness gate v{best.number} --against v{incumbent.number}` asks whether it may take the incumbent's place")
    say(f"to go on from it: {_going_on(report)}")


def _going_on(report: Report) -> str:
    """Return the command that searches on from the best version; with the same seed it would propose the same again."""
    return f"`harness evolve --incumbent v{report.best.version.number} --seed {report.run.plan.seed + 1}`"


def _faults(report: Report) -> dict[int, Fault]:
    """Return the faults on held-out trees, by version."""
    faults = {entry.judged.version.number: entry.judged.evaluation.fault for entry in report.held_out}
    return {version: fault for version, fault in faults.items() if fault is not None}


def _words(split: Split) -> str:
    return split.value.replace("_", "-")


def _cells(means: _Means) -> list[str]:
    return [str(means.trees), number(means.incumbent), number(means.best), number(means.difference, signed=True)]


def _document(report: Report, pairs: Sequence[_Pair]) -> dict[str, Any]:
    run, plan = report.run, report.run.plan
    document: dict[str, Any] = {
        "run": run.number,
        "store": report.store,
        "sandbox": plan.sandbox,
        "isolation": report.isolation,
        "seed": plan.seed,
        **rules.document(plan.settings),
        "seconds": report.seconds,
        "ended": report.ending.by,
        "ended_because": report.ending.reason,
        "versions": [_version(told) for told in report.judged],
        "incumbent": report.incumbent.version.number,
        "best": report.best.version.number,
        "held_out_faults": {version: fault_document(fault) for version, fault in _faults(report).items()},
    }
    if report.models is not None:
        document["models"] = modeluse.document(report.models)
    for split in Split:
        document[split.value] = _means(_side(pairs, split), plan.settings.weight)._asdict()
    recorded = [(split, system, of) for split in Split for system, of in _systems(pairs, split)]
    document["systems"] = [{"split": split, "system": system, **_means(of)._asdict()} for split, system, of in recorded]
    document["tasks"] = [
        {"split": split, "system": system, "task": task, **_means(group)._asdict()}
        for split, system, of in recorded
        for task, group in _tasks(of)
    ]
    document["trees"] = [pair._asdict() | {"difference": _means([pair]).difference} for pair in pairs]
    return document


def _version(told: Progress) -> dict[str, Any]:
    version, evaluation = told.judged.version, told.judged.evaluation
    return {
        "position": told.position,
        "version": version.number,
        "digest": version.candidate.digest,
        "template": version.candidate.template,
        "origin": version.candidate.origin,
        "params": dict(version.candidate.params),
        "rationale": version.candidate.rationale,
        "value": evaluation.value,
        "quality": evaluation.quality,
        "outcome": told.outcome,
        "best": told.best.version.number,
        "fault": fault_document(evaluation.fault),
        "resumed": told.resumed,
    }
