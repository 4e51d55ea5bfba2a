"""Asks again where that may help, after the time that the provider names or a growing one of ours; never else."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from harness.models.base import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.models.base import Answer, Model, Request

log = structlog.get_logger()

TRIES = 5
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
"""Who is told to wait for longer is told so: a run that seems to hang for an hour is worse than one to be resumed."""


class Retried:
    """A model that is asked up to `tries` times. A provider's wish to be left alone holds for all threads that ask it."""

    def __init__(
        self, model: Model, tries: int = TRIES, first_wait_s: float = FIRST_WAIT_S, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._model = model
        self._tries = tries
        self._first_wait_s = first_wait_s
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = 0.0

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model.name

    def complete(self, request: Request) -> Answer:
        """Return the answer; its latency counts from the first try."""
        began = time.monotonic()
        for tried in range(1, self._tries + 1):
            self._wait_until_free()
            asked = time.monotonic()
            try:
                answer = self._model.complete(request)
            except ModelError as error:
                if not error.again or tried == self._tries:
                    raise
                if (error.wait_s or 0.0) > LONGEST_WAIT_S:
                    raise
                self._hold_off(error, self._backoff(request, tried))
            else:
                return replace(answer, latency_s=answer.latency_s + asked - began)
        raise ModelError(f"{self.name} may not be asked at all: 0 tries; expected at least 1")

    def _backoff(self, request: Request, tried: int) -> float:
        """Return the seconds until the next try. Requests that failed together do not come back together."""
        spread = int(request.digest[:8], 16) / 2**32
        return min(LONGEST_WAIT_S, self._first_wait_s * 2.0 ** (tried - 1) * (1 + spread / 2))

    def _hold_off(self, error: ModelError, backoff_s: float) -> None:
        wait_s = max(error.wait_s or 0.0, backoff_s)
        log.warning("model.held_off", model=self.name, wait_s=round(wait_s, 1), reason=str(error))
        if error.wait_s is None:
            self._sleep(wait_s)
            return
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + wait_s)

    def _wait_until_free(self) -> None:
        with self._lock:
            wait_s = self._free_at - time.monotonic()
        if wait_s > 0:
            self._sleep(wait_s)
