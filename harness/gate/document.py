"""A verdict as a document of plain values, and back, without losing a digit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.gate.verdict import Bounds, GroupDifference, Look, Outcome, Part, PartName, TreeDifference, Verdict
from harness.score import settings_from

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "verdict/1"


def document(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as what JSON can hold."""
    plain: dict[str, Any] = _plain(asdict(verdict))
    return {"format": FORMAT} | plain


def verdict_from(document: Mapping[str, Any]) -> Verdict:
    """Return the verdict that a document holds.

    Raises:
        ValueError: it is a document of another kind.
    """
    if document.get("format") != FORMAT:
        raise ValueError(f"format is {document.get('format')!r}; expected {FORMAT!r}")
    said = {name: value for name, value in document.items() if name != "format"}
    return Verdict(
        **said
        | {
            "outcome": Outcome(said["outcome"]),
            "parts": tuple(
                Part(
                    **part
                    | {"name": PartName(part["name"]), "outcome": Outcome(part["outcome"]), "figures": dict(part["figures"])}
                )
                for part in said["parts"]
            ),
            "look": None if said["look"] is None else Look(**said["look"]),
            "trees": tuple(TreeDifference(**tree) for tree in said["trees"]),
            "groups": tuple(GroupDifference(**group) for group in said["groups"]),
            "left_out": tuple((tree, why) for tree, why in said["left_out"]),
            "settings": settings_from(said["settings"]),
            "bounds": Bounds(**said["bounds"]),
        }
    )


def _plain(value: Any) -> Any:
    """Return lists for tuples and plain strings for enums."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
