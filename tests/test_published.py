"""What was published is made again to the last digit: the benchmark's manifest, on each backend, and a gate's, elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom
from test_manifest import template

from harness import manifest, rerun, treefile
from harness.cli.app import run
from harness.gate.judge import judge
from harness.gate.verdict import Bounds, Look
from harness.manifest import How, Kind, Policy
from harness.propose import templates
from harness.score import Effort, Settings, groups_of
from sandbox.base import GuestLimits
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.tree import Tree

PROJECT = Path(__file__).parents[1]
FILE = PROJECT / "benchmarks" / "manifests" / "examples.json"
OTHER = ("structlog", "25.5.0")
"""A library that no result asks for, in another version than this environment's."""


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("docker", marks=pytest.mark.docker), "local"])
def test_the_published_benchmark_comes_out_to_the_last_digit(
    backend: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if backend == "docker":
        request.getfixturevalue("engine")

    code = run(["verify", str(FILE), "--sandbox", backend])

    assert (code, capsys.readouterr().out.splitlines()[0]) == (
        0,
        "the same: 432 replays of 8 policies over 54 trees, every trajectory and figure to the last digit",
    )


def test_the_published_benchmark_is_of_todays_templates_and_trees() -> None:
    """Else: `harness bench --suite examples --manifest benchmarks/manifests/examples.json`."""
    said = manifest.read(FILE)
    found = {treefile.read(file).digest for file in treefile.find([PROJECT / "examples" / "trees"])}
    assert list(said.policies) == [policy_of(template.name) for template in templates.load()]
    assert {place.digest for place in said.trees} == found
    assert all((FILE.parent / str(place.file)).exists() for place in said.trees)


@pytest.mark.slow
def test_the_published_manifest_is_what_bench_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the other sandbox and in another place: only the environment differs, and the way from there to the trees."""
    code = run(["bench", "--suite", "examples", "--manifest", str(tmp_path / "again.json"), "--sandbox", "local"])

    assert code == 0
    assert comparable(tmp_path / "again.json") == comparable(FILE)


def comparable(file: Path) -> dict[str, Any]:
    """Return a manifest without what is said of the place where it was made."""
    said: dict[str, Any] = json.loads(file.read_text())
    del said["environment"]
    for place in said["trees"]:
        place["file"] = str((file.parent / place["file"]).resolve())
    return said


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the manifest of a gate that was held in the local sandbox."""
    folder = tmp_path_factory.mktemp("gated")
    trees: dict[str, Tree] = {}
    files: dict[str, Path] = {}
    for seed in range(12):
        tree = broom(seed, 6, 5)
        trees[tree.digest] = tree
        files[tree.digest] = folder / f"{seed}.jsonl"
        treefile.write(tree, files[tree.digest])

    def known(digests: Sequence[str]) -> list[Tree]:
        return [trees[digest] for digest in digests]

    sandbox = LocalSandbox()
    try:
        bench = rerun.Bench(sandbox, known, lambda _: Effort(), 1, lambda _: None, lambda: None)
        asked = [rerun.Asked(policy_of(name), list(trees)) for name in ("successive_halving", "round_robin")]
        entries = rerun.entries(asked, Settings(), bench)
        how = How(GuestLimits(), 1, sandbox.describe())
    finally:
        sandbox.close()
    candidate, incumbent = (entry.evaluation for entry in entries)
    groups = groups_of(incumbent.results, Settings().group_by)
    verdict = judge(candidate, incumbent, groups, Bounds(allow_local=True), Look(2, 0.0076, 0.03, 0.01))
    made = manifest.make(Kind.GATE, entries, how, files=files, beside=folder, verdict=verdict)
    manifest.write(made, folder / "gate.json")
    return folder / "gate.json"


def policy_of(name: str) -> Policy:
    candidate = template(name)
    return Policy(name, candidate.digest, candidate.origin, name, dict(candidate.params), candidate.source)


def verified(file: Path, *args: str, python: Path = Path(sys.executable), cwd: Path) -> subprocess.CompletedProcess[str]:
    """Verify in a process of its own, with an interpreter of choice."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    return subprocess.run(
        [str(python), "-m", "harness", "verify", str(file), *args],
        env=inherited | {"PYTHONPATH": str(PROJECT)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_verdict_comes_out_again_with_its_look(gated: Path, tmp_path: Path) -> None:
    ended = verified(gated, "--sandbox", "local", cwd=tmp_path)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "24 replays of 2 policies over 12 trees" in ended.stdout
    assert "and the verdict with every figure of its parts" in ended.stdout


@pytest.mark.docker
def test_a_verdict_held_locally_comes_out_again_in_docker(gated: Path, tmp_path: Path, engine: None) -> None:
    ended = verified(gated, "--sandbox", "docker", "--workers", "2", cwd=tmp_path)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_verdict_whose_figures_were_touched_up_is_found_out(gated: Path, tmp_path: Path) -> None:
    text = gated.read_text()
    said = manifest.read(gated)
    assert said.verdict is not None
    bound = next(part for part in said.verdict["parts"] if part["name"] == "gain")["figures"]["bound"]
    forged = gated.with_name("forged.json")
    forged.write_text(text.replace(repr(bound), repr(bound + 0.01)))

    ended = verified(forged, "--sandbox", "local", cwd=tmp_path)

    assert ended.returncode == 1
    assert "gate: part gain: " in ended.stdout


@pytest.fixture(scope="module")
def second_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of another virtual environment, with this one's libraries but for one in another version."""
    folder = tmp_path_factory.mktemp("second")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    inside = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (inside / "first.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wanted = "==".join(OTHER)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(inside), wanted], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if os.environ.get("HARNESS_REQUIRE_INDEX") == "1":
            pytest.fail(done.stderr)
        pytest.skip(f"pip cannot get {wanted}; give it a package index to run this test")
    return python


@pytest.mark.slow
@pytest.mark.parametrize("made", ["gate", "benchmark"])
def test_results_are_the_same_after_another_library_changed_its_version(
    second_environment: Path, gated: Path, tmp_path: Path, made: str
) -> None:
    """In a second virtual environment, by its own interpreter; the library that differs is named and changes nothing."""
    ended = verified(gated if made == "gate" else FILE, "--sandbox", "local", python=second_environment, cwd=tmp_path)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"environment: structlog is {OTHER[1]}, in the manifest " in ended.stdout
