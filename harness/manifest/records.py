"""The records of a manifest, `harness-manifest/1` (docs/manifest.md). A file's fields are theirs, name by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from harness.policy import Origin
from harness.replay import Stop
from harness.score import Figures, Settings
from sandbox.api import FaultKind, Rule
from sandbox.base import GuestLimits

FORMAT = "harness-manifest/1"
# pydantic reads these annotations when a file is read, so that what they name must be there.
_READ = (FaultKind, Figures, GuestLimits, Origin, Rule, Settings, Stop)


class Kind(StrEnum):
    """What made the result."""

    REPLAY = "replay"
    GATE = "gate"
    BENCH = "bench"
    EXPORT = "export"


@dataclass(frozen=True, slots=True)
class Environment:
    """On what a result was made. It explains differences and is never compared as a result."""

    harness: str
    python: str
    implementation: str
    platform: str
    machine: str
    packages: dict[str, str]
    """Versions of the libraries that the harness is built on, by name."""
    sandbox: str
    """The backend; `sandbox_python`, `image` and `runtime` are its own words, None where nothing was run or there is none."""
    sandbox_python: str | None
    image: str | None
    runtime: str | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with its code; `name` is its own within the manifest."""

    name: str
    digest: str
    origin: Origin
    template: str | None
    params: dict[str, Any]
    source: str


@dataclass(frozen=True, slots=True)
class Place:
    """A tree by its digest, its words for people, and where it lay: a path relative to the manifest, None for a store's."""

    digest: str
    name: str
    task: str
    system: str
    file: str | None


@dataclass(frozen=True, slots=True)
class FaultLine:
    """What repeats of a fault. Its words and figures may hold what was measured."""

    kind: FaultKind
    rule: Rule | None
    round: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay. `rounds` holds for each round the places picked and revealed, as in `0 0>1 2;1>` (see `make`)."""

    tree: str
    trajectory: str
    stop: Stop
    fault: FaultLine | None
    rounds: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class Judged:
    """One policy over one set of trees: its replays by name and digest of their trees, and their means."""

    policy: str
    trees: str
    value: float | None
    quality: float | None
    replays: tuple[Replay, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that fixes a result, and the result.

    `checked` says whether the static check could refuse a policy; `repeats` trees were replayed twice. `verdict` is a gate's, as
    `harness.gate.document` writes it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "forbid", "allow_inf_nan": False}

    format: str
    kind: Kind
    environment: Environment
    settings: Settings
    guest: GuestLimits
    repeats: int
    checked: bool
    policies: tuple[Policy, ...]
    trees: tuple[Place, ...]
    judged: tuple[Judged, ...]
    verdict: dict[str, Any] | None = None
