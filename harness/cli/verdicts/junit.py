"""A verdict as JUnit XML: a test case for each part, and one for each group of trees.

A part that cannot tell is a `failure` of the type `cannot-tell`, like one that refuses is of the type `refuse`: the check did
not pass, the job ends with exit code 1, and CI systems show a skipped test as no reason for that. No times, no host and no
date stand in the file: the same verdict gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from junitparser import Failure, JUnitXml, TestCase, TestSuite

from harness.cli.output import clean, number
from harness.cli.verdicts.shown import figures, look_words
from harness.gate.verdict import Outcome
from harness.words import counted

if TYPE_CHECKING:
    from harness.cli.verdicts.shown import Shown
    from harness.gate.verdict import GroupDifference, Part, Verdict


def junit(shown: Shown) -> bytes:
    """Return the report."""
    verdict = shown.verdict
    report = JUnitXml("harness gate")
    parts = _suite(f"gate: {shown.title}", shown)
    for part in verdict.parts:
        parts.add_testcase(_part(part))
    report.add_testsuite(parts)
    if verdict.groups:
        groups = _suite(f"groups: {shown.title}", shown)
        for group in verdict.groups:
            groups.add_testcase(_group(group, verdict))
        report.add_testsuite(groups)
    report.update_statistics()
    document: bytes = report.tostring()
    return document


def _suite(name: str, shown: Shown) -> TestSuite:
    suite = TestSuite(clean(name))
    verdict = shown.verdict
    facts = {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "candidate": verdict.candidate,
        "incumbent": verdict.incumbent,
        "sandbox": verdict.sandbox,
        "level": "\n".join(look_words(verdict.look, verdict.bounds)),
    }
    # The schema wants properties before test cases.
    for fact, value in facts.items():
        suite.add_property(fact, clean(value))
    return suite


def _part(part: Part) -> TestCase:
    case = TestCase(clean(part.name), "gate.parts")
    if part.outcome is not Outcome.PASS:
        case.result = [_failure(part.outcome, part.words, figures(part.figures))]
    else:
        case.system_out = clean(f"{part.words}\n{figures(part.figures)}")
    return case


def _group(group: GroupDifference, verdict: Verdict) -> TestCase:
    """Return a group's test case: its mean difference is held against the margin that the part `groups` holds it against."""
    case = TestCase(clean(group.group), "gate.groups")
    margin = verdict.bounds.group_margin
    over = f"over {counted(group.trees, 'tree')}"
    words = f"mean difference {number(group.difference, signed=True)} {over}, the margin is {-margin:+.4f}"
    trees = "\n".join(
        f"{tree.name}: {number(tree.difference, signed=True)}" for tree in verdict.trees if tree.group == group.group
    )
    if group.difference < -margin:
        case.result = [_failure(Outcome.REFUSE, words, trees)]
    else:
        case.system_out = clean(f"{words}\n{trees}")
    return case


def _failure(outcome: Outcome, words: str, evidence: str) -> Failure:
    failure = Failure(clean(words), outcome.value)
    failure.text = clean(f"{words}\n{evidence}")
    return failure
