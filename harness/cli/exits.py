"""How a command ends, for whoever called it (docs/commands.md)."""

from enum import IntEnum

INTERRUPTED = "interrupted; what had been recorded stays, and the same command can be run again"
"""What is said where a command has nothing more to say."""


class Interrupted(BaseException):
    """Ctrl-C reached a command that has nothing to say about it; under its own name, or typer would end without a word."""


class Exit(IntEnum):
    """The exit codes; NO says that the question was answered, and the answer is no."""

    DONE = 0
    NO = 1
    BAD_INPUT = 2
    OUT_OF_REACH = 3
    BUG = 70
    INTERRUPTED = 130
