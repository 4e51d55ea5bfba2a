"""`harness history`, `show` and `diff`: what the store knows of versions."""

from __future__ import annotations

import difflib
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness import wiring
from harness.cli.output import clean, indented, number, say, say_exactly, say_json, table
from harness.cli.policies import required_version
from harness.cli.replay import HEAD, print_faults, result_document, result_row
from harness.errors import InputError
from harness.evolve import Split
from harness.policy import EventKind
from harness.score import mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.config import Settings
    from harness.policy import Event, Version
    from harness.score import Evaluation, Result
    from harness.store import Run, Store

_EXTREMES = 5
"""How many of the worst and of the best trees are shown."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events are wanted, as the command line said it."""

    version: str | None
    run: int | None
    kinds: tuple[str, ...]
    limit: int | None


def history(wanted: Filter, settings: Settings, as_json: bool) -> int:
    """List events, the oldest first."""
    version = None if wanted.version is None else required_version(wanted.version)
    kinds = None if not wanted.kinds else [_kind(name) for name in wanted.kinds]
    if wanted.limit is not None and wanted.limit < 0:
        raise InputError(f"--limit: limit is {wanted.limit}; expected a whole number of at least 0")
    with wiring.open_store(settings) as store:
        if version is not None:
            store.version(version)
        if wanted.run is not None:
            store.run(wanted.run)
        events = store.events(version=version, run=wanted.run, kinds=kinds)
    if wanted.limit is not None:
        events = events[len(events) - min(wanted.limit, len(events)) :]
    if as_json:
        say_json({"events": [asdict(event) for event in events]})
        return 0
    head = ("#", "when", "run", "event", "version", "to", "reason")
    say(table(head, map(_event_row, events), left=("when", "event", "reason")))
    return 0


def _kind(name: str) -> EventKind:
    try:
        return EventKind(name.replace("-", "_"))
    except ValueError:
        raise InputError(f"--kind: kind is {name!r}; expected one of {', '.join(EventKind)}") from None


def _event_row(event: Event) -> list[str]:
    run = "-" if event.run is None else str(event.run)
    to = "" if event.to is None else f"v{event.to}"
    return [str(event.number), (event.at or "")[:19], run, event.kind, f"v{event.version}", to, event.reason]


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What one run found a version to be worth."""

    run: Run
    splits: dict[Split, Evaluation]

    @property
    def results(self) -> list[tuple[Split, Result]]:
        return [(split, result) for split, evaluation in self.splits.items() for result in evaluation.results]


def _judgements(store: Store, version: Version) -> list[_Judgement]:
    """Return what the runs found, the latest first."""
    found = []
    for run in reversed(store.runs()):
        known = {split: store.evaluation(run, version, split) for split in Split}
        splits = {split: evaluation for split, evaluation in known.items() if evaluation is not None}
        if splits:
            found.append(_Judgement(run, splits))
    return found


def show(named: str, settings: Settings, source: bool, as_json: bool) -> int:
    """Show one version."""
    with wiring.open_store(settings) as store:
        version = store.version(required_version(named))
        if source:
            # Byte for byte into a file or a pipe; a terminal gets it without what could steer it.
            code = version.candidate.source
            say_exactly(clean(code) if sys.stdout.isatty() else code)
            return 0
        lineage = _lineage(store, version)
        judgements = _judgements(store, version)
        incumbent = store.incumbent()
    if as_json:
        say_json(_document(version, lineage, judgements, incumbent))
        return 0
    _print(version, lineage, incumbent)
    for judgement in judgements[:1]:
        _print_judgement(judgement)
    if len(judgements) > 1:
        say(f"\njudged by {len(judgements) - 1} earlier runs as well: {', '.join(str(j.run.number) for j in judgements[1:])}")
    if not judgements:
        say("\nno run has judged it")
    say(f"\n`harness show v{version.number} --source` prints its code")
    return 0


def _lineage(store: Store, version: Version) -> list[int]:
    """Return the numbers of the versions that this one descends from, its parent first."""
    lineage: list[int] = []
    parent = version.candidate.parent
    while parent is not None and parent not in lineage:
        lineage.append(parent)
        parent = store.version(parent).candidate.parent
    return lineage


def _document(
    version: Version, lineage: Sequence[int], judgements: Sequence[_Judgement], incumbent: Version | None
) -> dict[str, Any]:
    candidate = version.candidate
    runs = [
        {
            "run": judgement.run.number,
            "splits": {
                split.value: {
                    "value": evaluation.value,
                    "quality": evaluation.quality,
                    "sandbox": evaluation.sandbox,
                    "trees": [result_document(result) for result in evaluation.results],
                }
                for split, evaluation in judgement.splits.items()
            },
        }
        for judgement in judgements
    ]
    return {
        "version": version.number,
        "digest": candidate.digest,
        "created_at": version.created_at,
        "incumbent": incumbent is not None and incumbent.number == version.number,
        "origin": candidate.origin,
        "template": candidate.template,
        "params": dict(candidate.params),
        "rationale": candidate.rationale,
        "lineage": list(lineage),
        "source": candidate.source,
        "runs": runs,
    }


def _print(version: Version, lineage: Sequence[int], incumbent: Version | None) -> None:
    candidate = version.candidate
    standing = "  (the incumbent)" if incumbent is not None and incumbent.number == version.number else ""
    say(f"v{version.number}{standing}")
    params = ", ".join(f"{name} = {value}" for name, value in candidate.params.items())
    facts = {
        "digest": candidate.digest,
        "recorded": version.created_at,
        "origin": candidate.origin.value + (f" {candidate.template}" if candidate.template else ""),
        "params": params,
        "based on": " <- ".join(f"v{number}" for number in lineage),
        "rationale": candidate.rationale,
    }
    for name, fact in facts.items():
        if fact:
            say(f"  {name:<10} {fact}")


def _print_judgement(judgement: _Judgement) -> None:
    say(f"\njudged in run {judgement.run.number}")
    rows = [
        [split.value.replace("_", "-"), str(len(evaluation.results)), number(evaluation.value), number(evaluation.quality)]
        for split, evaluation in judgement.splits.items()
    ]
    say(indented(table(("trees", "count", "value", "quality"), rows, left=("trees",)), "  "))
    results = [result for _, result in judgement.results]
    systems = by_system(results)
    rows = [[system, str(len(of)), number(mean(r.figures.value for r in of))] for system, of in systems.items()]
    say("\n" + indented(table(("system", "trees", "value"), rows, left=("system",)), "  "))
    valued = sorted((r for r in results if r.figures.value is not None), key=lambda result: result.figures.value or 0.0)
    worst, best = valued[:_EXTREMES], valued[max(_EXTREMES, len(valued) - _EXTREMES) :]
    for words, shown in (("worst", worst), ("best", best[::-1])):
        if shown:
            say(f"\n  {words} trees\n" + indented(table(HEAD, map(result_row, shown), left=("tree", "stop")), "  "))
    print_faults(results)


def by_system(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return results by the system that recorded their trees, systems in alphabetical order."""
    groups: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.system):
        groups.setdefault(result.system, []).append(result)
    return groups


