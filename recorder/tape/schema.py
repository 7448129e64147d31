"""The tape's tables, as SQLAlchemy Core, and the SQL that makes them; the source for alembic and for every query.

Facts (all other tables) are apart from the measures derived from them (`measures`). Column types are portable to
PostgreSQL. Unknown is NULL, never 0. SQLite keeps the text of a definition: its comments, and the view
`exchange_metrics`, are for people who open a tape with plain `sqlite3`.

Requests of a session repeat each other. Those that do are versions of one *family*, whose parts have an order, and each
part the first and the last version that it is in: a body is the parts of its version. So a turn takes its new bytes and
little more: a list of parts for each turn would take more than a short turn itself. With an exchange exactly the parts
are deleted that no other has, and nothing is rewritten, as differences to a deleted exchange would have to be. Parts
are not compressed: the view `requests` has every body in plain SQL. A request that repeats nothing, or did not come
whole, stays in `exchanges.request_body`.
"""

import functools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any, Final, NamedTuple, get_origin

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    ClauseElement,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    or_,
    select,
    type_coerce,
)
from sqlalchemy import text as sql_text
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, PrimaryKeyConstraint
from sqlalchemy.types import TypeEngine

from wiretape.recorder.decode.metrics import METRICS, Measures, Metric, Timing
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.decode.turns import TURN_FIELDS
from wiretape.recorder.facts import FACTS, kinds
from wiretape.recorder.tape import definitions
from wiretape.recorder.tape.column_types import ColumnType, check_when_read, declared
from wiretape.recorder.tape.peek import APPLICATION_ID, REVISION

AUTO_VACUUM = 2
"""SQLite's `auto_vacuum` of a new tape: free pages can be given back to the file system, a few at a time."""

METRICS_VIEW = "exchange_metrics"
"""The view for people: a row per exchange, times in ms."""

VIEWS: Final = (METRICS_VIEW, "reads", "read_gaps", "requests", "turns")

_NAMED = {kind: f"{kind}_%(table_name)s_%(column_0_name)s" for kind in ("ix", "uq", "fk")}
metadata = MetaData(naming_convention={**_NAMED, "pk": "pk_%(table_name)s"})

_KEY = BigInteger().with_variant(Integer, "sqlite")
_JSON = JSON(none_as_null=True)


_TYPES: Final[dict[Any, TypeEngine[Any]]] = {
    int: BigInteger(), float: Float(), str: Text(), bool: Boolean(), tuple: Text(), bytes: LargeBinary(),
}  # fmt: skip
"""The column type of a value, by its Python type; others are JSON."""

_COUNTED_IN_BYTES: Final = re.compile(r"(?:^|_)(?:bytes|ns)$")


def _facts() -> Iterator[Column[Any]]:
    """Yield the columns of the facts; a number or a truth that cannot be unknown is 0 until it is observed."""
    for name, entry in FACTS.items():
        kind, *alternatives = kinds(entry)  # None, if it may be unknown
        type = Integer() if kind is int and not _COUNTED_IN_BYTES.search(name) else _TYPES[kind]
        default = None if alternatives or kind is str else "0"
        index = entry.metadata["is_indexed"] or None
        comment = entry.metadata["doc"]
        yield Column(name, type, nullable=bool(alternatives), server_default=default, index=index, comment=comment)


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
    Column("imported_from", Text, comment="format and name of the file that was imported; NULL: a recorder ran"),
    Column("dialects", _JSON, comment="the declarations of dialects that were given for its exchanges; NULL: none"),
    comment="one run of a recorder, or one import",
)

