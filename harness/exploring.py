"""How live searches are carried out, as the settings say: what fixes one, and what it works with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__, wiring
from harness.errors import InputError
from harness.explore.attempting import Attempting
from harness.explore.explorer import Live
from harness.explore.rollouts import STRATEGIES, Retention, Roller, Rollouts
from harness.explore.selectors import JUDGE, Selectors
from harness.explore.siblings import SiblingRule
from harness.promotion import succession
from harness.search import Allowance, SearchPlan
from harness.task import reading
from harness.task.evaluator import Evaluator
from sandbox.api import Frontier, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.agents.base import Agent
    from harness.config import Settings
    from harness.explore.selectors import Selector
    from harness.models.budget import Budget
    from harness.policy import Origin, Version
    from harness.search import Search
    from harness.store import Store
    from harness.task.base import Scoring, Task
    from harness.workspaces.base import Snapshots
    from sandbox.base import Sandbox
    from sandbox.job import Jobs

ATTEMPTS = 60
"""Attempts of a search where neither settings nor task say."""
OPTIONS = (
    "sibling_context", "sibling_count", "sibling_chars", "rollouts", "rollout_selector", "rollout_strategies", "rollout_parallel",
    "rollout_escalate", "rollout_early_stop", "rollout_deadline_s", "rollout_keep", "model", "model_price", "model_timeout_s",
    "temperature", "max_output_tokens",
)  # fmt: skip
"""Settings beside the plan's own that a search keeps from its beginning to its end."""
_SYSTEM = "dream-harness"
_SET_UP_S = 60.0


@dataclass(frozen=True, slots=True)
class Stage:
    """What the searches of one task share: their task, agent and evaluator, and where everything is kept."""

    task: Task
    settings: Settings
    store: Store
    sandbox: Sandbox
    agent: Agent
    jobs: Jobs
    snapshots: Snapshots
    budget: Budget
    """What agent and judge may spend on models together, over all searches of the stage."""

    def begin(self, version: Version, seed: int, name: str = "") -> Search:
        """Score the start, keep it, and record that a search begins.

        Raises:
            InputError: the start has no score.
        """
        task = self.task
        found = Evaluator(task, self.jobs).assess(task.start)
        if found.score is None:
            raise InputError(f"{task.folder}: the start workspace is {found.status}: {found.feedback or 'no reason was given'}")
        plan = self._plan(version, seed, name or f"{task.name}-s{seed}-{len(self.store.searches()) + 1}")
        return self.store.begin_search(plan, self.snapshots.take(task.start), found.score, found.metrics)

    def live(self, search: Search) -> Live:
        """Return what a search works with."""
        attempting = Attempting(self.task, self.agent, Evaluator(self.task, self.jobs), self.snapshots, search.root_score)
        rule = self.settings
        return Live(
            self.store,
            self.sandbox,
            wiring.guest_limits(self.settings),
            attempting,
            lambda version: self._fallback(search, version),
            SiblingRule(rule.sibling_context, rule.sibling_count, rule.sibling_chars),
            self._roller(search.plan.seed),
            {"system": _SYSTEM, "harness": __version__},
        )

    def _plan(self, version: Version, seed: int, name: str) -> SearchPlan:
        settings, task = self.settings, self.task
        given = Allowance(settings.attempts, settings.live_rounds, settings.live_wall_s, settings.live_tokens, settings.live_usd)
        allowance = _either(given, task.allowance)
        attempts = allowance.attempts or ATTEMPTS
        rounds = settings.max_rounds if allowance.rounds is None else allowance.rounds
        return SearchPlan(
            name=name,
            task=task.name,
            task_digest=task.digest,
            folder=str(task.folder.resolve()),
            direction=task.direction,
            version=version.number,
            policy=version.candidate.digest,
            seed=seed,
            limits=Limits(rounds, settings.max_batch, attempts),
            frontier=settings.frontier or Frontier.LEAF,
            mode=settings.live_mode,
            slots=settings.slots,
            agent=self.agent.name,
            sandbox=self.sandbox.name,
            allowance=_either(Allowance(attempts=attempts), allowance),
            close_terminal=settings.close_terminal,
            options={name: _plain(getattr(settings, name)) for name in OPTIONS} | {"agent": settings.agent},
        )

    def _roller(self, seed: int) -> Roller:
        settings = self.settings
        plan = Rollouts(
            n=settings.rollouts,
            strategies=settings.rollout_strategies or STRATEGIES,
            selector=settings.rollout_selector,
            max_parallel=settings.rollout_parallel,
            timeout_s=self.task.attempt_s + _scoring_s(self.task.scoring),  # a backstop: the agent's own limit ends it before
            deadline_s=settings.rollout_deadline_s,
            escalate=settings.rollout_escalate,
            early_stop=settings.rollout_early_stop,
            retention=Retention(settings.rollout_keep),
        )
        return Roller(plan, self.selector(plan.selector, seed), self.task.direction)

    def selector(self, name: str, seed: int) -> Selector:
        """Return the selector of a name: a built-in one, `judge`, or one of the operator's own as `package.module:function`.

        Raises:
            InputError: there is none, or a judge is asked for without a model.
        """
        selectors = Selectors()
        if self.settings.rollouts > 1 and name == JUDGE:
            selectors.register(JUDGE, wiring.judge_selector(self.settings, self.budget, self.task.statement, seed))
        elif ":" in name:
            selectors.register(name, wiring.imported(name))
        return selectors.named(name)

    def _fallback(self, search: Search, version: Version) -> Version | None:
        """Return the latest incumbent before that has not broken its contract in this search, at last the usual start."""
        broken = {one.fault["of"] for one in self.store.decisions(search) if one.fault} | {version.number}
        for number in reversed(succession(self.store).line):
            if number not in broken:
                return self.store.version(number)
        start = self.store.record(wiring.start_candidate())
        return None if start.number in broken else start


