"""Find what an agent says that it sets out to try in what it wrote: an object with component, statement and reason.

Whatever is no such object is no hypothesis; nothing that is written there does harm.
"""

from __future__ import annotations

import json
from typing import Any

from harness.agents.base import Hypothesis, told
from harness.propose.edits import marks

PART_CHARACTERS = 500
_CHARACTERS = 200_000


def read(text: str | bytes) -> Hypothesis | None:
    """Return the hypothesis that a text of JSON is, None where it is none."""
    try:
        return of(json.loads(text))
    except (ValueError, RecursionError):
        return None


def of(said: Any) -> Hypothesis | None:
    """Return the hypothesis that an object is; parts that are missing or no texts are empty."""
    if not isinstance(said, dict) or not isinstance(said.get("statement"), str) or not said["statement"].strip():
        return None
    parts = [said.get(name) for name in ("component", "statement", "reason")]
    return Hypothesis(*(told(part[:PART_CHARACTERS], PART_CHARACTERS) if isinstance(part, str) else "" for part in parts))


def fenced(text: str) -> Hypothesis | None:
    """Return the hypothesis of the last fence marked `json` that holds one, of a long text in its last 200,000 characters."""
    lines = marks.plain_ends(text[-_CHARACTERS:]).split("\n")
    for part in reversed(marks.fenced(lines)):
        if part.closed and part.info.lower() == "json":
            found = read("\n".join(lines[part.first : part.last]))
            if found is not None:
                return found
    return None
