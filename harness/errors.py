"""Errors of ours or the operator's. Faults of policies are records (`sandbox.api.Fault`), never these."""


def reason_of(error: OSError) -> str:
    """Return what the system says is wrong, as words for a message."""
    return (error.strerror or str(error)).lower()


class HarnessError(Exception):
    """Something on our side stopped a command; the message says what and what helps."""


class InputError(HarnessError):
    """Bad usage or bad input: it names the thing, the value and what was expected. Exit code 2."""


class RefusedError(HarnessError):
    """The answer is no: as things stand this may not be done, and nothing was changed. Exit code 1."""


class TreeError(InputError):
    """A recorded tree breaks the format or its invariants."""


class StoreError(HarnessError):
    """The store is out of reach, outdated or damaged. Exit code 3."""


class StaleError(StoreError):
    """A writer decided on a history that has moved on since; nothing was written."""

    def __init__(self, expected: int, head: int) -> None:
        super().__init__(
            f"the history has moved on: this write was decided at event {expected} and the last one is {head}; "
            "read what was added and decide again"
        )
        self.expected = expected
        self.head = head
