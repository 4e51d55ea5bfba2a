"""The exact evaluator of two autocorrelation inequalities: how flat can f * f be for a function f on [-1/4, 1/4]?

An answer lists the heights of n equal steps. Then f * f is linear between multiples of the step width, its maximum stands at one
of them, and the score is exact up to the rounding of one convolution:

- first inequality, f >= 0: `max f*f / (integral of f)^2`, to be as small as possible; best known about 1.5032;
- third inequality, f may be negative: `max |f*f| / (integral of f)^2`; best known about 1.4537.
"""

from __future__ import annotations

import numpy as np

from search.base import AnswerFault, Array, Verdict
from tasks.autocorrelation_first.autocorrelation import ratio

FEWEST_STEPS = 2
MOST_STEPS = 2000
FLATTEST_INTEGRAL = 1e-6  # of the integral of |f|: below this, rounding would decide the score
AT_PEAK = 1e-3


def evaluate(answer: Array, *, signed: bool) -> Verdict:
    """Return the verdict on step heights.

    Raises:
        AnswerFault: wrong shape, not finite, negative where that is not allowed, or an integral that is not clearly positive.
    """
    answer = np.asarray(answer, dtype=np.float64)
    if answer.ndim != 1 or not FEWEST_STEPS <= len(answer) <= MOST_STEPS:
        raise AnswerFault(f"an answer lists {FEWEST_STEPS} to {MOST_STEPS} heights; this one has the shape {answer.shape}")
    if not np.isfinite(answer).all():
        raise AnswerFault("an answer holds finite numbers only")
    if not signed and (answer < 0.0).any():
        raise AnswerFault(f"f is negative at step {int(np.argmin(answer))} ({answer.min():.2g}); this inequality is about f >= 0")
    # Squares of heights far from 1 would leave the range of floats: underflow is the cheapest way to a flat f * f.
    size = np.abs(answer).max()
    if size == 0.0:
        raise AnswerFault("f is zero everywhere")
    heights = answer / size
    if not heights.sum() > FLATTEST_INTEGRAL * np.abs(heights).sum():
        raise AnswerFault(f"the integral of f must be clearly positive; it is {heights.sum():.2g} of the largest step")
    return Verdict(ratio(heights, signed=signed), *_limits(heights))


def _limits(heights: Array) -> tuple[dict[str, float], str]:
    """Return what keeps a function from being better, as figures and as a sentence."""
    squares = np.abs(np.convolve(heights, heights))
    peaks = int((squares > (1.0 - AT_PEAK) * squares.max()).sum())
    where = (int(np.argmax(squares)) + 1) / len(squares) - 0.5
    negative = float(np.abs(heights[heights < 0.0]).sum() / np.abs(heights).sum())
    figures: dict[str, float] = {
        "steps": len(heights),
        "peaks": peaks,
        "flat_share": round(peaks / len(squares), 6),
        "negative_share": round(negative, 6),
    }
    return figures, f"f*f is at its maximum (within 0.1 %) at {peaks} of {len(squares)} points, highest near t = {where:+.2f}"
