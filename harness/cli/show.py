"""`harness show`: one version, where it comes from, what it is worth, and why it faulted if it did."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness import promotion, wiring
from harness.cli import rules, written
from harness.cli.export import verdict_document
from harness.cli.history import turns_table
from harness.cli.judgements import judgements
from harness.cli.lineage import lineage
from harness.cli.output import clean, indented, number, one_line, say, say_exactly, say_json, table
from harness.cli.policies import stored_version
from harness.cli.replay import head, print_faults, result_document, result_row
from harness.score import mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.cli.judgements import Judgement
    from harness.cli.written import Written
    from harness.config import Settings
    from harness.policy import Event, Version
    from harness.score import Result
    from harness.store import RecordedVerdict, Store

_VERDICTS = 3
"""How many of the latest verdicts are shown with their parts."""
_EXTREMES = 5
"""How many of the worst and of the best trees are shown."""


class Alone(StrEnum):
    """What can be shown of a version without the rest."""

    SOURCE = "source"
    DIFF = "diff"
    PROMPT = "prompt"
    ANSWER = "answer"


def show(named: str, settings: Settings, alone: Alone | None, as_json: bool) -> int:
    """Show one version, or one thing of it alone."""
    with wiring.open_store(settings) as store:
        version = stored_version(named, store)
        if alone is not None:
            # Byte for byte into a file or a pipe; a terminal gets it without what could steer it.
            text = _alone(alone, version, store)
            if as_json:
                say_json({"version": version.number, alone.value: text})
                return 0
            say_exactly(clean(text) if sys.stdout.isatty() else text)
            return 0
        by_model = written.written(store, version)
        ancestors = [ancestor.number for ancestor in lineage(store, version)]
        judged = judgements(store, version)
        succession = promotion.succession(store)
        turns = [event for event in store.turns() if version.number in {event.to, event.version}]
        verdicts = store.verdicts(version.number)
    decided = _Decided(succession.incumbent == version.number, turns, verdicts, by_model)
    if as_json:
        say_json(_document(version, ancestors, judged, decided))
        return 0
    _print(version, ancestors, decided)
    if by_model is not None:
        written.show(by_model, version)
    _print_decided(version, decided)
    for judgement in judged[:1]:
        _print_judgement(judgement)
    if len(judged) > 1:
        say(f"\njudged by other runs before: {', '.join(str(judgement.run.number) for judgement in judged[1:])}")
    if not judged:
        say("\nno run has judged it")
    say(f"\n`harness show v{version.number} --source` prints its code")
    return 0


def _alone(alone: Alone, version: Version, store: Store) -> str:
    if alone is Alone.SOURCE:
        return version.candidate.source
    if alone is Alone.DIFF:
        parent = version.candidate.parent
        return written.diff(version, None if parent is None else store.version(parent)) + "\n"
    found = written.required(store, version)
    return written.prompt(found) if alone is Alone.PROMPT else written.answer(found)


@dataclass(frozen=True, slots=True)
class _Decided:
    """What was decided about a version: whether it is the incumbent, its promotions and rollbacks, verdicts it takes part in.

    `by_model` says how a model wrote it, if one did.
    """

    incumbent: bool
    turns: Sequence[Event]
    verdicts: Sequence[RecordedVerdict]
    by_model: Written | None = None


def _document(version: Version, ancestors: Sequence[int], judged: Sequence[Judgement], decided: _Decided) -> dict[str, Any]:
    candidate = version.candidate
    runs = [
        {
            "run": judgement.run.number,
            **rules.document(judgement.run.plan.settings),
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
        for judgement in judged
    ]
    asked = {} if decided.by_model is None else {"written": written.document(decided.by_model)}
    return asked | {
        "version": version.number,
        "digest": candidate.digest,
        "created_at": version.created_at,
        "incumbent": decided.incumbent,
        "origin": candidate.origin,
        "template": candidate.template,
        "params": dict(candidate.params),
        "rationale": candidate.rationale,
        "lineage": list(ancestors),
        "source": candidate.source,
        "promotions": [asdict(event) for event in decided.turns],
        "verdicts": [verdict_document(row) for row in decided.verdicts],
        "runs": runs,
    }


def _print(version: Version, ancestors: Sequence[int], decided: _Decided) -> None:
    candidate = version.candidate
    say(f"v{version.number}{'  (the incumbent)' if decided.incumbent else ''}")
    params = ", ".join(f"{name} = {value}" for name, value in candidate.params.items())
    facts = {
        "digest": candidate.digest,
        "recorded": version.created_at,
        "origin": candidate.origin.value + (f" {candidate.template}" if candidate.template else ""),
        "params": params,
        "based on": " <- ".join(f"v{number}" for number in ancestors),
        "rationale": candidate.rationale,
    }
    for name, fact in facts.items():
        if fact:
            say(f"  {name:<10} {one_line(fact)}")


def _print_decided(version: Version, decided: _Decided) -> None:
    if decided.turns:
        say("\npromotions and rollbacks\n" + indented(turns_table(decided.turns), "  "))
    for row in decided.verdicts[-_VERDICTS:]:
        against = f"v{row.incumbent}" if row.incumbent else f"policy {row.verdict.incumbent[:12]}"
        of = f"v{row.candidate} against {against}"
        say("\n" + one_line(f"verdict {row.number}: {row.verdict.outcome}, {of}: {row.verdict.reason}"))
        parts = [[part.name, part.outcome, part.words] for part in row.verdict.parts]
        if row.candidate == version.number and parts:
            say(indented(table(("part", "outcome", "what was found"), parts, left=("part", "outcome", "what was found")), "  "))


def _print_judgement(judgement: Judgement) -> None:
    settings = judgement.run.plan.settings
    objective = settings.objective
    say(f"\njudged in run {judgement.run.number}{rules.words(settings)}")
    rows = [
        [split.value.replace("_", "-"), str(len(evaluation.results)), number(evaluation.value), number(evaluation.quality)]
        for split, evaluation in judgement.splits.items()
    ]
    say(indented(table(("trees", "count", objective.value, "quality"), rows, left=("trees",)), "  "))
    results = [result for _, result in judgement.results]
    systems = by_system(results)
    rows = [[system, str(len(of)), number(mean(r.figures.value for r in of))] for system, of in systems.items()]
    say("\n" + indented(table(("system", "trees", objective.value), rows, left=("system",)), "  "))
    valued = sorted((r for r in results if r.figures.value is not None), key=lambda result: result.figures.value or 0.0)
    worst, best = valued[:_EXTREMES], valued[max(_EXTREMES, len(valued) - _EXTREMES) :]
    for words, shown in (("worst", worst), ("best", best[::-1])):
        if shown:
            say(f"\n  {words} trees\n" + indented(table(head(objective), map(result_row, shown), left=("tree", "stop")), "  "))
    print_faults(results)


def by_system(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return results by the system that recorded their trees, systems in alphabetical order."""
    groups: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.system):
        groups.setdefault(result.system, []).append(result)
    return groups
