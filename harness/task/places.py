"""Places in commands that people write: `{word}` is filled in, `{{word}}` is the text `{word}`, and any other word is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PLACE = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")


def unknown_place(words: Iterable[str], known: Iterable[str]) -> str | None:
    """Return the first place in a command that is none of those known, without its braces."""
    names = set(known)
    named = (found[2] for word in words for found in _PLACE.finditer(word))
    return next((name for name in named if name is not None and name not in names), None)


def filled(word: str, places: Mapping[str, str]) -> str:
    """Return a word of a command with its places filled in; all of them are known."""
    return _PLACE.sub(lambda found: places[found[2]] if found[1] is None else f"{{{found[1]}}}", word)


def wish(unknown: str, known: Iterable[str]) -> str:
    """Return in words what is expected where a place is not known."""
    listed = ", ".join(f"{{{name}}}" for name in known)
    return f"no {{{unknown}}}: places are {listed}; write {{{{{unknown}}}}} for the text {{{unknown}}}"
