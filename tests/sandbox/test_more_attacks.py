"""Attacks beside those of tests/attacks: on the child's own code, by frames, answers, exceptions, output, and by looking around.

Each is the body of `decide`. It ends in one of its allowed outcomes on every backend, what it makes people see steers no
terminal, and the runner is unchanged afterwards.
"""

from __future__ import annotations

import re
import socket
import textwrap
from typing import TYPE_CHECKING

import pytest
from guests import QUICK, context, drive

from sandbox.api import FaultKind, Observation
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from sandbox.base import Sandbox

ANSWERED = "answered"
EXCEPTION, EXITED, PROTOCOL = FaultKind.EXCEPTION.value, FaultKind.EXITED.value, FaultKind.PROTOCOL_FAULT.value
BAD_ANSWER, TIMEOUT, MEMORY = FaultKind.BAD_ANSWER.value, FaultKind.DECISION_TIMEOUT.value, FaultKind.OUT_OF_MEMORY.value
FLOOD = FaultKind.OUTPUT_FLOOD.value


def policy(decide: str) -> str:
    """Build a policy from the body of `decide`."""
    body = textwrap.indent(textwrap.dedent(decide).strip("\n"), " " * 8)
    head = "import os, struct, sys, time\nclass Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n"
    return f"{head}{body}\n"


