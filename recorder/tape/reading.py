"""Reads the recordings of a tape: an exchange's facts, its reads and its body, and the run that recorded it.

Damage is noted (`wiretape.recorder.tape.cells`) and left out. Queries over many exchanges are left to
`wiretape.viewer.source.tape`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import lt
from typing import Any, Final

from wiretape.recorder import facts
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import Exchange, Headers, Reads, RecordedExchange, Sent
from wiretape.recorder.errors import NotShipped, TapeDamaged
from wiretape.recorder.facts import FACTS, Answered, Begun, Connected, Ended, kinds
from wiretape.recorder.process import LOST_MS, RecorderRun, is_gone
from wiretape.recorder.tape import packing
from wiretape.recorder.tape.packing import Packed
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import (
    NullType,
    Select,
    Text,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    type_coerce,
)
from wiretape.recorder.tape.tables import (
    FROM_CLIENT,
    FROM_UPSTREAM,
    IS_REQUEST_IN_PARTS,
    REQUEST_BODY,
    Stream,
    bodies,
    exchanges,
    measures,
    sessions,
    settlements,
)

_NEEDS_REQUEST = "/aigc/"
_MOST_LOOKED_AT = 64 << 10
"""Limit of a request body by which a declared dialect may be recognised, in bytes."""
_IS_NEEDED = or_(
    exchanges.c.path.like(f"%{_NEEDS_REQUEST}%"),
    exchanges.c.status.is_(None),
    func.coalesce(func.length(exchanges.c.request_body), exchanges.c.request_size) <= _MOST_LOOKED_AT,
)
REQUEST_NEEDED = case((_IS_NEEDED, REQUEST_BODY)).label("request_needed")
"""The body of a request where decoding needs it: the format of DashScope's answers depends on the request, declared
dialects are recognised by short ones, and before the head it tells whether a stream is waited for."""
DIALECTS: Final = (
    select(type_coerce(sessions.c.dialects, Text))
    .where(sessions.c.no == exchanges.c.session_no)
    .scalar_subquery()
    .label("dialects")
)
"""The declarations that were given for the recording of an exchange, as JSON."""

NO_READS: Final = Reads((), (), (), (), ())
# Statements are built once: that takes longer than running them.
_OF_NO = bindparam("no")
_NUMBERS = select(func.json_each(bindparam("numbers")).table_valued("value").c.value)
_COLUMNS = select(
    *(column for column in exchanges.c.values() if column.name != "request_body"),
    func.coalesce(
        func.length(exchanges.c.request_body), case((IS_REQUEST_IN_PARTS, exchanges.c.request_size)), 0
    ).label("request_stored"),
    REQUEST_NEEDED,
    DIALECTS,
    select(func.length(bodies.c.data) == 0)
    .where(bodies.c.exchange_no == exchanges.c.no)
    .scalar_subquery()
    .label("lacks_bytes"),
)
# Checked as whole exchanges, not cell by cell.
_ARRAYS = ("at_ns", "relayed_ns", "sizes")


@dataclass(frozen=True, slots=True)
class _DirectionQueries:
    """The queries for the bytes of one direction."""

    reads: Select
    new_reads: Select
    body: Select
    bodies: Select
    segments: Select

    @classmethod
    def of(cls, stream: Stream) -> "_DirectionQueries":
        bodies, segments = stream.bodies.c, stream.segments.c
        packed = (type_coerce(bodies[name], NullType) for name in _ARRAYS)
        pieces = (type_coerce(segments[name], NullType) for name in ("seq", "start", *_ARRAYS))
        new_reads = select(segments.exchange_no, *pieces).where(segments.exchange_no.in_(_NUMBERS))
        return cls(
            select(bodies.exchange_no, literal(0), literal(0), *packed).where(bodies.exchange_no.in_(_NUMBERS)),
            new_reads.order_by(segments.exchange_no, segments.seq),
            select(bodies.data, bodies.size).where(bodies.exchange_no == _OF_NO),
            select(bodies.exchange_no, bodies.data, bodies.size).where(bodies.exchange_no.in_(_NUMBERS)),
            select(segments.exchange_no, segments.data)
            .where(segments.exchange_no.in_(_NUMBERS))
            .order_by(segments.exchange_no, segments.start),
        )


_OF: Final = {stream: _DirectionQueries.of(stream) for stream in (FROM_UPSTREAM, FROM_CLIENT)}
_RUN = select(*(sessions.c[name] for name in ("pid", "boot_id", "heartbeat_at", "ended_at", "listen", "upstreams")))


def answer(connection: Connection, no: int) -> RecordedExchange:
    """Read an exchange as the decoder takes it. Raises `NoResultFound`."""
    exchange = facts_of(connection, row_of(connection, no))
    return RecordedExchange(exchange, reads_of(connection, no), readable_body(connection, no))


def facts_of(connection: Connection, row: Any) -> Exchange:
    """Return the facts in an exchange's row, and the client's messages over a WebSocket."""
    exchange = replace(exchange_of(row), has_bytes=not row.lacks_bytes)
    return with_sent(connection, row.no, exchange, row.client_gap_bytes or 0)


def with_sent(connection: Connection, no: int, exchange: Exchange, missing: int = 0) -> Exchange:
    """Return the facts of an exchange, with the client's bytes if it is a WebSocket."""
    if exchange.framing != "websocket":
        return exchange
    reads, data = reads_of(connection, no, FROM_CLIENT), readable_body(connection, no, FROM_CLIENT)
    return replace(exchange, sent=Sent(reads, data, missing))


