"""The viewer's SELECTs: a tape in, rows out (as columns for statistics: `overview`).

Every query is short: its transaction ends before a row is handed on, so that a reader never holds up the writer's
checkpoints, and data that belongs together (an exchange's facts and its body) is read in one. Lists come in batches, so
that memory does not grow with the tape. The format of rows is left to `rows`, decoding to
`wiretape.recorder.decode.derive`.
"""

import contextlib
import functools
import itertools
import json
import re
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import FAILURES, NOT_SHIPPED, Exchange, Reads
from wiretape.recorder.decode.metrics import DECODER_VERSION
from wiretape.recorder.errors import NotFound, TapeDamaged
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape import peek, reader, reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.redact import message
from wiretape.recorder.tape.selects import and_, bindparam, func, not_, or_, select
from wiretape.recorder.tape.tables import FROM_CLIENT, FROM_UPSTREAM, as_stored
from wiretape.recorder.tape.tables import bodies as _bodies
from wiretape.recorder.tape.tables import exchanges as _exchanges
from wiretape.recorder.tape.tables import measures as _measures
from wiretape.viewer.query.values import Searches
from wiretape.viewer.record import rows
from wiretape.viewer.record.chunks import Chunks
from wiretape.viewer.record.fields import FIELDS, HEADER_FIELDS, WORKED_OUT
from wiretape.viewer.record.rows import DetailRow, Exchanges, HeadersRow, RequestRow, TableRow
from wiretape.viewer.source.tape import conditions
from wiretape.viewer.source.tape.caching import Caching
from wiretape.viewer.source.tape.columns import JOINED, Statement, column, flagged
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.functions import ONLY, Pricing, Resolver, begun

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded

K = TypeVar("K")

_BATCH_OF_EXCHANGES = 200
_MOST_HELD = 16 << 20
_HEADS = select(
    *(_exchanges.c[name] for name in ("no", "request_headers", "response_headers", "response_trailers")),
    *(_exchanges.c[name] for name in ("framing", "method", "path")),
    reading.REQUEST_NEEDED,
    reading.DIALECTS,
)
_SENDERS: Final = {"upstream": FROM_UPSTREAM, "client": FROM_CLIENT}
EMPTY: Final = "the tape holds no exchanges yet: record some with 'wiretape record'"
"""The message for an empty tape."""

OUTDATED: Final = "an older decoder measured this tape: 'wiretape db rebuild' brings its measures up to date"
"""The warning beside measures that this version would derive differently."""

_LEAST_PREFIX = 4
_CANDIDATES = 5


@contextlib.contextmanager
def opened(path: Path, report: Callable[[str], None] | None = None) -> Iterator[Connection]:
    """Connect to a tape for reading; read errors are raised as `TapeError`, with messages of our own.

    At the end `report` is given a line for each row that was found damaged; by itself it prints them on stderr.
    """
    resolver, pricing = Resolver(), Pricing()
    caching = Caching(resolver)
    with explained(path), reader.opened(path) as connection:
        conditions.register(connection, Searches())
        for functions in (resolver, pricing, caching):
            functions.register(connection.driver)
            connection.prepare.append(functions.prepare)
        try:
            yield connection
        finally:
            with contextlib.suppress(sqlite3.Error):
                for line in connection.damaged_rows():
                    (report or report_damage)(line)


def report_damage(line: str) -> None:
    """Print a line about damage on standard error."""
    print(message(line), file=sys.stderr)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of reading a tape as `TapeError`, with messages of our own."""
    try:
        with peek.explained(path):
            yield
    except (zlib.error, json.JSONDecodeError, msgspec.MsgspecError) as error:
        raise TapeDamaged(f"{path} is damaged ({error}): run {peek.command('db check', path)}") from error


def in_batches(
    connection: Connection,
    statement: Statement,
    where: Condition | None = None,
    *,
    newest_first: bool = False,
    limit: int | None = None,
    columns: bool = False,
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a statement over `JOINED`, whose first column is `no`, in the order of that.

    `columns` yields their columns instead, unchecked.

    Each batch is read in a transaction of its own; `limit` is how many rows there are at most.
    """
    statement = filtered(statement.select_from(JOINED), where)
    statement = statement.order_by(_exchanges.c.no.desc() if newest_first else _exchanges.c.no)
    last_no, remaining = None, limit
    most = connection.batch
    while remaining is None or remaining > 0:
        size = most if remaining is None else min(most, remaining)
        query = statement.limit(size)
        if last_no is not None:
            query = query.where(_exchanges.c.no < last_no if newest_first else _exchanges.c.no > last_no)
        with connection.begin():
            batch = connection.columns(query) if columns else connection.fetch(query)
        if batch:
            yield batch
            last_no = batch[0][-1] if columns else batch[-1][0]
        if (len(batch[0]) if columns and batch else len(batch)) < size:
            return
        remaining = None if remaining is None else remaining - size


