"""The Pareto view: quality against attempts, and the prices at which each policy is best."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import Scripted, tree

from harness.errors import InputError
from harness.pareto import SWEEP, pareto
from harness.replay import Stop, replay
from harness.score import Evaluation, Objective, Result, Settings, Weight, Weights, figures
from sandbox.api import Fault, FaultKind

ON = tree("root>a", "root>b", "root>c", "root>d", scores={"a": 0.5, "b": 0.6, "c": 0.6, "d": 1.0})
OTHER = tree("root>x", scores={"x": 2.0})


def evaluation(*widths: int, settings: Settings | None = None) -> Evaluation:
    """Judge a policy that asks for so many attempts in each round."""
    settings = settings or Settings(weights=Weights(beta2=0.0))
    trajectory = replay(ON, Scripted(ON, [["root"] * width for width in widths]), settings.limits)
    worth = figures(trajectory, ON, settings)
    return Evaluation("0" * 64, "none", settings, (Result(ON.digest, ON.name, "one", trajectory, worth),))


FOUR = {"one": evaluation(1), "two": evaluation(2), "three": evaluation(3), "four": evaluation(4)}


def test_a_policy_that_another_beats_on_both_counts_is_dominated() -> None:
    points = {point.name: point for point in pareto(FOUR)}

    assert [(point.attempts, point.quality) for point in points.values()] == [(1.0, 0.5), (2.0, 0.6), (3.0, 0.6), (4.0, 1.0)]
    assert {name: point.dominated_by for name, point in points.items()} == {"one": (), "two": (), "three": ("two",), "four": ()}


def test_each_price_has_its_best() -> None:
    """The last two attempts of four bring 0.4: up to 0.5 / 3 an attempt they pay."""
    points = {point.name: point for point in pareto(FOUR, (0.0, 0.1, 0.5, 2.0))}

    assert {name: point.best_at for name, point in points.items()} == {
        "one": (0.5, 2.0),
        "two": (),
        "three": (),
        "four": (0.0, 0.1),
    }
    assert points["four"].values == pytest.approx((1.0, 0.6, -1.0, -7.0))


def test_a_dominated_policy_may_be_best_where_rounds_count_more_than_attempts() -> None:
    """Three attempts in one round find what two in two rounds do, for one attempt more and a larger bonus."""
    settings = Settings(weights=Weights(beta2=0.3))
    judged = {"slow": evaluation(1, 1, settings=settings), "wide": evaluation(3, settings=settings)}
    points = {point.name: point for point in pareto(judged, (0.0, 1.0))}

    assert points["wide"].dominated_by == ("slow",)
    assert {name: point.best_at for name, point in points.items()} == {"slow": (1.0,), "wide": (0.0,)}


def test_the_value_at_the_price_of_the_settings_is_the_value() -> None:
    settings = Settings(weights=Weights(0.01, 0.3))
    for widths in ((1,), (2, 1), (1, 1, 1)):
        judged = evaluation(*widths, settings=settings)
        (point,) = pareto({"it": judged}, (0.01,))
        assert point.values[0] == pytest.approx(judged.value)


def test_equal_points_do_not_dominate_each_other() -> None:
    assert [point.dominated_by for point in pareto({"a": evaluation(2), "b": evaluation(1, 1)})] == [(), ()]
    assert [point.best_at for point in pareto({"a": evaluation(2), "b": evaluation(1, 1)})] == [SWEEP, SWEEP]


def test_a_policy_that_faulted_has_no_point() -> None:
    (result,) = evaluation(1).results
    fault = replace(result.trajectory, stop=Stop.POLICY_ERROR, fault=Fault(FaultKind.EXCEPTION, "boom"))
    faulted = replace(evaluation(1), results=(replace(result, trajectory=fault),))

    assert [point.name for point in pareto({"bad": faulted, "good": evaluation(2)})] == ["good"]
    assert pareto({"bad": faulted}) == ()
    assert pareto({}) == ()


def test_means_are_over_groups_where_the_settings_say_so() -> None:
    settings = Settings(weights=Weights(beta2=0.0), weight=Weight.GROUP)
    four, one = (evaluation(width, settings=settings).results[0] for width in (4, 1))
    more = replace(one, tree=OTHER.digest, system="two")
    (point,) = pareto({"it": Evaluation("0" * 64, "none", settings, (four, four, four, more))})

    assert (point.attempts, point.quality) == (2.5, 0.75)


def test_what_was_judged_otherwise_does_not_stand_in_one_view() -> None:
    with pytest.raises(InputError, match="objective is value on one side and attainment on the other"):
        pareto({"a": evaluation(1, settings=Settings()), "b": evaluation(1, settings=Settings(objective=Objective.ATTAINMENT))})
    (result,) = evaluation(1).results
    with pytest.raises(InputError, match="a and b were judged on different trees"):
        pareto({"a": evaluation(1), "b": replace(evaluation(1), results=(replace(result, tree="1" * 64),))})
