"""What Alembic runs to apply migrations: on the connection, and in the transaction, that `migrate` holds."""

from alembic import context

from harness.store.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
context.run_migrations()
