"""What a local job has in place of a container, as far as the kernel gives it: namespaces, file systems in memory, Landlock."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.guest import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_EVERYTHING = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 0x4000, 0x40000
# Folders that exist nearly anywhere. Hidden are the sockets of services and sessions, and what others have in /tmp.
_HIDEABLE = ("/mnt", "/tmp", "/run")  # noqa: S108 - nothing is written there

_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights by ABI; 16 from 5 on
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_LOOK = _EXECUTE | _READ | _LIST
_NET_ABI, _SCOPE_ABI = 4, 6
_READABLE = (
    "/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/passwd",
    "/etc/nsswitch.conf", "/dev/urandom", "/dev/random", "/dev/zero",
)  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


@dataclass(frozen=True, slots=True)
class Room:
    """Where a job takes place. `scratch` is None without one; `temporary` when the folders lie on a disk."""

    workspace: str
    inputs: str
    scratch: str | None
    temporary: str | None = None


def container_room(*, scratch: bool) -> Room:
    """Return the folders that the engine has mounted."""
    return Room("/job/workspace", "/job/inputs", "/dev/shm" if scratch else None)  # noqa: S108 - memory of this container


def enter_namespaces(channel: int) -> bool:
    """Go on as process 1 of new namespaces, with nothing mounted yet; return False, unchanged, where the kernel refuses.

    The process that called stays as their keeper and ends with them. It lets go of `channel`.
    """
    if not _in_child(_try_namespaces):
        return False
    _unshare()
    pid = os.fork()
    if pid:
        os.close(channel)
        os.waitpid(pid, 0)
        os._exit(0)
    kernel.die_with_parent(signal.SIGKILL)
    return True


def namespaced_room(owner: tuple[int, int], sizes: tuple[int, int, int], files: tuple[int, int]) -> Room:
    """Mount what a container would have: /proc of its own, and the job's folders in memory, each with its size.

    Args:
        owner: user and group of what the command may write.
        sizes: bytes of workspace, inputs and scratch (0: none).
        files: most files of workspace and inputs.

    Raises:
        OSError: the kernel refuses.
    """
    _mount_proc()
    hideable = [folder for folder in _HIDEABLE if Path(folder).is_dir() and not sys.prefix.startswith(f"{folder}/")]
    if not hideable:
        raise OSError(f"none of {', '.join(_HIDEABLE)} is a folder that can be hidden")
    for folder in hideable:
        _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, "mode=0755,size=64k,nr_inodes=16")
    base = hideable[0]
    room = Room(f"{base}/job/workspace", f"{base}/job/inputs", f"{base}/job/scratch" if sizes[2] else None)
    mine = f"uid={owner[0]},gid={owner[1]},mode=0700"
    wanted: tuple[tuple[str | None, int, int, str], ...] = (
        (room.workspace, sizes[0], files[0], mine),
        (room.inputs, sizes[1], files[1], "mode=0755"),
        (room.scratch, sizes[2], files[0], mine),
    )
    for place, size, most, who in wanted:
        if place is not None:
            Path(place).mkdir(parents=True)
            _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, f"size={size},nr_inodes={most + 1},{who}")
    return room


def plain_room(owner: tuple[int, int], *, scratch: bool) -> Room:
    """Make the job's folders on the disk, where nothing else is to be had; whoever made them removes them."""
    import tempfile  # noqa: PLC0415 - rarely needed, and long to load

    base = tempfile.mkdtemp(prefix="dream-harness-job-")
    Path(base).chmod(0o755)  # the command's user must get through it
    room = Room(f"{base}/workspace", f"{base}/inputs", f"{base}/scratch" if scratch else None, base)
    for folder in (room.workspace, room.scratch):
        if folder is not None:
            Path(folder).mkdir(0o700)
            if os.getuid() != owner[0]:
                os.chown(folder, *owner)
    Path(room.inputs).mkdir(0o755)
    return room


def make_read_only(folder: str) -> None:
    """Let nobody write to what is mounted there, whoever owns it."""
    _mount(None, folder, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV, None)


class Landlock:
    """A ruleset that lets a command read programs and libraries and its inputs, write its own folders, and reach nothing else."""

    def __init__(self, room: Room) -> None:
        self.abi = max(0, _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))
        self._ruleset = -1
        if not self.abi:
            return
        files = (1 << _FILE_RIGHTS.get(self.abi, 16)) - 1
        attributes = struct.pack("<Q", files)
        if self.abi >= _NET_ABI:
            attributes += struct.pack("<Q", 0b11)
        if self.abi >= _SCOPE_ABI:
            attributes += struct.pack("<Q", 0b11)
        self._ruleset = _libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
        if self._ruleset < 0:
            self.abi = 0
            return
        for path in (*_READABLE, sys.prefix, sys.base_prefix, room.inputs):
            self._allow(path, _LOOK)
        self._allow(os.devnull, _READ | _WRITE)
        if os.getpid() == 1:
            self._allow("/proc", _READ | _LIST)
        for folder in (room.workspace, room.scratch):
            if folder is not None:
                self._allow(folder, files)

    def _allow(self, path: str, rights: int) -> None:
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                if not Path(path).is_dir():
                    rights &= _EXECUTE | _READ | _WRITE
                rule = struct.pack("<Qi", rights, descriptor)
                if _libc.syscall(_ADD_RULE, self._ruleset, _PATH_BENEATH, rule, 0):
                    raise OSError(ctypes.get_errno(), "landlock_add_rule")
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Confine this process for good, where the kernel knows Landlock."""
        if self.abi and _libc.syscall(_RESTRICT, self._ruleset, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")


def _unshare() -> None:
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_EVERYTHING | (_NEWUSER if uid else 0)):
        raise OSError(ctypes.get_errno(), "unshare")
    if uid:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


def _try_namespaces() -> None:
    _unshare()
    if not _in_child(_mount_proc):
        raise PermissionError("no /proc can be mounted")


def _mount_proc() -> None:
    _mount(None, "/", None, _REC | _PRIVATE, None)
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, None)


def _in_child(attempt: Callable[[], object]) -> bool:
    """Return whether this succeeds, tried in a process that ends with it: what was unshared cannot be joined again."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    values = [None if value is None else value.encode() for value in (source, target, kind)]
    if _libc.mount(*values, ctypes.c_ulong(flags), None if options is None else options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {kind or 'flags'} on {target}: {os.strerror(ctypes.get_errno())}")
