"""The gate's verdict: every part with what passes it and what does not, and what holds for all of them together."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace

import pytest
from gates import FIRST, answer, digest, evaluation, faulted, judged, result, valued
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import InputError
from harness.gate.claims import weighted_mean
from harness.gate.document import document, verdict_from
from harness.gate.judge import refuse_same
from harness.gate.spending import level
from harness.gate.verdict import Bounds, Look, Outcome, PartName
from harness.replay import Stop
from harness.score import Settings, Weight
from sandbox.api import Fault, FaultKind, Limits

ORDINARY = settings(deadline=None, max_examples=40)
BETTER = [0.02, 0.03, 0.01, 0.025, 0.015, 0.02, 0.03, 0.01]
NOISY = [0.3, -0.2, 0.25, -0.15, 0.2, -0.25, 0.1, 0.0]
SIDES = ["a", "a", "a", "a", "b", "b", "b", "b"]


def test_a_candidate_that_is_better_everywhere_passes_every_part() -> None:
    verdict = judged(BETTER, groups=SIDES)

    assert verdict.outcome is Outcome.PASS
    assert verdict.passed
    assert [part.name for part in verdict.parts] == list(PartName)
    assert {part.outcome for part in verdict.parts} == {Outcome.PASS}
    assert verdict.reason.startswith("better: mean difference +0.0200 over 8 trees")


def test_the_incumbent_itself_is_refused_and_nothing_was_replayed() -> None:
    """Byte for byte the same: no look is spent on it."""
    verdict = refuse_same("d1" * 32, Settings(), Bounds(), "docker")

    assert (verdict.outcome, verdict.look, verdict.trees) == (Outcome.REFUSE, None, ())
    assert verdict.reason.startswith("refused by distinct: the candidate is the incumbent byte for byte (digest d1d1d1d1d1d1)")


def test_the_same_source_under_another_name_is_refused_as_well() -> None:
    assert answer(judged(valued(BETTER, "incumbent")), PartName.DISTINCT) == "refuse"
    assert answer(judged(BETTER), PartName.DISTINCT) == "pass"


@pytest.mark.parametrize(
    ("sandbox", "allow_local", "expected"), [("docker", False, "pass"), ("local", False, "refuse"), ("local", True, "pass")]
)
def test_less_than_docker_has_to_be_allowed_by_name(sandbox: str, allow_local: bool, expected: str) -> None:
    candidate = replace(valued(BETTER), sandbox=sandbox)

    assert answer(judged(candidate, allow_local=allow_local), PartName.SANDBOX) == expected


@pytest.mark.parametrize("kind", [FaultKind.EXCEPTION, FaultKind.NONDETERMINISTIC])
def test_a_fault_of_the_candidate_refuses_and_nothing_else_is_asked(kind: FaultKind) -> None:
    """It ended the replays early: no figure of the others would mean anything."""
    candidate = evaluation([result(0, 0.9), faulted(1, Fault(kind, "it broke", round=3))])
    verdict = judged(candidate, [0.0] * 4)

    assert verdict.outcome is Outcome.REFUSE
    assert verdict.reason == f"refused by faults: {kind} on tree t1 in round 3: it broke"
    assert verdict.groups == ()
    assert answer(verdict, PartName.GAIN) == "not asked"
    assert [tree.difference for tree in verdict.trees] == [0.9, None, None, None]
    assert verdict.left_out == ()


def test_an_incumbent_that_faults_is_nobodys_loss() -> None:
    incumbent = evaluation([result(0, 0.1), faulted(1, Fault(FaultKind.EXCEPTION, "it broke"))], "incumbent")

    with pytest.raises(InputError, match=r"incumbent incumbent faults on tree t1: exception: it broke"):
        judged([0.5, 0.5], incumbent)


def test_a_mean_below_the_gain_asked_for_refuses() -> None:
    assert answer(judged([-value for value in BETTER]), PartName.GAIN) == "refuse"
    assert answer(judged(BETTER, min_gain=0.02), PartName.GAIN) == "refuse"
    assert answer(judged(BETTER, min_gain=0.01), PartName.GAIN) == "pass"


def test_a_gain_that_is_not_shown_cannot_be_told_and_names_how_many_trees_would_show_it() -> None:
    verdict = judged(NOISY, quality_margin=1)
    gain = verdict.part(PartName.GAIN)

    assert verdict.outcome is Outcome.CANNOT_TELL
    assert gain is not None
    assert gain.outcome is Outcome.CANNOT_TELL
    assert gain.figures["needed_trees"] > 8
    assert gain.words.endswith(f"about {gain.figures['needed_trees']:,} such trees would show it (80% power)")


def test_a_gain_within_one_group_alone_cannot_be_told() -> None:
    """The sign-flip test alone would pass it; the bound, which draws groups, does not."""
    gain = judged([0.3, 0.4, 0.35, 0.3, 0.3, 0.4, *[-0.02] * 6], groups=["a"] * 6 + ["b"] * 6).part(PartName.GAIN)

    assert gain is not None
    assert gain.figures["p"] < FIRST.level
    assert gain.outcome is Outcome.CANNOT_TELL


def test_what_few_groups_leave_open_is_said() -> None:
    """With one group no other was heard; three agree by chance; six say enough for the level of a first look."""
    words = {
        count: judged([*BETTER, *BETTER], groups=[str(place % count) for place in range(16)]).part(PartName.GAIN).words  # type: ignore[union-attr]
        for count in (1, 3, 6)
    }

    assert words[1].endswith("a single group: trees alone were resampled, which says nothing of other groups")
    assert words[3].endswith(
        "flipping whole groups p = 0.12 (asked: at most 0.125: so few groups have to agree, and do by chance once in 8)"
    )
    assert words[6].endswith("flipping whole groups p = 0.016 (asked: at most 0.0304)")


def test_groups_that_are_few_have_to_agree() -> None:
    """Two groups gain clearly and the third loses a little: the trees alone would show the gain, and the groups do not."""
    gain = judged([*[0.3] * 8, *[0.25] * 8, *[-0.001] * 2], groups=["a"] * 8 + ["b"] * 8 + ["c"] * 2).part(PartName.GAIN)

    assert gain is not None
    assert gain.figures["p"] < FIRST.level
    assert (gain.figures["p_groups"], gain.outcome) == (0.25, Outcome.CANNOT_TELL)


def test_whole_groups_swapped_at_random_pass_no_more_often_than_the_level() -> None:
    """Of all 64 ways of labelling six groups, each of trees that are alike, at the most one in thirty-three passes."""
    sizes = [0.5, 0.4, 0.3, 0.6, 0.2, 0.45]
    passed = [
        answer(
            judged(
                [sign * size for sign, size in zip(signs, sizes, strict=True) for _ in range(4)],
                groups=list("aaaabbbbccccddddeeeeffff"),
            ),
            PartName.GAIN,
        )
        == "pass"
        for signs in itertools.product((1, -1), repeat=6)
    ]

    assert 0 < sum(passed) / len(passed) <= FIRST.level


def test_four_trees_cannot_tell_whatever_they_say() -> None:
    """Their signs agree by chance once in sixteen, and the level is below that."""
    gain = judged([0.5, 0.4, 0.5, 0.6]).part(PartName.GAIN)

    assert gain is not None
    assert (gain.outcome, gain.figures["p"], gain.figures["needed_trees"]) == (Outcome.CANNOT_TELL, 1 / 16, 6)


def test_a_later_look_at_the_same_trees_asks_for_more() -> None:
    """Eight signs alike are once in 256: enough at the first look, too little at the third."""
    third = Look(3, level(0.05, 3), level(0.05, 1) + level(0.05, 2), 0.01)

    assert answer(judged(BETTER), PartName.GAIN) == "pass"
    assert answer(judged(BETTER, look=third), PartName.GAIN) == "cannot-tell"


def test_a_level_beyond_all_resamples_cannot_tell_and_says_what_helps() -> None:
    worn_out = Look(500, level(0.05, 500), 0.0499, 0.0001)
    gain = judged(BETTER, look=worn_out).part(PartName.GAIN)

    assert gain is not None
    assert gain.outcome is Outcome.CANNOT_TELL
    assert gain.words.endswith("too small for 1,000,000 resamples: only fresh trees help")


def test_no_tree_left_cannot_tell() -> None:
    verdict = judged([], [])

    assert verdict.outcome is Outcome.CANNOT_TELL
    assert "no held-out tree is left to ask" in verdict.reason


@pytest.mark.parametrize(
    ("quality", "expected"),
    [([0.0] * 8, "pass"), ([-0.02] * 8, "refuse"), ([0.2, -0.2, 0.2, -0.2, 0.2, -0.2, 0.2, -0.2], "cannot-tell")],
)
def test_quality_is_not_sold_for_cheapness(quality: list[float], expected: str) -> None:
    """A loss of the margin or more refuses; one that cannot be ruled out cannot be told."""
    candidate = evaluation([result(place, 0.5, one) for place, one in enumerate(quality)])
    incumbent = evaluation([result(place, 0.1, 1e-9) for place in range(8)], "incumbent")

    assert answer(judged(candidate, incumbent), PartName.QUALITY) == expected


@pytest.mark.parametrize(("loss", "expected"), [(-0.04, "pass"), (-0.06, "refuse")])
def test_no_group_collapses_for_the_others_gain(loss: float, expected: str) -> None:
    verdict = judged([*[0.3] * 7, loss], groups=["a"] * 7 + ["b"])

    assert answer(verdict, PartName.GROUPS) == expected
    assert [(group.group, group.trees, group.difference) for group in verdict.groups] == [("a", 7, 0.3), ("b", 1, loss)]


@pytest.mark.parametrize(("wasted", "expected"), [(1, "pass"), (2, "refuse")])
def test_the_record_has_to_answer_most_picks(wasted: int, expected: str) -> None:
    """One pick of two or two of three were wasted; up to six of ten may be."""
    assert answer(judged(valued(BETTER, wasted=wasted)), PartName.SUPPORT) == expected


@pytest.mark.parametrize(("cpu_s", "expected"), [(0.09, "pass"), (0.11, "refuse")])
def test_decisions_have_to_be_quick(cpu_s: float, expected: str) -> None:
    assert answer(judged(valued(BETTER, cpu_s=cpu_s)), PartName.DECISION_TIME) == expected


def test_an_answer_that_ends_the_search_is_a_decision() -> None:
    """One round and the empty batch after it: two decisions in 0.15 seconds."""
    stopped = [
        replace(one, trajectory=replace(one.trajectory, stop=Stop.POLICY_STOPPED)) for one in valued(BETTER, cpu_s=0.15).results
    ]

    assert answer(judged(evaluation(stopped)), PartName.DECISION_TIME) == "pass"


def test_trees_without_a_score_are_left_out_and_named() -> None:
    verdict = judged(valued([*BETTER, None]), valued([*[0.0] * 8, None], "incumbent"))

    assert verdict.left_out == ((digest(8), "nothing in it has a score"),)
    assert verdict.part(PartName.GAIN).figures["trees"] == 8  # type: ignore[union-attr]


def test_what_cannot_be_compared_is_bad_input() -> None:
    with pytest.raises(InputError, match="tree t1: the candidate was not judged on it"):
        judged([0.1], [0.0, 0.0])
    with pytest.raises(InputError, match="tree t1: the incumbent was not judged on it"):
        judged([0.1, 0.1], [0.0])
    other = evaluation([result(0, 0.1)], limits=Limits(max_rounds=7))
    with pytest.raises(InputError, match=r"limits is .* on one side"):
        judged(other, [0.0])


def test_the_mean_is_over_groups_where_the_settings_say_so() -> None:
    """Seven trees of one source gain, and the eighth, of another, loses more: over trees a gain, over groups a loss."""
    values, groups = [*[0.3] * 7, -0.5], ["a"] * 7 + ["b"]
    by_group = {"weight": Weight.GROUP}
    candidate = replace(valued(values), settings=Settings(**by_group))
    incumbent = replace(valued([0.0] * 8, "incumbent"), settings=Settings(**by_group))

    over_trees = judged(values, groups=groups).part(PartName.GAIN)
    over_groups = judged(candidate, incumbent, groups).part(PartName.GAIN)

    assert over_trees is not None
    assert over_groups is not None
    assert over_trees.figures["difference"] == pytest.approx(0.2)
    assert over_groups.figures["difference"] == pytest.approx(-0.1)
    assert over_groups.outcome is Outcome.REFUSE


def test_one_refusal_outweighs_every_pass_and_all_are_named() -> None:
    verdict = judged(valued(BETTER, wasted=9, cpu_s=1.0))

    assert verdict.outcome is Outcome.REFUSE
    assert verdict.reason.startswith("refused by support, decision-time: the record had no answer")


@ORDINARY
@given(st.permutations(range(8)))
def test_the_order_of_trees_changes_nothing(order: list[int]) -> None:
    """Not a digit: evaluations with their results in any order give the same record."""
    candidate, incumbent = valued(NOISY), valued(BETTER, "incumbent")
    shuffled = replace(candidate, results=tuple(candidate.results[place] for place in order))

    assert judged(shuffled, incumbent, SIDES) == judged(candidate, incumbent, SIDES)


@ORDINARY
@given(st.lists(st.floats(-1, 0), min_size=1, max_size=50), st.data())
def test_nothing_that_gains_nowhere_passes(values: list[float], data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(values), max_size=len(values)))

    assert judged(values, groups=groups, resamples=100, alpha=0.5).outcome is Outcome.REFUSE


def test_the_mean_of_three_values_at_the_end_of_the_range_is_within_it() -> None:
    """A third of the largest float, rounded up, three times is beyond it."""
    for most in (sys.float_info.max, -sys.float_info.max):
        assert weighted_mean([[most] * 3], by_group=False) == most
        assert weighted_mean([[most], [most] * 2, [most]], by_group=True) == most


@ORDINARY
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40), st.data())
def test_values_of_any_size_get_an_answer(values: list[float], data: st.DataObject) -> None:
    """Raw scores know no range: no sum, square or ratio of theirs ends in an error, and every figure can be written down."""
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(values), max_size=len(values)))
    verdict = judged(values, groups=groups, resamples=100, alpha=0.5)

    assert verdict_from(json.loads(json.dumps(document(verdict), allow_nan=False))) == verdict
