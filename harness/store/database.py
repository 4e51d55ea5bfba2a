"""One database by URL: transactions that read or write, pragmas and locks, and drivers' errors put into words.

SQLite runs in WAL mode with `synchronous = full`: a commit is on disk before it is reported. With `normal` it would survive the
death of any process as well, but a power loss could take the last commits with it, and "recorded" is a promise. Measured on
a virtual machine's disk, full costs 3 ms more for each commit, against the seconds that judging a version takes.

Writers wait for each other up to `PATIENCE_S` and then write one after the other; readers never wait.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from harness.errors import InputError, StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from sqlalchemy import URL, Connection, Engine

PATIENCE_S = 30
BEGIN = "harness_begin"
"""The execution option that says how SQLite begins a transaction; None leaves it without one."""
BACKENDS = ("sqlite", "postgresql")
# The one lock that all writers of a PostgreSQL database take, an arbitrary number that other programs will hardly use.
WRITE_LOCK = 0x6861_726E_6573_73
EXPECTED = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE"


class Database:
    """An engine with two kinds of transaction. `name` is the URL as it may be shown: without a password."""

    def __init__(self, url: str) -> None:
        parsed = _parsed(url)
        self.name = parsed.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.file = Path(parsed.database or "") if self.is_sqlite else None
        try:
            self._engine = _engine(parsed, is_sqlite=self.is_sqlite)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            wish = "install dream-harness[postgres]" if parsed.get_backend_name() == "postgresql" else EXPECTED
            raise InputError(f"{self.name}: its driver is missing ({error}); {wish}") from error
        self._writer = self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that reads.

        Raises:
            StoreError: the database is out of reach or damaged.
        """
        with self.in_words(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the one transaction that may write now; it is committed at the end, or leaves nothing behind.

        Raises:
            StoreError: the database is out of reach, damaged, full, not writable, or another process does not let go of it.
        """
        with self.in_words(), self._writer.begin() as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SET LOCAL lock_timeout = '{PATIENCE_S}s'"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": WRITE_LOCK})
            yield connection

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Hold this while a database is being made, so that others wait instead of failing.

        SQLite's change to WAL mode does not wait for other processes, whatever its timeout. The lock is the folder's: one on
        the file itself would, once closed, release the locks that SQLite holds on it in this process.
        """
        if self.file is None:
            yield
            return
        folder = self.file.parent
        with ExitStack() as held:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                held.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError as error:
                raise StoreError(f"{self.name}: cannot use the folder {folder}: {error.strerror}; {_WRITABLE}") from error
            yield

    def use_wal(self) -> None:
        """Switch SQLite to its write-ahead log, which stays with the file. Call it while `opening`, on a database of ours."""
        if self.is_sqlite:
            with self.in_words(), self._engine.connect().execution_options(**{BEGIN: None}) as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = wal")

    def close(self) -> None:
        """Close every connection. May be called again."""
        self._engine.dispose()

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Turn a driver's error into a StoreError that names the database and what helps."""
        try:
            yield
        except DBAPIError as error:
            raise StoreError(f"{self.name}: {_words(' '.join(str(error.orig).split()))}") from error


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # Not shown: what cannot be parsed may hold a password anywhere.
        raise InputError(f"the store's URL cannot be read; {EXPECTED}") from error
    if "@" in (parsed.host or ""):
        raise InputError(f"the store's URL holds more than one @; write one in a user or password as %40; {EXPECTED}")
    if parsed.drivername in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in BACKENDS:
        raise InputError(f"{parsed.get_backend_name()} is not supported; {EXPECTED}")
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise InputError(f"the store's URL names no file, and a store must outlive its process; {EXPECTED}")
    if parsed.get_backend_name() == "sqlite" and (parsed.host or parsed.username or parsed.port):
        raise InputError(f"the store's URL names a host, and SQLite has none; {EXPECTED}")
    return parsed


def _engine(url: URL, *, is_sqlite: bool) -> Engine:
    if not is_sqlite:
        # Minutes pass between two writes of a run: a connection that died meanwhile is replaced before it is used.
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": PATIENCE_S})
    engine = create_engine(_for_reading(url), connect_args={"timeout": PATIENCE_S})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _for_reading(url: URL) -> URL:
    """Return a URL that SQLite can open where nothing may be written: it reads no write-ahead log without files beside it.

    Where there is no log nobody is writing, and the file may be read as one that does not change.
    """
    file = Path(url.database or "").absolute()
    if not _may(file, os.R_OK) or (_may(file, os.W_OK) and _may(file.parent, os.W_OK)):
        return url
    log = file.with_name(file.name + "-wal")
    query = {"uri": "true", "mode": "ro"} | ({} if log.exists() else {"immutable": "1"})
    return url.set(database=f"file:{quote(str(file))}", query=query)


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=True)


def _set_up_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # this module begins transactions, not the driver
    connection.execute("PRAGMA synchronous = full")
    connection.execute("PRAGMA foreign_keys = on")
    connection.execute("PRAGMA recursive_triggers = on")  # else INSERT OR REPLACE deletes past the append-only triggers


def _begin_sqlite(connection: Connection) -> None:
    # A write that began as a read cannot wait for another writer: SQLite refuses it at once. So it says so from the start.
    statement = connection.get_execution_options().get(BEGIN, "BEGIN")
    if statement is not None:
        connection.exec_driver_sql(statement)


_WRITABLE = "choose another place with the store's URL, or make this one writable"

# What drivers say, in the order in which it is looked for, and what helps.
_HELP = (
    (("file is not a database",), "this file is no SQLite database; name another file, or move this one away"),
    (("malformed", "disk i/o error"), "the database is damaged; restore it from a copy (`harness doctor` says what is broken)"),
    (("database is locked", "lock timeout"), f"another process has been writing for {PATIENCE_S} s; wait for it or end it"),
    (("readonly", "unable to open", "permission denied"), _WRITABLE),
    (("full", "no space left"), "make room on its disk"),
    (("foreign key",), "the record names a run, version or tree that the store does not hold; record that first"),
    (("append-only",), "recorded history is never changed"),
    (("connection", "server closed"), "start the database server, or check host, port, user and password in the store's URL"),
)


def _words(said: str) -> str:
    lowered = said.lower()
    for signs, wish in _HELP:
        if any(sign in lowered for sign in signs):
            return f"{said}; {wish}"
    return said
