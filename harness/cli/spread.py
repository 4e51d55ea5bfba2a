"""What typer does not do by itself: several values after one flag (`--trees a b`), a value left out (`--resume`), quick help."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from harness.cli.exits import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MANY = frozenset({"--trees", "--suite", "--param", "--kind", "--model", "--model-price", "--model-weight", "--edits"})
OPTIONAL = {"--resume": "latest"}


def spread(args: Sequence[str]) -> Iterator[str]:
    """Write `--trees a b` as `--trees=a --trees=b`, and a bare `--resume` as `--resume=latest`.

    Values reach to the next option or to `--`. `--trees=a` takes this one value, so that an argument may follow it.
    """
    flag, taken = "", 0
    rest = iter(args)
    for arg in rest:
        if flag and not arg.startswith("-"):
            yield f"{flag}={arg}"
            taken += 1
            if flag in OPTIONAL:
                flag = ""
            continue
        yield from _left_bare(flag, taken)
        flag, taken = (arg, 0) if arg in MANY or arg in OPTIONAL else ("", 0)
        if arg == "--":
            yield arg
            yield from rest
        elif not flag:
            yield arg
    yield from _left_bare(flag, taken)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Interrupted from stop


def _left_bare(flag: str, taken: int) -> Iterator[str]:
    if flag and not taken:
        # Without a value, an option that needs one is left for the parser to refuse.
        yield f"{flag}={OPTIONAL[flag]}" if flag in OPTIONAL else flag


class Spread(TyperCommand):
    """A command whose options may take several values or none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments with one value to each option."""
        return super().parse_args(ctx, list(spread(args)))


class Quick(TyperGroup):
    """A group of commands whose own `--help`, where it is not asked for, does not make typer import pydantic.

    Ctrl-C passes through it as `Interrupted`.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the command line."""
        with _named():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _named():
            return super().invoke(ctx)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option with a default that needs no validation."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option
