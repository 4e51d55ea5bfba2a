"""The frames between the host and the runner of a job: one definition for both ends.

In goes an order (marshal, since the host wrote it), the workspace and the inputs as archives. Out comes one frame of fixed-size
fields with two capped texts, and the workspace as an archive. Nobody unmarshals what comes out.
"""

import marshal
import struct
from typing import NamedTuple

ORDER = struct.Struct("<I")  # length of the marshalled order that follows
_MARSHAL_VERSION = 2  # the same bytes from every Python

# UP_MARK, has namespaces, Landlock's ABI: what the kernel gave a local runner; sent before it is told anything
UP = struct.Struct("<c?I")
# mark of what follows, length of its text
FAILED = struct.Struct("<cI")
# ENDED_MARK, wait status, time limit passed (an index of TIME_LIMITS), out of memory, CPU and wall in us, high-water memory,
# bytes of stdout and of stderr that were written, and that follow
ENDED = struct.Struct("<ciB?QQQQQII")
UP_MARK, FAILED_MARK, NOT_STARTED_MARK, ENDED_MARK = b"U", b"F", b"N", b"E"
TIME_LIMITS = (None, "cpu", "wall")
MESSAGE_BYTES = 1_000

# What `main` of the runner is told to go without, in tests alone.
NAMESPACES, LANDLOCK, SECCOMP = "namespaces", "landlock", "seccomp"


class Order(NamedTuple):
    """What the runner is to do; plain values only."""

    command: list[str]
    cpu_s: float
    wall_s: float
    memory_bytes: int
    workspace_bytes: int
    workspace_files: int
    scratch_bytes: int
    input_bytes: int
    input_files: int
    output_bytes: int
    processes: int
    threads: int
    network: bool


def packed(order: Order) -> bytes:
    """Return the order as it crosses."""
    text = marshal.dumps(tuple(order), _MARSHAL_VERSION)
    return ORDER.pack(len(text)) + text


def unpacked(text: bytes) -> Order:
    """Return the order that the host wrote."""
    return Order._make(marshal.loads(text))  # noqa: S302 - written by the host
