"""The last resort for a block that fits nowhere: the lines that come nearest, where there is but one such place.

The block's change is carried over line by line. A line that it changes has to stand there, or nearly; lines that it only shows
may be missing or remembered wrongly. So every line of the outcome is one of the policy or one of the model's, never a mixture.

diff-match-patch was tried in place of this: of its patches over lines that applied to blocks with one line wrong, every fourth
changed a line that nobody meant.
"""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from harness.propose.edits.indents import Drift, reindented
from harness.propose.edits.samecode import parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = 80
"""Longer blocks have to match."""
_LIKENESS = 0.8
"""Share of words that the nearest lines have in common with the block, at least."""
_LEAD = 0.1
"""How much nearer they have to be than any other lines."""
_SAME_LINE = 0.6
_WORDS = 8
"""Shorter blocks have to match: in few words, one that differs says too much."""
_AROUND = 3
_MORE = 2
"""How many lines a model may leave out of those it copies, or put in."""
_WORD = re.compile(r"\w+|[^\w\s]")


class Near(NamedTuple):
    """The lines of a source that come nearest to a block: their place, how near in [0, 1], and how near the next best come."""

    first: int
    last: int
    likeness: float
    second: float


class Merged(NamedTuple):
    """Lines of the source, and what they become."""

    first: int
    last: int
    lines: tuple[str, ...]


def nearest(source: Sequence[str], search: Sequence[str]) -> Near:
    """Return the run of lines that has most words in common with a block, in time linear in both."""
    filled = [number for number, line in enumerate(source) if line.strip()]
    words = [_WORD.findall(source[number]) for number in filled]
    wanted = Counter(word for line in search for word in _WORD.findall(line))
    lines = sum(1 for line in search if line.strip())
    best = Near(0, 0, 0.0, 0.0)
    for size in range(max(1, lines - _MORE), min(len(filled), lines + _MORE) + 1):
        likeness = _sliding(words, wanted, size)
        start = max(range(len(likeness)), key=lambda start: likeness[start])
        if likeness[start] > best.likeness:
            others = (like for other, like in enumerate(likeness) if abs(start - other) >= size)
            best = Near(filled[start], filled[start + size - 1] + 1, likeness[start], max(others, default=0.0))
    return best


def _sliding(words: Sequence[Sequence[str]], wanted: Counter[str], size: int) -> list[float]:
    """Return, for each run of `size` lines, twice the words in common with those wanted, over all words of both."""
    held: Counter[str] = Counter()
    common = total = 0
    likeness: list[float] = []
    for last, line in enumerate(words):
        for word in line:
            held[word] += 1
            common += held[word] <= wanted[word]
        total += len(line)
        if last >= size:
            for word in words[last - size]:
                common -= held[word] <= wanted[word]
                held[word] -= 1
            total -= len(words[last - size])
        if last >= size - 1:
            likeness.append(2 * common / (total + wanted.total()))
    return likeness


