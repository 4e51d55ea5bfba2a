"""Find the one place in a source that a block means: its very lines, else its lines laid out otherwise, else the nearest ones.

Each step is taken only where the one before found nothing, and each insists on a single place: two are a fault, however likely
one of them is.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from harness.propose.edits import fuzzy
from harness.propose.edits.base import FaultReason, ProposalFault
from harness.propose.edits.indents import Drift, reindented

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACES = 5
"""How many places of one text are looked for: beyond two it makes no difference."""
_SHOWN = 6
"""How many lines of the policy a fault shows."""
_SHOWN_CHARACTERS = 120
_QUOTES = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "–": "-", "−": "-", "…": "..."})  # noqa: RUF001 - what word processors make of code


class Place(NamedTuple):
    """The lines from `first` up to, and without, `last` give way to `lines`."""

    first: int
    last: int
    lines: tuple[str, ...]
    fuzzy: bool = False


def locate(source: Sequence[str], search: Sequence[str], replace: Sequence[str], name: str) -> Place:
    """Return where a block goes, and what it puts there.

    Raises:
        ProposalFault: it fits no place, or several.
    """
    if not any(line.strip() for line in search):
        told = f"{name} searches for nothing; copy at least one line of the policy into it, and repeat that line in the new ones"
        raise ProposalFault(FaultReason.EMPTY_SEARCH, told)
    exact = occurrences(source, search)
    if exact:
        first = _only(exact, name)
        return Place(first, first + len(search), tuple(replace))
    place = _laid_out_otherwise(source, search, replace, name) or _in_a_line(source, search, replace, name)
    if place is not None:
        return place
    near = fuzzy.nearest(source, search)
    merged = fuzzy.merge(source, near, _filled(search), _trimmed(search, replace))
    if merged is not None:
        return Place(merged.first, merged.last, merged.lines, fuzzy=True)
    raise _no_match(source, search, name, near)


def occurrences(text: Sequence[str], part: Sequence[str]) -> list[int]:
    """Return where a run of lines stands in others, the first few places."""
    joined, wanted = "\n".join(["", *text, ""]), "\n".join(["", *part, ""])
    starts = list(accumulate((len(line) + 1 for line in text), initial=0))
    found: list[int] = []
    at = joined.find(wanted)
    while at >= 0 and len(found) < _PLACES:
        found.append(bisect_right(starts, at) - 1)
        at = joined.find(wanted, at + 1)
    return found


def key(line: str) -> str:
    """Return what a line says, whatever its white space and the shape of its quotes."""
    return "".join(line.translate(_QUOTES).split())


def _laid_out_otherwise(source: Sequence[str], search: Sequence[str], replace: Sequence[str], name: str) -> Place | None:
    """Find lines that differ in white space alone, and lay the new ones out as they are."""
    filled = [number for number, line in enumerate(source) if line.strip()]
    wanted = [line for line in search if line.strip()]
    found = occurrences([key(source[number]) for number in filled], [key(line) for line in wanted])
    if not found:
        return None
    start = _only([filled[number] for number in found], name)
    matched = filled[filled.index(start) :][: len(wanted)]
    pairs = list(zip(wanted, (source[number] for number in matched), strict=True))
    try:
        lines = reindented(_trimmed(search, replace), pairs)
    except Drift:
        told = (
            f"{name} has the words of lines {matched[0] + 1}-{matched[-1] + 1} and not their indentation; copy both:\n"
            f"{_shown(source, matched[0], matched[-1] + 1)}"
        )
        raise ProposalFault(FaultReason.NO_MATCH, told) from None
    return Place(matched[0], matched[-1] + 1, tuple(lines))


def _trimmed(search: Sequence[str], replace: Sequence[str]) -> list[str]:
    """Leave out of the new lines the blank ones that surround the searched ones as well."""
    lines = list(replace)
    for end in (0, -1):
        around = list(search)
        while around and lines and not around[end].strip() and not lines[end].strip():
            around.pop(end)
            lines.pop(end)
    return lines


def _filled(lines: Sequence[str]) -> list[str]:
    """Leave out blank lines at both ends."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1])


def _in_a_line(source: Sequence[str], search: Sequence[str], replace: Sequence[str], name: str) -> Place | None:
    """Find a single line that is part of one: its comment was left out, say."""
    wanted = [line.strip() for line in search if line.strip()]
    new = [line.strip() for line in replace if line.strip()]
    if len(wanted) != 1 or len(new) > 1:
        return None
    places = [(number, at) for number, line in enumerate(source) if (at := _part(line, wanted[0])) >= 0]
    if not places:
        return None
    number = _only([number for number, _ in places], name)
    line, at = source[number], places[0][1]
    if line.count(wanted[0]) > 1:
        told = f"{name}: its text stands several times in line {number + 1}; copy the whole line"
        raise ProposalFault(FaultReason.AMBIGUOUS, told)
    return Place(number, number + 1, (f"{line[:at]}{new[0] if new else ''}{line[at + len(wanted[0]) :]}".rstrip(),))


def _part(line: str, wanted: str) -> int:
    """Return where a text stands in a line, -1 where it does not or would cut a word in two."""
    at = line.find(wanted)
    end = at + len(wanted)
    cuts = at > 0 and _is_word(line[at - 1]) and _is_word(wanted[0])
    cuts = cuts or (0 < end < len(line) and (_is_word(line[end]) or line[end] == ".") and _is_word(wanted[-1]))
    return -1 if at < 0 or cuts else at


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _only(places: Sequence[int], name: str) -> int:
    if len(places) == 1:
        return places[0]
    numbers = ", ".join(str(number + 1) for number in places[: _PLACES - 1])
    more = " and more" if len(places) == _PLACES else ""
    told = f"{name}: the lines to search stand {len(places)} times in the policy, in lines {numbers}{more}; add lines around them"
    raise ProposalFault(FaultReason.AMBIGUOUS, told if not more else told.replace(f"{len(places)} times", "several times"))


def _no_match(source: Sequence[str], search: Sequence[str], name: str, near: fuzzy.Near) -> ProposalFault:
    first = next(line.strip() for line in search if line.strip())
    told = f"{name}: the lines to search, which begin with {_short(first)!r}, do not stand in the policy"
    if near.last > near.first and near.likeness > 0:
        known = {key(line) for line in source}
        odd = next((line.strip() for line in search if line.strip() and key(line) not in known), None)
        told += f" in this order; those that come nearest are its lines {near.first + 1}-{near.last}"
        told += "" if odd is None else f", and none is {_short(odd)!r}"
        told += f". Copy what you mean from them, character by character:\n{_shown(source, near.first, near.last)}"
    return ProposalFault(FaultReason.NO_MATCH, told)


def _shown(source: Sequence[str], first: int, last: int) -> str:
    lines = [line[:_SHOWN_CHARACTERS] for line in source[first : min(last, first + _SHOWN)]]
    return "\n".join([*lines, "…"] if last - first > _SHOWN else lines)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
