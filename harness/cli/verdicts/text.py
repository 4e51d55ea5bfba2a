"""A verdict on a terminal."""

from __future__ import annotations

from harness.cli.output import one_line, say, short, table
from harness.cli.verdicts.shown import Shown, group_cells, left_out_words, look_words, next_words, sparklines


def print_verdict(shown: Shown) -> None:
    """Print a verdict: the answer, its parts, the groups, and what is left of the level."""
    verdict = shown.verdict
    say(f"{verdict.outcome}: {one_line(shown.title)}\n{one_line(verdict.reason)}\n")
    parts = [[part.name, part.outcome, short(one_line(part.words), _WIDEST)] for part in verdict.parts]
    say(table(("part", "outcome", "what was found"), parts, left=_LEFT))
    if verdict.groups:
        sparks = sparklines(verdict)
        rows = [[group.group, *group_cells(group), sparks.get(group.group, "")] for group in verdict.groups]
        say("\n" + table(("group", "trees", "difference", "in quality", "each tree"), rows, left=_LEFT))
    left_out = left_out_words(shown)
    if left_out:
        say("\n" + "\n".join(map(one_line, left_out)))
    say("\n" + "\n".join(look_words(verdict.look, verdict.bounds)))
    for note in shown.notes:
        say(f"\n{one_line(note)}")
    following = next_words(shown)
    if following:
        say(f"\n{one_line(following)}")


_LEFT = ("part", "outcome", "what was found", "group", "each tree", "figures")
_WIDEST = 300
"""Characters of a part's words: a fault's message may hold whatever the policy wrote."""
