"""Step functions whose autocorrelation is to be flat: families of functions, and operators that flatten f * f.

Both inequalities have this file, the same to the byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import toeplitz
from scipy.optimize import linprog, minimize

from harness.agents.search.walk import Effort, Proposal, SolverFault

if TYPE_CHECKING:
    from collections.abc import Callable

Array: TypeAlias = npt.NDArray[np.float64]

FINEST = 200  # steps: beyond this, no move fits into one attempt
MILLION = 1e6

_STARTS: dict[str, Callable[[Array], Array]] = {
    "flat": np.ones_like,
    "noise": np.zeros_like,
    "edges": lambda x: 1.0 / np.sqrt(x * (1.0 - x) + 0.01),
    "arc": lambda x: np.sqrt(x * (1.0 - x)),
    "slope": lambda x: 1.0 / np.sqrt(x + 0.01),
}


def ratio(heights: Array, *, signed: bool) -> float:
    """Return the score of step heights that are known to be fair."""
    squares = np.convolve(heights, heights)
    peak = np.abs(squares).max() if signed else squares.max()
    return float(2 * len(heights) * peak / heights.sum() ** 2)


class Autocorrelation:
    """Step functions whose autocorrelation is to be as flat as possible; `signed` ones may be negative."""

    direction = "min"
    file = "answer.json"
    families: tuple[str, ...] = tuple(_STARTS)
    operators: tuple[str, ...] = ("soften", "sharpen", "linear", "refine", "shake", "shift")
    temperatures: tuple[float, ...] = (0.0, 0.0, 0.0003, 0.001)
    effort = 35.0

    def __init__(self, *, signed: bool) -> None:
        self.signed = signed

    def open(self, rng: np.random.Generator, family: str, effort: Effort) -> Proposal:
        """Return a start of a family in 30 to 64 steps, softened briefly."""
        steps = int(rng.choice([30, 40, 50, 64]))
        shape = _STARTS[family]((np.arange(steps) + 0.5) / steps)
        noise = rng.random(steps) * (1.0 if family == "noise" else 0.1)
        return self._proposal(self._descend(shape + noise, effort, iterations=40, sharpness=(10.0, 80.0)))

    def move(self, rng: np.random.Generator, answer: Array, operator: str, effort: Effort) -> Proposal:
        """Return the function that an operator makes of another."""
        match operator:
            case "soften":
                heights = self._descend(answer, effort, iterations=80, sharpness=(30.0, 400.0))
            case "sharpen":
                heights = self._descend(answer, effort, iterations=150, sharpness=(200.0, 3000.0))
            case "linear":
                heights = self._linear(answer, effort)
            case "refine":
                heights = self._descend(_refine(rng, answer), effort, iterations=80, sharpness=(100.0, 1500.0))
            case "shake":
                heights = self._descend(self._shake(rng, answer), effort, iterations=80, sharpness=(60.0, 800.0))
            case "shift":
                eighth = len(answer) // 8
                rolled = np.roll(answer, int(rng.integers(-eighth, eighth + 1)))
                heights = self._descend(rolled, effort, iterations=80, sharpness=(30.0, 800.0))
            case _:
                raise ValueError(f"no operator is called {operator!r}; there are {', '.join(self.operators)}")
        return self._proposal(heights)

    def load(self, text: str) -> Array:
        """Return the heights that a live search's answer holds."""
        return np.array(json.loads(text)["heights"], dtype=np.float64)

    def dump(self, answer: Array) -> str:
        """Return the heights as a live search's answer: as they are."""
        return json.dumps({"heights": [float(height) for height in answer]})

    keep = dump

    def _proposal(self, heights: Array) -> Proposal:
        if not np.isfinite(heights).all() or heights.sum() <= 0.0:
            raise SolverFault("the solver lost the integral of f")
        return Proposal(heights, ratio(heights, signed=self.signed), 0.0 if self.signed else max(0.0, -float(heights.min())))

    def _shake(self, rng: np.random.Generator, heights: Array) -> Array:
        if self.signed:
            return heights + rng.normal(0.0, 0.1 * heights.std(), len(heights))
        return heights * np.exp(rng.normal(0.0, rng.choice([0.05, 0.2]), len(heights)))

    def _descend(self, heights: Array, effort: Effort, *, iterations: int, sharpness: tuple[float, float]) -> Array:
        """Return heights after quasi-Newton descents on a smoothed maximum that is sharpened from one to the other figure."""
        heights = heights / heights.mean()
        for sharp in np.geomspace(*sharpness, 2):
            start = heights if self.signed else np.sqrt(np.maximum(heights, 1e-12))
            solved = minimize(self._smoothed, start, args=(sharp,), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
            effort.spend(2 * solved.nfev * len(heights) ** 2 / MILLION)
            heights = solved.x if self.signed else solved.x**2
            heights = heights / heights.mean()
        return heights

    def _smoothed(self, free: Array, sharp: float) -> tuple[float, Array]:
        """Return the smoothed score and its gradient; `free` are heights, or their roots where f must not be negative."""
        heights = free if self.signed else free * free
        steps = len(heights)
        squares = np.convolve(heights, heights) * (2.0 / steps)
        sizes = np.abs(squares) if self.signed else squares
        peak = sizes.max()
        weights = np.exp(sharp * (sizes - peak))
        total = weights.sum()
        level = peak + np.log(total) / sharp
        weights = weights / total * (np.sign(squares) if self.signed else 1.0)
        mean = heights.sum() / steps
        slope = np.correlate(weights, heights, "valid") * (4.0 / steps) / mean**2 - 2.0 * level / mean**3 / steps
        return float(level / mean**2), slope if self.signed else 2.0 * slope * free

    def _linear(self, heights: Array, effort: Effort) -> Array:
        """Return heights after steps towards the best g against a fixed f: minimise max f * g, a linear programme."""
        steps = len(heights)
        heights = heights / heights.sum()
        rounds = 3 if steps <= 64 else 1  # noqa: PLR2004 - a programme of more steps costs as much as three small ones
        for _ in range(rounds):
            products = toeplitz(np.concatenate([heights, np.zeros(steps - 1)]), np.zeros(steps))
            bound = -np.ones((len(products), 1))
            rows = np.hstack([products, bound])
            if self.signed:
                rows = np.vstack([rows, np.hstack([-products, bound])])
            solved = linprog(
                np.append(np.zeros(steps), 1.0),
                A_ub=rows,
                b_ub=np.zeros(len(rows)),
                A_eq=np.append(np.ones(steps), 0.0)[None],
                b_eq=[1.0],
                bounds=[(-0.2 if self.signed else 0.0, None)] * steps + [(None, None)],
                method="highs",
            )
            effort.spend(solved.nit * rows.size / MILLION)
            if solved.x is None:
                raise SolverFault("the linear programme has no solution")
            before = ratio(heights, signed=self.signed)
            for share in (0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.003):
                mixed = (1.0 - share) * heights + share * solved.x[:steps]
                if ratio(mixed, signed=self.signed) < before - 1e-9:
                    heights = mixed
                    break
            else:
                break
        return heights


def _refine(rng: np.random.Generator, heights: Array) -> Array:
    """Return the same function in twice or one and a half times as many steps, as long as that is affordable."""
    steps = len(heights)
    if steps * 2 <= FINEST and rng.random() < 0.5:  # noqa: PLR2004 - a fair coin
        return np.repeat(heights, 2)
    if steps * 3 // 2 > FINEST:
        raise SolverFault(f"{steps} steps are as fine as an attempt can afford")
    finer = steps * 3 // 2
    return np.interp((np.arange(finer) + 0.5) / finer, (np.arange(steps) + 0.5) / steps, heights)
