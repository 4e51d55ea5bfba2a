"""What a prompt holds: the interface, the objective, the policy with its values and replays, what was tried, and one ask."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest
from builders import broom, tree
from hypothesis import given
from hypothesis import strategies as st
from runs import BREAKS, FOLLOWS, OPENS, STOPS, TREES, asked, judged

from harness.models.base import Role
from harness.policy import Candidate, Origin, Version
from harness.propose.base import Brief, Judged
from harness.propose.edits import EditKind, answer_form
from harness.propose.memory import Inspiration, Purpose
from harness.propose.prompts import Ask, DevelopmentTrees, Prompt, Repair, build
from harness.propose.templates import defaults, load, render
from harness.score import Objective, Settings, Weight, Weights
from harness.tree import Attempt, Tree
from sandbox.api import Limits


def system(prompt: Prompt) -> str:
    return prompt.messages[0].text


def user(prompt: Prompt) -> str:
    return prompt.messages[1].text


def test_it_is_a_system_message_and_one_of_the_user() -> None:
    assert [message.role for message in build(asked([judged(1, OPENS)])).messages] == [Role.SYSTEM, Role.USER]


def test_the_same_ask_gives_the_same_prompt() -> None:
    assert build(asked([judged(1, OPENS)])) == build(asked([judged(1, OPENS)]))


def test_the_interface_is_told_in_the_words_of_its_one_source_but_for_the_value() -> None:
    source = (files("policy_templates") / "interface.md").read_text()
    said = system(build(asked([judged(1, OPENS)])))
    sections = source.split("\n## ")

    assert all(section.strip() in said for section in sections if not section.startswith("The value"))
    assert "`N` is the number of attempts revealed" in source
    assert "`N` is the number of attempts revealed" not in said, "the prompt tells the objective that is asked for"


def test_the_system_message_stays_the_same_throughout_a_run() -> None:
    """Providers charge less for a beginning that they have seen before."""
    history = [judged(1, OPENS), judged(2, FOLLOWS)]

    assert system(build(asked(history[:1]))) == system(build(asked(history)))


def test_the_value_is_told_with_the_weights_of_the_run() -> None:
    settings = Settings(Limits(max_batch=3), weights=Weights(beta1=0.25, beta2=0.125))
    said = user(build(asked([judged(1, STOPS, settings=settings)])))

    assert "quality - 0.25·N + 0.125·N / max(1, k)" in said
    assert "max_batch = 3" in said
    assert "over all trees, every tree once" in said


def test_attainment_is_told_without_weights() -> None:
    settings = Settings(objective=Objective.ATTAINMENT, weight=Weight.GROUP)
    said = user(build(asked([judged(1, STOPS, settings=settings)])))

    assert "attainment" in said
    assert "beta" not in said
    assert "·N" not in said
    assert "mean over the groups' means" in said


def test_the_policy_to_edit_stands_there_to_the_letter() -> None:
    assert OPENS.strip() in user(build(asked([judged(1, OPENS)])))


@pytest.mark.parametrize("kind", EditKind)
def test_one_kind_of_edit_is_asked_for_in_the_form_that_answers_are_read_in(kind: EditKind) -> None:
    history = [judged(1, OPENS), judged(2, FOLLOWS)]
    said = user(build(asked(history, kind=kind, parents=tuple(history), templates=load())))

    assert [other for other in EditKind if answer_form(other) in said] == [kind]
    assert "<rationale>" in said
    assert "<lesson>" in said


def test_parameters_are_listed_with_what_they_may_be_and_are_now() -> None:
    template = next(one for one in load() if one.name == "greedy")
    values = defaults(template) | {"width": 5}
    candidate = Candidate(render(template, values), Origin.TEMPLATE, "a start", template.name, values)
    version = Judged(Version(1, candidate, ""), judged(1, OPENS).evaluation)

    said = user(build(asked([version], kind=EditKind.PARAMETERS, templates=load())))

    width = next(parameter for parameter in template.parameters if parameter.name == "width")
    assert f'width: "{width.range}"; now "5"; {width.help}' in said


def test_templates_are_listed_with_their_parameters() -> None:
    said = user(build(asked([judged(1, OPENS)], kind=EditKind.TEMPLATE, templates=load())))

    assert all(f"{one.name}: {one.summary}" in said for one in load())
    assert all(parameter.help in said for one in load() for parameter in one.parameters)


def test_values_are_told_by_group_beside_those_of_the_best_version_furthest_behind_first() -> None:
    """Nothing is lost on the one tree that is flat; on the others all is."""
    flat = replace(tree("root>a", root=0.0, scores={"a": 0.0}), task="flat")
    steep = replace(tree("root>a", root=0.0, scores={"a": 9.0}), task="steep")
    history = [judged(number, source, [flat, steep]) for number, source in ((1, OPENS), (2, STOPS))]

    said = user(build(asked(history, [flat, steep])))

    lines = [line for line in said.splitlines() if line.startswith(('"flat"', '"steep"'))]
    assert [line.split(" ", 1)[0] for line in lines] == ['"steep"', '"flat"']
    assert "(1 tree): value 0.0000, version 1 1.0040; 0.0 attempts in 0.0 rounds" in lines[0]


def test_a_replay_is_told_as_the_policy_saw_it() -> None:
    """It opens both branches and picks the first until nothing is left there; the better end of the other stays hidden."""
    source = """class Policy:
    def __init__(self, context): ...
    def decide(self, view): return [[0, 0], [1], [3], []][view.round - 1]
