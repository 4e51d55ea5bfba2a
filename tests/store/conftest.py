"""Stores for the contract suite: SQLite in a temporary folder, and a real PostgreSQL started for this session."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from store_records import PASSWORD

from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import ForkServerContext


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a server on a free loopback port, as `postgres` where root may not, and return the URL of its first database."""
    pytest.importorskip("psycopg", reason="psycopg is missing: install dream-harness[postgres]")
    programs = _programs()
    user = "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="harness-pg-"))
    if user:
        shutil.chown(folder, user)
    (folder / "password").write_text(PASSWORD)
    cluster = folder / "data"
    setup = ["initdb", "-D", cluster, "-U", "harness", "-A", "scram-sha-256", "--pwfile", folder / "password", "--no-sync"]
    subprocess.run([programs / setup[0], *setup[1:]], user=user, check=True, capture_output=True, cwd=folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = [programs / "postgres", "-D", cluster, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(start, user=user, stdout=log, stderr=log, cwd=folder)
    try:
        _await(programs, port, server)
        yield f"postgresql://harness:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGQUIT)  # PostgreSQL's "immediate": nothing of it is kept
        server.wait(timeout=30)
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database, or a schema of one, that holds nothing yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/folder/harness.db"
    return new_schema(request.getfixturevalue("postgresql"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Return an open store that holds nothing yet."""
    with Store.open(url) as opened:
        yield opened


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Start processes from a clean one that has imported the store: no connection of ours crosses a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.store", "sqlalchemy.dialects.postgresql.psycopg", "psycopg"])
    return context


def new_schema(server: str) -> str:
    """Make a schema and return the URL of a store in it; a whole database costs PostgreSQL a hundred times as much."""
    import psycopg  # noqa: PLC0415 - the fixture `postgresql` has skipped where it is missing

    name = f"t{time.monotonic_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}?options=-csearch_path%3D{name}"


def _programs() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = next((folder for folder in folders if (folder / "initdb").exists()), None)
    if found is None and (there := shutil.which("initdb")):
        found = Path(there).parent
    if found is None:
        pytest.skip("no PostgreSQL server on this machine: install postgresql (apt-get install postgresql)")
    return found


def _await(programs: Path, port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        ready = subprocess.run([programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False)
        if ready.returncode == 0:
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"the PostgreSQL server did not start (exit {server.poll()})")
