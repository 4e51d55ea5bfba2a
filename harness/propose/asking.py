"""Ask models on behalf of a run: each question once, whoever takes the run on, and every exchange kept before it is used."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from harness.models.base import ErrorKind, Exchange, ModelError
from harness.models.journal import Call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.models.base import Answer, Model, Request
    from harness.models.journal import Asked, Journal, Outcome


def utc_now() -> str:
    """Return this second: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Answered(NamedTuple):
    """An answer and where it is kept."""

    asked: Asked
    number: int
    answer: Answer


class Asker:
    """Models by their names, with the journal of one run."""

    def __init__(self, models: Mapping[str, Model], journal: Journal) -> None:
        self._models = models
        self._journal = journal
        # Read once: a run's prompts add up to much, and only this run adds to them.
        self._calls = {(call.asked.position, call.number): call for call in journal.calls()}
        self._used: set[tuple[int, int]] = set()
        # What a run stopped at is asked once more: the last call, where it had no answer in time.
        self._last = max(self._calls, default=None)

    def calls_before(self, position: int) -> Sequence[Call]:
        """Return the calls for earlier positions, in order: what the next choice may depend on."""
        return [self._calls[place] for place in sorted(self._calls) if place[0] < position]

    def ask(self, asked: Asked, request: Request) -> Answered:
        """Return the answer, from the journal where the question was answered before.

        Raises:
            ModelError: there is none. One that was too long (ContextOverflow) stays so, as does one that took too long
                (ModelTimeout) unless the run stopped there; else it is asked again another time.
            BudgetSpentError: it may not be asked.
        """
        here = [call for place, call in sorted(self._calls.items()) if place[0] == asked.position]
        for call in here:
            place = asked.position, call.number
            if place not in self._used and call.exchange.request.digest == request.digest and self._stands(call):
                self._used.add(place)
                return Answered(asked, call.number, call.exchange.outcome())
        number = max((call.number for call in here), default=0) + 1
        try:
            answer = self._models[request.model].complete(request)
        except ModelError as error:
            self._keep(asked, number, Exchange(request, None, str(error), utc_now(), error.kind))
            raise
        self._keep(asked, number, Exchange(request, answer, None, utc_now()))
        return Answered(asked, number, answer)

    def end(self, answered: Answered, outcome: Outcome) -> None:
        """Keep what came of an answer."""
        self._journal.ended(answered.asked, answered.number, outcome)
        place = answered.asked.position, answered.number
        self._calls[place] = replace(self._calls[place], outcome=outcome)

    def late(self) -> int:
        """Return how many calls of this process had no answer in time, in a row, the last one included."""
        kinds = [self._calls[place].exchange.kind for place in sorted(self._used, reverse=True)]
        return next((count for count, kind in enumerate(kinds) if kind is not ErrorKind.TIMEOUT), len(kinds))

    def _stands(self, call: Call) -> bool:
        """Return whether asking again would say nothing new."""
        kind, place = call.exchange.kind, (call.asked.position, call.number)
        late = kind is ErrorKind.TIMEOUT and place != self._last
        return call.exchange.answer is not None or kind is ErrorKind.OVERFLOW or late

    def _keep(self, asked: Asked, number: int, exchange: Exchange) -> None:
        self._journal.exchanged(asked, number, exchange)
        self._calls[asked.position, number] = Call(asked, number, exchange)
        self._used.add((asked.position, number))
