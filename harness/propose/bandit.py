"""Choose by what earlier choices gained for what they cost: a seeded bandit that forgets slowly.

Gains of an arm are taken to arrive at some rate for each unit of cost. What is known of that rate is a gamma distribution; one
rate is drawn for each arm, and the highest wins (Thompson sampling), so that what is uncertain is tried and what pays is tried
often. It keeps no state: the same pulls and the same generator choose the same arm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

Arm = TypeVar("Arm")

KEPT = 0.97
"""How much of an observation is left after the next one: what paid at the beginning of a search need not pay at its end."""
ANYWAY = 0.1
"""Share of the choices that are drawn by weight alone, whatever has been learnt."""


class Pull(NamedTuple, Generic[Arm]):
    """What one choice brought: `gain` >= 0 and `cost` >= 0, each in one unit for all arms."""

    arm: Arm
    gain: float
    cost: float


def choose(weights: Mapping[Arm, float], pulls: Sequence[Pull[Arm]], rng: random.Random) -> Arm:
    """Return the next arm, out of those with a weight; a weight is how much is expected of an arm before anything is known.

    Gains and costs count relative to the largest gain and the mean cost, so that their units make no difference.
    """
    arms = list(weights)
    if rng.random() < ANYWAY:
        return rng.choices(arms, [weights[arm] for arm in arms])[0]
    even = sum(weights.values()) / len(arms)
    largest = max((pull.gain for pull in pulls), default=0.0) or 1.0
    usual = sum(pull.cost for pull in pulls) / len(pulls) if pulls else 1.0
    gained, cost = {arm: weights[arm] / even for arm in arms}, dict.fromkeys(arms, 1.0)
    for age, pull in enumerate(reversed(pulls)):
        if pull.arm in gained:
            gained[pull.arm] += KEPT**age * pull.gain / largest
            cost[pull.arm] += KEPT**age * (pull.cost / usual if usual else 1.0)
    rates = {arm: rng.gammavariate(gained[arm], 1 / cost[arm]) for arm in arms}
    return max(arms, key=lambda arm: rates[arm])
