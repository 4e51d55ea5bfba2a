"""Carry a gate out: record the look, replay both policies, judge, record the verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import manifest, treefile, wiring
from harness.cli import gatetrees
from harness.cli.output import note
from harness.cli.policies import short_name
from harness.cli.progress import steps
from harness.cli.verdicts.shown import Shown
from harness.errors import InputError
from harness.gate.judge import judge, nothing_to_ask, refuse_same, refuse_sandbox, refuse_unrun
from harness.score import Evaluation, groups_of
from harness.store.records import Question
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.cli.gatesides import Sides
    from harness.cli.gatetrees import Given, HeldOut
    from harness.cli.policies import Named
    from harness.config import Settings
    from harness.gate.verdict import Bounds, Look, Verdict
    from harness.manifest import Manifest
    from harness.policy import Version
    from harness.store import Store
    from sandbox.base import Sandbox

_NEW_STORE = "the store is new: looks at these trees that another store has recorded are not known here, and not counted"


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be judged: both policies, the trees before any is left out, the settings, who asks, where a manifest goes."""

    sides: Sides
    given: Given
    settings: Settings
    by: str
    manifest: Path | None = None
    tell: Callable[[str], None] = note
    """Says what the sandbox has to say of itself."""


def run(case: Case) -> Shown | None:
    """Return the verdict as it was recorded, None where somebody interrupted.

    Raises:
        InputError: a policy is no text or too long, or the incumbent faults.
        SandboxError: our side failed; the look that was recorded stands.
        StoreError: the store is out of reach, or its ledger was tampered with.
    """
    for side in (case.sides.candidate, case.sides.incumbent):
        unreadable = wiring.refusal(side.candidate.source, checked=False)
        if unreadable is not None:
            raise InputError(f"{side.label}: {unreadable.message}")
    refused = _refused_at_once(case)
    notes = [*case.sides.notes, *([_NEW_STORE] if _is_new(case.settings) else [])]
    case = replace(case, sides=replace(case.sides, notes=notes))
    if refused is not None:
        with wiring.open_store(case.settings, create=True) as store:
            shown = _recorded(case, store, refused)
        _note_no_manifest(case)
        return shown
    settings = case.settings
    if settings.sandbox == "auto" and not settings.allow_local:
        settings = settings.model_copy(update={"sandbox": "docker"})
    # The store comes last: a command that cannot begin makes none.
    with wiring.sandbox(settings, case.sides.origin, case.tell) as sandbox, wiring.open_store(settings, create=True) as store:
        return _Stage(case, store, sandbox).judged()


def _refused_at_once(case: Case) -> Verdict | None:
    """Return the verdict that needs no replay, and so no look; None where both have to be replayed."""
    settings, source = case.settings, case.sides.candidate.candidate.source
    policies = (case.sides.candidate.candidate.digest, case.sides.incumbent.candidate.digest)
    judged_by, bounds = wiring.judged_by(settings), wiring.bounds(settings)
    if len(set(policies)) == 1:
        return refuse_same(policies[0], judged_by, bounds, settings.sandbox)
    ours, theirs = _unplayed(case)
    if settings.sandbox == "local" and not settings.allow_local:
        return refuse_sandbox(ours, theirs, bounds)
    fault = wiring.refusal(source)
    if fault is not None:
        return refuse_unrun(ours, theirs, fault, bounds)
    theirs_fault = wiring.refusal(case.sides.incumbent.candidate.source)
    if theirs_fault is not None:  # known before a look at the trees is spent
        incumbent = case.sides.incumbent.label
        raise InputError(f"incumbent {incumbent}: {theirs_fault.kind}: {theirs_fault.message}; compare with a policy that runs")
    return None


def _unplayed(case: Case) -> tuple[Evaluation, Evaluation]:
    """Return the evaluations of both before anything is replayed, the candidate's first."""
    settings, sides = case.settings, case.sides
    ours, theirs = (
        Evaluation(side.candidate.digest, settings.sandbox, wiring.judged_by(settings), ())
        for side in (sides.candidate, sides.incumbent)
    )
    return ours, theirs


def _note_no_manifest(case: Case) -> None:
    if case.manifest is not None:
        note(f"{case.manifest}: not written, since nothing was replayed that could be made again")


def _is_new(settings: Settings) -> bool:
    file = wiring.sqlite_file(settings.store)
    return file is not None and not file.exists()


