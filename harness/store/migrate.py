"""Bring a database to the tables of this version, or say why it cannot be.

Migrations lie in `migrations/versions`, each a frozen picture of what it changes; they never import `tables`. All that are
missing run in one transaction, so that a killed process leaves the old tables or the new ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from harness.errors import StoreError
from harness.store.tables import VERSION_TABLE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from harness.store.database import Database


def migrate(database: Database) -> None:
    """Make or update the tables; a database that is up to date is only read.

    Raises:
        StoreError: it belongs to a newer version or to another program, or is out of reach.
    """
    config = configuration()
    scripts = ScriptDirectory.from_config(config)
    with database.opening():
        with database.read() as connection:
            if revision(connection) == scripts.get_current_head():
                return
        with database.write() as connection:
            _refuse_others(connection, scripts, database.name)
        database.use_wal()
        with database.write() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def configuration() -> Config:
    """Return Alembic's settings: our migrations, whatever the folder they are installed in."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def revision(connection: Connection) -> str | None:
    """Return the migration that was applied last, None in a database that is not ours yet."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _refuse_others(connection: Connection, scripts: ScriptDirectory, name: str) -> None:
    current = revision(connection)
    if current is None:
        tables = sorted(inspect(connection).get_table_names())
        if tables:
            raise StoreError(
                f"{name}: holds tables of another program ({', '.join(tables[:5])}); give the store a database of its own"
            )
    elif current not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(f"{name}: was written by a newer harness (its tables are at {current}); upgrade dream-harness")