_FACTS = _COLUMNS.where(exchanges.c.no == _OF_NO)


def row_of(connection: Connection, no: int) -> Any:
    """Read an exchange's row, without the request's body. Raises `NoResultFound`."""
    return connection.execute(_FACTS, {"no": no}).one()


_WITH_REQUESTS = _COLUMNS.add_columns(
    REQUEST_BODY,
    IS_REQUEST_IN_PARTS.label("is_in_parts"),
    exists(bodies, bodies.c.exchange_no == exchanges.c.no).label("is_packed"),
    exists(settlements, settlements.c.exchange_no == exchanges.c.no).label("is_settled"),
).where(exchanges.c.no.in_(_NUMBERS))


def rows_with_requests(connection: Connection, numbers: Sequence[int]) -> dict[int, Any]:
    """Read the rows of exchanges by their numbers, with the requests' bodies and whether each is settled."""
    rows = {row.no: row for row in connection.execute(_WITH_REQUESTS, {"numbers": [*numbers]})}
    for no, row in rows.items():
        _note_parts(connection, no, row)
    return rows


_REQUEST = select(REQUEST_BODY, IS_REQUEST_IN_PARTS.label("is_in_parts")).where(exchanges.c.no == _OF_NO)


def request_body(connection: Connection, no: int) -> bytes | None:
    """Read the stored body of a request; None if parts of it are missing. Raises `NoResultFound`."""
    row = connection.execute(_REQUEST, {"no": no}).one()
    _note_parts(connection, no, row)
    body: bytes | None = row.request_body
    return body


def _note_parts(connection: Connection, no: int, row: Any) -> None:
    if row.is_in_parts and row.request_body is None:
        connection.damage.exchanges.setdefault(no, "its request lacks parts")


def needs_request(path: str, size: int, status: int | None) -> bool:
    """Return True if decoding needs the body of a request, of a size in bytes, to this path."""
    return size <= _MOST_LOOKED_AT or status is None or _NEEDS_REQUEST in path.lower()


def request_needed(row: Any) -> bytes | None:
    """Return the body of a request without its content encoding, if decoding its answer needs it."""
    body: bytes | None = row.request_needed
    return body and encoding.uncoded(row.request_headers or [], body)


