"""When a live search may not go on: rounds and attempts as in a replay, and what attempts may use.

A cap counts what is in flight, each attempt as dear as the dearest so far, so that it is not passed by attempts that have begun.
Before the first has ended nothing says how dear one is: it is made alone. One that ended without saying so, as by a
time-out, counts as the dearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import InputError
from harness.search import SearchStop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.search import SearchPlan
    from sandbox.api import Cost

_CAPS = ((SearchStop.TOKENS, "tokens"), (SearchStop.USD, "usd"))


@dataclass(frozen=True, slots=True)
class Used:
    """How far a search is: rounds that counted, attempts taken up and those of them in flight, what ended ones cost."""

    rounds: int
    attempts: int
    in_flight: int
    elapsed_s: float
    costs: Sequence[Cost]


def limit_reached(plan: SearchPlan, used: Used) -> SearchStop | None:
    """Return what keeps the policy from being asked again, in the order of the rules of replay, None where nothing does."""
    if used.rounds >= plan.limits.max_rounds:
        return SearchStop.MAX_ROUNDS
    if plan.limits.max_attempts is not None and used.attempts >= plan.limits.max_attempts:
        return SearchStop.MAX_ATTEMPTS
    if plan.allowance.wall_s is not None and used.elapsed_s >= plan.allowance.wall_s:
        return SearchStop.WALL
    return cap_in_the_way(plan, used, 1)


def cap_in_the_way(plan: SearchPlan, used: Used, more: int) -> SearchStop | None:
    """Return the cap that so many more attempts could pass, None where none could.

    Raises:
        InputError: there is a cap on what the agent has never told.
    """
    for stop, name in _CAPS:
        cap = getattr(plan.allowance, name)
        if cap is None:
            continue
        figures = [getattr(cost, name) for cost in used.costs]
        known = [figure for figure in figures if figure is not None]
        if figures and not known:
            raise InputError(
                f"the cap on {name}, {cap}, cannot be kept: agent {plan.agent} does not say what an attempt costs in {name}; "
                "leave the cap out, or cap attempts"
            )
        if not figures and used.in_flight + more > 1:
            return stop
        dearest = max(known, default=0.0)
        spent = sum(known) + dearest * (len(figures) - len(known))
        if spent >= cap or spent + dearest * (used.in_flight + more) > cap:
            return stop
    return None


def spent_already(plan: SearchPlan, elapsed_s: float, costs: Sequence[Cost]) -> str | None:
    """Return in words which cap is spent by attempts and tries that cost so much; None where none is.

    An unknown figure is left to `cap_in_the_way`, which refuses it.
    """
    if plan.allowance.wall_s is not None and elapsed_s >= plan.allowance.wall_s:
        return f"the search's {plan.allowance.wall_s:g} seconds are over"
    for _, name in _CAPS:
        cap = getattr(plan.allowance, name)
        if cap is not None:
            spent = sum(getattr(cost, name) or 0.0 for cost in costs)
            if spent >= cap:
                return f"{name}: {spent:g} of {cap:g} are spent"
    return None
