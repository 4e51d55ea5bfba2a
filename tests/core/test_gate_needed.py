"""The number of trees that a "cannot tell" asks for is one with which the gain is found about as often as said."""

from __future__ import annotations

import math
import random
from statistics import NormalDist, stdev

import pytest

from harness.gate.bootstrap import lower_bound
from harness.gate.needed import needed_trees, spread
from harness.gate.signflip import sign_flip


def shown(grouped: list[list[float]], level: float) -> bool:
    bound = lower_bound(grouped, level, 1_000, 0)
    every = [value for group in grouped for value in group]
    return bound is not None and bound > 0 and sign_flip(every, 1_000, 0).p <= level


def drawn(rng: random.Random, trees: int, size: int, between: float) -> list[list[float]]:
    """Draw trees in groups of this size (the last one smaller) from the truth: a gain of 0.1 with this spread between groups."""
    made = []
    for first in range(0, trees, size):
        common = rng.gauss(0.1, between)
        made.append([rng.gauss(common, 0.4) for _ in range(min(size, trees - first))])
    return made


def typical(groups: int, size: int, between: float) -> list[list[float]]:
    """Return the sample that shows what the truth makes of samples: the mean, the spread of groups' means and that of trees."""
    of_means = math.sqrt(between**2 + 0.4**2 / size) if groups > 1 else 0.0
    return [[0.1 + of_means * common + 0.4 * own for own in scores(size)] for common in scores(groups)]


def scores(count: int) -> list[float]:
    """Return this many normal scores of mean 0 and variance 1; a single one is 0."""
    raw = [NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)]
    return [score / stdev(raw) for score in raw] if count > 1 else raw


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size", "between"), [(1, 30, 0.0), (30, 1, 0.0), (6, 6, 0.0), (6, 6, 0.2)])
def test_with_as_many_trees_the_gain_is_found_about_as_often_as_said(groups: int, size: int, between: float) -> None:
    """A sample too small to tell names a number; of 200 samples with that many trees, four in five show the gain."""
    start, level = typical(groups, size, between), 0.03
    bound = lower_bound(start, level, 4_000, 0)
    assert bound is not None
    assert not shown(start, level)

    needed = needed_trees(start, bound, level, 0.8)

    assert needed is not None
    rng = random.Random(5)  # noqa: S311 - test data, no secret
    found = [shown(drawn(rng, needed, needed if groups == 1 else size, between), level) for _ in range(200)]
    assert 0.7 <= sum(found) / len(found) <= 0.95


def test_trees_that_are_alike_within_groups_say_less() -> None:
    """Six groups of six copies leave five free differences of thirty-five, and so seven times the variance."""
    alike = spread([[value] * 6 for value in scores(6)])

    assert alike.design_effect == pytest.approx(7)
    assert spread([scores(6)] * 6).design_effect == 1.0


def test_even_a_clear_gain_takes_as_many_trees_as_signs_need() -> None:
    """Four signs alike happen by chance once in sixteen; at a level of 0.03 six are the fewest."""
    assert needed_trees([[1.0, 1.0, 1.0, 1.0]], 1.0, 0.03, 0.8) == 6


def test_one_tree_tells_no_number() -> None:
    assert needed_trees([[1.0]], 1.0, 0.03, 0.8) is None
