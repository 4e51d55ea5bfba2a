"""The description of the policy interface, from its one source, by its sections."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

LEFT_OUT = ("The value",)
"""It tells the default objective; a prompt tells the one that is asked for."""


class Section(NamedTuple):
    """A part of the description under its heading; the first one has none."""

    heading: str
    text: str


@cache
def sections() -> tuple[Section, ...]:
    """Return the sections that prompts show, in order."""
    text = (files("policy_templates") / "interface.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    first = Section("", parts[0].strip())
    rest = zip(parts[1::2], parts[2::2], strict=True)
    named = [Section(heading.strip(), f"## {heading}\n{body}".strip()) for heading, body in rest]
    return (first, *(section for section in named if section.heading not in LEFT_OUT))
