"""What calls count as for the bandit: in one unit, and what may have been paid for is not free."""

from __future__ import annotations

from harness.models.base import Answer, ErrorKind, Exchange, Finish, Request, Usage
from harness.models.journal import Asked, Call
from harness.propose.model import costs


def answered(model: str, usd: float | None, tokens: tuple[int | None, int | None] = (None, None)) -> Call:
    answer = Answer("", Usage(*tokens), usd, Finish.STOP, 1.0, model)
    return Call(Asked(1, "whole", ()), 1, Exchange(Request((), model, 0.7, None, 100, 1.0), answer, None, "now"))


def without_answer(model: str, kind: ErrorKind) -> Call:
    exchange = Exchange(Request((), model, 0.7, None, 100, 1.0), None, "no answer", "now", kind)
    return Call(Asked(1, "whole", ()), 1, exchange)


def test_a_call_that_was_not_answered_in_time_counts_as_the_dearest_answer_of_its_model() -> None:
    calls = [answered("a", 0.01), answered("a", 0.03), answered("b", 0.5), without_answer("a", ErrorKind.TIMEOUT)]

    assert costs(calls) == [0.01, 0.03, 0.5, 0.03]


def test_where_its_model_never_answered_it_counts_as_the_dearest_of_any() -> None:
    assert costs([answered("a", 0.01), answered("b", 0.5), without_answer("c", ErrorKind.TIMEOUT)]) == [0.01, 0.5, 0.5]


def test_what_was_turned_down_cost_nothing() -> None:
    refused = [without_answer("a", kind) for kind in (ErrorKind.UNREACHABLE, ErrorKind.OVERFLOW)]

    assert costs([answered("a", 0.01), *refused]) == [0.01, 0.0, 0.0]


def test_where_some_money_is_unknown_tokens_count_and_where_those_are_too_each_call_is_one() -> None:
    late = without_answer("a", ErrorKind.TIMEOUT)

    assert costs([answered("a", None, (7, 3)), answered("b", 0.5, (1, 1)), late]) == [10.0, 2.0, 10.0]
    assert costs([answered("a", None), answered("b", 0.5), late]) == [1.0, 1.0, 1.0]
    assert costs([late]) == [0.0]
