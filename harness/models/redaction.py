"""Keys never leave the environment: whatever a provider says is searched for them before anybody else sees it."""

from __future__ import annotations

import html
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HOLDS_KEY = re.compile(r"(?i)(key|token|secret|password|credentials?)$")
_SHORTEST = 8
"""Shorter values of variables that nobody named are words that stand in texts by themselves."""
_SHORTEST_NAMED = 4
_SHAPES = (
    re.compile(r"\b(?:sk|pk|rk|gsk|ghp|gho|ghs|xox[abps]|AIza|AKIA)[-_]?[A-Za-z0-9_-]{16,}"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/-]{8,}=*"),
    re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"),
)
"""What looks like a key or a password wherever it comes from: the usual beginnings, bearer tokens, passwords of URLs."""
MASK = "***"


def keys(environment: Mapping[str, str], also: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the values of an environment that are keys by the name of their variable, or are in `also`, longest first."""
    named = set(also)
    found = {value.strip() for name, value in environment.items() if _HOLDS_KEY.search(name) and len(value.strip()) >= _SHORTEST}
    found |= {environment[name].strip() for name in named if len(environment.get(name, "").strip()) >= _SHORTEST_NAMED}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def redacted(text: str, environment: Mapping[str, str] | None = None, also: Iterable[str] = ()) -> str:
    """Return a text without any key of the environment, however it is written in it, and without what looks like one."""
    for key in keys(os.environ if environment is None else environment, also):
        text = re.sub("".join(map(_written, key)), MASK, text)
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    return text


def _written(character: str) -> str:
    """Return a pattern of the ways in which a character stands in a text: as it is, or escaped as URLs, JSON and HTML have it."""
    if character.isascii() and character.isalnum():
        return character
    code = ord(character)
    in_url = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    in_html = html.escape(character)
    forms = (
        rf"\\{{0,8}}{re.escape(character)}",
        f"(?i:{in_url})",
        rf"(?i:\\{{1,8}}u{code:04x}|\\{{1,8}}x{code:02x})",
        rf"&\#(?:0*{code}|(?i:x0*{code:x}));",
    )
    return f"(?:{'|'.join((*forms, re.escape(in_html)))})"
