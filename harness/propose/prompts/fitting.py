"""Keep a prompt within its budget by a rule: what helps least goes first, and all that goes is named.

The order in which things go, from the first to the last:

1. earlier versions, the oldest first, those among the best after all others
2. the replay on the best tree, then those on the worst trees but the very worst one
3. inspirations, the last one first
4. faults of earlier versions, the oldest first
5. lessons, the oldest first
6. values by group, those where the least is behind first
7. the replay on the worst tree
8. sections of the interface description: typical mistakes, what a policy may use, the example at its head; where the edit asked
   for writes no code, the others as well

Never cut: what is asked for and in which form, the objective, the parents' code, how a parent faulted, and for edits that write
code what it may see and answer.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Goes(IntEnum):
    """When something goes: the lower, the earlier."""

    VERSION = 1
    GOOD_VERSION = 2
    REPLAY = 3
    INSPIRATION = 4
    FAULT = 5
    LESSON = 6
    GROUP = 7
    WORST_REPLAY = 8
    INTERFACE = 9
    NEVER = 10


class Part(StrEnum):
    """The part of a prompt that a piece stands in."""

    INTERFACE = "interface"
    GROUPS = "groups"
    REPLAYS = "replays"
    VERSIONS = "versions"
    FAULTS = "faults"
    INSPIRATIONS = "inspirations"
    LESSONS = "lessons"


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that can be left out. Of those that go at the same time, the one with the lowest `order` goes first.

    `of` is the version that it tells of, 0 where it tells of none.
    """

    part: Part
    name: str
    text: str
    goes: Goes
    order: int
    of: int = 0


def fewest_left_out(pieces: Sequence[Piece], fits: Callable[[Sequence[Piece]], bool]) -> tuple[Piece, ...]:
    """Return the pieces that go, in the order in which they go: as few as let the others fit, all that can where none do.

    `fits` is asked a number of times that grows with the logarithm of theirs.
    """
    if fits(pieces):
        return ()
    order = sorted((piece for piece in pieces if piece.goes is not Goes.NEVER), key=lambda piece: (piece.goes, piece.order))
    counts = range(1, len(order) + 1)
    count = 1 + bisect_left(counts, True, key=lambda count: fits(without(pieces, order[:count])))
    return tuple(order[:count])


def without(pieces: Sequence[Piece], gone: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that stay."""
    left = set(map(id, gone))
    return [piece for piece in pieces if id(piece) not in left]
