"""The Pareto view: what policies find against the attempts it takes them, and which of them are best at which price.

The value formula weighs both by a price that somebody chose, beta1. This view leaves the choice open, in two answers: which
policies another one beats on both counts, and which has the highest value at each price. A policy that is beaten may still have
the highest value at a low price, for the value also holds a bonus for few rounds, beta2, that no price of an attempt touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import InputError
from harness.score import refuse_mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.score import Evaluation, Figures

SWEEP = (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
"""Prices of an attempt from nothing to far more than it can bring on trees of a hundred attempts, the default amid them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One policy of the view, means over trees or groups as its settings weigh them.

    `dominated_by` names those that take no more attempts and find no less, and are better in one. `values` is the policy's mean
    value at each price of the sweep, `best_at` the prices at which no other policy's is higher.
    """

    name: str
    attempts: float
    quality: float
    dominated_by: tuple[str, ...]
    values: tuple[float, ...]
    best_at: tuple[float, ...]


def pareto(evaluations: Mapping[str, Evaluation], sweep: Sequence[float] = SWEEP) -> tuple[Point, ...]:
    """Return a point for each evaluation that has a value, fewest attempts first.

    A policy is not told beta1, so that one evaluation answers for every price; policies that take a price as a parameter stand
    in the view once for each. The objective of the settings takes no part: this is about quality and attempts.

    Raises:
        InputError: the evaluations were made under different settings or over different trees.
    """
    known = {name: evaluation for name, evaluation in evaluations.items() if evaluation.value is not None}
    refuse_incomparable(known)
    places = {name: _Place.of(evaluation) for name, evaluation in known.items()}
    values = {name: tuple(place.value(beta1) for beta1 in sweep) for name, place in places.items()}
    highest = [max(column) for column in zip(*values.values(), strict=True)]
    points = [
        Point(
            name,
            place.attempts,
            place.quality,
            tuple(other for other, rival in places.items() if rival.dominates(place)),
            values[name],
            tuple(beta1 for beta1, value, top in zip(sweep, values[name], highest, strict=True) if value == top),
        )
        for name, place in places.items()
    ]
    return tuple(sorted(points, key=lambda point: (point.attempts, -point.quality, point.name)))


@dataclass(frozen=True, slots=True)
class _Place:
    """Means of one policy; `bonus` is what beta2 adds to the value."""

    attempts: float
    quality: float
    bonus: float

    @classmethod
    def of(cls, evaluation: Evaluation) -> _Place:
        beta2 = evaluation.settings.weights.beta2

        def mean(figure: Callable[[Figures], float]) -> float:
            known = (result.figures for result in evaluation.results)
            return evaluation.mean([None if one.quality is None else figure(one) for one in known]) or 0.0

        return cls(mean(lambda one: one.n), evaluation.quality or 0.0, mean(lambda one: beta2 * one.n / max(1, one.k)))

    def value(self, beta1: float) -> float:
        return self.quality - beta1 * self.attempts + self.bonus

    def dominates(self, other: _Place) -> bool:
        no_worse = self.attempts <= other.attempts and self.quality >= other.quality
        return no_worse and (self.attempts < other.attempts or self.quality > other.quality)


def refuse_incomparable(evaluations: Mapping[str, Evaluation]) -> None:
    """Keep policies that were judged under different settings or over different trees out of one view.

    Raises:
        InputError: they were; the message names two of them.
    """
    names = list(evaluations)
    for name in names[1:]:
        first, other = evaluations[names[0]], evaluations[name]
        refuse_mixed(first.settings, other.settings)
        if sorted(result.tree for result in first.results) != sorted(result.tree for result in other.results):
            raise InputError(f"{names[0]} and {name} were judged on different trees; expected all on the same")
