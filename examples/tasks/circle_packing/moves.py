"""Moves for the search agent: families of starts and operators of `examples/search`, and how a packing stands in answer.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))

from search.packing import CLAIM_TOLERANCE, best_radii, overlap
from search.packing_task import PackingTask

if TYPE_CHECKING:
    from search.base import Array

_SHRINK = 2e-12  # the evaluator is exact, and the linear programme that finds the radii is not


class Packing(PackingTask):
    """26 circles in the unit square, as rows of x, y and radius."""

    file = "answer.json"

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
