"""Trees in rows: recorded once each, by digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from harness.errors import InputError
from harness.store import rows, tables
from harness.store.reading import one
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from harness.store.records import TreeRow
    from harness.tree import Tree


def add(connection: Connection, tree: Tree, at: str) -> bool:
    """Add a tree and say whether it was not there yet."""
    known = connection.execute(select(tables.trees.c.digest).where(tables.trees.c.digest == tree.digest)).first()
    if known is None:
        connection.execute(insert(tables.trees).values(**rows.tree_row(tree), added_at=at))
    return known is None


def tree(connection: Connection, digest: str) -> Tree:
    """Return a tree."""
    query = select(tables.trees.c.header, tables.trees.c.nodes).where(tables.trees.c.digest == digest)
    return rows.tree_from(one(connection, query, f"there is no tree {digest!r}"))


def lines(connection: Connection) -> list[TreeRow]:
    """Return all trees without their attempts, by name."""
    query = select(*(column for column in tables.trees.c if column.name != "nodes"))
    found = connection.execute(query.order_by(tables.trees.c.name, tables.trees.c.digest))
    return list(map(rows.tree_line, found))


def refuse_unknown(connection: Connection, digests: Collection[str]) -> None:
    """Refuse a plan over trees that the store does not hold."""
    known = set(connection.execute(select(tables.trees.c.digest)).scalars())
    unknown = sorted(set(digests) - known)
    if unknown:
        which = f"{counted(len(unknown), 'tree')} that the store does not hold, {unknown[0]!r} first"
        raise InputError(f"the plan names {which}; add what is missing")
