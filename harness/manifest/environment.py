"""What this process runs on, as a manifest tells it."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING

from harness import __version__
from harness.manifest.records import Environment

if TYPE_CHECKING:
    from sandbox.base import Isolation

PACKAGES = (
    "alembic",
    "docker",
    "dulwich",
    "jinja2",
    "junitparser",
    "numpy",
    "optuna",
    "pydantic",
    "pydantic-settings",
    "rich",
    "scipy",
    "sqlalchemy",
    "structlog",
    "typer",
)
"""What the harness is built on; a test keeps this to what pyproject.toml asks for."""


def environment(isolation: Isolation | None) -> Environment:
    """Return the environment; `isolation` of None is that of a result for which nothing was run."""
    return Environment(
        harness=__version__,
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        platform=platform.platform(),
        machine=platform.machine(),
        packages={name: _version(name) for name in PACKAGES},
        sandbox="none" if isolation is None else isolation.backend,
        sandbox_python=None if isolation is None else isolation.python,
        image=None if isolation is None else isolation.image,
        runtime=None if isolation is None else isolation.runtime,
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
