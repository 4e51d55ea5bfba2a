"""Exchanges are kept as they happen, and answer the same requests later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import Recorded, Scripted, asked, error_of, said

from harness.models.base import ErrorKind, Exchange, ModelError, ModelTimeout
from harness.models.budget import Budget, Budgeted
from harness.models.replayed import Replayed
from harness.models.retried import Retried
from harness.propose.asking import utc_now

AT = "2026-11-30T20:00:00Z"


def test_time_is_written_as_everywhere_in_the_store() -> None:
    assert utc_now().endswith("Z")
    assert len(utc_now()) == len(AT)


def test_what_was_recorded_is_replayed_to_the_letter() -> None:
    kept: list[Exchange] = []
    requests = [asked(str(n)) for n in range(3)]
    live = Recorded(Scripted([said("a"), ModelTimeout("slow"), said("c", cost_usd=0.5)]), kept.append)
    outcomes = [outcome(live, request) for request in requests]

    again = Replayed("scripted:m", kept)

    assert [outcome(again, request) for request in reversed(requests)] == outcomes[::-1]


def outcome(model: Recorded | Replayed, request: object) -> object:
    """Return the answer, or class and words of the error."""
    try:
        return model.complete(request)
    except ModelError as error:
        return type(error), str(error)


def test_a_request_that_was_never_made_is_an_error() -> None:
    stored = [Exchange(asked("1"), said("stored"), None, AT)]

    assert asked("2").digest[:12] in str(error_of(Replayed("scripted:m", stored), asked("2")))
    assert Replayed("scripted:m", stored).complete(asked("1")).text == "stored"


def test_an_answer_counts_before_failures_with_the_same_request() -> None:
    failed, answered = Exchange(asked(), None, "gone", AT, ErrorKind.UNREACHABLE), Exchange(asked(), said("first"), None, AT)
    later = replace(answered, answer=said("second"))

    for stored in ([failed, answered, later], [answered, failed, later]):
        assert Replayed("scripted:m", stored).complete(asked()).text == "first"


def test_waits_grow_and_differ_between_requests() -> None:
    waits: dict[str, list[float]] = {"1": [], "2": []}
    for text, waited in waits.items():
        error_of(Retried(Scripted([ModelError("busy", again=True)] * 5), sleep=waited.append), asked(text))

    assert len(waits["1"]) == 4
    assert all(later == pytest.approx(2 * earlier) for earlier, later in zip(waits["1"], waits["1"][1:], strict=False))
    assert all(0.5 <= waited[0] <= 0.75 for waited in waits.values())
    assert waits["1"] != waits["2"]


def test_each_try_counts_in_the_budget() -> None:
    budget = Budget(calls=2)
    model = Scripted([ModelError("busy", again=True), said()])

    Retried(Budgeted(model, budget, lambda _: None), sleep=lambda _: None).complete(asked())

    assert budget.spent.calls == 2


def test_who_is_told_to_wait_makes_all_others_wait_that_ask_the_same_model() -> None:
    waited: list[float] = []
    model = Retried(Scripted([ModelError("busy", again=True, wait_s=30.0), said("first"), said("second")]), sleep=waited.append)

    model.complete(asked("1"))
    model.complete(asked("2"))

    assert len(waited) == 2
    assert all(29 < wait <= 30 for wait in waited)
