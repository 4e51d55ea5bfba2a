"""Attempts in flight: what each of them sets out to try, from the moment it was asked for until it has ended.

An attempt is registered before control goes back to whoever asked for it, so that the next one sees it, and is taken out however
it ends: when a search is idle the registry is empty.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.agents.base import Hypothesis

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Flight:
    """One attempt in flight. `parent` is the number of the attempt that it continues, None for a new branch."""

    attempt: str
    number: int
    parent: int | None
    hypothesis: Hypothesis = field(default_factory=Hypothesis)
    strategy: str = ""


class Registry:
    """Flights by attempt, in the order of their numbers. May be used from several threads at once."""

    def __init__(self, flights: Iterable[Flight] = ()) -> None:
        self._flights = {flight.attempt: flight for flight in flights}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._flights)

    def add(self, flight: Flight) -> None:
        """Register a flight; one of the same attempt is replaced."""
        with self._lock:
            self._flights[flight.attempt] = flight

    def remove(self, attempt: str) -> None:
        """Take a flight out; one that is not there is none the less gone."""
        with self._lock:
            self._flights.pop(attempt, None)

    def reset(self) -> None:
        """Take every flight out."""
        with self._lock:
            self._flights.clear()

    def snapshot(self) -> tuple[Flight, ...]:
        """Return the flights as they are now; later changes do not reach what was returned."""
        with self._lock:
            return tuple(sorted(self._flights.values(), key=lambda flight: flight.number))
