"""The soak that looks for leaks runs, whole and in small."""

from __future__ import annotations

import pytest

from benchmarks.soak import rows


@pytest.mark.docker
@pytest.mark.slow
def test_a_short_soak_leaks_nothing(engine: None) -> None:
    """Good and hostile replays end as they should; containers, processes, descriptors and files are as before."""
    found = {row.name.removeprefix("soak: "): row for row in rows(72, 40)}

    assert {row.met for row in found.values()} <= {True, None}, found
    assert found["replays"].figure.startswith("72 in ")
    assert "killed-by-seccomp 2" in found["how they ended"].figure
    assert {"memory of the harness", "descriptors", "threads", "processes", "files", "containers"} < set(found)
