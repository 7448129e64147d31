"""The server's tables, as columns: generated from the schema of the tape, so that a new metric is there, too. Pure.

`exchanges` has the facts, the measures and the gaps of every exchange, `streams` the bodies and the reads, and only
with `--bodies`; `sessions` has the runs of recorders, without the salt of their hashes. A column has the name, the unit
and the meaning that it has on the tape. Unknown is NULL. Sorted is by facts only, which never change: a row with a
higher `row_version` then replaces another of the same key.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, Table

from wiretape.recorder.tape import schema
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.schema import FROM_CLIENT, FROM_UPSTREAM, meaning

NUMBER: Final = "Int64"
TEXT: Final = "String"
VERSION: Final = "UInt64"
SECOND: Final = "DateTime('UTC')"
"""A second in UTC, in any time zone of the server: partitions use it."""
TEXTS: Final = "Array(String)"
GAPS: Final = "Array(Int64)"
COUNTS: Final = "Array(UInt32)"
PLACES: Final = "Array(Nullable(Int64))"

ROW_VERSION: Final = "row_version"

_TYPES: Final = ((Boolean, "UInt8"), (Float, "Float64"), (BigInteger, NUMBER), (Integer, "Int32"))
_NAMED: Final = {**{f"measures.{name}": GAPS for name in ("icl", "silences", "ping_gaps")}, "measures.gap_hist": COUNTS}
_SAID: Final = {
    "exchanges": ("request_headers", "request_body", "response_headers", "response_trailers"),
    "measures": (
        "error_message", "content", "reasoning", "refusal", "tool_calls", "choices", "asked", "attributes", "turns",
    ),
}  # fmt: skip
"""Texts of programs and models: only in `streams`."""
_KEYS: Final = ("no", "exchange_no", "session_no", "labels", "salt")
_ELEMENTS: Final = "prompt_elements"
"""Digests of a request's messages: verdicts from them need whole sessions, which only tapes have."""
_RENAMED: Final = {"exchanges.bytes": "body_bytes", "sessions.uuid": "session"}
"""Names that two columns of a row would share, or that say too little."""
_ARRAYS: Final = {"at_ns": PLACES, "relayed_ns": PLACES, "sizes": PLACES}


@dataclass(frozen=True, slots=True)
class EngineColumn:
    """A column of the server: its type in ClickHouse, and where on the tape it comes from; None: shipping adds it."""

    name: str
    type: str
    meaning: str
    source: Column[Any] | None = None


@dataclass(frozen=True, slots=True)
class EngineTable:
    """A table of the server.

    `key` is the sort key, `partition` an expression; rows older than `keep`, such as `13 MONTH`, are dropped
    by the engine. `granularity` is the number of rows that the server reads to find one.
    """

    name: str
    meaning: str
    columns: tuple[EngineColumn, ...]
    key: tuple[str, ...]
    shard_by: str
    partition: str
    keep: str | None = None
    granularity: int = 8192

    def column(self, name: str) -> EngineColumn:
        return next(column for column in self.columns if column.name == name)


def _of(table: Table, names: Iterable[str]) -> Iterator[EngineColumn]:
    """Yield columns as the tape has them; an exchange may have no measures, so that all of these may be unknown."""
    for name in names:
        column = table.c[name]
        nullable = bool(column.nullable) or table is schema.measures
        engine_name = _RENAMED.get(f"{table.name}.{name}", name)
        if (type := _NAMED.get(f"{table.name}.{name}")) is None:
            type = next((type for kind, type in _TYPES if isinstance(declared(column), kind)), TEXT)
            type = f"Nullable({type})" if nullable else type
        yield EngineColumn(engine_name, type, meaning(column), column)


def _plain(table: Table) -> Iterator[str]:
    """Yield the names of the columns of the table `exchanges`."""
    left_out = {*_KEYS, *_SAID[table.name], "id", "started_at", _ELEMENTS}
    return (column.name for column in table.c if column.name not in left_out)


def _streamed() -> Iterator[EngineColumn]:
    """Yield the columns of both directions: their reads, and the body as the tape has it."""
    for prefix, (segments, bodies) in (("", FROM_UPSTREAM), ("client_", FROM_CLIENT)):
        for name in ("size", "sha256", "at_ns", "relayed_ns", "sizes", "data"):
            column = bodies.c[name]
            kind = _ARRAYS.get(name) or f"Nullable({NUMBER if name == 'size' else TEXT})"
            about = f"of {bodies.comment}: {meaning(segments.c[name] if name in _ARRAYS else column)}"
            yield EngineColumn(f"{prefix}{'body' if name == 'data' else name}", kind, about, column)


