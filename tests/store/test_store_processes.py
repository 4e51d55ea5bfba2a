"""Several processes on one store, and processes that die."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest
from store_records import TREE, append_many, candidate, open_at_once, write_until_killed

from harness.policy import EventKind
from harness.store import Store

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

KILLS = 12


def test_kill_9_loses_nothing_that_was_reported_as_recorded(url: str, processes: ForkServerContext) -> None:
    """A process writes in a loop and is killed at random moments; nothing is half-written and the next one goes on."""
    with Store.open(url) as store:
        store.add_trees([TREE])
    chance = random.Random(5)  # noqa: S311 - moments to kill at, the same in every run
    said: list[tuple] = []
    writer = 0
    while writer < KILLS or sum(what == "judged" for what, *_ in said) <= KILLS:  # a busy machine needs more of them
        writer += 1
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=write_until_killed, args=(url, writer, theirs), daemon=True)
        process.start()
        theirs.close()
        said.append(ours.recv())
        process.join(chance.uniform(0, 0.15))
        process.kill()
        process.join()
        while ours.poll():
            try:
                said.append(ours.recv())
            except EOFError:
                break
        ours.close()

    with Store.open(url) as store:
        assert store.check() == []
        (run,) = store.runs()
        versions = {version.number: version for version in store.run_versions(run)}
        judged = {event.version for event in store.events(kinds=[EventKind.EVALUATED])}
        for what, number, told in said:
            if what == "proposed":
                assert versions[number].candidate.source == told
            else:
                assert store.evaluation(run, versions[number], "development").value == told
                assert number in judged
        for number, version in versions.items():
            whole = store.evaluation(run, version, "development")
            assert (whole is not None) == (number in judged)
            assert whole is None or len(whole.results) == 20
            assert (store.evaluation(run, version, "held_out") is None) == (whole is None)
        assert len(judged) >= len([entry for entry in said if entry[0] == "judged"]) > KILLS


def test_two_writers_at_once_lose_no_event(url: str, processes: ForkServerContext) -> None:
    """Whoever decided on an outdated head is refused, reads again and comes through."""
    with Store.open(url) as store:
        store.propose(None, candidate("x"), 0)
    with ProcessPoolExecutor(2, processes) as pool:
        refused = list(pool.map(append_many, [url, url], [1, 2], [40, 40]))

    with Store.open(url) as store:
        reasons = [event.reason for event in store.events(after=1)]
        assert store.check() == []

    assert sorted(reasons) == sorted(f"{writer}.{turn}" for writer in (1, 2) for turn in range(40))
    assert sum(refused) > 0
    for writer in "12":
        own = [reason for reason in reasons if reason.startswith(writer)]
        assert own == [f"{writer}.{turn}" for turn in range(40)]


@pytest.mark.parametrize("attempt", range(3))
def test_four_processes_open_a_new_store_at_the_same_time(url: str, processes: ForkServerContext, attempt: int) -> None:
    together = processes.Barrier(4)
    said, theirs = processes.Pipe(duplex=False)
    opening = [processes.Process(target=open_at_once, args=(url, together, theirs), daemon=True) for _ in range(4)]
    for process in opening:
        process.start()
    for process in opening:
        process.join(60)

    assert [process.exitcode for process in opening] == [0] * 4
    assert [said.recv() for _ in opening] == [[]] * 4
