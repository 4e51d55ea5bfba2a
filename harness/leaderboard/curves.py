"""Best-so-far curves: how much of what the trees hold a policy has found after so many attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.leaderboard.means import by_group, interval
from harness.leaderboard.records import Curve, CurvePoint
from harness.score import Weight, groups_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.score import BestSoFar, Evaluation

POINTS = 60
"""A curve has no more points than people can see; bands are drawn at these."""
RESAMPLES = 1000
"""Of each point's band: enough for a picture."""


def curves(evaluations: Mapping[str, Evaluation], climbs: Mapping[str, Mapping[str, BestSoFar]], seed: int) -> tuple[Curve, ...]:
    """Return the curve of each policy, all over the same attempts; `climbs` holds those of each policy by tree."""
    longest = max((result.figures.n for evaluation in evaluations.values() for result in evaluation.results), default=0)
    at = sorted({round(step * longest / POINTS) for step in range(POINTS + 1)})
    return tuple(
        Curve(name, evaluation.mean([_attempts(climbs[name][result.tree]) for result in evaluation.results]) or 0.0, points)
        for name, evaluation in evaluations.items()
        if (points := tuple(_points(evaluation, climbs[name], at, seed)))
    )


def _attempts(climb: BestSoFar) -> int | None:
    return climb.attempts if climb.steps else None


def _points(evaluation: Evaluation, climbs: Mapping[str, BestSoFar], at: list[int], seed: int) -> Iterator[CurvePoint]:
    settings, results = evaluation.settings, evaluation.results
    groups = groups_of(results, settings.group_by)
    for attempts in at:
        shares = {result.tree: climbs[result.tree].share(attempts) for result in results}
        mean = evaluation.mean([shares[result.tree] for result in results])
        if mean is not None:
            grouped = by_group(results, groups, shares)
            yield CurvePoint(attempts, mean, interval(grouped, RESAMPLES, seed, weigh_groups=settings.weight is Weight.GROUP))
