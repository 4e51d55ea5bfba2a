"""Which trees a gate looks at: held-out ones with a score that the candidate was not developed on, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import treefile
from harness.errors import InputError
from harness.evolve import Split, split_trees
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.policy import Version
    from harness.store import Store
    from harness.treefile import TreeFile

NO_SCORE = "it has no score"
DEVELOPED_ON = "the candidate was developed on it"
NEAR_COPY = "the candidate was developed on a search of the same task and seed"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Trees to look at, by digest in their order, and those left out, with the reason. `names` are words for both."""

    trees: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Given:
    """Trees before any is left out: names and lucks by digest, those with a score; `files` is empty for those of the store."""

    names: Mapping[str, str]
    lucks: Mapping[str, str]
    scored: frozenset[str]
    files: tuple[TreeFile, ...] = ()

    @property
    def set_digest(self) -> str:
        """Return the identity of the set."""
        return set_digest(self.names)


def of_files(paths: Sequence[Path], tell: Callable[[str], None]) -> Given:
    """Read tree files.

    Raises:
        InputError: one cannot be read, or breaks the format.
    """
    names: dict[str, str] = {}
    lucks: dict[str, str] = {}
    scored = set()
    files = []
    for file in treefile.find(paths):
        tree = treefile.read(file)
        if tree.digest in names:
            tell(f"{file}: tree {tree.name!r} stands in another file as well and counts once")
            continue
        files.append(file)
        names[tree.digest] = tree.name
        lucks[tree.digest] = tree.luck
        if tree.top is not None:
            scored.add(tree.digest)
    return Given(names, lucks, frozenset(scored), tuple(files))


def of_store(store: Store, candidate: Version | None, holdout: float) -> Given:
    """Return the held-out trees of the run that proposed the candidate, else those that the stable split holds out.

    Raises:
        InputError: the store holds no tree.
    """
    rows = {row.digest: row for row in store.tree_rows()}
    if not rows:
        raise InputError("no trees given, and the store holds none; write harness gate CANDIDATE --trees PATH…")
    run = None if candidate is None else _last_run(store, candidate)
    held_out = split_trees({digest: row.luck for digest, row in rows.items()}, holdout)[Split.HELD_OUT] if run is None else run
    return Given(
        {digest: rows[digest].name for digest in held_out},
        {digest: rows[digest].luck for digest in held_out},
        frozenset(digest for digest in held_out if rows[digest].best is not None),
    )


def _last_run(store: Store, candidate: Version) -> tuple[str, ...] | None:
    for run in reversed(store.runs()):
        if any(version.number == candidate.number for version in store.run_versions(run)):
            return run.plan.held_out
    return None


def held_out(given: Given, developed_on: Mapping[str, str]) -> HeldOut:
    """Leave out what must not count; `developed_on` holds the lucks of the trees of development, by digest."""
    seen = set(developed_on.values())
    reasons = {digest: NO_SCORE for digest in given.names if digest not in given.scored}
    reasons |= {digest: NEAR_COPY for digest, luck in given.lucks.items() if luck in seen}
    reasons |= {digest: DEVELOPED_ON for digest in given.names if digest in developed_on}
    trees = tuple(sorted(given.names.keys() - reasons.keys()))
    return HeldOut(trees, tuple(sorted(reasons.items())), given.names)
