"""Answers from exchanges that were stored: a run is taken up, or made again, without asking twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.models.base import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.models.base import Answer, Exchange, Request


class Replayed:
    """A model of this name as it answered once. Where nothing was stored there is no answer: an error.

    Of several exchanges with one request the first that was answered counts. A request that only ever failed fails again in
    the same way: leave out of `exchanges` the failures that are to be asked once more.
    """

    def __init__(self, name: str, exchanges: Iterable[Exchange]) -> None:
        self.name = name
        self._known: dict[str, Exchange] = {}
        for exchange in exchanges:
            known = self._known.get(exchange.request.digest)
            if known is None or known.answer is None:
                self._known[exchange.request.digest] = exchange

    def complete(self, request: Request) -> Answer:
        """Return the answer that was stored."""
        exchange = self._known.get(request.digest)
        if exchange is not None:
            return exchange.outcome()
        raise ModelError(
            f"{self.name}: no stored answer to request {request.digest[:12]}; a replayed run must have the trees, settings "
            "and seed of the recorded one, and the same version of the harness"
        )
