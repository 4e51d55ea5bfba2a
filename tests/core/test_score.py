"""Value and the figures beside it, sentence by sentence (design.md, section 3)."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from builders import Scripted, tree

from harness.replay import Stop, replay
from harness.score import Evaluation, Figures, Normalize, Result, Settings, Weights, difference, figures, mean
from harness.tree import Attempt, Direction, Root, Tree
from sandbox.api import Fault, FaultKind, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

AS_IT_IS = Weights(0.0, 0.0, Normalize.NONE)
SHARE = Weights(0.0, 0.0, Normalize.TREE)


def judged(on: Tree, *batches: Sequence[str], weights: Weights = SHARE, **limits: Any) -> Figures:
    return figures(replay(on, Scripted(on, batches), Limits(**limits)), on, Settings(Limits(**limits), weights=weights))


def test_value_is_quality_less_attempts_plus_attempts_for_each_round() -> None:
    on = tree("root>a", "root>b", "a>c", root=0.0, scores={"a": 0.5, "b": 1.0, "c": 2.0})
    found = judged(on, ["root", "root"], ["a"], weights=Weights(0.1, 0.3, Normalize.NONE))
    assert (found.n, found.k, found.quality) == (3, 2, 2.0)
    assert found.value == 2.0 - 0.1 * 3 + 0.3 * 3 / 2


def test_replay_without_a_round_divides_by_one() -> None:
    found = judged(tree("root>a", root=1.0, scores={"a": 3.0}), weights=Weights())
    assert (found.value, found.n, found.k, found.area, found.off_support) == (0.0, 0, 0, 0.0, 0.0)


def test_default_weights_are_the_contracts() -> None:
    assert Weights() == Weights(0.001, 0.005, Normalize.TREE)
    assert Limits() == Limits(max_rounds=200, max_batch=8, max_attempts=None)


def test_best_counts_the_root_and_never_a_node_without_a_score() -> None:
    on = tree("root>a", "root>b", "root>c", root=0.5, scores={"a": None, "b": 0.25, "c": 9.0})
    assert judged(on, ["root", "root"], weights=AS_IT_IS).best == 0.5


def test_best_is_the_floor_where_nothing_revealed_has_a_score() -> None:
    """The root has no score either: the worst score recorded anywhere stands for it."""
    on = tree("root>a", "root>b", "root>c", root=None, scores={"a": None, "b": 3.0, "c": 2.0})
    found = judged(on, ["root"])
    assert (found.best, found.quality) == (2.0, 0.0)
    assert (found.attempts_to_best, found.rounds_to_best) == (0, 0)


def test_quality_is_the_share_of_the_span_from_floor_to_top() -> None:
    on = tree("root>a", "root>b", "root>c", root=1.0, scores={"a": 2.0, "b": -7.0, "c": 5.0})
    assert judged(on, ["root"]).quality == 0.25
    assert judged(on, ["root", "root", "root"]).quality == 1.0


def test_quality_is_one_where_the_tree_has_no_span() -> None:
    assert judged(tree("root>a", root=2.0, scores={"a": 2.0})).quality == 1.0
    assert judged(tree("root>a", root=2.0, scores={"a": 1.0})).quality == 1.0


def test_smaller_is_better_where_the_tree_says_so() -> None:
    attempts = (Attempt("a", None, 3.0), Attempt("b", None, 1.0), Attempt("c", None, 9.0))
    on = Tree("t", attempts, direction=Direction.MIN, root=Root(5.0))
    found = judged(on, ["root"])
    assert (found.best, found.quality) == (-3.0, 0.5)
    assert judged(on, ["root", "root"], weights=AS_IT_IS).quality == -1.0


def test_tree_without_a_single_score_has_no_value_and_is_left_out() -> None:
    on = tree("root>a", "root>b", root=None, scores={"a": None, "b": None})
    found = judged(on, ["root"])
    assert (found.value, found.quality, found.best, found.area, found.attempts_to_best) == (None,) * 5
    assert (found.n, found.k) == (1, 1)


def test_fault_is_no_number() -> None:
    found = judged(tree("root>a", "root>b", root=1.0), ["root"], ["?"])
    assert (found.value, found.quality, found.best) == (None, None, None)
    assert (found.n, found.k) == (1, 1)


def test_scores_at_the_ends_of_the_range_have_a_share_all_the_same() -> None:
    """The span from -1.7e308 to 1.7e308 is no float; the share of it is."""
    on = tree("root>a", "root>b", root=-1.7e308, scores={"a": 0.0, "b": 1.7e308})
    assert judged(on, ["root"]).quality == 0.5
    assert judged(on, ["root", "root"]).value == 1.0


def test_wasted_picks_and_their_share_tell_how_far_the_record_could_answer() -> None:
    on = tree("root>a", "root>b", "root>c", root=0.0)
    found = judged(on, ["root"], ["a", "root"], ["a", "b"], max_rounds=3)
    assert (found.n, found.wasted, found.off_support) == (2, 3, 0.6)


def test_dropped_picks_are_neither_wasted_nor_off_support() -> None:
    on = tree("root>a", "root>b", "root>c")
    found = judged(on, ["root", "root", "root"], max_attempts=1)
    assert (found.n, found.wasted, found.off_support) == (1, 0, 0.0)


def test_attempts_and_rounds_to_the_final_best_count_to_where_it_was_first_met() -> None:
    on = tree("root>a", "root>b", "a>c", "b>d", root=0.0, scores={"a": 1.0, "b": 5.0, "c": 5.0, "d": 2.0})
    found = judged(on, ["root"], ["root"], ["a", "b"])
    assert (found.attempts_to_best, found.rounds_to_best) == (2, 2)


def test_root_that_stays_the_best_took_no_attempt() -> None:
    found = judged(tree("root>a", root=1.0, scores={"a": 0.5}), ["root"])
    assert (found.attempts_to_best, found.rounds_to_best) == (0, 0)


def test_area_is_the_mean_quality_so_far_over_the_attempts() -> None:
    on = tree("root>a", "root>b", "root>c", "root>d", root=0.0, scores={"a": None, "b": 2.0, "c": 1.0, "d": 4.0})
    assert judged(on, ["root", "root", "root"]).area == (0.0 + 0.5 + 0.5) / 3
    assert judged(on, ["root", "root", "root"], weights=AS_IT_IS).area == (0.0 + 2.0 + 2.0) / 3


# Over trees


def evaluation(*trees: Tree, batches: Sequence[Sequence[str]] = (("root",),)) -> Evaluation:
    results = []
    for on in trees:
        trajectory = replay(on, Scripted(on, batches), Limits())
        results.append(Result(on.digest, on.name, on.system, trajectory, figures(trajectory, on, Settings(weights=SHARE))))
    return Evaluation("0" * 64, "none", Settings(weights=SHARE), tuple(results))


def test_evaluation_is_the_plain_mean_over_trees() -> None:
    half, whole = tree("root>a", "root>b", scores={"a": 1.0, "b": 2.0}), tree("root>a", scores={"a": 1.0})
    assert evaluation(half, whole, half).value == (0.5 + 1.0 + 0.5) / 3


def test_trees_without_a_score_are_left_out_of_the_mean() -> None:
    half, blank = tree("root>a", "root>b", scores={"a": 1.0, "b": 2.0}), tree("root>a", root=None, scores={"a": None})
    assert evaluation(half, blank).value == 0.5
    assert evaluation(blank).value is None


def test_one_fault_leaves_the_evaluation_without_a_value() -> None:
    good = evaluation(tree("root>a", scores={"a": 1.0}))
    fault = Fault(FaultKind.EXCEPTION, "boom")
    (result,) = good.results
    bad = replace(result, trajectory=replace(result.trajectory, stop=Stop.POLICY_ERROR, fault=fault))
    both = replace(good, results=(result, bad))
    assert (both.value, both.quality, both.fault) == (None, None, fault)


def test_mean_does_not_depend_on_the_order() -> None:
    values = [0.1, 1e16, 0.3, -1e16, None, 0.7]
    assert mean(values) == mean(reversed(values))
    assert mean([None]) is None
    assert math.isclose(mean(values) or 0.0, 1.1 / 5)


def test_figures_at_the_end_of_the_range_stay_finite() -> None:
    """The sum of some scores may be beyond a float; their mean is not, and JSON holds no infinity."""
    on = tree("root>a", "root>b", "a>c", root=-1.7e308, scores={"a": 1.7e308, "b": 1.7e308})
    rounds = (["root"], ["root"], ["a"])

    assert mean([1.7e308, 1.7e308, None]) == 1.7e308
    assert mean([-1.7e308, -1.7e308, 1.7e308]) == pytest.approx(-1.7e308 / 3)
    assert judged(on, *rounds).area == 1.0
    assert judged(on, *rounds, weights=AS_IT_IS).area == pytest.approx(1.7e308)
    assert difference(-1.7e308, 1.7e308) == sys.float_info.max
    assert (difference(0.25, 1.0), difference(None, 1.0), difference(1.0, None)) == (0.75, None, None)