def exchanges(
    connection: Connection,
    fields: tuple[str, ...] = FIELDS,
    *,
    newest_first: bool = False,
    limit: int | None = None,
    where: Condition | None = None,
) -> Exchanges:
    """Return the exchanges that fit, oldest first unless told otherwise, with these fields: at most `limit`."""
    batches = in_batches(connection, _selected(fields), where, newest_first=newest_first, limit=limit)
    return Exchanges(fields, batches)


def ordered(
    connection: Connection,
    fields: tuple[str, ...],
    by: str,
    *,
    descending: bool = False,
    limit: int | None = None,
    where: Condition | None = None,
) -> Iterator[TableRow]:
    """Yield the exchanges in the order of a field, unknown last and otherwise the newest first; like `exchanges`.

    Their numbers are read first: of each exchange of the tape, no more than that is held.
    """
    key = column(by).desc() if descending else column(by)
    statement = filtered(select(_exchanges.c.no).select_from(JOINED), where)
    statement = statement.order_by(key.nulls_last(), _exchanges.c.no.desc()).limit(limit)
    with connection.begin():
        numbers = connection.execute(statement).scalars().all()
    yield from numbered(connection, fields, numbers)


def numbered(
    connection: Connection, fields: tuple[str, ...], numbers: Sequence[int], where: Condition | None = None
) -> Iterator[TableRow]:
    """Yield the exchanges of these numbers that fit, in this order."""
    for start in range(0, len(numbers), connection.batch):
        batch = numbers[start : start + connection.batch]
        statement = filtered(_selected(fields).select_from(JOINED).where(_exchanges.c.no.in_(batch)), where)
        with connection.begin():
            values_by_no = {no: values for no, *values in connection.fetch(statement)}
        yield from (rows.exchange(fields, values_by_no[no]) for no in batch if no in values_by_no)


def detail(connection: Connection, no: int) -> DetailRow:
    """Return all that is known of one exchange, except its events, reads and bytes."""
    with connection.begin():
        return detail_of(connection, no)


def detail_of(connection: Connection, no: int) -> DetailRow:
    """Return the row of `detail`, within a transaction."""
    return rows.detail(*connection.execute(_detail(), {"no": no}).one())


def details(connection: Connection, where: Condition | None = None, limit: int | None = None) -> Iterator[DetailRow]:
    """Yield the row of `detail` of each exchange that fits, oldest first: at most `limit`."""
    for batch in in_batches(connection, _selected(rows.DETAILED), where, limit=limit):
        yield from (rows.detail(*values) for values in batch)


@functools.cache
def _detail() -> Statement:
    return _selected(rows.DETAILED).select_from(JOINED).where(_exchanges.c.no == bindparam("no"))


def worked_out(connection: Connection, no: int, fields: Sequence[str] = WORKED_OUT) -> dict[str, Any]:
    """Return the computed fields of an exchange, by name. Raises `ConfigError`."""
    with connection.begin():
        values = begun(connection, no)
        missing_fields = [field for field in fields if field not in values]
        statement = _selected(missing_fields).select_from(JOINED).where(_exchanges.c.no == no)
        row = connection.execute(statement.execution_options(**{ONLY: (no,)})).one()
    values |= rows.exchange(tuple(missing_fields), row[1:])
    return {field: values[field] for field in fields}


