"""`harness trees sweep` removes nothing that anybody needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from commands import process

from harness import wiring
from harness.config import Settings
from harness.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_workspaces_of_another_store_in_the_same_folder_are_not_swept(folder: Path) -> None:
    """Stores that lie side by side keep their workspaces in one place; once the other store is gone, sweeping goes on."""
    (folder / "start").mkdir()
    for name in ("mine.db", "other.db"):
        Store.open(f"sqlite:///{name}").close()
    kept = wiring.snapshots(Settings(store="sqlite:///other.db"))
    address = kept.take(folder / "start")
    os.utime(folder / "workspaces.git" / "refs" / "snapshots" / address, (1, 1))

    refused = process("trees", "sweep", "--store", "sqlite:///mine.db", cwd=folder)

    assert refused.code == 1
    assert "other.db keeps workspaces here as well; give each store its own" in refused.err
    assert kept.damaged([address]) == []
    (folder / "other.db").unlink()
    assert process("trees", "sweep", "--store", "sqlite:///mine.db", cwd=folder).code == 0
    assert kept.damaged([address]) != []
