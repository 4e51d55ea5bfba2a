"""Campaigns in rows: each begins once and ends once; what becomes of it stands in searches, runs, verdicts and events."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from harness.store import tables
from harness.store.reading import last, one
from harness.store.records import Campaign, CampaignPlan

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row


def begin(connection: Connection, plan: CampaignPlan, at: str) -> Campaign:
    """Record that a campaign begins. The store holds its version."""
    number = last(connection, tables.campaigns.c.number) + 1
    connection.execute(insert(tables.campaigns).values(number=number, plan=asdict(plan), started_at=at))
    return campaign(connection, number)


def campaign(connection: Connection, number: int) -> Campaign:
    """Return a campaign."""
    query = select(tables.campaigns).where(tables.campaigns.c.number == number)
    return _campaign(one(connection, query, f"there is no campaign {number}"))


def campaigns(connection: Connection) -> list[Campaign]:
    """Return all campaigns, the first one first."""
    return list(map(_campaign, connection.execute(select(tables.campaigns).order_by(tables.campaigns.c.number))))


def finish(connection: Connection, number: int, at: str) -> Campaign:
    """Record that a campaign has come to its end; one that has stays as it is."""
    columns = tables.campaigns.c
    ended = update(tables.campaigns).where(columns.number == number, columns.finished_at.is_(None)).values(finished_at=at)
    connection.execute(ended)
    return campaign(connection, number)


def _campaign(row: Row[*tuple[Any, ...]]) -> Campaign:
    plan = CampaignPlan(**row.plan | {"trees": tuple(row.plan["trees"])})
    return Campaign(row.number, plan, row.started_at, row.finished_at)
