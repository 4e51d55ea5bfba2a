"""The tables. `migrations/` builds them, and a test keeps the two equal.

Text that policies, models or tree files wrote is untrusted: it may hold lone surrogates and NUL, which PostgreSQL's text
refuses. It is kept as bytes (`Words`, `Json`). Only our own words (kinds, states, digests, times) are text columns.
Figures that must come back to the last bit stand in JSON: SQLite's REAL loses NaN and the sign of zero.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
)

from harness.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Dialect

VERSION_TABLE = "harness_schema"
"""Where Alembic notes the migration that was applied last: a name of our own tells our databases from others."""

REVISION = "0006"
"""The migration that makes these tables: the last one in `migrations/versions`."""

APPEND_ONLY = (
    "versions", "proposals", "evaluations", "replays", "events", "looks", "verdicts", "exchanges", "outcomes", "tries", "charges",
    "asides", "decisions", "attempts",
)  # fmt: skip
"""Tables whose rows the database itself refuses to change or delete."""

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


class Words(TypeDecorator[str]):
    """Text of any origin, kept as bytes so that every Python string comes back as it was."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the bytes to store."""
        return None if value is None else value.encode("utf-8", "surrogatepass")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the text that was stored."""
        return None if value is None else _decoded(value)


class Json(TypeDecorator[Any]):
    """A value of JSON, kept as bytes.

    Not escaped to ASCII: two lone surrogates in a row would come back from their escapes as one character.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the bytes to store."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the value that was stored."""
        if value is None:
            return None
        try:
            return json.loads(_decoded(value))
        except ValueError as error:
            raise StoreError(f"the store holds a value that is no JSON ({error}); run `harness doctor`") from error


def _decoded(value: bytes | str) -> str:
    if isinstance(value, str):  # SQLite keeps what it is given: somebody wrote text by hand, and the digests tell of it
        return value
    try:
        return bytes(value).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise StoreError(f"the store holds text that cannot be read ({error}); run `harness doctor`") from error


def _number(name: str = "number") -> Column[int]:
    # Given by the store under its write lock, so that numbers have no gaps: a sequence of the database would leave some.
    return Column(name, Integer, primary_key=True, autoincrement=False)


def _provenance() -> tuple[Column[Any], ...]:
    """Return the columns for where a candidate came from."""
    return (
        Column("origin", String, nullable=False),
        Column("rationale", Words, nullable=False),
        Column("template", Words),
        Column("params", Json, nullable=False),
        Column("parent", Integer, ForeignKey("versions.number")),
    )


