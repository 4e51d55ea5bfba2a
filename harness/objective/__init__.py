"""Objectives: what a replay is judged by. Each is a file with one function; an evaluation is made under one of them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.objective import attainment, value
from harness.objective.base import Course, Normalize, Objective, Step, Weights, share_of_span

if TYPE_CHECKING:
    from harness.objective.base import Judge

__all__ = ["OBJECTIVES", "Course", "Normalize", "Objective", "Step", "Weights", "share_of_span"]

OBJECTIVES: dict[Objective, Judge] = {
    Objective.VALUE: value.judge,
    Objective.ATTAINMENT: attainment.judge,
}
