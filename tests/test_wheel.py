"""Whoever installs the package has what a published benchmark takes."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
FIND = "from harness.cli.benchsets import Suite, place_of; print(place_of(Suite.EXAMPLES))"


@pytest.mark.slow
def test_a_wheel_carries_the_example_trees_as_a_suite_and_finds_them(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)

    found = subprocess.run(
        [sys.executable, "-c", FIND],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    assert Path(found) == installed / "harness" / "suites" / "examples"
    ours = {file.name: file.read_bytes() for file in (PROJECT / "examples" / "trees").rglob("*.jsonl")}
    assert {file.name: file.read_bytes() for file in Path(found).rglob("*.jsonl")} == ours
