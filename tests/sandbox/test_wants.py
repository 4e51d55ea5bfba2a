"""Nothing is skipped in CI for want of an engine: what a test lacks is told as a failure there."""

from __future__ import annotations

import pytest
from wants import want_of_docker


@pytest.mark.parametrize(("required", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_want_of_an_engine_fails_where_docker_is_required(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    """Elsewhere it skips; either way with the reason."""
    monkeypatch.setenv("HARNESS_REQUIRE_DOCKER", required)
    with pytest.raises(outcome, match="no second engine starts here"):
        want_of_docker("no second engine starts here")
