"""The joint between those who need a policy decided and the backends that isolate it.

A `Sandbox` opens one `Session` for a candidate (one container), a session opens one `GuestReplay` for each replay (one
process). Whatever the policy does comes back as picks or as a `PolicyFault`; whatever goes wrong on our side (engine gone,
image missing, runner lost without the policy's doing) is a `SandboxError` and scores nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from types import TracebackType

    from sandbox.api import Context, Observation


class SandboxError(Exception):
    """The sandbox could not do its work; nothing can be said about the policy. The message names the command that helps."""


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """What one replay's process may use. CPU seconds are the limit; wall seconds are `wall_factor` times as much.

    A machine that is busy with other work stretches wall time, not CPU time, and time spent waiting for a core does not count, so
    that load does not turn a good policy into a fault. `memory_bytes` is the address space a policy may add to the runner's own.
    """

    load_cpu_s: float = 2.0
    decision_cpu_s: float = 1.0
    replay_cpu_s: float = 5.0
    wall_factor: float = 5.0
    memory_bytes: int = 96 * 2**20
    output_bytes: int = 1 * 2**20


@dataclass(frozen=True, slots=True)
class Usage:
    """What one replay's process used, as the runner and the host measured it."""

    cpu_s: float
    wall_s: float
    memory_bytes: int
    output_bytes: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a backend isolates and what it does not, in sentences for people; and what fixes a result made with it."""

    backend: str
    python: str
    image: str | None
    runtime: str | None
    isolates: tuple[str, ...]
    leaves_open: tuple[str, ...]


class GuestReplay(Protocol):
    """One policy process taken through one replay, strictly in lock step."""

    def decide(self, observation: Observation) -> list[int]:
        """Return the picks for this observation.

        Raises:
            PolicyFault: the policy broke its contract; the process is gone.
            SandboxError: our side failed.
        """

    def finish(self) -> Usage:
        """End the process, wait until nothing of it is left, and return what it used. May be called again.

        Raises:
            PolicyFault: the process had ended by itself, after its last answer; raised once.
            SandboxError: our side failed.
        """

    @property
    def output(self) -> str:
        """Return the tail of what the policy printed; it is there once the process has ended, in a fault or by `finish`."""


class Session(Protocol):
    """One candidate in its own container or runner; replays run one after the other."""

    def start(self, context: Context) -> GuestReplay:
        """Start a fresh process for one replay and load the policy in it.

        Raises:
            PolicyFault: the policy cannot be loaded or constructed.
            SandboxError: our side failed.
        """

    def close(self) -> None:
        """Remove the container or runner. May be called again."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Sandbox(Protocol):
    """A backend that isolates policies. Sessions may be opened from several threads at once."""

    name: str

    def open(self, source: str, limits: GuestLimits) -> Session:
        """Return a session for one candidate's source.

        Raises:
            SandboxError: the backend cannot be reached or set up; the message names the command that helps.
        """

    def describe(self) -> Isolation:
        """Return what this backend isolates here and now."""

    def close(self) -> None:
        """Release everything this backend holds."""
