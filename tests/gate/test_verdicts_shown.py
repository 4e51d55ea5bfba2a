"""A verdict on a terminal, in Markdown, as JUnit XML: all is said, and no name of a tree or policy says anything else."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import xmlschema
from junitparser import JUnitXml, TestSuite
from verdicts import LEDGER, verdict

from harness.cli.verdicts.junit import junit
from harness.cli.verdicts.markdown import code, escaped, markdown
from harness.cli.verdicts.shown import Shown
from harness.cli.verdicts.spark import sparkline
from harness.cli.verdicts.text import print_verdict
from harness.gate.verdict import Outcome
from harness.score import Objective, Settings, Weight

SCHEMA = Path(__file__).with_name("junit.xsd")
HOSTILE = "a|b\n# c [x](http://evil) ![](y) <img src=x onerror=1> `z` @everyone \x1b[2J \u202e www.evil.com _*~"


def shown(outcome: Outcome = Outcome.PASS, **changes: object) -> Shown:
    return Shown(verdict(outcome, **changes), "new.py", "v1", version=2, number=3)


def suites(document: bytes) -> dict[str, TestSuite]:
    """Return the suites of a report by the first word of their name."""
    return {suite.name.partition(":")[0]: suite for suite in JUnitXml.fromstring(document)}


@pytest.mark.parametrize(
    ("differences", "bars"),
    [
        ((0.01, 0.02, -0.005), "▃▇█"),
        ((0.0,), "·"),
        ((-1.0, 1.0), "▁█"),
        ((), ""),
    ],
)
def test_a_bar_says_which_side_is_ahead_and_how_far(differences: tuple[float, ...], bars: str) -> None:
    """Smallest first, to the scale of the largest."""
    reach = max(map(abs, differences), default=0.0)

    assert sparkline(differences, reach) == bars


def test_many_trees_are_shown_as_means_of_neighbours() -> None:
    bars = sparkline([place / 1000 for place in range(-500, 500)], 0.5)

    assert len(bars) == 40
    assert bars == "".join(sorted(bars, key="▁▂▃▄·▅▆▇█".index))


def test_the_answer_stands_first_then_every_part_group_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    print_verdict(shown())

    out = capsys.readouterr().out
    assert out.startswith("pass: new.py against v1\nthe gain is shown\n")
    assert re.search(r"^gain +pass +mean \+0.0138, lower bound \+0.0010$", out, re.MULTILINE)
    assert re.search(r"^second +2 +\+0.0125 +\+0.0000  ▄█$", out, re.MULTILINE)
    assert "look 2 at these trees, judged at level 0.007600. Of alpha 0.05, 0.012000 is left" in out
    assert f"Its entry in the ledger: {LEDGER}" in out
    assert "`harness promote v2 --verdict 3` makes it the incumbent" in out


def test_a_question_asked_again_says_that_nothing_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    asked = verdict()
    assert asked.look is not None
    print_verdict(replace(shown(), verdict=replace(asked, look=replace(asked.look, again=True))))

    assert "This question was asked before: it is look 2 again, and no level is spent." in capsys.readouterr().out


def test_where_nothing_was_replayed_no_look_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    print_verdict(shown(Outcome.REFUSE, look=None, groups=(), trees=()))

    assert "no look at the trees was spent" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["candidate", "reason", "words", "group", "note", "left_out"])
def test_no_name_or_reason_forges_a_line_on_a_terminal(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    forged = "a\npass: v9 against v1"
    plain = shown()
    of = plain.verdict
    made = {
        "candidate": replace(plain, candidate=forged),
        "reason": replace(plain, verdict=replace(of, reason=forged)),
        "words": replace(plain, verdict=replace(of, parts=(replace(of.parts[0], words=forged), of.parts[1]))),
        "group": replace(plain, verdict=replace(of, groups=(replace(of.groups[0], group=forged), of.groups[1]))),
        "note": replace(plain, notes=(forged,)),
        "left_out": replace(plain, verdict=replace(of, left_out=(("e" * 64, forged),))),
    }

    print_verdict(made[place])

    assert not any(line.startswith("pass: v9") for line in capsys.readouterr().out.splitlines())


def test_trees_left_out_are_counted_and_named_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = (*((f"{place:064d}", "it has no score") for place in range(7)), ("f" * 64, "it developed the candidate"))

    print_verdict(shown(left_out=left_out))

    out = capsys.readouterr().out
    assert "7 trees left out, it has no score: 000000000000, " in out
    assert " and 2 more\n" in out
    assert "1 tree left out, it developed the candidate: ffffffffffff" in out


def test_the_summary_says_what_the_terminal_says() -> None:
    told = markdown(shown(Outcome.CANNOT_TELL))

    assert told.startswith("## ❔ cannot-tell: <code>new.py</code> against <code>v1</code>\n\nthe gain is shown\n")
    assert "| gain | ❔ cannot-tell | mean +0.0138, lower bound +0.0010 |" in told
    assert "| <code>second</code> | 2 | +0.0125 | +0.0000 | ▄█ |" in told
    assert "- recorded as verdict 3 about v2\n" in told


class Elements(HTMLParser):
    """Collects the elements of a text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the signature is html's
        """Keep the element's name."""
        self.found.add(tag)


