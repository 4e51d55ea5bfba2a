"""Keys never leave the environment: whatever a provider says is searched for them before anybody else sees it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_HOLDS_KEY = re.compile(r"(?i)(key|token|secret|password|credentials?)$")
_SHORTEST = 8
"""Shorter values are words that stand in texts by themselves."""
MASK = "***"


def keys(environment: Mapping[str, str], also: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the values of an environment that are keys by the name of their variable, or are in `also`, longest first."""
    named = set(also)
    found = {value.strip() for name, value in environment.items() if name in named or _HOLDS_KEY.search(name)}
    return tuple(sorted((value for value in found if len(value) >= _SHORTEST), key=lambda value: (-len(value), value)))


def redacted(text: str, environment: Mapping[str, str] | None = None, also: Iterable[str] = ()) -> str:
    """Return a text without any key of the environment, however it is written in it; default is that of this process."""
    for key in keys(os.environ if environment is None else environment, also):
        for written in _forms(key):
            text = text.replace(written, MASK)
    return text


def _forms(key: str) -> Iterator[str]:
    yield key
    yield quote(key, safe="")
    yield key.encode("unicode_escape").decode()
    yield key.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/")
