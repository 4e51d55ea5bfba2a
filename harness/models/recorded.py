"""Hands every exchange with a model to whoever stores it, before anybody sees the answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.models.base import Exchange, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.models.base import Answer, Model, Request


def utc_now() -> str:
    """Return this second: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Recorded:
    """A model whose exchanges are kept, the failed ones too. What the sink raises goes before the answer."""

    def __init__(self, model: Model, sink: Callable[[Exchange], None], now: Callable[[], str] = utc_now) -> None:
        self._model = model
        self._sink = sink
        self._now = now

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model.name

    def complete(self, request: Request) -> Answer:
        """Return the answer once it is kept."""
        try:
            answer = self._model.complete(request)
        except ModelError as error:
            self._sink(Exchange(request, None, str(error), self._now(), error.kind))
            raise
        self._sink(Exchange(request, answer, None, self._now()))
        return answer
