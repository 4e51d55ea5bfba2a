"""`harness diff`: two versions, by their code and by their value on every tree that a run or a verdict judged both on."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from harness import wiring
from harness.cli import rules
from harness.cli.judgements import judgements
from harness.cli.output import number, say, say_json, table
from harness.cli.policies import stored_version
from harness.score import Weight, difference, groups_of, mean, mean_over_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.cli.judgements import Judgement
    from harness.config import Settings
    from harness.policy import Version
    from harness.store import RecordedVerdict


def diff(first: str, second: str, settings: Settings, as_json: bool) -> int:
    """Compare two versions by their code and by their value on every tree that both were judged on."""
    with wiring.open_store(settings) as store:
        one, other = (stored_version(named, store) for named in (first, second))
        judged = _both_judged(judgements(store, one), judgements(store, other))
        gated = [_Gated.of(row, one) for row in store.verdicts(one.number) if _is_about(row, one, other)]
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
    weight = Weight.TREE if judged is None else judged[0].run.plan.settings.weight
    means = [_mean(trees, side, weight) for side in ("first", "second")]
    gain = difference(*means)
    if as_json:
        document: dict[str, Any] = {"first": one.number, "second": other.number}
        document |= {"run": None if judged is None else judged[0].run.number}
        document |= {"mean": {"first": means[0], "second": means[1], "difference": gain}}
        say_json(document | {"diff": "\n".join(code), "trees": trees, "verdicts": [verdict.document for verdict in gated]})
        return 0
    say("\n".join(code) if code else "the code is the same")
    for verdict in gated[-1:]:
        _print_gated(verdict, one, other)
    if judged is None and not gated:
        say("\nno run and no verdict has judged both; `harness replay` compares them on trees of your choice")
    if judged is None:
        return 0
    head = ("tree", "split", f"v{one.number}", f"v{other.number}", "difference")
    rows = [[line["name"], line["split"].replace("_", "-"), *_cells(line["first"], line["second"])] for line in trees]
    rows.append(["mean", "", *_cells(*means)])
    run = judged[0].run
    judged_by = f"{run.plan.settings.objective} by tree, run {run.number}{rules.words(run.plan.settings)}"
    say(f"\n{judged_by}\n" + table(head, rows, left=("tree", "split")))
    return 0


@dataclass(frozen=True, slots=True)
class _Gated:
    """A verdict about both versions, its trees turned so that `first` is the version named first."""

    row: RecordedVerdict
    trees: list[dict[str, Any]]
    means: tuple[float | None, float | None]

    @classmethod
    def of(cls, row: RecordedVerdict, first: Version) -> Self:
        """Turn a verdict to a version."""
        verdict = row.verdict
        turned = row.candidate == first.number
        lines = []
        for tree in verdict.trees:
            values = (tree.candidate, tree.incumbent) if turned else (tree.incumbent, tree.candidate)
            line: dict[str, Any] = {"name": tree.name, "digest": tree.tree, "group": tree.group}
            lines.append(line | {"first": values[0], "second": values[1], "difference": difference(*values)})
        lines.sort(key=lambda line: -abs(line["difference"] or 0.0))
        means = (_mean(lines, side, verdict.settings.weight) for side in ("first", "second"))
        return cls(row, lines, (next(means), next(means)))

    @property
    def document(self) -> dict[str, Any]:
        """Return what is printed as JSON."""
        means = {"first": self.means[0], "second": self.means[1], "difference": difference(*self.means)}
        return {"verdict": self.row.number, "outcome": self.row.verdict.outcome, "mean": means, "trees": self.trees}


def _is_about(row: RecordedVerdict, one: Version, other: Version) -> bool:
    return {row.candidate, row.incumbent} == {one.number, other.number} and bool(row.verdict.trees)


def _print_gated(gated: _Gated, one: Version, other: Version) -> None:
    verdict = gated.row.verdict
    said = f"{verdict.settings.objective} by held-out tree, verdict {gated.row.number} ({verdict.outcome})"
    head = ("tree", "group", f"v{one.number}", f"v{other.number}", "difference")
    rows = [[line["name"], line["group"], *_cells(line["first"], line["second"])] for line in gated.trees]
    rows.append(["mean", "", *_cells(*gated.means)])
    say(f"\n{said}{rules.words(verdict.settings)}\n" + table(head, rows, left=("tree", "group")))


def _cells(first: float | None, second: float | None) -> list[str]:
    return [number(first), number(second), number(difference(first, second), signed=True)]


def _both_judged(one: Sequence[Judgement], other: Sequence[Judgement]) -> tuple[Judgement, Judgement] | None:
    """Return what the latest run found that judged both versions: two runs may differ in limits and weights."""
    of_other = {judgement.run.number: judgement for judgement in other}
    return next(((judgement, of_other[judgement.run.number]) for judgement in one if judgement.run.number in of_other), None)


def _mean(lines: Sequence[dict[str, Any]], side: str, weight: Weight) -> float | None:
    known = [(line["group"], line[side]) for line in lines if line["difference"] is not None]
    return mean(value for _, value in known) if weight is Weight.TREE else mean_over_groups(known)


def _differences(one: Judgement, other: Judgement) -> list[dict[str, Any]]:
    of_other = {result.tree: result for _, result in other.results}
    groups = groups_of((result for _, result in one.results), one.run.plan.settings.group_by)
    lines = []
    for split, result in one.results:
        against = of_other.get(result.tree)
        if against is None:
            continue
        values = result.figures.value, against.figures.value
        line: dict[str, Any] = {"name": result.name, "digest": result.tree, "system": result.system, "group": groups[result.tree]}
        lines.append(line | {"split": split.value, "first": values[0], "second": values[1], "difference": difference(*values)})
    return sorted(lines, key=lambda line: -abs(line["difference"] or 0.0))
