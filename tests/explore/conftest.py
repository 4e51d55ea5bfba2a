"""What tests of live searches share: the local sandbox, and a bench in a folder of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from live_parts import Bench

from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    """Return a local sandbox that is closed after the tests of a file."""
    opened = LocalSandbox()
    yield opened
    opened.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a bench whose store is closed after the test."""
    made = Bench(tmp_path)
    yield made
    made.store.close()