@pytest.mark.parametrize("place", ["candidate", "reason", "words", "group", "note", "left_out"])
def test_no_name_or_reason_becomes_markup_in_the_summary(place: str) -> None:
    """Not an element, a row, a heading, a link, a picture or a mention."""
    plain = shown()
    of = plain.verdict
    if place == "candidate":
        hostile = replace(plain, candidate=HOSTILE)
    elif place == "note":
        hostile = replace(plain, notes=(HOSTILE,))
    elif place == "words":
        hostile = replace(plain, verdict=replace(of, parts=(of.parts[0], replace(of.parts[1], words=HOSTILE))))
    elif place == "group":
        groups = (replace(of.groups[0], group=HOSTILE), of.groups[1])
        trees = tuple(replace(tree, group=HOSTILE) if tree.group == "first" else tree for tree in of.trees)
        hostile = replace(plain, verdict=replace(of, groups=groups, trees=trees))
    elif place == "reason":
        hostile = replace(plain, verdict=replace(of, reason=HOSTILE))
    else:
        hostile = replace(plain, verdict=replace(of, left_out=(("e" * 64, HOSTILE),)))

    told, before = markdown(hostile), markdown(plain)

    elements = Elements()
    elements.feed(told)
    assert elements.found == {"code", "details", "summary"}
    extra = {"note": 2, "left_out": 1}.get(place, 0)
    assert len(told.splitlines()) == len(before.splitlines()) + extra
    for line in told.splitlines():
        assert line.count("|") in {0, 3, 4, 6}, line
    assert not set("[]!@\x1b\u202e") & set(told)
    assert "://" not in told
    assert "www." not in told


def test_an_escaped_text_reads_as_what_it_was() -> None:
    assert html.unescape(escaped("a|b <c> `d` [e](f)")) == "a|b <c> `d` [e](f)"
    assert html.unescape(escaped("@all")) == "@\u200ball"
    assert escaped("a_b: 0.5 of v1.2") == "a_b: 0.5 of v1.2"
    assert escaped("_a_ http://x Www.x") == "&#95;a&#95; http&#58;//x Www&#46;x"
    assert code("x") == "<code>x</code>"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_report_follows_the_schema_and_comes_back_as_it_was(outcome: Outcome) -> None:
    """The schema is our own, written down from what CI systems read; junitparser reads the report back."""
    hostile = shown(outcome, reason=HOSTILE)
    document = junit(replace(hostile, candidate=HOSTILE))

    xmlschema.XMLSchema(SCHEMA).validate(document.decode())
    assert [case.name for case in suites(document)["gate"]] == ["distinct", "gain"]
    assert [case.name for case in suites(document)["groups"]] == ["first", "second"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSE, Outcome.CANNOT_TELL])
def test_a_part_that_does_not_pass_is_a_failure_of_its_kind(outcome: Outcome) -> None:
    gain = list(suites(junit(shown(outcome)))["gate"])[1]

    (failure,) = gain.result
    assert (failure.type, failure.message) == (outcome.value, "mean +0.0138, lower bound +0.0010")
    assert "p 0.01, test exact" in failure.text


def test_a_group_that_falls_below_the_margin_is_a_failure() -> None:
    of = verdict()
    groups = (replace(of.groups[0], difference=-0.06), of.groups[1])

    cases = list(suites(junit(shown(groups=groups)))["groups"])

    assert [case.is_passed for case in cases] == [False, True]
    assert cases[0].result[0].message == "mean difference -0.0600 over 2 trees, the margin is -0.0500"
    assert "tree first 0: +0.0100" in cases[0].result[0].text


def test_the_same_verdict_gives_the_same_bytes() -> None:
    assert junit(shown()) == junit(shown())


def test_what_was_compared_is_said_where_it_is_not_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Settings(objective=Objective.ATTAINMENT, weight=Weight.GROUP)
    other = shown(settings=asked)
    words = "objective attainment, groups weighted alike (auto)"

    print_verdict(other)
    assert capsys.readouterr().out.splitlines()[0] == f"pass: new.py against v1, {words}"
    assert words in markdown(other).splitlines()[0]
    assert words in suites(junit(other))["gate"].name
    assert "objective" not in markdown(shown()).splitlines()[0]
