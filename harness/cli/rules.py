"""By what an evaluation judged, as outputs show it: nothing more where the defaults hold, every choice where one was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.score import Objective, Weight

if TYPE_CHECKING:
    from harness.score import Settings


def words(settings: Settings) -> str:
    """Return objective and weight where they are not the defaults, each after a comma."""
    said = "" if settings.objective is Objective.VALUE else f", objective {settings.objective}"
    return said if settings.weight is Weight.TREE else f"{said}, groups weighted alike ({settings.group_by})"


def document(settings: Settings) -> dict[str, Any]:
    """Return objective and weight as JSON."""
    return {"objective": settings.objective, "weight": settings.weight, "group_by": settings.group_by}
