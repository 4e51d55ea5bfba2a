"""Runners started ahead of time, so that a new candidate need not wait for its container.

Each is handed out once and never comes back: a fresh container for every candidate is what isolates one from the next. How
many wait follows demand: as many as were taken within the last few seconds, and never more than the bound. Nothing is started
before the first one is asked for, and none at the moment in which another is handed out: starting takes some hundred
milliseconds of both cores, and whoever has just got a runner wants its first answer. Starting and removing happen in threads of
the pool, and neither waits for the other.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_DEMAND_S = 3.0
"""How far back takes count as demand: longer than a container's start, shorter than a person's pause."""
_MOMENT_S = 0.05
"""From handing one out to starting the next: longer than a first answer takes, shorter than most evaluations."""
_STARTERS = 2
_LEAVERS = 4  # removing is mostly waiting for the engine


class Removable(Protocol):
    """What a pool holds."""

    def remove(self) -> None:
        """End it for good, and wait until it is gone."""


Kind = TypeVar("Kind", bound="Hashable")
Held = TypeVar("Held", bound=Removable)


class Pool(Generic[Kind, Held]):
    """Keeps some of what `start` starts ready, kind by kind, at most `most` in all.

    A failure of `start` in the background is forgotten: the next `take` starts in its own thread and meets it there.
    """

    def __init__(self, start: Callable[[Kind], Held], most: int) -> None:
        self._start = start
        self._most = most
        self._changed = threading.Condition()
        self._ready: dict[Kind, deque[Held]] = defaultdict(deque)
        self._taken: dict[Kind, deque[float]] = defaultdict(deque)
        self._starting: dict[Kind, int] = defaultdict(int)
        self._waiting: dict[Kind, int] = defaultdict(int)
        self._closing = threading.Event()
        self._starters = ThreadPoolExecutor(_STARTERS, "start")
        self._leavers = ThreadPoolExecutor(_LEAVERS, "leave")

    def take(self, kind: Kind, *, more: bool = True) -> Held:
        """Return one that nobody has used, waiting for one under way rather than starting another beside it.

        `more` says that others may be wanted after it; else none is started in its place.
        """
        with self._changed:
            self._taken[kind].append(time.monotonic())
            if self._waiting[kind] < self._starting[kind]:
                self._waiting[kind] += 1
                try:
                    self._changed.wait_for(lambda: self._ready[kind] or not self._starting[kind])
                finally:
                    self._waiting[kind] -= 1
            ready = self._ready[kind].popleft() if self._ready[kind] else None
        held = self._start(kind) if ready is None else ready
        if more and self._most:
            with suppress(RuntimeError):  # the pool is closed, or the interpreter is on its way out
                self._starters.submit(self._refill, kind, time.monotonic() + _MOMENT_S)
        return held

    def leave(self, held: Held) -> None:
        """Remove one that was taken, in the background."""
        try:
            self._leavers.submit(held.remove)
        except RuntimeError:  # as above
            held.remove()

    def close(self) -> None:
        """Remove all that is ready, and wait until whatever was leaving or starting has gone. May be called again."""
        self._closing.set()
        self._leave_ready()
        self._starters.shutdown(wait=True)
        self._leave_ready()
        self._leavers.shutdown(wait=True)

    def _leave_ready(self) -> None:
        with self._changed:
            idle = [held for ready in self._ready.values() for held in ready]
            self._ready.clear()
        for held in idle:
            self.leave(held)

    def _refill(self, kind: Kind, due: float) -> None:
        """Once it is due, start as many as demand and the bound allow beside those that wait or are under way."""
        self._closing.wait(max(0.0, due - time.monotonic()))
        while self._begins(kind):
            held = None
            try:
                held = self._start(kind)
            finally:
                with self._changed:
                    self._starting[kind] -= 1
                    if held is not None:
                        self._ready[kind].append(held)
                    self._changed.notify_all()

    def _begins(self, kind: Kind) -> bool:
        """Return whether one more is wanted, and count it as under way if so."""
        with self._changed:
            taken = self._taken[kind]
            while taken and time.monotonic() - taken[0] > _DEMAND_S:
                taken.popleft()
            in_all = sum(map(len, self._ready.values())) + sum(self._starting.values())
            wanted = len(self._ready[kind]) + self._starting[kind] < len(taken) and in_all < self._most
            if wanted and not self._closing.is_set():
                self._starting[kind] += 1
                return True
            return False
