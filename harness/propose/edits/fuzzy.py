"""The last resort for a block that fits nowhere: the lines that come nearest, patched line by line.

diff-match-patch works here on lines, not on characters: every distinct line is one character to it, and a line of the policy that
nearly says what the model copied is the same one. So a line is kept, dropped or new as a whole, and never a mixture of two.
Its clock is off and what it is given is short, so that the same answer leads to the same source on every machine.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from diff_match_patch import diff_match_patch

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
_FIRST_CHARACTER = 0x4E00
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
    lines = _patched(search, replace, new, there, stands_for)
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
    """Return which line of the source each copied one stands for, as far as one is near enough; the order is kept."""
    words = [Counter(_WORD.findall(line)) for line in there]
    found: dict[int, int] = {}
    start = 0
    for at, line in enumerate(search):
        mine = Counter(_WORD.findall(line))
        to = max(range(start, len(there)), key=lambda to: _likeness(mine, words[to]), default=None)
        if mine and to is not None and _likeness(mine, words[to]) >= _SAME_LINE:
            found[at] = to
            start = to + 1
    return found


def _likeness(a: Counter[str], b: Counter[str]) -> float:
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 1.0


def _patched(
    search: Sequence[str], replace: Sequence[str], new: Sequence[str], there: Sequence[str], stands_for: dict[int, int]
) -> list[str] | None:
    """Apply the change from the copied lines to the new ones to the lines that are there."""
    letters = _Letters()
    before = [letters.of(line) for line in search]
    after = [letters.of(line) for line in replace]
    known = {to: before[at] for at, to in stands_for.items()}
    text = [known.get(at) or (letters.new() if line.strip() else letters.of("")) for at, line in enumerate(there)]
    patcher = diff_match_patch()
    patcher.Diff_Timeout = 0
    diffs = patcher.diff_main("".join(before), "".join(after), False)
    patches: list[Any] = patcher.patch_make("".join(before), diffs)
    shift = min(stands_for.values()) - min(stands_for)
    for patch in patches:
        patch.start1 += shift
        patch.start2 += shift
    result, applied = patcher.patch_apply(patches, "".join(text))
    if not patches or not all(applied):
        return None
    real = dict(zip(after, new, strict=True)) | dict(zip(text, there, strict=True))
    return [real[letter] for letter in result]


class _Letters:
    """One character for each distinct line."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._count = 0

    def of(self, line: str) -> str:
        """Return the character of a line as the model wrote it."""
        line = line.rstrip()
        if line not in self._known:
            self._known[line] = self.new()
        return self._known[line]

    def new(self) -> str:
        """Return a character that no line has."""
        self._count += 1
        return chr(_FIRST_CHARACTER + self._count)
