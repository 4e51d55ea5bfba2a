"""The level is spent over the looks, and no tree ever spends more than alpha."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gate.spending import level


def test_the_levels_of_all_looks_together_are_alpha() -> None:
    """The first ten thousand spend all but a little of it."""
    assert math.fsum(level(0.05, look) for look in range(1, 10_001)) == pytest.approx(0.05, rel=1e-4)
    assert [round(level(0.05, look), 4) for look in (1, 2, 3, 30)] == [0.0304, 0.0076, 0.0034, 0.0]


@given(st.lists(st.sets(st.integers(0, 6), min_size=1), max_size=60), st.floats(0.001, 0.2))
def test_no_tree_spends_more_than_alpha(looks: list[set[int]], alpha: float) -> None:
    """Whatever trees each look takes: its number is one more than the earlier looks that share a tree with it."""
    spent = dict.fromkeys(range(7), 0.0)
    for place, trees in enumerate(looks):
        share = level(alpha, 1 + sum(bool(trees & earlier) for earlier in looks[:place]))
        for tree in trees:
            spent[tree] += share

    assert max(spent.values()) <= alpha


def test_there_is_no_look_before_the_first() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        level(0.05, 0)
