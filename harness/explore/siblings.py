"""What an attempt is told of other branches: what they are trying now, and where each of them has come to.

Pure: the same tree and the same attempts in flight give the same context in the same order. The context is a value that nothing
changes afterwards; it is an argument of one attempt and is kept nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.agents.base import Hypothesis, Sibling, SiblingState
from harness.errors import InputError
from harness.search import SiblingContext
from harness.tree import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.explore.registry import Flight
    from harness.search import Finished
    from harness.tree import Attempt


@dataclass(frozen=True, slots=True)
class SiblingRule:
    """When siblings are told, and how much: at most `count` of them and `chars` characters of what they say.

    Raises:
        InputError: on construction, naming the setting.
    """

    context: SiblingContext = SiblingContext.NEW_BRANCH
    count: int = 8
    chars: int = 4_000

    def __post_init__(self) -> None:
        for name, value in (("sibling_count", self.count), ("sibling_chars", self.chars)):
            if type(value) is not int or value < 1:
                raise InputError(f"{name} is {value!r}; expected a whole number of at least 1")


def siblings(
    rule: SiblingRule, made: Mapping[int, Finished], flights: Sequence[Flight], parent: int | None, direction: Direction
) -> tuple[Sibling, ...]:
    """Return what an attempt from `parent` (None opens a new branch) is told of other branches.

    `made` holds what has ended, by number. Those in flight come first, the newest first; then the tip of each other branch, the
    best first. A tip that is being continued is represented by its continuation.
    """
    if not _wanted(rule.context, made, parent):
        return ()
    own = None if parent is None else _branch(made, parent)
    flying = [flight for flight in flights if own is None or _branch_of(made, flight) != own]
    continued = {flight.parent for flight in flights}
    inner = {one.parent for one in made.values()}
    tips = [
        one
        for number, one in made.items()
        if number not in inner and number not in continued and (own is None or _branch(made, number) != own)
    ]
    sense = 1.0 if direction is Direction.MAX else -1.0
    tips.sort(key=lambda one: (one.attempt.score is None, -sense * (one.attempt.score or 0.0), -one.number))
    told = [
        Sibling(flight.attempt, SiblingState.IN_FLIGHT, flight.hypothesis, flight.strategy)
        for flight in sorted(flying, key=lambda flight: -flight.number)
    ]
    return _capped([*told, *map(_told, tips)], rule)


def hypothesis_of(attempt: Attempt) -> Hypothesis:
    """Return what a recorded attempt set out to try; one that was recorded elsewhere has a statement alone."""
    parts = attempt.extra.get("hypothesis_parts")
    if not isinstance(parts, dict):
        return Hypothesis(statement=attempt.hypothesis)
    return Hypothesis(*(str(parts.get(name, "")) for name in Hypothesis.__slots__))


def _wanted(context: SiblingContext, made: Mapping[int, Finished], parent: int | None) -> bool:
    if context is SiblingContext.OFF:
        return False
    if parent is None or context is SiblingContext.ALWAYS:
        return True
    return context is SiblingContext.UNTIL_SUCCESS and not any(made[one].attempt.score is not None for one in _way(made, parent))


def _way(made: Mapping[int, Finished], number: int | None) -> list[int]:
    """Return an attempt and those that it descends from, as far as they are known."""
    way = []
    while number is not None and number in made:
        way.append(number)
        number = made[number].parent
    return way


def _branch(made: Mapping[int, Finished], number: int) -> int | None:
    way = _way(made, number)
    return way[-1] if way else None


def _branch_of(made: Mapping[int, Finished], flight: Flight) -> int | None:
    """Return the branch that a flight belongs to; one of an unknown parent is a branch of its own."""
    return flight.number if flight.parent is None else _branch(made, flight.parent) or flight.number


def _told(one: Finished) -> Sibling:
    attempt = one.attempt
    state = SiblingState.FAILED if attempt.score is None else SiblingState.SUCCEEDED
    return Sibling(attempt.id, state, hypothesis_of(attempt), str(attempt.extra.get("strategy", "")), attempt.score)


def _capped(told: Sequence[Sibling], rule: SiblingRule) -> tuple[Sibling, ...]:
    """Keep the first, as far as there is room; one that says more than what is left is left out, and silences nobody."""
    kept: list[Sibling] = []
    left = rule.chars
    for one in told:
        chars = len(one.hypothesis.sentence()) + len(one.strategy)
        if chars <= left and len(kept) < rule.count:
            kept.append(one)
            left -= chars
    return tuple(kept)
