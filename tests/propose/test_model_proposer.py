"""Versions that a model writes: every answer becomes a version or a fault with its reason, and no answer stops a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import broom, judged_in_process
from scripted_models import POLICY, Told, block, policy, refuse, whole

from harness.developing import StoredJournal
from harness.evolve import Progress, Split, evolve
from harness.models.base import ContextOverflow, Finish, ModelError, ModelTimeout
from harness.models.budget import Budget, Budgeted, BudgetSpentError
from harness.models.journal import Because
from harness.policy import Candidate, EventKind, Origin
from harness.propose.edits import EditKind
from harness.propose.mix import Mix
from harness.propose.model import LATE, Means, ModelProposer
from harness.propose.prompts import DevelopmentTrees
from harness.propose.search import TemplateSearch
from harness.propose.templates import load
from harness.score import Settings
from harness.store import RunPlan, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.models.base import Model
    from harness.propose.base import Proposer
    from harness.score import Evaluation
    from harness.store import Run

MARK = "held-out-mark"
TREES = {on.digest: on for on in (broom(seed, chains=4, depth=4) for seed in range(4))}
SECRET = replace(
    broom(9, chains=3, depth=3),
    name=f"{MARK}-name",
    task=f"{MARK}-task",
    attempts=tuple(replace(a, feedback=f"{MARK}-feedback", hypothesis=f"{MARK}-idea") for a in broom(9, 3, 3).attempts),
)
EVERY = TREES | {SECRET.digest: SECRET}
CODE = {EditKind.BLOCKS: 1.0, EditKind.WHOLE: 1.0, EditKind.CROSS: 1.0}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/harness.db") as opened:
        opened.add_trees(EVERY.values())
        yield opened


def begun(store: Store, versions: int) -> Run:
    incumbent = store.record(Candidate(POLICY, Origin.FILE, "where it starts"))
    return store.begin_run(RunPlan(3, versions, Settings(), "in-process", tuple(TREES), (SECRET.digest,), incumbent.number))


def means(store: Store, run: Run, *models: Model, kinds: dict[EditKind, float] | None = None) -> Means:
    trees = DevelopmentTrees(run.plan.development, store.tree)
    weights = {model.name: 1.0 for model in models}
    return Means(models, weights, tuple(load()), trees, StoredJournal(store, run), refuse, kinds=kinds or CODE)


def by_model(store: Store, run: Run, *models: Model) -> ModelProposer:
    return ModelProposer(means(store, run, *models), run.plan.seed)


def judge(candidate: Candidate, trees: Sequence[str]) -> Evaluation:
    return judged_in_process(candidate, [EVERY[digest] for digest in trees])


def steps_of(run: Run, store: Store, proposer: Proposer) -> list[Progress]:
    return [step for step in evolve(run, store, proposer, judge) if isinstance(step, Progress)]


def outcomes(steps: Sequence[Progress]) -> list[tuple[str, float | None, EventKind]]:
    return [(step.judged.version.candidate.digest, step.judged.value, step.outcome) for step in steps]


FORMATTED = POLICY.replace('"""Return the next batch."""', "# the same, told otherwise").replace("[:WIDTH]", "[ : WIDTH ]")
UNKNOWN_NODE = POLICY.replace("return open_[:WIDTH]", "return [9_999] if view.round == 2 else open_[:WIDTH]")
REPAIRED = POLICY.replace("return open_[:WIDTH]", "return open_[-1:] if view.round == 2 else open_[:WIDTH]")
REVISIONS: tuple[tuple[str, str | None], ...] = (
    (whole(policy(3, 3), lesson="wider batches cost little"), None),
    ("I would open more branches at once, and stop sooner. That ought to help.", "no-edit"),
    (f"Here you are:\n\n{whole(policy(4, 3))}\nTell me how it went!", None),
    (block("WIDTH = 17", "WIDTH = 5"), "no-match"),
    (block("    def decide(self, view):", "    def decide(self, view):  # go on\n        view.round"), None),
    ("", "empty"),
    (whole(policy(4, 5)).replace("\n", "\r\n"), None),
    (block("        return", "        return list"), "ambiguous"),
    (whole(policy(5, 5)), None),
    (whole(policy(6, 2).replace("class Policy:", "import os\n\n\nclass Policy:")), "refused-at-check"),
    (whole(policy(6, 2)), None),
    (whole(policy(7, 7))[:-180], "truncated"),
    (whole(policy(1, 9)), None),
    (whole(FORMATTED), "known-code"),
    (whole(UNKNOWN_NODE, "try an id that may come to be"), None),
    (whole(REPAIRED, "the node was not revealed: take the last open one"), None),
    (whole(policy(2, 9).replace("class Policy:", "class Scheduler:")), "no-policy"),
    (whole(policy(2, 9).replace("return []", "return [")), "refused-at-check"),
    (whole(policy(2, 12)), None),
    (whole(policy(3, 12)), None),
)
"""What a model answers in turn, and why it is no version. The fifteenth faults when it runs; the next repairs it."""


def test_of_twenty_revisions_every_broken_one_is_a_fault_with_its_reason_and_the_others_are_worth_what_they_are_by_hand(
    store: Store,
) -> None:
    model = Told([text for text, _ in REVISIONS], finishes={11: Finish.LENGTH})
    good = [reason for _, reason in REVISIONS].count(None)
    run = begun(store, 1 + good)

    steps = steps_of(run, store, by_model(store, run, model))

    calls = store.calls(run)
    reasons = [None if call.outcome is None else call.outcome.reason for call in calls]
    assert reasons == [reason for _, reason in REVISIONS]
    assert len(steps) == 1 + good
    assert store.run(run.number).state == "finished"
    for step in steps[1:]:
        version = step.judged.version
        by_hand = judge(Candidate(version.candidate.source, Origin.FILE), run.plan.development)
        assert (step.judged.value, step.judged.evaluation.fault) == (by_hand.value, by_hand.fault)
        assert version.candidate.origin is Origin.MODEL
    written = {step.judged.version.candidate.source for step in steps}
    assert {policy(3, 3), policy(4, 3), policy(5, 5), UNKNOWN_NODE, REPAIRED} <= written


def test_a_fault_goes_back_to_the_model_with_its_answer_and_reason(store: Store) -> None:
    model = Told([block("WIDTH = 17", "WIDTH = 5"), whole(policy(5, 5))])
    run = begun(store, 2)

    steps_of(run, store, by_model(store, run, model))

    first, second = model.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert "WIDTH = 17" in second.messages[-2].text
    assert "no-match" in second.messages[-1].text


def test_a_fault_in_the_sandbox_goes_back_to_the_model_with_its_evidence(store: Store) -> None:
    model = Told([whole(UNKNOWN_NODE), whole(REPAIRED)])
    run = begun(store, 3)

    steps = steps_of(run, store, by_model(store, run, model))

    assert [step.outcome for step in steps][1] is EventKind.FAULTED
    asked = model.requests[1].messages[-1].text
    assert "unknown_node" in asked
    assert "9999" in asked or "9_999" in asked
    assert steps[2].judged.version.candidate.parent == steps[1].judged.version.number
    assert steps[2].judged.value is not None


def test_a_version_that_keeps_faulting_is_given_up(store: Store) -> None:
    broken = [UNKNOWN_NODE.replace("9_999", str(9_000 + turn)) for turn in range(4)]
    model = Told([*map(whole, broken)])
    run = begun(store, 5)

    steps = steps_of(run, store, by_model(store, run, model))

    numbers = [step.judged.version.number for step in steps]
    parents = [step.judged.version.candidate.parent for step in steps[1:]]
    assert parents == [numbers[0], numbers[1], numbers[2], numbers[0]]


def test_lessons_come_back_in_later_prompts(store: Store) -> None:
    model = Told([whole(policy(3, 3), lesson="wider batches cost little"), whole(policy(4, 4))])
    run = begun(store, 3)

    steps_of(run, store, by_model(store, run, model))

    assert "wider batches cost little" in model.requests[1].messages[-1].text


def test_no_held_out_tree_ever_reaches_a_prompt(store: Store) -> None:
    model = Told([text for text, _ in REVISIONS], finishes={11: Finish.LENGTH})
    run = begun(store, 1 + [reason for _, reason in REVISIONS].count(None))

    steps_of(run, store, by_model(store, run, model))

    told = "\n".join(message.text for request in model.requests for message in request.messages)
    assert run.plan.held_out
    assert store.evaluation(run, store.version(1), Split.HELD_OUT) is not None
    assert MARK not in told
    assert SECRET.digest[:12] not in told


@pytest.mark.parametrize("after", [1, 2, 5, 9, 14])
def test_a_run_that_was_killed_goes_on_without_asking_what_was_answered(store: Store, after: int) -> None:
    """The process dies when it would ask once more; whoever takes the run up asks that first."""
    texts = [text for text, _ in REVISIONS]
    versions = 1 + [reason for _, reason in REVISIONS].count(None)
    whole_run, cut = begun(store, versions), begun(store, versions)
    expected = steps_of(whole_run, store, by_model(store, whole_run, Told(texts, finishes={11: Finish.LENGTH})))
    with pytest.raises(KeyboardInterrupt):
        steps_of(cut, store, by_model(store, cut, Told([*texts[:after], KeyboardInterrupt()], finishes={11: Finish.LENGTH})))

    rest = Told(texts[after:], finishes={11 - after: Finish.LENGTH})
    steps = steps_of(cut, store, by_model(store, cut, rest))

    assert outcomes(steps) == outcomes(expected)
    assert len(rest.requests) == len(texts) - after
    assert [(call.asked, call.number, call.exchange.request) for call in store.calls(cut)] == [
        (call.asked, call.number, call.exchange.request) for call in store.calls(whole_run)
    ]


def test_a_model_out_of_reach_ends_in_an_error_and_is_asked_again_by_whoever_resumes(store: Store) -> None:
    run = begun(store, 2)
    with pytest.raises(ModelError, match="refused the connection"):
        steps_of(run, store, by_model(store, run, Told([ModelError("it refused the connection")])))

    steps = steps_of(run, store, by_model(store, run, Told([whole(policy(3, 3))])))

    assert len(steps) == 2
    assert [call.exchange.error for call in store.calls(run)] == ["it refused the connection", None]


def test_a_prompt_that_is_too_long_is_shortened_once(store: Store) -> None:
    model = Told([ContextOverflow("too long"), whole(policy(3, 3))])
    run = begun(store, 2)

    assert len(steps_of(run, store, by_model(store, run, model))) == 2
    assert [call.outcome is None for call in store.calls(run)] == [True, False]


def test_an_answer_that_takes_too_long_costs_a_turn_and_three_in_a_row_stop_the_run(store: Store) -> None:
    late = ModelTimeout("no answer in 1 s")
    run = begun(store, 4)
    first = Told([late, whole(policy(3, 3)), late, late, late])
    with pytest.raises(ModelTimeout):
        steps_of(run, store, by_model(store, run, first))
    assert len(first.requests) == 5

    rest = Told([whole(policy(4, 4)), whole(policy(5, 5))])
    steps = steps_of(run, store, by_model(store, run, rest))

    assert len(steps) == 4
    assert rest.requests[0] == first.requests[-1]  # what the run stopped at is asked once more, the others are not


def test_a_budget_that_is_spent_ends_the_models_share_and_templates_go_on(store: Store) -> None:
    capped = Budgeted(Told([whole(policy(3, 3))] * 9), Budget(calls=0), lambda _: None)
    run = begun(store, 5)
    mix = Mix(TemplateSearch(load(), 3), by_model(store, run, capped), 3)

    steps = steps_of(run, store, mix)

    assert len(steps) == 5
    assert {step.judged.version.candidate.origin for step in steps[1:]} == {Origin.TEMPLATE}
    assert mix.aside is not None
    assert (mix.aside.because, "budget of 0 calls" in mix.aside.reason) == (Because.BUDGET, True)


def test_a_budget_that_is_spent_ends_a_run_of_models_alone(store: Store) -> None:
    capped = Budgeted(Told([whole(policy(3, 3)), whole(policy(4, 4))]), Budget(calls=2), lambda _: None)
    run = begun(store, 9)
    proposer = by_model(store, run, capped)

    assert len(steps_of(run, store, proposer)) == 3
    assert proposer.aside is not None
    assert (proposer.aside.position, proposer.aside.because) == (4, Because.BUDGET)
    with pytest.raises(BudgetSpentError):
        capped.complete(store.calls(run)[0].exchange.request)


@pytest.mark.parametrize(
    "errors", [[ModelError("the key was refused")], [ModelTimeout("no answer in 1 s")] * 9], ids=["refused", "late"]
)
def test_a_mix_puts_models_that_cannot_be_asked_aside_and_goes_on_with_templates(
    store: Store, errors: list[BaseException]
) -> None:
    model = Told([whole(policy(3, 3)), *errors])
    run = begun(store, 14)
    mix = Mix(TemplateSearch(load(), 3), by_model(store, run, model), 3)

    steps = steps_of(run, store, mix)

    assert len(steps) == 14
    assert mix.aside is not None
    assert (mix.aside.because, mix.aside.reason) == (Because.PROVIDER, str(errors[0]))
    assert store.aside(run) == mix.aside
    assert len(model.requests) <= 1 + LATE


def test_models_that_were_put_aside_stay_so_for_whoever_takes_the_run_up(store: Store) -> None:
    whole_run, cut = begun(store, 14), begun(store, 14)

    def mixed(run: Run, model: Model) -> Mix:
        return Mix(TemplateSearch(load(), 3), by_model(store, run, model), 3)

    def broken() -> Told:
        return Told([whole(policy(3, 3)), ModelError("the server is gone")])

    expected = steps_of(whole_run, store, mixed(whole_run, broken()))
    steps = evolve(cut, store, mixed(cut, broken()), judge)
    while store.aside(cut) is None:
        next(steps)
    steps.close()  # type: ignore[attr-defined]

    assert outcomes(steps_of(cut, store, mixed(cut, Told([])))) == outcomes(expected)


def test_a_mix_takes_turns_and_a_model_without_an_edit_leaves_its_place_to_templates(store: Store) -> None:
    model = Told([whole(policy(width, 4)) if width % 2 else "no idea, sorry" for width in range(60)])
    run = begun(store, 16)

    steps = steps_of(run, store, Mix(TemplateSearch(load(), 3), by_model(store, run, model), 3))

    origins = Counter(step.judged.version.candidate.origin for step in steps[1:])
    assert len(steps) == 16
    assert min(origins[Origin.MODEL], origins[Origin.TEMPLATE]) >= 3


@pytest.mark.parametrize("after", [3, 7, 12])
def test_a_mix_that_was_killed_ends_as_it_would_have(store: Store, after: int) -> None:
    texts = [whole(policy(width, 4)) if width % 3 else "no idea" for width in range(1, 60)]

    def mixed(run: Run, model: Model) -> Mix:
        return Mix(TemplateSearch(load(), 3), by_model(store, run, model), 3)

    whole_run, cut = begun(store, 16), begun(store, 16)
    expected = steps_of(whole_run, store, mixed(whole_run, Told(texts)))
    steps = evolve(cut, store, mixed(cut, Told(texts)), judge)
    for _ in range(after):
        next(steps)
    steps.close()  # type: ignore[attr-defined]

    asked = len(store.calls(cut))
    assert outcomes(steps_of(cut, store, mixed(cut, Told(texts[asked:])))) == outcomes(expected)


def test_a_model_may_set_parameters_and_choose_templates(store: Store) -> None:
    model = Told(['<rationale>cheap</rationale>\n{"template": "greedy", "params": {}}'])
    run = begun(store, 2)
    made = means(store, run, model, kinds={EditKind.TEMPLATE: 1.0})

    (_, step) = steps_of(run, store, ModelProposer(made, 3))

    candidate = step.judged.version.candidate
    assert (candidate.origin, candidate.template, candidate.rationale) == (Origin.TEMPLATE, "greedy", "cheap")