exchanges = Table(
    "exchanges",
    metadata,
    Column("no", _KEY, primary_key=True, comment="row number, to which the other tables refer"),
    Column("id", String(16), unique=True, nullable=False, comment="the exchange's id, 16 hex digits (X-Wiretape-Id)"),
    Column("session_no", _KEY, ForeignKey("sessions.no"), nullable=False, comment="sessions.no"),
    *_facts(),  # before a large body, so that they are read without it
    Column("request_model", Text, comment="the model asked for"),
    Column("request_headers", _JSON, nullable=False, comment="[[name, value]] as they were sent, redacted"),
    Column(
        "request_body",
        LargeBinary,
        comment="as it came, up to a cap; NULL, too, if it is in parts: see the view requests",
    ),
    Column("request_size", BigInteger, comment="bytes of the whole request body; NULL: not known, or still coming"),
    Column("request_sha256", String(64), comment="of the whole request body; NULL: not known, or still coming"),
    Column("request_truncated", Boolean, comment="the request body broke off; NULL: still coming, or not noted"),
    Column("labels", _JSON, nullable=False, comment="{key: value}, credentials redacted"),
    Column("response_headers", _JSON, comment="[[name, value]] as upstream sent them, redacted"),
    Column("response_trailers", _JSON, comment="[[name, value]] after the body, redacted; NULL: none, or not known"),
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

request_versions = Table(
    "request_versions",
    metadata,
    _exchange_no(),
    Column("family", BigInteger, nullable=False, comment="number of a family of request bodies"),
    Column("version", Integer, nullable=False, comment="1, 2, …: which of them this one is"),
    Index(None, "family", "version"),
    comment="the request bodies that are in parts: whole ones, which repeat others",
)

request_parts = Table(
    "request_parts",
    metadata,
    Column("no", _KEY, primary_key=True, comment="row number"),
    Column("family", BigInteger, nullable=False, comment="request_versions.family"),
    Column("position", BigInteger, nullable=False, comment="order of the parts of a version"),
    Column("since", Integer, nullable=False, comment="the first version that it is in"),
    Column(
        "until",
        Integer,
        nullable=False,
        comment="the last version that has it, or, if the newest has it, that can ever have it",
    ),
    Column("data", LargeBinary, nullable=False, comment="bytes of request bodies"),
    Index(None, "family"),
    comment="what versions of request bodies share, once",
)

_ARRAYS: Final = {
    "at_ns": "JSON: when the socket gave the first read, then the time to each next one; null: a damaged read, or in "
    "place of the array: not known",
    "relayed_ns": "JSON: how long after that each read had been handed on; null: never",
    "sizes": "JSON: body bytes of each read",
}


_DIGITS: Final = {name: f"digits: {about.removeprefix('JSON: ')}" for name, about in _ARRAYS.items()} | {
    "at_ns": "digits (a line of JSON: count, digits of each, base, others; then the numbers less base, two digits in a "
    "byte, F: among the others): when the socket gave the first read, then the time to each next one"
}


class Stream(NamedTuple):
    """The tables of one direction's bytes: while they arrive, and when the exchange has ended."""

    segments: Table
    bodies: Table


def _stream(prefix: str, content: str, sender: str) -> Stream:
    segments = Table(
        f"{prefix}segments",
        metadata,
        _exchange_no(),
        Column("seq", Integer, primary_key=True, autoincrement=False, comment="number of its first read"),
        Column("start", BigInteger, nullable=False, comment=f"offset of its first byte in {content}"),
        # Before a large column, so that they are read without it.
        *(Column(name, Text, nullable=False, comment=comment) for name, comment in _ARRAYS.items()),
        Column("data", LargeBinary, nullable=False, comment=f"bytes of {content}"),
        comment=f"reads of {content} as they came, those of one commit in a row, while the exchange is open",
    )
    bodies = Table(
        f"{prefix}bodies",
        metadata,
        _exchange_no(),
        Column("size", BigInteger, nullable=False, comment="bytes before compression"),
        Column("sha256", String(64), nullable=False, comment="of the bytes before compression"),
        *(Column(name, LargeBinary, nullable=False, comment=comment) for name, comment in _DIGITS.items()),
        Column("data", LargeBinary, nullable=False, comment="zlib; of length 0: not shipped, there are only measures"),
        comment=f"{content} of an ended exchange, byte for byte as {sender} sent it, and its reads",
    )
    return Stream(segments, bodies)


FROM_UPSTREAM: Final = _stream("", "the body", "upstream")
FROM_CLIENT: Final = _stream("client_", "the client's side of a WebSocket", "the client")
"""The bytes as they came: the client's frames are masked, either's may be compressed."""
STREAMS: Final = (FROM_UPSTREAM, FROM_CLIENT)
segments, bodies = FROM_UPSTREAM

_in_views = MetaData()

reads = Table(
    "reads",
    _in_views,
    Column("exchange_no", _KEY, ForeignKey(exchanges.c.no), primary_key=True, comment="exchanges.no"),
    Column("seq", Integer, primary_key=True, comment="0, 1, 2, …"),
    Column("at_ns", BigInteger, nullable=False, comment="when the socket gave it"),
    Column("relayed_ns", BigInteger, comment="when it had been handed to the client; NULL: never"),
    Column("start", BigInteger, nullable=False, comment="offset of its first byte in the body"),
    Column("size", Integer, nullable=False, comment="body bytes"),
    comment="what one socket read returned of a body, and when; fast for an exchange_no that is given",
)
"""A view, for people: programs read the arrays (`wiretape.recorder.tape.reading`)."""

read_gaps = Table(
    "read_gaps",
    _in_views,
    Column("exchange_no", _KEY, ForeignKey(exchanges.c.no), primary_key=True, comment="exchanges.no"),
    Column("seq", Integer, primary_key=True, comment="1, 2, …: the read that ended the gap"),
    Column("gap_ns", BigInteger, nullable=False, comment="from the read before it, with or without output"),
    comment="times between the reads of a body; those between output chunks are in exchange_metrics",
)
"""A view, for people."""

requests = Table(
    "requests",
    _in_views,
    Column("exchange_no", _KEY, ForeignKey(exchanges.c.no), primary_key=True, comment="exchanges.no"),
    Column("request_body", LargeBinary, comment="as it came, up to a cap; NULL, too, if a part of it is missing"),
    comment="the request body of each exchange, also where others share parts of it",
)
"""A view, for people."""

_TIMING: Final = {field.name for field in fields(Timing)}


def _of_turn(field: Field[Any]) -> Column[Any]:
    """Return the column of a value of a turn, times in ms."""
    kind, name, about = kinds(field)[0], field.name, field.metadata["doc"]
    if name.endswith("_ns"):
        return Column(f"{name[:-3]}_ms", Float, comment=f"{about}; ms")
    type: TypeEngine[Any] = Integer() if kind is int else Text() if kind is str else _JSON
    return Column(name, type, nullable=name not in _REQUIRED, comment=about)


_REQUIRED: Final = ("turn", "outcome")

turns = Table(
    "turns",
    _in_views,
    Column("exchange_no", _KEY, ForeignKey(exchanges.c.no), primary_key=True, comment="exchanges.no"),
    Column("exchange_id", String(16), comment="exchanges.id"),
    *map(_of_turn, TURN_FIELDS.values()),
    comment="the turns of sessions: over WebSockets, as Realtime's, and of hosted agents; of one that has ended",
)
"""A view, for people: programs read `measures.turns`."""


def _derived(field: Field[Any]) -> Column[Any]:
    """Return the column of a field of `Measures`."""
    kind, *alternatives = kinds(field)
    metric: Metric | None = field.metadata["metric"]
    is_count = kind is int and not alternatives and not (metric and metric.unit)
    type = Integer() if is_count else _TYPES.get(get_origin(kind) or kind) or _JSON
    index = field.name == "outcome" or None
    return Column(field.name, type, nullable=bool(alternatives), index=index, comment=field.metadata["doc"])


_TIED: Final = (
    "conversation_key", "conversation_parent", "response_id", "previous_response_id", "messages_hash", "continues_hash",
)  # fmt: skip
"""Columns by which the exchanges of a conversation find each other; most exchanges lack most of them."""

measures = Table(
    "measures",
    metadata,
    _exchange_no(),
    *map(_derived, sorted(fields(Measures), key=lambda field: field.name in _TIMING)),
    *(Index(f"ix_measures_{name}", name, sqlite_where=sql_text(f"{name} IS NOT NULL")) for name in _TIED),
    comment="derived from the facts by the decoder named; rebuilding gives the same",
)

COVERED = or_(measures.c.operation.is_(None), measures.c.operation.in_(GENERATIONS))
"""The condition for exchanges that rates and latencies cover: `wiretape.recorder.decode.operation.is_covered`."""

UNSIZED = and_(
    exchanges.c.clock == "none",
    measures.c.bytes == 0,
    exchanges.c.status.is_not(None),
    func.coalesce(exchanges.c.framing, "") != "none",
)
"""The condition for bodies of unknown size: of imports without times and bytes, unless they have no body at all."""

settlements = Table(
    "settlements",
    metadata,
    _exchange_no(),
    Column(
        "version",
        BigInteger,
        unique=True,
        nullable=False,
        comment="above all before it on this tape: microseconds of wall time since 1970, or one more than the last",
    ),
    comment="the order in which exchanges were settled, or derived again, for programs that follow a tape",
)

check_when_read(metadata)

_MOST_JOINED: Final = 256 << 20
"""Limit of a request body that is in parts, in bytes; SQLite makes no value of 1 GB."""
IS_PART_OF: Final = and_(
    request_parts.c.family == request_versions.c.family,
    request_versions.c.version.between(request_parts.c.since, request_parts.c.until),
)
"""The condition for the parts of a version of a request body."""

_OF_VERSION = select().where(request_versions.c.exchange_no == exchanges.c.no, IS_PART_OF)
_PARTS_SIZE = _OF_VERSION.add_columns(func.sum(func.length(request_parts.c.data))).scalar_subquery()
_TEXT_OF_PARTS = func.group_concat(request_parts.c.data, "").over(order_by=request_parts.c.position, rows=(None, None))
_JOINED = _OF_VERSION.add_columns(cast(_TEXT_OF_PARTS, LargeBinary)).limit(1).scalar_subquery()
_HAS_ALL_PARTS = (exchanges.c.request_size < _MOST_JOINED) & (exchanges.c.request_size == _PARTS_SIZE)
REQUEST_BODY: Final = type_coerce(
    func.coalesce(exchanges.c.request_body, case((_HAS_ALL_PARTS, _JOINED))), exchanges.c.request_body.type
).label("request_body")
"""The expression for the stored body of a request; NULL, too, if one of its parts is missing."""

_REQUESTS: Final = select(exchanges.c.no.label("exchange_no"), REQUEST_BODY)

IS_REQUEST_IN_PARTS: Final = exists().where(request_versions.c.exchange_no == exchanges.c.no)
"""The condition for requests whose body is in parts."""

alembic_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False, comment="the revision of this schema, as in user_version"),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
    comment="what alembic knows of this tape",
)

