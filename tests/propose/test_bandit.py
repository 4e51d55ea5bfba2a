"""The bandit: seeded, it comes to choose what gains most for what it costs, and never gives an arm up for good."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from harness.propose.bandit import Pull, choose

if TYPE_CHECKING:
    from collections.abc import Mapping


def played(rates: Mapping[str, tuple[float, float]], turns: int, seed: int, gain: float = 1.0) -> list[str]:
    """Play arms that gain with a chance, each at a cost, and return what was chosen."""
    world = random.Random(seed)  # noqa: S311 - a test, no secret
    pulls: list[Pull[str]] = []
    for turn in range(turns):
        arm = choose(dict.fromkeys(rates, 1.0), pulls, random.Random(f"{seed}:{turn}"))  # noqa: S311
        chance, cost = rates[arm]
        pulls.append(Pull(arm, gain if world.random() < chance else 0.0, cost))
    return [pull.arm for pull in pulls]


def test_what_gains_most_is_chosen_most_in_whatever_unit() -> None:
    for gain in (1e-6, 1.0, 1e6):
        shares = Counter(arm for seed in range(5) for arm in played({"good": (0.8, 1.0), "poor": (0.05, 1.0)}, 60, seed, gain))
        assert shares["good"] > 3 * shares["poor"] > 0


def test_of_two_that_gain_the_same_the_cheaper_one_is_chosen() -> None:
    shares = Counter(arm for seed in range(5) for arm in played({"cheap": (0.5, 0.1), "dear": (0.5, 1.0)}, 60, seed))
    assert shares["cheap"] > 2 * shares["dear"] > 0


def test_before_anything_is_known_the_weights_decide() -> None:
    shares = Counter(choose({"more": 9.0, "less": 1.0}, [], random.Random(seed)) for seed in range(200))  # noqa: S311
    assert shares["more"] > 4 * shares["less"] > 0


def test_the_same_seed_and_pulls_choose_the_same() -> None:
    rates = {"a": (0.5, 1.0), "b": (0.4, 2.0), "c": (0.0, 0.0)}
    assert played(rates, 40, 7) == played(rates, 40, 7)


def test_what_no_longer_pays_is_left() -> None:
    before = [Pull("old", 1.0, 1.0)] * 30
    after = [*before, *[Pull("old", 0.0, 1.0)] * 60, *[Pull("new", 1.0, 1.0)] * 5]
    shares = Counter(choose({"old": 1.0, "new": 1.0}, after, random.Random(seed)) for seed in range(200))  # noqa: S311
    assert shares["new"] > shares["old"]
