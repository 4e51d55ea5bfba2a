"""Which versions to build on and what to show beside them, so that a search does not collapse onto one family.

Versions that behave alike share a niche, of which the best one stands for all. Versions are also divided among islands, which
meet seldom. Everything follows from a run's history, the seed and what is asked: a run that is resumed draws what it drew
before. The archive learns as the history grows for speed alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.propose.memory.behaviour import Behaviour, behaviour, fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.propose.base import Judged

ISLANDS = 4
"""How many there are at most."""
FOUNDED_EVERY = 8
"""Versions after which one more island is there; as often the best of each island is lent to the next one."""
NICHE = 0.1
"""How far a behaviour may be from that which founded a niche and share it.

Fixed bins do worse: of 59 settings of our templates on the example trees, thirds of each figure put 22 into one bin of 81, and
all into 12; by this distance there are 18 niches, of at most 10.
"""


class Purpose(StrEnum):
    """Why a version is shown beside the parents."""

    QUALITY = "quality"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True)
class Inspiration:
    """A version that is shown to be learnt from, and why it was drawn."""

    judged: Judged
    purpose: Purpose


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A version that can be built on: it has a value, and is the first that behaves in this very way."""

    judged: Judged
    value: float
    behaviour: Behaviour
    position: int
    niche: int


class Archive:
    """What can be built on, taken from a run's history."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._entries: list[_Entry] = []
        self._founders: list[Behaviour] = []
        self._first: dict[str, int] = {}
        self._twins: dict[int, int] = {}
        self._behaviours: dict[int, Behaviour] = {}
        self._learnt = 0

    def learn(self, history: Sequence[Judged]) -> None:
        """Take in what the history holds beyond what has been learnt; earlier versions are taken to be the same."""
        for position in range(self._learnt, len(history)):
            self._take(history[position], position)
        self._learnt = len(history)

    def _take(self, judged: Judged, position: int) -> None:
        number, value, told = judged.version.number, judged.value, fingerprint(judged.evaluation)
        if value is None or told is None:
            return
        first = self._first.setdefault(told, number)
        if first != number:
            self._twins[number] = first
            return
        is_like = self._behaviours[number] = behaviour(judged.evaluation)
        distances = [(founder.distance(is_like), niche) for niche, founder in enumerate(self._founders)]
        distance, niche = min(distances, default=(1.0, 0))
        if distance > NICHE or not distances:
            niche = len(self._founders)
            self._founders.append(is_like)
        self._entries.append(_Entry(judged, value, is_like, position, niche))

    @property
    def twins(self) -> Mapping[int, int]:
        """Return, by number, the versions that did on every tree what an earlier one did, and the first that did."""
        return self._twins

    @property
    def niches(self) -> tuple[Judged, ...]:
        """Return the best version of each niche, niches in order of their founding; the earliest of equals."""
        best = sorted(_best_of_niches(self._entries), key=lambda entry: entry.niche)
        return tuple(entry.judged for entry in best)

    def behaviour_of(self, judged: Judged) -> Behaviour | None:
        """Return how a version behaves, None where it faulted or has not been learnt."""
        number = judged.version.number
        return self._behaviours.get(self._twins.get(number, number))

    def island_of(self, position: int) -> int:
        """Return the island of the version at this place of the history, 0 being the incumbent's.

        The first versions share one island; after every `FOUNDED_EVERY` versions there is one more.
        """
        return position % min(ISLANDS, 1 + position // FOUNDED_EVERY)

    def parents(self, count: int = 1, draw: int = 0) -> tuple[Judged, ...]:
        """Return what the next version is built on, up to `count` versions; fewer where there are no more, none at first.

        The first is drawn from the island whose turn it is, among the best of its niches by rank: the n-th has 1/n² of the
        first's chance. Each further one is drawn from all islands and another niche, by rank and by how differently it behaves.
        `draw` tells several draws for the same version apart.
        """
        rng = self._rng("parents", draw)
        chosen: list[_Entry] = []
        pool = _best_of_niches(self._on_island(self._learnt))
        while pool and len(chosen) < count:
            chances = [chance * _apart(entry, chosen) for entry, chance in zip(pool, _by_rank(pool), strict=True)]
            chosen.append(_drawn(pool, chances, rng))
            taken = {entry.niche for entry in chosen}
            pool = [entry for entry in _best_of_niches(self._entries) if entry.niche not in taken]
        return tuple(entry.judged for entry in chosen)

    def inspirations(self, parents: Sequence[Judged], count: int = 2, draw: int = 0) -> tuple[Inspiration, ...]:
        """Return versions to show beside the parents, by turns for quality and for difference, none of them a parent.

        For quality: of all versions, by rank of their value. For difference: of the better half of the niches, by how
        differently they behave from all that is shown; where none of those is left, one for quality takes its place.
        """
        rng = self._rng("inspirations", draw)
        numbers = {self._twins.get(parent.version.number, parent.version.number) for parent in parents}
        shown = [entry for entry in self._entries if entry.judged.version.number in numbers]
        chosen: list[Inspiration] = []
        for nth in range(count):
            better = _best_of_niches(self._entries)[: (len(self._founders) + 1) // 2]
            niches = {entry.niche for entry in shown}
            pool = [entry for entry in better if entry.niche not in niches] if nth % 2 else []
            purpose = Purpose.DIFFERENCE if pool else Purpose.QUALITY
            pool = pool or [entry for entry in _ranked(self._entries) if entry not in shown]
            if not pool:
                break
            chances = [_apart(entry, shown) for entry in pool] if purpose is Purpose.DIFFERENCE else _by_rank(pool)
            shown.append(_drawn(pool, chances, rng))
            chosen.append(Inspiration(shown[-1].judged, purpose))
        return tuple(chosen)

    def _on_island(self, position: int) -> list[_Entry]:
        """Return what the version at this position can be built on.

        Those of its island, the first version of all, and what the island before it has lent: its best one when versions were
        last lent.
        """
        island, islands = self.island_of(position), min(ISLANDS, 1 + position // FOUNDED_EVERY)
        lent_at = position - position % FOUNDED_EVERY
        neighbour = (island - 1) % islands
        lent = _ranked([e for e in self._entries if e.position < lent_at and self.island_of(e.position) == neighbour])[:1]
        there = {0, *(entry.position for entry in lent)}
        return [entry for entry in self._entries if entry.position in there or self.island_of(entry.position) == island]

    def _rng(self, purpose: str, draw: int) -> random.Random:
        return random.Random(f"{self._seed}:{purpose}:{self._learnt}:{draw}")  # noqa: S311 - a search, no secret


def _ranked(entries: Sequence[_Entry]) -> list[_Entry]:
    """Return entries by value, the earlier of equals first."""
    return sorted(entries, key=lambda entry: (-entry.value, entry.position))


def _best_of_niches(entries: Sequence[_Entry]) -> list[_Entry]:
    """Return the best entry of each niche, by value."""
    best: dict[int, _Entry] = {}
    for entry in _ranked(entries):
        best.setdefault(entry.niche, entry)
    return list(best.values())


def _apart(entry: _Entry, others: Sequence[_Entry]) -> float:
    """Return how far a behaviour is from the nearest of others; 1.0 where there are none."""
    return min((entry.behaviour.distance(other.behaviour) for other in others), default=1.0)


def _by_rank(pool: Sequence[_Entry]) -> list[float]:
    return [1 / rank**2 for rank in range(1, len(pool) + 1)]


def _drawn(pool: Sequence[_Entry], chances: Sequence[float], rng: random.Random) -> _Entry:
    return rng.choices(pool, chances)[0] if sum(chances) > 0 else pool[0]
