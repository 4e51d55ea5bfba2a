"""The benchmark of honesty decides as the gate does, and its nulls hold no gain."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.honesty import best_of_many, gained, swapped, swapped_by_group
from benchmarks.recorded import World
from benchmarks.rules import gate
from harness.gate.claims import gain
from harness.gate.spending import level
from harness.gate.verdict import Bounds, Look, Outcome


def world(trees: int) -> World:
    """Build a world of eight versions over trees in four groups, all versions equally good on average."""
    rng = np.random.default_rng(1)
    value, attempts = rng.normal(size=(8, trees)), rng.integers(1, 50, size=(8, trees)).astype(float)
    return World("built", np.arange(trees) * 4 // trees, value, value, attempts)


@pytest.mark.parametrize("trees", [20, 60])
@pytest.mark.parametrize("look", [1, 4])
@pytest.mark.parametrize("by_group", [False, True])
def test_short_cuts_change_no_answer(trees: int, look: int, by_group: bool) -> None:
    """Differences around the edge of what can be shown, where every test has its say: the gate's own part answers the same."""
    rng = np.random.default_rng(trees)
    groups = np.arange(trees) * 4 // trees
    answers = []
    for shift in np.linspace(0, 0.8, 25):
        apart = rng.normal(shift, 1, trees)
        grouped = [apart[groups == group].tolist() for group in range(4)]
        part = gain(grouped, Bounds(), Look(look, level(0.05, look), 0.0, 0.0), by_group=by_group)
        answers.append((gate(apart, groups, level(0.05, look), by_group=by_group), part.outcome is Outcome.PASS))

    assert all(ours == theirs for ours, theirs in answers)
    assert {True, False} == {ours for ours, _ in answers}


def test_what_is_worth_the_same_is_promoted_by_the_mean_half_of_the_time() -> None:
    """The coin is fair, for trees and for groups."""
    for trial in (swapped, swapped_by_group):
        rates = [trial(world(40), np.random.default_rng(seed)).best_mean for seed in range(400)]
        assert 0.42 < sum(rates) / len(rates) < 0.58


def test_the_best_of_many_is_a_fluke_that_held_out_trees_do_not_repeat() -> None:
    """Its mean is above the incumbent's nearly always, and the gate has no reason to promote it."""
    trials = [best_of_many(world(40), np.random.default_rng(seed)) for seed in range(100)]

    assert sum(trial.best_mean for trial in trials) > 75
    assert sum(trial.gate for trial in trials) <= 10


@pytest.mark.parametrize("proportional", [False, True])
def test_a_gain_is_found_the_larger_it_is(proportional: bool) -> None:
    found = [
        sum(gained(world(40), np.random.default_rng(seed), gain=gain, proportional=proportional).gate for seed in range(40))
        for gain in (0.0, 0.5, 2.0)
    ]

    assert found == sorted(found)
    assert found[0] <= 5
    assert found[2] == 40
