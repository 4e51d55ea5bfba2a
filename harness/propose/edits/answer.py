"""Read an answer: the model's reasons in their marked sections, and the lines that remain for the edit.

Sections are `<rationale>…</rationale>` and `<lesson>…</lesson>`. Models forget the end of a tag, write a heading or "Lesson:" in
its place, think aloud first or wrap everything in a fence: all of that is read, line by line, in one pass.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.propose.edits import marks
from harness.propose.edits.base import (
    ANSWER_CHARACTERS,
    LESSON_CHARACTERS,
    RATIONALE_CHARACTERS,
    FaultReason,
    ProposalFault,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECTIONS = ("rationale", "lesson")
_THOUGHTS = ("think", "thinking", "reasoning", "thought")
_WRAPPERS = ("markdown", "md", "text", "txt", "plaintext", "xml")
_PROSE_CHARACTERS = 500
"""How much of the prose around an edit stands for a rationale that is not marked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as read. `lines` hold no section; `cut` says that the model was stopped at its limit of output."""

    lines: tuple[str, ...]
    rationale: str = ""
    lesson: str = ""
    cut: bool = False

    @property
    def text(self) -> str:
        """Return the lines as one text."""
        return "\n".join(self.lines)


def read(text: str, *, cut: bool = False) -> Answer:
    """Return an answer as read.

    Raises:
        ProposalFault: it is empty, too long to be looked at, or ends while the model is still thinking.
    """
    if len(text) > ANSWER_CHARACTERS:
        told = f"the answer has {len(text)} characters; expected at most {ANSWER_CHARACTERS}: send the edit alone"
        raise ProposalFault(FaultReason.TOO_LARGE, told)
    text = marks.plain_ends(text).lstrip("\ufeff")
    lines = _unwrapped(_said(text).split("\n"))
    if not any(line.strip() for line in lines):
        raise ProposalFault(FaultReason.EMPTY, "the answer is empty; expected an edit in the form that was asked for")
    rest, sections = _divided(lines)
    rationale, lesson = ("\n".join(sections[name]) for name in _SECTIONS)
    said = clean(rationale, RATIONALE_CHARACTERS) or clean(_prose(rest), _PROSE_CHARACTERS)
    return Answer(tuple(rest), said, " ".join(clean(lesson, LESSON_CHARACTERS).split()), cut)


def _said(text: str) -> str:
    """Return what follows the model's thoughts."""
    lowered = text.lower() if text.isascii() else "".join(char.lower() if char.isascii() else char for char in text)
    ended = max(lowered.rfind(f"</{name}>") for name in _THOUGHTS)
    if ended >= 0:
        return text[text.index(">", ended) + 1 :]
    if lowered.lstrip().startswith(tuple(f"<{name}>" for name in _THOUGHTS)):
        told = "the answer ends before the thinking does; think less and answer with the edit"
        raise ProposalFault(FaultReason.TRUNCATED, told)
    return text


def _unwrapped(lines: list[str]) -> list[str]:
    """Leave out a fence that holds the whole answer as Markdown."""
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    opening = marks.fence(lines[first])
    if opening is None or opening.info.lower() not in _WRAPPERS:
        return lines
    last = max(number for number, line in enumerate(lines) if line.strip())
    closing = marks.fence(lines[last])
    end = last if last > first and closing is not None and closing.closes(opening) else len(lines)
    return lines[first + 1 : end]


def _divided(lines: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Separate sections from the rest. Fences and blocks are the rest, whatever stands in them."""
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    inside = {number for part in marks.fenced(lines) for number in range(part.first, part.last)}
    rest: list[str] = []
    section, tagged, block = "", False, False
    for number, line in enumerate(lines):
        structure = marks.fence(line) is not None or marks.begins(line)
        if number in inside or block or structure:
            # A section that was never ended is over where the edit begins.
            section = "" if structure and number not in inside else section
            block = (block or marks.begins(line)) and not marks.ends(line)
            rest.append(line)
            continue
        name, said, closed = _opening(line)
        if name:
            section, tagged = ("" if closed else name), line.lstrip().startswith("<")
            sections[name] += [said] if said else []
        elif section and f"</{section}>" in line.lower():
            sections[section].append(line[: line.lower().index(f"</{section}>")])
            section = ""
        elif section and (tagged or line.strip() or not sections[section]):
            sections[section].append(line)
        else:
            section = ""
            rest.append(line)
    return rest, sections


def _opening(line: str) -> tuple[str, str, bool]:
    """Return which section a line opens, what it says of it already, and whether it ends it as well."""
    bare = line.strip()
    lowered = bare.lower()
    for name in _SECTIONS:
        if lowered.startswith(f"<{name}>"):
            said = bare[len(name) + 2 :]
            end = said.lower().find(f"</{name}>")
            return name, said[:end] if end >= 0 else said, end >= 0
        label, colon, said = bare.strip("#*_ ").partition(":")
        headed = bare.startswith(("#", "*", "_")) and not colon
        if label.strip("*_ ").lower() in (name, f"{name} learned", f"{name} learnt") and (colon or headed):
            return name, said.strip("*_ "), False
    return "", "", False


def _prose(lines: Sequence[str]) -> str:
    """Return what stands around fences and blocks; without either, prose cannot be told from code."""
    parts = marks.fenced(lines)
    inside = {number for part in parts for number in range(part.first - 1, part.last + 1)}
    said: list[str] = []
    block, structured = False, bool(parts)
    for number, line in enumerate(lines):
        block = block or marks.begins(line)
        structured = structured or block
        tag = line.strip().startswith("<") and line.strip().endswith(">")
        if not block and number not in inside and not marks.file_named(line) and not tag:
            said.append(line)
        block = block and not marks.ends(line)
    return "\n".join(said) if structured else ""


def clean(text: str, limit: int) -> str:
    """Return text fit to be shown and stored: no control characters, no surrogates, no more than its share."""
    text = text[: 4 * limit]
    kept = "".join(char for char in text if char in "\n\t" or unicodedata.category(char)[0] != "C").strip()
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"