def find(connection: Connection, reference: str) -> int:
    """Resolve a reference to an exchange's number.

    A reference is `@` or `last` (the newest), `@-1` (the one before), `@err` (the newest failure), `@stall` (the newest
    with a stall), `@slow` (the one with the longest first silence of output), or a prefix of the id. Raises `NotFound`
    with up to five candidates if there is none, or more than one.
    """
    if reference.startswith("@") or reference == "last":
        return _find_newest(connection, "@" if reference == "last" else reference)
    if len(reference) < _LEAST_PREFIX:
        raise NotFound(f"{safe(reference)!r} is too short: give at least {_LEAST_PREFIX} characters of an id, or @")
    prefix = reference.lower()
    column = _exchanges.c.id
    statement = select(_exchanges.c.no, column).where(column >= prefix, column < prefix + "~").order_by(column)
    with connection.begin():
        matches = connection.execute(statement.limit(_CANDIDATES + 1)).all()
    if len(matches) == 1:
        no: int = matches[0][0]  # a text on a server
        return no
    if not matches:
        raise NotFound(f"no exchange {safe(reference)}{_newest_ids(connection)}")
    more = " and more" if len(matches) > _CANDIDATES else ""
    candidates = ", ".join(safe(row[1]) for row in matches[:_CANDIDATES])
    raise NotFound(f"{safe(reference)} fits several exchanges: {candidates}{more}: give more of the id")


_REFERENCES: Final = (
    "@ is the newest, @-1 the one before it, @err a failed one, @stall one that stalled, @slow the slowest, "
    "@s the newest session"
)


def _find_newest(connection: Connection, reference: str) -> int:
    match = re.fullmatch(r"@(?:(err|stall|slow)|-([0-9]{1,9}))?", reference)
    if match is None:
        raise NotFound(f"{safe(reference)} is no exchange: {_REFERENCES}")
    condition: Condition | None = None
    if match[1] == "err":
        condition = column("outcome").in_(FAILURES)
    elif match[1] == "stall":
        condition = flagged("stall")
    elif match[1] == "slow":
        condition = column("first_output_silence_ms").is_not(None)
    statement = filtered(select(_exchanges.c.no).select_from(JOINED), condition)
    slowest = [column("first_output_silence_ms").desc()] if match[1] == "slow" else []
    statement = statement.order_by(*slowest, _exchanges.c.no.desc()).offset(int(match[2] or 0)).limit(1)
    with connection.begin():
        no: int | None = connection.execute(statement).scalar()
    if no is None:
        raise NotFound(f"no exchange {reference}{_newest_ids(connection)}")
    return no


def _newest_ids(connection: Connection) -> str:
    statement = select(_exchanges.c.id).order_by(_exchanges.c.no.desc()).limit(_CANDIDATES)
    with connection.begin():
        ids = connection.execute(statement).scalars().all()
    return f"; the newest: {', '.join(map(safe, ids))}" if ids else f": {EMPTY}"


def body(connection: Connection, no: int) -> bytes:
    """Return the response body, byte for byte as upstream sent it."""
    with connection.begin():
        return reading.stored_body(connection, no)


def request(connection: Connection, no: int) -> RequestRow:
    """Return the request of an exchange."""
    with connection.begin():
        return request_of(connection, no)


def request_of(connection: Connection, no: int) -> RequestRow:
    """Return the request of an exchange, within a transaction."""
    row = reading.row_of(connection, no)
    body = reading.request_body(connection, no)
    return RequestRow(row.id, reading.exchange_of(row), body, row.request_size, row.request_sha256, row.labels)


def headers(connection: Connection, no: int) -> HeadersRow:
    """Return the headers and the trailers of an exchange."""
    columns = (_exchanges.c[name] for name in HEADER_FIELDS)
    with connection.begin():
        headers = connection.execute(select(*columns).where(_exchanges.c.no == no)).one()
    return HeadersRow(*(pairs or [] for pairs in headers))


def reads(connection: Connection, no: int) -> list[TableRow]:
    """Return an exchange's reads; over a WebSocket, those of both directions as they came."""
    with connection.begin():
        directions = {sender: reading.reads_of(connection, no, stream) for sender, stream in _SENDERS.items()}
    read_rows = (rows.read_row(read) | {"sender": sender} for sender, reads in directions.items() for read in reads)
    return sorted(read_rows, key=lambda row: row["at_ms"])


