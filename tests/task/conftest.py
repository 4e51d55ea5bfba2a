"""Both backends of jobs, for everything that is scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.dockerjob import DockerJobs
from sandbox.localjob import LocalJobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.job import Jobs


@pytest.fixture(scope="session", params=[pytest.param("docker", marks=pytest.mark.docker), "local"])
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Return one backend after the other."""
    if request.param == "docker":
        request.getfixturevalue("engine")
    with DockerJobs() if request.param == "docker" else LocalJobs() as made:
        yield made


@pytest.fixture(scope="session")
def local_jobs() -> Iterator[Jobs]:
    """Return the backend that every machine has, for what does not depend on one."""
    with LocalJobs() as made:
        yield made
