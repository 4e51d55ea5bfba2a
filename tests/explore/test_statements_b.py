"""Each numbered statement of the specification of rollouts has a test that names it, or a line in the document."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_every_statement_b_is_tested_or_explained() -> None:
    names = "\n".join(
        name
        for path in (PROJECT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    )
    tested = {int(number) for number in re.findall(r"(?<=_)b(\d+)(?=_)", names)}
    explained = {
        int(number) for number in re.findall(r"^\| B(\d+) \|", (PROJECT / "docs" / "rollouts.md").read_text(), re.MULTILINE)
    }

    assert sorted(set(range(1, 41)) - tested - explained) == []
    assert tested & explained == set(), "said to be one thing and the other"
