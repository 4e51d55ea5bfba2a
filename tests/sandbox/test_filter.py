"""The system-call filter gives each call its verdict on every machine that has a table; run here as the kernel would."""

from __future__ import annotations

import errno
import struct
from itertools import chain

import pytest

from sandbox.guest import calls
from sandbox.guest.seccomp import build_filter, build_watch

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NOTIFY, TRACE = 0x7FC00000, 0x7FF00000
NAMED = {
    **dict.fromkeys(calls.ALLOWED, ALLOW),
    **dict.fromkeys(calls.NO_FILES, ERRNO | errno.ENOENT),
    **dict.fromkeys(calls.NO_IDENTITY, ERRNO),
    **dict.fromkeys(calls.NOT_THERE, ERRNO | errno.ENOSYS),
    **dict.fromkeys(calls.HOSTILE, KILL),
}


def verdict(program: bytes, number: int, architecture: int, *arguments: int) -> int:
    """Run classic BPF over one system call."""
    filled = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *filled)
    code = list(struct.iter_unpack("<HBBI", program))
    at, value = 0, 0
    while True:
        operation, if_true, if_false, k = code[at]
        at += 1
        if operation == 0x06:
            return k
        if operation == 0x20:
            (value,) = struct.unpack_from("<I", data, k)
        elif operation == 0x54:
            value &= k
        else:
            holds = {0x15: value == k, 0x25: value > k, 0x35: value >= k, 0x45: bool(value & k)}[operation]
            at += if_true if holds else if_false


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("machine", calls.MACHINES)
def test_every_call_has_its_verdict(machine: str, watched: bool) -> None:
    """Named calls as their list says, all others refused, whatever the number."""
    architecture, numbers = calls.MACHINES[machine]
    program = build_filter(machine, watched=watched)
    special = {*calls.ON_OWN_DESCRIPTORS, *calls.WITHOUT_EXEC, *calls.NO_THREADS}
    special |= {*calls.OWN_MEMORY, *calls.WHERE_THE_KERNEL_PUTS_IT}
    special |= {*calls.OF_OWN_CLOCKS, *calls.OF_ITSELF, *calls.TO_WAIT_OR_WAKE, *calls.TO_GIVE_BACK}
    named = {number: NAMED[name] for name, number in numbers.items() if name not in special}
    others = set(range(1000)) - set(numbers.values())

    if watched:  # the mildest that is no call, so that the watch's verdict wins; without a tracer it is ENOSYS
        named |= {numbers[name]: TRACE for name in calls.HOSTILE if name in numbers}

    assert {number: verdict(program, number, architecture) for number in named} == named
    assert {verdict(program, number, architecture) for number in others} == {ERRNO | errno.EPERM}