"""
    on = tree("root>a", "root>b", "a>c", "b>hidden", root=0.5, scores={"a": 1.0, "b": 2.0, "c": 3.0, "hidden": 76.54})
    said = user(build(asked([judged(1, source, [on])], [on])))

    assert "round 1: picked 0 x2; revealed 1 (1), 2 (2); best 2" in said
    assert "round 2: picked 1; revealed 3 from 1 (3); best 3" in said
    assert "round 3: picked 3; revealed nothing; nothing more at 3; best 3" in said
    assert "ended: policy_stopped; 2 branches opened; leaves not gone on with: 2 (2); leaves found closed: 1" in said
    assert "76.54" not in said


def test_nothing_that_was_not_revealed_is_told_of_a_tree() -> None:
    """Marks stand in all that a node has, its id included; the policy reveals one of two nodes."""

    def marked(name: str, parent: str | None, mark: str) -> Attempt:
        return Attempt(f"id-{mark}", parent, 1.0, "failed", {f"metric-{mark}": 1.0}, f"said {mark}", {}, f"tried {mark}")

    on = Tree("named", (marked("a", None, "SEEN"), marked("b", "id-SEEN", "HIDDEN")), task="task", root=tree("root>a").root)
    source = OPENS.replace("[0] * 4", "[0]")
    prompt = build(asked([judged(1, source, [on])], [on]))
    said = "".join(message.text for message in prompt.messages)

    assert "tried SEEN" in said
    assert "said SEEN" in said
    assert "id-SEEN" not in said, "ids are the policy's"
    assert "HIDDEN" not in said


@given(st.integers(0, 1_000), st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), max_size=8))
def test_whatever_a_policy_picks_a_prompt_tells_only_what_it_revealed(seed: int, picks: list[list[int]]) -> None:
    """Every node says its place in the tree; what was said of the others is nowhere."""
    on = broom(seed, chains=4, depth=4)
    on = replace(on, attempts=tuple(replace(node, feedback=f"said<{n}>") for n, node in enumerate(on.attempts, start=1)))
    source = f"""class Policy:
    def __init__(self, context): ...
    def decide(self, view):
        picks = {picks}[view.round - 1 :][:1]
        leaves = view.selectable
        return list(dict.fromkeys(leaves[pick % len(leaves)] for pick in picks[0])) if picks else []
