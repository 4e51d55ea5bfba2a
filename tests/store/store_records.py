"""Builders of what a store keeps, and what writing processes do with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from builders import tree
from sqlalchemy import create_engine, make_url

from harness import promotion
from harness.errors import RefusedError, StaleError
from harness.policy import Candidate, Event, EventKind, Origin, digest_of
from harness.replay import Round, Stop, Trajectory
from harness.score import Evaluation, Figures, Result, Settings
from harness.store import Question, RunPlan, Store

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

    from sqlalchemy import Engine

    from harness.policy import Version
    from harness.store import Run
    from harness.tree import Tree
    from sandbox.api import Fault

PASSWORD = "s3cret"  # noqa: S105 - of a server that lives as long as the tests
TREE = tree("root>a", "a>b", "root>c", scores={"a": 1.0, "b": 0.1, "c": None})


def plan(*trees: Tree, incumbent: int | None = None) -> RunPlan:
    """Plan a run over trees."""
    return RunPlan(7, 5, Settings(), "docker", tuple(t.digest for t in trees), incumbent=incumbent, options={"proposer": "x"})


def candidate(source: str) -> Candidate:
    """Build a candidate from a model."""
    return Candidate(source, Origin.MODEL)


def result(on: Tree, value: float | None = 0.1 + 0.2, fault: Fault | None = None, output: str = "") -> Result:
    """Build a replay of two rounds, or one that ended with a fault."""
    stop = Stop.POLICY_STOPPED if fault is None else Stop.POLICY_ERROR
    rounds = (Round((0, 0), (1, 3), 0), Round((1, 3), (2,), 1))
    figures = Figures(value, value, value, 3, 2, 1, 1, 1, 1 / 3, 0.25)
    return Result(on.digest, on.name, on.system, Trajectory(on.digest, rounds, stop, fault), figures, 0.1, 1e-17, 2**40, output)


def evaluation(version: Version, *results: Result, settings: Settings | None = None) -> Evaluation:
    """Build an evaluation of a version."""
    return Evaluation(version.candidate.digest, "docker", settings or Settings(), results)


def evaluated(version: Version, run: Run) -> Event:
    """Build the event that goes with an evaluation."""
    return Event(EventKind.EVALUATED, version.number, run.number, "mean value 0.3", facts={"value": 0.3})


def promoted(version: Version) -> Event:
    """Build the event that makes a version the incumbent."""
    return Event(EventKind.PROMOTED, version.number, None, "beats it", to=version.number)


def engine_of(url: str) -> Engine:
    """Return a way into a database past the store."""
    return create_engine(make_url(url).set(drivername="sqlite" if url.startswith("sqlite") else "postgresql+psycopg"))


def write_until_killed(url: str, writer: int, said: Connection) -> None:
    """Propose and judge without end, and say each one after it was recorded."""
    with Store.open(url) as store:
        run = store.unfinished_run() or store.begin_run(plan(TREE))
        for turn in range(10**6):
            version = store.propose(run, candidate(f"{writer}.{turn}"), store.head(run))
            said.send(("proposed", version.number, version.candidate.source))
            splits = {"development": evaluation(version, *[result(TREE, float(turn))] * 20), "held_out": evaluation(version)}
            store.judge(run, version, splits, [evaluated(version, run)] * 2, store.head(run))
            said.send(("judged", version.number, float(turn)))


def append_many(url: str, writer: int, count: int) -> int:
    """Append events for version 1 at the head last seen, again after each refusal, and return how often it was refused."""
    refused = 0
    with Store.open(url) as store:
        for turn in range(count):
            event = Event(EventKind.EVALUATED, 1, None, f"{writer}.{turn}")
            while True:
                head = store.head()
                time.sleep(0.001)
                try:
                    store.append([event], head)
                    break
                except StaleError:
                    refused += 1
    return refused


def open_at_once(url: str, together: Barrier, said: Connection) -> None:
    """Open a store when all are ready to, and say what is wrong with it."""
    together.wait(30)
    with Store.open(url) as store:
        said.send(store.check())


def look_at_once(url: str, count: int) -> None:
    """Ask questions that are numbered by their seed, one after the other, as another process does at the same time."""
    with Store.open(url) as store:
        for seed in range(count):
            question = Question(digest_of("a"), digest_of("old"), Settings(seed=seed))
            store.look(question, ["t1"], 0.05, "ci")


def turn_at_once(url: str, number: int, together: Barrier) -> str:
    """Promote a version once everybody has read how things stand, and say what came of it."""
    with Store.open(url) as store:
        view = promotion.succession(store)
        version = store.version(number)
        row = promotion.passed_verdict(store, view, version)
        together.wait(30)
        try:
            promotion.promote(store, view, version, row, by=f"process {number}")
        except RefusedError:
            return "refused"
        return "promoted"