@contextmanager
def stage(folder: Path, settings: Settings, store: Store, origin: Origin, tell: Callable[[str], None]) -> Iterator[Stage]:
    """Open what the searches of a task work with, and close it at the end.

    `origin` is that of the policies that will steer.

    Raises:
        InputError: the task, or the agent's name, is none.
        SandboxError, AgentError: something is out of reach; the message names what helps.
    """
    task = reading.read(folder)
    budget = wiring.model_budget(settings)
    with (
        wiring.sandbox(settings, origin, tell) as sandbox,
        wiring.jobs(settings, tell, ours=settings.agent == "search") as jobs,
        wiring.agent(task, settings, budget, tell) as agent,
    ):
        opened = Stage(task, settings, store, sandbox, agent, jobs, wiring.snapshots(settings), budget)
        opened.selector(settings.rollout_selector, settings.seed)  # a wrong one is told before anything is recorded
        yield opened


def resumed(search: Search, settings: Settings) -> Settings:
    """Return the settings that a search keeps.

    Raises:
        InputError: its task is another one by now.
    """
    plan = search.plan
    task = reading.read(Path(plan.folder))
    if task.digest != plan.task_digest:
        raise InputError(
            f"{plan.folder}: has changed since search {search.number} began, which goes on with the task as it was alone; "
            "begin another search"
        )
    kept = {name: value for name, value in plan.options.items() if name in (*OPTIONS, "agent")}
    kept |= {"rollout_strategies": kept["rollout_strategies"] and tuple(kept["rollout_strategies"])}
    return type(settings).model_validate(settings.model_dump() | kept | {"sandbox": plan.sandbox, "slots": plan.slots})


def _scoring_s(scoring: Scoring) -> float:
    """Return how long scoring may take, with what setting its jobs up may need."""
    run_s = 0.0 if scoring.run_limits is None else scoring.run_limits.wall_s
    return scoring.limits.wall_s + run_s + _SET_UP_S


def _either(first: Allowance, then: Allowance) -> Allowance:
    """Return the allowance of the first, and where it says nothing that of the other."""
    names = Allowance.__slots__
    return Allowance(*(getattr(first, name) if getattr(first, name) is not None else getattr(then, name) for name in names))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, str) else value
