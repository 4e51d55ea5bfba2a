"""The picture of the layers in design.md, section 6, is kept by import-linter: a module without a place fails the build."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def test_every_import_contract_is_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_layers_that_the_package_draws_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    there = list(chain.from_iterable(re.findall(r"(?<!\()\b\w+", layer) for layer in layers))
    picture = (PROJECT / "harness" / "README.md").read_text().split("```")[1].removeprefix("text\n")
    drawn = list(chain.from_iterable(re.split(r"   +", line)[0].split() for line in picture.splitlines() if line))

    assert drawn == there


def test_no_two_test_modules_share_a_name() -> None:
    """Pytest imports them by name alone, and would take one for the other."""
    names = Counter(path.name for path in (PROJECT / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []
