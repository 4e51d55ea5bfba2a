"""Score a step function f on [-1/4, 1/4] by how flat f * f can be: its maximum over the square of the integral of f.

An answer lists the heights of n equal steps. f * f is linear between multiples of the step width, so its extremes stand at these
knots. The heights are taken as they stand, as whole multiples of one power of two, and everything is computed in integers: the
score is rounded once, when it is printed. `--signed` lets f be negative and takes the largest size of f * f in place of its
maximum.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from operator import mul
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from answers import RefusedError, conclude, field, numbers, read_answer, shown

FEWEST_STEPS, MOST_STEPS = 2, 600
AT_PEAK = Fraction(999, 1000)


def whole(heights: list[float | int]) -> list[int]:
    """Return the heights as integers, all multiplied by the same number."""
    fractions = [Fraction(height) for height in heights]
    scale = math.lcm(*(height.denominator for height in fractions))
    return [height.numerator * (scale // height.denominator) for height in fractions]


def squared(heights: list[int]) -> list[int]:
    """Return f * f at the inner knots, in units of the step width: the coefficients of the polynomial squared."""
    steps = len(heights)
    backwards = heights[::-1]
    return [
        sum(map(mul, heights[max(0, knot - steps + 1) : knot + 1], backwards[max(0, steps - 1 - knot) :]))
        for knot in range(2 * steps - 1)
    ]


def judge(signed: bool) -> tuple[float, dict[str, float], str]:
    """Return score, metrics and feedback of the answer in the workspace."""
    given = numbers(field(read_answer(), "heights"), "'heights'")
    if not FEWEST_STEPS <= len(given) <= MOST_STEPS:
        raise RefusedError(f"'heights' lists {len(given)} steps; it must list {FEWEST_STEPS} to {MOST_STEPS}")
    lowest = min(range(len(given)), key=given.__getitem__)
    if not signed and given[lowest] < 0:
        raise RefusedError(f"f is negative at step {lowest}: {shown(given[lowest])}; this inequality is about f >= 0")
    heights = whole(given)
    integral = sum(heights)
    if integral == 0:
        raise RefusedError("the integral of f is exactly zero; it must be another number")
    sizes = [abs(value) for value in squared(heights)] if signed else squared(heights)
    peak = max(sizes)
    try:
        score = float(Fraction(2 * len(heights) * peak, integral * integral))
    except OverflowError:
        raise RefusedError("the score is out of the range of a float: the integral of f is too near to zero") from None
    level = [knot for knot, size in enumerate(sizes) if size >= AT_PEAK * peak]
    total = sum(map(abs, heights))
    metrics = {
        "steps": len(heights),
        "peaks": len(level),
        "flat_share": len(level) / len(sizes),
        "negative_share": float(Fraction(total - integral if integral > 0 else total + integral, 2 * total)),
    }
    where = (sizes.index(peak) + 1) / (len(sizes) + 1) - 0.5
    flat = f"f*f is within 0.1 % of its maximum at {len(level)} of {len(sizes)} knots, and highest at t = {where:+.3f}"
    return score, metrics, f"{score:.9f} with {len(heights)} steps. {flat}."


if __name__ == "__main__":
    conclude(lambda: judge(sys.argv[1:] == ["--signed"]))
