"""The proposer over templates: reproducible, resumable, never twice the same code, and it finds what is good."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import broom, judged_in_process

from harness.policy import Candidate, Origin, Version
from harness.propose.base import Brief, Judged
from harness.propose.search import TemplateSearch
from harness.propose.templates import Template, defaults, load, render
from harness.score import Evaluation, Settings

TREES = [broom(seed, chains=4, depth=4) for seed in range(3)]


def incumbent() -> Candidate:
    template = next(template for template in load() if template.name == "parallel_refine")
    return Candidate(render(template, defaults(template)), Origin.TEMPLATE, "", template.name, defaults(template))


def judged(number: int, candidate: Candidate) -> Judged:
    return Judged(Version(number, candidate, "2026-01-01T00:00:00Z"), judged_in_process(candidate, TREES))


def brief(history: list[Judged]) -> Brief:
    best = max(history, key=lambda entry: float("-inf") if entry.value is None else entry.value)
    return Brief(history[0], best, tuple(history))


def run(search: TemplateSearch, history: list[Judged], until: int) -> list[Judged]:
    history = list(history)
    while len(history) < until:
        candidate = search.propose(brief(history))
        assert candidate is not None
        history.append(judged(len(history) + 1, candidate))
    return history


def test_the_same_seed_proposes_the_same_code_and_another_seed_other_code() -> None:
    start = [judged(1, incumbent())]

    one, again, other = (run(TemplateSearch(load(), seed), start, 16) for seed in (1, 1, 2))

    assert [entry.version.candidate for entry in one] == [entry.version.candidate for entry in again]
    assert [entry.version.candidate for entry in one] != [entry.version.candidate for entry in other]


@pytest.mark.parametrize("stopped_after", [1, 2, 7, 8, 9, 14])
def test_a_search_made_anew_goes_on_as_the_first_one_would_have(stopped_after: int) -> None:
    whole = run(TemplateSearch(load(), 3), [judged(1, incumbent())], 16)

    resumed = run(TemplateSearch(load(), 3), whole[:stopped_after], 16)

    assert [entry.version.candidate for entry in resumed] == [entry.version.candidate for entry in whole]


def test_every_template_comes_first_at_its_defaults_and_no_code_comes_twice() -> None:
    history = run(TemplateSearch(load(), 0), [judged(1, incumbent())], 24)
    digests = [entry.version.candidate.digest for entry in history]
    first = {entry.version.candidate.template for entry in history[: len(load())]}

    assert first == {template.name for template in load()}
    assert len(set(digests)) == len(digests)


def test_candidates_name_the_version_they_are_based_on_and_why() -> None:
    history = run(TemplateSearch(load(), 0), [judged(1, incumbent())], 14)
    small_changes = [entry.version.candidate for entry in history if "a small change" in entry.version.candidate.rationale]

    assert small_changes
    for entry in history[1:]:
        position = entry.version.number
        best = brief(history[: position - 1]).best
        assert entry.version.candidate.parent == best.version.number
    for candidate in small_changes:
        parent = history[(candidate.parent or 0) - 1].version.candidate
        changed = [name for name, value in candidate.params.items() if parent.params[name] != value]
        assert candidate.template == parent.template
        assert 1 <= len(changed) <= 2


@pytest.mark.parametrize("params", [{"bygone": 3}, {"width": 10_000, "depth": 1}, {"width": "ten", "depth": 4}])
def test_a_version_of_a_template_as_it_was_once_is_searched_on_from(params: dict[str, object]) -> None:
    """Its parameters are no longer those of the template that bears its name; its code still is what it is."""
    old = replace(incumbent(), source=incumbent().source + "# once\n", params=params)

    history = run(TemplateSearch(load(), 0), [judged(1, old)], len(load()) + 4)

    assert len({entry.version.candidate.digest for entry in history}) == len(history)


def test_a_used_up_space_ends_the_search() -> None:
    source = '{# name = "stop"\nsummary = "stops" #}\nclass Policy: ...\n'
    template = Template("stop", "stops", (), source)
    known = Judged(
        Version(1, Candidate(render(template, {}), Origin.TEMPLATE, "", "stop", {}), "2026-01-01T00:00:00Z"),
        Evaluation("", "local", Settings(), ()),
    )

    assert TemplateSearch([template], 0).propose(Brief(known, known, (known,))) is None