"""
    version = judged(1, source, [on])

    told = {int(place) for place in re.findall(r"said<(\d+)>", user(build(asked([version], [on]))))}

    assert told <= set(version.evaluation.results[0].trajectory.revealed)


def test_the_replays_told_are_those_worth_least_and_the_one_worth_most() -> None:
    trees = [
        replace(tree("root>a", "a>b", root=0.0, scores={"a": score, "b": 10.0}), name=f"tree-{score:g}") for score in range(1, 10)
    ]
    said = user(build(asked([judged(1, OPENS, trees)], trees)))

    assert [name for name in (f'"tree-{score}"' for score in range(1, 10)) if name in said] == [
        '"tree-1"',
        '"tree-2"',
        '"tree-3"',
        '"tree-9"',
    ]


def test_replays_worth_little_are_told_of_several_groups_where_there_are_several() -> None:
    def of(task: str, score: int) -> Tree:
        on = tree("root>a", "a>b", root=0.0, scores={"a": score, "b": 10.0})
        return replace(on, name=f"{task}-{score}", task=task)

    trees = [*(of("hard", score) for score in range(1, 5)), of("easy", 9), of("easy", 8)]
    said = user(build(asked([judged(1, OPENS, trees)], trees)))

    assert [on.name for on in trees if f'"{on.name}"' in said] == ["hard-1", "hard-2", "easy-9", "easy-8"]


def test_what_another_version_got_on_the_same_tree_is_told_beside_a_replay() -> None:
    on = tree("root>a", root=0.0, scores={"a": 1.0})
    said = user(build(asked([judged(1, OPENS, [on]), judged(2, STOPS, [on])], [on])))

    assert "0 picks wasted; version 1 got 1.0040 here" in said


def test_earlier_versions_are_listed_with_their_reasons_values_and_faults() -> None:
    history = [
        judged(1, STOPS, rationale="begin"),
        judged(2, OPENS, parent=1, rationale='open "many"'),
        judged(3, BREAKS, parent=2, rationale="pick 99"),
        judged(4, "# again\n" + OPENS, parent=2, rationale="the same"),
    ]
    said = user(build(asked(history, twins={4: 2})))
    gain = (history[1].value or 0) - (history[0].value or 0)

    assert f'version 2 (model, from version 1): value {history[1].value:.4f} (+{gain:.4f}). "open \\"many\\""' in said
    assert 'version 3 (model, from version 2): faulted, bad-answer (unknown_node). "pick 99"' in said
    assert "on every tree it did exactly what version 2 had done" in said


def test_faults_of_earlier_versions_come_with_their_evidence_one_of_each_sort() -> None:
    history = [
        judged(1, OPENS),
        judged(2, BREAKS, rationale="first"),
        judged(3, "#\n" + BREAKS, rationale="second"),
        judged(4, STOPS),
    ]
    said = user(build(asked(history)))

    assert "version 3, which set out to" in said
    assert "version 2, which set out to" not in said
    assert "bad-answer (unknown_node) in round 1" in said
    assert "node 99 has not been revealed" in said


def test_a_parent_that_faulted_is_shown_with_its_evidence_to_be_repaired() -> None:
    said = user(build(asked([judged(1, OPENS), judged(2, BREAKS)])))

    assert "version 2, with a value of none" in said
    assert "It faulted; this is the evidence:" in said
    assert "Mend the fault first of all" in said
    assert "then it faulted: bad-answer" in said
    assert BREAKS.strip() in said


def test_inspirations_are_shown_with_why_and_counted_among_what_was_shown() -> None:
    first, second, third = judged(1, STOPS), judged(2, OPENS), judged(3, FOLLOWS)
    inspirations = (Inspiration(second, Purpose.QUALITY), Inspiration(first, Purpose.DIFFERENCE))
    prompt = build(asked([first, second, third], inspirations=inspirations))

    assert "shown because it is good" in user(prompt)
    assert "shown because it behaves differently" in user(prompt)
    assert prompt.shown == tuple(one.version.candidate.digest for one in (third, second, first))


def test_lessons_are_shown_under_their_numbers() -> None:
    assert '"L3: stop early"' in user(build(asked([judged(1, OPENS)], scratchpad=("L3: stop early",))))


def test_a_repair_shows_the_answer_what_was_wrong_with_it_and_the_form_once_more() -> None:
    prompt = build(asked([judged(1, OPENS)], repair=Repair("my answer", "block 2 fits nowhere", "Send the whole file.")))

    assert [message.role for message in prompt.messages] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER]
    assert prompt.messages[2].text == "my answer"
    assert "block 2 fits nowhere" in prompt.messages[3].text
    assert "Send the whole file." in prompt.messages[3].text
    assert answer_form(EditKind.BLOCKS) in prompt.messages[3].text
    assert prompt.messages[:2] == build(asked([judged(1, OPENS)])).messages


def test_an_empty_answer_is_repaired_without_an_empty_message() -> None:
    """Servers refuse messages without words."""
    assert build(asked([judged(1, OPENS)], repair=Repair("\n", "empty"))).messages[2].text == "(empty)"


def test_a_value_beyond_all_measure_is_told_in_few_digits() -> None:
    on = tree("root>a", root=0.0, scores={"a": 1e300})
    settings = Settings(weights=Weights(normalize="none"))  # type: ignore[arg-type] # as the setting is written
    said = user(build(asked([judged(1, OPENS, [on], settings=settings)], [on])))

    assert max(map(len, said.split())) < 200


def test_a_tree_that_is_not_for_development_stops_the_prompt() -> None:
    held_out = tree("root>a")
    ask = asked([judged(1, OPENS)])
    found = {one.digest: one for one in (*TREES, held_out)}
    leaked = replace(
        ask, parents=(judged(1, OPENS, [held_out]),), trees=DevelopmentTrees([one.digest for one in TREES], found.__getitem__)
    )

    with pytest.raises(ValueError, match="no development tree"):
        build(leaked)


def test_one_foreign_tree_among_the_figures_of_any_version_stops_the_prompt() -> None:
    """Neither its code nor its replays are shown, but its value is a mean over all its trees."""
    held_out = tree("root>a")
    ask = asked([judged(1, OPENS), judged(2, STOPS, [*TREES, held_out]), judged(3, FOLLOWS)])

    with pytest.raises(ValueError, match="no development tree"):
        build(ask)


def test_a_reader_that_hands_out_another_tree_is_stopped_too() -> None:
    trees = DevelopmentTrees([TREES[0].digest], {TREES[0].digest: TREES[1]}.__getitem__)

    with pytest.raises(ValueError, match="no development tree"):
        trees(TREES[0].digest)


def test_an_ask_needs_no_more_than_a_brief_a_kind_parents_and_trees() -> None:
    one = judged(1, OPENS)
    found = {on.digest: on for on in TREES}

    assert build(Ask(Brief(one, one, (one,)), EditKind.WHOLE, (one,), DevelopmentTrees(found, found.__getitem__))).cut == ()
