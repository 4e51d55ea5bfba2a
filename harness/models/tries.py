"""What is kept of every try to reach a model, before it leaves: what it may cost at most, and what it did cost once it ended.

A call may take several tries, and a process may be killed in one. A try that was never ended counts as what it may have cost,
so that a cap on a run holds whoever takes the run on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.models.base import Request


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


@dataclass(frozen=True, slots=True)
class Paid:
    """What a try that ended did cost; None where the provider does not say, which is not nothing."""

    usd: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Try:
    """One try: for which request (by digest), of which model, and what it may cost. `paid` is missing until it ends."""

    number: int
    request: str
    model: str
    bound: Charge
    paid: Paid | None = None

    @property
    def charge(self) -> Charge:
        """Return what the try counts as in a budget: what it did cost, or may have cost where that is unknown."""
        return self.bound if self.paid is None else counted(self.bound, self.paid)


def counted(bound: Charge, paid: Paid) -> Charge:
    """Return what was paid, with what a try costs at most in the place of what is unknown."""
    usd = bound.usd if paid.usd is None else paid.usd
    return Charge(usd, bound.tokens if paid.tokens is None else paid.tokens, bound.calls)


class Tries(Protocol):
    """Keeps the tries of a run."""

    def reserved(self, request: Request, bound: Charge) -> int:
        """Keep what a try costs at most, before it leaves, and return its number."""

    def paid(self, number: int, paid: Paid) -> None:
        """Keep what a try did cost."""


class TriesInMemory:
    """Tries that are known as long as their process lives."""

    def __init__(self) -> None:
        self._tries: dict[int, Try] = {}

    @property
    def all(self) -> Sequence[Try]:
        """Return every try in order."""
        return tuple(self._tries.values())

    def reserved(self, request: Request, bound: Charge) -> int:
        """Keep what a try costs at most."""
        number = len(self._tries) + 1
        self._tries[number] = Try(number, request.digest, request.model, bound)
        return number

    def paid(self, number: int, paid: Paid) -> None:
        """Keep what a try did cost."""
        self._tries[number] = replace(self._tries[number], paid=paid)
