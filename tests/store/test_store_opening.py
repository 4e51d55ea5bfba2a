"""Opening a store: what is made, what is refused and in which words, and that migrations make the tables."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, make_url, text
from store_records import PASSWORD, candidate

from harness.errors import InputError, StoreError
from harness.store import Store
from harness.store.tables import VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_opening_makes_folder_file_and_tables(tmp_path: Path) -> None:
    """Characters that mean something in Alembic's settings are just a name; in a URL they are quoted as in any URL."""
    url = f"sqlite:///{tmp_path}/a %(b)s/deep er/h%25.db"

    with Store.open(url) as store:
        assert (store.head(), store.check()) == (0, [])

    assert (tmp_path / "a %(b)s/deep er/h%.db").is_file()


def test_migrations_make_the_tables_of_this_version(store: Store) -> None:
    """`check` compares them; a difference in any column, index or constraint is a sentence."""
    assert store.check() == []


def test_sqlite_writes_ahead_syncs_fully_and_keeps_references(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/h.db") as store, store._database.read() as connection:
        names = ("journal_mode", "synchronous", "foreign_keys", "recursive_triggers", "busy_timeout")
        assert [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names] == ["wal", 2, 1, 1, 30_000]


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/h.db"

    with Store.open(url) as writer, writer._database.write(), Store.open(url) as reader:
        assert reader.head() == 0


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    Store.open(url).close()
    _execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")  # noqa: S608 - our own words

    with pytest.raises(StoreError, match=r"written by a newer harness \(its tables are at 9999\); upgrade"):
        Store.open(url)


def test_a_database_of_another_program_is_refused_and_left_alone(url: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    _execute(url, "CREATE TABLE theirs (a INTEGER)")
    files = sorted(tmp_path.rglob("*")), [file.read_bytes() for file in tmp_path.rglob("*.db")]

    with pytest.raises(StoreError, match=r"tables of another program \(theirs\)"):
        Store.open(url)

    assert (sorted(tmp_path.rglob("*")), [file.read_bytes() for file in tmp_path.rglob("*.db")]) == files


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("dear diary\n" * 1000)

    with pytest.raises(StoreError, match=r"notes\.db: file is not a database; this file is no SQLite database"):
        Store.open(f"sqlite:///{file}")

    assert file.read_text() == "dear diary\n" * 1000


def test_a_damaged_file_is_an_error_in_words(tmp_path: Path) -> None:
    """Whatever meets the damage says so, and check goes on to its end."""
    file = _damaged(tmp_path / "h.db", first_page=60)

    with Store.open(f"sqlite:///{file}") as store:
        assert any("damaged" in said for said in store.check())
        with pytest.raises(StoreError, match=r"h\.db: .*the database is damaged; restore it"):
            store.versions()


def test_a_file_with_damaged_tables_is_not_opened(tmp_path: Path) -> None:
    file = _damaged(tmp_path / "h.db", first_page=1)

    with pytest.raises(StoreError, match=r"h\.db: .*the database is damaged; restore it"):
        Store.open(f"sqlite:///{file}")


@pytest.mark.parametrize("place", ["file/h.db", "folder"])
def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()

    with pytest.raises(StoreError, match=rf"{place}: .*choose another place"):
        Store.open(f"sqlite:///{tmp_path}/{place}")


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that this process may not write to; root gives up its rights for it."""
    user = os.geteuid()
    tmp_path.chmod(0o500)
    if user == 0:
        os.seteuid(65534)
    yield tmp_path
    os.seteuid(user)
    tmp_path.chmod(0o700)


def test_a_folder_without_permission_is_named(forbidden: Path) -> None:
    with pytest.raises(StoreError, match=r"Permission denied; choose another place"):
        Store.open(f"sqlite:///{forbidden}/new/h.db")


@pytest.mark.parametrize("writing", [False, True], ids=["at rest", "while it is written"])
def test_a_store_that_may_only_be_read_can_be_read(writing: bool) -> None:
    """SQLite's own way of reading a write-ahead log makes files beside it, which a reader may not be allowed to."""
    user = os.geteuid()
    # Not below pytest's own folder, which is closed to other users.
    with tempfile.TemporaryDirectory(suffix=" 100%25?") as folder:
        url = f"sqlite:///{quote(folder)}/h.db"
        with Store.open(url) as store:
            store.propose(None, candidate("x"), 0)
            if not writing:
                store.close()
            for file in Path(folder).iterdir():
                file.chmod(0o444)
            Path(folder).chmod(0o555)
            os.seteuid(65534 if user == 0 else user)
            try:
                with Store.open(url) as read:
                    assert [event.kind for event in read.events()] == ["proposed"]
                    with pytest.raises(StoreError, match="readonly database; choose another place"):
                        read.propose(None, candidate("y"), 1)
            finally:
                os.seteuid(user)
                Path(folder).chmod(0o755)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "h.db", "mysql://me@there/h", "sqlite+nothing:///h.db"])
