"""What the README shows is what happens: its policy is the one that runs, and its outputs are printed again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text()
HARNESS = str(Path(sys.executable).with_name("harness"))
OUTPUTS = dict(re.findall(r"<!-- output of: harness (.+?) -->\n```text\n(.*?)```", README, re.DOTALL))
FILES = dict(re.findall(r"<!-- file: (.+?) -->\n```python\n(.*?)```", README, re.DOTALL))


def without_what_varies(text: str) -> list[str]:
    """Drop what differs between machines: which sandbox there is, what it says of itself, and how long things took."""
    text = re.sub(r"\b(docker|local)( sandbox)?\b|sandbox (docker|local)\b", "SANDBOX", text)
    text = re.sub(r"in \d+\.\d s", "in T s", text)
    return [line.rstrip() for line in text.splitlines() if "not isolate" not in line and line.strip()]


def test_there_is_something_to_prove() -> None:
    assert len(OUTPUTS) == 2
    assert list(FILES) == ["my_policy.py"]


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_command_prints_what_the_readme_shows(command: str, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "examples").symlink_to(PROJECT / "examples")

    done = subprocess.run(
        [HARNESS, *command.split(), "--sandbox", "local"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    shown, printed = without_what_varies(OUTPUTS[command]), without_what_varies(done.stdout)
    assert [line for line in printed if line in shown] == shown, done.stdout


def test_every_command_in_the_readme_exists() -> None:
    for command in re.findall(r"^    harness ((?:trees |sandbox )?\w+)|`harness ((?:trees |sandbox )?\w+)", README, re.MULTILINE):
        words = next(filter(None, command)).split()
        done = subprocess.run([HARNESS, *words, "--help"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_link_in_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (PROJECT / target).exists(), target