_OF_EXCHANGES: Final = (
    "no", "id", "session_no", "started_at", "method", "path", "upstream", "upstream_name", "labels", "request_model",
    "status", "ended_by", "gap_bytes", "connection_reused", "protocol", "clock",
)  # fmt: skip
_NOT_IN_VIEW: Final = {"exchange_no", "decoder_version", "outcome", "content", "reasoning", "refusal"}


def meaning(column: Column[Any]) -> str:
    """Return the description of a column, with its unit."""
    is_duration = column.table in (measures, read_gaps) or (column.name in _ARRAYS and column.table is not reads)
    is_duration |= column.name == "boot_ns"
    unit = "ns" if is_duration else "ns since T0"
    return f"{column.comment}; {unit}" if column.name.endswith("_ns") else str(column.comment)


def statements() -> Iterator[str]:
    """Yield the SQL that makes an empty tape of this schema."""
    yield f"PRAGMA auto_vacuum = {AUTO_VACUUM}"
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    yield f"PRAGMA user_version = {int(REVISION)}"
    for table in (alembic_version, *metadata.sorted_tables):
        yield from _definitions(table)
    yield from views()


@functools.cache
def _definitions(table: Table) -> tuple[str, ...]:
    """Return the SQL of a table and of its indexes."""
    definition = commented(table, str(CreateTable(table).compile(dialect=sqlite.dialect())))
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    return definition, *(str(CreateIndex(index).compile(dialect=sqlite.dialect())) for index in indexes)


