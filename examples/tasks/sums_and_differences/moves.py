"""Moves for the search agent: sets of lattice points, written in a base, whose generators are changed and not their elements.

An answer is a generator: the points x with weights * x between two levels and no coordinate above a cap, read as digits in a
base. A base of at least twice the cap plus one keeps sums and differences apart; a smaller one makes the numbers shorter and lets
some fall together, which may gain or lose.
"""

from __future__ import annotations

import json
import math
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harness.agents.search.walk import Effort, Proposal, SolverFault

if TYPE_CHECKING:
    from collections.abc import Iterator

Generator: TypeAlias = "dict[str, Any]"  # weights, low, high, cap, base

MOST_POINTS = 700
MOST_TRIED = 60_000
MILLION = 1e6


def points(generator: Generator) -> Iterator[int]:
    """Yield the integers of a generator."""
    weights, base = generator["weights"], generator["base"]
    for digits in product(range(generator["cap"] + 1), repeat=len(weights)):
        if generator["low"] <= sum(map(int.__mul__, weights, digits)) <= generator["high"]:
            yield sum(digit * base**place for place, digit in enumerate(digits))


def built(generator: Generator) -> list[int]:
    """Return the set of a generator, its smallest element 0.

    Raises:
        SolverFault: it is too small or too large to be worth anything.
    """
    if (generator["cap"] + 1) ** len(generator["weights"]) > MOST_TRIED:
        raise SolverFault("the generator tries too many points")
    found = sorted(set(points(generator)))
    if not 3 <= len(found) <= MOST_POINTS:  # noqa: PLR2004 - two integers prove nothing
        raise SolverFault(f"the generator has {len(found)} points")
    if found[-1] >= 2**61:
        raise SolverFault("the numbers are too long for a quick look")
    return [value - found[0] for value in found]


class SumsAndDifferences:
    """Finite sets of integers with many differences and few sums."""

    file = "answer.json"
    direction = "max"
    families: tuple[str, ...] = ("simplex", "capped", "layers", "weighted", "small-base")
    operators: tuple[str, ...] = ("dimension", "level", "cap", "base", "weight", "floor")
    temperatures: tuple[float, ...] = (0.0, 0.0, 0.003)
    effort = 12.0

    def open(self, rng: np.random.Generator, family: str, effort: Effort) -> Proposal:
        """Return a small set of a family."""
        dimensions = int(rng.integers(3, 6))
        high = int(rng.integers(2, 5))
        cap = max(1, high - 1) if family == "capped" else high
        weights = [1] * dimensions
        if family == "weighted":
            weights = [int(weight) for weight in rng.integers(1, 3, dimensions)]
        base = 2 * cap + 1 - (int(rng.integers(1, 3)) if family == "small-base" else 0)
        low = int(rng.integers(0, 2)) if family == "layers" else 0
        return self._proposal({"weights": weights, "low": low, "high": high, "cap": cap, "base": max(2, base)}, effort)

    def move(self, rng: np.random.Generator, answer: Generator, operator: str, effort: Effort) -> Proposal:
        """Return the set of a generator that differs in one part."""
        changed = {**answer, "weights": list(answer["weights"])}
        step = int(rng.choice([-1, 1]))
        match operator:
            case "dimension":
                changed["weights"] = [*changed["weights"], 1] if step > 0 else changed["weights"][:-1]
            case "level":
                changed["high"] += step
                changed["base"] += 2 * step if changed["cap"] >= answer["high"] else 0
                changed["cap"] += step if changed["cap"] >= answer["high"] else 0
            case "cap":
                changed["cap"] += step
                changed["base"] += 2 * step
            case "base":
                changed["base"] += step
            case "weight":
                place = int(rng.integers(len(changed["weights"])))
                changed["weights"][place] = max(1, changed["weights"][place] + step)
            case "floor":
                changed["low"] = max(0, changed["low"] + step)
            case _:
                raise ValueError(f"no operator is called {operator!r}; there are {', '.join(self.operators)}")
        if not changed["weights"] or changed["cap"] < 1 or changed["base"] < 2 or changed["high"] < 1:  # noqa: PLR2004 - no base
            raise SolverFault("the generator has no points")
        return self._proposal(changed, effort)

    def load(self, text: str) -> Generator:
        """Return a generator."""
        found: Generator = json.loads(text)
        return found

    def keep(self, answer: Generator) -> str:
        """Return the generator, which a child changes."""
        return json.dumps(answer)

    def dump(self, answer: Generator) -> str:
        """Return the set."""
        return json.dumps({"set": built(answer)})

    def _proposal(self, generator: Generator, effort: Effort) -> Proposal:
        values = np.array(built(generator), dtype=np.int64)
        effort.spend(2 * len(values) ** 2 / MILLION)
        sums = len(np.unique(np.add.outer(values, values)))
        differences = len(np.unique(np.subtract.outer(values, values)))
        return Proposal(generator, 1.0 + math.log(differences / sums) / math.log(2 * int(values[-1]) + 1), 0.0)


MOVES = SumsAndDifferences()
