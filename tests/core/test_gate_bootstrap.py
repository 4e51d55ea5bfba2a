"""The two-stage bootstrap: its bound, what groups do to it, and that it is the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.gate.bootstrap import lower_bound

SPREAD = [0.3, -0.1, 0.25, 0.4, 0.05, 0.2, -0.05, 0.35, 0.15, 0.1, 0.5, 0.0]
ORDINARY = settings(deadline=None, max_examples=40)
grouped = st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=6), min_size=1, max_size=5)


def bound(values: list[list[float]], level: float = 0.05, resamples: int = 4_000, **how: object) -> float:
    found = lower_bound(values, level, resamples, 0, **how)
    assert found is not None
    return found


def test_it_is_scipys_bootstrap_where_there_is_one_group() -> None:
    """The percentile bootstrap of the mean, as an independent implementation finds it."""
    theirs = stats.bootstrap(
        (np.array(SPREAD),), np.mean, confidence_level=0.9, method="percentile", n_resamples=100_000, random_state=1
    )

    assert bound([SPREAD], 0.05, 100_000) == pytest.approx(theirs.confidence_interval.low, abs=0.002)


def test_a_gain_that_rests_on_one_group_is_not_shown() -> None:
    """The same differences are a clear gain in one group, and none where all of it comes from one of four."""
    alone, spread_out = [[0.4] * 4 + [0.0] * 12], [[0.4, 0.0, 0.0, 0.0]] * 4
    concentrated = [[0.4] * 4, [0.0] * 4, [0.0] * 4, [0.0] * 4]

    assert bound(alone) > 0
    assert bound(spread_out) > 0
    assert bound(concentrated) == 0


def test_trees_within_a_drawn_group_are_drawn_as_well() -> None:
    """Two groups that agree in their mean still leave the spread of their trees."""
    assert bound([[0.0, 1.0], [0.0, 1.0]]) < 0.25


def test_a_group_counts_once_where_groups_are_weighed() -> None:
    """Ninety trees of one source do not outvote the others."""
    values = [[1.0] * 90, [0.0], [0.0], [0.0]]

    assert lower_bound(values, 0.5, 4_000, 0, by_group=True) == pytest.approx(0.25)
    assert bound(values, 0.5) > 0.9


@ORDINARY
@given(grouped, st.booleans())
def test_no_bound_is_outside_the_values(values: list[list[float]], by_group: bool) -> None:
    every = [value for group in values for value in group]

    assert min(every) - 1e-9 <= bound(values, resamples=200, by_group=by_group) <= max(every) + 1e-9


@ORDINARY
@given(grouped, st.booleans(), st.integers(1, 50))
def test_no_digit_depends_on_how_many_draws_are_held_at_a_time(values: list[list[float]], by_group: bool, block: int) -> None:
    at_once = lower_bound(values, 0.05, 300, 7, by_group=by_group)

    assert lower_bound(values, 0.05, 300, 7, by_group=by_group, block=block) == at_once


def test_it_is_this_number_to_the_digit_on_every_machine() -> None:
    """Another machine, another numpy: the same words are drawn and the same integers summed."""
    assert bound([SPREAD[:5], SPREAD[5:7], SPREAD[7:]], 0.03).hex() == "0x1.f49f49f4a38e4p-5"


def test_a_level_that_so_few_resamples_cannot_reach_has_no_bound() -> None:
    """With 100 resamples there is no 1-in-1000 quantile."""
    assert lower_bound([SPREAD], 0.001, 100, 0) is None


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_differences_of_any_size_have_a_bound(scale: float) -> None:
    """Values of a raw objective may be of any magnitude."""
    assert bound([[scale * value for value in SPREAD]]) == pytest.approx(scale * bound([SPREAD]))
