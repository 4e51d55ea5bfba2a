"""`harness explore`: let a policy steer real searches of a task, show how each goes, and keep its tree."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import exploring, wiring
from harness.cli import policies
from harness.cli.exits import Exit
from harness.cli.livetree import Watched, watching
from harness.cli.options import options
from harness.cli.output import Once, note, say, say_json, table
from harness.config import flag, without_password
from harness.errors import InputError
from harness.explore.base import SearchOver
from harness.explore.explorer import explore
from harness.policy import Origin
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.config import Loaded
    from harness.exploring import Stage
    from harness.policy import Candidate
    from harness.search import Search
    from harness.store import Store
    from sandbox.api import Cost


_LIMITS = ("max_rounds", "max_batch", "attempts", "live_rounds", "live_wall_s", "live_tokens", "live_usd")
_PLANNED = (*exploring.OPTIONS, *_LIMITS, "agent", "sandbox", "slots", "seed", "frontier", "live_mode", "close_terminal")
"""Settings that a search keeps from its beginning to its end."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings."""

    task: Path | None
    policy: str | None
    searches: int | None
    resume: str | None
    as_json: bool


def explore_command(request: Request, loaded: Loaded) -> int:
    """Make the searches, or go on with one, and return the exit code."""
    if request.resume is not None:
        return _resume(request, loaded)
    if request.task is None:
        raise InputError("no task given; write harness explore TASK, the folder with its task.toml")
    settings = loaded.settings
    with wiring.open_store(settings, create=True) as store:
        candidate = steering(request.policy, loaded, store)
        with exploring.stage(request.task, settings, store, candidate.origin, Once()) as stage:
            version = store.record(candidate)
            begun = [stage.begin(version, settings.seed + place) for place in range(request.searches or 1)]
            note(
                f"{counted(len(begun), 'search')} of {stage.task.name} under v{version.number}, agent {stage.agent.name}, "
                f"{stage.sandbox.name} sandbox, {counted(begun[0].plan.limits.max_attempts or 0, 'attempt')} each"
            )
            return _told(stage, begun, request, loaded)


def steering(named: str | None, loaded: Loaded, store: Store) -> Candidate:
    """Return the policy that steers: the one named, else the incumbent, else the usual start."""
    if named is not None:
        return policies.policy(named, loaded.settings).candidate
    incumbent = store.incumbent()
    return wiring.start_candidate() if incumbent is None else incumbent.candidate


def _resume(request: Request, loaded: Loaded) -> int:
    if request.task is not None or request.policy is not None:
        raise InputError("--resume: a search goes on with the task and policy that it began with; leave TASK and --policy out")
    given = ["--searches"] * (request.searches is not None) + options(loaded.given(_PLANNED))
    if given:
        raise InputError(f"{given[0]}: a search goes on with the plan it began with; leave this out, or begin another search")
    with wiring.open_store(loaded.settings) as store:
        search = unfinished(str(request.resume), store)
        settings = exploring.resumed(search, loaded.settings)
        # What steers was agreed to when the search began: nothing is asked again.
        with exploring.stage(Path(search.plan.folder), settings, store, Origin.TEMPLATE, Once()) as stage:
            note(f"search {search.number} of {search.plan.task} goes on")
            return _told(stage, [search], request, loaded)


def unfinished(named: str, store: Store) -> Search:
    """Return the search that is to go on."""
    if named == "latest":
        waiting = [search for search in store.searches() if search.stop is None]
        if not waiting:
            raise InputError("--resume: no search is unfinished; `harness explore TASK` begins one")
        return waiting[-1]
    if not named.isdecimal():
        raise InputError(f"--resume: search is {named!r}; expected the number of a search, or nothing for the latest")
    search = store.search(int(named))
    if search.stop is not None:
        raise InputError(f"--resume: search {search.number} has ended; `harness trees show {search.plan.name}` draws its tree")
    return search


