"""Caps on money, tokens and calls, kept before they are passed: what is in flight counts as what it may come to cost."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import HarnessError, InputError
from harness.models.base import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.models.base import Answer, Exchange, Model, Request

_FRAME_TOKENS = 32
"""What a chat template may put around each message."""


class BudgetSpentError(HarnessError):
    """Another call could pass a cap, so it is not made. Nothing failed: what has been found so far stands."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What calls cost, or may cost. `usd` of None is unknown."""

    usd: float | None = 0.0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Charge) -> Charge:
        """Return both together; unknown money makes all of it unknown."""
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Charge(usd, self.tokens + other.tokens, self.calls + other.calls)


def most_input_tokens(request: Request) -> int:
    """Return what the request's text comes to at most: no tokenizer makes more tokens than there are bytes."""
    return sum(len(m.text.encode("utf-8", "surrogatepass")) + _FRAME_TOKENS for m in request.messages)


def most(request: Request, usd: float | None) -> Charge:
    """Return what a call costs at most; `usd` is that in money, None where its price is unknown."""
    return Charge(usd, most_input_tokens(request) + request.max_output_tokens, 1)


def charged(bound: Charge, outcome: Answer | ModelError) -> Charge:
    """Return what a call did cost. Where the provider does not say, it is what it cost at most, never nothing."""
    if isinstance(outcome, ModelError):
        return bound if outcome.billed else Charge(0.0, 0, 1)
    counted = (outcome.usage.input_tokens, outcome.usage.output_tokens)
    tokens = bound.tokens if None in counted else sum(count or 0 for count in counted)
    return Charge(bound.usd if outcome.cost_usd is None else outcome.cost_usd, tokens, 1)


def spent_on(exchanges: Iterable[Exchange], most_usd: Callable[[Request], float | None]) -> Charge:
    """Return what stored exchanges did cost: where the budget of a resumed run begins."""
    total = Charge()
    for exchange in exchanges:
        bound = most(exchange.request, most_usd(exchange.request))
        try:
            total += charged(bound, exchange.outcome())
        except ModelError as error:
            total += charged(bound, error)
    return total


class Budget:
    """What may be spent, by however many threads. None is no cap."""

    def __init__(
        self, usd: float | None = None, tokens: int | None = None, calls: int | None = None, spent: Charge | None = None
    ) -> None:
        self.usd = usd
        self.tokens = tokens
        self.calls = calls
        self._spent = Charge() if spent is None else spent
        self._in_flight: list[Charge] = []
        self._lock = threading.Lock()

    @property
    def spent(self) -> Charge:
        """Return what is settled."""
        with self._lock:
            return self._spent

    @property
    def in_flight(self) -> Charge:
        """Return what is reserved and not settled yet."""
        with self._lock:
            return sum(self._in_flight, Charge())

    def reserve(self, bound: Charge) -> None:
        """Set aside what a call costs at most; to be settled whatever comes of it.

        Raises:
            BudgetSpentError: a cap could be passed.
            InputError: there is a cap on money and the price is unknown.
        """
        with self._lock:
            if self.usd is not None and (bound.usd is None or self._spent.usd is None):
                raise InputError(
                    "budget_usd caps money, but the price of a model is unknown; give it with model_price, or cap tokens or calls"
                )
            ahead = sum(self._in_flight, self._spent) + bound
            for cap, total, word in self._caps(ahead):
                if cap is not None and total is not None and total > cap:
                    raise BudgetSpentError(
                        f"the next call could pass the budget of {cap:g} {word}: {total:g} with what is spent and in flight"
                    )
            self._in_flight.append(bound)

    def settle(self, bound: Charge, cost: Charge) -> None:
        """Put what a call did cost in the place of what was set aside for it."""
        with self._lock:
            self._in_flight.remove(bound)
            self._spent += cost

    def _caps(self, total: Charge) -> tuple[tuple[float | None, float | None, str], ...]:
        return (
            (self.usd, total.usd, "USD"),
            (self.tokens, total.tokens, "tokens"),
            (self.calls, total.calls, "calls"),
        )


class Budgeted:
    """A model within a budget, which several may share. `most_usd` says what a request costs at most, None if unknown."""

    def __init__(self, model: Model, budget: Budget, most_usd: Callable[[Request], float | None]) -> None:
        self._model = model
        self._budget = budget
        self._most_usd = most_usd

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model.name

    def complete(self, request: Request) -> Answer:
        """Return the answer, if the budget covers what it may cost."""
        bound = most(request, self._most_usd(request))
        self._budget.reserve(bound)
        # Whoever is interrupted may have been billed.
        cost = bound
        try:
            answer = self._model.complete(request)
            cost = charged(bound, answer)
        except ModelError as error:
            cost = charged(bound, error)
            raise
        finally:
            self._budget.settle(bound, cost)
        return answer
