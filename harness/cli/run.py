"""`harness run`: whole cycles of live search, development, gate and promotion, each phase taken up again where it stopped."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import campaign as campaigns
from harness import developing, exploring, promotion, treefile, wiring
from harness.cli import gaterun, runreport
from harness.cli.exits import Exit
from harness.cli.explore import carried_out, steering
from harness.cli.gatesides import Sides
from harness.cli.gatetrees import Given
from harness.cli.options import options
from harness.cli.output import Once, note, number
from harness.cli.policies import Named
from harness.cli.progress import steps
from harness.config import FIELDS, flag, without_password
from harness.errors import InputError, RefusedError
from harness.evolve import HeldOut, Split, evolve, split_trees
from harness.policy import Origin
from harness.search import Mode
from harness.store import RunPlan
from harness.store.records import CampaignPlan, RunState
from harness.task import reading
from harness.words import counted

if TYPE_CHECKING:
    from harness.campaign import Cycle
    from harness.config import Loaded, Settings
    from harness.exploring import Stage
    from harness.policy import Version
    from harness.store import Run, Store
    from harness.store.records import Campaign

_OWN = ("store", "workspaces", "log_level", "log_format", "runtime", "image", "workers", "warm", "slots")
"""Settings of this machine: a campaign that goes on takes them as they are by then."""
_PLANNED = tuple(name for name in FIELDS if name not in _OWN)
"""Settings that a campaign keeps from its beginning to its end."""
CYCLES = 3
SEARCHES = 6
HOLDOUT = 0.5
"""Share of a campaign's trees that is held out where nothing is set: with few trees the gate needs its half."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings."""

    task: Path | None
    policy: str | None
    cycles: int | None
    searches: int | None
    trees: tuple[Path, ...]
    fixed: bool
    control: bool
    resume: str | None
    report: Path | None
    as_json: bool


def run_command(request: Request, loaded: Loaded) -> int:
    """Carry out a campaign, or go on with one, and return the exit code."""
    if request.report is not None:
        runreport.refuse_no_place(request.report)
    if request.resume is not None:
        _refuse_another_plan(request, loaded)
    with wiring.open_store(loaded.settings, create=request.resume is None) as store:
        arms = [_unfinished(str(request.resume), store)] if request.resume is not None else _begun(request, loaded, store)
        under_way, tell = arms[0], Once()
        try:
            for under_way in arms:
                _Arm(under_way, _settings(under_way, loaded), store, tell).carry_out()
        except KeyboardInterrupt:
            note(f"stopped; what has ended is recorded, and {_command(under_way, loaded)} goes on from there")
            return Exit.INTERRUPTED
        except BaseException:
            note(f"stopped; what has ended is recorded, and {_command(under_way, loaded)} goes on from there")
            raise
        shown = runreport.of(store, arms[0])
        runreport.show(shown, request.as_json)
        if request.report is not None:
            runreport.write(shown, request.report)
    return Exit.DONE


def _refuse_another_plan(request: Request, loaded: Loaded) -> None:
    """Refuse to go on with what would be another campaign."""
    given = [flag(name) for name in ("cycles", "searches") if getattr(request, name) is not None]
    given += [flag(name) for name in ("policy", "trees", "fixed", "control") if getattr(request, name)]
    given += ["TASK"] * (request.task is not None) + options(loaded.given(_PLANNED))
    if given:
        raise InputError(f"{given[0]}: a campaign goes on with the plan it began with; leave this out, or begin another campaign")


def _begun(request: Request, loaded: Loaded, store: Store) -> list[Campaign]:
    """Record the campaign, and its control arm where that is asked for."""
    if request.task is None:
        raise InputError("no task given; write harness run TASK --cycles T, the folder with its task.toml")
    if request.fixed and request.control:
        raise InputError("--fixed and --control: the control arm alone, or both arms; expected one of the two")
    task = reading.read(request.task)
    settings = loaded.settings
    if loaded.origins["holdout"] == "default":
        settings = settings.model_copy(update={"holdout": HOLDOUT})
    if settings.live_mode is Mode.ASYNC and request.control:
        note("in async mode the arms do not meet the same luck: what an attempt is told depends on time")
    files = treefile.find(request.trees) if request.trees else []
    given = [treefile.read(file) for file in files]
    store.add_trees(given)
    version = store.record(steering(request.policy, loaded, store))
    kept = settings.model_dump(mode="json", exclude=set(_OWN))
    seed = settings.seed
    if loaded.origins["seed"] == "default" and not request.fixed:
        seed = campaigns.free_seed(store, task.digest, seed)
        if seed != settings.seed:
            note(f"searches begin at seed {seed}: those below were used by other searches of this task, and would be made again")
    plan = CampaignPlan(
        task=task.name,
        task_digest=task.digest,
        folder=str(task.folder.resolve()),
        cycles=request.cycles or CYCLES,
        searches=request.searches or SEARCHES,
        seed=seed,
        version=version.number,
        fixed=request.fixed,
        trees=tuple(tree.digest for tree in given if tree.top is not None),
        settings=kept,
    )
    arms = [store.begin_campaign(plan)]
    if request.control and not request.fixed:
        control = CampaignPlan(**{name: getattr(plan, name) for name in CampaignPlan.__slots__} | {"fixed": True})
        arms.append(store.begin_campaign(control))
    each = f"{counted(plan.searches, 'search')} a cycle"
    note(f"campaign {arms[0].number}: {counted(plan.cycles, 'cycle')} of {task.name}, {each}, beginning with v{version.number}")
    return arms


