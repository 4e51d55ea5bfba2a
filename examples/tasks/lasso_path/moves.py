"""Moves for the search agent: solvers as descriptions, of which one part is changed at a time.

A claim is no guess: the solver is run here, on the instances that it will be given, and its updates are counted. What bounds that
is its products of columns, of which it may make so many and no more. A description says which coordinates a solver
looks at, in which order it takes them and when it looks at the gap; a solver never tries an update that it does not write down.
"""

from __future__ import annotations

import json
from math import fsum
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.agents.search.walk import Effort, Proposal, SolverFault

from .rendering import MEASURES, ORDERS, POOLS, Description, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

MILLION = 1e6
MOST_PRODUCTS = 600_000
"""What one solver may take, of which the evaluator's 20 s of CPU time leave room for several times as many."""

SHARES = (0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 1.0)
ENTERING = (0.1, 0.3, 0.6, 1.0, 2.0)
LOOKS = (0, 16, 4, 1)
EARLY = (1.0, 0.5, 0.2)

_GIVEN = Path(__file__).parent / "given" / "instances.json"
_T = TypeVar("_T")


class Products:
    """Products of columns, counted."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, one: Sequence[float], other: Sequence[float]) -> float:
        """Return a product as solvers compute it.

        Raises:
            SolverFault: the solver has made as many as it may.
        """
        self.made += 1
        if self.made > MOST_PRODUCTS:
            raise SolverFault(f"the solver takes more than {MOST_PRODUCTS} products of columns")
        return fsum(map(mul, one, other))


def updates(description: Description, effort: Effort) -> int:
    """Return how many updates a solver needs on the instances of the task.

    Raises:
        SolverFault: it takes too long.
    """
    given = json.loads(_GIVEN.read_text(encoding="utf-8"))
    products = Products()
    solver: dict[str, Any] = {"__name__": "solver"}
    exec(compile(render(description), "solver.py", "exec"), solver)  # noqa: S102 - a program of our own pieces
    solver["dot"] = products
    try:
        paths = [solver["path"](instance, 0.999 * given["accuracy"]) for instance in given["instances"]]
    finally:
        effort.spend(products.made / MILLION)
    return sum(len(made) for path in paths for made in path)


class Lasso:
    """Solvers of Lasso paths that need few coordinate updates."""

    file = "solver.py"
    direction = "min"
    families: tuple[str, ...] = ("sweeps", "moving", "working", "strong", "safe")
    operators: tuple[str, ...] = ("pool", "order", "measure", "share", "entering", "recheck", "look", "early")
    temperatures: tuple[float, ...] = (0.0, 0.0, 100.0, 1000.0)
    effort = 1.6

    def open(self, rng: np.random.Generator, family: str, effort: Effort) -> Proposal:
        """Return a solver that sweeps over what its family keeps."""
        return self._proposal(
            {
                "pool": "all" if family == "sweeps" else family,
                "order": str(rng.choice(["cyclic", "alternating", "shuffled"])),
                "measure": str(rng.choice(list(MEASURES))),
                "share": float(rng.choice(SHARES[:3])),
                "entering": 1.0,
                "recheck": False,
                "look": int(rng.choice(LOOKS[:2])),
                "early": 1.0,
            },
            effort,
        )

    def move(self, rng: np.random.Generator, answer: Description, operator: str, effort: Effort) -> Proposal:
        """Return a solver that differs in one part."""
        changed = self.changed(rng, answer, operator)
        if render(changed) == render(answer):
            raise SolverFault("changes nothing that the solver does")
        return self._proposal(changed, effort)

    def changed(self, rng: np.random.Generator, answer: Description, operator: str) -> Description:
        """Return a description that differs in one part."""
        changed: Description = {**answer}
        match operator:
            case "pool":
                changed["pool"] = _other(rng, tuple(POOLS), answer["pool"])
            case "order":
                changed["order"] = _other(rng, tuple(ORDERS), answer["order"])
            case "measure":
                changed["measure"] = _other(rng, tuple(MEASURES), answer["measure"])
            case "share":
                changed["share"] = _next(rng, SHARES, answer["share"])
            case "entering":
                changed["entering"] = _next(rng, ENTERING, answer["entering"])
            case "recheck":
                changed["recheck"] = not answer["recheck"]
            case "look":
                changed["look"] = _next(rng, LOOKS, answer["look"])
            case "early":
                changed["early"] = _next(rng, EARLY, answer["early"])
            case _:
                raise ValueError(f"no operator is called {operator!r}; there are {', '.join(self.operators)}")
        return changed

    def load(self, text: str) -> Description:
        """Return a description."""
        found: Description = json.loads(text)
        return found

    def keep(self, answer: Description) -> str:
        """Return the description, which a child changes."""
        return json.dumps(answer)

    def dump(self, answer: Description) -> str:
        """Return the solver."""
        return render(answer)

    def _proposal(self, description: Description, effort: Effort) -> Proposal:
        return Proposal(description, float(updates(description, effort)), 0.0)


def _other(rng: np.random.Generator, words: Sequence[str], word: str) -> str:
    """Return another word."""
    return str(rng.choice([one for one in words if one != word]))


def _next(rng: np.random.Generator, steps: Sequence[_T], here: _T) -> _T:
    """Return a neighbour in an ordered list, at its ends the one there is."""
    place = steps.index(here) + int(rng.choice([-1, 1]))
    return steps[place if 0 <= place < len(steps) else len(steps) - 2 if place > 0 else 1]


MOVES = Lasso()
