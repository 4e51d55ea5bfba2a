"""Exchanges are kept as they happen, and answer the same requests later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import Scripted, asked, error_of, said

from harness.models.base import ContextOverflow, ErrorKind, Exchange, ModelError, ModelTimeout
from harness.models.budget import Budget, Budgeted
from harness.models.recorded import Recorded, utc_now
from harness.models.replayed import Replayed
from harness.models.retried import Retried

AT = "2026-11-30T20:00:00Z"


def test_every_exchange_is_handed_over_the_failed_ones_too() -> None:
    kept: list[Exchange] = []
    model = Recorded(Scripted([said(), ModelTimeout("slow"), ContextOverflow("long")]), kept.append, lambda: AT)
    first, second, third = asked("1"), asked("2"), asked("3")

    model.complete(first)
    error_of(model, second)
    error_of(model, third)

    assert kept == [
        Exchange(first, said(), None, AT),
        Exchange(second, None, "slow", AT, ErrorKind.TIMEOUT),
        Exchange(third, None, "long", AT, ErrorKind.OVERFLOW),
    ]


def test_nobody_sees_an_answer_that_could_not_be_kept() -> None:
    def full(_: Exchange) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Recorded(Scripted([said()]), full).complete(asked())


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


def test_a_request_that_was_never_made_is_an_error_without_a_live_model_and_is_asked_with_one() -> None:
    stored = [Exchange(asked("1"), said("stored"), None, AT)]
    live = Scripted([said("live")])

    assert asked("2").digest[:12] in str(error_of(Replayed("scripted:m", stored), asked("2")))
    assert Replayed("scripted:m", stored, live).complete(asked("1")).text == "stored"
    assert Replayed("scripted:m", stored, live).complete(asked("2")).text == "live"
    assert live.requests == [asked("2")]


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
