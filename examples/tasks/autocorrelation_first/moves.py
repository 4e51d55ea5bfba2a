"""Moves for the search agent: families of starts and operators of `examples/search`, and how a function stands in answer.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))

from search.autocorrelation_task import AutocorrelationTask

if TYPE_CHECKING:
    from search.base import Array


class Autocorrelation(AutocorrelationTask):
    """Heights of a function on equal steps."""

    file = "answer.json"

    def load(self, text: str) -> Array:
        """Return the heights of a file."""
        return np.array(json.loads(text)["heights"], dtype=np.float64)

    def keep(self, answer: Array) -> str:
        """Return the same text."""
        return self.dump(answer)

    def dump(self, answer: Array) -> str:
        """Return the heights as they are."""
        return json.dumps({"heights": [float(height) for height in answer]})


MOVES = Autocorrelation(signed=False)
