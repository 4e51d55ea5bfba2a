"""Settings in, live objects out: the only place that names concrete classes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from harness import score
from harness.config import without_password
from harness.errors import InputError, RefusedError
from harness.evaluate import Job, evaluate_all, gather
from harness.gate.verdict import Bounds
from harness.lazytrees import FoundTrees
from harness.policy import Origin
from harness.score import Effort
from sandbox.api import Fault, FaultKind, Limits
from sandbox.base import GuestLimits, SandboxError
from sandbox.session import SOURCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.agents.base import Agent
    from harness.config import Settings
    from harness.explore.selectors import Selector
    from harness.models.base import Model
    from harness.models.budget import Budget
    from harness.models.tries import Tries
    from harness.policy import Candidate
    from harness.propose.base import Proposer
    from harness.score import Evaluation
    from harness.store import Store
    from harness.task.base import Task
    from harness.workspaces.git import GitSnapshots
    from sandbox.base import Sandbox
    from sandbox.job import Jobs

_TREES_PER_WORKER = 8
"""Fewer replays than this do not repay the start of another container."""


def judged_by(settings: Settings) -> score.Settings:
    """Return everything beside policy and trees that fixes an evaluation."""
    return score.Settings(
        limits=Limits(settings.max_rounds, settings.max_batch, settings.max_attempts),
        frontier=settings.frontier,
        weights=score.Weights(settings.beta1, settings.beta2, settings.normalize),
        seed=settings.seed,
        objective=settings.objective,
        weight=settings.weight,
        group_by=settings.group_by,
    )


def bounds(settings: Settings) -> Bounds:
    """Return what each part of the gate asks for."""
    return Bounds(
        alpha=settings.alpha,
        min_gain=settings.min_gain,
        quality_margin=settings.quality_margin,
        group_margin=settings.group_margin,
        max_off_support=settings.max_off_support,
        max_decision_cpu_s=settings.max_decision_cpu_s,
        allow_local=settings.allow_local,
        resamples=settings.resamples,
        power=settings.power,
        seed=settings.seed,
    )


def guest_limits(settings: Settings) -> GuestLimits:
    """Return what one replay's process may use."""
    return GuestLimits(
        load_cpu_s=settings.load_cpu_s,
        decision_cpu_s=settings.decision_cpu_s,
        replay_cpu_s=settings.replay_cpu_s,
        wall_factor=settings.wall_factor,
        memory_bytes=settings.memory_mib * 2**20,
        output_bytes=settings.output_kib * 2**10,
    )


