"""Objectives and weights: what a replay is judged by, and what counts the same in a mean."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from builders import Scripted, broom, tree
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.objective import OBJECTIVES
from harness.replay import Stop, replay
from harness.score import (
    Evaluation,
    GroupBy,
    Normalize,
    Objective,
    Result,
    Settings,
    Weight,
    Weights,
    figures,
    groups_of,
    mean_over_groups,
    refuse_mixed,
)
from sandbox.api import Fault, FaultKind, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.tree import Tree

CLIMB = tree("root>a", "root>b", "root>c", "root>d", root=0.0, scores={"a": 1.0, "b": 3.0, "c": 2.0, "d": 4.0})


def attained(on: Tree, *batches: Sequence[str], settings: Settings | None = None, **limits: Any) -> float | None:
    settings = replace(settings or Settings(), objective=Objective.ATTAINMENT, limits=Limits(**limits))
    return figures(replay(on, Scripted(on, batches), settings.limits), on, settings).value


def test_every_objective_has_its_judge() -> None:
    assert set(OBJECTIVES) == set(Objective)
    assert Settings().objective is Objective.VALUE


def test_attainment_is_the_area_under_best_so_far_over_the_attempts() -> None:
    """After a 1/4 of the span is reached, after b 3/4, c brings nothing, d the whole."""
    assert attained(CLIMB, ["root"] * 4) == (0.25 + 0.75 + 0.75 + 1.0) / 4


def test_attainment_stays_where_a_policy_stopped() -> None:
    """All attempts of the tree count, made or not: stopping after a lucky first is not rewarded."""
    assert attained(CLIMB, ["root"]) == (0.25 * 4) / 4
    assert attained(CLIMB, ["root", "root"]) == (0.25 + 0.75 * 3) / 4


def test_attainment_counts_the_attempts_that_a_limit_allows() -> None:
    assert attained(CLIMB, ["root"] * 2, max_attempts=2) == (0.25 + 0.75) / 2
    assert attained(CLIMB, ["root"] * 4, max_attempts=9) == attained(CLIMB, ["root"] * 4)
    assert attained(CLIMB, max_attempts=0) == 0.0


def test_attainment_does_not_ask_for_weights_or_rounds() -> None:
    heavy = Settings(weights=Weights(5.0, 7.0, Normalize.NONE))
    in_rounds = attained(CLIMB, ["root"], ["root"], ["root"], ["root"], settings=heavy)
    assert in_rounds == attained(CLIMB, ["root"] * 4)


def test_attainment_of_nothing_found_is_the_start() -> None:
    assert attained(CLIMB) == 0.0
    assert attained(tree("root>a", root=3.0, scores={"a": 1.0})) == 1.0
    assert attained(tree(root=3.0)) == 1.0
    assert attained(tree("root>a", root=None, scores={"a": None})) is None


def test_a_fault_has_no_attainment() -> None:
    assert attained(CLIMB, ["root"], ["?"]) is None


@given(st.integers(0, 2**32), st.lists(st.integers(1, 8), max_size=30), st.none() | st.integers(0, 40))
def test_attainment_is_a_share_and_never_below_that_of_a_shorter_replay(seed: int, widths: list[int], most: int | None) -> None:
    on = broom(seed, 6, 4)
    batches = [["root"] * width for width in widths]

    values = [attained(on, *batches[:end], max_attempts=most) for end in range(len(batches) + 1)]

    assert all(value is not None and 0.0 <= value <= 1.0 for value in values)
    assert values == sorted(values, key=lambda value: value or 0.0)


def test_the_other_figures_are_the_same_under_every_objective() -> None:
    found = [
        figures(replay(CLIMB, Scripted(CLIMB, [["root"] * 3]), Limits()), CLIMB, Settings(objective=objective))
        for objective in Objective
    ]
    assert len({replace(one, value=None) for one in found}) == 1
    assert len({one.value for one in found}) == len(Objective)


# Means


def result(name: str, system: str, task: str, value: float | None) -> Result:
    on = tree("root>a", root=0.0, scores={"a": 1.0})
    settings = Settings(weights=Weights(0.0, 0.0))
    trajectory = replay(on, Scripted(on, [["root"]]), Limits())
    worth = replace(figures(trajectory, on, settings), value=value, quality=value)
    return Result(name, name, system, trajectory, worth, task=task)


MIXED = (
    result("t1", "one", "x", 1.0),
    result("t2", "one", "y", 0.0),
    result("t3", "one", "x", 0.5),
    result("t4", "two", "x", 0.25),
)


def test_trees_are_grouped_by_source_where_there_are_several_and_else_by_task() -> None:
    assert groups_of(MIXED, GroupBy.AUTO) == {"t1": "one", "t2": "one", "t3": "one", "t4": "two"}
    assert groups_of(MIXED[:3], GroupBy.AUTO) == {"t1": "x", "t2": "y", "t3": "x"}
    assert groups_of(MIXED, GroupBy.TASK) == {"t1": "x", "t2": "y", "t3": "x", "t4": "x"}
    assert groups_of(MIXED[:1], GroupBy.SOURCE) == {"t1": "one"}
    assert groups_of((), GroupBy.AUTO) == {}


def test_groups_weigh_the_same_however_many_trees_they_hold() -> None:
    by_tree = Evaluation("0" * 64, "none", Settings(), MIXED)
    by_group = replace(by_tree, settings=Settings(weight=Weight.GROUP))
    by_task = replace(by_tree, settings=Settings(weight=Weight.GROUP, group_by=GroupBy.TASK))

    assert (by_tree.value, by_tree.quality) == (1.75 / 4, 1.75 / 4)
    assert (by_group.value, by_group.quality) == ((0.5 + 0.25) / 2,) * 2
    assert by_task.value == ((1.0 + 0.5 + 0.25) / 3 + 0.0) / 2


def test_a_group_without_a_value_takes_no_part_in_the_mean() -> None:
    blank = result("t5", "three", "z", None)
    settings = Settings(weight=Weight.GROUP)
    assert Evaluation("0" * 64, "none", settings, (*MIXED, blank)).value == (0.5 + 0.25) / 2
    assert Evaluation("0" * 64, "none", settings, (blank,)).value is None
    assert mean_over_groups([]) is None


def test_one_fault_leaves_the_mean_over_groups_without_a_value() -> None:
    fault = Fault(FaultKind.EXCEPTION, "boom")
    broken = replace(MIXED[0], trajectory=replace(MIXED[0].trajectory, stop=Stop.POLICY_ERROR, fault=fault))
    assert Evaluation("0" * 64, "none", Settings(weight=Weight.GROUP), (broken, *MIXED[1:])).value is None


def test_the_mean_over_groups_does_not_depend_on_the_order() -> None:
    valued = [("a", 0.1), ("b", 0.2), ("a", 0.7), ("c", 1e16), ("c", -1e16)]
    assert len({mean_over_groups(order) for order in permutations(valued)}) == 1


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Settings(objective=Objective.ATTAINMENT), "objective is value on one side and attainment on the other"),
        (Settings(weight=Weight.GROUP), "weight is tree on one side and group on the other"),
        (Settings(seed=4), "seed is 0 on one side and 4 on the other"),
        (Settings(weights=Weights(beta1=0.5)), "beta1=0.5"),
    ],
)
def test_figures_of_different_settings_are_never_compared(other: Settings, words: str) -> None:
    refuse_mixed(Settings(), Settings())
    with pytest.raises(InputError, match=words):
        refuse_mixed(Settings(), other)
