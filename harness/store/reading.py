"""What every table is asked alike: the one row that has to be there, and the last number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from harness.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection, Row, Select


def one(connection: Connection, query: Select[Any], missing: str) -> Row[*tuple[Any, ...]]:
    """Return the first row of an answer.

    Raises:
        InputError: there is none; `missing` says what is not there.
    """
    row = connection.execute(query).first()
    if row is None:
        raise InputError(f"{missing} in the store")
    return row


def last(connection: Connection, column: Column[int], **where: int) -> int:
    """Return the highest number of a column, among the rows with these values; 0 where there are none."""
    query = select(func.coalesce(func.max(column), 0)).filter_by(**where)
    return connection.execute(query).scalar_one()
