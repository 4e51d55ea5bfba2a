"""What a live search tells whoever watches, as it goes on. Everything is on record before it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from harness.search import Decision, Finished, Search
    from sandbox.api import Cost, Fault


@dataclass(frozen=True, slots=True)
class Decided:
    """A policy answered. `resumed` is true where the store knew it already."""

    decision: Decision
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt ended. `best` is the best raw score so far, `spent` what all attempts cost, None where one does not know."""

    finished: Finished
    best: float | None
    spent: Cost
    in_flight: int
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class FellBack:
    """The policy broke its contract; another version steers from here on, none where `to` is None."""

    fault: Fault
    version: int
    to: int | None


@dataclass(frozen=True, slots=True)
class SearchOver:
    """The search has ended, and its tree is stored."""

    search: Search
    best: float | None
    spent: Cost
    attempts: int
    rounds: int


Progress: TypeAlias = "Decided | AttemptEnded | FellBack | SearchOver"
