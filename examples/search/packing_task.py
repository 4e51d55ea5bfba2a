"""Circle packing as a search that is recorded: the moves of the example task, and the evaluator of the example trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from search import packing
from tasks.circle_packing.moves import Packing

if TYPE_CHECKING:
    from search.base import Array, Verdict


class PackingTask(Packing):
    """26 circles in the unit square, as large as possible in the sum of their radii."""

    name = "circle-packing-26"
    root_scores = False  # one solver run from anywhere gains most of the way up from the grid: a floor that nobody stands on

    def root(self) -> Verdict:
        """Return the verdict on five rows of five equal circles with a small one in a hole between them."""
        points = [((i + 0.5) / 5, (j + 0.5) / 5, 0.0) for i in range(5) for j in range(5)]
        return self.evaluate(np.array([*points, (0.4, 0.4, 0.0)]))

    def evaluate(self, answer: Array) -> Verdict:
        """Return the exact verdict on a packing."""
        return packing.evaluate(answer)