def merge(source: Sequence[str], near: Near, search: Sequence[str], replace: Sequence[str]) -> Merged | None:
    """Return what a block makes of the lines that come nearest; None where they are not near enough, or two places are.

    `search` has to begin and end with a line that is not blank.
    """
    if near.likeness < _LIKENESS or near.likeness - near.second < _LEAD or max(len(search), len(replace)) > LINES:
        return None
    first, last = max(0, near.first - _AROUND), min(len(source), near.last + _AROUND)
    there = source[first:last]
    stands_for = _aligned(search, there)
    said = sum(len(_WORD.findall(line)) for line in search)
    if said < _WORDS or len(stands_for) < _SAME_LINE * sum(1 for line in search if line.strip()):
        return None
    try:
        new = reindented(replace, [(search[at], there[to]) for at, to in stands_for.items()])
    except Drift:
        return None
    lines = _carried_over(search, replace, new, there, stands_for)
    if lines is None:
        return None
    whole = "\n".join([*source[:first], *lines, *source[last:]])
    if parsed(whole) is None and parsed("\n".join(source)) is not None:
        return None
    before = _common(there, lines)
    after = _common(there[before:][::-1], lines[before:][::-1])
    return Merged(first + before, last - after, tuple(lines[before : len(lines) - after]))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return with how many equal lines two runs begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _aligned(search: Sequence[str], there: Sequence[str]) -> dict[int, int]:
    """Return which line of the source each copied one stands for, in order: the same ones first, then near ones between them."""
    keys, real = ([_key(line) for line in lines] for lines in (search, there))
    found: dict[int, int] = {}
    start = [0, 0]
    for block in SequenceMatcher(None, keys, real, autojunk=False).get_matching_blocks():
        copied = [at for at in range(start[0], block.a) if keys[at]]
        free = [to for to in range(start[1], block.b) if real[to]]
        for at in copied:
            mine = Counter(_WORD.findall(search[at]))
            to = max(free, key=lambda to: _likeness(mine, Counter(_WORD.findall(there[to]))), default=None)
            if to is not None and _likeness(mine, Counter(_WORD.findall(there[to]))) >= _SAME_LINE:
                found[at] = to
                free = [later for later in free if later > to]
        found |= {block.a + n: block.b + n for n in range(block.size) if keys[block.a + n]}
        start = [block.a + block.size, block.b + block.size]
    return found


def _likeness(a: Counter[str], b: Counter[str]) -> float:
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 1.0


def _key(line: str) -> str:
    return "".join(line.split())


def _carried_over(
    search: Sequence[str], replace: Sequence[str], new: Sequence[str], there: Sequence[str], stands_for: dict[int, int]
) -> list[str] | None:
    """Make the change from the copied lines to the new ones in the lines that are there; None where one has no certain place."""
    before, after = ([line.rstrip() for line in lines] for lines in (search, replace))
    lines = list(there)
    for change, first, last, new_first, new_last in reversed(SequenceMatcher(None, before, after, autojunk=False).get_opcodes()):
        if change == "equal":
            continue
        place = _place(search, there, stands_for, first, last)
        if place is None:
            return None
        lines[place[0] : place[1]] = new[new_first:new_last]
    return lines


def _place(
    search: Sequence[str], there: Sequence[str], stands_for: dict[int, int], first: int, last: int
) -> tuple[int, int] | None:
    """Return which lines there give way to a change of these copied ones.

    The lines that it changes and the ones next to them have to be known, and no other line may stand between.
    """
    inner = [at for at in range(first, last) if search[at].strip()]
    before = next((at for at in range(first - 1, -1, -1) if search[at].strip()), None)
    after = next((at for at in range(last, len(search)) if search[at].strip()), None)
    run = [at for at in (before, *inner, after) if at is not None]
    if not run or any(at not in stands_for for at in run):
        return None
    places = [stands_for[at] for at in run]
    if sum(1 for line in there[places[0] : places[-1] + 1] if line.strip()) != len(run):
        return None
    if inner:
        start, end = stands_for[inner[0]], stands_for[inner[-1]] + 1
        return _widened(there, inner[0] - first, start, -1), _widened(there, last - inner[-1] - 1, end, 0)
    if before is not None:
        start = end = stands_for[before] + 1
        blank = first - before - 1
        start = end = start + _blank(there[start : start + blank])
        return start, end + _blank(there[end : end + last - first])
    start = stands_for[run[0]]
    return start, start


def _widened(there: Sequence[str], blank: int, place: int, step: int) -> int:
    """Move a place over as many blank lines as the change has there: back for a step of -1, on for one of 0."""
    for _ in range(blank):
        if not 0 <= place + step < len(there) or there[place + step].strip():
            break
        place += 1 if step == 0 else -1
    return place


def _blank(lines: Sequence[str]) -> int:
    """Return with how many blank lines a run begins."""
    return next((at for at, line in enumerate(lines) if line.strip()), len(lines))
