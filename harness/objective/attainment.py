"""Attainment: how early a policy finds what the tree holds, whatever an attempt costs. Weights take no part in it."""

from __future__ import annotations

import math
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING

from harness.objective.base import share_of_span

if TYPE_CHECKING:
    from harness.objective.base import Course, Weights


def judge(course: Course, weights: Weights) -> float:  # noqa: ARG001 - every objective is asked in the same way
    """Return the area under best-so-far over all attempts that could be made, in [0, 1].

    The curve is the share of the tree's span reached after each attempt. Past a policy's last attempt it stays where it is:
    all policies are so judged over the same attempts, and one that stops after a good start is not taken for one that got on.
    1.0 is the tree's best at the first attempt, 0.0 the floor to the end. A tree without attempts is worth its start.
    """
    shares = [share_of_span(step.best, course.floor, course.top) for step in course.climb]
    if course.budget == 0:
        return shares[-1]
    # An attempt that meets a new best has it already: the step begins one attempt earlier.
    begins = [*(max(0, step.attempts - 1) for step in course.climb), course.budget]
    counts = [end - begin for begin, end in pairwise(begins)]
    # Each attempt is added by itself: products would be rounded, and a longer climb could come out below a shorter one.
    return math.fsum(chain.from_iterable(map(repeat, shares, counts))) / course.budget
