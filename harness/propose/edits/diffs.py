"""Read a diff as search/replace blocks, for models that answer with one whatever they are asked for.

Line numbers are not believed: a hunk's context and removed lines are what is searched for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.propose.edits import marks
from harness.propose.edits.base import FaultReason, ProposalFault
from harness.propose.edits.blocks import Block, Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATCH = ("*** begin patch", "*** end patch", "*** update file:", "*** add file:", "*** end of file", "diff --git", "index ")


def read_diff(lines: Sequence[str]) -> list[Block]:
    """Return the hunks of a diff as blocks; none where the answer holds no diff.

    Raises:
        ProposalFault: a hunk shows no line of the policy, so that nobody can tell where it goes.
    """
    found: list[Block] = []
    for file, hunk in _hunks(lines):
        search = tuple(line[1:] for line in hunk if not line.startswith("+"))
        replace = tuple(line[1:] for line in hunk if not line.startswith("-"))
        if search == replace:
            continue
        name = f"hunk {len(found) + 1}"
        if not any(line.strip() for line in search):
            told = f"{name} shows no line of the policy, so nothing says where its new lines go; add lines around them"
            raise ProposalFault(FaultReason.EMPTY_SEARCH, told)
        found.append(Block(name, (Split(search, replace),), file))
    return found


def _hunks(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each hunk's lines, with their signs, and the file that it is for."""
    diffs = [part for part in marks.fenced(lines) if part.info.lower() in ("diff", "patch", "udiff")]
    if not diffs:
        start = next((at for at, line in enumerate(lines) if line.startswith("@@")), None)
        diffs = [] if start is None else [marks.Fenced("", start, len(lines), closed=True)]
    for part in diffs:
        yield from _of_part(lines[part.first : part.last])


def _of_part(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    file = ""
    hunk: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        header = line.startswith("--- ") and following.startswith("+++ ")
        target = line.startswith("+++ ") and not hunk
        if line.startswith("@@") or header or target or line.lower().startswith(_PATCH) or marks.fence(line) is not None:
            if hunk:
                yield file, _without_blank_end(hunk)
            hunk = []
            file = _named(line) or file
        elif line[:1] in ("+", "-", " "):
            hunk.append(line)
        elif not line.strip():
            hunk.append(" ")
        elif not line.startswith("\\"):
            # A line of context whose sign was forgotten.
            hunk.append(f" {line}")
    if hunk:
        yield file, _without_blank_end(hunk)


def _named(line: str) -> str:
    if line.startswith(("--- ", "+++ ", "*** ")):
        name = line[4:].rpartition(": ")[2].split("\t")[0].strip().removeprefix("a/").removeprefix("b/")
        return "" if name == "/dev/null" or " " in name else name
    return ""


def _without_blank_end(hunk: list[str]) -> list[str]:
    last = max((at for at, line in enumerate(hunk) if line.strip() or line[0] != " "), default=-1)
    first = next((at for at, line in enumerate(hunk) if line.strip() or line[0] != " "), 0)
    return hunk[first : last + 1]
