"""A budget is kept before it is passed: whatever is in flight counts as what it may come to cost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from asking import Scripted, asked, said
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError, StoreError
from harness.models import naming, prices
from harness.models.base import Answer, ModelError, ModelTimeout, Usage
from harness.models.budget import Budget, Budgeted, BudgetSpentError, most, most_input_tokens
from harness.models.tries import Charge, Paid, TriesInMemory, Try

if TYPE_CHECKING:
    from harness.models.base import Request


def test_the_call_that_could_pass_the_cap_on_money_is_not_made() -> None:
    model = Scripted([said(cost_usd=0.4), said(cost_usd=0.4)])
    budget = Budget(usd=1.0)
    capped = Budgeted(model, budget, lambda _: 0.5)

    capped.complete(asked())
    capped.complete(asked())
    with pytest.raises(BudgetSpentError, match=r"could pass the budget of 1 USD: 1\.3"):
        capped.complete(asked())

    assert len(model.requests) == 2
    assert budget.spent.usd == pytest.approx(0.8)


def test_the_call_that_could_pass_the_cap_on_tokens_is_not_made() -> None:
    request = asked("x" * 100, max_output_tokens=50)
    bound = most_input_tokens(request) + 50
    budget = Budget(tokens=bound + 4)
    capped = Budgeted(Scripted([said(), said()]), budget, lambda _: None)

    capped.complete(request)
    capped.complete(request)
    with pytest.raises(BudgetSpentError, match="tokens"):
        capped.complete(request)

    assert budget.spent.tokens == 8


def test_calls_that_fail_count_as_calls_and_cost_what_they_may_have_cost() -> None:
    request, budget = asked(), Budget(usd=1.0, calls=2)
    capped = Budgeted(Scripted([ModelError("turned down"), ModelTimeout("slow", billed=True)]), budget, lambda _: 0.3)

    for _ in range(2):
        with pytest.raises(ModelError):
            capped.complete(request)
    with pytest.raises(BudgetSpentError, match="2 calls"):
        capped.complete(request)

    assert budget.spent == Charge(0.3, most(request, 0.3).tokens, 2)
    assert budget.in_flight == Charge()


def test_an_answer_without_figures_costs_what_it_may_have_cost() -> None:
    budget, request = Budget(usd=10.0), asked()

    Budgeted(Scripted([said(usage=Usage())]), budget, lambda _: 0.5).complete(request)

    assert budget.spent == Charge(0.5, most(request, None).tokens, 1)


def test_whoever_is_interrupted_may_have_been_billed() -> None:
    budget = Budget(usd=1.0)

    with pytest.raises(KeyboardInterrupt):
        Budgeted(Scripted([KeyboardInterrupt()]), budget, lambda _: 0.5).complete(asked())

    assert (budget.spent.usd, budget.in_flight) == (0.5, Charge())


def test_a_cap_on_money_needs_a_price() -> None:
    model = Scripted([said()])

    with pytest.raises(InputError, match="model_price"):
        Budgeted(model, Budget(usd=1.0), lambda _: None).complete(asked())

    assert model.requests == []


def test_a_cap_of_nothing_lets_nothing_through() -> None:
    model = Scripted([])

    with pytest.raises(BudgetSpentError):
        Budgeted(model, Budget(calls=0), lambda _: None).complete(asked())


class Held:
    """A model that answers when it is let go."""

    name = "scripted:held"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Answer:
        """Answer, once that is allowed."""
        self.requests.append(request)
        assert self.go.wait(20)
        return said(cost_usd=0.05)


def test_what_is_in_flight_counts() -> None:
    """Eight ask at once and three may: each could cost 0.3 of 1 USD, though it costs 0.05 in the end."""
    held, budget = Held(), Budget(usd=1.0)
    capped = Budgeted(held, budget, lambda _: 0.3)

    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(capped.complete, asked()) for _ in range(8)]
        refused = list(islice(as_completed(calls, timeout=20), 5))
        in_flight = budget.in_flight
        held.go.set()

    assert [type(call.exception()) for call in refused] == [BudgetSpentError] * 5
    assert (in_flight.usd, in_flight.calls, len(held.requests)) == (pytest.approx(0.9), 3, 3)
    assert (budget.spent.usd, budget.in_flight.calls) == (pytest.approx(0.15), 0)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=30), st.integers(0, 400))
def test_no_cap_is_ever_passed_where_no_call_costs_more_than_its_bound(calls: list[tuple[int, int]], cap: int) -> None:
    budget = Budget(tokens=cap)
    for bound, share in calls:
        try:
            budget.reserve(Charge(0.0, bound, 1))
        except BudgetSpentError:
            continue
        assert budget.spent.tokens + budget.in_flight.tokens <= cap
        budget.settle(Charge(0.0, bound, 1), Charge(0.0, bound * share // 100, 1))
    assert budget.spent.tokens <= cap


def test_what_a_try_may_cost_is_kept_before_it_leaves_and_what_it_did_cost_once_it_ended() -> None:
    tries, request = TriesInMemory(), asked()
    bound = most(request, 0.5)
    seen: list[Try] = []

    class Looking(Scripted):
        def complete(self, request: Request) -> Answer:
            seen.append(tries.all[-1])
            return super().complete(request)

    script = [said(cost_usd=0.2), said(usage=Usage()), ModelError("turned down"), ModelTimeout("slow", billed=True)]
    budgeted = Budgeted(Looking([*script, KeyboardInterrupt()]), Budget(usd=9.0), lambda _: 0.5, tries)
    budgeted.complete(request)
    budgeted.complete(request)
    for error in (ModelError, ModelTimeout, KeyboardInterrupt):
        with pytest.raises(error):
            budgeted.complete(request)

    assert [(one.paid, one.bound) for one in seen] == [(None, bound)] * 5
    nothing_said = Paid(None, None)
    assert [one.paid for one in tries.all] == [Paid(0.2, 4), nothing_said, Paid(0.0, 0), nothing_said, nothing_said]
    assert [one.charge for one in tries.all] == [Charge(0.2, 4, 1), bound, Charge(0.0, 0, 1), bound, bound]
    assert seen[0].charge == bound  # as it would count had nobody seen its end


def test_a_try_of_a_model_that_costs_nothing_cost_nothing_whatever_became_of_it() -> None:
    tries = TriesInMemory()

    with pytest.raises(ModelTimeout):
        Budgeted(Scripted([ModelTimeout("slow", billed=True)]), Budget(), lambda _: 0.0, tries).complete(asked())

    assert tries.all[0].paid == Paid(0.0, None)


def test_nothing_leaves_that_could_not_be_kept_before() -> None:
    class Full(TriesInMemory):
        def reserved(self, request: Request, bound: Charge) -> int:
            del request, bound
            raise StoreError("no room on the disk")

    model, budget = Scripted([said()]), Budget(calls=1)

    with pytest.raises(StoreError):
        Budgeted(model, budget, lambda _: None, Full()).complete(asked())

    assert (model.requests, budget.spent, budget.in_flight) == ([], Charge(), Charge())


@pytest.mark.parametrize("text", ["x" * 1000, "🌳" * 100, "def f(x):\n    return x\n" * 50, ""])
def test_no_tokenizer_makes_more_of_a_text_than_is_reserved(text: str) -> None:
    tiktoken = pytest.importorskip("tiktoken")

    # Its vocabularies come over the network; the bytes themselves are the longest that any of them makes.
    encoding = tiktoken.Encoding(
        "bytes", pat_str=r"[\s\S]", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
    )

    assert len(encoding.encode(text)) <= most_input_tokens(asked(text))


def test_prices_come_from_the_operator_before_the_client_and_else_are_unknown() -> None:
    local = "openai-compatible:m@http://127.0.0.1:8080/v1"
    given_ = prices.parse([f"{local}=1/2"])
    request = asked("x" * 968, max_output_tokens=500)

    assert prices.most_usd(naming.parse(local), given_)(request) == pytest.approx((1000 * 1 + 500 * 2) / 1e6)
    assert prices.most_usd(naming.parse(local), {})(request) is None
    assert prices.most_usd(naming.parse("openai:gpt-4o-mini"), {})(request) == pytest.approx((1000 * 0.15 + 500 * 0.6) / 1e6)
    assert prices.most_usd(naming.parse("openai:no-such-model-ever"), {})(request) is None


@pytest.mark.parametrize("text", ["openai:m", "openai:m=1", "openai:m=1/x", "openai:m=-1/2", "openai:m=nan/1", "=1/2", "m=1/2"])
def test_what_is_no_price_is_named(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        prices.parse([text])
