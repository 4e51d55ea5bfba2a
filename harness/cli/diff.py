"""`harness diff`: two versions, by their code and by their value on every tree that both were judged on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from harness import wiring
from harness.cli import rules
from harness.cli.judgements import judgements
from harness.cli.output import number, say, say_json, table
from harness.cli.policies import required_version
from harness.score import Weight, difference, groups_of, mean, mean_over_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.cli.judgements import Judgement
    from harness.config import Settings


def diff(first: str, second: str, settings: Settings, as_json: bool) -> int:
    """Compare two versions by their code and by their value on every tree that both were judged on."""
    with wiring.open_store(settings) as store:
        one, other = (store.version(required_version(named)) for named in (first, second))
        judged = _both_judged(judgements(store, one), judgements(store, other))
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
        say_json(document | {"diff": "\n".join(code), "trees": trees})
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
    rows.append(["mean", "", number(means[0]), number(means[1]), number(gain, signed=True)])
    run = judged[0].run
    judged_by = f"{run.plan.settings.objective} by tree, run {run.number}{rules.words(run.plan.settings)}"
    say(f"\n{judged_by}\n" + table(head, rows, left=("tree", "split")))
    return 0


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
