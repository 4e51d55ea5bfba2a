"""What commands print: answers on standard output as aligned text or JSON, everything else on standard error.

Text of policies, trees and models is untrusted: it is shown without control characters, so that it cannot steer a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDE = 1e6
"""Figures from here on are written with an exponent, so that columns stay narrow."""


def say(text: str = "") -> None:
    """Write one answer to standard output."""
    say_exactly(clean(text) + "\n")


def say_exactly(text: str) -> None:
    """Write text to standard output as it is. Whoever has stopped reading has seen enough: the command ends as done."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        drop_answers()
        raise SystemExit(0) from None


def drop_answers() -> None:
    """Send what is left of standard output nowhere, or the interpreter would fail on it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def note(text: str) -> None:
    """Write what is no answer to standard error; later lines, which may be somebody else's words, are moved to the right."""
    sys.stdout.flush()
    sys.stderr.write("harness: " + clean(text).replace("\n", "\n    ") + "\n")
    sys.stderr.flush()


class Once:
    """Notes each thing once: a command that opens several sandboxes says of none again what holds for all."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, text: str) -> None:
        """Note it, where that was not done before."""
        if text not in self._told:
            self._told.add(text)
            note(text)


def say_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    say_exactly(json.dumps(document, allow_nan=False, indent=2) + "\n")


def clean(text: str) -> str:
    """Return text with control characters and halves of characters written as escapes; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def one_line(text: str) -> str:
    """Return text as `clean` does, on one line: a name must not look like a line of ours."""
    return clean(text).replace("\n", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Return rows as aligned columns; those named in `left` are flush left, numbers flush right."""
    lines = [list(head), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    at_left = [name in left for name in head]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if flush else cell.rjust(width) for cell, width, flush in zip(line, widths, at_left, strict=True)
        ).rstrip()
        for line in lines
    )


def number(value: float | None, signed: bool = False) -> str:
    """Return a figure as people read it; a dash where there is none."""
    if value is None:
        return "-"
    form = "z.4f" if abs(value) < _WIDE else ".4e"
    return format(value, f"+{form}" if signed else form)


def short(text: str, width: int = 60) -> str:
    """Return the first line of a text, cut to a width."""
    line = next(iter(text.splitlines()), "")
    return line if len(line) <= width else line[: width - 1] + "…"


def indented(text: str, by: str = "    ") -> str:
    """Return a text moved to the right."""
    return "\n".join(by + line for line in text.rstrip().splitlines())