def commented(table: Table, sql: str) -> str:
    """Return the definition of a table with the meaning of each column behind it."""
    return definitions.commented(sql, str(table.comment), {column.name: meaning(column) for column in table.c})


def described() -> str:
    """Return the columns of this schema as Python source for `wiretape.recorder.tape.tables`."""
    letters = {"BigInteger": "n", "Integer": "i", "Float": "f", "Text": "t", "Boolean": "b", "LargeBinary": "x"}
    lines = ["_COLUMNS: Final = {"]
    for table in metadata.tables.values():
        columns = []
        for column in table.c:
            # A capital letter: the column is never unknown. Keys, which are not checked, have none.
            letter = "" if not isinstance(column.type, ColumnType) else letters.get(column.type.cell.name, "j")
            columns.append(f"{column.name}:{letter if column.nullable else letter.upper()}")
        wrapped = textwrap.wrap(" ".join(columns), 108, break_on_hyphens=False, break_long_words=False)
        quoted = "\n".join(f'        "{line} "' for line in wrapped)
        lines.append(f'    "{table.name}": (\n{quoted}\n    ),')
    lines.append("}")
    expressions = {
        "_REQUEST_BODY": REQUEST_BODY.element,
        "_IS_REQUEST_IN_PARTS": IS_REQUEST_IN_PARTS,
        "_COVERED": COVERED,
        "_UNSIZED": UNSIZED,
    }
    for name, expression in expressions.items():
        compiled = select(expression).select_from(exchanges.outerjoin(measures))
        text = " ".join(_literal(compiled).removeprefix("SELECT ").rpartition("FROM exchanges LEFT")[0].split())
        lines.append(f"{name}: Final = (")
        lines += [f'    "{line} "' for line in textwrap.wrap(re.sub(r" AS \w+$", "", text), 110)]
        lines.append(")")
    return "\n".join(lines)


