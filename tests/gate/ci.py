"""Run what a CI system would: the `run:` steps of an action with its expressions filled in, the script of a GitLab job."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


def document(path: str) -> Any:
    """Return a YAML file of the project."""
    return YAML(typ="safe").load(PROJECT / path)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its expressions replaced; one that the test does not know is an error of the test."""
    return _EXPRESSION.sub(lambda match: values[match[1]], text)


@dataclass
class Runner:
    """A machine of a CI system: a folder to work in, and what steps hand on to each other."""

    folder: Path
    scratch: Path
    variables: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)

    def bash(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script as GitHub runs a step with `shell: bash`."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "PYTHON"))}
        path = os.pathsep.join([*self.path, os.environ["PATH"]])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env=inherited | self.variables | variables | {"PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def python_of_the_action(scratch: Path) -> str:
    """Return a folder for PATH whose `python` makes virtual environments that see what this one has installed.

    So the installation runs for real and offline: pip builds and installs the project, its dependencies are there.
    """
    site = sysconfig.get_path("purelib")
    folder = scratch / "setup-python"
    folder.mkdir()
    script = f"""#!/usr/bin/env bash
set -e
"{sys.executable}" "$@"
if [ "$1 $2 $3" = "-I -m venv" ]; then
    echo "{site}" > "$("$4/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/installed.pth"
fi
"""
    (folder / "python").write_text(script)
    (folder / "python").chmod(0o755)
    return str(folder)
