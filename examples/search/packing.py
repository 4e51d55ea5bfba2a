"""The exact evaluator of circle packing: 26 circles in the unit square, the sum of their radii to be as large as possible.

An answer is an array of 26 rows x, y, radius. Its radii are a claim: one that overlaps visibly is refused, and the score never
rests on it. The best radii for the given centres are a linear programme, which is solved afresh and then shrunk until no
overlap is left, so rounding in the answer or in the solver gains nothing. The best sum known is 2.635983.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from search.base import AnswerFault, Array, Verdict

CIRCLES = 26
CLAIM_TOLERANCE = 1e-6  # what a solver's rounding may leave in a claim
TOLERANCE = 1e-9  # what the scored radii may overlap at most
CONTACT = 1e-6


def best_radii(centres: Array) -> Array:
    """Return the radii with the largest sum that fit circles at `centres` (rows x, y) into the square without overlap."""
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
        raise AnswerFault(f"no radii fit these centres: {solved.message}")
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


def evaluate(answer: Array, circles: int = CIRCLES) -> Verdict:
    """Return the verdict on a packing.

    Raises:
        AnswerFault: wrong shape, not finite, a negative radius, a centre outside, or a claim that overlaps visibly.
    """
    answer = np.asarray(answer, dtype=np.float64)
    if answer.shape != (circles, 3):
        raise AnswerFault(f"an answer has {circles} rows of x, y, radius; this one has the shape {answer.shape}")
    if not np.isfinite(answer).all():
        raise AnswerFault("an answer holds finite numbers only")
    centres, claimed = answer[:, :2], answer[:, 2]
    outside = ((centres < 0.0) | (centres > 1.0)).any(axis=1)
    if outside.any():
        raise AnswerFault(f"the centre of circle {int(np.argmax(outside))} lies outside the square")
    if (claimed < 0.0).any():
        raise AnswerFault(f"circle {int(np.argmin(claimed))} has a negative radius")
    if (excess := overlap(centres, claimed)) > CLAIM_TOLERANCE:
        raise AnswerFault(f"claims a sum of {claimed.sum():.4f}, but its circles overlap or leave the square by {excess:.2g}")
    radii = best_radii(centres)
    if not overlap(centres, radii) <= TOLERANCE:
        raise AnswerFault("the radii found for these centres still overlap")
    return Verdict(float(radii.sum()), *_limits(centres, radii))


def _limits(centres: Array, radii: Array) -> tuple[dict[str, float], str]:
    """Return what holds a packing in place, as figures and as a sentence."""
    gaps, walls = slacks(centres, radii)
    at_walls = int((walls < CONTACT).sum())
    contacts = int((gaps < CONTACT).sum()) + at_walls
    small = int(np.argmin(radii))
    x, y = centres[small]
    figures: dict[str, float] = {
        "contacts": contacts,
        "wall_contacts": at_walls,
        "min_radius": round(float(radii.min()), 9),
        "max_radius": round(float(radii.max()), 9),
        "radius_spread": round(float(radii.std()), 9),
    }
    smallest = f"the smallest circle, radius {radii[small]:.4f}, stands at ({x:.2f}, {y:.2f})"
    return figures, f"{contacts} contacts, {at_walls} with walls; {smallest}"