@functools.cache
def views() -> tuple[str, ...]:
    """Return the definitions of the views for people."""
    of_requests = _view(requests, f"FROM (\n{_literal(_REQUESTS)}\n)")
    return _metrics_view(), _view(reads, _READS), _view(read_gaps, _READ_GAPS), _view(turns, _TURNS), of_requests


def _view(columns: Table, query: str) -> str:
    names = ", ".join(columns.c.keys())
    notes = [f"-- {column.name}: {meaning(column)}" for column in columns.c if column.name != "exchange_no"]
    return "\n".join([f"CREATE VIEW {columns.name} AS -- {columns.comment}", *notes, f"SELECT {names}", query])


def _literal(clause: ClauseElement) -> str:
    return str(clause.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))


def _metrics_view() -> str:
    """Return the definition of the view of exchanges; it withholds the same values as lists and statistics."""
    entries = [(f"e.{name}", name, meaning(exchanges.c[name])) for name in _OF_EXCHANGES]
    entries.append(
        ("coalesce(e.request_model, m.response_model)", "model", "the model asked for, else the one that answered")
    )
    entries.append(("coalesce(m.outcome, 'open')", "outcome", "how the exchange ended; open: running, or not measured"))
    for column in measures.c:
        if column.name in _NOT_IN_VIEW or isinstance(declared(column), LargeBinary | JSON):
            continue
        source, name, note = f"m.{column.name}", column.name, str(column.comment)
        if name.endswith("_ns"):
            source, name, note = f"{source} / 1e6", f"{name[:-3]}_ms", f"{note}; ms"
        if column is measures.c.bytes:
            unsized = _literal(UNSIZED).replace("exchanges.", "e.").replace("measures.", "m.")
            source, note = f"CASE WHEN {unsized} THEN NULL ELSE {source} END", f"{note}; NULL if nobody knows"
        if column.name in METRICS and (flags := METRICS[column.name].withheld):
            flagged = " OR ".join(f"instr(' ' || m.flags || ' ', ' {flag} ')" for flag in flags)
            source, note = f"CASE WHEN {flagged} THEN NULL ELSE {source} END", f"{note}; NULL if {' or '.join(flags)}"
        entries.append((source, name, note))
    columns = definitions.lined([(f"{source} AS {name}", note) for source, name, note in entries])
    joined = "FROM exchanges AS e LEFT JOIN measures AS m ON m.exchange_no = e.no"
    return f"CREATE VIEW {METRICS_VIEW} AS SELECT -- one row per exchange, times in ms\n{columns}\n{joined}"


_BLOCK: Final = 32
"""Number of reads whose digits become text together: to look up each in the whole array takes quadratic time."""
_PLACES: Final = f"[0{',0' * (_BLOCK - 1)}]"


def _of_arrays(template: str) -> str:
    return ", ".join(template.replace("@", name) for name in _ARRAYS)


