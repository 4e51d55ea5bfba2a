"""The joint between those who need an untrusted command run and the backends that isolate it.

A job takes a workspace, runs one command in it, and puts what became of the workspace in its place. What the command does comes
back as a `JobResult`; a workspace that cannot be taken back, or a command that cannot be started, is a `JobFault`; what goes
wrong on our side is a `SandboxError`. After either of these the workspace is as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from sandbox.base import SandboxError

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from sandbox.base import Isolation

Input: TypeAlias = "bytes | Path"
NO_INPUTS: Mapping[str, Input] = MappingProxyType({})


class TimeLimit(StrEnum):
    """Which time ran out: of the processors, or of the clock on the wall."""

    CPU = "cpu"
    WALL = "wall"


class JobFaultKind(StrEnum):
    """How a command broke the contract: by what it left in the workspace, or by being none."""

    SYMBOLIC_LINK = "symbolic-link"
    HARD_LINK = "hard-link"
    SPECIAL_FILE = "special-file"
    SPECIAL_MODE = "special-mode"
    BAD_NAME = "bad-name"
    TOO_DEEP = "too-deep"
    TOO_LARGE = "too-large"
    TOO_MANY_FILES = "too-many-files"
    NOT_STARTED = "not-started"
    OUT_OF_MEMORY = "out-of-memory"
    PROTOCOL_FAULT = "protocol-fault"


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What one job may use.

    `cpu_s` counts all processes of the job together, and so does `memory_bytes`, with the files that they write: the workspace
    lies in memory. `workspace_bytes` counts each file in whole pages, `workspace_files` files and folders. `scratch_bytes` gives
    the command a second folder, HOME and TMPDIR, that does not come back; 0 leaves the workspace as the only writable place.
    `output_bytes` is how much of the end of each output stream is kept.
    """

    cpu_s: float = 60.0
    wall_s: float = 300.0
    memory_bytes: int = 512 * 2**20
    workspace_bytes: int = 128 * 2**20
    workspace_files: int = 10_000
    scratch_bytes: int = 0
    output_bytes: int = 64 * 1024
    processes: int = 64
    cpus: float = 1.0

    def __post_init__(self) -> None:
        for name in ("cpu_s", "wall_s", "memory_bytes", "workspace_bytes", "workspace_files", "processes", "cpus"):
            value = getattr(self, name)
            if not (0 < value < math.inf):
                raise ValueError(f"{name} is {value}; it must be a number above 0")
        if min(self.scratch_bytes, self.output_bytes) < 0:
            raise ValueError(
                f"scratch_bytes is {self.scratch_bytes} and output_bytes {self.output_bytes}; neither can be below 0"
            )
        files_bytes = self.workspace_bytes + self.scratch_bytes
        if files_bytes > self.memory_bytes:
            raise ValueError(
                f"workspace_bytes + scratch_bytes is {files_bytes} and memory_bytes {self.memory_bytes}; "
                "the files of a job lie in its memory, so memory_bytes must be at least as much"
            )


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What a job used. `memory_bytes` is the high-water mark, `output_bytes` all that was written to both streams."""

    cpu_s: float
    wall_s: float
    memory_bytes: int
    output_bytes: int
    workspace_bytes: int
    workspace_files: int


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a command ended. `exit_code` is negative for a signal, as in `subprocess`; the texts are the ends of the streams."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: TimeLimit | None
    out_of_memory: bool
    usage: JobUsage


class JobFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """Raised where a command broke the contract; `result` says how it ended, where it was started at all."""

    def __init__(self, kind: JobFaultKind, message: str, result: JobResult | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.result = result


class JobCancelledError(SandboxError):
    """The caller wanted no more of this job, or closed its backend."""


class Jobs(Protocol):
    """A backend that runs commands. Jobs may be run from several threads at once."""

    name: str

    def run(
        self,
        command: Sequence[str],
        workspace: Path,
        limits: JobLimits,
        inputs: Mapping[str, Input] = NO_INPUTS,
        network: str | None = None,
        *,
        cancel: threading.Event | None = None,
    ) -> JobResult:
        """Run one command in a copy of the workspace, and put the copy in the workspace's place.

        Args:
            command: the program, looked for on the backend's PATH, and its arguments. Its working directory is the workspace.
            workspace: a folder of plain files and folders that nobody else changes meanwhile. Afterwards it is a new folder under
                the same name, owned by the caller.
            limits: what the job may use.
            inputs: read-only files by their relative names, found by the command in `../inputs` and in $JOB_INPUTS; a path may be
                a folder.
            network: the name of a network of the engine; None means no network at all.
            cancel: ends the job when it is set.

        Raises:
            JobFault: the command cannot be started, or what it left, or was given, cannot be taken.
            JobCancelledError: `cancel` was set, or the backend closed.
            SandboxError: our side failed.
        """

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""

    def close(self) -> None:
        """End all jobs that are running. May be called again."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
