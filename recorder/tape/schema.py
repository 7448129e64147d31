"""The tape's tables, as SQLAlchemy Core, and the SQL that makes them; the source for alembic and for every query.

Facts (all other tables) are apart from what is derived from them (`measures`). Column types are portable to PostgreSQL.
Unknown is NULL, never 0. SQLite keeps the text of a definition: its comments, and the view `exchange_metrics`, are for
people who open a tape with plain `sqlite3`.
"""

from collections.abc import Iterator
from dataclasses import Field, fields
from types import UnionType
from typing import Any, Final, get_args, get_origin

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, PrimaryKeyConstraint
from sqlalchemy.types import TypeEngine

from recorder.decode.metrics import METRICS, Measures, Metric, Timing
from recorder.tape import definitions
from recorder.tape.cells import check_when_read, declared

APPLICATION_ID = 0x77746170
"""SQLite's `application_id` of every tape: the letters `wtap`."""

REVISION = "0005"
"""The alembic revision that this program reads and writes; as a number, the `user_version` of a tape."""

VIEW = "exchange_metrics"
"""The view for people: a row per exchange, times in ms."""

_NAMED = {kind: f"{kind}_%(table_name)s_%(column_0_name)s" for kind in ("ix", "uq", "fk")}
metadata = MetaData(naming_convention={**_NAMED, "pk": "pk_%(table_name)s"})

_KEY = BigInteger().with_variant(Integer, "sqlite")
_JSON = JSON(none_as_null=True)


def _exchange_no() -> Column[Any]:
    return Column("exchange_no", _KEY, ForeignKey("exchanges.no"), primary_key=True, comment="exchanges.no")


sessions = Table(
    "sessions",
    metadata,
    Column("no", _KEY, primary_key=True, comment="row number"),
    Column("uuid", String(36), unique=True, nullable=False, comment="identity of one run of a recorder"),
    Column("version", Text, nullable=False, comment="wiretape's version"),
    Column("pid", Integer, nullable=False, comment="process id of the relay"),
    Column("boot_id", Text, comment="identity of the machine's boot, where the system has one"),
    Column("listen", Text, nullable=False, comment="base URL that clients were given"),
    Column("upstreams", _JSON, nullable=False, comment="[[name, URL]], user info redacted; at the root without name"),
    Column("salt", LargeBinary, nullable=False, comment="key of the redaction hashes; the same in all of a tape"),
    Column("started_at", Text, nullable=False, comment="wall time, UTC, ISO 8601"),
    Column("heartbeat_at", Text, nullable=False, comment="when the relay was last heard of; wall time, UTC"),
    Column("ended_at", Text, comment="wall time, UTC; NULL: still running, or died"),
    comment="one run of a recorder",
)

exchanges = Table(
    "exchanges",
    metadata,
    Column("no", _KEY, primary_key=True, comment="row number; what the other tables refer to"),
    Column("id", String(16), unique=True, nullable=False, comment="the exchange's id, 16 hex digits (X-Wiretape-Id)"),
    Column("session_no", _KEY, ForeignKey("sessions.no"), nullable=False, comment="sessions.no"),
    Column("started_at", Text, nullable=False, index=True, comment="wall time at T0, UTC, ISO 8601; only for show"),
    Column("method", Text, nullable=False, comment="of the request"),
    Column("path", Text, nullable=False, comment="below the upstream's URL, with the query; secret values redacted"),
    Column("upstream", Text, nullable=False, comment="base URL of the API server, user info redacted"),
    Column("request_model", Text, comment="the model asked for"),
    Column("request_headers", _JSON, nullable=False, comment="[[name, value]] as the client sent them, redacted"),
    Column("request_body", LargeBinary, comment="as it came, up to a cap"),
    Column("request_size", BigInteger, comment="bytes of the request body that came; NULL: not known, or still coming"),
    Column("request_sha256", String(64), comment="of the request body that came; NULL: not known, or still coming"),
    Column("request_truncated", Boolean, comment="the request body broke off; NULL: still coming, or not noted"),
    Column("labels", _JSON, nullable=False, comment="{key: value}, credentials redacted"),
    Column("status", Integer, comment="HTTP status; NULL: no answer came"),
    Column("response_headers", _JSON, comment="[[name, value]] as upstream sent them, redacted"),
    Column("connection_reused", Boolean, comment="sent on a connection kept from an exchange before; NULL: not known"),
    Column("connected_ns", BigInteger, comment="connected, TLS included; NULL on a connection that was kept"),
    Column("sent_ns", BigInteger, comment="request written"),
    Column("headers_ns", BigInteger, comment="the read that completed the response head"),
    Column("end_ns", BigInteger, comment="the body ended, or the exchange was cut"),
    Column("client_closed_ns", BigInteger, comment="the client was seen to have left"),
    Column("ended_by", Text, index=True, comment="how the transport ended: a fact, no judgement; NULL: still open"),
    Column("ended_detail", Text, comment="the transport's own words, redacted"),
    Column("framing", Text, comment="how the body was delimited: chunked, length, close, none"),
    Column("bytes", BigInteger, nullable=False, server_default="0", comment="body bytes that upstream sent"),
    Column("gap_bytes", BigInteger, nullable=False, server_default="0", comment="body bytes that could not be stored"),
    Column("paused", Integer, nullable=False, server_default="0", comment="times upstream waited for a slow client"),
    Column("surplus", Boolean, nullable=False, server_default="0", comment="upstream sent bytes after the response"),
    Column("coarse_clock", Boolean, nullable=False, server_default="0", comment="timestamps are not of socket reads"),
    Column(
        "clock", Text, comment="whose time a read has: kernel (when it came), loop (when it was taken); NULL: not known"
    ),
    Column("clock_error_ns", BigInteger, comment="timestamps may be late by this much; NULL: not known"),
    comment="one request and its response: the facts; T0 is the moment before the request is sent upstream",
    sqlite_autoincrement=True,  # a number is not used again after its exchange was deleted
)

