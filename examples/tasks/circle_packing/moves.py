"""Moves for the search agent: families of starts, and operators that disturb a packing and let a solver repair it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from harness.agents.search.walk import Effort, Proposal, SolverFault

from .geometry import CIRCLES, CLAIM_TOLERANCE, best_radii, overlap

if TYPE_CHECKING:
    from collections.abc import Callable

    from .geometry import Array

_FIRST, _SECOND = np.triu_indices(CIRCLES, 1)
_PAIRS = len(_FIRST)
_ROW, _EACH = np.arange(_PAIRS), np.arange(CIRCLES)
_OBJECTIVE = np.concatenate([np.zeros(2 * CIRCLES), -np.ones(CIRCLES)])
_BOUNDS = [(0.0, 1.0)] * (2 * CIRCLES) + [(0.0, 0.5)] * CIRCLES
ITERATIONS = 60
REGION = 0.3  # reach of a stir
_SHRINK = 2e-12  # the evaluator is exact, and the linear programme that finds the radii is not


def _constraints(flat: Array) -> Array:
    """Return every free distance of a packing stored as all x, all y, all radii."""
    x, y, r = flat.reshape(3, CIRCLES)
    pairs = np.hypot(x[_FIRST] - x[_SECOND], y[_FIRST] - y[_SECOND]) - r[_FIRST] - r[_SECOND]
    return np.concatenate([pairs, x - r, y - r, 1.0 - x - r, 1.0 - y - r])


def _fixed_slopes() -> Array:
    """Return the entries of the constraints' Jacobian that never change: radii and walls."""
    slopes = np.zeros((_PAIRS + 4 * CIRCLES, 3 * CIRCLES))
    slopes[_ROW, 2 * CIRCLES + _FIRST] = slopes[_ROW, 2 * CIRCLES + _SECOND] = -1.0
    for wall, (offset, sign) in enumerate([(0, 1.0), (CIRCLES, 1.0), (0, -1.0), (CIRCLES, -1.0)]):
        rows = _PAIRS + wall * CIRCLES + _EACH
        slopes[rows, offset + _EACH] = sign
        slopes[rows, 2 * CIRCLES + _EACH] = -1.0
    return slopes


_FIXED = _fixed_slopes()


def _slopes(flat: Array) -> Array:
    x, y, _ = flat.reshape(3, CIRCLES)
    dx, dy = x[_FIRST] - x[_SECOND], y[_FIRST] - y[_SECOND]
    distance = np.maximum(np.hypot(dx, dy), 1e-12)
    slopes = _FIXED.copy()
    slopes[_ROW, _FIRST], slopes[_ROW, _SECOND] = dx / distance, -dx / distance
    slopes[_ROW, CIRCLES + _FIRST], slopes[_ROW, CIRCLES + _SECOND] = dy / distance, -dy / distance
    return slopes


def settle(circles: Array, effort: Effort) -> Proposal:
    """Return the nearby packing that sequential quadratic programming ends in; it may end outside the rules."""
    solved = minimize(
        lambda flat: float(_OBJECTIVE @ flat),
        circles.T.ravel(),
        jac=lambda _: _OBJECTIVE,
        constraints=[{"type": "ineq", "fun": _constraints, "jac": _slopes}],
        bounds=_BOUNDS,
        method="SLSQP",
        options={"maxiter": ITERATIONS, "ftol": 1e-10},
    )
    effort.spend(solved.nit)
    if not np.isfinite(solved.x).all():
        raise SolverFault("the solver left the real numbers")
    answer = np.ascontiguousarray(solved.x.reshape(3, CIRCLES).T)
    return Proposal(answer, float(answer[:, 2].sum()), max(0.0, -float(_constraints(solved.x).min())))


def _random(rng: np.random.Generator) -> Array:
    return rng.random((CIRCLES, 2))


def _rows(rng: np.random.Generator) -> Array:
    """Shifted rows, as in a honeycomb: five or six of them."""
    rows = int(rng.integers(5, 7))
    ends = np.round(CIRCLES / rows * np.arange(rows + 1)).astype(int)
    points = []
    for row, size in enumerate(np.diff(ends)):
        shift = 0.25 if row % 2 else 0.0
        points += [((place + 0.5 + shift / 2) / size * 0.98, (row + 0.5) / rows) for place in range(size)]
    return np.array(points) + rng.normal(0.0, 0.02, (CIRCLES, 2))


def _grid(rng: np.random.Generator) -> Array:
    """Five rows of five, and one circle anywhere."""
    points = [((i + 0.5) / 5, (j + 0.5) / 5) for i in range(5) for j in range(5)]
    return np.array([*points, tuple(rng.random(2))]) + rng.normal(0.0, 0.03, (CIRCLES, 2))


