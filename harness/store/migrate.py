"""Bring a database to the tables of this version, or say why it cannot be.

A database that is up to date is only read, and without Alembic: importing it takes longer than most commands do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import column, inspect, select, table

from harness.store.tables import REVISION, VERSION_TABLE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from harness.store.database import Database


def migrate(database: Database) -> None:
    """Make or update the tables where that is needed.

    Raises:
        StoreError: the database belongs to a newer version or to another program, or is out of reach.
    """
    with database.opening():
        with database.read() as connection:
            if revision(connection) == REVISION:
                return
        from harness.store.upgrade import upgrade  # noqa: PLC0415 - for Alembic, as said above

        upgrade(database)


def revision(connection: Connection) -> str | None:
    """Return the migration that was applied last, None in a database that is not ours yet."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
