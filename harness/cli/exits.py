"""How a command ends, for whoever called it (docs/commands.md)."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes; NO says that the question was answered, and the answer is no."""

    DONE = 0
    NO = 1
    BAD_INPUT = 2
    OUT_OF_REACH = 3
    BUG = 70
    INTERRUPTED = 130
