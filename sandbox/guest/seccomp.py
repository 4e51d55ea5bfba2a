"""Build the child's system-call filter as classic BPF, in Python: an allow list, no library needed.

The numbers are searched by halves. The kernel runs a new filter once for every call there is, to remember which ones it
always allows; through a list of a hundred comparisons that took longer than all other locks of a child together.
"""

from __future__ import annotations

import errno
import struct

from sandbox.guest import calls

_LOAD, _MASK, _IS, _AT_LEAST, _ABOVE, _HAS_BITS, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x25, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NOTIFY, _TRACE = 0x7FC00000, 0x7FF00000
_REFUSE = _ERRNO | errno.EPERM
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
# Their low halves, on the little-endian machines that we know.
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT, _FOURTH_ARGUMENT = 16, 24, 32, 40
_HIGH_HALF = 4
_X32_BIT = 0x40000000
_LAST_OWN_DESCRIPTOR = 3
_LAST_CLOCK = 11  # CLOCK_TAI
_FUTEX_COMMAND = 0x7F  # the rest are flags
_FUTEX_WAIT_OR_WAKE = (0, 1, 9, 10)  # each with and without a bit set
_PROT_EXEC = 4
# MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_POPULATE, MAP_STACK: what allocators ask for.
_ALL_BUT_OWN_MAPPINGS = 0xFFFFFFFF ^ (0x2 | 0x20 | 0x4000 | 0x8000 | 0x20000)
_ALL_BUT_MREMAP_MAYMOVE = 0xFFFFFFFE
_MADV_DONTNEED = 4
_CLONE_THREAD = 0x00010000
_IN_A_ROW = 3  # numbers compared one after the other, where halving no longer pays

_LEAVES = (
    (calls.ALLOWED, _ALLOW),
    (calls.NO_FILES, _ERRNO | errno.ENOENT),
    (calls.NO_IDENTITY, _ERRNO | 0),
    (calls.NOT_THERE, _ERRNO | errno.ENOSYS),
)


def build_watch(machine: str) -> bytes:
    """Return the filter that the runner installs once: it holds hostile calls, and has the runner told which one it is.

    Raises:
        KeyError: the machine has no table.
    """
    architecture, numbers = calls.MACHINES[machine]
    hostile = sorted(_present(calls.HOSTILE, numbers))
    head = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_IS, architecture, 1, 0), _instruction(_RETURN, _ALLOW)]
    body = [_instruction(_RETURN, _NOTIFY)]
    return b"".join([*head, _instruction(_LOAD, _NUMBER), *_search([(number, body) for number in hostile], _ALLOW)])


def build_filter(machine: str, *, watched: bool) -> bytes:
    """Return the filter for this machine (as `uname` names it) as the bytes of its BPF instructions.

    A hostile call kills. Where the runner watches, the runner does that: of two verdicts the kernel takes the stricter one, so
    that this filter may only refuse, in the mildest way there is (a call to be traced, without a tracer, is not made).

    Raises:
        KeyError: the machine has no table.
    """
    architecture, numbers = calls.MACHINES[machine]
    bodies: dict[int, list[bytes]] = {}
    for names, verdict in (*_LEAVES, (calls.HOSTILE, _TRACE if watched else _KILL)):
        bodies |= {number: [_instruction(_RETURN, verdict)] for number in _present(names, numbers)}
    own = _by_argument(_FIRST_ARGUMENT, _ABOVE, _LAST_OWN_DESCRIPTOR, _REFUSE, _ALLOW)
    bodies |= dict.fromkeys(_present(calls.ON_OWN_DESCRIPTORS, numbers), own)
    own_clocks = _by_argument(_FIRST_ARGUMENT, _ABOVE, _LAST_CLOCK, _REFUSE, _ALLOW)
    bodies |= dict.fromkeys(_present(calls.OF_OWN_CLOCKS, numbers), own_clocks)
    itself = _by_argument(_FIRST_ARGUMENT, _IS, 0, _ALLOW, _REFUSE)
    bodies |= dict.fromkeys(_present(calls.OF_ITSELF, numbers), itself)
    bodies |= dict.fromkeys(_present(calls.TO_WAIT_OR_WAKE, numbers), _waits_or_wakes())
    gives_back = _by_argument(_THIRD_ARGUMENT, _IS, _MADV_DONTNEED, _ALLOW, _REFUSE)
    bodies |= dict.fromkeys(_present(calls.TO_GIVE_BACK, numbers), gives_back)
    no_exec = _by_argument(_THIRD_ARGUMENT, _HAS_BITS, _PROT_EXEC, _REFUSE, _ALLOW)
    bodies |= dict.fromkeys(_present(calls.WITHOUT_EXEC, numbers), no_exec)
    bodies |= dict.fromkeys(_present(calls.OWN_MEMORY, numbers), _is_own_memory())
    not_to_a_place = _by_argument(_FOURTH_ARGUMENT, _HAS_BITS, _ALL_BUT_MREMAP_MAYMOVE, _REFUSE, _ALLOW)
    bodies |= dict.fromkeys(_present(calls.WHERE_THE_KERNEL_PUTS_IT, numbers), not_to_a_place)
    no_thread = _by_argument(_FIRST_ARGUMENT, _HAS_BITS, _CLONE_THREAD, _ERRNO | errno.EAGAIN, _REFUSE)
    bodies |= dict.fromkeys(_present(calls.NO_THREADS, numbers), no_thread)
    head = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_IS, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, _X32_BIT, 0, 1),
        _instruction(_RETURN, _KILL),
    ]
    return b"".join(head + _search(sorted(bodies.items()), _REFUSE))


def _search(entries: list[tuple[int, list[bytes]]], otherwise: int) -> list[bytes]:
    if len(entries) > _IN_A_ROW:
        middle = len(entries) // 2
        lower, upper = _search(entries[:middle], otherwise), _search(entries[middle:], otherwise)
        return [_instruction(_AT_LEAST, entries[middle][0], len(lower), 0), *lower, *upper]
    code = []
    for number, body in entries:
        code += [_instruction(_IS, number, 0, len(body)), *body]
    return [*code, _instruction(_RETURN, otherwise)]


def _by_argument(argument: int, test: int, value: int, when_true: int, otherwise: int) -> list[bytes]:
    return [
        _instruction(_LOAD, argument),
        _instruction(test, value, 0, 1),
        _instruction(_RETURN, when_true),
        _instruction(_RETURN, otherwise),
    ]


def _is_own_memory() -> list[bytes]:
    return [
        _instruction(_LOAD, _THIRD_ARGUMENT),
        _instruction(_HAS_BITS, _PROT_EXEC, 6, 0),
        _instruction(_LOAD, _FOURTH_ARGUMENT),
        _instruction(_HAS_BITS, _ALL_BUT_OWN_MAPPINGS, 4, 0),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_IS, 0, 0, 2),
        _instruction(_LOAD, _FIRST_ARGUMENT + _HIGH_HALF),
        _instruction(_IS, 0, 1, 0),
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _ALLOW),
    ]


def _waits_or_wakes() -> list[bytes]:
    count = len(_FUTEX_WAIT_OR_WAKE)
    return [
        _instruction(_LOAD, _SECOND_ARGUMENT),
        _instruction(_MASK, _FUTEX_COMMAND),
        *[_instruction(_IS, command, count - place, 0) for place, command in enumerate(_FUTEX_WAIT_OR_WAKE)],
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _ALLOW),
    ]


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, if_true, if_false, value)


def _present(names: tuple[str, ...], numbers: dict[str, int]) -> list[int]:
    return [numbers[name] for name in names if name in numbers]
