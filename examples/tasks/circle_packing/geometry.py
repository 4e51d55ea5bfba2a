"""Circles in the unit square: how much room they leave each other, and the best radii for given centres."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from harness.agents.search.walk import SolverFault

Array: TypeAlias = npt.NDArray[np.float64]

CIRCLES = 26
CLAIM_TOLERANCE = 1e-6  # what a solver's rounding may leave in a claim


def best_radii(centres: Array) -> Array:
    """Return the radii with the largest sum that fit circles at `centres` (rows x, y) into the square without overlap.

    Raises:
        SolverFault: there are none.
    """
    count = len(centres)
    first, second = np.triu_indices(count, 1)
    rows = np.arange(len(first))
    sums = np.zeros((len(first), count))
    sums[rows, first] = sums[rows, second] = 1.0
    walls = np.minimum(centres, 1.0 - centres).min(axis=1)
    solved = linprog(
        -np.ones(count),
        A_ub=sums,
        b_ub=np.hypot(*(centres[first] - centres[second]).T),
        bounds=np.column_stack([np.zeros(count), walls]),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    if solved.x is None:
        raise SolverFault(f"no radii fit these centres: {solved.message}")
    radii = np.asarray(solved.x, dtype=np.float64)
    return np.maximum(radii - max(overlap(centres, radii), 0.0), 0.0)


def slacks(centres: Array, radii: Array) -> tuple[Array, Array]:
    """Return the free distance of every pair of circles (as `triu_indices` lists them) and of every circle to the four walls."""
    first, second = np.triu_indices(len(centres), 1)
    gaps = np.hypot(*(centres[first] - centres[second]).T) - radii[first] - radii[second]
    walls = np.column_stack([centres, 1.0 - centres]) - radii[:, None]
    return gaps, walls


def overlap(centres: Array, radii: Array) -> float:
    """Return how far the worst pair overlaps or the worst circle leaves the square; negative when all keep a distance."""
    gaps, walls = slacks(centres, radii)
    return -min(float(gaps.min(initial=np.inf)), float(walls.min()))
