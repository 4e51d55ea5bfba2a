"""Runners started ahead of time, so that a new candidate need not wait for its container.

Each is handed out once and never comes back: a fresh container for every candidate is what isolates one from the next. How
many wait follows demand: as many as were taken within the last few seconds, and never more than the bound. Starting and
removing happen in threads of the pool; nothing is started before the first one is asked for.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_DEMAND_S = 3.0
"""How far back takes count as demand: longer than a container's start, shorter than a person's pause."""
_THREADS = 2


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
        self._closed = False
        self._threads = ThreadPoolExecutor(_THREADS, "pool")

    def take(self, kind: Kind) -> Held:
        """Return one that nobody has used, waiting for one under way rather than starting another beside it."""
        with self._changed:
            self._taken[kind].append(time.monotonic())
            if self._waiting[kind] < self._starting[kind]:
                self._waiting[kind] += 1
                self._changed.wait_for(lambda: self._ready[kind] or not self._starting[kind])
                self._waiting[kind] -= 1
            held = self._ready[kind].popleft() if self._ready[kind] else None
            self._refill(kind)
        return self._start(kind) if held is None else held

    def leave(self, held: Held) -> None:
        """Remove one that was taken, in the background."""
        try:
            self._threads.submit(held.remove)
        except RuntimeError:  # the pool is closed, or the interpreter is on its way out
            held.remove()

    def close(self) -> None:
        """Remove all that is ready, and wait until whatever was leaving or starting has gone. May be called again."""
        with self._changed:
            self._closed = True
        self._threads.shutdown(wait=True)
        for ready in self._ready.values():
            while ready:
                ready.popleft().remove()

    def _refill(self, kind: Kind) -> None:
        """Start as many as demand and the bound allow beside those that wait or are under way."""
        taken = self._taken[kind]
        while taken and time.monotonic() - taken[0] > _DEMAND_S:
            taken.popleft()
        in_all = sum(map(len, self._ready.values())) + sum(self._starting.values())
        here = len(self._ready[kind]) + self._starting[kind]
        for _ in range(min(len(taken) - here, self._most - in_all)):
            self._starting[kind] += 1
            self._threads.submit(self._start_one, kind)

    def _start_one(self, kind: Kind) -> None:
        held = None
        try:
            if not self._closed:
                held = self._start(kind)
        finally:
            with self._changed:
                self._starting[kind] -= 1
                if held is not None:
                    self._ready[kind].append(held)
                self._changed.notify_all()
