"""How a live search is shown while it goes on: a tree of its branches on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.cli.output import note, one_line, short
from harness.explore.base import AttemptEnded, Decided, FellBack
from harness.tree import Direction
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live

    from harness.explore.base import Progress
    from harness.search import Finished
    from harness.tree import Attempt
    from sandbox.api import Cost

_BRANCHES = 12
_WAY = 6
_REASON = 100


@dataclass(frozen=True, slots=True)
class Watched:
    """A search as its watcher calls it, the sense of its scores, and how many attempts it may make."""

    label: str
    direction: Direction
    attempts: int | None


class Watch(Protocol):
    """Shows how a search goes."""

    def tell(self, progress: Progress) -> None:
        """Show one more thing."""


@contextmanager
def watching(watched: Watched) -> Iterator[Watch]:
    """Show a search until the block ends."""
    if not sys.stderr.isatty():
        yield _Lines(watched)
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=8) as live:
        yield _Tree(watched, live)


class _Lines:
    """A line for each attempt, and for what is out of the ordinary."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._ended = 0
        self._best: float | None = None

    def tell(self, progress: Progress) -> None:
        if isinstance(progress, FellBack):
            note(fell_back(progress))
        if not isinstance(progress, AttemptEnded):
            return
        self._ended += 1
        if progress.resumed:
            return
        attempt = progress.finished.attempt
        score = f"{attempt.status}{why(attempt)}" if attempt.score is None else f"{attempt.score:.9g}"
        best = "" if progress.best is None else f", best {progress.best:.9g}"
        mark = " *" if progress.best != self._best and attempt.score == progress.best else ""
        self._best = progress.best
        of = "" if self._watched.attempts is None else f"/{self._watched.attempts}"
        parent = "root" if attempt.parent is None else attempt.parent
        note(one_line(f"{self._watched.label}: {self._ended}{of}  {attempt.id} from {parent}: {score}{best}{mark}"))


class _Tree:
    """The branches with the way to their tips, the best first; above them the figures."""

    def __init__(self, watched: Watched, live: Live) -> None:
        self._watched = watched
        self._live = live
        self._made: dict[int, Finished] = {}
        self._head = watched.label
        self._round = 0

    def tell(self, progress: Progress) -> None:
        if isinstance(progress, FellBack):
            self._live.console.print(one_line(fell_back(progress)), markup=False, soft_wrap=True)
        if isinstance(progress, Decided):
            self._round = progress.decision.round
        if isinstance(progress, AttemptEnded):
            self._made[progress.finished.number] = progress.finished
            self._head = self._figures(progress)
            self._draw()

    def _figures(self, progress: AttemptEnded) -> str:
        most = self._watched.attempts
        made = counted(len(self._made), "attempt") if most is None else f"{len(self._made)} of {counted(most, 'attempt')}"
        best = "-" if progress.best is None else f"{progress.best:.9g}"
        spent = spent_words(progress.spent)
        return f"{self._watched.label}: round {self._round}, {made}, {progress.in_flight} in flight, best {best}, {spent}"

    def _draw(self) -> None:
        from rich.text import Text  # noqa: PLC0415 - as above

        sense = 1.0 if self._watched.direction is Direction.MAX else -1.0
        inner = {one.parent for one in self._made.values()}
        tips = [one for number, one in self._made.items() if number not in inner]
        tips.sort(key=lambda one: (one.attempt.score is None, -sense * (one.attempt.score or 0.0), one.number))
        lines = [self._head, *(f"  {self._way(tip)}" for tip in tips[:_BRANCHES])]
        if len(tips) > _BRANCHES:
            lines.append(f"  … and {len(tips) - _BRANCHES} more")
        self._live.update(Text("\n".join(map(one_line, lines)), no_wrap=True, overflow="ellipsis"))

    def _way(self, tip: Finished) -> str:
        way: list[Finished] = [tip]
        while (parent := way[-1].parent) is not None and parent in self._made:
            way.append(self._made[parent])
        shown = " → ".join(_step(one) for one in way[:_WAY][::-1])
        more = "… → " if len(way) > _WAY else ""
        told = f"{why(tip.attempt)}" if tip.attempt.score is None else f"  {short(tip.attempt.hypothesis, 50)}"
        return f"{more}{shown}{told}"


def fell_back(progress: FellBack) -> str:
    """Return in words that a policy broke its contract, and what steers now."""
    then = "no other version is left to steer" if progress.to is None else f"v{progress.to} steers from here on"
    return f"v{progress.version} broke its contract ({progress.fault.kind}: {progress.fault.message}); {then}"


def spent_words(spent: Cost) -> str:
    """Return what attempts have cost so far."""
    seconds = "? s" if spent.seconds is None else f"{spent.seconds:.0f} s"
    usd = "" if spent.usd == 0 else ", cost unknown" if spent.usd is None else f", {spent.usd:.2f} USD"
    return f"{seconds}{usd}"


def why(attempt: Attempt) -> str:
    """Return in brackets why an attempt has no score: what is fed back, and the last line of what the agent wrote."""
    last = next((line for line in reversed(str(attempt.extra.get("log", "")).splitlines()) if line.strip()), "")
    said = [short(attempt.feedback, _REASON), "" if last in attempt.feedback else short(last.strip(), _REASON)]
    return f" ({': '.join(filter(None, said))})" if any(said) else ""


def _step(one: Finished) -> str:
    score = one.attempt.status if one.attempt.score is None else f"{one.attempt.score:.6g}"
    return f"{one.attempt.id} {score}"
