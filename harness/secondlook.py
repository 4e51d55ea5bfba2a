"""Second looks: whether a policy takes the same way when some of its replays are made again, in another place and order."""

from __future__ import annotations

import random
from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING, Generic, TypeVar

from sandbox.api import ROOT, Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.replay import Round, Trajectory

_Look = TypeVar("_Look")
_PICKS_SHOWN = 20


def drawn(trees: int, repeats: int, seed: str) -> list[int]:
    """Return the places of the trees to be looked at twice, in the order of the second looks: another than that of the first.

    The seed holds something that no policy sees, or one could draw the places itself, and behave there.
    """
    places = random.Random(seed).sample(range(trees), min(repeats, trees))  # noqa: S311 - a sample, no secret
    return places if places != sorted(places) else places[::-1]


class SecondLooks(Generic[_Look]):
    """Takes second looks in the order drawn, as many as it needs to have the one that is asked for.

    What was looked at before its turn is kept until then: at most the sample, and never a tree.
    """

    def __init__(self, order: Iterable[int], look: Callable[[int], _Look]) -> None:
        self._left = deque(order)
        self._twice = frozenset(self._left)
        self._look = look
        self._taken: dict[int, _Look] = {}

    def at(self, place: int) -> _Look | None:
        """Return the second look at the tree in this place, None where it is not of the sample."""
        if place not in self._twice:
            return None
        while place not in self._taken:
            following = self._left.popleft()
            self._taken[following] = self._look(following)
        return self._taken.pop(place)


def difference(first: Trajectory, second: Trajectory) -> Fault | None:
    """Return the fault of a policy whose second replay in another container took another way."""
    if second.fault is not None:
        message = f"the second replay of this tree, in another container, ended in a fault: {second.fault.message}"
        return Fault(FaultKind.NONDETERMINISTIC, message, round=second.fault.round, traceback=second.fault.traceback)
    ids = {place: node for node, place in enumerate((ROOT, *first.revealed))}
    for turn, (one, other) in enumerate(zip_longest(first.rounds, second.rounds), start=1):
        if one != other:
            picked = f"it picked {_picks(one, ids)}, and in another container, with the same seed, {_picks(other, ids)}"
            return Fault(
                FaultKind.NONDETERMINISTIC, f"round {turn} differs between two replays of this tree: {picked}", round=turn
            )
    return None


def _picks(turn: Round | None, ids: Mapping[int, int]) -> str:
    """Return a batch as the policy answered it; up to the first difference both replays have given nodes the same ids."""
    if turn is None:
        return "nothing"
    more = ", ..." if len(turn.picks) > _PICKS_SHOWN else ""
    return f"[{', '.join(str(ids[place]) for place in turn.picks[:_PICKS_SHOWN])}{more}]"