ATTACKS = {
    # The child's own code, from inside
    "write-patched": ("os.write = lambda *a: 0\nreturn [0]", {ANSWERED}),
    "answers-patched": (
        "child = sys.modules['sandbox.guest.child']\nchild.batch_of = lambda a: [2**40, 0.5]\nchild.array = None\nreturn [0]",
        {EXCEPTION},
    ),
    "answer-traced": (
        "def trace(frame, *a):\n    frame.f_locals['batch'] = [9] * 999\n    return trace\nsys.settrace(trace)\nreturn [0]",
        {ANSWERED, BAD_ANSWER, PROTOCOL, EXCEPTION},
    ),
    "profiled": ("def profile(*a): raise SystemExit\nsys.setprofile(profile)\nreturn [0]", {EXCEPTION}),
    "builtins-emptied": ("import builtins\nbuiltins.__dict__.clear()\nreturn [0]", {EXITED, EXCEPTION}),
    "everything-is-everything": ("import builtins\nbuiltins.isinstance = lambda *a: True\nraise ValueError", {EXITED, PROTOCOL}),
    "finalizer-speaks": (
        "class Late:\n    def __del__(self): os.write(3, b'A' + bytes(8))\nself.late = Late()\nself.late = None\nreturn [0]",
        {PROTOCOL},
    ),
    "hook-prints": (
        "sys.unraisablehook = lambda u: print('x' * 10**6)\nclass Late:\n    def __del__(self): 1 / 0\nLate()\nreturn [0]",
        {FLOOD},
    ),
    "signals-caught": (
        "import signal\nfor s in {*range(1, 64)} - {9, 19, 32, 33}: signal.signal(s, lambda *a: None)\nwhile True: pass",
        {TIMEOUT},
    ),
    "stops-itself": ("import signal\nsignal.raise_signal(signal.SIGSTOP)\nreturn [0]", {EXCEPTION}),
    "lying-fault": (
        "api = sys.modules['sandbox.api']\nraise api.PolicyFault(api.Fault(api.FaultKind.KILLED_BY_SECCOMP, 'not me'))",
        {EXCEPTION},
    ),
    "descriptors-closed": ("os.closerange(0, 4)\nreturn [0]", {EXITED}),
    # Frames
    "empty-frame": ("os.write(3, b'')\nreturn [0]", {EXITED, PROTOCOL}),
    "ready-again": ("os.write(3, b'R')\nreturn [0]", {PROTOCOL}),
    "runner's-frame": ("os.write(3, struct.pack('<ciQQQI', b'E', 0, 0, 0, 0, 0))\nreturn [0]", {PROTOCOL}),
    "cut-output": ("os.write(3, struct.pack('<cQ', b'O', 5))\nreturn [0]", {PROTOCOL}),
    "unknown-fault": ("os.write(3, struct.pack('<cBH', b'X', 77, 1) + b'x')\nreturn [0]", {PROTOCOL}),
    "cut-fault": ("os.write(3, struct.pack('<cBH', b'X', 1, 65535) + b'x')\nreturn [0]", {PROTOCOL}),
    "steering-fault": ("os.write(3, struct.pack('<cBH', b'X', 1, 8) + b'\\x1b[2J\\x9b1m\\r\\x08\\xff\\x1b[1A')", {EXCEPTION}),
    "steering-output": (
        "os.write(3, struct.pack('<cQ', b'O', 2**64 - 1) + b'\\x1b]0;x\\x07' + '\\u202e'.encode())\nreturn [0]",
        {ANSWERED},
    ),
    "half-an-id": ("os.write(3, struct.pack('<cI', b'A', 0) + bytes(3))\nreturn [0]", {PROTOCOL}),
    "answers-and-leaves": ("os.write(3, struct.pack('<cII', b'A', view.round - 1, 0))\nos._exit(0)", {EXITED}),
    # Answers
    "evil-type-name": ("kind = type('L', (list,), {})\nkind.__name__ = '\\x1b[31m' * 999\nreturn kind()", {BAD_ANSWER}),
    "int-with-tricks": ("return [type('I', (int,), {'__index__': lambda s: 2**70})(0)]", {BAD_ANSWER}),
    "contains-itself": ("answer = []\nanswer.append(answer)\nreturn answer", {BAD_ANSWER}),
    "huge-ints": ("return [1 << 10**6] * 3", {BAD_ANSWER}),
    # Exceptions
    "text-exits": ("class E(Exception):\n    def __str__(self): os._exit(0)\nraise E", {EXITED}),
    "text-never-ends": ("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", {TIMEOUT}),
    "name-steers": ("raise type('\\x1b]0;t\\x07\\u202e' * 50, (Exception,), {'__module__': '\\x1b[5m'})('\\x9b1m')", {EXCEPTION}),
    "class-lies": ("class E(Exception):\n    __class__ = property(lambda s: MemoryError)\nraise E", {EXCEPTION, MEMORY}),
    "notes-steer": ("e = ValueError()\ne.__notes__ = ['\\x1b[31m' * 9] * 999\nraise e", {EXCEPTION}),
    "group-of-many": ("raise ExceptionGroup('\\x1b[1m', [ValueError('z' * 1000) for _ in range(999)])", {EXCEPTION}),
    "lines-forged": (
        "import linecache\nlinecache.cache['policy.py'] = (1, None, ['\\x1b[31m' * 999] * 999, 'policy.py')\n1 / 0",
        {EXCEPTION},
    ),
    "syntax-error-forged": ("raise SyntaxError('m', ('f\\x1b[31m', -5, 10**9, '\\x1b[2J' * 10000))", {EXCEPTION}),
    # Output
    "limit-switched-off": ("sys.stdout._flooded = lambda: None\nwhile True: print('x' * 10**6)", {TIMEOUT}),
    "count-forged": ("sys.stdout.total = 2**200\nsys.stdout.tail = b'z'\nreturn [0]", {EXCEPTION, EXITED}),
    "tail-forged": ("sys.stdout.tail = b'x' * 10**7\nreturn [0]", {EXCEPTION, PROTOCOL}),
    "print-steers": ("print('\\x1b[2J\\x1b]52;c;eA==\\x07\\u202e\\x9b31m\\r\\0\\x7f\\u2028\\ud800')\nreturn [0]", {ANSWERED}),
    # Memory and time in C
    "zlib-bomb": ("import zlib\nbomb = zlib.compress(bytes(10**7))\nx = [zlib.decompress(bomb) for _ in range(99)]", {MEMORY}),
    "precise-decimal": ("import decimal\ndecimal.getcontext().prec = 10**18 - 1\ndecimal.Decimal(1) / 3", {MEMORY, TIMEOUT}),
    "long-sum": ("sum(range(10**12))", {TIMEOUT}),
    "waits-for-ever": ("import select\nselect.poll().poll()", {TIMEOUT}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "allowed"), ATTACKS.values(), ids=ATTACKS)
