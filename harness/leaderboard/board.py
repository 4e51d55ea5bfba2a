"""Make a leaderboard of evaluations."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from harness.gate.claims import contributions
from harness.gate.signflip import sign_flip
from harness.leaderboard.curves import curves
from harness.leaderboard.means import by_group, interval
from harness.leaderboard.records import GroupStanding, Interval, Leaderboard, Pairing, Standing
from harness.pareto import pareto, refuse_incomparable
from harness.score import Weight, difference, groups_of
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.score import BestSoFar, Evaluation, Figures


class _Draws(NamedTuple):
    """What fixes the draws behind intervals and p-values."""

    resamples: int
    seed: int


def leaderboard(
    name: str,
    evaluations: Mapping[str, Evaluation],
    climbs: Mapping[str, Mapping[str, BestSoFar]],
    *,
    resamples: int,
    seed: int,
) -> Leaderboard:
    """Return the leaderboard of these policies by name, over the set of trees `name`.

    `climbs` holds for each policy its best-so-far on each tree, by digest.

    Raises:
        InputError: the evaluations were made under different settings or over different trees.
    """
    refuse_incomparable(evaluations)
    draws = _Draws(resamples, seed)
    first = next(iter(evaluations.values()))
    groups = groups_of(first.results, first.settings.group_by)
    known = {one: evaluation for one, evaluation in evaluations.items() if evaluation.value is not None}
    order = sorted(evaluations, key=lambda one: (one not in known, -(evaluations[one].value or 0.0), one))
    best_first = {one: known[one] for one in order if one in known}
    scored = next(iter(best_first.values()), None)
    without = () if scored is None else tuple(result.name for result in scored.results if result.figures.value is None)
    return Leaderboard(
        name=name,
        trees=len(first.results),
        digest=set_digest(result.tree for result in first.results),
        settings=first.settings,
        groups=tuple(sorted(set(groups.values()))),
        left_out=without,
        standings=tuple(_standing(one, evaluations, groups, draws) for one in order),
        pairings=tuple(_pairings(best_first, groups, draws)),
        curves=curves(best_first, climbs, seed),
        prices=pareto(best_first),
    )


def _standing(name: str, evaluations: Mapping[str, Evaluation], groups: Mapping[str, str], draws: _Draws) -> Standing:
    evaluation = evaluations[name]
    value = evaluation.value
    above = [one.value for one in evaluations.values() if value is not None and one.value is not None and one.value > value]

    def mean(figure: Callable[[Figures], float | None]) -> float | None:
        # A tree without a score has attempts, and no value that these could be held against.
        return evaluation.mean([figure(one.figures) if one.figures.value is not None else None for one in evaluation.results])

    def between(figure: Callable[[Figures], float | None]) -> Interval | None:
        return _interval(evaluation, groups, figure, draws)

    decided = sum(result.figures.k for result in evaluation.results)
    return Standing(
        rank=None if value is None else 1 + len(above),
        name=name,
        policy=evaluation.policy,
        value=value,
        interval=between(lambda one: one.value),
        quality=evaluation.quality,
        quality_interval=between(lambda one: one.quality),
        attempts=mean(lambda one: one.n),
        attempts_interval=between(lambda one: one.n),
        rounds=mean(lambda one: one.k),
        attempts_to_best=mean(lambda one: one.attempts_to_best),
        rounds_to_best=mean(lambda one: one.rounds_to_best),
        wasted=mean(lambda one: one.wasted),
        off_support=mean(lambda one: one.off_support),
        faults=sum(result.trajectory.fault is not None for result in evaluation.results),
        decision_s=math.fsum(result.decide_s for result in evaluation.results) / decided if decided else None,
        groups=tuple(_of_groups(evaluation, groups, draws)),
    )


def _of_groups(evaluation: Evaluation, groups: Mapping[str, str], draws: _Draws) -> Iterator[GroupStanding]:
    plain = replace(evaluation.settings, weight=Weight.TREE)
    for group in sorted(set(groups.values())):
        inside = tuple(result for result in evaluation.results if groups[result.tree] == group)
        of = replace(evaluation, settings=plain, results=inside)
        scored = sum(result.figures.value is not None for result in inside)
        yield GroupStanding(group, scored, of.value, _interval(of, groups, lambda one: one.value, draws), of.quality)


def _interval(
    evaluation: Evaluation, groups: Mapping[str, str], figure: Callable[[Figures], float | None], draws: _Draws
) -> Interval | None:
    if evaluation.fault:
        return None
    figures = {result.tree: figure(result.figures) if result.figures.value is not None else None for result in evaluation.results}
    weigh_groups = evaluation.settings.weight is Weight.GROUP
    return interval(by_group(evaluation.results, groups, figures), draws.resamples, draws.seed, weigh_groups=weigh_groups)


def _pairings(evaluations: Mapping[str, Evaluation], groups: Mapping[str, str], draws: _Draws) -> Iterator[Pairing]:
    for first, second in combinations(evaluations, 2):
        ours, theirs = evaluations[first], evaluations[second]
        values = {result.tree: result.figures.value for result in theirs.results}
        apart = {result.tree: difference(values[result.tree], result.figures.value) for result in ours.results}
        grouped = by_group(ours.results, groups, apart)
        weigh_groups = ours.settings.weight is Weight.GROUP
        known = [value for group in grouped for value in group]
        yield Pairing(
            first=first,
            second=second,
            trees=len(known),
            difference=ours.mean([apart[result.tree] for result in ours.results]) or 0.0,
            interval=interval(grouped, draws.resamples, draws.seed, weigh_groups=weigh_groups),
            p=_two_sided(contributions(grouped, by_group=weigh_groups), draws),
            wins=sum(value > 0 for value in known),
            ties=sum(value == 0 for value in known),
            losses=sum(value < 0 for value in known),
        )


def _two_sided(differences: list[float], draws: _Draws) -> float:
    sides = (differences, [-value for value in differences])
    return min(1.0, 2 * min(sign_flip(side, draws.resamples, draws.seed).p for side in sides))
