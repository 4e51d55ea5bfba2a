"""The exact evaluator of circle packing: 26 circles in the unit square, the sum of their radii to be as large as possible.

An answer is an array of 26 rows x, y, radius. Its radii are a claim: one that overlaps visibly is refused, and the score never
rests on it. The best radii for the given centres are a linear programme, which is solved afresh and then shrunk until no
overlap is left, so rounding in the answer or in the solver gains nothing. The best sum known is 2.635983.
"""

from __future__ import annotations

import numpy as np

from search.base import AnswerFault, Array, SolverFault, Verdict
from tasks.circle_packing.geometry import CIRCLES, CLAIM_TOLERANCE, best_radii, overlap, slacks

TOLERANCE = 1e-9  # what the scored radii may overlap at most
CONTACT = 1e-6


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
    try:
        radii = best_radii(centres)
    except SolverFault as fault:
        raise AnswerFault(str(fault)) from fault
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
