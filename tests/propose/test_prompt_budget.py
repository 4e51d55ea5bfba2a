"""A prompt is kept within its budget by a rule, and says what it left out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from builders import broom
from hypothesis import given
from hypothesis import strategies as st
from runs import BREAKS, FOLLOWS, OPENS, STOPS, asked, judged

from harness.propose.edits import EditKind
from harness.propose.memory import Inspiration, Purpose
from harness.propose.prompts import Ask, Prompt, Repair, build

TREES = tuple(broom(seed, chains=4, depth=4) for seed in range(6))


@cache
def everything() -> Ask:
    """Ask for an edit with something in every part of the prompt."""
    sources = [OPENS, STOPS, FOLLOWS, BREAKS, *(f"# {number}\n{OPENS}" for number in range(12))]
    history = [judged(number, source, TREES, rationale="because " * 20) for number, source in enumerate(sources, start=1)]
    return asked(
        history,
        TREES,
        inspirations=(Inspiration(history[0], Purpose.QUALITY), Inspiration(history[1], Purpose.DIFFERENCE)),
        scratchpad=tuple(f"L{number}: {'learnt ' * 20}" for number in range(1, 6)),
    )


def within(budget: int, **said: object) -> Prompt:
    return build(replace(everything(), budget_chars=budget, **said))  # type: ignore[arg-type]


FULL = within(1_000_000)
LEAST = within(0)


def test_nothing_is_cut_where_there_is_room() -> None:
    assert FULL.cut == ()
    assert within(FULL.characters) == FULL


def test_one_character_too_many_costs_the_oldest_version_alone() -> None:
    """The best eight stand in versions 1, 3 and those that open like the first."""
    assert len(within(FULL.characters - 1).cut) == 1
    assert within(FULL.characters - 1).cut == ("earlier version 2",)


def test_things_go_in_the_order_of_the_rule() -> None:
    kinds = [
        "earlier version ",
        "replay 4",
        "replay 3",
        "replay 2",
        "inspiration",
        "fault",
        "lesson",
        "group",
        "replay 1",
        "interface",
    ]
    order = [next(place for place, kind in enumerate(kinds) if name.startswith(kind)) for name in LEAST.cut]

    assert order == sorted(order)
    assert set(order) == set(range(len(kinds)))
    assert [name for name in LEAST.cut if name.startswith("lesson")] == [f"lesson {number} of 5" for number in range(1, 6)]
    assert LEAST.cut[-3:] == ("interface: Typical mistakes", "interface: What a policy may use", "interface: its opening")


def test_what_is_asked_for_and_the_policy_are_never_cut() -> None:
    assert OPENS.strip() in LEAST.messages[1].text
    assert "<<<<<<< SEARCH" in LEAST.messages[1].text
    assert "## `view`" in LEAST.messages[0].text
    assert LEAST.characters > 0


def test_an_edit_that_writes_no_code_can_do_without_the_interface() -> None:
    least = within(0, kind=EditKind.PARAMETERS)

    assert "## `view`" not in least.messages[0].text
    assert least.characters < 6_000


def test_inspirations_that_were_cut_were_not_shown() -> None:
    assert len(FULL.shown) == 3
    assert LEAST.shown == FULL.shown[:1]


def test_a_long_answer_to_be_repaired_loses_its_middle() -> None:
    repaired = within(20_000, repair=Repair("begin " + "x" * 50_000 + " end", "too long"))

    assert len(repaired.messages[2].text) <= 5_003
    assert repaired.messages[2].text.startswith("begin")
    assert repaired.messages[2].text.endswith("end")
    assert repaired.cut[0] == "the middle of the answer to be repaired"


@given(st.integers(LEAST.characters, FULL.characters))
def test_every_budget_is_kept_where_it_can_be_and_cuts_no_more_than_it_has_to(budget: int) -> None:
    prompt = within(budget)

    assert prompt.characters <= budget
    assert prompt.cut == LEAST.cut[: len(prompt.cut)]
    assert within(prompt.characters) == prompt
    assert prompt == LEAST or within(prompt.characters - 1).cut != prompt.cut


@pytest.mark.parametrize("budget", [0, 1, LEAST.characters - 1])
def test_a_budget_that_cannot_be_kept_leaves_what_is_never_cut(budget: int) -> None:
    assert within(budget) == LEAST
