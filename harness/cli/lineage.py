"""What a version descends from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.policy import Version
    from harness.store import Store


def lineage(store: Store, version: Version) -> list[Version]:
    """Return the versions that this one descends from, its parent first."""
    found: list[Version] = []
    parent = version.candidate.parent
    while parent is not None and parent not in {ancestor.number for ancestor in found}:
        found.append(store.version(parent))
        parent = found[-1].candidate.parent
    return found
