"""Value, the default: what was found, less what the attempts cost, plus a bonus for taking them in few rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.objective.base import Course, Weights


def judge(course: Course, weights: Weights) -> float:
    """Return V = quality - beta1·N + beta2·N / max(1, k).

    Source: design.md, section 3.
    """
    return course.quality - weights.beta1 * course.n + weights.beta2 * course.n / max(1, course.k)
