"""What an archive offers to build on, and that it follows from the history alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import BREAKS, FOLLOWS, OPENS, judged, moved

from harness.propose.memory import Archive, Purpose
from harness.propose.memory.archive import FOUNDED_EVERY, ISLANDS

if TYPE_CHECKING:
    from harness.propose.base import Judged

OPENS_ALL = ([0] * 8,)
ONE_LINE = ([0], [1], [2], [3], [4])
ONE_BY_ONE = tuple([0] for _ in range(40))
HALF = ([0] * 4, [1, 2, 3, 4])


def numbers(versions: tuple[Judged, ...]) -> list[int]:
    return [one.version.number for one in versions]


def learnt(*history: Judged, seed: int = 0) -> Archive:
    archive = Archive(seed)
    archive.learn(history)
    return archive


def test_versions_that_behave_alike_share_a_niche_and_the_best_stands_for_it() -> None:
    """One more pick in eight rounds is hardly another behaviour; one line is."""
    alike = [[0] * 8] * 8
    archive = learnt(moved(1, 0.5, *alike), moved(2, 0.7, *alike, [0]), moved(3, 0.1, *ONE_LINE))

    assert numbers(archive.niches) == [2, 3]


def test_at_equal_values_the_earlier_version_stands_for_its_niche() -> None:
    assert numbers(learnt(moved(1, 0.5, [0] * 8), moved(2, 0.5, [0] * 7)).niches) == [1]


def test_a_version_that_did_what_an_earlier_one_had_done_is_known_as_its_twin_and_not_built_on() -> None:
    archive = learnt(judged(1, OPENS), judged(2, FOLLOWS), judged(3, "# other words\n" + OPENS))

    assert archive.twins == {3: 1}
    assert {number for draw in range(50) for number in numbers(archive.parents(2, draw))} == {1, 2}


def test_a_version_that_faulted_is_not_built_on_and_has_no_behaviour() -> None:
    faulted = judged(2, BREAKS)
    archive = learnt(judged(1, OPENS), faulted)

    assert numbers(archive.parents(2)) == [1]
    assert archive.behaviour_of(faulted) is None


def test_without_a_version_that_has_a_value_there_is_nothing_to_build_on() -> None:
    archive = learnt(judged(1, BREAKS))

    assert (archive.parents(), archive.inspirations(())) == ((), ())


def test_what_is_better_is_built_on_more_often_and_what_is_different_all_the_same() -> None:
    archive = learnt(moved(1, 0.2, *OPENS_ALL), moved(2, 0.9, *ONE_LINE), moved(3, 0.5, *ONE_BY_ONE))
    drawn = Counter(number for draw in range(600) for number in numbers(archive.parents(1, draw)))

    assert [number for number, _ in drawn.most_common()] == [2, 3, 1]
    assert drawn[1] > 600 * 0.03


def test_the_two_parents_of_a_cross_are_of_two_niches() -> None:
    archive = learnt(moved(1, 0.5, [0] * 8), moved(2, 0.6, [0] * 7), moved(3, 0.4, *ONE_LINE))

    assert all(sorted(numbers(archive.parents(2, draw))) == [2, 3] for draw in range(30))


def test_islands_are_founded_one_by_one_and_every_version_keeps_its_own() -> None:
    archive = learnt()
    islands = [archive.island_of(position) for position in range(10 * FOUNDED_EVERY)]

    assert set(islands[:FOUNDED_EVERY]) == {0}
    assert [len(set(islands[: n * FOUNDED_EVERY])) for n in range(1, 6)] == [1, 2, 3, 4, ISLANDS]


def test_a_family_that_is_best_everywhere_does_not_take_all_islands() -> None:
    """Of sixteen versions those with odd numbers open branches and are best, those with even ones follow a line.

    The seventeenth is made on the second island, where the even ones live; the other island has lent its best one, number 15.
    """
    opens = {number: moved(number, 0.9 + number / 1_000, [0] * 8, [number]) for number in range(1, 17, 2)}
    follows = {number: moved(number, 0.5, *[[place] for place in range(number)]) for number in range(2, 17, 2)}
    archive = learnt(*(one for _, one in sorted((opens | follows).items())))
    drawn = {number for draw in range(300) for number in numbers(archive.parents(1, draw))}

    assert archive.island_of(16) == 1
    assert {number for number in drawn if number % 2} == {1, 15}, "the incumbent is on every island"
    assert any(number % 2 == 0 for number in drawn)


def test_inspirations_are_drawn_by_turns_for_quality_and_for_difference_and_are_no_parents() -> None:
    history = (moved(1, 0.9, [0] * 8), moved(2, 0.8, [0] * 7), moved(3, 0.7, *ONE_LINE), moved(4, 0.1, *ONE_BY_ONE))
    archive = learnt(*history)
    drawn = [archive.inspirations(history[:1], 2, draw) for draw in range(30)]

    assert all(both[0].purpose is Purpose.QUALITY for both in drawn)
    assert all(1 not in {one.judged.version.number for one in both} for both in drawn)
    different = {one.judged.version.number for both in drawn for one in both if one.purpose is Purpose.DIFFERENCE}
    assert different == {3}, "the better half of the niches: what is only different inspires nobody"


def test_fewer_inspirations_than_asked_for_come_where_there_are_no_more() -> None:
    history = (moved(1, 0.9, [0] * 8), moved(2, 0.8, *ONE_LINE))

    assert numbers(tuple(one.judged for one in learnt(*history).inspirations(history[:1], 5))) == [2]


@pytest.mark.parametrize("count", [1, 2])
def test_another_seed_draws_otherwise(count: int) -> None:
    history = [moved(number, 0.5, *([[0] * number] * number)) for number in range(1, 8)]
    drawn = {tuple(numbers(learnt(*history, seed=seed).parents(count))) for seed in range(30)}

    assert len(drawn) > 1


versions = st.lists(
    st.tuples(
        st.none() | st.floats(-2, 2),
        st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), max_size=5),
    ),
    max_size=30,
)


@given(versions, st.integers(0, 30), st.integers(0, 5), st.integers(1, 3))
def test_a_resumed_run_draws_what_the_first_one_drew(
    told: list[tuple[float | None, list[list[int]]]], interrupted: int, seed: int, count: int
) -> None:
    """One archive learns version by version, the other all at once from some point on: the draws are the same."""
    history = [moved(number, value, *picks) for number, (value, picks) in enumerate(told, start=1)]
    along, anew = Archive(seed), Archive(seed)
    anew.learn(history[:interrupted])
    for end in range(len(history) + 1):
        along.learn(history[:end])
        along.parents(count)
    anew.learn(history)

    assert numbers(along.parents(count)) == numbers(anew.parents(count))
    assert along.inspirations(along.parents(count), count) == anew.inspirations(anew.parents(count), count)
    assert (along.niches, along.twins) == (anew.niches, anew.twins)


@given(versions)
def test_every_version_with_a_value_has_a_place_or_a_twin_and_no_niche_is_worth_less_than_it_was(
    told: list[tuple[float | None, list[list[int]]]],
) -> None:
    history = [moved(number, value, *picks) for number, (value, picks) in enumerate(told, start=1)]
    archive, before = Archive(0), ()
    for end in range(len(history) + 1):
        archive.learn(history[:end])
        now = archive.niches
        assert all((new.value or 0) >= (old.value or 0) for old, new in zip(before, now, strict=False))
        before = now

    assert all((archive.behaviour_of(one) is None) == (one.value is None) for one in history)
    assert set(archive.twins) & {one.version.number for one in archive.niches} == set()
