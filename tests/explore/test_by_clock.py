"""A replay in which a freed worker asks at once: exact on what can be counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from builders import tree as built
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Timed, timed
from harness.explore.byclock import asking_at_once
from harness.replay import Round, Stop, replay
from harness.tree import Attempt, Root, Tree
from sandbox.api import Fault, FaultKind, Limits, PolicyFault, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.api import Observation


class Answers:
    """Answers in turn, [] past the end, and keeps what was in flight and what was new at each question."""

    def __init__(self, *batches: Sequence[int]) -> None:
        self._batches = list(batches)
        self.seen: list[tuple[int, tuple[int, ...], int]] = []

    def decide(self, observation: Observation) -> list[int]:
        """Return the next batch."""
        self.seen.append((observation.round, tuple(observation.pending), len(observation.revealed)))
        return list(self._batches.pop(0)) if self._batches else []


class Opens:
    """Opens one more branch whenever it is asked."""

    def decide(self, _: Observation) -> list[int]:
        """Return the root."""
        return [0]


def lasting(on: Tree, **seconds: float) -> Tree:
    """Return the tree with recorded seconds; its scores count up in creation order."""
    attempts = [
        Attempt(one.id, one.parent, float(place), cost={"seconds": seconds[one.id]})
        for place, one in enumerate(on.attempts, start=1)
    ]
    return Tree("timed", tuple(attempts), frontier=on.frontier, root=Root(0.0))


def test_a_freed_worker_asks_at_once_and_the_policy_sees_what_is_in_flight() -> None:
    """Two workers: a takes 5, b 1. At 1 b is shown while a is under way; c then runs from 1 to 3, and a is shown last, at 5."""
    made = lasting(built("root>a", "root>b", "b>c"), a=5.0, b=1.0, c=2.0)
    answers = Answers([0, 0], [1])

    found = asking_at_once(2)(made, answers, Limits())

    assert answers.seen == [(1, (), 1), (2, (0,), 1)]
    assert found.rounds == (Round((0, 0), (2,), 0), Round((2,), (3, 1), 0))
    assert found.ends == (1.0, 3.0, 5.0)
    assert found.stop is Stop.EXHAUSTED
    assert timed(found, made, 2) == Timed(2, 5.0, 3.0, 3.0, 0)


def test_the_same_picks_in_rounds_wait_for_the_slowest() -> None:
    made = lasting(built("root>a", "root>b", "b>c"), a=5.0, b=1.0, c=2.0)

    in_rounds = timed(replay(made, Answers([0, 0], [2]), Limits()), made, 2)

    assert in_rounds == Timed(2, 7.0, 7.0, 7.0, 0)


def test_picks_beyond_the_free_workers_are_dropped_and_a_leaf_in_flight_is_not_picked_twice() -> None:
    """One worker: of three picks one is served. Then two: picking the leaf that is being continued does nothing."""
    alone = lasting(built("root>a", "root>b", "root>c"), a=1.0, b=1.0, c=1.0)
    found = asking_at_once(1)(alone, Answers([0, 0, 0]), Limits())
    assert [turn.picks for turn in found.rounds] == [(0,)]

    pair = lasting(built("root>a", "a>b", "root>c"), a=1.0, b=4.0, c=1.0)
    answers = Answers([0], [], [1], [1], [0])
    found = asking_at_once(2)(pair, answers, Limits())
    assert [pending for _, pending, _ in answers.seen] == [(), (0,), (), (1,), ()]
    assert found.ends == (1.0, 5.0, 6.0)


def test_a_policy_that_wants_nothing_while_something_is_in_flight_is_asked_again_when_it_ends_and_then_may_stop() -> None:
    made = lasting(built("root>a", "root>b"), a=2.0, b=2.0)
    answers = Answers([0], [], [])

    found = asking_at_once(2)(made, answers, Limits())

    assert [turn for turn, _, _ in answers.seen] == [1, 2, 2]
    assert (found.stop, found.ends) == (Stop.POLICY_STOPPED, (2.0,))


def test_what_ends_together_is_shown_together_in_the_order_in_which_it_was_asked_for() -> None:
    made = lasting(built("root>a", "root>b", "a>c"), a=2.0, b=2.0, c=1.0)
    answers = Answers([0, 0], [])

    found = asking_at_once(2)(made, answers, Limits())

    assert [new for _, _, new in answers.seen] == [1, 2]
    assert found.rounds == (Round((0, 0), (1, 2), 0),)


def test_a_pick_that_the_record_cannot_answer_takes_no_time_and_is_wasted() -> None:
    made = lasting(built("root>a", "root>b"), a=2.0, b=2.0)

    found = asking_at_once(1)(made, Answers([0], [1, 0]), Limits())

    assert found.rounds == (Round((0,), (1,), 0), Round((1, 0), (2,), 1))
    assert found.ends == (2.0, 4.0)


def test_limits_hold_and_what_is_in_flight_is_still_shown() -> None:
    made = lasting(built("root>a", "root>b", "root>c"), a=3.0, b=1.0, c=1.0)

    by_attempts = asking_at_once(3)(made, Answers([0, 0, 0]), Limits(max_attempts=2))
    by_rounds = asking_at_once(3)(made, Opens(), Limits(max_rounds=2))

    assert (by_attempts.stop, by_attempts.ends) == (Stop.MAX_ATTEMPTS, (1.0, 3.0))
    assert (by_rounds.stop, by_rounds.ends) == (Stop.MAX_ROUNDS, (1.0, 3.0))


def test_a_policy_that_breaks_a_rule_has_no_value_and_names_the_round() -> None:
    made = lasting(built("root>a", "root>b"), a=1.0, b=1.0)

    found = asking_at_once(1)(made, Answers([0], [7]), Limits())

    assert found.stop is Stop.POLICY_ERROR
    assert found.fault is not None
    assert (found.fault.rule, found.fault.round) == (Rule.UNKNOWN_NODE, 2)


def test_a_policy_that_cannot_be_loaded_has_decided_nothing() -> None:
    class Broken:
        def decide(self, _: Observation) -> list[int]:
            raise PolicyFault(Fault(FaultKind.LOAD_FAULT, "no class Policy"))

    found = asking_at_once(1)(built("root>a"), Broken(), Limits())

    assert found.fault is not None
    assert found.fault.round is None


def test_there_is_at_least_one_worker() -> None:
    with pytest.raises(ValueError, match="workers is 0"):
        asking_at_once(0)


@given(lasts=st.lists(st.integers(0, 50), min_size=1, max_size=12), workers=st.integers(1, 5))
def test_branches_of_one_attempt_keep_every_worker_busy(lasts: list[int], workers: int) -> None:
    """Nobody waits: it is the greedy schedule, which takes no longer than the work shared evenly and one attempt more."""
    made = lasting(built(*(f"root>n{n}" for n in range(len(lasts)))), **{f"n{n}": float(s) for n, s in enumerate(lasts)})

    found = timed(asking_at_once(workers)(made, Opens(), Limits()), made, workers)

    assert found is not None
    assert found.seconds <= sum(lasts) / workers + max(lasts) + 1e-9
    if workers == 1:
        assert found.seconds == sum(lasts)
    if workers >= len(lasts):
        assert found.seconds == max(lasts)
