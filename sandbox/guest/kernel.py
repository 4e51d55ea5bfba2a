"""The few calls to the kernel that Python has no function for, by ctypes. Everything is prepared before the fork."""

import _thread
import ctypes
import fcntl
import os
import struct
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

from sandbox.guest.wire import ENDED_CALL, NO_CALL, UNKNOWN_CALL

Step: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
"""A call that is laid out before the fork, to be made after it: a child pays for each page of memory that it touches."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
_PR_GET_SECCOMP = 21
_SECCOMP_MODE_FILTER = 2
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8
_SECCOMP_NOTIFICATION = struct.Struct("<QIIiIQ6Q")  # id, pid, flags; number, AUDIT_ARCH, instruction pointer, arguments
_CALL_OFFSET = 16  # of its number, which AUDIT_ARCH follows
_SECCOMP_RECEIVE = 0xC0502100
_RUSAGE_FIELDS = 18
_THREAD_BYTES, _STATE_BYTES = 1024, 512  # of the C library's and of Python's thread, within which the number lies
_NOBODY = 1
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_VERSION = 1
_LANDLOCK_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights by ABI; 16 from 5 on
_LANDLOCK_NET_ABI, _LANDLOCK_SCOPE_ABI = 4, 6
_BPF_INSTRUCTION_BYTES = 8
_CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x04000000, 0x08000000, 0x10000000, 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_fork_of_libc = ctypes.PyDLL(None, use_errno=True).fork
_wait4 = _libc.wait4
_wait4.restype = None


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
_prctl.restype = _checked
_restrict = ctypes.CDLL(None, use_errno=True)["syscall"]
_restrict.restype = _checked


def fork() -> int:
    """Fork a process that has one thread, and return what `os.fork` returns.

    That one also makes every lock of the interpreter anew and calls the hooks of modules, of which `random` reads entropy: twice
    the work of the fork itself, and a hundred pages more for the child to copy. With one thread no lock is held, and `child`
    seeds `random` itself.
    """
    pid: int = _fork_of_libc()
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this signal when the parent ends."""
    call, arguments = dying_with_parent(signal_number)
    call(*arguments)


def dying_with_parent(signal_number: int) -> Step:
    """Return `die_with_parent` as a step."""
    return _prctl, (_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)