uploads = Table(
    "uploads",
    metadata,
    _exchange_no(),
    Column("start", BigInteger, primary_key=True, autoincrement=False, comment="offset in the request body, in bytes"),
    Column("data", LargeBinary, nullable=False, comment="bytes of the request body"),
    comment="pieces of a request body, while it is still coming",
)

reads = Table(
    "reads",
    metadata,
    _exchange_no(),
    Column("seq", Integer, primary_key=True, comment="0, 1, 2, …"),
    Column("at_ns", BigInteger, nullable=False, comment="when the socket gave it"),
    Column("relayed_ns", BigInteger, comment="when it had been handed to the client; NULL: never"),
    Column("start", BigInteger, nullable=False, comment="offset of its first byte in the body"),
    Column("size", Integer, nullable=False, comment="body bytes"),
    comment="what one socket read returned of a body, and when",
    sqlite_with_rowid=False,
)

segments = Table(
    "segments",
    metadata,
    _exchange_no(),
    Column("start", BigInteger, primary_key=True, autoincrement=False, comment="offset in the body, in bytes"),
    Column("data", LargeBinary, nullable=False, comment="bytes of the body"),
    comment="body bytes as they came, while the exchange is open",
)

bodies = Table(
    "bodies",
    metadata,
    _exchange_no(),
    Column("size", BigInteger, nullable=False, comment="bytes before compression"),
    Column("sha256", String(64), nullable=False, comment="of the bytes before compression"),
    Column("data", LargeBinary, nullable=False, comment="zlib"),
    comment="the body of an ended exchange, byte for byte as upstream sent it",
)

_TIMING: Final = {field.name for field in fields(Timing)}
_TYPES: Final[dict[Any, TypeEngine[Any]]] = {
    int: BigInteger(), float: Float(), str: Text(), tuple: Text(), bytes: LargeBinary(),
}  # fmt: skip
"""How a value is kept, by its type; what is not listed is JSON."""


def _derived(field: Field[Any]) -> Column[Any]:
    """Return the column of a field of `Measures`."""
    kind, *others = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
    metric: Metric | None = field.metadata["metric"]
    is_count = kind is int and not others and not (metric and metric.unit)
    type = Integer() if is_count else _TYPES.get(get_origin(kind) or kind) or _JSON
    index = field.name == "outcome" or None
    return Column(field.name, type, nullable=bool(others), index=index, comment=field.metadata["doc"])


measures = Table(
    "measures",
    metadata,
    _exchange_no(),
    *map(_derived, sorted(fields(Measures), key=lambda one: one.name in _TIMING)),
    comment="derived from the facts by the decoder named; rebuilding gives the same",
)

check_when_read(metadata)

alembic_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False, comment="the revision of this schema, as in user_version"),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
    comment="what alembic knows of this tape",
)

_OF_EXCHANGES: Final = (
    "no", "id", "session_no", "started_at", "method", "path", "upstream", "labels", "request_model", "status",
    "ended_by", "gap_bytes", "connection_reused", "clock",
)  # fmt: skip
_NOT_IN_VIEW: Final = {"exchange_no", "decoder_version", "outcome", "content", "reasoning", "refusal"}


def meaning(column: Column[Any]) -> str:
    """Return what a column holds, with its unit."""
    unit = "ns" if column.table is measures else "ns since T0"
    return f"{column.comment}; {unit}" if column.name.endswith("_ns") else str(column.comment)


def statements() -> Iterator[str]:
    """Yield the SQL that makes an empty tape of this schema."""
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    yield f"PRAGMA user_version = {int(REVISION)}"
    for table in (alembic_version, *metadata.sorted_tables):
        yield commented(table, str(CreateTable(table).compile(dialect=sqlite.dialect())))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        yield from (str(CreateIndex(index).compile(dialect=sqlite.dialect())) for index in indexes)
    yield view()


def commented(table: Table, sql: str) -> str:
    """Return the definition of a table with the meaning of each column behind it."""
    return definitions.commented(sql, str(table.comment), {column.name: meaning(column) for column in table.c})


def view() -> str:
    """Return the definition of the view for people; it withholds what lists and statistics withhold."""
    listed = [(f"e.{name}", name, meaning(exchanges.c[name])) for name in _OF_EXCHANGES]
    listed.append(
        ("coalesce(e.request_model, m.response_model)", "model", "the model asked for, else the one that answered")
    )
    listed.append(("coalesce(m.outcome, 'open')", "outcome", "how the exchange ended; open: running, or not measured"))
    for column in measures.c:
        if column.name in _NOT_IN_VIEW or isinstance(declared(column), LargeBinary | JSON):
            continue
        source, name, note = f"m.{column.name}", column.name, str(column.comment)
        if name.endswith("_ns"):
            source, name, note = f"{source} / 1e6", f"{name[:-3]}_ms", f"{note}; ms"
        if column.name in METRICS and (flags := METRICS[column.name].withheld):
            flagged = " OR ".join(f"instr(' ' || m.flags || ' ', ' {flag} ')" for flag in flags)
            source, note = f"CASE WHEN {flagged} THEN NULL ELSE {source} END", f"{note}; NULL if {' or '.join(flags)}"
        listed.append((source, name, note))
    columns = definitions.lined([(f"{source} AS {name}", note) for source, name, note in listed])
    joined = "FROM exchanges AS e LEFT JOIN measures AS m ON m.exchange_no = e.no"
    return f"CREATE VIEW {VIEW} AS SELECT -- one row per exchange, times in ms\n{columns}\n{joined}"
