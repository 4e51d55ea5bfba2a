"""The autocorrelation inequalities as searches that are recorded: moves of the example tasks, evaluator of the example trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from search import autocorrelation
from tasks.autocorrelation_first.autocorrelation import Autocorrelation

if TYPE_CHECKING:
    from search.base import Array, Verdict

ROOT_STEPS = 50


class AutocorrelationTask(Autocorrelation):
    """Step functions whose autocorrelation is to be as flat as possible; `signed` ones may be negative."""

    root_scores = True

    def __init__(self, *, signed: bool) -> None:
        super().__init__(signed=signed)
        self.name = "autocorrelation-third" if signed else "autocorrelation-first"

    def root(self) -> Verdict:
        """Return the verdict on the classical function 1/sqrt(2x + 1/2), long believed to be best, in 50 steps.

        Its heights are the coefficients of (1 - z)^(-1/2), so that f * f is exactly level on the left half.
        """
        heights: Array = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, ROOT_STEPS))], dtype=np.float64)
        return self.evaluate(heights)

    def evaluate(self, answer: Array) -> Verdict:
        """Return the exact verdict on step heights."""
        return autocorrelation.evaluate(answer, signed=self.signed)
