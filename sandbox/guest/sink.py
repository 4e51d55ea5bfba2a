"""Where a policy's prints go: counted, and the tail kept in the notes, which outlive the process. No system call is made."""

import io
import sys
from collections.abc import Callable

from sandbox.guest.wire import OUTPUT_TAIL_BYTES, PRINTED


class Sink(io.TextIOBase):
    """A text stream for sys.stdout and sys.stderr. `flooded` is called once more than `limit` bytes were written.

    The runner makes it, before it knows the limit, since a child would pay more for making it than for writing to it.
    """

    encoding = "utf-8"

    def __init__(self, notes: memoryview, flooded: Callable[[], None]) -> None:
        super().__init__()
        self._notes = notes
        self.limit = sys.maxsize
        self._flooded = flooded
        self.total = 0

    def writable(self) -> bool:
        """Return True, as streams for print do."""
        return True

    def write(self, text: str) -> int:
        """Count the text and keep its tail."""
        written = str.encode(text, "utf-8", "replace")
        total = self.total + len(written)
        written = written[-OUTPUT_TAIL_BYTES:]
        start = (total - len(written)) % OUTPUT_TAIL_BYTES
        up_to_end, from_start = written[: OUTPUT_TAIL_BYTES - start], written[OUTPUT_TAIL_BYTES - start :]
        at = PRINTED.size + start
        self._notes[at : at + len(up_to_end)] = up_to_end
        self._notes[PRINTED.size : PRINTED.size + len(from_start)] = from_start
        PRINTED.pack_into(self._notes, 0, total)
        self.total = total
        if total > self.limit:
            self._flooded()
        return len(text)
