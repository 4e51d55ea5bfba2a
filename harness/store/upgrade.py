"""Apply migrations with Alembic.

They lie in `migrations/versions`, each a frozen picture of what it changes; they never import `tables`. All that are missing
run in one transaction, so that a killed process leaves the old tables or the new ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from harness.errors import StoreError
from harness.store.migrate import revision
from harness.store.tables import METADATA, REVISION, VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from harness.store.database import Database


def upgrade(database: Database) -> None:
    """Apply the migrations that are missing. Call it while `database.opening()`.

    Raises:
        StoreError: the database belongs to a newer version or to another program, or is out of reach.
    """
    config = configuration()
    with database.write() as connection:
        _refuse_others(connection, ScriptDirectory.from_config(config), database.name)
    database.use_wal()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def differences(connection: Connection) -> Iterator[str]:
    """Tell where the database's tables, the migrations and the tables of this version are not the same."""
    head, current = ScriptDirectory.from_config(configuration()).get_current_head(), revision(connection)
    if not head == current == REVISION:
        yield f"this version's tables are at {REVISION}, its migrations end at {head}, the database is at {current}"
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    for difference in compare_metadata(context, METADATA):
        yield f"the tables differ from those of this version: {difference}"


def configuration() -> Config:
    """Return where Alembic finds the migrations; the caller adds the `connection` to apply them on as an attribute."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


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
