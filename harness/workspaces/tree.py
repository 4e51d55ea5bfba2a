"""What a snapshot may hold: the rules for names and links, the same when a workspace is taken and when it is restored.

Kept are folders (empty ones too), the bytes of plain files with their executable bit, and symbolic links that stay inside and
lead through no other link. Owners, times and further bits of the mode are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.workspaces.base import WorkspaceFault

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME_BYTES = 255


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
