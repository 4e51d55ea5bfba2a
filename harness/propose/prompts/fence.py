"""Fence words of others in, so that they cannot end their fence, hide in it or speak as somebody else.

A fence is a pair of tags with a key that stands nowhere in what they enclose. The key is drawn from all that is shown: no text
can hold it by intent, and one that holds it by chance gets another key.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import TYPE_CHECKING

from harness.propose.prompts.base import Foreign

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_CHARACTERS = 10

_PLAIN = re.compile(r"[\t\n\x20-\x7e]*")
# What servers of open models take for a change of speaker wherever it stands: `<|im_start|>`, `</s>`, `[INST]`, `<<SYS>>` …
_SPEAKERS = re.compile(
    r"(<)(?=[|\uff5c]|<?/?SYS>>|/?(?:s|bos|eos|sop|eop|pad|unk|start_of_turn|end_of_turn|unused\d+)>)|(\[)(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS)\])",
    re.IGNORECASE,
)


class KeyTakenError(Exception):
    """The key stands in what it is to fence in; another one will do."""


class Fence:
    """Fences of one prompt."""

    def __init__(self, drawn_from: Iterable[str], attempt: int = 0) -> None:
        told = hashlib.sha256(f"fence/1:{attempt}".encode())
        for text in drawn_from:
            told.update(f":{len(text)}:{text}".encode("utf-8", "surrogatepass"))
        self.key = told.hexdigest()[:KEY_CHARACTERS]

    def data(self, what: str, *texts: Foreign | Iterable[Foreign]) -> str:
        """Return texts one below the other in a fence; `what` says in words of ours what they are.

        Raises:
            KeyTakenError: one of them holds the key.
        """
        lines = [foreign.text for text in texts for foreign in ([text] if isinstance(text, Foreign) else text)]
        inner = clean("\n".join(lines)).strip("\n")
        if self.key in inner.lower():
            raise KeyTakenError
        return f'<data-{self.key} what="{what}">\n{inner}\n</data-{self.key}>'


def clean(text: str) -> str:
    """Return a text without what a reader cannot see, and without marks that a server takes for a change of speaker.

    A mark is taken apart by a space behind its first character, which leaves code what it is, strings aside.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not _PLAIN.fullmatch(text):
        odd = {char for char in set(text) if char not in "\t\n" and unicodedata.category(char) in _INVISIBLE}
        text = text.translate({ord(char): "\ufffd" for char in odd})
    return _SPEAKERS.sub(r"\1\2 ", text)


_LARGE = 10_000
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def figure(value: float | None) -> str:
    """Return a value in the length that people read: four decimals, fewer where it is large."""
    if value is None:
        return "none"
    return f"{value:.4f}" if abs(value) < _LARGE else f"{value:.6g}"


def quoted(text: str, characters: int) -> str:
    """Return a text on one line and in quotes that it cannot end, cut in its middle to so many characters of its own."""
    return json.dumps(shortened(" ".join(clean(text[: 20 * characters]).split()), characters), ensure_ascii=False)


def shortened(text: str, characters: int) -> str:
    """Return a text that is longer without its middle; what stands at the end of an error is most of it."""
    if len(text) <= characters:
        return text
    head = characters * 2 // 3
    return f"{text[:head]} … {text[len(text) - max(0, characters - head - 3) :]}"
