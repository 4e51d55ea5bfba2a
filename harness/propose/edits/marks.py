"""Recognise the lines that structure an answer: fences, the marks of search/replace blocks, names of files.

Every function looks at one line with string methods; none of them searches, so none can backtrack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SEARCH = "<<<<<<< SEARCH"
DIVIDER = "======="
REPLACE = ">>>>>>> REPLACE"
MARK_CHARACTERS = 200
"""Longer lines are text, whatever they begin with."""
_RUN = 5
"""How often a mark's character has to stand: models miscount seven."""
_TAGS = {"<search>": SEARCH, "</search>": DIVIDER, "</replace>": REPLACE}


class Fence(NamedTuple):
    """A line of three or more backticks or tildes; `info` is what stands behind them."""

    character: str
    length: int
    info: str

    def closes(self, other: Fence) -> bool:
        """Return whether this line can end a fence that `other` opened."""
        return not self.info and self.within(other)

    def within(self, other: Fence) -> bool:
        """Return whether this line means something inside of a fence that `other` opened."""
        return self.character == other.character and self.length >= other.length


class Fenced(NamedTuple):
    """The lines between two fences: `first` up to, and without, `last`."""

    info: str
    first: int
    last: int
    closed: bool


def plain_ends(text: str) -> str:
    """Return a text whose lines end in line feeds alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def fence(line: str) -> Fence | None:
    """Return what a line is as a fence, None where it is none."""
    bare = line.strip() if len(line) <= MARK_CHARACTERS else ""
    for character in "`~":
        if bare.startswith(character * 3):
            info = bare.lstrip(character)
            return None if "`" in info else Fence(character, len(bare) - len(info), info.strip())
    return None


def fenced(lines: Sequence[str]) -> list[Fenced]:
    """Return what is fenced in, in order; a fence with a language inside of another one is part of it."""
    found: list[Fenced] = []
    opened: tuple[int, Fence] | None = None
    depth = 0
    for number, line in enumerate(lines):
        mark = fence(line)
        if mark is None:
            continue
        if opened is None:
            opened, depth = (number, mark), 0
        elif not mark.within(opened[1]):
            continue
        elif mark.info:
            depth += 1
        elif depth:
            depth -= 1
        else:
            found.append(Fenced(opened[1].info, opened[0] + 1, number, closed=True))
            opened = None
    if opened is not None:
        found.append(Fenced(opened[1].info, opened[0] + 1, len(lines), closed=False))
    return found


def begins(line: str) -> bool:
    """Return whether a line opens a search/replace block."""
    bare = _bare(line)
    return bare.startswith("<" * _RUN) or (bare.startswith("-" * _RUN) and bare.strip("- ").upper() == "SEARCH")


def divides(line: str) -> bool:
    """Return whether a line stands between what to search and what to put in its place."""
    bare = _bare(line)
    return len(bare) >= _RUN and not bare.strip("=")


def ends(line: str) -> bool:
    """Return whether a line ends a block."""
    bare = _bare(line)
    return bare.startswith(">" * _RUN) or (bare.startswith("+" * _RUN) and bare.strip("+ ").upper() == "REPLACE")


def indentation(line: str) -> int:
    """Return with how much white space a line begins."""
    return len(line) - len(line.lstrip())


def _bare(line: str) -> str:
    bare = line.strip() if len(line) <= MARK_CHARACTERS else ""
    return _TAGS.get(bare.lower(), bare)


def file_named(line: str) -> str:
    """Return the file that a line names and nothing else (`### policy.py`, `**File: a/b.py**`), or nothing."""
    bare = line.strip() if len(line) <= MARK_CHARACTERS else ""
    bare = bare.strip("#*`:_ ")
    label, _, rest = bare.partition(" ")
    if label.lower().rstrip(":") in ("file", "path", "filename"):
        bare = rest.strip("*`: ")
    stem, dot, suffix = bare.rpartition(".")
    named = "/" in bare or (dot and stem and suffix.isalnum() and not suffix.isdigit())
    return bare if named and " " not in bare else ""


def unfenced(lines: Sequence[str]) -> list[str]:
    """Return lines without the fence around all of them, where there is one."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if len(filled) > 1:
        opening, closing = fence(lines[filled[0]]), fence(lines[filled[-1]])
        if opening is not None and closing is not None and closing.closes(opening):
            return list(lines[filled[0] + 1 : filled[-1]])
    return list(lines)
