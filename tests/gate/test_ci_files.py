"""The action and the examples for CI systems follow the public schemas, and their shell steps do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ci import PROJECT, Runner, document, filled, python_of_the_action
from junitparser import JUnitXml

from harness import treefile
from harness.propose import templates
from harness.tree import set_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKER = str(Path(sys.executable).with_name("check-jsonschema"))
SCHEMAS = {
    "action.yml": "vendor.github-actions",
    ".github/workflows/ci.yml": "vendor.github-workflows",
    "docs/ci/github-gate.yml": "vendor.github-workflows",
    "docs/ci/gitlab-ci.yml": "vendor.gitlab-ci",
}
TREES_OF_A_TASK = 6
BETTER, USUAL = "successive_halving", "parallel_refine"
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", str(PROJECT))


def rendered(name: str) -> str:
    """Return the code of a template at its defaults."""
    template = next(template for template in templates.load() if template.name == name)
    return templates.render(template, templates.defaults(template))


def git(folder: Path, *args: str) -> str:
    """Run git as somebody."""
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    done = subprocess.run(["git", "-C", str(folder), *who, *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository that holds the usual policy, and one commit later a better one."""
    folder = tmp_path / "repository"
    policy = folder / "policies" / "mine"
    policy.mkdir(parents=True)
    (folder / "trees").mkdir()
    for task in sorted((PROJECT / "examples" / "trees").iterdir()):
        for file in sorted(task.glob("*.jsonl"))[:TREES_OF_A_TASK]:
            shutil.copy(file, folder / "trees")
    digest = set_digest(treefile.read(file).digest for file in (folder / "trees").iterdir())
    rules = (PROJECT / "examples" / "policies" / "halving" / "policy.toml").read_text()
    (policy / "policy.toml").write_text(re.sub('digest = "[0-9a-f]+"', f'digest = "{digest}"', rules))
    (policy / "policy.py").write_text(rendered(USUAL))
    # What a pull request adds must not run in the place of a module that a step imports.
    for module in ("json", "pathlib", "pip", "secrets", "venv"):
        (folder / f"{module}.py").write_text(f"raise SystemExit('{module} of the repository')\n")
    (folder / ".gitignore").write_text("trees\n.harness/\ngate-report/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "the usual policy")
    git(folder, "tag", "base")
    (policy / "policy.py").write_text(rendered(BETTER))
    git(folder, "commit", "-q", "-am", "a better policy")
    return folder


@pytest.fixture
def runner(repository: Path, tmp_path: Path) -> Runner:
    """Return a machine with this repository checked out."""
    scratch = tmp_path / "runner"
    scratch.mkdir()
    variables = {"RUNNER_TEMP": str(scratch)}
    for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        file = scratch / name.lower()
        file.touch()
        variables[name] = str(file)
    return Runner(repository, scratch, variables, [python_of_the_action(scratch)])


def act(runner: Runner, inputs: Mapping[str, str]) -> tuple[int, str]:
    """Run the action's own steps in order, as its runner does, and return how the last one ended and what was printed.

    What is installed once stays installed.
    """
    action = document("action.yml")
    given = {name: str(of["default"]) for name, of in action["inputs"].items()} | dict(inputs)
    values = {f"inputs.{name}": value for name, value in given.items()} | {"github.action_path": str(PROJECT)}
    said = ""
    for step in action["runs"]["steps"]:
        if "run" not in step or (step["name"] == "Install the harness" and (runner.scratch / "harness").exists()):
            continue
        variables = {name: filled(value, values) for name, value in step.get("env", {}).items()}
        ended = runner.bash(filled(step["run"], values), **variables)
        said += ended.stdout + ended.stderr
        if ended.returncode != 0:
            return ended.returncode, said
        added = Path(runner.variables["GITHUB_PATH"]).read_text().splitlines()
        runner.path = [*reversed(added), *[path for path in runner.path if path not in added]]
    return 0, said


@pytest.mark.parametrize(("file", "schema"), SCHEMAS.items())
def test_a_file_for_ci_follows_the_public_schema(file: str, schema: str) -> None:
    done = subprocess.run([CHECKER, "--builtin-schema", schema, str(PROJECT / file)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_step_pastes_an_input_into_its_script() -> None:
    """What a pull request says would run there; every expression comes in by a variable."""
    steps = document("action.yml")["runs"]["steps"]
    for job in document("docs/ci/github-gate.yml")["jobs"].values():
        steps += job["steps"]

    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_every_input_of_the_action_is_used() -> None:
    text = (PROJECT / "action.yml").read_text()

    assert [name for name in document("action.yml")["inputs"] if f"inputs.{name} " not in text] == []


@pytest.mark.docker
@pytest.mark.slow
def test_the_action_lets_a_better_policy_pass_and_refuses_a_worse_one(engine: None, runner: Runner) -> None:
    """Every `run:` step for real: installation, engine and image, the gate in Docker, summary and outputs."""
    inputs = {"policy-dir": "policies/mine", "base": "base", "trees": "trees", "install": "\n".join(OFFLINE)}

    code, said = act(runner, inputs)

    assert code == 0, said
    outputs = Path(runner.variables["GITHUB_OUTPUT"])
    assert outputs.read_text() == "outcome=pass\nexit-code=0\n"
    assert "| gain | ✅ pass |" in Path(runner.variables["GITHUB_STEP_SUMMARY"]).read_text()
    assert {case.name: case.is_passed for suite in JUnitXml.fromfile(runner.folder / "gate-report/gate.xml") for case in suite}[
        "gain"
    ]

    outputs.write_text("")
    worse = runner.folder / "policies" / "mine" / "policy.py"
    git(runner.folder, "tag", "--force", "base")
    worse.write_text(rendered(USUAL))
    code, said = act(runner, inputs)

    assert code == 1, said
    assert outputs.read_text() == "outcome=refuse\nexit-code=1\n"
    # What policies and trees are called stands between two lines with a secret word, where the runner takes no commands.
    lines = said.splitlines()
    (stop,) = [place for place, line in enumerate(lines) if line.startswith("::stop-commands::")]
    resume = lines.index(f"::{lines[stop].removeprefix('::stop-commands::')}::")
    assert any(line.startswith("refuse: ") for line in lines[stop:resume])


def test_the_workflow_finds_the_policies_that_change_and_no_others(runner: Runner) -> None:
    """Neither one that was deleted nor one of which only the rules changed."""
    for name in ("other", "gone", "rules"):
        shutil.copytree(runner.folder / "policies" / "mine", runner.folder / "policies" / name)
    git(runner.folder, "add", ".")
    git(runner.folder, "commit", "-q", "-m", "more policies")
    base = git(runner.folder, "rev-parse", "HEAD")
    (runner.folder / "policies" / "mine" / "policy.py").write_text(rendered("greedy"))
    (runner.folder / "policies" / "rules" / "policy.toml").write_text("# looser\n")
    new = runner.folder / "policies" / "new one"
    new.mkdir()
    (new / "policy.py").write_text(rendered("ucb"))
    git(runner.folder, "rm", "-q", "policies/gone/policy.py")
    git(runner.folder, "add", ".")
    git(runner.folder, "commit", "-q", "-m", "a change")
    (step,) = [step for step in document("docs/ci/github-gate.yml")["jobs"]["changed"]["steps"] if "run" in step]

    ended = runner.bash(
        step["run"], **{name: filled(of, {"github.event.pull_request.base.sha": base}) for name, of in step["env"].items()}
    )

    assert ended.returncode == 0, ended.stderr
    name, _, value = Path(runner.variables["GITHUB_OUTPUT"]).read_text().partition("=")
    assert (name, json.loads(value)) == ("policies", ["policies/mine", "policies/new one"])


@pytest.mark.parametrize(
    ("changed", "gate", "code"),
    [("success", "success", 0), ("success", "skipped", 0), ("success", "failure", 1), ("failure", "skipped", 1)],
)
def test_the_required_check_is_green_only_where_every_gate_was(runner: Runner, changed: str, gate: str, code: int) -> None:
    (step,) = document("docs/ci/github-gate.yml")["jobs"]["verdict"]["steps"]
    values = {"needs.changed.result": changed, "needs.gate.result": gate}

    assert runner.bash(step["run"], **{name: filled(of, values) for name, of in step["env"].items()}).returncode == code


@pytest.mark.docker
@pytest.mark.slow
def test_the_job_for_gitlab_gates_what_a_merge_request_changes(engine: None, runner: Runner) -> None:
    """Its whole script, with the engine of this machine in the place of its service."""
    job = document("docs/ci/gitlab-ci.yml")["gate"]
    made = runner.bash(f"python -I -m venv {runner.scratch}/image")
    assert made.returncode == 0, made.stderr
    runner.path.insert(0, f"{runner.scratch}/image/bin")
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": git(runner.folder, "rev-parse", "base"), "GITLAB_USER_LOGIN": "me"}

    ended = runner.bash("\n".join(job["script"]), HARNESS_PACKAGE=" ".join(OFFLINE), **variables)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "pass: policies/mine/policy.py" in ended.stdout
    (report,) = runner.folder.glob(job["artifacts"]["reports"]["junit"])
    assert JUnitXml.fromfile(report).failures == 0
