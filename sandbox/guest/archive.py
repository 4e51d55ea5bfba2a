"""A folder as a stream: fixed-size headers, capped names, counts and sizes; one definition for both ends of a job.

What a command leaves behind is hostile. Only folders and plain files cross, each named by its whole path below the root, a folder
before what is in it. The reader checks everything again and creates each file itself, so that it never follows or makes a link.
"""

import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Send: TypeAlias = Callable[[bytes], None]
Receive: TypeAlias = Callable[[int], bytes]  # exactly so many bytes

ENTRY = struct.Struct("<cHHQ")  # mark, permission bits, bytes of the path, bytes of content; path and content follow
FOLDER_MARK, FILE_MARK, END_MARK, REFUSED_MARK = b"D", b"F", b"E", b"R"  # the path of a refusal is "kind: message"
PATH_BYTES = 1024
NAME_BYTES = 255
DEPTH = 32
CHUNK_BYTES = 256 * 1024
PAGE_BYTES = 4096  # what a file of one byte costs in memory
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_KEPT_BITS = 0o775  # never writable for everybody
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Refusal(StrEnum):
    """Why a folder, or a stream that claims to be one, is not taken."""

    SYMBOLIC_LINK = "symbolic-link"
    HARD_LINK = "hard-link"
    SPECIAL_FILE = "special-file"
    SPECIAL_MODE = "special-mode"
    BAD_NAME = "bad-name"
    TOO_DEEP = "too-deep"
    TOO_LARGE = "too-large"
    TOO_MANY_FILES = "too-many-files"
    PROTOCOL_FAULT = "protocol-fault"


class RefusedFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """Raised where a folder or stream breaks a rule."""

    def __init__(self, kind: Refusal, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Caps:
    """What a folder may hold: bytes, each file rounded up to pages as memory holds it, and files and folders together."""

    size_bytes: int
    files: int


class Tally:
    """What has been counted so far, and the check against the caps."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._pages_bytes = 0
        self.size_bytes = 0
        self.files = 0

    def expect(self, entries: int) -> None:
        """Refuse so many entries more, when they are too many."""
        if self.files + entries > self._caps.files:
            raise RefusedFault(Refusal.TOO_MANY_FILES, f"it holds more than {self._caps.files} files and folders")

    def add(self, path: bytes, size_bytes: int) -> None:
        """Count one entry; refuse it when it is one too many or too large."""
        self.expect(1)
        self.files += 1
        self.size_bytes += size_bytes
        self._pages_bytes += -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
        if self._pages_bytes > self._caps.size_bytes:
            limit = f"in pages of {PAGE_BYTES}; the limit is {self._caps.size_bytes} bytes"
            raise RefusedFault(Refusal.TOO_LARGE, f"up to {shown(path)} it holds {self._pages_bytes} bytes {limit}")


def shown(path: bytes) -> str:
    """Return an untrusted path for people: quoted, escaped, cut."""
    return ascii(path[:200])[1:]


def check_path(path: bytes) -> None:
    """Refuse a path that is absolute, climbs, is too long or too deep, or that no terminal should show."""
    names = path.split(b"/")
    if not path or len(path) > PATH_BYTES or any(not name or name in {b".", b".."} or len(name) > NAME_BYTES for name in names):
        raise RefusedFault(Refusal.BAD_NAME, f"the path {shown(path)} is empty, absolute, climbing or too long")
    if b"\0" in path or not _is_printable(path):
        raise RefusedFault(Refusal.BAD_NAME, f"the name {shown(path)} holds bytes that are not printable UTF-8")
    if len(names) > DEPTH:
        raise RefusedFault(Refusal.TOO_DEEP, f"the path {shown(path)} is deeper than {DEPTH} folders")


def pack(root: int, send: Send, tally: Tally, *, prefix: bytes = b"", result: bool = False) -> None:
    """Send what is below the open folder `root`, but not the end.

    Args:
        root: descriptor of the folder; nobody may be changing it.
        send: takes the stream.
        tally: counts, and caps.
        prefix: put before each path, with a slash at its end.
        result: the folder is what a command left: hard links and special bits are refused, the unreadable is made readable.

    Raises:
        RefusedFault: something that may not cross.
    """
    names = []
    with os.scandir(root) as entries:
        for entry in entries:
            names.append(os.fsencode(entry.name))
            tally.expect(len(names))
    for name in sorted(names):
        path = prefix + name
        check_path(path)
        status = os.stat(name, dir_fd=root, follow_symlinks=False)
        _check_kind(path, status, result=result)
        is_folder = stat.S_ISDIR(status.st_mode)
        wanted = 0o700 if is_folder else 0o400
        if result and status.st_mode & wanted != wanted:
            os.chmod(name, stat.S_IMODE(status.st_mode) | wanted, dir_fd=root)
        descriptor = os.open(name, _READ, dir_fd=root)
        try:
            if is_folder:
                tally.add(path, 0)
                send(ENTRY.pack(FOLDER_MARK, stat.S_IMODE(status.st_mode) & 0o777, len(path), 0) + path)
                pack(descriptor, send, tally, prefix=path + b"/", result=result)
            else:
                pack_file(descriptor, path, send, tally)
        finally:
            os.close(descriptor)


def pack_file(descriptor: int, path: bytes, send: Send, tally: Tally, *, mode: int | None = None) -> None:
    """Send one open plain file under this path, with its own permission bits or others."""
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode) & 0o777 if mode is None else mode
    size = left = status.st_size
    tally.add(path, size)
    send(ENTRY.pack(FILE_MARK, mode, len(path), size) + path)
    while left:
        chunk = os.read(descriptor, min(left, CHUNK_BYTES))
        if not chunk:
            raise OSError(f"{shown(path)} became shorter while it was read")
        send(chunk)
        left -= len(chunk)


def pack_end(send: Send) -> None:
    """Say that the folder is complete."""
    send(ENTRY.pack(END_MARK, 0, 0, 0))


def pack_refusal(send: Send, refused: RefusedFault) -> None:
    """Say that the folder is not coming, and why."""
    text = f"{refused.kind}: {refused.message}".encode()[:PATH_BYTES]
    send(ENTRY.pack(REFUSED_MARK, 0, len(text), 0) + text)


def unpack(receive: Receive, root: bytes, tally: Tally) -> None:
    """Create below the empty folder `root`, which nobody else may write to, what the stream holds, up to its end.

    Raises:
        RefusedFault: the stream breaks a rule, or says that its writer met something that does.
    """
    while True:
        mark, mode, path_bytes, size = ENTRY.unpack(receive(ENTRY.size))
        if path_bytes > PATH_BYTES:
            raise RefusedFault(Refusal.PROTOCOL_FAULT, f"a path of {path_bytes} bytes was announced")
        path = receive(path_bytes)
        if mark == END_MARK and not (mode or path or size):
            return
        if mark == REFUSED_MARK and not (mode or size):
            raise _refusal(path)
        if mark not in {FOLDER_MARK, FILE_MARK} or mode & ~0o777 or (mark == FOLDER_MARK and size):
            raise RefusedFault(Refusal.PROTOCOL_FAULT, "the stream holds a header that means nothing")
        check_path(path)
        tally.add(path, size)
        try:
            if mark == FOLDER_MARK:
                os.mkdir(root + b"/" + path, 0o700)  # noqa: PTH102 - pathlib takes no bytes
                os.chmod(root + b"/" + path, mode & _KEPT_BITS | 0o700)  # noqa: PTH101 - as above
                continue
            descriptor = os.open(root + b"/" + path, _CREATE, 0o600)
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            message = f"the stream holds {shown(path)} twice, or before its folder"
            raise RefusedFault(Refusal.PROTOCOL_FAULT, message) from error
        try:
            while size:
                chunk = memoryview(receive(min(size, CHUNK_BYTES)))
                size -= len(chunk)
                while chunk:
                    chunk = chunk[os.write(descriptor, chunk) :]
            os.fchmod(descriptor, mode & _KEPT_BITS | 0o600)
        finally:
            os.close(descriptor)


def _check_kind(path: bytes, status: os.stat_result, *, result: bool) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise RefusedFault(Refusal.SYMBOLIC_LINK, f"{shown(path)} is a symbolic link")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise RefusedFault(Refusal.SPECIAL_FILE, f"{shown(path)} is a {_kind(mode)}")
    if result and mode & _SPECIAL_BITS:
        raise RefusedFault(
            Refusal.SPECIAL_MODE, f"{shown(path)} has the set-uid, set-gid or sticky bit (mode {mode & 0o7777:04o})"
        )
    if result and stat.S_ISREG(mode) and status.st_nlink > 1:
        raise RefusedFault(Refusal.HARD_LINK, f"{shown(path)} is one of {status.st_nlink} hard links to a file")


def _kind(mode: int) -> str:
    for test, kind in ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device")):
        if test(mode):
            return kind
    return "special file"


def _is_printable(path: bytes) -> bool:
    try:
        return path.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def _refusal(text: bytes) -> RefusedFault:
    kind, _, message = text.decode("utf-8", "replace").partition(": ")
    if kind not in set(Refusal) or not message.isprintable():
        return RefusedFault(Refusal.PROTOCOL_FAULT, "the stream ends with a refusal that means nothing")
    return RefusedFault(Refusal(kind), message)
