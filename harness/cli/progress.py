"""How far a command is: a bar on a terminal, a plain line now and then otherwise; always on standard error."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from harness.cli.output import clean, note

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAUSE_S = 10.0
"""Seconds between two plain lines."""


class Steps(Protocol):
    """Counts steps done and shows them."""

    def begin(self, words: str, total: int | None) -> None:
        """Start counting anew."""

    def step(self) -> None:
        """Count one step."""

    def line(self, text: str) -> None:
        """Print a line that stays."""


class _Plain:
    def __init__(self) -> None:
        self._words, self._done = "", 0
        self._total: int | None = None
        self._told = time.monotonic()

    def begin(self, words: str, total: int | None) -> None:
        self._words, self._total, self._done = words, total, 0

    def step(self) -> None:
        self._done += 1
        if time.monotonic() - self._told > _PAUSE_S:
            of = "" if self._total is None else f" of {self._total}"
            self.line(f"{self._words}: {self._done}{of}")

    def line(self, text: str) -> None:
        self._told = time.monotonic()
        note(text)


@contextmanager
def steps() -> Iterator[Steps]:
    """Show progress until the block ends."""
    if not sys.stderr.isatty():
        yield _Plain()
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        class Bar:
            def begin(self, words: str, total: int | None) -> None:
                bar.reset(task, description=escape(clean(words)), total=total)

            def step(self) -> None:
                bar.advance(task)

            def line(self, text: str) -> None:
                bar.console.print(escape(clean(text)), soft_wrap=True)

        yield Bar()