def test_a_url_that_names_no_store_says_what_does(url: str) -> None:
    with pytest.raises(InputError, match="expected sqlite:///FILE or postgresql://"):
        Store.open(url)


@pytest.mark.parametrize(
    "url",
    [
        f"sqlite://me:{PASSWORD}@there/h.db",
        f"sqlite://me:{PASSWORD}@/",
        f"postgresql://me:{PASSWORD}@there:port/h",
        f"postgresql://me:a@{PASSWORD}@there/h",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InputError, match="expected sqlite:///FILE or postgresql://") as raised:
        Store.open(url)

    assert PASSWORD not in str(raised.value)


def test_a_server_out_of_reach_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="psycopg is missing: install dream-harness[postgres]")

    with pytest.raises(StoreError, match=r"me:\*\*\*@127.0.0.1:1/h: .*start the database server") as raised:
        Store.open(f"postgresql://me:{PASSWORD}@127.0.0.1:1/h?password={PASSWORD}")

    assert PASSWORD not in str(raised.value)


def test_a_wrong_password_is_not_repeated(postgresql: str) -> None:
    with pytest.raises(StoreError, match="password authentication failed") as raised:
        Store.open(postgresql.replace(PASSWORD, "guess"))

    assert "guess" not in str(raised.value)


def test_a_postgresql_without_its_driver_says_what_to_install() -> None:
    """In a process of its own, where psycopg cannot be imported."""
    code = "import sys; sys.modules['psycopg'] = None; from harness.store import Store; Store.open('postgresql://h/d')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ended.stderr.splitlines()[-1].endswith("install dream-harness[postgres]")


def test_a_writer_that_is_held_up_says_by_what(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/h.db") as one, Store.open(f"sqlite:///{tmp_path}/h.db") as other:
        with other._database.read() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 10")
        with one._database.write(), pytest.raises(StoreError, match="another process has been writing"):
            other.propose(None, candidate("x"), 0)


def test_a_store_that_is_up_to_date_opens_without_alembic(tmp_path: Path) -> None:
    """Its import takes longer than most commands do."""
    url = f"sqlite:///{tmp_path}/h.db"
    Store.open(url).close()
    code = f"import sys; from harness.store import Store; Store.open({url!r}); print('alembic' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "False\n"


def test_the_core_does_not_import_the_database() -> None:
    """The commands start fast: only what opens a store imports it."""
    code = "import sys, harness.score, harness.policy, harness.errors, harness.treefile; print('sqlalchemy' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "False\n"


def _execute(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(make_url(url).database or "")
        with connection:
            connection.execute(statement)
        connection.close()
        return
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _damaged(file: Path, first_page: int) -> Path:
    """Fill a store and overwrite its pages from one on."""
    with Store.open(f"sqlite:///{file}") as store:
        for number in range(50):
            store.propose(None, candidate(f"{number}" * 4000), number)
    with file.open("r+b") as raw:
        raw.seek(4096 * first_page)
        raw.write(b"\xff" * (file.stat().st_size - 4096 * first_page))
    return file
