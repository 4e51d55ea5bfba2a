"""Apply an answer: read it in each way it may be meant, and make of its parents what it says.

Pure: the same answer and parents give the same source. Whatever the text, it ends in an edit or in a `ProposalFault`, in time
linear in it: it is measured first, marks are looked for line by line, and what is tried again is tried a fixed number of times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from harness.propose.edits.answer import Answer, clean, read
from harness.propose.edits.base import LESSON_CHARACTERS, RATIONALE_CHARACTERS, Edited, EditKind, FaultReason, ProposalFault
from harness.propose.edits.blocks import Block, apply_blocks, outside, read_blocks
from harness.propose.edits.diffs import read_diff
from harness.propose.edits.marks import fenced, plain_ends
from harness.propose.edits.parameters import choose_template, set_parameters
from harness.propose.edits.readings import readings
from harness.propose.edits.samecode import parsed, same_code
from harness.propose.edits.whole import elided, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.policy import Candidate
    from harness.propose.templates import Template

_REFUSALS = ("i can't", "i cannot", "i can not", "i'm unable", "i am unable", "i won't", "i will not", "i'm sorry", "i am sorry")
_REFUSAL_CHARACTERS = 2_000
_UNTOLD = (FaultReason.NO_EDIT, FaultReason.NO_POLICY, FaultReason.EMPTY)
"""Reasons that say less than any other, which another reading of the same answer may have."""


class Editor(Protocol):
    """Makes one kind of edit. It knows neither the other kinds nor how an answer reached it."""

    def __call__(self, answer: Answer, parents: Sequence[Candidate], templates: Sequence[Template]) -> Edited:
        """Return what the answer makes of its parents, or raise the fault that keeps it from being one."""


def apply(
    text: str, kind: EditKind, parents: Sequence[Candidate], templates: Sequence[Template] = (), *, cut: bool = False
) -> Edited:
    """Return what a model's answer makes of the parents, the first of which is the one to edit.

    `cut` says that the model was stopped at its limit of output: what has no end is then no edit, nor are blocks, of which
    more may have been meant.

    Raises:
        ProposalFault: the answer is no edit, or changes nothing; the message tells the model why.
    """
    if not parents:
        raise ValueError("an edit needs a parent")
    fault: ProposalFault | None = None
    unreadable: Edited | None = None
    for reading in readings(text):
        try:
            edited = _edited(read(reading, cut=cut), kind, parents, templates)
        except ProposalFault as refused:
            fault = refused if fault is None or fault.reason in _UNTOLD else fault
            continue
        if parsed(edited.source) is not None:
            return edited
        unreadable = unreadable or edited
    if unreadable is not None:
        return unreadable
    raise fault or ProposalFault(FaultReason.NO_EDIT, "the answer holds no edit")


def _edited(answer: Answer, kind: EditKind, parents: Sequence[Candidate], templates: Sequence[Template]) -> Edited:
    try:
        edited = _EDITORS[kind](answer, parents, templates)
    except ProposalFault as fault:
        if fault.reason in _UNTOLD and _declines(answer.text):
            raise ProposalFault(FaultReason.REFUSED, f"the model declined: {clean(answer.text, 200)}") from fault
        raise
    # All parents count: a copy of the second one is no cross.
    for place, parent in enumerate(parents, start=1):
        if same_code(edited.source, parent.source):
            which = "the policy" if len(parents) == 1 else f"parent {place}"
            told = f"the edit leaves {which} as it was, comments, docstrings and layout aside; change what it does"
            raise ProposalFault(FaultReason.NO_CHANGE, told)
    rationale = clean(edited.rationale, RATIONALE_CHARACTERS) or answer.rationale
    lesson = " ".join(clean(edited.lesson, LESSON_CHARACTERS).split()) or answer.lesson
    return replace(edited, rationale=rationale, lesson=lesson)


def _code(answer: Answer, parents: Sequence[Candidate], templates: Sequence[Template]) -> Edited:
    """Read code in any of its forms: blocks, a diff, a whole file. A model is not refused for choosing another than asked."""
    del templates
    blocks = read_blocks(answer.lines) or read_diff(answer.lines)
    if not blocks:
        sources = [plain_ends(parent.source) for parent in parents]
        return Edited(whole(answer.lines, sources, cut=answer.cut), kind=EditKind.WHOLE)
    if answer.cut:
        told = f"the answer was cut off after {blocks[-1].name}, so more may be missing; send fewer or shorter blocks"
        raise ProposalFault(FaultReason.TRUNCATED, told)
    source = plain_ends(parents[0].source)
    try:
        _refuse_elided(source, blocks)
        applied = apply_blocks(source, blocks)
    except ProposalFault:
        file = _file_beside(answer, parents)
        if file is None:
            raise
        return Edited(file, kind=EditKind.WHOLE)
    return Edited(applied.source, fuzzy=applied.fuzzy, kind=EditKind.BLOCKS)


def _file_beside(answer: Answer, parents: Sequence[Candidate]) -> str | None:
    """Return the whole file that a model sent in a fence as well, where its blocks fit nowhere."""
    lines = outside(answer.lines)
    try:
        file = whole(lines, [plain_ends(parent.source) for parent in parents], cut=True) if fenced(lines) else ""
    except ProposalFault:
        return None
    return file if file and parsed(file) is not None else None


def _cross(answer: Answer, parents: Sequence[Candidate], templates: Sequence[Template]) -> Edited:
    return replace(_code(answer, parents, templates), kind=EditKind.CROSS)


_EDITORS: Mapping[EditKind, Editor] = {
    EditKind.BLOCKS: _code,
    EditKind.WHOLE: _code,
    EditKind.CROSS: _cross,
    EditKind.PARAMETERS: set_parameters,
    EditKind.TEMPLATE: choose_template,
}


def _refuse_elided(source: str, blocks: Sequence[Block]) -> None:
    known = {line.strip() for line in source.split("\n")}
    for block in blocks:
        line = elided([line for split in block.splits for line in (*split.search, *split.replace) if line.strip() not in known])
        if line:
            told = f"{block.name} leaves code out ({line!r}); copy every line that it searches for, and write every new one"
            raise ProposalFault(FaultReason.ELIDED, told)


def _declines(text: str) -> bool:
    said = text[:_REFUSAL_CHARACTERS].lower().replace("\u2019", "'")
    return len(text) <= _REFUSAL_CHARACTERS and any(refusal in said for refusal in _REFUSALS)
