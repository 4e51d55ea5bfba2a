"""Lay new lines out as the lines that they replace are laid out: by what each indentation of the model's stands for there."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TAB = 4


class Drift(Exception):  # noqa: N818 - an answer between two functions, never seen outside
    """One indentation of the model's stands for several of the source's: nothing says which is meant."""


def reindented(lines: Iterable[str], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines with the indentation of a source.

    `pairs` are lines as a model copied them, each with the line it stands for.

    Raises:
        Drift: the copies do not say where lines belong.
    """
    known: dict[int, int] = {}
    for copied, real in pairs:
        if known.setdefault(_width(copied), _width(real)) != _width(real):
            raise Drift
    tabs = any("\t" in _indentation(real) for _, real in pairs)
    if all(copied == real for copied, real in known.items()) and not tabs:
        return [_laid_out(line, _width(line), tabs=False) if "\t" in _indentation(line) else line for line in lines]
    scale = _scale(known)
    return [_laid_out(line, _meant(_width(line), known, scale), tabs=tabs) for line in lines]


def _meant(width: int, known: dict[int, int], scale: float) -> int:
    """Return the width that one of the model's stands for; those it did not copy are counted from the nearest it did."""
    nearest = max((copied for copied in known if copied <= width), default=min(known))
    return max(0, known[nearest] + round((width - nearest) * scale))


def _scale(known: dict[int, int]) -> float:
    """Return how many columns of the source one of the model's is: 2 where it indents by 2 and the source by 4."""
    steps = sorted(known.items())
    for (copied, real), (deeper, real_deeper) in pairwise(steps):
        if real_deeper > real:
            return (real_deeper - real) / (deeper - copied)
    return 1.0


def _laid_out(line: str, width: int, *, tabs: bool) -> str:
    text = line.lstrip()
    if not text:
        return ""
    return ("\t" * (width // _TAB) + " " * (width % _TAB) if tabs else " " * width) + text


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _width(line: str) -> int:
    return len(_indentation(line).expandtabs(_TAB))
