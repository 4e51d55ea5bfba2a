"""How a policy behaves is measured from what it picked and what that revealed."""

from __future__ import annotations

import pytest
from builders import judged_in_process, tree
from hypothesis import given
from hypothesis import strategies as st
from runs import BREAKS, FOLLOWS, OPENS, STOPS, TREES, judged, moved

from harness.policy import Candidate, Origin
from harness.propose.memory import Behaviour, behaviour, fingerprint
from harness.replay import Stop
from harness.score import Evaluation, Settings


def test_a_policy_that_only_opens_branches_is_all_breadth_and_no_depth() -> None:
    assert behaviour(moved(1, 0.5, [0, 0], [0, 0]).evaluation)[:2] == (1.0, 0.0)


def test_a_policy_that_follows_one_line_is_all_depth_but_for_its_first_pick() -> None:
    is_like = behaviour(moved(1, 0.5, [0], [1], [2], [3]).evaluation)

    assert (is_like.breadth, is_like.depth) == (0.25, 1.0)


def test_going_back_to_what_was_left_lying_is_no_depth() -> None:
    """Places 1 and 2 come first; 1 is new then and 2 is not, once 1 has been followed."""
    assert behaviour(moved(1, 0.5, [0, 0], [1], [2]).evaluation).depth == 0.5


def test_a_round_that_reveals_nothing_does_not_make_old_what_was_just_revealed() -> None:
    source = """class Policy:
    def __init__(self, context): ...
    def decide(self, view): return [[0], [0], [1], []][view.round - 1]
"""
    assert behaviour(judged(1, source, [tree("root>a", "a>b", "b>c")]).evaluation).depth == 1.0


def test_stopping_counts_one_half_after_32_attempts_and_nothing_where_the_policy_did_not_stop() -> None:
    batch = [0] * 8
    own, spent = (moved(1, 0.5, batch, batch, batch, batch, stop=stop) for stop in (Stop.POLICY_STOPPED, Stop.MAX_ROUNDS))

    assert (behaviour(own.evaluation).stopping, behaviour(spent.evaluation).stopping) == (0.5, 0.0)


def test_a_policy_that_stops_at_once_is_only_that() -> None:
    assert behaviour(judged(1, STOPS).evaluation) == Behaviour(0.0, 0.0, 1.0, 0.0)


def test_batch_is_how_full_a_batch_is_of_what_it_may_hold() -> None:
    assert behaviour(moved(1, 0.5, [0] * 8, [1, 2]).evaluation).batch == pytest.approx(10 / 16)


def test_every_tree_counts_once() -> None:
    """Depth is 0 on a tree without lines and 1 on one that is a line; the mean is that of the two."""
    line, fan = tree("root>a", "a>b", "b>c"), tree("root>d", "root>e", "root>f")
    evaluation = judged_in_process(Candidate(FOLLOWS, Origin.FILE), [line, fan])

    assert behaviour(evaluation).depth == pytest.approx(
        sum(behaviour(judged_in_process(Candidate(FOLLOWS, Origin.FILE), [one])).depth for one in (line, fan)) / 2
    )


def test_an_evaluation_without_trees_behaves_in_no_way() -> None:
    assert behaviour(Evaluation("p", "in-process", Settings(), ())) == Behaviour(0.0, 0.0, 0.0, 0.0)


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), max_size=12),
    st.sampled_from([Stop.POLICY_STOPPED, Stop.MAX_ROUNDS, Stop.EXHAUSTED]),
)
def test_each_figure_lies_between_0_and_1(picks: list[list[int]], stop: Stop) -> None:
    assert all(0.0 <= figure <= 1.0 for figure in behaviour(moved(1, 0.5, *picks, stop=stop).evaluation))


def test_versions_with_the_same_trajectories_have_one_fingerprint_whatever_their_code_and_the_order_of_trees() -> None:
    same = judged(2, "# in other words\n" + OPENS, reversed(TREES))

    assert fingerprint(judged(1, OPENS).evaluation) == fingerprint(same.evaluation)
    assert fingerprint(judged(1, OPENS).evaluation) != fingerprint(judged(3, FOLLOWS).evaluation)


def test_one_tree_on_which_versions_differ_sets_them_apart() -> None:
    """Both open four branches; one of them goes on where the root has a score of its own."""
    differs = OPENS.replace("else []", "else [4] if view.nodes[0].score == 7 and view.round == 2 else []")
    trees = (*TREES, tree("root>a", "root>b", "root>c", "root>d", "d>e", root=7.0))

    first, second = judged(1, OPENS, trees), judged(2, differs, trees)

    assert fingerprint(first.evaluation) != fingerprint(second.evaluation)
    assert fingerprint(judged(1, OPENS).evaluation) == fingerprint(judged(2, differs).evaluation)


def test_a_version_that_faulted_has_no_fingerprint() -> None:
    assert fingerprint(judged(1, BREAKS).evaluation) is None
