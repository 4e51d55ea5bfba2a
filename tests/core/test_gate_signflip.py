"""The sign-flip test: its p-value, that it keeps its level, and that it is the same on every machine."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.gate.signflip import MOST_COUNTED, sign_flip

ORDINARY = settings(deadline=None, max_examples=60)


def values(count: int, shift: float) -> list[float]:
    rng = random.Random(count)  # noqa: S311 - test data, no secret
    return [rng.gauss(shift, 1) for _ in range(count)]


@ORDINARY
@given(st.lists(st.integers(-5, 5), max_size=9))
def test_few_differences_are_counted_in_all_ways(differences: list[int]) -> None:
    """Counted by hand: every way of flipping, ties included."""
    ways = [sum(sign * d for sign, d in zip(signs, differences, strict=True)) for signs in _signs(len(differences))]
    expected = sum(way >= sum(differences) for way in ways) / len(ways)

    assert sign_flip(list(map(float, differences)), 100, 0).p == expected


def _signs(count: int) -> list[tuple[int, ...]]:
    return list(itertools.product((1, -1), repeat=count))


def test_ties_that_rounding_breaks_are_ties() -> None:
    """0.1 + 0.2 is not 0.3 in floats: one of the four ways must not be lost for it."""
    assert sign_flip([0.1 + 0.2, -0.3], 100, 0).p == sign_flip([0.3, -0.3], 100, 0).p == 0.75


def test_it_is_scipys_permutation_test() -> None:
    """Exact for few, within what chance allows for many."""
    for count, tolerance in ((12, 1e-12), (60, 0.004)):
        theirs = stats.permutation_test(
            (np.array(values(count, 0.2)),),
            np.mean,
            permutation_type="samples",
            alternative="greater",
            n_resamples=50_000 if count > 12 else np.inf,
            random_state=1,
        )
        assert sign_flip(values(count, 0.2), 100_000, 0).p == pytest.approx(theirs.pvalue, abs=tolerance)


def test_drawn_ways_say_what_counted_ones_do() -> None:
    """One more difference, too small to matter, takes the count over to draws."""
    few = values(MOST_COUNTED, 0.25)
    counted, drawn = sign_flip(few, 100_000, 0), sign_flip([*few, 1e-9], 100_000, 0)

    assert (counted.drawn, drawn.drawn) == (False, True)
    assert drawn.p == pytest.approx(counted.p, abs=0.004)


def test_differences_of_zero_say_nothing() -> None:
    """Trees on which both do the same make no gain more certain."""
    assert sign_flip([0.1, 0.2, 0.3, 0.4], 100, 0) == sign_flip([0.1, 0.2, 0.3, 0.4, *[0.0] * 50], 100, 0)
    assert sign_flip([], 100, 0).p == 1.0


def test_it_keeps_its_level_when_labels_are_swapped_at_random() -> None:
    """Among all 1,024 ways of labelling ten skewed differences, at most a twentieth have p <= 0.05."""
    sizes = [2.0 ** (place / 3) for place in range(10)]
    below = [sign_flip([s * size for s, size in zip(signs, sizes, strict=True)], 100, 0).p <= 0.05 for signs in _signs(10)]

    assert 0.04 < sum(below) / len(below) <= 0.05


@ORDINARY
@given(st.integers(MOST_COUNTED + 1, 200), st.integers(1, 4_000))
def test_no_digit_depends_on_how_many_draws_are_held_at_a_time(count: int, block: int) -> None:
    assert sign_flip(values(count, 0.1), 500, 3, block=block) == sign_flip(values(count, 0.1), 500, 3)


def test_it_is_this_number_to_the_digit_on_every_machine() -> None:
    assert sign_flip(values(100, 0.1), 10_000, 0).p.hex() == "0x1.5e12126103a91p-1"


@ORDINARY
@given(st.lists(st.floats(max_value=0, min_value=-1), min_size=1, max_size=60))
def test_losses_everywhere_are_no_gain(differences: list[float]) -> None:
    assert sign_flip(differences, 1_000, 0).p == pytest.approx(1.0)
