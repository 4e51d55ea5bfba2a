"""The frames between host, runner and child: one definition for both ends.

Every frame is one SOCK_SEQPACKET message, so that the kernel keeps the boundaries. What goes in may be marshal, since the
host wrote it; what comes out is fixed-size fields, 32-bit ids and capped text, and nobody unmarshals it. The one exception
is compiled code: opaque to host and runner, unmarshalled only by children, whose policy could do the same to itself.
"""

import struct

from sandbox.api import FaultKind

# A message above some 200 kB is refused by the kernel's default buffers; longer ones are announced and sent in chunks.
CHUNK_BYTES = 60_000
LONG = struct.Struct("<cQ")  # LONG_MARK, length of the message that follows in chunks
LONG_MARK = b"L"  # never the first byte of what `dumps` below writes

MARSHAL_VERSION = 2  # the same bytes from every Python, and no references between objects

# host -> runner
RUN = struct.Struct("<cQIQ")  # RUN_MARK, address space to add in bytes, CPU seconds, bytes of output; carries one descriptor
RUN_MARK, KILL_MARK, PING_MARK = b"R", b"K", b"P"
TELL_MARK = b"T"  # as KILL_MARK, but ask the child first where it stands

# runner -> host
UP = struct.Struct("<cII?")  # UP_MARK, Python's hexversion, ABI of Landlock (0 = none), in namespaces of its own
# ENDED_MARK, strays; then as the kernel wrote it: number of the system call that it was killed for, AUDIT_ARCH of that; wait
# status; the fields of struct rusage, of which the first five count: user CPU in s and in us, system CPU in s and in us,
# high-water memory in KiB. Its notes follow.
ENDED_HEAD = struct.Struct("<cI")
ENDED_CALL = struct.Struct("<iI")
ENDED = struct.Struct("<cIiIi18q")
NO_CALL, UNKNOWN_CALL = -1, -2
PONG = struct.Struct("<cIi")  # PONG_MARK, open descriptors, nice value
UP_MARK, ENDED_MARK, PONG_MARK, FAILED_MARK = b"U", b"E", b"P", b"F"

UNLOCKED_SIGNAL = 64  # the last of the real-time signals: what a child dies of that could not lock itself; its notes say why

NO_SOCKET = 69  # exit status of a runner that cannot connect to the host's socket

# host -> child: marshal of (COMPILE, source) or (LOAD, code, source, params, seed, limits, frontier), then of observations
COMPILE, LOAD = 0, 1

# child -> host
READY_MARK = b"R"  # loaded
ANSWER = struct.Struct("<cI")  # ANSWER_MARK, number of the question; ids as u32 follow
FAULT = struct.Struct("<cBH")  # FAULT_MARK, place in FAULTS, bytes of the message; message and traceback follow
CODE = struct.Struct("<cI")  # CODE_MARK, length; the code follows in chunks
ANSWER_MARK, FAULT_MARK, CODE_MARK = b"A", b"X", b"C"

NO_SUCH_ID = 0xFFFFFFFF  # stands for every int that is no u32: no node ever has this id
LONGEST_BATCH = 32_000  # ids in one frame
OUTPUT_TAIL_BYTES = 8_000
MESSAGE_BYTES = 1_000
TRACEBACK_BYTES = 3_000
CODE_BYTES = 16 * 2**20

# The notes: memory that a child shares with the runner, which passes it on unread; so what was printed outlives any death.
# Bytes printed so far; a ring of OUTPUT_TAIL_BYTES, in which byte n lies at n modulo its size; the traceback of a child that
# was told to end. Every content means something, so that there is nothing to be strict about.
PRINTED = struct.Struct("<Q")
NOTES_BYTES = PRINTED.size + OUTPUT_TAIL_BYTES + TRACEBACK_BYTES

# What a child may say of itself; all other kinds are the host's to find.
FAULTS = (
    FaultKind.LOAD_FAULT,
    FaultKind.EXCEPTION,
    FaultKind.BAD_ANSWER,
    FaultKind.OUT_OF_MEMORY,
    FaultKind.PROCESS_LIMIT,
    FaultKind.OUTPUT_FLOOD,
)
