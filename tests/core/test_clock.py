"""A simulated clock over recorded seconds: exact on what can be counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Timed, timed
from harness.replay import Round, Stop, Trajectory
from harness.tree import Attempt, Direction, Root, Tree


def tree(*seconds: float | None, scores: tuple[float | None, ...] = (), direction: Direction = Direction.MAX) -> Tree:
    """Return a tree whose attempts all start from the root."""
    scores = scores or tuple(float(place) for place in range(1, len(seconds) + 1))
    attempts = [
        Attempt(f"n{place}", None, score, cost={} if taken is None else {"seconds": taken})
        for place, (taken, score) in enumerate(zip(seconds, scores, strict=True), start=1)
    ]
    return Tree("t", tuple(attempts), direction=direction, root=Root(0.0 if direction is Direction.MAX else 100.0))


def trajectory(made: Tree, *rounds: tuple[int, ...]) -> Trajectory:
    return Trajectory(made.digest, tuple(Round((0,) * len(places), places, 0) for places in rounds), Stop.POLICY_STOPPED)


@pytest.mark.parametrize(
    ("workers", "seconds", "to_best"),
    [
        (1, 10.0, 10.0),  # 3 + 2 + 1 + 4, one after the other
        (2, 7.0, 7.0),  # 3 beside 2 + 1, then 4
        (9, 7.0, 7.0),  # 3, then 4
    ],
)
def test_a_round_lasts_as_long_as_its_workers_need(workers: int, seconds: float, to_best: float) -> None:
    made = tree(3.0, 2.0, 1.0, 4.0)

    found = timed(trajectory(made, (1, 2, 3), (4,)), made, workers)

    assert found == Timed(workers, seconds, to_best, to_best, 0)


def test_the_best_is_found_when_its_attempt_ends_and_not_when_its_round_does() -> None:
    made = tree(5.0, 1.0, scores=(1.0, 10.0))

    found = timed(trajectory(made, (1, 2)), made, 2)

    assert found == Timed(2, 5.0, 1.0, 1.0, 0)


def test_most_of_the_span_may_be_reached_before_the_best_in_either_sense() -> None:
    up = tree(1.0, 1.0, scores=(95.0, 100.0))
    down = tree(1.0, 1.0, scores=(5.0, 0.0), direction=Direction.MIN)

    for made in (up, down):
        found = timed(trajectory(made, (1,), (2,)), made, 1)
        assert found is not None
        assert (found.to_quality, found.to_best) == (1.0, 2.0)


def test_seconds_that_are_unknown_count_as_the_trees_median_and_are_counted() -> None:
    made = tree(1.0, None, 5.0, 3.0)

    found = timed(trajectory(made, (1, 2)), made, 1)

    assert found is not None
    assert (found.seconds, found.assumed) == (4.0, 1)
    assert timed(trajectory(tree(None, None), (1,)), tree(None, None), 1) is None


def test_a_replay_that_revealed_nothing_took_no_time() -> None:
    made = tree(1.0, scores=(None,))

    assert timed(trajectory(made), made, 1) == Timed(1, 0.0, 0.0, 0.0, 0)
    with pytest.raises(ValueError, match="workers is 0"):
        timed(trajectory(made), made, 0)


@given(lasts=st.lists(st.floats(0, 1e6), min_size=1, max_size=20), workers=st.integers(1, 8))
def test_a_round_takes_no_less_than_its_longest_attempt_and_no_more_than_all_in_a_row(lasts: list[float], workers: int) -> None:
    made = tree(*lasts)

    found = timed(trajectory(made, tuple(range(1, len(lasts) + 1))), made, workers)

    assert found is not None
    assert max(lasts) - 1e-6 <= found.seconds <= sum(lasts) + 1e-6
    assert found.seconds >= sum(lasts) / workers - 1e-6
