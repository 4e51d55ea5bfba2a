"""The worked example of docs/promotion.md is run as it stands, in Docker, and comes out as it is shown there.

It is the whole way of a policy: the incumbent against itself, a sabotaged copy, a better one, a worse one, and back.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from ci import PROJECT

from harness.cli.app import run
from harness.gate.verdict import Outcome, PartName
from harness.propose import templates
from harness.store import Store

if TYPE_CHECKING:
    from pathlib import Path

PAGE = PROJECT.joinpath("docs", "promotion.md").read_text()
EXAMPLE = PAGE.partition("## A worked example\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```console\n(.*?)^```$", EXAMPLE, re.DOTALL | re.MULTILINE)
SHOWN = re.findall(r"^\$ (harness .+)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), re.MULTILINE)


def without_what_varies(text: str) -> list[str]:
    """Drop what is measured or names a moment: decision times and the ledger's head."""
    text = re.sub(r"\b\d+\.\d+ ms", "T ms", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def source(name: str) -> str:
    """Return the code of a template at its defaults."""
    template = next(template for template in templates.load() if template.name == name)
    return templates.render(template, templates.defaults(template))


@pytest.mark.docker
@pytest.mark.slow
def test_the_worked_example_comes_out_as_it_is_shown(
    engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    codes = []

    for command, shown in SHOWN:
        codes.append(run(shlex.split(command)[1:]))
        printed = without_what_varies(capsys.readouterr().out)
        assert [line for line in printed if line in without_what_varies(shown)] == without_what_varies(shown), command

    assert codes == [0, 1, 1, 0, 0, 1, 0, 0]
    with Store.open(f"sqlite:///{tmp_path}/.harness/harness.db") as store:
        same, sabotaged, better, worse = (row.verdict for row in store.verdicts())
        incumbent = store.incumbent()
    assert [part.name for part in same.parts] == [PartName.DISTINCT]
    assert [part.name for part in sabotaged.parts if part.outcome is not Outcome.PASS] == [PartName.GAIN]
    assert better.passed
    assert worse.outcome is Outcome.REFUSE
    assert incumbent is not None
    assert incumbent.candidate.source == source("parallel_refine")
    assert (tmp_path / "former" / "policy.py").read_bytes() == source("parallel_refine").encode()
