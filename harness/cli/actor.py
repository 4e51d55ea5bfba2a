"""Who does what is recorded: the CI job that a command runs in, else the user of this machine."""

from __future__ import annotations

import getpass
import os
import socket


def actor(given: str | None = None) -> str:
    """Return who acts: as given, or as the environment says."""
    return given or _job() or f"{_user()}@{socket.gethostname()}"


def _job() -> str | None:
    """Return the CI job with whoever set it off, None outside of CI."""
    said = os.environ.get
    if said("GITHUB_ACTIONS") == "true":
        run = f"{said('GITHUB_SERVER_URL')}/{said('GITHUB_REPOSITORY')}/actions/runs/{said('GITHUB_RUN_ID')}"
        return f"{said('GITHUB_ACTOR')}, job {said('GITHUB_JOB')} of {run}"
    if said("GITLAB_CI") == "true":
        return f"{said('GITLAB_USER_LOGIN')}, job {said('CI_JOB_NAME')} of {said('CI_JOB_URL')}"
    url = said("BUILD_URL")
    return f"job {said('JOB_NAME', '')} of {url}".replace("job  of", "job") if url else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"user {os.getuid()}"
