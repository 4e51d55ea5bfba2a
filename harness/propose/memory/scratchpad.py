"""The lessons that a model keeps for itself: few, short, and each one line.

A scratchpad is what a sequence of answers leaves behind, and follows from it alone: whoever takes up a run with the same answers
has the same lessons. It holds a stranger's words, which are data wherever they are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LESSONS = 12
"""How many are kept."""
LESSON_CHARACTERS = 240

_REPLACES = re.compile(r"(?:instead of|replaces)\s+L?(\d{1,6})\s*:\s*(.*)", re.IGNORECASE)
_NO_LESSON = ("", "none", "n a", "nothing", "nothing new", "no lesson", "no new lesson")
"""What models write where they have nothing to say."""
_NAMED = re.compile(r"\bL(\d{1,6})\b")


@dataclass(frozen=True, slots=True)
class Lesson:
    """One line that a model wanted to remember. `number` is its name for good and is never given twice."""

    number: int
    text: str
    uses: int = 0
    """In how many later answers it was named, or said again."""
    seen: int = 0
    """The answer, counted from 1, that said or used it last."""

    def __str__(self) -> str:
        return f"L{self.number}: {self.text}"


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """What has been kept, oldest first."""

    lessons: tuple[Lesson, ...] = ()
    answers: int = 0
    """How many have been noted."""
    given: int = 0
    """How many numbers have been given away."""

    @classmethod
    def of(cls, answers: Iterable[tuple[str, str]]) -> Scratchpad:
        """Return what these answers leave behind; each is a lesson, which may be empty, and a rationale."""
        pad = cls()
        for lesson, rationale in answers:
            pad = pad.noted(lesson, rationale)
        return pad

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the lessons as a prompt shows them, oldest first, each with the number by which an answer can name it."""
        return tuple(map(str, self.lessons))

    def noted(self, lesson: str, rationale: str = "") -> Scratchpad:
        """Return the scratchpad after one more answer.

        A rationale that names a lesson ("L3") uses it. A lesson that says what is known uses that one; one that begins with
        "instead of L3:" takes its place, and without further words removes it. Where there are more than may be kept, the one
        used least goes, of those the one not used for longest, of those the oldest; never the one just learnt.
        """
        at = self.answers + 1
        kept = _used(self.lessons, {int(number) for number in _NAMED.findall(rationale)}, at)
        replaced = _REPLACES.match(lesson.strip())
        if replaced is not None:
            kept = tuple(known for known in kept if known.number != int(replaced[1]))
        text = _one_line(lesson if replaced is None else replaced[2])
        if _words(text) in _NO_LESSON:
            return Scratchpad(kept, at, self.given)
        same = {known.number for known in kept if _words(known.text) == _words(text)}
        if same:
            return Scratchpad(_used(kept, same, at), at, self.given)
        if len(kept) >= LESSONS:
            goes = min(kept, key=lambda known: (known.uses, known.seen, known.number))
            kept = tuple(known for known in kept if known is not goes)
        return Scratchpad((*kept, Lesson(self.given + 1, text, seen=at)), at, self.given + 1)


def _used(lessons: tuple[Lesson, ...], numbers: set[int], at: int) -> tuple[Lesson, ...]:
    return tuple(
        replace(lesson, uses=lesson.uses + 1, seen=at) if lesson.number in numbers and lesson.seen < at else lesson
        for lesson in lessons
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LESSON_CHARACTERS else line[: LESSON_CHARACTERS - 1].rstrip() + "…"


def _words(text: str) -> str:
    """Return what two ways of writing the same sentence have in common."""
    return " ".join(re.findall(r"\w+", text.casefold()))