trees = Table(
    "trees",
    METADATA,
    Column("digest", String, primary_key=True),
    Column("name", Words, nullable=False),
    Column("task", Words, nullable=False),
    Column("system", Words, nullable=False),
    Column("direction", String, nullable=False),
    Column("frontier", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("best", Double),
    Column("header", Json, nullable=False),
    Column("nodes", Json, nullable=False),
    Column("added_at", String, nullable=False),
)

versions = Table(
    "versions",
    METADATA,
    _number(),
    Column("digest", String, nullable=False, unique=True),
    Column("source", Words, nullable=False),
    *_provenance(),
    Column("created_at", String, nullable=False),
)

runs = Table(
    "runs",
    METADATA,
    _number(),
    Column("plan", Json, nullable=False),
    Column("state", String, nullable=False),
    Column("started_at", String, nullable=False),
    Column("finished_at", String),
    CheckConstraint("state in ('running', 'finished')", name="state"),
)

proposals = Table(
    "proposals",
    METADATA,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    _number("position"),
    Column("version", Integer, ForeignKey("versions.number"), nullable=False),
    *_provenance(),
)

evaluations = Table(
    "evaluations",
    METADATA,
    _number(),
    Column("run", Integer, ForeignKey("runs.number"), nullable=False),
    Column("version", Integer, ForeignKey("versions.number"), nullable=False),
    Column("split", String, nullable=False),
    Column("policy", String, nullable=False),
    Column("sandbox", String, nullable=False),
    Column("settings", Json, nullable=False),
    Column("replays", Integer, nullable=False),
    Column("value", Double),
    Column("judged_at", String, nullable=False),
    UniqueConstraint("run", "version", "split"),
)

replays = Table(
    "replays",
    METADATA,
    Column("evaluation", Integer, ForeignKey("evaluations.number"), primary_key=True),
    _number("place"),
    Column("tree", String, ForeignKey("trees.digest"), nullable=False),
    Column("value", Double),
    Column("stop", String, nullable=False),
    Column("fault", String),
    Column("result", Json, nullable=False),
)

events = Table(
    "events",
    METADATA,
    _number(),
    Column("kind", String, nullable=False),
    Column("version", Integer, ForeignKey("versions.number"), nullable=False, index=True),
    Column("run", Integer, ForeignKey("runs.number"), index=True),
    Column("to", Integer, ForeignKey("versions.number")),
    Column("reason", Words, nullable=False),
    Column("facts", Json, nullable=False),
    Column("at", String, nullable=False),
)

# The ledger of looks at held-out trees. Each entry is bound to the one before: `digest` is that of `previous` and `entry`.
looks = Table(
    "looks",
    METADATA,
    _number(),
    Column("previous", String, nullable=False, unique=True),
    Column("entry", Json, nullable=False),
    Column("digest", String, nullable=False, unique=True),
)

verdicts = Table(
    "verdicts",
    METADATA,
    _number(),
    Column("candidate", Integer, ForeignKey("versions.number"), nullable=False, index=True),
    Column("incumbent", Integer, ForeignKey("versions.number"), index=True),
    Column("outcome", String, nullable=False),
    Column("document", Json, nullable=False),
    Column("manifest", Json, nullable=False),
    Column("digest", String, nullable=False),
    Column("by", Words, nullable=False),
    Column("at", String, nullable=False),
)

# What a run asked of models, and what came of each answer: the n-th call for a position of the run.
exchanges = Table(
    "exchanges",
    METADATA,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    _number("position"),
    _number(),
    Column("request", String, nullable=False),
    Column("model", Words, nullable=False),
    Column("kind", String, nullable=False),
    Column("parents", Json, nullable=False),
    Column("document", Json, nullable=False),
    Column("at", String, nullable=False),
)

outcomes = Table(
    "outcomes",
    METADATA,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    _number("position"),
    _number(),
    Column("reason", String),
    Column("document", Json, nullable=False),
    Column("at", String, nullable=False),
)

# Every try to reach a model: what it may cost, written before it leaves, and what it did cost, written when it ended.
tries = Table(
    "tries",
    METADATA,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    _number(),
    Column("request", String, nullable=False),
    Column("model", Words, nullable=False),
    Column("bound", Json, nullable=False),
    Column("at", String, nullable=False),
)

charges = Table(
    "charges",
    METADATA,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    _number(),
    Column("paid", Json, nullable=False),
    Column("at", String, nullable=False),
)

# Why the models of a run are asked no more, and from which position on.
asides = Table(
    "asides",
    METADATA,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True, autoincrement=False),
    Column("position", Integer, nullable=False),
    Column("because", String, nullable=False),
    Column("reason", Words, nullable=False),
    Column("at", String, nullable=False),
)

# Live searches: the policy's answers, and the attempts in the order in which they ended.
searches = Table(
    "searches",
    METADATA,
    _number(),
    Column("task", Words, nullable=False),
    Column("plan", Json, nullable=False),
    Column("root", Json, nullable=False),
    Column("stop", String),
    Column("tree", String, ForeignKey("trees.digest")),
    Column("started_at", String, nullable=False),
    Column("finished_at", String),
)

decisions = Table(
    "decisions",
    METADATA,
    Column("search", Integer, ForeignKey("searches.number"), primary_key=True),
    _number(),
    Column("document", Json, nullable=False),
    Column("at", String, nullable=False),
)

attempts = Table(
    "attempts",
    METADATA,
    Column("search", Integer, ForeignKey("searches.number"), primary_key=True),
    _number(),
    Column("attempt", Integer, nullable=False),
    Column("decision", Integer, nullable=False),
    Column("parent", Integer),
    Column("snapshot", String),
    Column("document", Json, nullable=False),
    Column("elapsed", Json, nullable=False),
    Column("at", String, nullable=False),
    UniqueConstraint("search", "attempt"),
)

campaigns = Table(
    "campaigns",
    METADATA,
    _number(),
    Column("plan", Json, nullable=False),
    Column("started_at", String, nullable=False),
    Column("finished_at", String),
)

# A tree is asked for in "what has been replayed over it", and a foreign key without an index makes that a scan.
Index(None, replays.c.tree)
