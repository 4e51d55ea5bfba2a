"""What is sent to a model and what comes back, as records that keep."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.errors import HarnessError, InputError
from harness.models.base import (
    Answer,
    ContextOverflow,
    ErrorKind,
    Exchange,
    Finish,
    Message,
    ModelError,
    ModelTimeout,
    Request,
    Role,
    Usage,
    exchange_fields,
    exchange_of,
)

ASKED = Request((Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Grüße 🌳\r\n\ttab")), "openai:m", 0.7, 3, 100, 30.0)
ANSWERED = Answer("Yes.", Usage(12, 2), None, Finish.STOP, 0.5, "m-2026")


def test_the_digest_is_the_same_on_every_machine_and_in_every_release() -> None:
    """Stored answers are found under it for years."""
    assert ASKED.digest == "29f3a91ac018bbfb0b1fb515650f3d5a2326c3fcffd6c3aa0db70372e907688e"


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, messages=(*ASKED.messages, Message(Role.ASSISTANT, ""))),
        replace(ASKED, messages=(Message(Role.USER, "Be brief."), ASKED.messages[1])),
        replace(ASKED, model="openai:n"),
        replace(ASKED, temperature=0.8),
        replace(ASKED, seed=None),
        replace(ASKED, max_output_tokens=101),
    ],
)
def test_whatever_an_answer_depends_on_changes_the_digest(other: Request) -> None:
    assert other.digest != ASKED.digest


def test_patience_does_not_change_the_digest() -> None:
    assert replace(ASKED, timeout_s=5.0).digest == ASKED.digest


def test_text_that_is_no_unicode_has_a_digest_too() -> None:
    assert replace(ASKED, messages=(Message(Role.USER, "\ud800"),)).digest != ASKED.digest


@pytest.mark.parametrize(
    "exchange",
    [
        Exchange(ASKED, ANSWERED, None, "2026-11-30T20:00:00Z"),
        Exchange(ASKED, None, "no answer in 30 s", "2026-11-30T20:00:00Z", ErrorKind.TIMEOUT),
    ],
)
def test_an_exchange_survives_json(exchange: Exchange) -> None:
    assert exchange_of(json.loads(json.dumps(exchange_fields(exchange)))) == exchange


@pytest.mark.parametrize("error", [ModelError, ModelTimeout, ContextOverflow])
def test_an_error_comes_out_of_an_exchange_as_what_it_was(error: type[ModelError]) -> None:
    with pytest.raises(ModelError, match="gone") as raised:
        Exchange(ASKED, None, "gone", "2026-11-30T20:00:00Z", error.kind).outcome()

    assert type(raised.value) is error


def test_a_model_out_of_reach_is_an_error_of_ours_and_no_bad_input() -> None:
    """So that a command ends in exit 3, and a run can be resumed."""
    assert issubclass(ModelError, HarnessError)
    assert not issubclass(ModelError, InputError)
