"""The store: trees, versions, evaluations and the append-only history, in SQLite or PostgreSQL.

Records go in, records come out; SQL, sessions and drivers' errors stay inside. Importing this package imports SQLAlchemy, so
only what opens a store imports it, and the commands import it when they run.
"""

from harness.errors import StaleError
from harness.store.records import LedgerEntry, Question, RecordedVerdict, Run, RunPlan, RunState, Spent, TreeRow
from harness.store.store import Store

__all__ = [
    "LedgerEntry",
    "Question",
    "RecordedVerdict",
    "Run",
    "RunPlan",
    "RunState",
    "Spent",
    "StaleError",
    "Store",
    "TreeRow",
]