_TENANT = EngineColumn("tenant", TEXT, "whose it is: the label of that name that was given to ship; empty: nobody said")
_STARTED = EngineColumn("started", SECOND, "started_at in whole seconds, which the table is sorted and divided by")
_ID = EngineColumn("id", TEXT, meaning(schema.exchanges.c.id), schema.exchanges.c.id)
_STARTED_AT = EngineColumn("started_at", TEXT, meaning(schema.exchanges.c.started_at), schema.exchanges.c.started_at)
_HOST = EngineColumn("host", TEXT, "the machine that shipped it")
_SESSION = EngineColumn("session", TEXT, "sessions.session: the run of a recorder", schema.sessions.c.uuid)
_LABELS = (
    EngineColumn("label_names", TEXTS, "the keys of the labels"),
    EngineColumn("label_values", TEXTS, "the values of the labels, in the order of their keys"),
)


def _version(source: Column[Any] | None, about: str) -> EngineColumn:
    return EngineColumn(ROW_VERSION, VERSION, about, source)


_OF_SETTLEMENTS = _version(
    schema.settlements.c.version,
    f"of rows with the same key the highest counts; {schema.settlements.c.version.comment}",
)
_KEY = ("tenant", "started", "id")

EXCHANGES: Final = EngineTable(
    "exchanges",
    "one request and its response: facts, measures and gaps",
    (
        _TENANT, _STARTED, _ID, _OF_SETTLEMENTS, _HOST, _SESSION, _STARTED_AT, *_LABELS,
        *_of(schema.exchanges, _plain(schema.exchanges)), *_of(schema.measures, _plain(schema.measures)),
    ),
    _KEY,
    "cityHash64(id)",
    "toYYYYMM(started)",
    "13 MONTH",
)  # fmt: skip

STREAMS: Final = EngineTable(
    "streams",
    "bodies of an exchange: messages, text, reads and the raw body",
    (
        _TENANT,
        _STARTED,
        _ID,
        _OF_SETTLEMENTS,
        _STARTED_AT,
        *_of(schema.exchanges, _SAID["exchanges"]),
        *_of(schema.measures, _SAID["measures"]),
        *_streamed(),
    ),
    _KEY,
    "cityHash64(id)",
    "toMonday(started)",
    "14 DAY",
    granularity=256,
)

SESSIONS: Final = EngineTable(
    "sessions",
    "one run of a recorder, and the progress of shipping its tape when this was written",
    (
        _TENANT,
        EngineColumn("started", SECOND, "started_at in whole seconds"),
        *_of(schema.sessions, ("uuid",)),
        _version(None, "of rows with the same key the highest counts: microseconds of wall time when it was shipped"),
        _HOST,
        *_of(schema.sessions, (column.name for column in schema.sessions.c if column.name not in {*_KEYS, "uuid"})),
        EngineColumn("tape", TEXT, "sessions.session of the first run on its tape: those of one tape have the same"),
        EngineColumn("shipped_at", TEXT, "when this row was shipped; wall time of its machine, UTC"),
        EngineColumn("waiting", NUMBER, "exchanges of the tape that were not shipped yet"),
        EngineColumn("lag_ms", "Nullable(Int64)", "how long the first of these had been settled; NULL: there was none"),
    ),
    ("tenant", "started", "session"),
    "cityHash64(session)",
    "toYYYYMM(started)",
    "13 MONTH",
)  # fmt: skip

_HOURS_KEY = ("tenant", "started", "host", "upstream", "model", "operation", "api")

HOURS: Final = EngineTable(
    "hours",
    "counts of the exchanges that began in an hour, by kind (wiretape fleet hours)",
    (
        _TENANT,
        EngineColumn("started", SECOND, "the hour, UTC"),
        _HOST,
        EngineColumn("upstream", TEXT, meaning(schema.exchanges.c.upstream)),
        EngineColumn("model", TEXT, "the model requested, else the one that answered; empty: unknown"),
        EngineColumn("operation", TEXT, "kind of request; empty: unknown"),
        EngineColumn("api", TEXT, "the API; empty: unknown"),
        _version(None, "of rows with the same key the highest counts: microseconds of wall time of counting"),
        EngineColumn("exchanges", NUMBER, "their count; 0: the exchanges counted here before have another kind now"),
        EngineColumn("failed", NUMBER, "of these, with an outcome that is a failure"),
        EngineColumn("client_closed", NUMBER, "of these, closed by the client"),
        EngineColumn("input_tokens", "Nullable(Int64)", "the sum of those that are known"),
        EngineColumn("output_tokens", "Nullable(Int64)", "the sum of those that are known"),
        EngineColumn("usage_known", NUMBER, "exchanges whose output tokens are known"),
        EngineColumn("ttft_known", NUMBER, "exchanges with a time to first output"),
        EngineColumn("ttft_mean_ns", "Nullable(Float64)", "their mean"),
        EngineColumn("ttft_p50_ns", "Nullable(Float64)", "their median"),
        EngineColumn("ttft_p99_ns", "Nullable(Float64)", "their 99th percentile"),
        EngineColumn("gap_hist", "Array(UInt64)", "gaps between output chunks by the bit length of their ns"),
    ),
    _HOURS_KEY,
    "cityHash64(tenant, host, model)",
    "toYYYYMM(started)",
)

SHIPPED: Final = (SESSIONS, EXCHANGES, STREAMS)
TABLES: Final = (*SHIPPED, HOURS)
