"""What is kept of the calls that a run makes to models: for each one who was asked for what, the exchange, and what came of it.

A run's proposer follows from its seed, its history and this record alone, which is how a run that was killed goes on without
asking again what was answered, and how a version is followed back to the prompt that made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.models.base import Exchange


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call was for: the place in the run, from 1, the kind of edit, and the versions to edit."""

    position: int
    kind: str
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an answer. `reason` of None: it became the version at its position; else the fault that kept it from that.

    `message` says of a fault what was told to the model; `lesson` and `rationale` are the model's own words.
    """

    reason: str | None
    message: str = ""
    lesson: str = ""
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it is kept; `number` counts those of its position, from 1. `outcome` is missing where no answer came."""

    asked: Asked
    number: int
    exchange: Exchange
    outcome: Outcome | None = None


class Because(StrEnum):
    """Why the models of a run are asked no more."""

    BUDGET = "budget"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class PutAside:
    """From which position on the models of a run are asked no more, and why; `reason` is a sentence."""

    position: int
    because: Because
    reason: str


class Journal(Protocol):
    """Keeps calls, in order. What it holds already is not kept twice: a call that is made again from the record is the same."""

    def calls(self) -> Sequence[Call]:
        """Return every call of the run, by position and number."""

    def exchanged(self, asked: Asked, number: int, exchange: Exchange) -> None:
        """Keep an exchange, before anybody makes something of its answer."""

    def ended(self, asked: Asked, number: int, outcome: Outcome) -> None:
        """Keep what came of an answer."""

    def aside(self) -> PutAside | None:
        """Return why models are asked no more, None while they are."""

    def put_aside(self, aside: PutAside) -> None:
        """Keep why models are asked no more: for the rest of the run, whoever takes it on."""