_HEAD: Final = "(SELECT value FROM json_each({}_head, '$[{}]'))"
"""A number of an array's first line; SQLite refuses `json_extract` in views of an untrusted schema."""
_TEXT: Final = f"hex(substr(@_cells, 1 + {_BLOCK // 2} * @_digits * each.key, {_BLOCK // 2} * @_digits)) AS @_text"
_NUMBER: Final = """CASE substr(@_text, 1 + @_digits * cell.key, 1)
        WHEN 'F' THEN (SELECT value FROM json_each(@_head, '$[3]."' || (block + cell.key) || '"'))
        ELSE @_base + CAST(substr(@_text, 1 + @_digits * cell.key, @_digits) AS INTEGER) END"""

# The conditions on exchange_no reach the tables, as every window is partitioned by it. The windows of bodies keep
# SQLite from unpacking first lines and blocks again for each read. The arrays of segments are gone
# through once, in the order of their elements.
_READS: Final = f"""FROM (
  SELECT exchange_no, first + place AS seq, CASE WHEN delta IS NOT NULL THEN sum(delta) OVER so_far END AS at_ns,
    sum(delta) OVER so_far + lag_ns AS relayed_ns, start + sum(size) OVER so_far - size AS start, size
  FROM (
    SELECT exchange_no, 0 AS first, 0 AS start, block + cell.key AS place,
      {_NUMBER.replace("@", "at_ns")} AS delta,
      {_NUMBER.replace("@", "relayed_ns")} AS lag_ns,
      {_NUMBER.replace("@", "sizes")} AS size
    FROM (
      SELECT exchange_no, {_BLOCK} * each.key AS block, max(count) OVER (PARTITION BY exchange_no) AS count,
        {_of_arrays("@_head, @_digits, @_base")},
        {_of_arrays(_TEXT)}
      FROM (
        SELECT exchange_no, max({_HEAD.format("at_ns", 0)}) OVER (PARTITION BY exchange_no) AS count,
          {_of_arrays("@_head, @_cells")},
          {_of_arrays(f"{_HEAD.format('@', 1)} AS @_digits, {_HEAD.format('@', 2)} AS @_base")}
        FROM (
          SELECT exchange_no, {_of_arrays("CAST(substr(@, 1, instr(@, x'0A') - 1) AS TEXT) AS @_head")},
            {_of_arrays("substr(@, instr(@, x'0A') + 1) AS @_cells")}
          FROM bodies WHERE typeof(at_ns) || typeof(relayed_ns) || typeof(sizes) = 'blobblobblob'
        )
      ), json_each('[0' || replace(hex(zeroblob((count - 1) / {_BLOCK})), '00', ',0') || ']') AS each
    ), json_each('{_PLACES}') AS cell
    WHERE block + cell.key < count
    UNION ALL SELECT exchange_no, first, start, key, delta, lag_ns, size FROM (
      SELECT exchange_no, first, start, key, array, value AS delta, lead(value) OVER one AS lag_ns,
        lead(value, 2) OVER one AS size
      FROM (
        SELECT exchange_no, seq AS first, start, key, 1 AS array, value FROM segments, json_each(at_ns)
        UNION ALL SELECT exchange_no, seq, start, key, 2, value FROM segments, json_each(relayed_ns)
        UNION ALL SELECT exchange_no, seq, start, key, 3, value FROM segments, json_each(sizes)
      )
      WINDOW one AS (PARTITION BY exchange_no, first ORDER BY key, array)
    )
    WHERE array = 1
  )
  WINDOW so_far AS (PARTITION BY exchange_no, first ORDER BY place)
)
WHERE at_ns IS NOT NULL"""

_READ_GAPS: Final = """FROM (
  SELECT exchange_no, seq, at_ns - lag(at_ns) OVER (PARTITION BY exchange_no ORDER BY seq) AS gap_ns FROM reads
)
WHERE gap_ns IS NOT NULL"""


def _value_of_turn(name: str) -> str:
    """Return the SQL of a value of a turn; SQLite refuses `json_extract` in views of an untrusted schema."""
    # Of an array, the text: a path into it would give its elements.
    value = f"(SELECT value FROM json_each(each.value) WHERE key = '{name}')"
    return f"{value} / 1e6 AS {name[:-3]}_ms" if name.endswith("_ns") else f"{value} AS {name}"


_TURNS: Final = f"""FROM (
  SELECT m.exchange_no, e.id AS exchange_id,
    {", ".join(map(_value_of_turn, TURN_FIELDS))}
  FROM exchanges AS e JOIN measures AS m ON m.exchange_no = e.no, json_each(m.turns) AS each
)"""