def sent(connection: Connection, no: int) -> bytes:
    """Return the bytes that the client sent over a WebSocket."""
    with connection.begin():
        return reading.stored_body(connection, no, FROM_CLIENT)


def all_reads(connection: Connection, where: Condition | None = None) -> Iterator[TableRow]:
    """Yield every read of the exchanges that fit, oldest exchange first, each with the id of its exchange."""
    for id, exchange_reads in all_reads_packed(connection, where):
        yield from ({"id": id, **rows.read_row(read)} for read in exchange_reads)


def all_turns(connection: Connection, where: Condition | None = None) -> Iterator[TableRow]:
    """Yield every turn of the WebSockets that fit, oldest exchange first."""
    statement = select(_exchanges.c.no, _exchanges.c.id, _measures.c.turns).where(_measures.c.turns.is_not(None))
    for batch in in_batches(connection, statement, where):
        yield from (rows.turn(id, values) for _, id, turns in batch for values in turns or ())


def all_chunks(connection: Connection, where: Condition | None = None, limit: int | None = None) -> Chunks:
    """Return every chunk of the exchanges that fit, oldest exchange first; one exchange is decoded at a time."""
    return Chunks(decoded_bodies(connection, _numbers(connection, where)), limit)


def decoded_bodies(connection: Connection, numbered: Iterable[tuple[int, K]]) -> "Iterator[tuple[K, Decoded]]":
    """Yield the decoded bodies of exchanges, each with the key that comes with its number.

    Several are read at once, except large ones, with only the columns that decoding needs.
    """
    numbered = iter(numbered)
    while batch := dict(itertools.islice(numbered, _BATCH_OF_EXCHANGES)):
        sizes = select(_bodies.c.exchange_no, _bodies.c.size).where(_bodies.c.exchange_no.in_(batch))
        with connection.begin():
            size_by_no = {no: size or 0 for no, size in connection.execute(sizes)}
        group, group_bytes = list[int](), 0
        for no in batch:
            if group and group_bytes + size_by_no.get(no, 0) > _MOST_HELD:
                yield from ((batch[no], decoded) for no, decoded in _decoded_group(connection, group))
                group, group_bytes = [], 0
            group.append(no)
            group_bytes += size_by_no.get(no, 0)
        yield from ((batch[no], decoded) for no, decoded in _decoded_group(connection, group))


def _decoded_group(connection: Connection, group: Sequence[int]) -> "Iterator[tuple[int, Decoded]]":
    from wiretape.recorder.decode.decoder import decode

    body_no = _bodies.c.exchange_no
    packed = select(body_no, _bodies.c.data, _bodies.c.size).where(body_no.in_(group))
    try:
        with connection.begin():
            heads = {row.no: row for row in connection.execute(_HEADS.where(_exchanges.c.no.in_(group)))}
            reads = reading.reads_of_all(connection, group)
            data = {no: (data, size) for no, data, size in connection.execute(packed)}
    except sqlite3.DatabaseError:  # damage is left out of each by itself
        heads, reads, data = {}, {}, {}
    for no in group:
        try:
            body, exchange_reads = encoding.unpack(*data[no]), reads[no]
            if heads[no].framing == "websocket":
                raise ValueError("the client's side is needed, too")
        except (KeyError, TypeError, ValueError):  # it still runs, is damaged, or has two directions
            yield no, chunks(connection, no)
        else:
            yield no, decode(_as_answer(heads[no]), exchange_reads, body)


def chunks(connection: Connection, no: int) -> "Decoded":
    """Decode an exchange's body as `decoded` does, with nothing read but what decides how that is done."""
    from wiretape.recorder.decode.decoder import decode

    with connection.begin():
        head = connection.execute(_HEADS.where(_exchanges.c.no == no)).one()
        exchange_reads = reading.reads_of(connection, no)
        data = reading.readable_body(connection, no)
        facts = reading.with_sent(connection, no, _as_answer(head))
    return decode(facts, exchange_reads, data)


