"""A verdict as Markdown, for the summary of a CI job or a comment on a change.

Names of trees and policies, groups and reasons are untrusted: a character that Markdown or HTML could read as more than itself
is written as an entity, so that a name makes no link, no picture, no mention and no row of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.cli import rules
from harness.cli.output import one_line, short
from harness.cli.verdicts.shown import DIGEST_SHOWN, figures, group_cells, left_out_words, look_words, next_words, sparklines
from harness.gate.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.cli.verdicts.shown import Shown

_MARKS = {Outcome.PASS: "✅", Outcome.REFUSE: "❌", Outcome.CANNOT_TELL: "❔"}
_PLAIN = re.compile(
    r"[^\W_]|[ ,;'()/+=%-]"  # alone, inside a line, none of them means anything
    r"|(?<=[0-9a-zA-Z])_(?=[0-9a-zA-Z])|(?<![wW][wW])\.|:(?= )"  # no emphasis inside of a word, and the start of no address
)
_CELL = 400
"""Characters of one cell; the JSON has the rest."""
_GROUPS = 50
"""Rows of the table of groups; the JSON has the rest."""


def markdown(shown: Shown) -> str:
    """Return the summary."""
    verdict = shown.verdict
    title = f"{code(shown.candidate)} against {code(shown.incumbent)}{rules.words(verdict.settings)}"
    lines = [f"## {_MARKS[verdict.outcome]} {verdict.outcome}: {title}", ""]
    lines += [escaped(verdict.reason), ""]
    for note in shown.notes:
        lines += [f"> ⚠️ {escaped(note)}", ""]
    parts = [[part.name, f"{_MARKS[part.outcome]} {part.outcome}", escaped(part.words)] for part in verdict.parts]
    lines += [*_table(("part", "outcome", "what was found"), "lll", parts), ""]
    if verdict.groups:
        sparks = sparklines(verdict)
        ordered = sorted(verdict.groups, key=lambda group: group.difference)
        rows = [[code(group.group), *group_cells(group), sparks.get(group.group, "")] for group in ordered[:_GROUPS]]
        lines += [*_table(("group", "trees", "difference", "in quality", "each tree"), "lrrrl", rows), ""]
        lines += ["Each bar is one tree: `▁▂▃▄` the candidate is behind, `▅▆▇█` it is ahead, `·` both are equal.", ""]
        if len(ordered) > _GROUPS:
            lines += [f"The worst {_GROUPS} of {len(ordered)} groups are shown.", ""]
    lines += [f"- {escaped(words)}" for words in left_out_words(shown)]
    lines += [f"- {escaped(words)}" for words in look_words(verdict.look, verdict.bounds)]
    lines += [f"- sandbox {code(verdict.sandbox)}"]
    lines += [f"- candidate {code(verdict.candidate[:DIGEST_SHOWN])}, incumbent {code(verdict.incumbent[:DIGEST_SHOWN])}"]
    lines += [f"- {words}" for words in [next_words(shown)] if words]
    lines += ["", "<details><summary>All figures</summary>", ""]
    lines += _table(("part", "figures"), "ll", [[part.name, escaped(figures(part.figures))] for part in verdict.parts])
    return "\n".join([*lines, "", "</details>", ""])


def escaped(text: str) -> str:
    """Return untrusted text as Markdown that shows it and does nothing else."""
    line = short(one_line(text), _CELL)
    return "".join(one if _PLAIN.match(line, place) else _entity(one) for place, one in enumerate(line))


def code(text: str) -> str:
    """Return an untrusted name in the letters of code, in which no mention is looked for."""
    return f"<code>{escaped(text)}</code>"


def _entity(character: str) -> str:
    # A space without width keeps a mention from being read out of the entity.
    return f"&#{ord(character)};" + ("\u200b" if character == "@" else "")


def _table(head: Sequence[str], aligned: str, rows: Iterable[Sequence[str]]) -> list[str]:
    rules = ["---:" if side == "r" else "---" for side in aligned]
    return [f"| {' | '.join(line)} |" for line in (head, rules, *rows)]
