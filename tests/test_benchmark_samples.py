"""The benchmarks' samples of hostile policies: real in plain Python, held by the sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.hostile_kinds import HIDDEN, KINDS, PRELUDE, SAID
from benchmarks.peers import got_through
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from pathlib import Path

LEAVES_AND_STAYS_AWAY = {"leaves by os._exit", "never ends"}


def in_plain_python(kind: str, folder: Path) -> str:
    """Run a sample where nothing holds it, twice, and return what it said."""
    (folder / "secret").write_text(SAID)
    body = KINDS[kind].replace("{secret}", f"{folder}/secret").replace("{note}", f"{folder}/note")
    source = f"{PRELUDE}\nworld = {HIDDEN!r}\ndef decide():\n    {body}\ndecide()\n"
    done = [subprocess.run([sys.executable, "-c", source], check=False, capture_output=True, text=True) for _ in range(2)]
    return "".join(one.stderr for one in done)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - LEAVES_AND_STAYS_AWAY))
def test_a_sample_does_what_it_says_where_nothing_holds_it(kind: str, tmp_path: Path) -> None:
    """Else a sandbox that holds it would have shown nothing."""
    assert SAID in in_plain_python(kind, tmp_path)


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the local sandbox needs Linux")
def test_no_sample_gets_through_in_the_local_sandbox() -> None:
    """Their files lie where everybody could read and write them."""
    assert got_through(LocalSandbox()) == []
