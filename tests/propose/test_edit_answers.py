"""Answers of models, shape by shape: each leads to one source or to one fault, and a fault says what to do about it."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest
from edit_answers import PARENTS, TEMPLATES, Recorded, recorded

from harness.check import check
from harness.policy import digest_of
from harness.propose.edits import (
    REASONS,
    EditKind,
    FaultReason,
    ProposalFault,
    allowed_values,
    answer_form,
    apply,
    repairable,
)
from harness.propose.edits.base import ANSWER_CHARACTERS, LESSON_CHARACTERS, RATIONALE_CHARACTERS, Edited
from harness.propose.templates import render

RECORDED = {answer.name: answer for answer in recorded()}


def applied(answer: Recorded) -> Edited:
    return apply(answer.text, answer.kind, answer.parents, TEMPLATES, cut=answer.cut)


def fault_of(text: str, kind: EditKind = EditKind.BLOCKS) -> ProposalFault:
    with pytest.raises(ProposalFault) as caught:
        apply(text, kind, (PARENTS["written"],), TEMPLATES)
    return caught.value


@pytest.mark.parametrize("name", [name for name, answer in RECORDED.items() if "source" in answer.expected])
def test_answer_leads_to_its_source(name: str) -> None:
    answer = RECORDED[name]
    edited = applied(answer)
    before = answer.parents[0].source.replace("\r\n", "\n")
    difference = "\n".join(difflib.unified_diff(before.split("\n"), edited.source.split("\n"), lineterm=""))

    assert digest_of(edited.source) == answer.expected["source"], difference
    assert edited.fuzzy == answer.expected.get("fuzzy", False)
    assert edited.kind == answer.expected.get("turned_out", answer.kind)
    for words in ("rationale", "lesson"):
        assert getattr(edited, words) == answer.expected.get(words, getattr(edited, words))


@pytest.mark.parametrize("name", [name for name, answer in RECORDED.items() if "reason" in answer.expected])
def test_answer_leads_to_its_fault(name: str) -> None:
    answer = RECORDED[name]
    with pytest.raises(ProposalFault) as caught:
        applied(answer)

    assert caught.value.reason == answer.expected["reason"], caught.value.message
    assert [part for part in answer.expected.get("says", ()) if part not in caught.value.message] == [], caught.value.message
    assert 0 < len(caught.value.message) < 2_000


def test_every_reason_but_one_for_size_is_recorded() -> None:
    reasons = {answer.expected.get("reason") for answer in RECORDED.values()}

    assert {*FaultReason} - reasons == {FaultReason.TOO_LARGE}
    assert len(RECORDED) >= 60


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith(("attack-", "whole-nul", "whole-bidi"))])
def test_hostile_code_is_an_edit_that_the_check_refuses_or_the_sandbox_holds(name: str) -> None:
    """Applying says nothing of what code does; it is a model's, and no template vouches for it."""
    edited = applied(RECORDED[name])

    assert edited.template is None
    assert check(edited.source) or name == "attack-memory"


def test_only_what_was_rendered_from_a_template_names_one() -> None:
    for answer in RECORDED.values():
        if "source" in answer.expected and (edited := applied(answer)).template is not None:
            template = next(template for template in TEMPLATES if template.name == edited.template)
            assert edited.source == render(template, edited.params), answer.name
            assert answer.kind in (EditKind.PARAMETERS, EditKind.TEMPLATE), answer.name


def test_words_of_a_model_are_bounded_and_hold_no_control_characters() -> None:
    said = f"<rationale>{'a' * 9_000}\x1b[0m\ud800</rationale>\n<lesson>{'b ' * 900}\nc</lesson>\n"
    edited = apply(f"{said}```python\nclass Policy:\n    pass\n```", EditKind.WHOLE, (PARENTS["written"],))

    assert len(edited.rationale) == RATIONALE_CHARACTERS
    assert len(edited.lesson) <= LESSON_CHARACTERS
    assert "\x1b" not in edited.rationale
    assert "\n" not in edited.lesson


def test_answer_that_is_too_large_is_not_looked_at() -> None:
    fault = fault_of("<<<<<<< SEARCH\n" * (ANSWER_CHARACTERS // 15 + 1))

    assert fault.reason is FaultReason.TOO_LARGE
    assert str(ANSWER_CHARACTERS) in fault.message


def test_more_blocks_than_anybody_means_are_refused() -> None:
    blocks = "".join(f"<<<<<<< SEARCH\nOPEN = {n}\n=======\nOPEN = 1\n>>>>>>> REPLACE\n" for n in range(65))

    assert fault_of(blocks).reason is FaultReason.MALFORMED


def test_edit_of_code_from_a_template_is_no_longer_that_template() -> None:
    parent = PARENTS["greedy"]
    text = "<<<<<<< SEARCH\nWIDTH = 10  # branches to open at the start\n=======\nWIDTH = 12\n>>>>>>> REPLACE\n"
    edited = apply(text, EditKind.BLOCKS, (parent,), TEMPLATES)

    assert (edited.template, edited.params) == (None, {})


def test_what_may_be_set_is_told_of_templates_and_of_written_code() -> None:
    assert allowed_values(PARENTS["greedy"], TEMPLATES)["width"] == "an int from 1 to 32"
    assert allowed_values(PARENTS["written"], TEMPLATES) == {
        "OPEN": "an int, now 6",
        "PRICE": "a number, now -0.25",
        "NOTE": "text, now 'a plain one'",
        "patience": "an int, now 12",
    }


def test_parameter_that_a_policy_is_given_moves_into_its_code() -> None:
    """A version is known by its code: the same code with another parameter would pass for the one judged before."""
    source = PARENTS["written"].source.replace('context.params.get("patience", 12)', 'context.params["patience"]')
    parent = replace(PARENTS["written"], source=source, params={"patience": 15, "other": 1})
    edited = apply('{"patience": 30}', EditKind.PARAMETERS, (parent,))

    assert "self.patience = 30\n" in edited.source
    assert edited.params == {"other": 1}


@pytest.mark.parametrize("reason", list(FaultReason))
def test_whatever_is_wrong_is_worth_a_repair_but_a_refusal(reason: FaultReason) -> None:
    assert repairable(ProposalFault(reason, "block 2: its lines stand nowhere")) == (reason is not FaultReason.REFUSED)


@pytest.mark.parametrize("kind", list(EditKind))
def test_form_that_is_asked_for_is_read_as_it_is_shown(kind: EditKind) -> None:
    """The examples in the forms, filled in: what a prompt asks for and what is understood are the same."""
    filled = {
        "lines of the policy": "WIDTH = 10  # branches to open at the start",
        "the lines that take their place": "WIDTH = 12",
        "the whole file, every line of it": PARENTS["written"].source,
        '"a parameter"': '"width"',
        ": 1}": ": 12}",
        "its name": "round_robin",
    }
    answer = REASONS + answer_form(kind).partition("\n\n")[2]
    for shown, meant in filled.items():
        answer = answer.replace(shown, meant)
    edited = apply(answer, kind, (PARENTS["greedy"], PARENTS["round_robin"]), TEMPLATES)

    assert edited.kind is kind
    assert edited.rationale == "why this should gain, in a few sentences"
    assert edited.lesson == "one line worth knowing next time, if any"
