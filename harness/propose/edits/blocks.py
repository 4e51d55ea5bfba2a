"""Search/replace blocks: read them from an answer and put them into the parent's source.

All blocks speak of the source as it was shown: each is located there, and they must not overlap. Only where that fails are they
taken one after the other, for models that edit what they have just written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from harness.propose.edits import marks
from harness.propose.edits.base import FaultReason, ProposalFault
from harness.propose.edits.locate import Place, locate

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPLITS = 4
"""How many lines of `=` one block may hold: beside the divider they underline headings in docstrings."""
_BLOCKS = 64
_POLICY_FILES = ("policy", "candidate", "solution", "main", "scheduler", "incumbent", "parent", "version")


class Split(NamedTuple):
    """One way to read a block: lines to search, and lines to put in their place."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


class Block(NamedTuple):
    """A block as it stands in the answer: the ways to read it (one, unless lines of `=` are part of the code), and its file."""

    name: str
    splits: tuple[Split, ...]
    file: str = ""


class Applied(NamedTuple):
    """The source that blocks lead to, and whether one of them only nearly matched."""

    source: str
    fuzzy: bool


def read_blocks(lines: Sequence[str]) -> list[Block]:
    """Return the blocks of an answer in order, without repetitions.

    Raises:
        ProposalFault: a block is not built as it has to be, or has no end.
    """
    found: list[Block] = []
    body: list[str] | None = None
    before, file, column = "", "", 0
    for number, line in enumerate(lines, start=1):
        if marks.begins(line):
            if body is not None:
                raise _malformed(found, f"begins a second time in line {number}, before its '{marks.REPLACE}'")
            body, file, column = [], marks.file_named(before), marks.indentation(line)
        elif marks.ends(line):
            if body is None:
                raise _malformed(found, f"ends in line {number} and never began; expected '{marks.SEARCH}' before it")
            found.append(Block(_name(found), _splits(found, body, column), file))
            body = None
        elif body is not None:
            body.append(line)
        elif line.strip() and (marks.fence(line) is None or marks.file_named(_file_of(line))):
            before = line if marks.fence(line) is None else _file_of(line)
    if body is not None:
        told = f"{_name(found)} has no end: expected a line '{marks.DIVIDER}', the new lines and '{marks.REPLACE}'"
        raise ProposalFault(FaultReason.TRUNCATED, told)
    return list({block.splits: block for block in reversed(found)}.values())[::-1]


def outside(lines: Sequence[str]) -> list[str]:
    """Return the lines of an answer that are part of no block."""
    rest: list[str] = []
    block = False
    for line in lines:
        block = block or marks.begins(line)
        if not block:
            rest.append(line)
        block = block and not marks.ends(line)
    return rest


def apply_blocks(source: str, blocks: Sequence[Block]) -> Applied:
    """Return the source with all blocks put in.

    Raises:
        ProposalFault: a block cannot be placed, with the lines that come nearest.
    """
    if len(blocks) > _BLOCKS:
        told = f"the answer has {len(blocks)} blocks; expected at most {_BLOCKS}, or the whole file"
        raise ProposalFault(FaultReason.MALFORMED, told)
    lines = source.split("\n")
    try:
        return _at_once(lines, blocks)
    except ProposalFault as fault:
        if len(blocks) == 1 or fault.reason not in (FaultReason.NO_MATCH, FaultReason.OVERLAP):
            raise
        try:
            return _in_turn(lines, blocks)
        except ProposalFault:
            raise fault from None


def _at_once(lines: list[str], blocks: Sequence[Block]) -> Applied:
    placed = sorted(((_place(lines, block), block) for block in blocks), key=lambda pair: (pair[0].first, pair[0].last))
    for (one, earlier), (other, later) in pairwise(placed):
        if other.first < one.last:
            names = " and ".join(block.name for block in blocks if block in (earlier, later))
            told = f"{names} both change line {other.first + 1} of the policy; make one block of the two"
            raise ProposalFault(FaultReason.OVERLAP, told)
    result = list(lines)
    for place, _ in reversed(placed):
        result[place.first : place.last] = place.lines
    return Applied("\n".join(result), any(place.fuzzy for place, _ in placed))


def _in_turn(lines: list[str], blocks: Sequence[Block]) -> Applied:
    for block in blocks:
        place = _place(lines, block)
        # What nearly matches a line that an earlier block wrote may be that line, edited twice.
        if place.fuzzy:
            raise ProposalFault(FaultReason.NO_MATCH, f"{block.name} only nearly matches what the blocks before it leave")
        lines = [*lines[: place.first], *place.lines, *lines[place.last :]]
    return Applied("\n".join(lines), fuzzy=False)


def _place(lines: list[str], block: Block) -> Place:
    places: list[Place] = []
    refused: ProposalFault | None = None
    for split in block.splits:
        try:
            places.append(locate(lines, split.search, split.replace, block.name))
        except ProposalFault as fault:
            refused = refused or fault
    exact = [place for place in places if not place.fuzzy]
    if len(exact or places) > 1:
        told = f"{block.name} holds several lines '{marks.DIVIDER}' and can be read in several ways; leave underlines out of it"
        raise ProposalFault(FaultReason.AMBIGUOUS, told)
    if places:
        return (exact or places)[0]
    if refused is None:
        raise ValueError(f"{block.name} has no split")
    if block.file and refused.reason is FaultReason.NO_MATCH and not _is_policy(block.file):
        told = f"{block.name} is for {block.file!r}; the policy is one file, and no other can be edited"
        raise ProposalFault(FaultReason.WRONG_FILE, told)
    raise refused


def _is_policy(file: str) -> bool:
    stem = file.replace("\\", "/").rpartition("/")[2].lower()
    return stem.startswith(_POLICY_FILES)


def _splits(found: Sequence[Block], body: list[str], column: int) -> tuple[Split, ...]:
    """Return the ways to divide a block: a divider stands in the column of the block's other marks, if any does."""
    dividers = [number for number, line in enumerate(body) if marks.divides(line)]
    dividers = [number for number in dividers if marks.indentation(body[number]) == column] or dividers
    if not dividers:
        raise _malformed(found, f"has no line '{marks.DIVIDER}' between the lines to search and the new ones")
    if len(dividers) > _SPLITS:
        raise _malformed(found, f"has {len(dividers)} lines '{marks.DIVIDER}'; expected one")
    return tuple(
        Split(tuple(marks.unfenced(body[:number])), tuple(marks.unfenced(_untagged(body[number + 1 :])))) for number in dividers
    )


def _untagged(lines: list[str]) -> list[str]:
    """Leave out `<replace>`, which follows `</search>`."""
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    return lines if first is None or lines[first].strip().lower() != "<replace>" else lines[first + 1 :]


def _file_of(line: str) -> str:
    """Return the file that a fence's language is followed by (```python policy.py, ```python:policy.py)."""
    mark = marks.fence(line)
    info = "" if mark is None else mark.info.replace(":", " ")
    return info.split()[-1] if info else ""


def _name(found: Sequence[Block]) -> str:
    return f"block {len(found) + 1}"


def _malformed(found: Sequence[Block], told: str) -> ProposalFault:
    return ProposalFault(FaultReason.MALFORMED, f"{_name(found)} {told}")