def _told(stage: Stage, searches: Sequence[Search], request: Request, loaded: Loaded) -> int:
    ended: list[SearchOver] = []
    under_way = searches[0]
    try:
        for under_way in searches:
            ended.append(carried_out(stage, under_way))
    except KeyboardInterrupt:
        note(f"stopped; what has ended is recorded, and {_command(under_way, loaded)} goes on from there")
        return Exit.INTERRUPTED
    except BaseException:
        note(f"stopped; what has ended is recorded, and {_command(under_way, loaded)} goes on from there")
        raise
    if request.as_json:
        say_json({"task": stage.task.name, "searches": [document(stage.store, over) for over in ended]})
    else:
        _show(stage, ended)
    return Exit.DONE


def carried_out(stage: Stage, search: Search, label: str = "") -> SearchOver:
    """Take a search to its end, showing how it goes."""
    plan = search.plan
    watched = Watched(label or f"search {search.number}", plan.direction, plan.limits.max_attempts)
    with watching(watched) as watch, closing(explore(search, stage.live(search))) as going:
        for progress in going:
            watch.tell(progress)
            if isinstance(progress, SearchOver):
                return progress
    raise AssertionError  # explore ends with SearchOver, or raises


def document(store: Store, over: SearchOver) -> dict[str, Any]:
    """Return what became of a search, as JSON has it."""
    search, plan = over.search, over.search.plan
    faults = [one for one in store.decisions(search) if one.fault]
    return {
        "search": search.number,
        "name": plan.name,
        "tree": search.tree,
        "policy": {"version": plan.version, "digest": plan.policy},
        "agent": plan.agent,
        "seed": plan.seed,
        "mode": plan.mode.value,
        "slots": plan.slots,
        "sandbox": plan.sandbox,
        "root": search.root_score,
        "best": over.best,
        "attempts": over.attempts,
        "rounds": over.rounds,
        "stop": None if search.stop is None else search.stop.value,
        "spent": over.spent._asdict(),
        "fallbacks": [
            {
                "round": one.round,
                "of": one.fault["of"],
                "to": None if one.fault["last"] else one.version,
                "kind": one.fault["kind"],
            }
            for one in faults
            if one.fault
        ],
    }


def _show(stage: Stage, ended: Sequence[SearchOver]) -> None:
    rows = [
        [
            over.search.plan.name,
            figure(over.search.root_score),
            figure(over.best),
            str(over.attempts),
            str(over.rounds),
            "" if over.search.stop is None else over.search.stop.value,
            cost_words(over.spent),
            (over.search.tree or "")[:12],
        ]
        for over in ended
    ]
    say(table(("tree", "start", "best", "attempts", "rounds", "stop", "spent", "digest"), rows, left=("tree", "stop", "digest")))
    if stage.task.best_known is not None:
        say(f"\nbest known: {figure(stage.task.best_known)}")
    drawn = shlex.quote(ended[0].search.plan.name)
    say(f"\n`harness trees show {drawn}` draws a tree, `harness trees workspace NODE DIR` writes out what an attempt left")
    say("`harness evolve` develops a policy on the trees of the store")


def figure(score: float | None) -> str:
    """Return a raw score as people read it."""
    return "-" if score is None else f"{score:.9g}"


def cost_words(spent: Cost) -> str:
    """Return what attempts cost, unknown figures as such."""
    parts = [] if spent.seconds is None else [f"{spent.seconds:.0f} s"]
    if spent.tokens != 0:
        parts.append("tokens unknown" if spent.tokens is None else f"{spent.tokens:.0f} tokens")
    if spent.usd != 0:
        parts.append("cost unknown" if spent.usd is None else f"{spent.usd:.2f} USD")
    return ", ".join(parts)


def _command(search: Search, loaded: Loaded) -> str:
    """Return the command that takes a search up again."""
    store = ["--store", without_password(loaded.settings.store)] if loaded.origins["store"] == flag("store") else []
    return f"`{shlex.join(['harness', 'explore', '--resume', str(search.number), *store])}`"
