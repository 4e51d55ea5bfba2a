"""Where a policy's prints go: counted, the tail kept, no system call made."""

import io
from collections.abc import Callable

from sandbox.guest.wire import OUTPUT_TAIL_BYTES


class Sink(io.TextIOBase):
    """A text stream for sys.stdout and sys.stderr. `flooded` is called once more than `limit` bytes were written."""

    encoding = "utf-8"

    def __init__(self, limit: int, flooded: Callable[[], None]) -> None:
        super().__init__()
        self._limit = limit
        self._flooded = flooded
        self.total = 0
        self.tail = b""

    def writable(self) -> bool:
        """Return True, as streams for print do."""
        return True

    def write(self, text: str) -> int:
        """Count the text and keep its tail."""
        written = str.encode(text, "utf-8", "replace")
        self.total += len(written)
        self.tail = (self.tail + written[-OUTPUT_TAIL_BYTES:])[-OUTPUT_TAIL_BYTES:]
        if self.total > self._limit:
            self._flooded()
        return len(text)

    def take(self) -> bytes:
        """Return the tail of what was written since the last call."""
        tail, self.tail = self.tail, b""
        return tail
