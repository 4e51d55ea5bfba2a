"""Whether a store is whole, for `harness doctor`: read everything, change nothing, answer in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select, text

from harness.errors import HarnessError
from harness.policy import digest_of
from harness.store import asked, ledger, rows, searches, tables, tries, verdicts
from harness.store.upgrade import differences
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Column, Connection

    from harness.store.database import Database


# Triggers that refuse, each with its table.
_IN_SQLITE = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%BEGIN SELECT RAISE(ABORT,%'"
_IN_POSTGRESQL = (
    "SELECT tgname, relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgenabled = 'O' AND proname = 'refuse_change' AND relnamespace = CAST(current_schema() AS regnamespace)"
)


def problems(database: Database) -> list[str]:
    """Return what is broken in a database."""
    found: list[str] = []
    for look in (
        _structure, differences, _guards, _numbers, _versions, _trees, _evaluations, asked.problems,
        tries.problems, ledger.problems, verdicts.problems, searches.problems,
    ):  # fmt: skip
        found += _looked(database, look)
    return list(dict.fromkeys(found))  # damage is met by several looks, and said once


def _looked(database: Database, look: Callable[[Connection], Iterator[str]]) -> list[str]:
    found: list[str] = []
    try:
        with database.read() as connection:
            found.extend(look(connection))
    except HarnessError as error:
        found.append(str(error))
    return found


def _structure(connection: Connection) -> Iterator[str]:
    """Ask SQLite about its pages and references; PostgreSQL keeps its own at every write."""
    if connection.dialect.name != "sqlite":
        return
    for (said,) in connection.exec_driver_sql("PRAGMA integrity_check"):
        if said != "ok":
            yield f"the file is damaged: {said}"
    for table, row, target, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} refers to something that is not in {target}"


def _guards(connection: Connection) -> Iterator[str]:
    """Look for every trigger on its table and doing what it should: one of that name alone keeps nothing."""
    is_sqlite = connection.dialect.name == "sqlite"
    guards = {(name, table) for name, table in connection.execute(text(_IN_SQLITE if is_sqlite else _IN_POSTGRESQL))}
    for table in tables.APPEND_ONLY:
        for change in ("update", "delete") if is_sqlite else ("update", "delete", "truncate"):
            if (f"append_only_{table}_{change}", table) not in guards:
                yield f"nothing keeps the rows of {table} from {change}"


def _numbers(connection: Connection) -> Iterator[str]:
    for table in ("versions", "runs", "evaluations", "events", "looks", "verdicts"):
        yield from _gaps(connection, tables.METADATA.tables[table].c.number)
    yield from _gaps(connection, tables.proposals.c.position, tables.proposals.c.run)
    yield from _gaps(connection, tables.exchanges.c.number, tables.exchanges.c.run, tables.exchanges.c.position)
    yield from _gaps(connection, tables.tries.c.number, tables.tries.c.run)


def _gaps(connection: Connection, number: Column[int], *within: Column[int]) -> Iterator[str]:
    query = select(func.count(number), func.min(number), func.max(number), *within).group_by(*within)
    for count, first, last, *members in connection.execute(query):
        if count and (first != 1 or last != count):
            where = "".join(f" of {column.name} {member}" for column, member in zip(within, members, strict=True))
            yield f"{number.table.name}{where} are {count}, numbered {first} to {last}: some are missing"


def _versions(connection: Connection) -> Iterator[str]:
    columns = tables.versions.c
    for number, digest, source in connection.execute(select(columns.number, columns.digest, columns.source)):
        if digest_of(source) != digest:
            yield f"the source of version {number} is not the one that was recorded: its digest differs"


def _trees(connection: Connection) -> Iterator[str]:
    columns = tables.trees.c
    for digest in connection.execute(select(columns.digest).order_by(columns.digest)).scalars().all():
        row = connection.execute(select(columns.header, columns.nodes).where(columns.digest == digest)).one()
        if rows.tree_from(row).digest != digest:
            yield f"tree {digest} is not the one that was recorded: its digest differs"


def _evaluations(connection: Connection) -> Iterator[str]:
    evaluations, replays, versions = tables.evaluations, tables.replays, tables.versions
    there = select(func.count()).where(replays.c.evaluation == evaluations.c.number).scalar_subquery()
    query = select(evaluations.c.number, evaluations.c.replays, there, evaluations.c.policy, versions.c.digest).join_from(
        evaluations, versions, evaluations.c.version == versions.c.number
    )
    for number, recorded, count, policy, digest in connection.execute(query):
        if count != recorded:
            yield f"evaluation {number} was recorded with {counted(recorded, 'replay')} and holds {count}"
        if policy != digest:
            yield f"evaluation {number} is one of another policy than its version"
