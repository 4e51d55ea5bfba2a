"""What tests share: where recorded data lies, and builders of trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before numpy is loaded: xdist runs tests side by side already, and BLAS threads that wait for a core spin on it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder with recorded searches of other systems, or skip."""
    folder = Path(os.environ.get("HARNESS_SHARED", PROJECT.parent / "shared"))
    if not (folder / "trees").is_dir():
        pytest.skip(f"no recorded searches at {folder}; set HARNESS_SHARED to the folder that holds trees/")
    return folder
