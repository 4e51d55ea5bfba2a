"""The ways in which an answer may be meant: as it stands first, then without what transport or habit may have done to it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from harness.propose.edits.base import ANSWER_CHARACTERS
from harness.propose.edits.calls import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTITIES = ("&lt;", "&gt;", "&amp;", "&quot;", "&#", "&apos;")
_ODD = {
    **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
    **dict.fromkeys("\u2013\u2212\u2010\u2011", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
    **dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\u00ad", ""),
    "\u2026": "...",
    "\u2028": "\n",
    "\u2029": "\n",
    "\u0085": "\n",
}
_PLAIN = str.maketrans(_ODD)
_LINES = 3


def readings(text: str) -> Iterator[str]:
    """Yield an answer as it stands, then what else it may say; each only where it differs."""
    yield text
    if len(text) > ANSWER_CHARACTERS:
        return
    said = as_text(text)
    if said is not None:
        yield said
    plain = text
    if any(entity in plain for entity in _ENTITIES):
        plain = html.unescape(plain)
        yield plain
    straight = plain.translate(_PLAIN)
    if straight != plain:
        yield straight
    if straight.count("\n") < _LINES and straight.count("\\n") >= _LINES:
        yield straight.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