@pytest.mark.parametrize("machine", calls.MACHINES)
def test_some_calls_depend_on_their_arguments(machine: str) -> None:
    """Own descriptors only, no executable memory, threads refused as a limit is, processes as forbidden."""
    architecture, numbers = calls.MACHINES[machine]
    program = build_filter(machine, watched=True)

    def told(name: str, *arguments: int) -> int:
        return verdict(program, numbers[name], architecture, *arguments)

    assert [told("write", descriptor) for descriptor in (0, 3, 4, 2**32 - 1)] == [ALLOW, ALLOW, ERRNO | 1, ERRNO | 1]
    assert [told("mmap", 0, 4096, protection, 0x22) for protection in (0, 3, 4, 7)] == [ALLOW, ALLOW, ERRNO | 1, ERRNO | 1]
    assert [told("mprotect", 2**40, 4096, protection) for protection in (0, 3, 4, 7)] == [ALLOW, ALLOW, ERRNO | 1, ERRNO | 1]
    assert [told("mmap", 0, 4096, 3, how) for how in (0x22, 0x4022, 0x8022, 0x20022)] == [ALLOW] * 4
    others = [1 << bit for bit in range(32) if 1 << bit not in (0x2, 0x20, 0x4000, 0x8000, 0x20000)]
    assert {told("mmap", 0, 4096, 3, 0x22 | how) for how in others} == {ERRNO | 1}
    assert [told("mmap", where, 4096, 3, 0x22) for where in (0, 2**20, 2**40)] == [ALLOW, ERRNO | 1, ERRNO | 1]
    assert [told("mremap", 2**40, 4096, 8192, how) for how in (0, 1, 2, 3, 5)] == [ALLOW, ALLOW, *[ERRNO | 1] * 3]
    assert [told("clock_gettime", clock) for clock in (0, 11, 12, 2**32 - 14)] == [ALLOW, ALLOW, ERRNO | 1, ERRNO | 1]
    assert [told("madvise", 0, 4096, advice) for advice in (4, 12, 21, 100)] == [ALLOW, *[ERRNO | 1] * 3]
    assert [told("sched_getaffinity", process) for process in (0, 1, 2**32 - 1)] == [ALLOW, ERRNO | 1, ERRNO | 1]
    waits = [told("futex", 0, command) for command in (0, 128 + 1, 256 + 128 + 9, 10)]
    owned = [told("futex", 0, command) for command in (6, 128 + 7, 8, 11, 12, 13)]
    assert (set(waits), set(owned)) == ({ALLOW}, {ERRNO | 1})
    assert [told("clone", flags) for flags in (0x3D0F00, 0x1200011)] == [ERRNO | errno.EAGAIN, ERRNO | 1]


@pytest.mark.parametrize("machine", calls.MACHINES)
def test_a_foreign_abi_is_fatal(machine: str) -> None:
    """Calls of another architecture, and x32 numbers, would slip past a table of this one."""
    architecture, numbers = calls.MACHINES[machine]
    program = build_filter(machine, watched=True)

    assert verdict(program, numbers["write"], architecture ^ 1, 3) == KILL
    assert verdict(program, 0x40000000 + numbers["write"], architecture, 3) == KILL


@pytest.mark.parametrize("machine", calls.MACHINES)
def test_the_watch_holds_hostile_calls_of_its_own_machine_and_nothing_else(machine: str) -> None:
    """It is stricter than the child's filter about these, and says nothing of all others: foreign numbers are the child's."""
    architecture, numbers = calls.MACHINES[machine]
    program = build_watch(machine)
    held = {number for number in range(1000) if verdict(program, number, architecture) == NOTIFY}

    assert held == {numbers[name] for name in calls.HOSTILE if name in numbers}
    assert {verdict(program, number, architecture) for number in set(range(1000)) - held} == {ALLOW}
    assert {verdict(program, number, architecture ^ 1) for number in range(1000)} == {ALLOW}


@pytest.mark.parametrize("machine", calls.MACHINES)
def test_a_call_has_its_name_where_its_machine_is_known(machine: str) -> None:
    """Numbers mean other calls on other machines."""
    architecture, numbers = calls.MACHINES[machine]

    assert {calls.name_of(number, architecture) for number in numbers.values()} == set(numbers)
    assert calls.name_of(9999, architecture) is None
    assert calls.name_of(numbers["bpf"], architecture ^ 1) is None


def test_the_lists_do_not_overlap_and_every_name_has_a_number() -> None:
    """A call stands in one list, and exists on one machine at least."""
    lists = (
        *(calls.ALLOWED, calls.ON_OWN_DESCRIPTORS, calls.WITHOUT_EXEC, calls.NO_FILES),
        *(calls.OF_OWN_CLOCKS, calls.OF_ITSELF, calls.TO_WAIT_OR_WAKE, calls.TO_GIVE_BACK),
        *(calls.OWN_MEMORY, calls.WHERE_THE_KERNEL_PUTS_IT, calls.NO_THREADS, calls.NO_IDENTITY, calls.NOT_THERE, calls.HOSTILE),
    )
    names = list(chain.from_iterable(lists))

    assert len(names) == len(set(names))
    assert set(names) == {name for _, numbers in calls.MACHINES.values() for name in numbers}