def diff(first: str, second: str, settings: Settings, as_json: bool) -> int:
    """Compare two versions by their code and by their value on every tree that both were judged on."""
    with wiring.open_store(settings) as store:
        one, other = (store.version(required_version(named)) for named in (first, second))
        judged = _both_judged(_judgements(store, one), _judgements(store, other))
    code = list(
        difflib.unified_diff(
            one.candidate.source.splitlines(),
            other.candidate.source.splitlines(),
            f"v{one.number}",
            f"v{other.number}",
            lineterm="",
        )
    )
    trees = [] if judged is None else _differences(*judged)
    means = [mean(line[side] for line in trees if line["difference"] is not None) for side in ("first", "second")]
    difference = None if means[0] is None or means[1] is None else means[1] - means[0]
    if as_json:
        run = None if judged is None else judged[0].run.number
        values = {"first": means[0], "second": means[1], "difference": difference}
        say_json(
            {"first": one.number, "second": other.number, "run": run, "mean": values, "diff": "\n".join(code), "trees": trees}
        )
        return 0
    say("\n".join(code) if code else "the code is the same")
    if judged is None:
        say("\nno run has judged both; `harness replay` compares them on trees of your choice")
        return 0
    head = ("tree", "split", f"v{one.number}", f"v{other.number}", "difference")
    rows = [
        [
            line["name"],
            line["split"].replace("_", "-"),
            number(line["first"]),
            number(line["second"]),
            number(line["difference"], signed=True),
        ]
        for line in trees
    ]
    rows.append(["mean", "", number(means[0]), number(means[1]), number(difference, signed=True)])
    say(f"\nvalue by tree, run {judged[0].run.number}\n" + table(head, rows, left=("tree", "split")))
    return 0


def _both_judged(one: Sequence[_Judgement], other: Sequence[_Judgement]) -> tuple[_Judgement, _Judgement] | None:
    """Return what the latest run found that judged both versions: two runs may differ in limits and weights."""
    of_other = {judgement.run.number: judgement for judgement in other}
    return next(((judgement, of_other[judgement.run.number]) for judgement in one if judgement.run.number in of_other), None)


def _differences(one: _Judgement, other: _Judgement) -> list[dict[str, Any]]:
    of_other = {result.tree: result for _, result in other.results}
    lines = []
    for split, result in one.results:
        against = of_other.get(result.tree)
        if against is None:
            continue
        values = result.figures.value, against.figures.value
        difference = None if values[0] is None or values[1] is None else values[1] - values[0]
        line = {"name": result.name, "digest": result.tree, "system": result.system, "split": split.value}
        lines.append(line | {"first": values[0], "second": values[1], "difference": difference})
    return sorted(lines, key=lambda line: -abs(line["difference"] or 0.0))
