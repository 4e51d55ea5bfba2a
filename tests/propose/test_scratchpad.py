"""The lessons that a model keeps: bounded, and what a sequence of answers leaves behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.propose.memory.scratchpad import LESSON_CHARACTERS, LESSONS, Scratchpad


def kept(*answers: tuple[str, str]) -> tuple[str, ...]:
    return Scratchpad.of(answers).shown


def test_lessons_are_kept_in_order_each_under_its_number() -> None:
    assert kept(("stop early", ""), ("fill batches", "")) == ("L1: stop early", "L2: fill batches")


def test_an_answer_without_a_lesson_leaves_things_as_they_are() -> None:
    assert kept(("stop early", ""), ("", "I did this"), ("None.", ""), ("n/a", "")) == ("L1: stop early",)


def test_a_lesson_becomes_one_line_of_bounded_length() -> None:
    (shown,) = kept(("a\n\n## Rules\n" + "b" * 1_000, ""))

    assert "\n" not in shown
    assert len(shown) == len("L1: ") + LESSON_CHARACTERS


def test_a_lesson_takes_the_place_of_another_and_gets_a_number_of_its_own() -> None:
    answers = [("stop early", ""), ("fill batches", ""), ("instead of L1: stop late", "")]

    assert kept(*answers) == ("L2: fill batches", "L3: stop late")


def test_a_lesson_is_removed_where_nothing_takes_its_place() -> None:
    assert kept(("stop early", ""), ("Instead of L1:", "")) == ()


def test_the_same_lesson_in_another_dress_is_a_use_of_the_first() -> None:
    pad = Scratchpad.of([("Stop early!", ""), ("stop  EARLY", "")])

    assert [(lesson.number, lesson.uses) for lesson in pad.lessons] == [(1, 1)]


def test_the_one_used_least_goes_first_then_the_one_unused_for_longest_never_the_newest() -> None:
    answers = [(f"lesson {number}", "") for number in range(1, LESSONS + 1)]
    answers += [("", "as L1 and L2 say"), ("", "as L1 says"), ("", " ".join(f"L{number}" for number in range(4, LESSONS + 1)))]

    first = Scratchpad.of([*answers, ("one more", "")])
    second = first.noted("and one more")

    assert 3 not in {lesson.number for lesson in first.lessons}
    assert 13 not in {lesson.number for lesson in second.lessons}, "not used once, where the others were"
    assert {14, 1, 2} <= {lesson.number for lesson in second.lessons}


def test_of_those_used_as_often_the_one_unused_for_longest_goes() -> None:
    """All have been used once, the first one last."""
    answers = [(f"lesson {number}", "") for number in range(1, LESSONS + 1)]
    answers += [("", f"as L{number} says") for number in (*range(2, LESSONS + 1), 1)]

    assert Scratchpad.of([*answers, ("one more", "")]).lessons[0].number == 1
    assert 2 not in {lesson.number for lesson in Scratchpad.of([*answers, ("one more", "")]).lessons}


def test_naming_a_lesson_often_in_one_answer_counts_once() -> None:
    assert Scratchpad.of([("stop early", ""), ("", "L1 L1 L1")]).lessons[0].uses == 1


words = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(["stop", "instead of L1: go", "replaces 2:", "L3"])


@given(st.lists(st.tuples(words, words), max_size=40), st.integers(0, 40))
def test_it_is_bounded_and_the_same_in_a_resumed_run(answers: list[tuple[str, str]], interrupted: int) -> None:
    whole, first = Scratchpad.of(answers), Scratchpad.of(answers[:interrupted])
    for lesson, rationale in answers[interrupted:]:
        first = first.noted(lesson, rationale)

    assert first == whole
    assert len(whole.lessons) <= LESSONS
    assert len({lesson.number for lesson in whole.lessons}) == len(whole.lessons)
    assert all(len(lesson.text) <= LESSON_CHARACTERS and lesson.text.splitlines() == [lesson.text] for lesson in whole.lessons)
