"""A plain Python process to measure against: `python plain.py DESCRIPTOR`. No locks, no rules, no views.

Each message on the socket is marshal. A tuple is sent back as it is: the bare echo. A list is answered with four
ids, as by a policy. Code, as bytes, is executed in a fork that exits at once, and whose CPU time is the answer: the bare cost of
a fresh process. This one has loaded what the runner has.
"""

from __future__ import annotations

import gc
import marshal
import os
import socket
import sys
from array import array


def main(descriptor: int) -> None:
    """Serve until the other end is closed."""
    from sandbox.api import Context, Limits  # noqa: PLC0415 - found on the path that the caller sets
    from sandbox.guest import runner, wire  # noqa: PLC0415

    runner._preload()  # noqa: SLF001 - the very modules
    channel = socket.socket(fileno=descriptor)
    gc.collect()
    gc.freeze()
    gc.disable()
    while message := channel.recv(65_536):
        work = marshal.loads(message)  # noqa: S302 - written by the benchmark
        if isinstance(work, list):
            channel.send(array("I", (0, 1, 2, 3)).tobytes())
            continue
        if isinstance(work, bytes):
            pid = os.fork()
            if pid == 0:
                names: dict[str, type] = {}
                exec(marshal.loads(work), names)  # noqa: S102, S302 - the benchmark's own policy
                names["Policy"](Context({}, 0, Limits(), "leaf"))
                os._exit(0)
            used = os.wait4(pid, 0)[2]
            work = (used.ru_utime + used.ru_stime,)
        channel.send(marshal.dumps(work, wire.MARSHAL_VERSION))


if __name__ == "__main__":
    main(int(sys.argv[1]))
