"""Attacks beside those of the index: tests/attacks/more.toml, and what needs more than one policy to be seen."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest
from guests import QUICK, context, drive

from benchmarks.hostile import Attack, attempted, bodies, body_of, steers_nothing
from sandbox.api import FaultKind, Observation
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from sandbox.base import Sandbox

ATTACKS = bodies()


def test_the_table_is_whole() -> None:
    """Each has a name of its own, an idea, and outcomes that exist."""
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 60
    assert all(attack.idea and attack.group for attack in ATTACKS)
    assert {outcome for attack in ATTACKS for outcome in attack.outcomes} <= {"answered", *(kind.value for kind in FaultKind)}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained(attack: Attack, sandbox: Sandbox) -> None:
    """It ends as allowed, twice; nothing it says steers a terminal; the runner stays as it was."""
    assert attempted(attack, sandbox).broken == []


def test_what_is_printed_steers_nothing(sandbox: Sandbox) -> None:
    """What is kept of the output is as harmless as a message."""
    (attack,) = [attack for attack in ATTACKS if attack.name == "print-steers"]
    with sandbox.open(attack.source, QUICK) as session:
        replay = session.start(context())
        replay.decide(Observation(1, [(-1, (None, "ok", {}, "", (None, None, None), ""))]))
        replay.finish()

    assert "[2J" in replay.output
    assert steers_nothing(replay.output)


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
        with LocalSandbox().open(body_of(POLLS), QUICK) as session:
            fault = drive(session).fault
    finally:
        for one in held:
            one.close()

    assert fault is not None
    assert fault.message == "RuntimeError: []"
