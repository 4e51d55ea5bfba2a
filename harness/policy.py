"""Policies as records: a candidate before it is judged, a version once it is recorded, and the events of its life."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Origin(StrEnum):
    """Where a policy's code comes from. Only code rendered from our own templates is trusted to run without an engine."""

    TEMPLATE = "template"
    FILE = "file"
    MODEL = "model"


def digest_of(source: str) -> str:
    """Return the identity of a policy: the SHA-256 of its source, in hex.

    Text that is no Unicode (lone surrogates) has an identity too, so that it can be refused by name.
    """
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Candidate:
    """Policy code with its origin and rationale, not yet judged.

    `template` and `params` say what it was rendered from. `parent` is the version it is based on.
    """

    source: str
    origin: Origin
    rationale: str = ""
    template: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    parent: int | None = None

    @property
    def digest(self) -> str:
        """Return the identity of the code."""
        return digest_of(self.source)


@dataclass(frozen=True, slots=True)
class Version:
    """A recorded candidate: numbered from 1, immutable, never deleted."""

    number: int
    candidate: Candidate
    created_at: str
    """ISO 8601, UTC."""


class EventKind(StrEnum):
    """What can happen to a version."""

    PROPOSED = "proposed"
    EVALUATED = "evaluated"
    FAULTED = "faulted"
    SELECTED = "selected"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    LOOKED = "looked"
    GATED = "gated"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the append-only history.

    `to` is the version that counts from now on: the one selected, promoted or returned to. `facts` are figures and reasons.
    """

    kind: EventKind
    version: int
    run: int | None
    reason: str
    to: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = None
    at: str | None = None
    """`number` and `at` (ISO 8601, UTC) are given by the store."""