_facts_in = facts.reader(Begun, Connected, Answered, Ended)
_NEVER_UNKNOWN: Final = {name: kinds(entry)[0]() for name, entry in FACTS.items() if kinds(entry)[-1] is not type(None)}
"""The values that stand for facts that cannot be unknown, but are in a damaged row: 0, False or no text."""


def exchange_of(row: Any) -> Exchange:
    """Return the facts in an exchange's row, or in an object that has its columns as attributes."""
    headers = dict(reversed(row.response_headers or []))
    values = _facts_in(row)
    for name, default in _NEVER_UNKNOWN.items():
        if values[name] is None:
            values[name] = default
    return Exchange(
        **values,
        request_model=row.request_model,
        content_type=headers.get("content-type"),
        content_encoding=encoding.coding_of(row.response_headers or []),
        request_missing=_request_missing(row),
        request=request_needed(row),
        extensions=headers.get("sec-websocket-extensions"),
        headers=headers_of(row),
        dialects=row.dialects,
    )


def headers_of(row: Any) -> Headers:
    """Return the headers in an exchange's row."""
    return Headers(*(tuple((name.lower(), value) for name, value in pairs or ()) for pairs in
                     (row.request_headers, row.response_headers, row.response_trailers)))  # fmt: skip


def _request_missing(row: Any) -> int:
    """Return the bytes of the request body that are not stored, or 1 if it broke off at an unknown size.

    An import whose source tells nothing of the request does not lack a part of it.
    """
    if row.request_size is None:
        return int(bool(row.request_truncated) and row.clock not in ("imported", "none"))
    size: int = row.request_size
    return size - int(row.request_stored)


def reads_of(connection: Connection, no: int, stream: Stream = FROM_UPSTREAM) -> Reads:
    """Read an exchange's reads, in order; those that are damaged are noted and left out."""
    return reads_of_all(connection, [no], stream).get(no, NO_READS)


def reads_of_all(connection: Connection, numbers: Sequence[int], stream: Stream = FROM_UPSTREAM) -> dict[int, Reads]:
    """Read the reads of exchanges, by their numbers, as `reads_of` does; without those that have none."""
    return {no: _joined(connection, no, pieces) for no, pieces in packed_reads(connection, numbers, stream).items()}


def packed_reads(
    connection: Connection, numbers: Sequence[int], stream: Stream = FROM_UPSTREAM
) -> dict[int, list[Packed]]:
    """Read the packed reads of exchanges, by their numbers; more than one piece of those that are not settled."""
    pieces: dict[int, list[Packed]] = {}
    for statement in (_OF[stream].reads, _OF[stream].new_reads):
        for no, *packed in connection.execute(statement, {"numbers": [*numbers]}):
            pieces.setdefault(no, []).append(Packed(*packed))
    return pieces


def _joined(connection: Connection, no: int, pieces: list[Packed]) -> Reads:
    try:
        joined = packing.join([packing.unpack(piece) for piece in pieces])
        if len(pieces) == 1 or all(map(lt, joined.seq, joined.seq[1:])):
            return joined
    except (ValueError, TypeError):
        pass
    connection.damage.exchanges.setdefault(no, "its reads are damaged")
    intact = {socket_read.seq: socket_read for piece in pieces for socket_read in packing.intact(piece)}
    return Reads.of([intact[seq] for seq in sorted(intact)])


def stored_body(connection: Connection, no: int, stream: Stream = FROM_UPSTREAM) -> bytes:
    """Read an exchange's body: packed, or still in segments while it is open.

    Raises `TapeDamaged` if it cannot be unpacked, and `NotShipped` if it is not there.
    """
    packed = connection.execute(_OF[stream].body, {"no": no}).one_or_none()
    if packed is None:
        return unpacked_bodies(connection, [no], stream).get(no, b"")
    if packed.data == b"":
        raise NotShipped(str(row_of(connection, no).id))
    return _unpacked(no, packed.data, packed.size)


