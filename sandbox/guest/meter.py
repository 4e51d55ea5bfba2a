"""What a job uses, read from outside of its processes: from the container's control group, or else from /proc.

The control group misses nothing. The sums from /proc miss the CPU time of a process that died with nobody waiting for it.
"""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat, counted from the state that follows the name
_PARENT, _TIMES, _RESIDENT = 1, slice(11, 15), 21


class Meter(Protocol):
    """What the job's processes have used since this was made. `keeps_memory` when the kernel keeps the limit itself."""

    keeps_memory: bool

    def cpu_s(self) -> float:
        """Return the CPU time of all of them together."""

    def memory_bytes(self) -> int:
        """Return the memory that they hold now."""

    def peak_bytes(self) -> int:
        """Return the most that the kernel has noticed, 0 where it keeps no such mark."""

    def oom_kills(self) -> int:
        """Return how many processes the kernel has ended for want of memory."""


class CgroupMeter:
    """A `Meter` of the control group that is mounted at `root`, version 2 or 1, less what the runner itself uses.

    Raises:
        OSError: there is none.
    """

    keeps_memory = True

    def __init__(self, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._is_v2 = (root / "memory.current").exists()
        memory = root if self._is_v2 else root / "memory"
        self._cpu = root / "cpu.stat" if self._is_v2 else root / "cpuacct" / "cpuacct.usage"
        self._memory = memory / ("memory.current" if self._is_v2 else "memory.usage_in_bytes")
        self._peak = memory / ("memory.peak" if self._is_v2 else "memory.max_usage_in_bytes")
        self._events = memory / ("memory.events" if self._is_v2 else "memory.oom_control")
        self._cpu_before_s, self._own_before_s = self._all_cpu_s(), time.process_time()
        self._memory_before = int(self._memory.read_bytes())
        self._kills_before = self._all_kills()
        self._peak_before = self._all_peak()

    def cpu_s(self) -> float:
        """Return the CPU time of all of them together."""
        return max(0.0, self._all_cpu_s() - self._cpu_before_s - (time.process_time() - self._own_before_s))

    def memory_bytes(self) -> int:
        """Return the memory that they hold now, files in memory included."""
        return max(0, int(self._memory.read_bytes()) - self._memory_before)

    def peak_bytes(self) -> int:
        """Return the group's high-water mark, if it has risen since this was made."""
        peak = self._all_peak()
        return peak - self._memory_before if peak > self._peak_before else 0

    def oom_kills(self) -> int:
        """Return how many processes the kernel has ended for want of memory."""
        return self._all_kills() - self._kills_before

    def _all_cpu_s(self) -> float:
        if self._is_v2:
            return int(_field(self._cpu, b"usage_usec")) / 1e6
        return int(self._cpu.read_bytes()) / 1e9

    def _all_peak(self) -> int:
        return int(self._peak.read_bytes()) if self._peak.exists() else 0

    def _all_kills(self) -> int:
        return int(_field(self._events, b"oom_kill"))


class ProcessMeter:
    """A `Meter` that adds up the runner's descendants, or as process 1 all others; and, if it lies in memory, a folder."""

    keeps_memory = False

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._reaped_before_s = _reaped_s()
        self._files_before = self._files_bytes()
        self._most_s = 0.0

    def cpu_s(self) -> float:
        """Return the CPU time of the living, of those that they waited for, and of those that the runner did."""
        living = sum(sum(map(int, fields[_TIMES])) for fields in self._living().values()) / _TICKS
        self._most_s = max(self._most_s, living + _reaped_s() - self._reaped_before_s)
        return self._most_s

    def memory_bytes(self) -> int:
        """Return resident memory; what processes share counts once for each."""
        resident = sum(int(fields[_RESIDENT]) for fields in self._living().values()) * _PAGE_BYTES
        return resident + max(0, self._files_bytes() - self._files_before)

    def peak_bytes(self) -> int:
        """Return 0: nobody keeps a mark."""
        return 0

    def oom_kills(self) -> int:
        """Return 0: the limit is the runner's to keep."""
        return 0

    def _files_bytes(self) -> int:
        if self._folder is None:
            return 0
        disk = os.statvfs(self._folder)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    def _living(self) -> dict[int, list[bytes]]:
        return {pid: stat for pid, stat in processes().items() if pid != os.getpid()}


def processes() -> dict[int, list[bytes]]:
    """Return this process and its descendants, or as process 1 all there are, with their fields of /proc/PID/stat."""
    found: dict[int, list[bytes]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                found[int(process.name)] = (process / "stat").read_bytes().rpartition(b")")[2].split()
    me = os.getpid()
    if me == 1:
        return found
    children: dict[int, list[int]] = {}
    for pid, fields in found.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    family = [me]
    for pid in family:
        family += children.get(pid, [])
    return {pid: found[pid] for pid in family if pid in found}


def _reaped_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _field(path: Path, name: bytes) -> bytes:
    for line in path.read_bytes().splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return value
    raise OSError(f"{path} has no line {name!r}")