def effort(settings: Settings, trees: int, *, stop_at_fault: bool = False) -> Effort:
    """Return how an evaluation over so many trees is carried out."""
    shared = settings.workers or max(1, min(workers(settings), trees // _TREES_PER_WORKER))
    return Effort(guest_limits(settings), settings.repeats, shared, stop_at_fault)


def workers(settings: Settings) -> int:
    """Return how many policies are judged side by side where there are many."""
    return settings.workers or len(os.sched_getaffinity(0))


def language_model(
    name: str,
    settings: Settings,
    budget: Budget,
    *,
    tries: Tries | None = None,
) -> Model:
    """Return a model that is asked within the budget, again where that helps. `tries` keeps every try before it leaves.

    Raises:
        InputError: the name or a price is none.
    """
    from harness.models import naming, prices  # noqa: PLC0415 - nothing of the model path is loaded without a model
    from harness.models.budget import Budgeted  # noqa: PLC0415
    from harness.models.client import Client  # noqa: PLC0415
    from harness.models.retried import Retried  # noqa: PLC0415

    named, given = naming.parse(name), prices.parse(settings.model_price or ())
    budgeted = Budgeted(Client(named, given.get(named.name)), budget, prices.most_usd(named, given), tries)
    return Retried(budgeted)


def require_model(name: str) -> str:
    """Find out without asking what would keep every call of a model from being made, and return its full name.

    Raises:
        InputError: the name is none.
        ModelError: the client is not installed, or there is no key.
    """
    from harness.models import naming  # noqa: PLC0415 - as above
    from harness.models.client import Client  # noqa: PLC0415

    named = naming.parse(name)
    if named.provider != naming.REPLAY:
        Client(named).require()
    return named.name


@contextmanager
def sandbox(
    settings: Settings, origin: Origin, tell: Callable[[str], None], *, candidates: int | None = None
) -> Iterator[Sandbox]:
    """Open the sandbox that the settings ask for, its image built where that is missing, and close it at the end.

    `candidates` is how many policies it will run, where that is known.

    `auto` takes Docker when an engine answers, and processes of this machine for code of our own templates alone: never a
    silent step down.

    Raises:
        SandboxError: it is out of reach; the message names what helps.
    """
    opened = _local(tell) if _is_local(settings, origin, tell) else _docker(settings, tell, candidates)
    try:
        yield opened
    finally:
        opened.close()


def _is_local(settings: Settings, origin: Origin, tell: Callable[[str], None]) -> bool:
    if settings.sandbox != "auto":
        return settings.sandbox == "local"
    trouble = engine_trouble()
    if trouble is None:
        return False
    reason = trouble.removesuffix(", or use --sandbox local")
    if origin is not Origin.TEMPLATE:
        raise SandboxError(
            f"{reason}; or say --sandbox local: a policy that is not from our own templates runs without an engine only when "
            "that is asked for"
        )
    tell(f"{reason}; until then, policies from our own templates run in the local sandbox")
    return True


def _local(tell: Callable[[str], None]) -> Sandbox:
    from sandbox.local import LocalSandbox  # noqa: PLC0415 - see engine_trouble

    opened = LocalSandbox()
    _own_up(opened, tell)
    return opened


def _docker(settings: Settings, tell: Callable[[str], None], candidates: int | None) -> Sandbox:
    from sandbox.docker import DockerSandbox  # noqa: PLC0415 - see engine_trouble

    _have_image(settings, tell)
    return DockerSandbox(image=settings.image, runtime=settings.runtime, warm=settings.warm, candidates=candidates)


@contextmanager
def jobs(settings: Settings, tell: Callable[[str], None], *, ours: bool) -> Iterator[Jobs]:
    """Open what runs evaluators and what they judge, and close it at the end.

    `ours` says that every workspace comes from us or from whoever gives the command: then `auto` may take processes of this
    machine where no engine answers.

    Raises:
        SandboxError: it is out of reach; the message names what helps.
    """
    local = settings.sandbox == "local"
    if settings.sandbox == "auto" and (trouble := engine_trouble()) is not None:
        reason = trouble.removesuffix(", or use --sandbox local")
        if not ours:
            raise SandboxError(
                f"{reason}; or say --sandbox local: what an agent left is scored without an engine only when asked"
            )
        tell(f"{reason}; until then, the task is scored in the local sandbox")
        local = True
    opened = _local_jobs(tell) if local else _docker_jobs(settings, tell)
    with opened:
        yield opened


def _local_jobs(tell: Callable[[str], None]) -> Jobs:
    from sandbox.localjob import LocalJobs  # noqa: PLC0415 - see engine_trouble

    opened = LocalJobs()
    _own_up(opened, tell)
    return opened


def _docker_jobs(settings: Settings, tell: Callable[[str], None]) -> Jobs:
    from sandbox.dockerjob import DockerJobs  # noqa: PLC0415 - see engine_trouble

    _have_image(settings, tell)
    return DockerJobs(image=settings.image, runtime=settings.runtime)


def _own_up(opened: Sandbox | Jobs, tell: Callable[[str], None]) -> None:
    """Say what a local backend does not isolate."""
    left = "\n".join(f"  - {open_}" for open_ in opened.describe().leaves_open)
    tell(f"the local sandbox does not isolate everything:\n{left}")


def _have_image(settings: Settings, tell: Callable[[str], None]) -> None:
    """Build the sandbox image where it is missing and no other is asked for."""
    if settings.image is None and not image_is_built():
        tell("the sandbox image is not built yet; building it once, which takes a minute")
        build_image(None, tell)


def build_image(base: str | None, tell: Callable[[str], None]) -> str:
    """Build the sandbox image, or find it built, and return its tag."""
    from sandbox import image  # noqa: PLC0415 - see engine_trouble

    image.build(base, tell)
    return image.image_tag()


def image_is_built() -> bool:
    """Return whether the sandbox image of this version is there."""
    from sandbox import image  # noqa: PLC0415 - see engine_trouble

    return image.image_status() is image.ImageStatus.READY


def image_trouble(name: str) -> str | None:
    """Return why this image cannot be used, None when it can."""
    from sandbox import image  # noqa: PLC0415 - see engine_trouble

    return image.image_trouble(name)


def engine_trouble() -> str | None:
    """Return why no Docker engine can be used, None when one answers."""
    from sandbox import engine  # noqa: PLC0415 - the Docker SDK is imported by those who use it

    return engine.engine_trouble()


def sweep() -> int:
    """Remove the containers of dead harnesses and return how many that were."""
    from sandbox import docker  # noqa: PLC0415 - see engine_trouble

    return docker.sweep()


def open_store(settings: Settings, *, create: bool = False) -> Store:
    """Open the store.

    Raises:
        InputError: it is not there yet and is not to be made.
        StoreError: it cannot be used.
    """
    file = sqlite_file(settings.store)
    if not create and file is not None and not file.exists():
        raise InputError(f"{file}: there is no store yet; `harness evolve` makes one, --store names another")
    from harness.store import Store  # noqa: PLC0415 - half a second of import, paid by those who use a store

    return Store.open(settings.store if "://" in settings.store else f"sqlite:///{quote(settings.store)}")


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite store, None for a database server. A plain path is one as well."""
    if "://" not in url:
        return Path(url)
    return Path(unquote(url.removeprefix("sqlite:///").partition("?")[0])) if url.startswith("sqlite:///") else None


def proposer(seed: int) -> Proposer:
    """Return who writes the next versions."""
    from harness.propose import templates  # noqa: PLC0415 - as for the store
    from harness.propose.search import TemplateSearch  # noqa: PLC0415

    return TemplateSearch(templates.load(), seed)


START = "parallel_refine"
"""The template that everything starts from: the usual hand-written scheduler."""


def start_candidate() -> Candidate:
    """Return the policy that steers where none was promoted yet."""
    from harness.propose import templates  # noqa: PLC0415 - as for the store

    start = templates.as_it_comes(START)
    assert start is not None  # noqa: S101 - it comes with the harness
    return start


def check_moves(task: Task) -> None:
    """Load the search agent's moves of a task, where it has any.

    Raises:
        InputError: they cannot be loaded, or lack something.
        AgentError: their import does not end.
    """
    if task.moves is not None:
        from harness.agents.search import SearchAgent  # noqa: PLC0415 - as for the others

        SearchAgent(task).close()


def _agent(task: Task, settings: Settings, budget: Budget, tell: Callable[[str], None]) -> Agent:
    if settings.agent == "search":
        from harness.agents.search import SearchAgent  # noqa: PLC0415 - as for the others

        return SearchAgent(task)
    if settings.agent.startswith("model:"):
        return _model_agent(settings.agent.removeprefix("model:"), settings, budget)
    from harness.agents import naming  # noqa: PLC0415 - as for the others

    agent = naming.parse(settings.agent, task)
    tell(f"agent {settings.agent} runs as your user, outside of the sandbox; what it leaves is judged inside")
    return agent


def model_budget(settings: Settings) -> Budget:
    """Return what agents and judges of one command may spend on models together."""
    from harness.models.budget import Budget  # noqa: PLC0415 - nothing of the model path is loaded without a model

    return Budget(settings.budget_usd, settings.budget_tokens, settings.budget_calls)


def judge_selector(settings: Settings, budget: Budget, statement: str, seed: int) -> Selector:
    """Return the selector of rollouts that asks the first model of the settings.

    Raises:
        InputError: no model is named.
        ModelError: it cannot be asked.
    """
    from harness.explore.judging import JudgeSelector  # noqa: PLC0415 - as above

    if not settings.model:
        raise InputError("rollout_selector is judge, and no model is named; give --model NAME, or another selector")
    name = settings.model[0]
    require_model(name)
    return JudgeSelector(language_model(name, settings, budget), statement, seed, settings.model_timeout_s)


def imported(name: str) -> Selector:
    """Return a function of the operator's own, named as `package.module:function`.

    Raises:
        InputError: there is none.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"rollout_selector is {name!r}: {error}; expected package.module:function") from error
    if not callable(found):
        raise InputError(f"rollout_selector is {name!r}: {function} is no function; expected package.module:function")
    selector: Selector = found
    return selector


def _model_agent(name: str, settings: Settings, budget: Budget) -> Agent:
    from harness.agents.model import ModelAgent  # noqa: PLC0415 - nothing of the model path is loaded without a model

    require_model(name)
    return ModelAgent(
        language_model(name, settings, budget),
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        timeout_s=settings.model_timeout_s,
    )


@contextmanager
def agent(task: Task, settings: Settings, budget: Budget, tell: Callable[[str], None]) -> Iterator[Agent]:
    """Open who makes attempts at a task, and end what it started at the end.

    Raises:
        InputError: there is no such agent, or it cannot work at this task.
        AgentError, ModelError: something that it needs is missing.
    """
    opened = _agent(task, settings, budget, tell)
    try:
        yield opened
    finally:
        opened.close()


def snapshots(settings: Settings) -> GitSnapshots:
    """Return what keeps workspaces, in a repository that is made where it is missing.

    Raises:
        InputError: the store is on a server, and no folder is set.
    """
    from harness.workspaces.git import GitSnapshots  # noqa: PLC0415 - dulwich is loaded by those who keep workspaces

    made = GitSnapshots(snapshots_folder(settings))
    made.used_by(_place(settings))
    return made


def refuse_shared(settings: Settings) -> None:
    """Refuse where another store, which is still there, keeps workspaces in the same place: nobody knows which of them it needs.

    Raises:
        RefusedError: there is another one.
    """
    noted = snapshots(settings).used_by(_place(settings))
    others = sorted(other for other in noted if not other.startswith("/") or Path(other).exists())
    if others:
        wish = "give each store its own with the setting workspaces"
        raise RefusedError(f"{snapshots_folder(settings)}: {', '.join(others)} keeps workspaces here as well; {wish}")


def _place(settings: Settings) -> str:
    """Return where the store is: a file from the root on, or a URL without its password."""
    file = sqlite_file(settings.store)
    return without_password(settings.store) if file is None else str(file.resolve())


def snapshots_folder(settings: Settings) -> Path:
    """Return where workspaces are kept: the folder that is set, else one beside the store's file.

    Raises:
        InputError: the store is on a server, and no folder is set.
    """
    file = sqlite_file(settings.store)
    if settings.workspaces is None and file is None:
        raise InputError("workspaces is none, and the store is on a server; set workspaces to a folder that keeps them")
    beside = Path() if file is None else file.with_name("workspaces.git")
    return Path(settings.workspaces) if settings.workspaces else beside


def refusal(source: str, *, checked: bool = True) -> Fault | None:
    """Return why this source is not run at all, None where it may be. Size and encoding are looked at in any case."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return Fault(FaultKind.REFUSED_AT_CHECK, f"line {line}: the source is not UTF-8; save the file as UTF-8")
    if size > SOURCE_BYTES:
        figures = {"source_bytes": float(size), "limit_source_bytes": float(SOURCE_BYTES)}
        return Fault(FaultKind.REFUSED_AT_CHECK, f"the source has {size} bytes; the limit is {SOURCE_BYTES}", figures=figures)
    if not checked:
        return None
    from harness import check  # noqa: PLC0415 - as for the store

    return check.refusal(check.check(source))


class SandboxJudge:
    """Judges candidates over trees of the store. `begin` is told the trees of each evaluation, `step` of each replay's end."""

    def __init__(
        self,
        store: Store,
        sandbox: Sandbox,
        settings: Settings,
        *,
        judged_by: score.Settings,
        begin: Callable[[Sequence[str]], None],
        step: Callable[[], None],
    ) -> None:
        self._store = store
        self._sandbox = sandbox
        self._settings = settings
        self._judged_by = judged_by
        self._begin = begin
        self._step = step

    def __call__(self, candidate: Candidate, trees: Sequence[str]) -> Evaluation:
        """Return the evaluation; it ends with the first fault."""
        (evaluation,) = self.all([candidate], trees)
        return evaluation

    def all(self, candidates: Sequence[Candidate], trees: Sequence[str]) -> list[Evaluation]:
        """Return the evaluations of several candidates, judged side by side; each ends with its first fault."""
        self._begin(trees)
        how = effort(self._settings, len(trees), stop_at_fault=True)
        jobs = [Job(one.source, self._judged_by, how, one.params, refusal(one.source)) for one in candidates]
        found = FoundTrees(trees, {}, self._store)
        judged = evaluate_all([(job, found) for job in jobs], self._sandbox, workers(self._settings), self._step)
        return [gather(job, self._sandbox, results) for job, results in zip(jobs, judged, strict=True)]
