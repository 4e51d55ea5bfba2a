"""What a test does that lacks a real part, Docker or a language model: elsewhere it is skipped, in CI it fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def want_of_docker(reason: str) -> NoReturn:
    """Skip for this reason; under HARNESS_REQUIRE_DOCKER=1 fail instead."""
    if os.environ.get("HARNESS_REQUIRE_DOCKER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def want_of_a_model(reason: str) -> NoReturn:
    """Skip for this reason; under HARNESS_REQUIRE_MODELS=1 fail instead."""
    if os.environ.get("HARNESS_REQUIRE_MODELS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