def _settings(campaign: Campaign, loaded: Loaded) -> Settings:
    """Return the settings that a campaign keeps, with this machine's own."""
    kept = {name: value for name, value in campaign.plan.settings.items() if name in FIELDS}
    return type(loaded.settings).model_validate(loaded.settings.model_dump() | kept)


def _unfinished(named: str, store: Store) -> Campaign:
    if named == "latest":
        waiting = [campaign for campaign in store.campaigns() if campaign.finished_at is None]
        if not waiting:
            raise InputError("--resume: no campaign is unfinished; `harness run TASK` begins one")
        return waiting[0] if len({one.plan.task_digest for one in waiting}) == 1 else waiting[-1]
    if not named.isdecimal():
        raise InputError(f"--resume: campaign is {named!r}; expected the number of a campaign, or nothing for the latest")
    return store.campaign(int(named))


@dataclass(frozen=True, slots=True)
class _Arm:
    """A campaign with the settings that hold for it, and the store that it stands in; `tell` says what sandboxes have to say."""

    campaign: Campaign
    settings: Settings
    store: Store
    tell: Once

    def carry_out(self) -> None:
        """Take the campaign to its end from wherever it stands."""
        plan = self.campaign.plan
        folder = Path(plan.folder)
        if reading.read(folder).digest != plan.task_digest:
            raise InputError(f"{folder}: has changed since campaign {self.campaign.number} began; begin another campaign")
        for cycle in range(1, plan.cycles + 1):
            self._explored(cycle)
            if plan.fixed:
                continue
            self._reviewed(cycle)
            run = self._developed(cycle)
            if run is not None:
                self._gated(cycle, run)
        self.store.finish_campaign(self.campaign)

    def _cycle(self, number: int) -> Cycle:
        return campaigns.cycle_of(self.store, self.campaign, number)

    def _explored(self, cycle: int) -> None:
        """Make the searches of a cycle, those that were stopped first."""
        plan = self.campaign.plan
        if self._cycle(cycle).has_explored(plan.searches):
            return
        version = campaigns.steering(self.store, self.campaign)
        arm = "fixed arm, " if plan.fixed else ""
        with exploring.stage(Path(plan.folder), self.settings, self.store, version.candidate.origin, self.tell) as stage:
            note(f"{arm}cycle {cycle} of {plan.cycles}: v{version.number} steers {counted(plan.searches, 'search')}")
            for place in range(1, plan.searches + 1):
                self._one_search(cycle, place, version, stage)

    def _one_search(self, cycle: int, place: int, version: Version, stage: Stage) -> None:
        name = self.campaign.search_name(cycle, place)
        search = next((one for one in self.store.searches() if one.plan.name == name), None)
        if search is None:
            search = stage.begin(version, self.campaign.seed(cycle, place), name)
        if search.stop is None:
            over = carried_out(stage, search, f"cycle {cycle}, search {place}")
            best = "nothing scored" if over.best is None else f"best {over.best:.9g}"
            of = self.campaign.plan.searches
            note(f"cycle {cycle}, search {place} of {of}: {best} in {counted(over.attempts, 'attempt')}")

    def _reviewed(self, cycle: int) -> None:
        """Go back to the predecessor where the incumbent's live searches fell below its."""
        if self._cycle(cycle).run is not None:
            return
        view = promotion.succession(self.store)
        review = campaigns.live_review(self.store, self.campaign, self.settings.rollback_margin)
        event = promotion.record_review(self.store, view, review, by=self.campaign.mark(cycle))
        if event is not None:
            note(f"cycle {cycle}: v{event.version} is rolled back to v{event.to}: {event.reason}")

    def _developed(self, cycle: int) -> Run | None:
        """Develop on the trees that there are by now, and return the run; None where there are none to develop on."""
        plan, store = self.campaign.plan, self.store
        run = self._cycle(cycle).run
        if run is not None and run.state is RunState.FINISHED:
            return run
        settings = self.settings
        if run is None:
            settings = developing.agreed(settings)
            sides = split_trees(campaigns.lucks_of(store, plan), settings.holdout)
            development, held_out = sides[Split.DEVELOPMENT], sides[Split.HELD_OUT]
            if not development:
                note(f"cycle {cycle}: every tree is held out, there is none to develop on; more searches a cycle give more")
                return None
            incumbent = campaigns.steering(store, self.campaign).number
            options = dict(plan.settings) | {campaigns.MARK: [self.campaign.number, cycle]}
            judged_by = wiring.judged_by(settings)
            run = store.begin_run(
                RunPlan(
                    settings.seed + cycle,
                    settings.versions,
                    judged_by,
                    settings.sandbox,
                    development,
                    held_out,
                    incumbent,
                    options,
                )
            )
        self._evolved(cycle, run, settings)
        return store.run(run.number)

    def _evolved(self, cycle: int, run: Run, settings: Settings) -> None:
        origin = (
            Origin.MODEL if developing.asks_models(settings) else self.store.version(run.plan.incumbent or 0).candidate.origin
        )
        trees = f"{counted(len(run.plan.development), 'tree')}, {len(run.plan.held_out)} held out"
        note(f"cycle {cycle}: run {run.number} develops {counted(run.plan.versions, 'version')} over {trees}")
        proposer = developing.proposer(run, settings, self.store)
        words = f"cycle {cycle}, version 1 of {run.plan.versions}"
        with wiring.sandbox(settings, origin, self.tell) as sandbox, steps() as progress:
            judge = wiring.SandboxJudge(
                self.store,
                sandbox,
                settings,
                judged_by=run.plan.settings,
                begin=lambda trees: progress.begin(words, len(trees)),
                step=progress.step,
            )
            going = evolve(run, self.store, proposer, judge, alpha=settings.alpha, by=self.campaign.mark(cycle))
            with closing(going) as told:
                for one in told:
                    if isinstance(one, HeldOut):
                        words = f"cycle {cycle}, held-out trees"
                        continue
                    words = f"cycle {cycle}, version {one.position + 1} of {run.plan.versions}"
                    judged = one.judged
                    if one.best.version.number == judged.version.number and one.position > 1:
                        progress.line(f"cycle {cycle}: v{judged.version.number} is the best so far, {number(judged.value)}")

    def _gated(self, cycle: int, run: Run) -> None:
        """Ask the gate about the run's best version, and promote it where that passes."""
        state, incumbent = self._cycle(cycle), campaigns.steering(self.store, self.campaign)
        if state.turn is not None:
            return
        if run.best is None or run.best == incumbent.number:
            note(f"cycle {cycle}: v{incumbent.number} stays, no version was better")
            return
        version = self.store.version(run.best)
        if state.verdict is None:
            self._asked(cycle, version, incumbent, run)
        row = self._cycle(cycle).verdict
        if row is None:  # the gate says so itself when somebody interrupts it
            raise KeyboardInterrupt
        verdict = row.verdict
        if not verdict.passed:
            said = f"the gate says {verdict.outcome.value} of v{version.number}: {verdict.reason}"
            note(f"cycle {cycle}: v{incumbent.number} stays, {said}")
            return
        try:
            promotion.promote(self.store, promotion.succession(self.store), version, row, by=self.campaign.mark(cycle))
        except RefusedError as refused:
            note(f"cycle {cycle}: v{version.number} is not promoted: {refused}")
            return
        note(f"cycle {cycle}: v{version.number} is promoted: {verdict.reason}")

    def _asked(self, cycle: int, version: Version, incumbent: Version, run: Run) -> None:
        settings = self.settings
        if settings.sandbox == "auto" and wiring.engine_trouble() is not None:
            settings = settings.model_copy(update={"sandbox": "local"})
        rows = {row.digest: row for row in self.store.tree_rows()}
        names = {digest: rows[digest].name for digest in run.plan.held_out}
        lucks = {digest: rows[digest].luck for digest in names}
        scored = frozenset(digest for digest in names if rows[digest].best is not None)
        ours, theirs = (Named(f"v{one.number}", one.candidate, one.number) for one in (version, incumbent))
        gaterun.run(
            gaterun.Case(Sides(ours, theirs), Given(names, lucks, scored), settings, self.campaign.mark(cycle), tell=self.tell)
        )


def _command(campaign: Campaign, loaded: Loaded) -> str:
    """Return the command that takes a campaign up again."""
    store = ["--store", without_password(loaded.settings.store)] if loaded.origins["store"] == flag("store") else []
    return f"`{shlex.join(['harness', 'run', '--resume', str(campaign.number), *store])}`"
