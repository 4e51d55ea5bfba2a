"""Which of several tries at one pick is kept.

A selector is given the tries, never changes them, and names one by its place. Those that have a name stand in `BUILT_IN`; a
`Selectors` holds them with the ones that others add.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from harness.errors import InputError
from sandbox.api import Cost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

NOTHING_SPENT = Cost(0.0, 0.0, 0.0)
JUDGE = "judge"
"""The selector that asks a model (`harness.explore.judging`); it takes a model to be one."""


@dataclass(frozen=True, slots=True)
class Try:
    """One of several tries at a pick, as selectors see it.

    `score` is larger-is-better, None where the evaluator gave none: such a try is unverified. `output` is what the agent said.
    `ended` counts the tries in the order in which they ended, from 0.
    """

    index: int
    strategy: str
    succeeded: bool
    score: float | None
    output: str
    feedback: str
    seconds: float
    ended: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Which try is kept, by place; `words` say where that was not the selector's own doing. `cost` is what choosing took."""

    place: int
    words: str = ""
    cost: Cost = NOTHING_SPENT


Selector: TypeAlias = "Callable[[Sequence[Try]], int | Choice | Awaitable[int | Choice]]"


def first_successful(tries: Sequence[Try]) -> int:
    """Return the first try that succeeded, by index; the first of all where none did."""
    _refuse_none(tries)
    return next((place for place, one in enumerate(tries) if one.succeeded), 0)


def longest_output(tries: Sequence[Try]) -> int:
    """Return the successful try whose agent said most; ties go to the lowest index."""
    return _first_of(tries, lambda one: len(one.output))


def shortest_output(tries: Sequence[Try]) -> int:
    """Return the successful try whose agent said least; ties go to the lowest index."""
    return _first_of(tries, lambda one: -len(one.output))


def best_score(tries: Sequence[Try]) -> int:
    """Return the try with the highest score; one with a score beats any without, ties go to the lowest index."""
    _refuse_none(tries)
    scored = [(one.score, -place) for place, one in enumerate(tries) if one.score is not None and one.succeeded]
    return -max(scored)[1] if scored else first_successful(tries)


BUILT_IN: Mapping[str, Selector] = {
    "first_successful": first_successful,
    "longest_output": longest_output,
    "shortest_output": shortest_output,
    "best_score": best_score,
}


class Selectors:
    """Selectors by name: the built-in ones, and those that were registered."""

    def __init__(self) -> None:
        self._named: dict[str, Selector] = dict(BUILT_IN)

    def register(self, name: str, selector: Selector) -> None:
        """Give a selector a name.

        Raises:
            InputError: the name is empty or taken.
        """
        if not name.strip():
            raise InputError(f"selector name {name!r} is blank; expected a word")
        if name in self._named:
            raise InputError(f"selector {name!r} is taken; known are {', '.join(self._named)}")
        self._named[name] = selector

    def named(self, name: str) -> Selector:
        """Return the selector of this name.

        Raises:
            InputError: there is none.
        """
        if name not in self._named:
            known = ", ".join((*self._named, JUDGE, "package.module:function"))
            raise InputError(f"rollout_selector is {name!r}; expected one of {known}")
        return self._named[name]


def choose(selector: Selector, tries: Sequence[Try]) -> Choice:
    """Return what a selector chooses; where it raises or names no try, the first successful one, and why.

    Raises:
        ValueError: there are no tries.
    """
    _refuse_none(tries)
    given = tuple(tries)
    try:
        answer = selector(given)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_awaited(answer))
    except Exception as error:  # noqa: BLE001 - a selector is somebody's code, and a try is kept whatever it does
        return Choice(
            first_successful(given), f"the selector raised {type(error).__name__}: {error}; the first successful is kept"
        )
    choice = answer if isinstance(answer, Choice) else Choice(answer)
    if type(choice.place) is not int or not 0 <= choice.place < len(given):
        words = f"the selector named try {choice.place!r} of {len(given)}; the first successful is kept"
        return Choice(first_successful(given), words, choice.cost)
    return choice


async def _awaited(answer: Awaitable[int | Choice]) -> int | Choice:
    return await answer


def _first_of(tries: Sequence[Try], worth: Callable[[Try], int]) -> int:
    _refuse_none(tries)
    good = [place for place, one in enumerate(tries) if one.succeeded]
    return max(good, key=lambda place: (worth(tries[place]), -place), default=0)


def _refuse_none(tries: Sequence[Try]) -> None:
    if not tries:
        raise ValueError("there are no tries to choose from")