def forbid_inspection() -> None:
    """Make the process non-dumpable: same-uid processes can neither trace it nor open its memory."""
    _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def forbid_new_privileges() -> None:
    """Give up gaining anything through set-uid files; both locks below ask for it."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def require_seccomp() -> None:
    """Raise OSError where the kernel has no seccomp."""
    _prctl(_PR_GET_SECCOMP, 0, 0, 0, 0)


def leave_namespaces() -> bool:
    """Leave the network, System V IPC and host name of the machine for empty ones; return whether the kernel let us."""
    wanted = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS
    return any(_libc.unshare(flags) == 0 for flags in (wanted, wanted | _CLONE_NEWUSER))


class Identity:
    """Where the C library and Python keep the thread's number, without asking the kernel each time.

    A child's number counts the children before it. What it gets in place of it is the same in all.
    """

    def __init__(self) -> None:
        me, own = _thread.get_ident(), _thread.get_native_id()
        ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
        state = ctypes.pythonapi.PyThreadState_Get()
        words = [ctypes.c_uint32.from_address(me + offset) for offset in range(0, _THREAD_BYTES, 4)]
        fields = [ctypes.c_ulong.from_address(state + offset) for offset in range(0, _STATE_BYTES, 8)]
        # Of the C library, whose layout is its own business: the word that its thread clocks are made from.
        in_library = [word for word in words if word.value == own and _is_source_of_clocks(word, me)]
        in_python = [second for first, second in pairwise(fields) if first.value == me and second.value == own]
        if not in_library or not in_python:
            raise OSError("it is not known where this Python and its C library keep the number of a thread")
        self._parent = ctypes.c_uint32(os.getpid())  # of the child that hides
        self._places = (self._parent, in_library[0], in_python[0])

    def hide(self) -> None:
        """Forget the numbers of this process and of its parent, for good.

        Raises:
            OSError: the parent has ended already, so that its end will end nothing any more.
        """
        if os.getppid() != self._parent.value:
            raise OSError("the runner is gone")
        for place in self._places:
            place.value = _NOBODY


def _is_source_of_clocks(word: ctypes.c_uint32, thread: int) -> bool:
    own, before = word.value, time.pthread_getcpuclockid(thread)
    word.value = own + 1
    after = time.pthread_getcpuclockid(thread)
    word.value = own
    return after != before


class SeccompLock:
    """A filter, laid out in memory before the fork; `step` applies it to the calling process for good."""

    def __init__(self, instructions: bytes) -> None:
        self._memory = ctypes.create_string_buffer(instructions, len(instructions))
        self._program = _FilterProgram(len(instructions) // _BPF_INSTRUCTION_BYTES, ctypes.addressof(self._memory))
        self.step: Step = _prctl, (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(self._program), 0, 0)

    def close(self) -> None:
        """Apply the filter to this process for good."""
        call, arguments = self.step
        call(*arguments)


def watch(instructions: bytes) -> int | None:
    """Install a filter that stops calls and tells of them, here and in all children; return what tells of them.

    None where the kernel has no such thing, or where somebody around us uses it.
    """
    number = _SECCOMP.get(os.uname().machine)
    if number is None:
        return None
    memory = ctypes.create_string_buffer(instructions, len(instructions))
    program = _FilterProgram(len(instructions) // _BPF_INSTRUCTION_BYTES, ctypes.addressof(memory))
    flags = _SECCOMP_FILTER_FLAG_NEW_LISTENER
    descriptor: int = _libc.syscall(number, _SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program))
    return descriptor if descriptor >= 0 else None


class Remains:
    """How a child ended, as the bytes that the kernel writes, in memory that is wiped before the next child starts.

    No object is made of any of it: a freed object's content stays in the memory of this process, and so in each later child,
    which could read there what the one before had decided.
    """

    def __init__(self) -> None:
        self._notification = bytearray(_SECCOMP_NOTIFICATION.size)
        self._status = ctypes.c_int()
        self._usage = (ctypes.c_long * _RUSAGE_FIELDS)()
        self._called = memoryview(self._notification)[_CALL_OFFSET : _CALL_OFFSET + ENDED_CALL.size]
        self.parts = (self._called, memoryview(self._status).cast("B"), memoryview(self._usage).cast("B"))
        """Call, status and usage, as the frame ENDED holds them."""
        self.wipe()

    def wipe(self) -> None:
        """Forget everything."""
        self._notification[:] = bytes(_SECCOMP_NOTIFICATION.size)
        self._called[:] = ENDED_CALL.pack(NO_CALL, 0)
        self._status.value = 0
        ctypes.memset(self._usage, 0, ctypes.sizeof(self._usage))

    def take_call(self, descriptor: int) -> None:
        """Take number and AUDIT_ARCH of the call that a child waits in."""
        self._notification[:] = bytes(_SECCOMP_NOTIFICATION.size)  # which the kernel asks for
        try:
            fcntl.ioctl(descriptor, _SECCOMP_RECEIVE, self._notification)
        except OSError:  # it waits no more
            self._called[:] = ENDED_CALL.pack(UNKNOWN_CALL, 0)

    def take_end(self, pid: int) -> None:
        """Wait for this child to end."""
        _wait4(pid, ctypes.byref(self._status), 0, self._usage)


class LandlockLock:
    """A Landlock ruleset that grants nothing: no new access to files, no TCP, no abstract socket or signal out of the process.

    `step` confines the calling process for good; it does nothing where the kernel knows no Landlock.
    """

    def __init__(self) -> None:
        self.abi = max(0, _libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION))
        self._ruleset = -1
        if self.abi:
            files = (1 << _LANDLOCK_FILE_RIGHTS.get(self.abi, 16)) - 1
            attributes = struct.pack("<Q", files)
            if self.abi >= _LANDLOCK_NET_ABI:
                attributes += struct.pack("<Q", 0b11)
            if self.abi >= _LANDLOCK_SCOPE_ABI:
                attributes += struct.pack("<Q", 0b11)
            self._ruleset = _libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
            if self._ruleset < 0:
                self.abi = 0
        self.step: Step = (_restrict, (_LANDLOCK_RESTRICT, self._ruleset, 0)) if self.abi else (int, ())
