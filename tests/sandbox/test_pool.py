"""The warm pool: each thing is handed out once, as many wait as were wanted lately, and nothing is left when it closes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox.pool import Pool


class Thing:
    """Something that takes time to start and must be removed."""

    def __init__(self, kind: str, made: list[Thing], start_s: float = 0.0) -> None:
        time.sleep(start_s)
        self.kind = kind
        self.removed = 0
        made.append(self)

    def remove(self) -> None:
        """Count how often this was removed."""
        self.removed += 1


def until(true: object, within_s: float = 60.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + within_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def test_nothing_is_started_before_the_first_is_asked_for() -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made), 4)

    pool.close()

    assert made == []


def test_the_second_one_is_ready_before_it_is_asked_for() -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made, 0.1), 4)
    first = pool.take("a")
    until(lambda: pool._ready["a"])

    second = pool.take("a")

    assert [first, second] == made[:2]
    pool.close()


def test_the_next_is_started_once_the_one_before_is_in_use() -> None:
    """Whoever has just got one has the machine to itself for a moment: two starts beside it would take both cores."""
    order: list[str] = []

    class Noted(Thing):
        def __init__(self, kind: str, made: list[Thing]) -> None:
            order.append("started")
            super().__init__(kind, made)

    made: list[Thing] = []
    pool = Pool(lambda kind: Noted(kind, made), 2)
    for number in range(2):
        pool.take("a")
        order.append("in use")
        until(lambda number=number: pool._ready["a"] and len(pool._ready["a"]) > number)
    pool.close()

    assert order == ["started", "in use", "started", "in use", "started", "started"]


def test_none_is_started_for_a_successor_of_the_last() -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made), 2)
    pool.take("a", more=False)
    pool.take("b")
    until(lambda: pool._ready["b"])
    pool.close()

    assert "".join(thing.kind for thing in made) == "abb"


def test_removing_does_not_wait_for_starts_that_hang() -> None:
    made: list[Thing] = []
    going_on = threading.Event()

    def start(kind: str) -> Thing:
        if made:
            going_on.wait()
        return Thing(kind, made)

    pool = Pool(start, 4)
    taken = pool.take("a")
    until(lambda: pool._starting["a"])
    pool.leave(taken)
    until(lambda: taken.removed)
    going_on.set()
    pool.close()

    assert [thing.removed for thing in made] == [1] * len(made)


def test_each_is_handed_out_once_and_every_one_is_removed_once() -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made, 0.002), 3)

    def use(turn: int) -> Thing:
        taken = pool.take("ab"[turn % 2])
        pool.leave(taken)
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(use, range(200)))
    pool.close()

    assert len(set(map(id, taken))) == 200
    assert all(thing.kind == "ab"[turn % 2] for turn, thing in enumerate(taken))
    assert [thing.removed for thing in made] == [1] * len(made)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_more_wait_than_the_bound_allows(most: int) -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made), most)

    taken = [pool.take(kind) for kind in "aabbcc"]
    time.sleep(0.1)

    assert len(made) - len(taken) <= most
    pool.close()


def test_demand_of_the_last_moments_is_what_is_kept_ready() -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made), 10)
    for _ in range(4):
        pool.take("a")
    until(lambda: len(made) >= 8)
    time.sleep(0.05)

    assert len(made) == 8
    pool.close()


def test_a_start_that_fails_is_met_by_whoever_asks_next_and_does_not_stay() -> None:
    made: list[Thing] = []
    broken = threading.Event()

    def start(kind: str) -> Thing:
        if broken.is_set():
            raise OSError("no engine")
        return Thing(kind, made)

    pool = Pool(start, 2)
    broken.set()
    with pytest.raises(OSError, match="no engine"):
        pool.take("a")
    with pytest.raises(OSError, match="no engine"):
        pool.take("a")
    broken.clear()

    assert pool.take("a") in made
    pool.close()


def test_what_leaves_a_closed_pool_is_removed_at_once() -> None:
    made: list[Thing] = []
    pool = Pool(lambda kind: Thing(kind, made), 1)
    taken = pool.take("a")
    pool.close()

    pool.leave(taken)
    pool.close()

    assert [thing.removed for thing in made] == [1] * len(made)