def test_attack_is_contained(body: str, allowed: set[str], sandbox: Sandbox) -> None:
    """It ends as allowed, twice; nothing it says steers a terminal; the runner stays as it was."""
    with sandbox.open(policy(body), QUICK) as session:
        before = session.health()
        trajectories = [drive(session), drive(session)]
        after = session.health()

    faults = [trajectory.fault for trajectory in trajectories]
    assert {ANSWERED if fault is None else fault.kind.value for fault in faults} <= allowed
    for fault in faults:
        assert fault is None or steers_nothing(fault.message + fault.traceback)
    assert after[1:] == before[1:]


def test_what_is_printed_steers_nothing(sandbox: Sandbox) -> None:
    """What is kept of the output is as harmless as a message."""
    (body, _) = ATTACKS["print-steers"]
    with sandbox.open(policy(body), QUICK) as session:
        replay = session.start(context())
        replay.decide(Observation(1, [(-1, (None, "ok", {}, "", (None, None, None), ""))]))
        replay.finish()

    assert "[2J" in replay.output
    assert steers_nothing(replay.output)


def steers_nothing(text: str) -> bool:
    """Return whether a text is free of what a terminal obeys."""
    return all(c.isprintable() or c in "\n\t" for c in text)


LOOKS = """
import ctypes, os, time
kernel = ctypes.CDLL(None, use_errno=True)

def errno(*arguments):
    return 0 if kernel.syscall(*arguments) >= 0 else ctypes.get_errno()

def refused(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    return 0

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        told = {}
        for pid in range(1, 300):
            told.setdefault(refused(lambda: time.clock_gettime(~pid << 3 | 2)), ("clock", pid))
            told.setdefault(refused(lambda: os.sched_getaffinity(pid)), ("affinity", pid))
            told.setdefault(errno(202, ctypes.byref(ctypes.c_uint(pid)), 8 | 128, 0, None, None, 0), ("futex", pid))
            told.setdefault(errno(274, pid, ctypes.byref(ctypes.c_void_p()), ctypes.byref(ctypes.c_size_t())), ("robust", pid))
        told.setdefault(errno(5, 3, ctypes.create_string_buffer(400)), ("fstat", 3))
        raise RuntimeError(f"told {told} and {time.process_time() >= 0, time.monotonic() > 0, len(os.sched_getaffinity(0)) > 0}")
"""


def test_no_call_tells_which_processes_there_are(sandbox: Sandbox) -> None:
    """The own process id counts replays, and on the local backend those of others are this machine's; own clocks still work."""
    with sandbox.open(LOOKS, QUICK) as session:
        fault = drive(session).fault

    assert fault is not None
    assert re.search(r"told \{1: \('clock', 1\)\} and \(True, True, True\)", fault.message), fault.message


POLLS = """
import select
found = []
for fd in range(4, 400):
    way = select.poll()
    way.register(fd, 0)
    if not any(event & select.POLLNVAL for _, event in way.poll(0)):
        found.append(fd)
raise RuntimeError(found)
"""


def test_the_runner_keeps_its_channel_among_the_descriptors_that_a_child_closes() -> None:
    """However many descriptors the harness holds, none but the replay's own reaches the policy."""
    held = [socket.socket() for _ in range(100)]
    try:
        with LocalSandbox().open(policy(POLLS), QUICK) as session:
            fault = drive(session).fault
    finally:
        for one in held:
            one.close()

    assert fault is not None
    assert fault.message == "RuntimeError: []"
