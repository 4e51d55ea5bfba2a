"""A recorded discovery: what was tried, from where, and with which outcome.

Nodes are held in creation order and addressed by place: 0 is the root, 1 the first attempt. Scores stay as recorded
(`Attempt.score`, sense given by `direction`); everything that judges uses `Tree.scores`, where larger is better.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.errors import TreeError
from sandbox.api import FEEDBACK_CHARACTERS, HYPOTHESIS_CHARACTERS, ROOT, Frontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sandbox.api import Outcome

VIEWED_STATUSES = frozenset({"ok", "failed", "timeout", "invalid"})


class Direction(StrEnum):
    """The sense of a tree's raw scores."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class Root:
    """The starting point of a search; its score may be unknown."""

    score: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One agent call with its evaluation, as recorded.

    `parent` is the id of an earlier attempt, None for the root. `score` is raw. `extra` holds fields this version does not
    know, so that a file survives reading and writing.
    """

    id: str
    parent: str | None
    score: float | None
    status: str = "ok"
    metrics: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""
    cost: Mapping[str, Any] = field(default_factory=dict)
    hypothesis: str = ""
    parents: tuple[str, ...] = ()
    snapshot: str | None = None
    terminal: bool | None = None
    created_at: float | str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


ATTEMPT_FIELDS = tuple(f.name for f in fields(Attempt) if f.name != "extra")


@dataclass(frozen=True)
class Tree:
    """A whole recorded search. Parents come before their children and ids are unique.

    Raises:
        TreeError: on construction, when an attempt's id is taken or its parent has not come before it.
    """

    name: str
    attempts: tuple[Attempt, ...]
    task: str = ""
    direction: Direction = Direction.MAX
    frontier: Frontier = Frontier.LEAF
    root: Root = field(default_factory=Root)
    source: Mapping[str, Any] = field(default_factory=dict)
    created_at: float | str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.children

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Return each node's children by place, in creation order; index 0 is the root."""
        places: dict[str | None, int] = {None: ROOT}
        children: list[list[int]] = [[]]
        for place, attempt in enumerate(self.attempts, start=1):
            if attempt.parent not in places:
                raise TreeError(
                    f"{self.name}: node {attempt.id!r} names parent {attempt.parent!r}, which is not recorded before it"
                )
            if attempt.id in places:
                raise TreeError(f"{self.name}: node id {attempt.id!r} is taken; ids must be unique")
            children[places[attempt.parent]].append(place)
            places[attempt.id] = place
            children.append([])
        return tuple(map(tuple, children))

    @cached_property
    def scores(self) -> tuple[float | None, ...]:
        """Return every node's score by place, larger is better; None where it failed or was not scored."""
        raw = (self.root.score, *(attempt.score for attempt in self.attempts))
        sense = 1.0 if self.direction is Direction.MAX else -1.0
        # Adding 0.0 takes the sign off a zero.
        return tuple([None if score is None else sense * score + 0.0 for score in raw])

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return what each node shows once revealed, by place."""
        scores = self.scores
        root: Outcome = (scores[ROOT], "ok", dict(self.root.metrics), "", (None, None, None), "")
        return (root, *(outcome_of(attempt, score) for attempt, score in zip(self.attempts, scores[1:], strict=True)))

    @property
    def system(self) -> str:
        """Return the system that recorded this tree, else its task."""
        return str(self.source.get("system") or self.task or "unknown")

    @cached_property
    def floor(self) -> float | None:
        """Return the root's score, else the worst recorded one; None where nothing was scored."""
        scores = self.scores
        return scores[ROOT] if scores[ROOT] is not None else min((s for s in scores if s is not None), default=None)

    @cached_property
    def top(self) -> float | None:
        """Return the best recorded score; None where nothing was scored."""
        return max((score for score in self.scores if score is not None), default=None)

    @cached_property
    def digest(self) -> str:
        """Return the tree's identity: the SHA-256 of its canonical form, in hex."""
        digest = hashlib.sha256()
        for line in (header_fields(self), *map(attempt_fields, self.attempts)):
            digest.update(json.dumps(_canonical(line), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
            digest.update(b"\n")
        return digest.hexdigest()

    @property
    def luck(self) -> str:
        """Return what decided the luck of the attempts; trees that share it may be near copies of each other."""
        return luck_of(self.digest, self.source)

    def ids(self, places: Sequence[int]) -> tuple[str, ...]:
        """Return the recorded ids of these places; the root is "root"."""
        return tuple("root" if place == ROOT else self.attempts[place - 1].id for place in places)


def luck_of(digest: str, source: Mapping[str, Any]) -> str:
    """Return what decided the luck of a tree's attempts: its task and seed where its source names both, else the tree itself."""
    task, seed = source.get("task_digest"), source.get("seed")
    return digest if task is None or seed is None else f"{task}:{seed}"


def header_fields(tree: Tree) -> dict[str, Any]:
    """Return the header line of `discovery-tree/1`, fields that say nothing left out."""
    root = {"score": tree.root.score} | _said(metrics=dict(tree.root.metrics), id=tree.root.id) | dict(tree.root.extra)
    known: dict[str, Any] = {"format": "discovery-tree/1", "name": tree.name, "task": tree.task}
    known |= {"direction": tree.direction.value, "frontier": tree.frontier.value, "root": root}
    return known | _said(source=dict(tree.source), created_at=tree.created_at) | dict(tree.extra)


def attempt_fields(attempt: Attempt) -> dict[str, Any]:
    """Return a node line of `discovery-tree/1`, fields that say nothing left out."""
    known = {"id": attempt.id, "parent": attempt.parent, "score": attempt.score, "status": attempt.status}
    said = _said(
        metrics=dict(attempt.metrics),
        feedback=attempt.feedback,
        cost=dict(attempt.cost),
        hypothesis=attempt.hypothesis,
        parents=list(attempt.parents),
        snapshot=attempt.snapshot,
        terminal=attempt.terminal,
        created_at=attempt.created_at,
    )
    return known | said | dict(attempt.extra)


def tree_of(header: Mapping[str, Any], attempts: Iterable[Attempt]) -> Tree:
    """Build a tree from a header line whose fields have been checked; the reverse of `header_fields`."""
    said = dict(header)
    del said["format"]
    root = dict(said.pop("root", {}))
    known = {name: root.pop(name) for name in ("score", "metrics", "id") if name in root}
    words = {name: said.pop(name) for name in ("name", "task", "source", "created_at") if name in said}
    direction, frontier = Direction(said.pop("direction", "max")), Frontier(said.pop("frontier", "leaf"))
    return Tree(
        attempts=tuple(attempts), direction=direction, frontier=frontier, root=Root(**known, extra=root), extra=said, **words
    )


def attempt_of(line: Mapping[str, Any]) -> Attempt:
    """Build an attempt from a node line whose fields have been checked; the reverse of `attempt_fields`."""
    extra = dict(line)
    known = {name: extra.pop(name) for name in ATTEMPT_FIELDS if name in extra}
    if "parents" in known:
        known["parents"] = tuple(known["parents"])
    return Attempt(**known, extra=extra)


def _said(**said: Any) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None and value not in ("", {}, [])}


def _canonical(value: Any) -> Any:
    """Write whole floats as integers, so that 1 and 1.0 are one identity whichever tool wrote the file."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value


def outcome_of(attempt: Attempt, score: float | None) -> Outcome:
    """Return what an attempt shows once revealed; `score` is its own, larger is better."""
    # Recorders have words of their own ("rejected", "incomplete"); a policy meets the four of its interface.
    status = attempt.status if attempt.status in VIEWED_STATUSES else "invalid"
    cost = (attempt.cost.get("seconds"), attempt.cost.get("tokens"), attempt.cost.get("usd"))
    feedback, hypothesis = attempt.feedback[:FEEDBACK_CHARACTERS], attempt.hypothesis[:HYPOTHESIS_CHARACTERS]
    return (score, status, dict(attempt.metrics), feedback, cost, hypothesis)


def set_digest(digests: Iterable[str]) -> str:
    """Return the identity of a set of trees: the SHA-256 of their digests in order, each once, in hex."""
    return hashlib.sha256("\n".join(("tree-set/1", *sorted(set(digests)))).encode()).hexdigest()
