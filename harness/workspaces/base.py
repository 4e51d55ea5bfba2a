"""The joint between those who need workspaces kept and what keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harness.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class WorkspaceFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """A workspace holds what no snapshot may: a link that leads outside, a special file, `.git`, too much."""


class WorkspaceError(HarnessError):
    """Snapshots are out of reach, damaged or missing. Exit code 3."""


class Snapshots(Protocol):
    """Keeps workspaces. May be used from several threads at once, and by several processes."""

    def take(self, folder: Path) -> str:
        """Return the content address of a folder's files, modes and links; the same content has the same address. Durable.

        Raises:
            WorkspaceFault: the folder holds what no snapshot may.
            WorkspaceError: it cannot be written.
        """

    def restore(self, address: str, folder: Path) -> None:
        """Fill a folder that does not exist yet, exactly; nothing is ever written outside it.

        Raises:
            WorkspaceError: the snapshot is not there, is damaged, or cannot be written out.
        """

    def keep_only(self, addresses: Iterable[str]) -> int:
        """Remove every snapshot that is not named and return how many bytes that freed."""