def _rings(rng: np.random.Generator) -> Array:
    """One circle in the middle, eight around it, seventeen around those."""
    points = [(0.5, 0.5)]
    for size, radius in ((8, 0.25), (17, 0.44)):
        angles = (np.arange(size) / size + rng.random()) * 2 * np.pi
        points += list(zip(0.5 + radius * np.cos(angles), 0.5 + radius * np.sin(angles), strict=True))
    return np.array(points) + rng.normal(0.0, 0.02, (CIRCLES, 2))


def _spiral(rng: np.random.Generator) -> Array:
    """The heads of a sunflower, turned at random."""
    steps = np.arange(CIRCLES) + 0.5
    angles = steps * np.pi * (3.0 - np.sqrt(5.0)) + rng.random() * 2 * np.pi
    radii = 0.52 * np.sqrt(steps / CIRCLES)
    return 0.5 + np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def _jiggle(rng: np.random.Generator, circles: Array) -> None:
    """Shake all circles by the same measure."""
    circles[:, :2] += rng.normal(0.0, rng.choice([0.01, 0.03, 0.06]), (CIRCLES, 2))


def _relocate(rng: np.random.Generator, circles: Array) -> None:
    """Put one or two of the smallest circles into the widest holes elsewhere."""
    for circle in rng.permutation(np.argsort(circles[:, 2])[:6])[: int(rng.integers(1, 3))]:
        others = np.delete(circles, circle, axis=0)
        spots = rng.random((400, 2))
        room = (np.hypot(*(spots[:, None, :] - others[None, :, :2]).transpose(2, 0, 1)) - others[:, 2]).min(axis=1)
        room = np.minimum(room, np.minimum(spots, 1.0 - spots).min(axis=1))
        spot = rng.choice(np.argsort(-room, kind="stable")[:20])
        circles[circle] = (*spots[spot], max(float(room[spot]), 0.005))


def _stir(rng: np.random.Generator, circles: Array) -> None:
    """Shake the circles of one region hard and leave the rest."""
    near = np.hypot(*(circles[:, :2] - rng.random(2)).T) < REGION
    circles[near, :2] += rng.normal(0.0, 0.08, (int(near.sum()), 2))


def _swap(rng: np.random.Generator, circles: Array) -> None:
    """Exchange the places of two circles, each keeping its radius."""
    one, other = rng.choice(CIRCLES, 2, replace=False)
    circles[[one, other], :2] = circles[[other, one], :2]


_STARTS: dict[str, Callable[[np.random.Generator], Array]] = {
    "random": _random,
    "rows": _rows,
    "grid": _grid,
    "rings": _rings,
    "spiral": _spiral,
}
_DISTURB: dict[str, Callable[[np.random.Generator, Array], None]] = {
    "jiggle": _jiggle,
    "relocate": _relocate,
    "stir": _stir,
    "swap": _swap,
}


class Packing:
    """26 circles in the unit square, as rows of x, y and radius, as large as possible in the sum of their radii."""

    file = "answer.json"
    direction = "max"
    families: tuple[str, ...] = tuple(_STARTS)
    operators: tuple[str, ...] = tuple(_DISTURB)
    temperatures: tuple[float, ...] = (0.0, 0.0, 0.0005, 0.003)
    effort = 65.0

    def open(self, rng: np.random.Generator, family: str, effort: Effort) -> Proposal:
        """Return a settled start of a family."""
        centres = np.clip(_STARTS[family](rng), 0.02, 0.98)
        return settle(np.column_stack([centres, np.full(CIRCLES, 0.02)]), effort)

    def move(self, rng: np.random.Generator, answer: Array, operator: str, effort: Effort) -> Proposal:
        """Return the packing that settles after a disturbance."""
        circles = answer.copy()
        _DISTURB[operator](rng, circles)
        circles[:, :2] = np.clip(circles[:, :2], 0.01, 0.99)
        circles[:, 2] = np.maximum(circles[:, 2] * 0.8, 0.005)
        return settle(circles, effort)

    def load(self, text: str) -> Array:
        """Return the circles of a file."""
        return np.array(json.loads(text)["circles"], dtype=np.float64)

    def dump(self, answer: Array) -> str:
        """Return a packing with the best radii for its centres; one that overlaps visibly stays what it claims to be."""
        centres, radii = answer[:, :2], answer[:, 2]
        if overlap(centres, radii) <= CLAIM_TOLERANCE:
            found = best_radii(centres)
            radii = np.maximum(found - max(overlap(centres, found), 0.0) - _SHRINK, 0.0)
        rows = [[float(x), float(y), float(r)] for (x, y), r in zip(centres, radii, strict=True)]
        return json.dumps({"circles": rows})

    keep = dump


MOVES = Packing()