def _unpacked(no: int, data: bytes | None, size: int | None) -> bytes:
    try:
        return encoding.unpack(data or b"", -1 if size is None else size)
    except ValueError as error:
        reason = f"the body of exchange number {no} is damaged ({error}): see 'wiretape db check'"
        raise TapeDamaged(reason) from error


def unpacked_bodies(connection: Connection, numbers: Sequence[int], stream: Stream = FROM_UPSTREAM) -> dict[int, bytes]:
    """Read the bodies of exchanges that are still in segments, by their numbers."""
    pieces: dict[int, list[bytes]] = {}
    for no, data in connection.execute(_OF[stream].segments, {"numbers": [*numbers]}):
        pieces.setdefault(no, []).append(data or b"")
    return {no: b"".join(parts) for no, parts in pieces.items()}


def packed_bodies(connection: Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    """Read packed bodies, by their numbers; one that cannot be unpacked is noted and left out."""
    unpacked: dict[int, bytes] = {}
    for no, data, size in connection.execute(_OF[FROM_UPSTREAM].bodies, {"numbers": [*numbers]}):
        try:
            unpacked[no] = _unpacked(no, data, size)
        except TapeDamaged:
            connection.damage.exchanges[no] = "its body cannot be unpacked"
    return unpacked


def readable_body(connection: Connection, no: int, stream: Stream = FROM_UPSTREAM) -> bytes:
    """Read an exchange's body; one that was not shipped is empty, one that cannot be unpacked is noted, too."""
    try:
        return stored_body(connection, no, stream)
    except NotShipped:
        return b""
    except TapeDamaged:
        connection.damage.exchanges[no] = "its body cannot be unpacked"
        return b""


def running_recorders(connection: Connection) -> list[RecorderRun]:
    """Read the runs of recorders that have not ended and whose process may exist, the newest first.

    A silent one is left out while another reports: its process number belongs to another process by now.
    """
    rows = connection.execute(
        _RUN.where(sessions.c.ended_at.is_(None), sessions.c.imported_from.is_(None))
        .order_by(sessions.c.no.desc())
        .limit(50)
    )
    runs = [run for run in map(_run, rows) if not run.is_gone]
    heard = [-1.0 * (run.silent_ms(0) or 0) for run in runs]
    return [run for run, at in zip(runs, heard, strict=True) if at + LOST_MS >= max(heard)]


def newest_run(connection: Connection) -> RecorderRun | None:
    """Read the newest run of a recorder that is running, else the newest of all; None if there is none."""
    if runs := running_recorders(connection):
        return runs[0]
    row = connection.execute(_RUN.order_by(sessions.c.no.desc()).limit(1)).one_or_none()
    return None if row is None else _run(row)


def run_of(connection: Connection, no: int) -> RecorderRun:
    """Read the run that recorded an exchange. Raises `NoResultFound`."""
    joined = exchanges.c.session_no == sessions.c.no
    return _run(connection.execute(_RUN.where(joined, exchanges.c.no == no)).one())


def _run(row: Any) -> RecorderRun:
    has_died = is_gone(row.pid, row.boot_id)
    return RecorderRun(row.pid, row.heartbeat_at, row.ended_at, has_died, row.listen, row.upstreams)


def runs(connection: Connection) -> int:
    """Count the runs of recorders on a tape."""
    count: int = connection.execute(select(func.count()).select_from(sessions)).scalar_one()
    return count


def outcomes(connection: Connection) -> dict[str, int]:
    """Count the exchanges of each outcome, by name."""
    outcome = func.coalesce(measures.c.outcome, "open")
    joined = exchanges.outerjoin(measures, measures.c.exchange_no == exchanges.c.no)
    statement = select(outcome, func.count(exchanges.c.no)).select_from(joined).group_by(outcome).order_by(outcome)
    return {name: count for name, count in connection.execute(statement)}
