"""`harness trees workspace`: write out what an attempt left, or bring what it changed into a folder of yours."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from harness import wiring
from harness.cli.exits import Exit
from harness.cli.output import one_line, say, say_json
from harness.errors import InputError
from harness.explore.copyback import copy_back
from harness.words import counted

if TYPE_CHECKING:
    from harness.config import Settings
    from harness.store import Store
    from harness.tree import Attempt, Tree


BEST = "best"
"""Stands for the attempt with the best score, the first of several."""


def workspace(
    node: str, folder: Path, named: str | None, settings: Settings, *, apply: bool, dry_run: bool, as_json: bool
) -> int:
    """Write the workspace of a node, or apply what it changed since the start of its search.

    Raises:
        InputError: there is no such node, or nothing of it is kept.
        RefusedError: the folder has other changes; nothing was written.
    """
    if dry_run and not apply:
        raise InputError("--dry-run: is for --apply; leave it out, or give --apply")
    with wiring.open_store(settings) as store:
        tree = _tree(named, store)
    attempt = _attempt(node, tree)
    start = tree.source.get("start_snapshot")
    if attempt.snapshot is None or (apply and not isinstance(start, str)):
        raise InputError(
            f"node {attempt.id!r} of {tree.name}: its workspace was not kept, as that of a search of ours would have been"
        )
    snapshots = wiring.snapshots(settings)
    if not apply:
        snapshots.restore(attempt.snapshot, folder)
        if as_json:
            say_json({"tree": tree.digest, "node": attempt.id, "snapshot": attempt.snapshot, "folder": str(folder)})
        else:
            say(f"{folder}: the workspace of {attempt.id} of {tree.name}")
        return Exit.DONE
    with tempfile.TemporaryDirectory() as room:
        before, after = Path(room) / "before", Path(room) / "after"
        snapshots.restore(str(start), before)
        snapshots.restore(attempt.snapshot, after)
        made = copy_back(before, after, folder, dry_run=dry_run)
    if as_json:
        say_json({"tree": tree.digest, "node": attempt.id, "dry_run": dry_run, "changes": [asdict(change) for change in made]})
        return Exit.DONE
    for change in made:
        say(one_line(f"{change.kind.value:8} {change.path}"))
    would = "would be changed" if dry_run else "changed"
    say(f"{folder}: {counted(len(made), 'file')} {would}")
    return Exit.DONE


def sweep(settings: Settings, as_json: bool) -> int:
    """Remove the workspaces that no search of the store needs; what was taken within the last hour stays."""
    wiring.refuse_shared(settings)
    with wiring.open_store(settings) as store:
        needed = store.snapshots()
    freed = wiring.snapshots(settings).keep_only(needed)
    if as_json:
        say_json({"kept": len(needed), "freed_bytes": freed})
    else:
        say(f"{counted(len(needed), 'workspace')} kept, {freed / 2**20:.1f} MiB freed")
    return Exit.DONE


def _tree(named: str | None, store: Store) -> Tree:
    rows = [search for search in store.searches() if search.tree is not None]
    if named is not None:
        rows = [search for search in rows if search.plan.name == named or (search.tree or "").startswith(named)]
    if not rows:
        what = "no search has ended" if named is None else f"no search is called {named!r}"
        raise InputError(f"--tree: {what}; `harness trees list` names trees")
    return store.tree(rows[-1].tree or "")


def _attempt(node: str, tree: Tree) -> Attempt:
    for attempt in tree.attempts:
        if attempt.id == node:
            return attempt
    if node != BEST:
        shows = f"`harness trees show {tree.name}` shows them, and {BEST} is the one with the best score"
        raise InputError(f"tree {tree.name}: no attempt is called {node!r}; {shows}")
    scored = [(score, attempt) for score, attempt in zip(tree.scores[1:], tree.attempts, strict=True) if score is not None]
    if not scored:
        raise InputError(f"tree {tree.name}: no attempt has a score, and so none is the best; name one")
    return max(scored, key=lambda pair: pair[0])[1]
