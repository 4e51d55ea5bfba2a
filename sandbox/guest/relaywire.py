"""The frames of a relay: one stream of the engine that carries a runner's control channel and the channel of its child.

Both ends are ours. What a child sent is carried as it is: the runner that copies it never looks into it, and the host decodes it
as it does without a relay.
"""

import struct

# host -> runner: kind, bytes that follow
IN = struct.Struct("<cI")
# runner -> host: kind, bytes that follow, CPU time that the child has used in us
OUT = struct.Struct("<cIQ")

ORDER = b"O"  # both ways: a frame of the control channel
DATA = b"D"  # both ways: a frame of the child's channel
GRANT = b"G"  # to the runner: the host has handed on so many bytes (GRANTED) of the child, as many more may come
CLOSED = b"X"  # from the runner: the child's channel is closed
CLOCK = b"T"  # from the runner: the child goes on computing

GRANTED = struct.Struct("<I")
FRAME_BYTES = 256 * 1024  # above what the kernel takes as one message
WINDOW_BYTES = 1024 * 1024  # of a child, under way and not handed on yet: a flood stands still in its own socket
REPORT_S = 0.05  # between two reports of a clock
