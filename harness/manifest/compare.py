"""Compare two manifests of the same policies and trees: every trajectory and figure, and what in their environments differs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from harness.gate.verdict import Outcome, PartName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.manifest.records import Environment, Judged, Manifest, Place, Replay

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure or trajectory that did not come again, in the order of the manifest.

    `tree` (a name) and `digest` are None for a mean or a verdict, `round` where the trajectory is the same.
    """

    policy: str
    tree: str | None
    digest: str | None
    round: int | None
    words: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between a manifest and what was made again. `environment` has sentences, which decide nothing."""

    differences: tuple[Difference, ...]
    environment: tuple[str, ...]
    replays: int

    @property
    def same(self) -> bool:
        """Say whether every trajectory and figure is the same."""
        return not self.differences


def compare(said: Manifest, found: Manifest) -> Comparison:
    """Return how what was `found` differs from what a manifest `said`; both hold the same policies over the same trees."""
    differences: list[Difference] = []
    trees = {place.digest: place for place in said.trees}
    for before, after in zip(said.judged, found.judged, strict=True):
        differences += _of_replays(before, after, trees)
        differences += _of_means(before, after)
    differences += _of_verdicts(said.verdict, found.verdict)
    environment = tuple(_of_environments(said.environment, found.environment))
    return Comparison(tuple(differences), environment, sum(len(judged.replays) for judged in said.judged))


def _of_replays(said: Judged, found: Judged, trees: Mapping[str, Place]) -> Iterator[Difference]:
    for before, after in zip(said.replays, found.replays, strict=True):
        differing = _parting(before, after)
        if differing is not None:
            turn, words = differing
            yield Difference(said.policy, trees[before.tree].name, before.tree, turn, words)


def _parting(said: Replay, found: Replay) -> tuple[int | None, str] | None:
    """Return the round in which two replays part and what they did, or which figures differ on the same way."""
    turns = zip_longest(_turns(said.rounds), _turns(found.rounds))
    for turn, (before, after) in enumerate(turns, start=1):
        if before != after:
            return turn, f"{_did(after)} where the manifest has: {_did(before)}"
    if (said.stop, said.fault) != (found.stop, found.fault):
        return len(_turns(said.rounds)) + 1, f"{_ended(found)} where the manifest has: {_ended(said)}"
    if said.trajectory != found.trajectory:
        return None, f"the trajectory's digest is {found.trajectory[:12]} where the manifest has {said.trajectory[:12]}"
    before_figures, after_figures = asdict(said.figures), asdict(found.figures)
    apart = [f"{name} is {after_figures[name]!r} where the manifest has {value!r}" for name, value in before_figures.items()
             if not _same(value, after_figures[name])]  # fmt: skip
    return (None, "; ".join(apart)) if apart else None


def _turns(rounds: str) -> list[str]:
    return rounds.split(";") if rounds else []


def _did(turn: str | None) -> str:
    if turn is None:
        return "no such round"
    picked, _, revealed = turn.partition(">")
    return f"picked [{_short(picked)}], revealed [{_short(revealed)}]"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _ended(replay: Replay) -> str:
    fault = replay.fault
    if fault is None:
        return f"ended by {replay.stop}"
    return f"ended by {replay.stop}: {fault.kind}{f' ({fault.rule})' if fault.rule else ''}"


def _same(one: Any, other: Any) -> bool:
    """Compare digit for digit: by repr, which tells 0.0 from -0.0, except that JSON writers differ on 1 and 1.0."""
    return one == other and (not isinstance(one, float) or repr(one) == repr(float(other)))


def _of_means(said: Judged, found: Judged) -> Iterator[Difference]:
    for name, before, after in (("value", said.value, found.value), ("quality", said.quality, found.quality)):
        if not _same(before, after):
            words = f"the mean {name} over {said.trees} is {after!r} where the manifest has {before!r}"
            yield Difference(said.policy, None, None, None, words)


_MEASURED = PartName.DECISION_TIME.value


def _of_verdicts(said: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> Iterator[Difference]:
    """Compare two verdicts; decision time is measured, and what follows from it alone is no difference."""
    if said is None or found is None:
        return
    before, after = ({part["name"]: part for part in verdict["parts"]} for verdict in (said, found))
    for name in dict.fromkeys([*before, *after]):
        if name != _MEASURED and before.get(name) != after.get(name):
            words = [part["words"] if part else "was not asked" for part in (after.get(name), before.get(name))]
            yield Difference("", None, None, None, f"part {name}: {words[0]} where the manifest has: {words[1]}")
    timed = [verdict.get(_MEASURED, {}).get("outcome") for verdict in (before, after)]
    measured = {"outcome"} if timed[0] != timed[1] else set()
    if Outcome.REFUSE.value in timed:  # the reason may be what was measured
        measured.add("reason")
    for field in [name for name in said if name != "parts" and name not in measured]:
        if said[field] != found.get(field):
            words_ = f"the verdict's {field} is {_short(str(found.get(field)))} where the manifest has {_short(str(said[field]))}"
            yield Difference("", None, None, None, words_)


def _of_environments(said: Environment, found: Environment) -> Iterator[str]:
    before, after = asdict(said), asdict(found)
    packages = before.pop("packages"), after.pop("packages")
    for old, new in ((before, after), packages):
        for name in dict.fromkeys([*old, *new]):
            if old.get(name) != new.get(name):
                words = name.replace("_", " ")
                yield f"{words} is {new.get(name) or 'not there'}, in the manifest {old.get(name) or 'not there'}"