def _recorded(case: Case, store: Store, verdict: Verdict, fixed_by: Manifest | None = None) -> Shown:
    candidate, incumbent = (store.record(side.candidate) for side in (case.sides.candidate, case.sides.incumbent))
    plain = None if fixed_by is None else manifest.plain(fixed_by)
    number = store.record_verdict(verdict, candidate, incumbent, by=case.by, manifest=plain)
    ours, theirs = _label(case.sides.candidate, candidate), _label(case.sides.incumbent, incumbent)
    return Shown(verdict, ours, theirs, version=candidate.number, number=number, notes=case.sides.notes, names=case.given.names)


def _label(side: Named, version: Version) -> str:
    number = f"v{version.number}"
    return number if side.label == number else f"{side.label} ({number})"


class _Stage:
    """A gate with its store and its sandbox."""

    def __init__(self, case: Case, store: Store, sandbox: Sandbox) -> None:
        self._case = case
        self._store = store
        self._sandbox = sandbox

    def judged(self) -> Shown | None:
        """Record the look, replay both, and record the verdict."""
        case, store = self._case, self._store
        store.add_trees(treefile.read(file) for file in case.given.files)
        candidate, _ = (store.record(side.candidate) for side in (case.sides.candidate, case.sides.incumbent))
        developed_on = store.development_trees(candidate)
        trees = gatetrees.held_out(case.given, {row.digest: row.luck for row in store.tree_rows() if row.digest in developed_on})
        bounds = wiring.bounds(case.settings)
        if not trees.trees:
            return self._nothing_to_ask(trees, bounds)
        look = self._look(trees)
        ended = False
        try:
            ours, theirs = self._evaluations(trees.trees)
            groups = groups_of(theirs.results, theirs.settings.group_by)
            verdict = judge(ours, theirs, groups, bounds, look, left_out=trees.left_out)
            shown = _recorded(case, store, verdict, self._manifest(ours, theirs, verdict, None))
            ended = True
            if case.manifest is not None:
                manifest.write(self._manifest(ours, theirs, verdict, case.manifest), case.manifest)
        except KeyboardInterrupt:
            return None
        finally:
            if not ended:
                note(f"stopped; look {look.number} is recorded and stands: the same command asks again, at no new level")
        return shown

    def _nothing_to_ask(self, trees: HeldOut, bounds: Bounds) -> Shown:
        case = self._case
        ours, theirs = _unplayed(case)
        shown = _recorded(case, self._store, nothing_to_ask(ours, theirs, bounds, left_out=trees.left_out))
        _note_no_manifest(case)
        return shown

    def _manifest(self, ours: Evaluation, theirs: Evaluation, verdict: Verdict, file: Path | None) -> Manifest:
        """Return what fixes the verdict; `file` is where it will stand, None for the store, which holds the trees itself."""
        settings, sides, given = self._case.settings, self._case.sides, self._case.given
        entries = [
            manifest.Entry(f"{role} {short_name(side)}", side.candidate, evaluation, side.candidate.params)
            for role, side, evaluation in (("candidate", sides.candidate, ours), ("incumbent", sides.incumbent, theirs))
        ]
        how = manifest.How(wiring.guest_limits(settings), settings.repeats, self._sandbox.describe())
        named = zip(given.names, given.files, strict=True) if given.files and file is not None else ()
        files = {digest: treefile.path_of(tree) for digest, tree in named}
        beside = Path() if file is None else file.parent
        return manifest.make(manifest.Kind.GATE, entries, how, files=files, beside=beside, verdict=verdict)

    def _look(self, trees: HeldOut) -> Look:
        case = self._case
        alpha = case.settings.alpha
        sides = case.sides
        question = Question(sides.candidate.candidate.digest, sides.incumbent.candidate.digest, wiring.judged_by(case.settings))
        look = self._store.look(question, trees.trees, alpha, case.by)
        left_out = f", {len(trees.left_out)} left out" if trees.left_out else ""
        asked = "asked before" if look.again else f"level {look.level:.4g}"
        note(
            f"look {look.number} at {counted(len(trees.trees), 'held-out tree')}{left_out}: {asked}, {self._sandbox.name} sandbox"
        )
        return look

    def _evaluations(self, trees: Sequence[str]) -> tuple[Evaluation, Evaluation]:
        """Return what both are worth on these trees, the candidate first."""
        settings, sides = self._case.settings, self._case.sides
        with steps() as progress:
            words = f"incumbent {sides.incumbent.label}, candidate {sides.candidate.label}"
            judge_all = wiring.SandboxJudge(
                self._store,
                self._sandbox,
                settings,
                judged_by=wiring.judged_by(settings),
                begin=lambda replayed: progress.begin(words, 2 * len(replayed)),
                step=progress.step,
            ).all
            theirs, ours = judge_all([sides.incumbent.candidate, sides.candidate.candidate], trees)
        return ours, theirs
