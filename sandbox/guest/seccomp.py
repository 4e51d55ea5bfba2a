"""Build the child's system-call filter as classic BPF, in Python: an allow list, no library needed."""

import errno
import struct

from sandbox.guest import calls

_LOAD, _IS, _AT_LEAST, _ABOVE, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE = _ERRNO | errno.EPERM
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_FIRST_ARGUMENT, _THIRD_ARGUMENT = 16, 32  # their low halves, on the little-endian machines that we know
_X32_BIT = 0x40000000
_LAST_OWN_DESCRIPTOR = 3
_PROT_EXEC = 4
_CLONE_THREAD = 0x00010000


class _Program:
    """BPF instructions in the making."""

    def __init__(self) -> None:
        self.code = bytearray()

    def add(self, operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self.code += struct.pack("<HBBI", operation, if_true, if_false, value)

    def decide(self, number: int, verdict: int) -> None:
        self.add(_IS, number, 0, 1)
        self.add(_RETURN, verdict)

    def decide_by_argument(self, number: int, argument: int, test: int, value: int, *, when_true: int, otherwise: int) -> None:
        self.add(_IS, number, 0, 4)
        self.add(_LOAD, argument)
        self.add(test, value, 0, 1)
        self.add(_RETURN, when_true)
        self.add(_RETURN, otherwise)


def build_filter(machine: str) -> bytes:
    """Return the filter for this machine (as `uname` names it) as the bytes of its BPF instructions.

    Raises:
        KeyError: the machine has no table.
    """
    architecture, numbers = calls.MACHINES[machine]
    program = _Program()
    program.add(_LOAD, _ARCHITECTURE)
    program.add(_IS, architecture, 1, 0)
    program.add(_RETURN, _KILL)
    program.add(_LOAD, _NUMBER)
    program.add(_AT_LEAST, _X32_BIT, 0, 1)
    program.add(_RETURN, _KILL)

    def present(names: tuple[str, ...]) -> list[int]:
        return [numbers[name] for name in names if name in numbers]

    for number in present(calls.ON_OWN_DESCRIPTORS):  # the hot ones first: the kernel walks the list for every call
        program.decide_by_argument(number, _FIRST_ARGUMENT, _ABOVE, _LAST_OWN_DESCRIPTOR, when_true=_REFUSE, otherwise=_ALLOW)
    for number in present(calls.WITHOUT_EXEC):
        program.decide_by_argument(number, _THIRD_ARGUMENT, _HAS_BITS, _PROT_EXEC, when_true=_REFUSE, otherwise=_ALLOW)
    for number in present(calls.NO_THREADS):
        again = _ERRNO | errno.EAGAIN
        program.decide_by_argument(number, _FIRST_ARGUMENT, _HAS_BITS, _CLONE_THREAD, when_true=again, otherwise=_REFUSE)
    for names, verdict in (
        (calls.ALLOWED, _ALLOW),
        (calls.NO_FILES, _ERRNO | errno.ENOENT),
        (calls.NO_IDENTITY, _ERRNO | 0),
        (calls.NOT_THERE, _ERRNO | errno.ENOSYS),
        (calls.HOSTILE, _KILL),
    ):
        for number in present(names):
            program.decide(number, verdict)
    program.add(_RETURN, _REFUSE)
    return bytes(program.code)
