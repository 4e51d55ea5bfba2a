"""Which system calls a job's command may not make, as classic BPF: a deny list, since commands do almost anything.

In a container it stands behind the container's own allow list; a local job has this one alone.
"""

from __future__ import annotations

import errno
import struct

from sandbox.guest import calls

# With their numbers on x86-64 and aarch64; None where a machine has no such call. What Docker's own profile denies to a container
# without capabilities, and beyond it what io_uring, keyrings and user faults have let through in the past.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "syslog": (103, 116), "personality": (135, 92), "ustat": (136, None), "sysfs": (139, None),
    "vhangup": (153, 58), "modify_ldt": (154, None), "pivot_root": (155, 41), "acct": (163, 89), "settimeofday": (164, 170),
    "chroot": (161, 51), "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "iopl": (172, None), "ioperm": (173, None), "init_module": (175, 105), "delete_module": (176, 106),
    "quotactl": (179, 60), "nfsservctl": (180, 42), "lookup_dcookie": (212, 18), "clock_settime": (227, 112), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "kexec_load": (246, 104), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "migrate_pages": (256, 238), "unshare": (272, 97), "move_pages": (279, 239), "perf_event_open": (298, 241),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "clock_adjtime": (305, 266), "setns": (308, 268),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "finit_module": (313, 273),
    "kexec_file_load": (320, 294), "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "mount_setattr": (442, 442), "quotactl_fd": (443, 443), "memfd_secret": (447, 447),
    "set_mempolicy_home_node": (450, 450), "statmount": (457, 457), "listmount": (458, 458), "lsm_set_self_attr": (460, 460),
    "open_tree_attr": (467, 467),
    # What outlives its process, in the namespace of whoever started the job where it has none of its own.
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
_SOCKET, _SOCKETPAIR, _CLONE, _CLONE3, _MEMFD = (41, 198), (53, 199), (56, 220), (435, 435), (319, 279)
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_NAMESPACE_FLAGS = 0x7E020000  # all CLONE_NEW… of `clone`; CLONE_NEWTIME is one of clone3 alone
_MACHINES = ("x86_64", "aarch64")

_LOAD, _IS, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000


def build_filter(machine: str, *, unix_sockets: bool, network: bool, memory_files: bool) -> bytes:
    """Return the filter for this machine (as `uname` names it) as the bytes of its BPF instructions.

    Args:
        machine: of the tables.
        unix_sockets: let Unix sockets be made; pairs of them always may.
        network: let IPv4 and IPv6 sockets be made.
        memory_files: let files be made in memory, where a control group counts them: no process is seen to hold them.

    Raises:
        KeyError: the machine has no table.
    """
    architecture = calls.MACHINES[machine][0]
    column = _MACHINES.index(machine)
    refuse = _instruction(_RETURN, _ERRNO | errno.EPERM)
    code = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_IS, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, _X32_BIT, 0, 1),
        _instruction(_RETURN, _KILL),
    ]
    for numbers in (*_DENIED.values(), *(() if memory_files else (_MEMFD,))):
        number = numbers[column]
        if number is not None:
            code += [_instruction(_IS, number, 0, 1), refuse]
    code += [_instruction(_IS, _CLONE3[column], 0, 1), _instruction(_RETURN, _ERRNO | errno.ENOSYS)]
    code += [
        _instruction(_IS, _CLONE[column], 0, 4),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_HAS_BITS, _NAMESPACE_FLAGS, 0, 1),
        refuse,
        _instruction(_RETURN, _ALLOW),
    ]
    families = ((_AF_UNIX,) if unix_sockets else ()) + ((_AF_INET, _AF_INET6) if network else ())
    code += _families(_SOCKET[column], families, refuse) + _families(_SOCKETPAIR[column], (_AF_UNIX,), refuse)
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _families(call: int, families: tuple[int, ...], refuse: bytes) -> list[bytes]:
    body = [_instruction(_LOAD, _FIRST_ARGUMENT)]
    for family in families:
        body += [_instruction(_IS, family, 0, 1), _instruction(_RETURN, _ALLOW)]
    body.append(refuse)
    return [_instruction(_IS, call, 0, len(body)), *body]


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, if_true, if_false, value)
