"""Caps on money, tokens and calls, kept before they are passed: what is in flight counts as what it may come to cost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from harness.errors import HarnessError, InputError
from harness.models.base import ModelError
from harness.models.tries import Charge, Paid, TriesInMemory, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.models.base import Answer, Model, Request
    from harness.models.tries import Tries

_FRAME_TOKENS = 32
"""What a chat template may put around each message."""


class BudgetSpentError(HarnessError):
    """Another call could pass a cap, so it is not made. Nothing failed: what has been found so far stands."""


def most_input_tokens(request: Request) -> int:
    """Return what the request's text comes to at most: no tokenizer makes more tokens than there are bytes."""
    return sum(len(m.text.encode("utf-8", "surrogatepass")) + _FRAME_TOKENS for m in request.messages)


def most(request: Request, usd: float | None) -> Charge:
    """Return what a call costs at most; `usd` is that in money, None where its price is unknown."""
    return Charge(usd, most_input_tokens(request) + request.max_output_tokens, 1)


def paid_for(bound: Charge, outcome: Answer | ModelError) -> Paid:
    """Return what a try did cost. What the provider may have worked on and does not say is unknown, never nothing."""
    if isinstance(outcome, ModelError):
        return _unsaid(bound) if outcome.billed else Paid(0.0, 0)
    tokens = outcome.usage.input_tokens, outcome.usage.output_tokens
    unsaid = _unsaid(bound)
    return Paid(
        unsaid.usd if outcome.cost_usd is None else outcome.cost_usd,
        None if tokens[0] is None or tokens[1] is None else tokens[0] + tokens[1],
    )


def _unsaid(bound: Charge) -> Paid:
    # What costs nothing at most cost nothing.
    return Paid(0.0 if bound.usd == 0 else None, None)


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
    """A model within a budget, which several may share. `most_usd` says what a request costs at most, None if unknown.

    What a try may cost is kept in `tries` before it leaves, and what it did cost when it ends.
    """

    def __init__(
        self, model: Model, budget: Budget, most_usd: Callable[[Request], float | None], tries: Tries | None = None
    ) -> None:
        self._model = model
        self._budget = budget
        self._most_usd = most_usd
        self._tries: Tries = TriesInMemory() if tries is None else tries

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model.name

    def complete(self, request: Request) -> Answer:
        """Return the answer, if the budget covers what it may cost."""
        bound = most(request, self._most_usd(request))
        self._budget.reserve(bound)
        cost = Charge()
        try:
            number = self._tries.reserved(request, bound)
            # Whoever is interrupted may have been billed.
            cost, paid = bound, _unsaid(bound)
            try:
                answer = self._model.complete(request)
                paid = paid_for(bound, answer)
            except ModelError as error:
                paid = paid_for(bound, error)
                raise
            finally:
                cost = counted(bound, paid)
                self._tries.paid(number, paid)
        finally:
            self._budget.settle(bound, cost)
        return answer