def _as_answer(head: Any) -> Exchange:
    """Return the columns of an exchange that decoding its body needs."""
    headers = head.response_headers or []
    header_by_name, coding = dict(reversed(headers)), encoding.coding_of(headers)
    answer = Exchange(content_type=header_by_name.get("content-type"), content_encoding=coding, framing=head.framing)
    extensions = header_by_name.get("sec-websocket-extensions")
    return replace(
        answer,
        method=head.method or "",
        path=head.path or "",
        request=reading.request_needed(head),
        extensions=extensions,
        headers=reading.headers_of(head),
        dialects=head.dialects,
    )


def _numbers(
    connection: Connection, where: Condition | None, *, newest_first: bool = False
) -> Iterator[tuple[int, str]]:
    statement = select(_exchanges.c.no, _exchanges.c.id)
    for batch in in_batches(connection, statement, where, newest_first=newest_first):
        yield from batch


def _selected(fields: Sequence[str]) -> Statement:
    # Labels are left as they are stored, compact: most who ask for them write them so again.
    labels = as_stored(_exchanges.c.labels)
    return select(_exchanges.c.no, *((labels if field == "labels" else column(field)).label(field) for field in fields))


def filtered(statement: Statement, where: Condition | None) -> Statement:
    """Return a statement for the exchanges that fit."""
    return statement if where is None else statement.where(where)


def all_reads_packed(connection: Connection, where: Condition | None = None) -> Iterator[tuple[str, Reads]]:
    """Yield the id and the reads of each exchange that fits and has any; several are read at once."""
    numbers = _numbers(connection, where)
    while batch := dict(itertools.islice(numbers, _BATCH_OF_EXCHANGES)):
        with connection.begin():
            reads_by_no = reading.reads_of_all(connection, [*batch])
        yield from ((batch[no], reads_by_no[no]) for no in batch if reads_by_no.get(no))


def packed_gaps(connection: Connection, where: Condition | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the gaps between output chunks of each exchange that fits: int64, ns."""
    for batch in in_batches(connection, select(_exchanges.c.no, _exchanges.c.id, _measures.c.icl), where):
        yield from ((id, gaps or b"") for _, id, gaps in batch)


def has_bytes() -> Condition:
    """Return the condition that the bytes of an exchange are there; see `NOT_SHIPPED`."""
    return or_(_measures.c.flags.is_(None), not_(flagged(NOT_SHIPPED)))


def advice(connection: Connection) -> str | None:
    """Return the advice about measures that an older decoder derived, or None if there is nothing to do.

    Only the first and the last measures are looked at: what lies between them was derived between them.
    """
    number = _measures.c.exchange_no
    edges = [select(edge(number)).scalar_subquery() for edge in (func.min, func.max)]
    is_older = and_(_measures.c.decoder_version < DECODER_VERSION, not_(flagged(NOT_SHIPPED)))
    with connection.begin():
        outdated = connection.execute(select(number).where(number.in_(edges), is_older).limit(1)).first()
    return None if outdated is None else OUTDATED


def count(connection: Connection, where: Condition | None = None) -> int:
    """Count the exchanges that fit."""
    with connection.begin():
        exchange_count = connection.execute(filtered(select(func.count()).select_from(JOINED), where)).scalar_one()
    return int(exchange_count)


def numbers(connection: Connection, where: Condition | None = None, *, newest_first: bool = False) -> Iterator[int]:
    """Yield the numbers of the exchanges that fit, oldest first unless told otherwise."""
    for no, _ in _numbers(connection, where, newest_first=newest_first):
        yield no


def observed(connection: Connection, no: int) -> "tuple[Exchange, Reads, Decoded]":
    """Return the facts of an exchange, its reads, and its body decoded: the inputs of its verdicts."""
    from wiretape.recorder.decode.decoder import decode

    with connection.begin():
        facts, exchange_reads, data = reading.answer(connection, no)
    return facts, exchange_reads, decode(facts, exchange_reads, data)


def unmeasured(connection: Connection) -> tuple[int, int]:
    """Return the counts of finished exchanges without measures, and of all finished exchanges."""
    ended = connection.execute(select(func.count()).where(_exchanges.c.ended_by.is_not(None))).scalar_one()
    measured = connection.execute(select(func.count()).select_from(_measures)).scalar_one()
    return max(ended - measured, 0), ended
