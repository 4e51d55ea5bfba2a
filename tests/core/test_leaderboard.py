"""Leaderboards: means with intervals, every pair, curves, and nothing compared that was not judged alike."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import Scripted, broom, judged_in_process, tree

from harness.errors import InputError
from harness.leaderboard import Interval, leaderboard
from harness.policy import Candidate, Origin
from harness.propose import templates
from harness.replay import Stop, replay
from harness.score import BestSoFar, Evaluation, Objective, Result, Settings, Weight, best_so_far, difference, figures
from sandbox.api import Fault, FaultKind

if TYPE_CHECKING:
    from harness.leaderboard import Leaderboard
    from harness.tree import Tree

TREES = [broom(seed, 12, 9) for seed in range(10)]
NAMES = ("greedy", "parallel_refine", "round_robin")


def evaluation(name: str, trees: list[Tree], settings: Settings | None = None) -> Evaluation:
    """Judge a template at its defaults."""
    template = next(one for one in templates.load() if one.name == name)
    return judged_in_process(
        Candidate(templates.render(template, templates.defaults(template)), Origin.TEMPLATE), trees, settings
    )


def climbs(evaluations: dict[str, Evaluation], trees: list[Tree]) -> dict[str, dict[str, BestSoFar]]:
    """Return how each climbed on each tree."""
    by_digest = {one.digest: one for one in trees}
    return {
        name: {result.tree: best_so_far(result.trajectory, by_digest[result.tree]) for result in judged.results}
        for name, judged in evaluations.items()
    }


def board_of(evaluations: dict[str, Evaluation], trees: list[Tree]) -> Leaderboard:
    """Return the leaderboard of these evaluations."""
    return leaderboard("brooms", evaluations, climbs(evaluations, trees), resamples=1000, seed=0)


@pytest.fixture(scope="module")
def evaluations() -> dict[str, Evaluation]:
    """Return three policies over ten trees of two tasks."""
    return {name: evaluation(name, TREES) for name in NAMES}


@pytest.fixture(scope="module")
def board(evaluations: dict[str, Evaluation]) -> Leaderboard:
    """Return the leaderboard of three policies."""
    return board_of(evaluations, TREES)


def test_the_best_stands_first_and_every_mean_is_the_evaluations_own(
    board: Leaderboard, evaluations: dict[str, Evaluation]
) -> None:
    values = [standing.value for standing in board.standings]

    assert values == sorted((one.value for one in evaluations.values()), reverse=True, key=lambda value: value or 0.0)
    for standing in board.standings:
        judged = evaluations[standing.name]
        assert (standing.value, standing.quality, standing.policy) == (judged.value, judged.quality, judged.policy)
        assert standing.attempts == pytest.approx(math.fsum(one.figures.n for one in judged.results) / len(TREES))


def test_equal_values_share_a_rank(evaluations: dict[str, Evaluation]) -> None:
    made = {"a": evaluations["greedy"], "b": evaluations["greedy"], "c": evaluations["round_robin"]}

    ranks = {standing.name: standing.rank for standing in board_of(made, TREES).standings}

    assert ranks["a"] == ranks["b"] != ranks["c"]


def test_an_interval_holds_its_mean(board: Leaderboard) -> None:
    for standing in board.standings:
        assert standing.interval is not None
        assert standing.value is not None
        assert standing.interval.low < standing.value < standing.interval.high


def test_the_order_of_trees_changes_nothing(board: Leaderboard, evaluations: dict[str, Evaluation]) -> None:
    turned = {name: replace(judged, results=judged.results[::-1]) for name, judged in evaluations.items()}

    assert board_of(turned, TREES) == board


def test_every_two_policies_are_compared_tree_by_tree(board: Leaderboard, evaluations: dict[str, Evaluation]) -> None:
    assert len(board.pairings) == 3
    for pairing in board.pairings:
        ours, theirs = evaluations[pairing.first], evaluations[pairing.second]
        apart = [
            difference(other.figures.value, one.figures.value) or 0.0
            for one, other in zip(ours.results, theirs.results, strict=True)
        ]
        assert pairing.difference == pytest.approx(math.fsum(apart) / len(apart))
        assert (pairing.wins, pairing.losses) == (sum(one > 0 for one in apart), sum(one < 0 for one in apart))
        assert pairing.wins + pairing.ties + pairing.losses == pairing.trees == len(TREES)


def test_a_policy_against_itself_differs_by_nothing_and_p_is_one(evaluations: dict[str, Evaluation]) -> None:
    (pairing,) = board_of({"a": evaluations["greedy"], "b": evaluations["greedy"]}, TREES).pairings

    assert (pairing.difference, pairing.p, pairing.ties) == (0.0, 1.0, len(TREES))


def test_p_is_two_sided_and_counts_every_way_of_flipping_few_signs() -> None:
    """One is better on each of three trees: 2 of the 8 ways are as far from zero."""
    trees = [tree("root>a", "root>b", scores={"a": 0.5 + place / 10, "b": 1.0}) for place in range(3)]
    made = {}
    for name, script in (("one", [["root"]]), ("two", [["root"], ["root"]])):
        results = []
        for on in trees:
            trajectory = replay(on, Scripted(on, script), Settings().limits)
            results.append(Result(on.digest, on.name, on.system, trajectory, figures(trajectory, on, Settings())))
        made[name] = Evaluation("0" * 64, "none", Settings(), tuple(results))

    (pairing,) = board_of(made, trees).pairings

    assert (pairing.first, pairing.p, pairing.wins) == ("two", 0.25, 3)


def test_a_curve_begins_at_the_floor_never_falls_and_ends_at_the_quality(board: Leaderboard) -> None:
    qualities = {standing.name: standing.quality for standing in board.standings}
    assert {curve.name for curve in board.curves} == set(NAMES)
    for curve in board.curves:
        shares = [point.share for point in curve.points]
        assert (curve.points[0].attempts, shares[0]) == (0, 0.0)
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(qualities[curve.name])
        assert all(point.interval is not None and point.interval.low <= point.interval.high for point in curve.points)


def test_best_so_far_is_where_it_was_at_the_last_new_best() -> None:
    on = tree("root>a", "root>b", "root>c", scores={"a": 0.5, "b": 0.2, "c": 1.0})
    trajectory = replay(on, Scripted(on, [["root"], ["root"], ["root"]]), Settings().limits)

    climb = best_so_far(trajectory, on)

    assert [climb.share(attempts) for attempts in range(5)] == [0.0, 0.5, 0.5, 1.0, 1.0]


def test_groups_have_their_own_means(board: Leaderboard, evaluations: dict[str, Evaluation]) -> None:
    assert board.groups == ("task-0", "task-1")
    for standing in board.standings:
        for group in standing.groups:
            inside = [one.figures.value or 0.0 for one in evaluations[standing.name].results if one.task == group.group]
            assert group.trees == len(inside) == 5
            assert group.value == pytest.approx(math.fsum(inside) / 5)


def test_groups_weigh_alike_where_the_settings_say_so() -> None:
    """Nine trees of one task do not outvote the one of the other."""
    trees = [*[one for one in (broom(seed, 4, 6) for seed in range(18)) if one.task == "task-0"], broom(1, 4, 6)]
    made = {"it": evaluation("greedy", trees, Settings(weight=Weight.GROUP))}

    (standing,) = board_of(made, trees).standings

    assert standing.value == pytest.approx(math.fsum(group.value or 0.0 for group in standing.groups) / 2)


def faulted(judged: Evaluation) -> Evaluation:
    """Return the evaluation with a fault on its first tree."""
    first, *others = judged.results
    fault = Fault(FaultKind.EXCEPTION, "boom", round=1)
    trajectory = replace(first.trajectory, stop=Stop.POLICY_ERROR, fault=fault)
    bad = replace(first, trajectory=trajectory, figures=figures(trajectory, TREES[0], judged.settings))
    return replace(judged, results=(bad, *others))


def test_a_policy_that_faulted_stands_last_and_is_compared_with_none(evaluations: dict[str, Evaluation]) -> None:
    made = {"bad": faulted(evaluations["greedy"]), "good": evaluations["round_robin"]}

    board = board_of(made, TREES)

    assert [(one.name, one.rank, one.value, one.faults) for one in board.standings][1] == ("bad", None, None, 1)
    assert board.pairings == ()
    assert [curve.name for curve in board.curves] == [point.name for point in board.prices] == ["good"]


def test_where_all_faulted_there_is_a_leaderboard_without_values(evaluations: dict[str, Evaluation]) -> None:
    board = board_of({"bad": faulted(evaluations["greedy"])}, TREES)

    assert [(one.rank, one.faults) for one in board.standings] == [(None, 1)]
    assert (board.pairings, board.curves, board.prices) == ((), (), ())


def test_a_tree_without_a_score_is_named_and_in_no_mean() -> None:
    unscored = replace(tree("root>a", root=None, scores={"a": None}), name="unscored", task="task-0")
    with_it, without = [*TREES, unscored], TREES

    board, plain = (board_of({"it": evaluation("greedy", trees)}, trees) for trees in (with_it, without))

    assert board.left_out == ("unscored",)
    assert board.standings == plain.standings
    assert (board.trees, plain.trees) == (11, 10)


def test_what_was_judged_otherwise_is_on_no_leaderboard(evaluations: dict[str, Evaluation]) -> None:
    greedy = evaluations["greedy"]
    other = evaluation("greedy", TREES, Settings(objective=Objective.ATTAINMENT))
    with pytest.raises(InputError, match="objective is value on one side and attainment on the other"):
        board_of({"a": greedy, "b": other}, TREES)
    with pytest.raises(InputError, match="a and b were judged on different trees"):
        board_of({"a": greedy, "b": replace(greedy, results=greedy.results[1:])}, TREES)


def test_a_single_tree_has_no_interval() -> None:
    """An interval of no width would claim to know what one tree cannot show."""
    board = board_of({name: evaluation(name, TREES[:1]) for name in ("greedy", "ucb")}, TREES[:1])

    assert [standing.value is not None for standing in board.standings] == [True, True]
    assert [standing.interval for standing in board.standings] == [None, None]
    assert [pairing.interval for pairing in board.pairings] == [None]


def test_where_all_trees_say_the_same_the_interval_is_that_point() -> None:
    """The grid on which draws are made would move it by 1e-13, which a picture could magnify."""
    made = {"it": evaluation("greedy", [replace(tree("root>a", scores={"a": 1.0}), name=name) for name in "abc"])}
    results = made["it"].results
    (standing,) = leaderboard(
        "alike", made, {"it": {one.tree: BestSoFar(1, ((0, 0.0), (1, 1.0))) for one in results}}, resamples=1000, seed=0
    ).standings

    assert standing.value is not None
    assert standing.interval == Interval(standing.value, standing.value)
