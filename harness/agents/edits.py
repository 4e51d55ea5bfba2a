"""Read edits of several files out of a model's answer, and put them into a workspace: all of them, or none."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from harness.propose.edits import marks
from harness.propose.edits.base import ANSWER_CHARACTERS, FaultReason, ProposalFault
from harness.propose.edits.blocks import Block, apply_blocks, outside, read_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_NAME_BYTES = 255
_PARTS = 30


def edited(answer: str, files: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the new text of each file that an answer changes. `files` are those that may be changed, by name.

    Raises:
        ProposalFault: the answer changes nothing, or one of its edits cannot be made; the message tells the model why.
    """
    if len(answer) > ANSWER_CHARACTERS:
        raise ProposalFault(FaultReason.TOO_LARGE, f"the answer has more than {ANSWER_CHARACTERS} characters")
    lines = marks.plain_ends(answer).split("\n")
    blocks = read_blocks(lines)
    changed = dict(_whole(outside(lines), patterns))
    for name in dict.fromkeys(_meant(block, files) for block in blocks):
        mine = [block._replace(file="") for block in blocks if _meant(block, files) == name]
        _admit(name, patterns)
        if name not in files:
            raise ProposalFault(
                FaultReason.WRONG_FILE, f"{name!r} is not there; write a new file whole, in a fence below its name"
            )
        changed[name] = apply_blocks(changed.get(name, files[name]), mine).source
    changed = {name: text for name, text in changed.items() if files.get(name) != text}
    if not changed:
        wish = "name a file on a line of its own, and write a block or the whole file below it"
        raise ProposalFault(FaultReason.NO_EDIT, f"the answer changes nothing; {wish}")
    return changed


def _meant(block: Block, files: Mapping[str, str]) -> str:
    """Return the file that a block is for: the one that it names, or the only one that there is."""
    if block.file:
        return block.file.removeprefix("./")
    if len(files) == 1:
        return next(iter(files))
    raise ProposalFault(FaultReason.WRONG_FILE, f"{block.name} names no file; write its name on the line before")


def _whole(lines: Sequence[str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the files that stand whole in fences, each named on the line before its fence or in it."""
    found: dict[str, str] = {}
    for part in marks.fenced(lines):
        opening = part.first - 1
        before = next((line for line in reversed(lines[:opening]) if line.strip()), "")
        words = part.info.replace(":", " ").split()
        name = (marks.file_named(words[-1]) if words else "") or marks.file_named(before)
        name = name.removeprefix("./")
        if not name:
            continue
        _admit(name, patterns)
        if not part.closed:
            raise ProposalFault(FaultReason.TRUNCATED, f"the fence of {name!r} has no end; write the whole file again")
        found[name] = "\n".join(lines[part.first : part.last]) + "\n"
    return found


def _admit(name: str, patterns: Sequence[str]) -> None:
    parts = name.split("/")
    odd = not name.isprintable() or ".." in parts or any(not 0 < len(part.encode()) <= _NAME_BYTES for part in parts)
    if odd or len(parts) > _PARTS or not any(fnmatchcase(name, pattern) for pattern in patterns):
        raise ProposalFault(FaultReason.WRONG_FILE, f"{name!r} may not be changed; only these may: {', '.join(patterns)}")
