"""`harness trees`: validate tree files, list trees, draw one, pack many into one file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import treefile, treeset, wiring
from harness.cli.exits import Exit
from harness.cli.livetree import why
from harness.cli.output import one_line, say, say_json, short, table
from harness.errors import InputError
from harness.tree import Direction, set_digest
from harness.words import counted
from sandbox.api import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.config import Settings
    from harness.tree import Tree

_DIGEST_SHOWN = 12
_DIGEST_LEAST = 6
_SHOWN = ("id", "parent", "score", "status", "hypothesis", "snapshot", "metrics", "feedback", "cost")
"""What JSON has of an attempt."""


def validate(paths: Sequence[Path], as_json: bool) -> int:
    """Read every file and return 0 when all of them are good; a bad one does not end the reading."""
    told = list(_validated(paths))
    bad = [line for line in told if line["error"] is not None]
    if as_json:
        say_json({"files": told, "valid": len(told) - len(bad), "invalid": len(bad)})
    else:
        for line in bad:
            say(one_line(line["error"]))
        say(f"{len(told) - len(bad)} of {len(told)} tree files are valid")
    return Exit.BAD_INPUT if bad else Exit.DONE


def _validated(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            files = treefile.find([path])
        except InputError as error:
            yield {"file": str(path), "name": None, "digest": None, "attempts": None, "error": str(error)}
            continue
        for file in files:
            line: dict[str, Any] = {"file": str(file), "name": None, "digest": None, "attempts": None, "error": None}
            try:
                tree = treefile.read(file)
            except InputError as error:
                yield line | {"error": str(error)}
            else:
                yield line | {"name": tree.name, "digest": tree.digest, "attempts": len(tree.attempts)}


def listed(paths: Sequence[Path], settings: Settings, as_json: bool) -> int:
    """List the trees of these files, or of the store."""
    rows = [_line(treefile.read(file)) for file in treefile.find(paths)] if paths else _stored(settings)
    digest = set_digest(row["digest"] for row in rows)
    if as_json:
        say_json({"trees": rows, "set": digest})
        return 0
    head = ("tree", "system", "task", "sense", "frontier", "attempts", "best", "digest")
    lines = [
        [
            row["name"],
            row["system"],
            short(row["task"], 30),
            row["direction"],
            row["frontier"],
            str(row["attempts"]),
            _score(row["best_score"]),
            row["digest"][:_DIGEST_SHOWN],
        ]
        for row in rows
    ]
    say(table(head, lines, left=("tree", "system", "task", "sense", "frontier", "digest")))
    say(f"\ndigest of this set: {digest}")
    return 0


def _line(tree: Tree) -> dict[str, Any]:
    return {
        "name": tree.name,
        "digest": tree.digest,
        "task": tree.task,
        "system": tree.system,
        "direction": tree.direction.value,
        "frontier": tree.frontier.value,
        "attempts": len(tree.attempts),
        "best": tree.top,
        "best_score": _recorded(tree.top, tree.direction),
    }


def _stored(settings: Settings) -> list[dict[str, Any]]:
    with wiring.open_store(settings) as store:
        return [
            {
                "name": row.name,
                "digest": row.digest,
                "task": row.task,
                "system": row.system,
                "direction": row.direction.value,
                "frontier": row.frontier.value,
                "attempts": row.attempts,
                "best": row.best,
                "best_score": _recorded(row.best, row.direction),
            }
            for row in store.tree_rows()
        ]


def _recorded(best: float | None, direction: Direction) -> float | None:
    """Return a larger-is-better score in the sense in which it was recorded."""
    return 0.0 - best if best is not None and direction is Direction.MIN else best


def pack(name: str, given: Sequence[str], output: Path, settings: Settings, as_json: bool) -> int:
    """Write the trees of these files, and those of the store that are named, as one named set."""
    with tempfile.TemporaryDirectory() as room:
        store = wiring.sqlite_file(settings.store)
        no_store = store is not None and not store.exists()
        paths = [Path(one) if no_store or Path(one).exists() else _copied(one, settings, Path(room)) for one in given]
        files = treefile.find(paths)
        packed = treefile.pack(name, files, output)
    twice = len(files) - len(packed.trees)
    if as_json:
        say_json({"file": str(output), "name": name, "set": packed.digest, "trees": len(packed.trees), "twice": twice})
        return 0
    said = f"; {counted(twice, 'tree')} given twice" if twice else ""
    say(f"{output}: {counted(len(packed.trees), 'tree')}, {output.stat().st_size / 2**20:.1f} MiB{said}")
    say(f"digest of this set: {packed.digest}")
    return 0


def _copied(named: str, settings: Settings, room: Path) -> Path:
    tree = _found(named, settings)
    file = room / f"{tree.digest}.jsonl"
    treefile.write(tree, file)
    return file


def show(named: str, settings: Settings, as_json: bool) -> int:
    """Draw one tree: every attempt below its parent, in creation order."""
    tree = _in_file(named) if Path(named).exists() else _packed(named) or _found(named, settings)
    best = _best_path(tree)
    if as_json:
        nodes = [{name: getattr(attempt, name) for name in _SHOWN} for attempt in tree.attempts]
        say_json(_line(tree) | {"root_score": tree.root.score, "best_path": list(tree.ids(best)), "nodes": nodes})
        return 0
    sense = "smaller is better" if tree.direction is Direction.MIN else "larger is better"
    say(one_line(f"{tree.name}  ({tree.system}; {tree.task or 'no task named'}; {sense}; frontier {tree.frontier})"))
    say(f"{counted(len(tree.attempts), 'attempt')}, digest {tree.digest}\n")
    for line in _drawing(tree, best):
        say(line)
    if best:
        say("\n* leads to the best node")
    return 0


def _in_file(named: str) -> Tree:
    if treeset.is_set(Path(named)):
        trees = treeset.read(Path(named)).trees
        first = one_line(trees[0].name)
        raise InputError(
            f"{named}: is a set of {counted(len(trees), 'tree')}; name one by its line, such as {trees[0]} for {first}"
        )
    return treefile.read(Path(named))


def _packed(named: str) -> Tree | None:
    """Return the tree of a set that begins in a line, named as messages name it: `set.jsonl:2`; None where it is not so named."""
    file, _, line = named.rpartition(":")
    if not line.isdecimal() or not treeset.is_set(Path(file)):
        return None
    trees = {tree.line: tree for tree in treeset.read(Path(file)).trees}
    if int(line) not in trees:
        raise InputError(f"{named}: no tree begins in this line; expected one of {short(', '.join(map(str, trees)))}")
    return treefile.read(trees[int(line)])


def _found(named: str, settings: Settings) -> Tree:
    with wiring.open_store(settings) as store:
        rows = store.tree_rows()
        by_digest = [row for row in rows if len(named) >= _DIGEST_LEAST and row.digest.startswith(named)]
        matches = [row for row in rows if row.name == named] or by_digest
        if not matches:
            raise InputError(f"tree {named!r}: neither a file nor a tree of the store; `harness trees list` names those")
        if len(matches) > 1:
            digests = ", ".join(row.digest[:_DIGEST_SHOWN] for row in matches)
            raise InputError(f"tree {named!r}: {len(matches)} trees of the store are called so; name one by digest: {digests}")
        return store.tree(matches[0].digest)


def _best_path(tree: Tree) -> list[int]:
    """Return the places from the root to the first node with the best score; none where nothing was scored."""
    if tree.top is None:
        return []
    parents = {child: parent for parent, children in enumerate(tree.children) for child in children}
    path = [tree.scores.index(tree.top)]
    while path[-1] != ROOT:
        path.append(parents[path[-1]])
    return path[::-1]


def _drawing(tree: Tree, best: Sequence[int]) -> Iterator[str]:
    on_path = set(best)
    # A stack, since a search may be deeper than Python's calls.
    waiting = [(ROOT, "", "")]
    while waiting:
        place, branch, below = waiting.pop()
        mark = "*" if place in on_path else " "
        yield f"{mark} {branch}{_node(tree, place)}{'  <- best' if best and place == best[-1] else ''}"
        children = tree.children[place]
        for child in reversed(children):
            last = child == children[-1]
            waiting.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


def _node(tree: Tree, place: int) -> str:
    if place == ROOT:
        return f"root  {_score(tree.root.score)}"
    attempt = tree.attempts[place - 1]
    status = "" if attempt.status == "ok" else f"  {attempt.status}{why(attempt)}"
    hypothesis = f"  {short(attempt.hypothesis)}" if attempt.hypothesis else ""
    return one_line(f"{attempt.id}  {_score(attempt.score)}{status}{hypothesis}")


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.6g}"
