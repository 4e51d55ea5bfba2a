"""What a snapshot may hold: how much, and the rules for names and links, when a workspace is taken as when it is restored.

Kept are folders (empty ones too), the bytes of plain files with their executable bit, and symbolic links that stay inside and
lead through no other link. Owners, times and further bits of the mode are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.workspaces.base import WorkspaceFault

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES = 256 * 2**20
MOST_ENTRIES = 20_000
DEEPEST = 64
_PATH_BYTES = 3_000
"""Longer paths no folder could be restored to: a system call takes 4,096 bytes, and what is above the workspace counts."""
_SHOWN = 200
_NAME_BYTES = 255


@dataclass(slots=True)
class Tally:
    """What has been read or written of one workspace."""

    size: int = 0
    entries: int = 0
    links: dict[tuple[bytes, ...], bytes] = field(default_factory=dict)

    def add(self, place: tuple[bytes, ...], size: int) -> None:
        """Count one entry.

        Raises:
            WorkspaceFault: it is too much, or its name is refused.
        """
        shown = b"/".join(place).decode("utf-8", "backslashreplace")
        require_name(place[-1], shown)
        self.entries += 1
        self.size += size
        if len(place) > DEEPEST:
            raise WorkspaceFault(f"{shown!r} lies more than {DEEPEST} folders deep")
        if len(b"/".join(place)) > _PATH_BYTES:
            raise WorkspaceFault(f"the path {shown[:_SHOWN]!r}… has more than {_PATH_BYTES} bytes")
        if self.entries > MOST_ENTRIES:
            raise WorkspaceFault(f"the workspace has more than {MOST_ENTRIES} files and folders")
        if self.size > MOST_BYTES:
            raise WorkspaceFault(f"the workspace has more than {MOST_BYTES // 2**20} MiB")


def require_name(name: bytes, path: str) -> None:
    """Refuse a name that is no plain one, or that git or a file system takes for another.

    Raises:
        WorkspaceFault: it is such a name; `path` is what the message calls it.
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise WorkspaceFault(f"the name {path!r} is no UTF-8") from None
    if text in {"", ".", ".."} or "/" in text or "\0" in text or len(name) > _NAME_BYTES:
        raise WorkspaceFault(f"{path!r} is no plain name of a file")
    seen = "".join(character for character in text if character.isprintable()).rstrip(". ").casefold()
    if seen in {".git", "git~1"}:
        raise WorkspaceFault(f"{path!r} would be taken for a git repository's own folder")


def require_links(links: Mapping[tuple[bytes, ...], bytes]) -> None:
    """Refuse links that lead outside, to an absolute path, or through another link.

    Raises:
        WorkspaceFault: one of them does.
    """
    for place, target in links.items():
        shown = b"/".join(place).decode("utf-8", "replace")
        if not target or b"\0" in target or target.startswith(b"/"):
            raise WorkspaceFault(f"the link {shown!r} leads to an absolute path or to nothing")
        at = list(place[:-1])
        for part in target.split(b"/"):
            if tuple(at) in links:
                raise WorkspaceFault(f"the link {shown!r} leads through another link")
            if part == b".." and not at:
                raise WorkspaceFault(f"the link {shown!r} leads outside the workspace")
            if part == b"..":
                at.pop()
            elif part not in {b"", b"."}:
                at.append(part)
