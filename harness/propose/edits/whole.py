"""Find the one whole policy in an answer: fenced or not, amid prose and pieces of code, or beside the one that it replaces."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from harness.propose.edits import marks
from harness.propose.edits.base import FaultReason, ProposalFault
from harness.propose.edits.samecode import parsed, same_code
from harness.source import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRIES = 4
"""How often the end of a policy is looked for further on: behind a fence in a docstring, before a line of prose."""
_STARTS = ("import ", "from ", "class ", "def ", "@", '"""', "'''", "#!")
_ELIDED = (
    "unchanged",
    "existing",
    "rest of",
    "remain",
    "same as",
    "as before",
    "omitted",
    "previous",
    "other methods",
    "your code",
)


def whole(lines: Sequence[str], parents: Sequence[str], *, cut: bool) -> str:
    """Return the policy that an answer holds as a whole file.

    A file that one of the parents is, is not what was meant where there is another one. `cut` says that the model was
    stopped: what has no end then is no file.

    Raises:
        ProposalFault: there is none, or several, or only half of one.
    """
    files = _fenced_files(lines, cut=cut) if any(marks.fence(line) for line in lines) else _bare_files(lines, cut=cut)
    different: list[str] = []
    for file in files:
        if not any(same_code(file, other) for other in different):
            different.append(file)
    new = [file for file in different if not any(same_code(file, parent) for parent in parents)] or different[:1]
    if len(new) > 1:
        told = f"the answer holds {len(new)} different files that define class Policy; send the one that is meant"
        raise ProposalFault(FaultReason.SEVERAL, told)
    if not new:
        raise _none(lines)
    _refuse_elided(new[0], parents)
    return new[0]


def _fenced_files(lines: Sequence[str], *, cut: bool) -> list[str]:
    fences = [number for number, line in enumerate(lines) if marks.fence(line)]
    nested = {part.first: part for part in marks.fenced(lines)}
    files: list[str] = []
    at = 0
    while at < len(fences):
        first = fences[at] + 1
        ends = fences[at + 1 : at + 1 + _TRIES]
        part = nested.get(first)
        bodies = [(last, _joined(lines[first:last])) for last in ends]
        end, file = next(((last, body) for last, body in bodies if _defines_policy(body) and parsed(body)), (0, ""))
        if not file and part is not None and _defines_policy(body := _joined(lines[first : part.last])):
            end, file = part.last, body
            if not part.closed and (cut or parsed(body) is None):
                told = f"the file that begins in line {first + 1} of the answer has no end; send it whole, and shorter if need be"
                raise ProposalFault(FaultReason.TRUNCATED, told)
        if file:
            files.append(file)
            at = next((later for later, number in enumerate(fences) if number > end), len(fences))
        else:
            at += 1
    return files


def _bare_files(lines: Sequence[str], *, cut: bool) -> list[str]:
    """Return the code in an answer without fences."""
    start = next((number for number, line in enumerate(lines) if line.startswith(_STARTS)), None)
    if start is None:
        return []
    text = _joined(lines[start:])
    if not _defines_policy(text):
        return []
    if cut:
        raise ProposalFault(FaultReason.TRUNCATED, "the file has no end: the answer was cut off; send it whole, and shorter")
    return [_code(lines, start) or text]


def _code(lines: Sequence[str], start: int) -> str:
    """Return the longest code that begins in a line, or a little later, and that prose follows; nothing where there is none."""
    last = len(lines)
    for _ in range(2 * _TRIES):
        text = _joined(lines[start:last])
        wrong = _first_wrong(text)
        if wrong == 0:
            return text if _defines_policy(text) else ""
        if wrong < 0:
            return ""
        if _defines_policy(_joined(lines[start : start + wrong - 1])):
            last = start + wrong - 1
            continue
        later = (number for number in range(start + wrong, last) if lines[number].startswith(_STARTS))
        following = next(later, None)
        if following is None:
            return ""
        start = following
    return ""


def _first_wrong(text: str) -> int:
    """Return the line of the first syntax error, 0 where there is none, -1 where nothing is to be learnt from it."""
    if not scan(text).parsable:
        return -1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, "<policy>")
    except SyntaxError as error:
        return error.lineno or -1
    except (RecursionError, MemoryError, ValueError):
        return -1
    return 0


def _defines_policy(text: str) -> bool:
    return any(line.startswith(("class Policy:", "class Policy(", "Policy =")) for line in text.split("\n"))


def _joined(lines: Sequence[str]) -> str:
    """Return lines as a file: no blank ones at its ends, one line feed at the last."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1]) + "\n" if filled else ""


def _refuse_elided(file: str, parents: Sequence[str]) -> None:
    known = {line.strip() for parent in parents for line in parent.split("\n")}
    line = elided([line for line in file.split("\n") if line.strip() not in known])
    if line:
        told = f"the file leaves code out ({line!r}); send every line of it, or search/replace blocks"
        raise ProposalFault(FaultReason.ELIDED, told)


def elided(lines: Sequence[str]) -> str:
    """Return the first comment that stands for code which was not written out, nothing where there is none."""
    for line in lines:
        bare = line.strip().lower()
        said = bare[1:].strip()
        dotted = said.startswith(("...", "…")) or said.endswith(("...", "…"))
        if bare.startswith("#") and dotted and (not said.strip(".… ") or any(word in said for word in _ELIDED)):
            return line.strip()[:100]
    return ""


def _none(lines: Sequence[str]) -> ProposalFault:
    if any(marks.fence(line) for line in lines) or any(line.startswith(_STARTS) for line in lines):
        told = "the answer's code defines no class Policy at top level; send the whole file, from its imports to its last line"
        return ProposalFault(FaultReason.NO_POLICY, told)
    return ProposalFault(
        FaultReason.NO_EDIT, "the answer holds no code; expected a whole file in a fence, or search/replace blocks"
    )
