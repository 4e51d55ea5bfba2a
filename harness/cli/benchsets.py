"""Which trees a benchmark is over: named sets, from folders, files that hold a set, single files, and the built-in suites."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import harness
from harness import treefile, treeset
from harness.errors import InputError
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.treefile import TreeFile

LOOSE = "files"
"""The set of all tree files that are given one by one."""
SHARED_VARIABLE = "HARNESS_SHARED"


class Suite(StrEnum):
    """A set of trees that has a name of its own."""

    EXAMPLES = "examples"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class NamedSet:
    """Trees by digest under a name, each once."""

    name: str
    trees: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of a benchmark, and where each of their trees lies."""

    sets: tuple[NamedSet, ...]
    files: Mapping[str, TreeFile]


def named_sets(paths: Sequence[Path], suites: Sequence[str], tell: Callable[[str], None]) -> Sets:
    """Read every tree once, so that a bad one is named at once, and return the sets that these paths and suites make.

    Raises:
        InputError: nothing was asked for, a suite is not here, or a tree cannot be read.
    """
    if not paths and not suites:
        raise InputError("no trees given; write harness bench POLICY… --trees SET…, or --suite examples")
    files: dict[str, TreeFile] = {}
    found: dict[str, NamedSet] = {}
    for name, inside in (*_of_suites(suites), *_of_paths(paths)):
        trees = dict.fromkeys(_read(inside, files, tell))
        named = NamedSet(name if name not in found else f"{name}-{set_digest(trees)[:8]}", tuple(trees))
        if any(set(named.trees) == set(other.trees) for other in found.values()):
            tell(f"{name}: the same trees are given twice and count once")
        else:
            found[named.name] = named
    return Sets(tuple(found.values()), files)


def _of_suites(suites: Sequence[str]) -> Iterator[tuple[str, list[TreeFile]]]:
    for suite in suites:
        if suite not in list(Suite):
            raise InputError(f"--suite: {suite!r} is no suite; expected {' or '.join(Suite)}")
        yield suite, treefile.find([place_of(Suite(suite))])


def _of_paths(paths: Sequence[Path]) -> Iterator[tuple[str, list[TreeFile]]]:
    loose: list[Path] = []
    for path in paths:
        if path.is_dir():
            yield path.resolve().name or LOOSE, treefile.find([path])
        elif treeset.is_set(path):
            yield treeset.read(path).name, treefile.find([path])
        else:
            loose.append(path)
    if loose:
        yield LOOSE, treefile.find(loose)


def _read(inside: Sequence[TreeFile], files: dict[str, TreeFile], tell: Callable[[str], None]) -> Iterator[str]:
    seen = set()
    for file in inside:
        tree = treefile.read(file)
        if tree.digest in seen:
            tell(f"{file}: tree {tree.name!r} stands in another file as well and counts once")
        elif tree.top is None:
            tell(f"{file}: tree {tree.name!r} has no score; it has no value and is left out of every mean")
        seen.add(tree.digest)
        files.setdefault(tree.digest, file)
        yield tree.digest


def place_of(suite: Suite) -> Path:
    """Return the folder of a suite's trees.

    The example trees come with the package: 0.3 MB compressed, for which whoever installs it can make a published result again.
    The trees of other systems lie beside a checkout, or where `HARNESS_SHARED` says.

    Raises:
        InputError: it is not here.
    """
    package = Path(harness.__file__).parent
    project = package.parent if (package.parent / "pyproject.toml").exists() else None
    if suite is Suite.EXAMPLES:
        places = [package / "suites" / "examples", *([project / "examples" / "trees"] if project else [])]
        wish = "install the package whole, or name the trees with --trees"
    else:
        given = os.environ.get(SHARED_VARIABLE)
        beside = [project.parent / "shared" / "trees"] if project else []
        places = [Path(given) / "trees"] if given else beside
        wish = f"set {SHARED_VARIABLE} to the folder that holds trees/, or name the trees with --trees"
    for place in places:
        if place.is_dir():
            return place
    looked = f" (looked for {places[-1]})" if places else ""
    raise InputError(f"--suite: the trees of {suite} are not here{looked}; {wish}")
