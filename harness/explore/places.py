"""Where attempts stand in the tree of a live search, and the seed that follows from that.

A seed depends on the search's seed and the way from the root alone: the same place gives the same attempt whatever the policy,
the order or the number of workers, so that two policies meet the same luck, and a live search equals a replay of a larger record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from harness.agents.base import Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.search import Finished


@dataclass(frozen=True, slots=True)
class Place:
    """A pick that was taken up. `node` is the picked id as the policy knows it, `parent` the number of the attempt behind it.

    `path` leads from the root by the places among children, in the order in which they were asked for. `is_planned` is set once
    it is known what the attempt will try.
    """

    number: int
    node: int
    parent: int | None
    decision: int
    path: tuple[int, ...]
    is_planned: Event = field(default_factory=Event, compare=False)

    @property
    def attempt(self) -> str:
        """Return the id that the attempt's node will have."""
        return f"a{self.number}"


class Places:
    """All places of one search, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._paths: dict[int | None, tuple[int, ...]] = {None: ()}
        self._children: dict[int | None, int] = {}

    def take(self, node: int, parent: int | None, decision: int) -> Place:
        """Return the next place below an attempt, None being the root."""
        child = self._children.get(parent, 0)
        self._children[parent] = child + 1
        place = Place(len(self._paths), node, parent, decision, (*self._paths[parent], child))
        self._paths[place.number] = place.path
        return place


def seed_of(seed: int, path: Sequence[int], use: str = "attempt") -> int:
    """Return the seed of the attempt at the end of a path, at least 0 and below 2**63."""
    words = f"{use}/1:{seed}:{'.'.join(map(str, path))}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8]) >> 1


def lineage(made: Mapping[int, Finished], number: int | None) -> tuple[Step, ...]:
    """Return the steps from the root's child to this attempt."""
    steps = []
    while number is not None:
        one = made[number]
        attempt = one.attempt
        steps.append(Step(attempt.id, attempt.score, attempt.status, attempt.feedback, attempt.hypothesis))
        number = one.parent
    return tuple(reversed(steps))
