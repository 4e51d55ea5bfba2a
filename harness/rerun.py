"""Run again what a manifest holds, anywhere, to compare it digit for digit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from harness.errors import InputError
from harness.evaluate import Job, evaluate_all
from harness.gate.document import document, verdict_from
from harness.gate.judge import judge
from harness.manifest.environment import environment
from harness.manifest.make import Entry, judged_of
from harness.policy import Candidate
from harness.score import Evaluation, groups_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.gate.verdict import Verdict
    from harness.manifest.records import Manifest, Policy
    from harness.score import Effort, Settings
    from harness.tree import Tree
    from sandbox.api import Fault
    from sandbox.base import Sandbox


@dataclass(frozen=True, slots=True)
class Bench:
    """What replays are made with. `trees` finds trees by digest, `effort` says how so many are gone about."""

    sandbox: Sandbox
    trees: Callable[[Sequence[str]], Sequence[Tree]]
    effort: Callable[[int], Effort]
    workers: int
    """Policies that are judged side by side."""
    refusal: Callable[[str], Fault | None]
    """Why a source is not run at all."""
    step: Callable[[], None]
    """Called after every replay."""


class Asked(NamedTuple):
    """One policy and the digests of the trees that it is judged over, in their order; `trees` is the name of that set."""

    policy: Policy
    digests: Sequence[str]
    trees: str = "trees"


def entries(asked: Sequence[Asked], settings: Settings, bench: Bench) -> list[Entry]:
    """Judge policies over their trees."""
    jobs = [
        Job(one.policy.source, settings, bench.effort(len(one.digests)), one.policy.params, bench.refusal(one.policy.source))
        for one in asked
    ]
    work = [(job, bench.trees(one.digests)) for job, one in zip(jobs, asked, strict=True)]
    judged = evaluate_all(work, bench.sandbox, bench.workers, bench.step)
    return [
        _entry(one, Evaluation(one.policy.digest, bench.sandbox.name, settings, results))
        for one, results in zip(asked, judged, strict=True)
    ]


def _entry(asked: Asked, evaluation: Evaluation) -> Entry:
    policy = asked.policy
    candidate = Candidate(policy.source, policy.origin, template=policy.template, params=policy.params)
    return Entry(policy.name, candidate, evaluation, policy.params, asked.trees)


def again(said: Manifest, bench: Bench) -> Manifest:
    """Return the manifest as it comes out here and now: the same policies over the same trees in the same order.

    Raises:
        SandboxError: our side failed.
        InputError: a tree cannot be read, or the verdict that the manifest holds is none.
    """
    policies = {policy.name: policy for policy in said.policies}
    asked = [Asked(policies[one.policy], [replay.tree for replay in one.replays], one.trees) for one in said.judged]
    made = entries(asked, said.settings, bench)
    verdict = None if said.verdict is None else document(_judged_again(verdict_from(said.verdict), made, said))
    return replace(said, environment=environment(bench.sandbox.describe()), judged=tuple(map(judged_of, made)), verdict=verdict)


def _judged_again(verdict: Verdict, entries: Sequence[Entry], said: Manifest) -> Verdict:
    """Return the verdict with the look that was taken then: asking again what was asked spends nothing."""
    if verdict.look is None:
        raise InputError("the verdict took no look, so that there is nothing to judge again; expected one that did")
    # A part asks in which sandbox the gate was held; the answer is about then, not about this check of it.
    held_in = said.environment.sandbox
    judged = {one.evaluation.policy: replace(one.evaluation, sandbox=held_in) for one in entries}
    candidate, incumbent = judged[verdict.candidate], judged[verdict.incumbent]
    groups = groups_of(incumbent.results, said.settings.group_by) | {one.tree: one.group for one in verdict.trees}
    replayed = {result.tree for result in incumbent.results}
    left_out = [(tree, why) for tree, why in verdict.left_out if tree not in replayed]
    return judge(candidate, incumbent, groups, verdict.bounds, verdict.look, left_out=left_out)
