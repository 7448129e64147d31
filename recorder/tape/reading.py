"""Reads what a recorder stored: an exchange's facts, its reads and its body, and the run that recorded it.

Whatever is damaged is noted (`recorder.tape.cells`) and left out. Queries over many exchanges are left to
`viewer.tape`.
"""

from collections.abc import Sequence
from operator import lt
from typing import Any

import msgspec
from sqlalchemy import BindParameter, Connection, Row, Select, bindparam, case, func, select
from sqlalchemy.exc import DatabaseError

from recorder.decode import encoding
from recorder.decode.outcome import Exchange, Read, Reads
from recorder.errors import TapeDamaged
from recorder.process import Run, is_gone
from recorder.tape import cells
from recorder.tape.cells import Place, Timestamp
from recorder.tape.schema import bodies, exchanges, measures, reads, segments, sessions

READ_COLUMNS = (reads.c.seq, reads.c.at_ns, reads.c.relayed_ns, reads.c.start, reads.c.size)
"""What a `Read` is made of."""

PACKED_READS = func.json_array(*(func.json_group_array(column) for column in READ_COLUMNS))
"""All reads of an exchange in one row, for `unpacked_reads`: several times as fast as a row for each of them."""

REQUEST_NEEDED = case((exchanges.c.path.contains("/aigc/"), exchanges.c.request_body)).label("request_needed")
"""The body of a request where decoding needs it: DashScope's answers mean what the request asked for."""

_ReadColumns = tuple[list[Place], list[Timestamp], list[Timestamp | None], list[Place], list[Place]]
# Statements are built once: that takes longer than running them.
_OF_NO: BindParameter[int] = bindparam("no")
_FACTS: Select[Any] = select(
    *(column for column in exchanges.c if column.name != "request_body"),
    func.coalesce(func.length(exchanges.c.request_body), 0).label("request_stored"),
    REQUEST_NEEDED,
).where(exchanges.c.no == _OF_NO)
_READS = select(*READ_COLUMNS).where(reads.c.exchange_no == _OF_NO).order_by(reads.c.seq)
_PACKED = select(PACKED_READS).where(reads.c.exchange_no == _OF_NO)
_BODY = select(bodies.c.data, bodies.c.size).where(bodies.c.exchange_no == _OF_NO)
_SEGMENTS = select(segments.c.data).where(segments.c.exchange_no == _OF_NO).order_by(segments.c.start)
_RUN = select(*(sessions.c[name] for name in ("pid", "boot_id", "heartbeat_at", "ended_at", "listen", "upstreams")))


def answer(connection: Connection, no: int) -> tuple[Exchange, Reads, bytes]:
    """Read an exchange's facts, its reads and its body, as the decoder takes them. Raises `NoResultFound`."""
    return exchange_of(row_of(connection, no)), reads_of(connection, no), readable_body(connection, no)


def row_of(connection: Connection, no: int) -> Row[Any]:
    """Read an exchange's row, without the request's body. Raises sqlalchemy's `NoResultFound`."""
    return connection.execute(_FACTS, {"no": no}).one()


def exchange_of(row: Row[Any]) -> Exchange:
    """Return the facts in an exchange's row."""
    headers = dict(reversed(row.response_headers or []))
    return Exchange(
        status=row.status,
        content_type=headers.get("content-type"),
        content_encoding=headers.get("content-encoding"),
        ended_by=row.ended_by,
        connected_ns=row.connected_ns,
        headers_ns=row.headers_ns,
        end_ns=row.end_ns,
        gap_bytes=row.gap_bytes or 0,
        paused=row.paused or 0,
        surplus=bool(row.surplus),
        coarse_clock=bool(row.coarse_clock),
        framing=row.framing,
        request_missing=0 if row.request_size is None else row.request_size - row.request_stored,
        method=row.method or "",
        path=row.path or "",
        request_model=row.request_model,
        request=row.request_needed,
    )


def reads_of(connection: Connection, no: int) -> Reads:
    """Read an exchange's reads, in order; those that are damaged are noted and left out."""
    try:
        return unpacked_reads(connection.execute(_PACKED, {"no": no}).scalar_one())
    except (msgspec.MsgspecError, DatabaseError):
        return Reads.of(intact_reads(connection, no))


def unpacked_reads(packed: str) -> Reads:
    """Return the reads of `PACKED_READS`, in order. Raises `msgspec.MsgspecError` if one is damaged."""
    columns = Reads(*msgspec.json.decode(packed, type=_ReadColumns))
    is_ordered = all(map(lt, columns.seq, columns.seq[1:]))  # as its key is gone through in order, it is
    return columns if is_ordered else Reads.of(sorted(columns))


def intact_reads(connection: Connection, no: int) -> list[Read]:
    """Read an exchange's reads row by row, each cell checked; those that are damaged are noted and left out."""
    return [Read(*row) for row in connection.execute(_READS, {"no": no}).all() if is_intact(row)]


def is_intact(read: Sequence[Any]) -> bool:
    """Return whether nothing of a read's row is damaged; when it was relayed may be unknown."""
    seq, at_ns, _, start, size = read
    return None not in (seq, at_ns, start, size)


def stored_body(connection: Connection, no: int) -> bytes:
    """Read an exchange's body: packed, or still in segments while it is open.

    Raises `TapeDamaged` if it cannot be unpacked.
    """
    packed = connection.execute(_BODY, {"no": no}).one_or_none()
    if packed is None:
        return b"".join(piece or b"" for piece in connection.execute(_SEGMENTS, {"no": no}).scalars())
    try:
        return encoding.unpack(packed.data or b"", -1 if packed.size is None else packed.size)
    except ValueError as error:
        reason = f"the body of exchange number {no} is damaged ({error}): see 'wiretape db check'"
        raise TapeDamaged(reason) from error


def readable_body(connection: Connection, no: int) -> bytes:
    """Read an exchange's body; one that cannot be unpacked is noted and empty."""
    try:
        return stored_body(connection, no)
    except TapeDamaged:
        cells.damage_of(connection).exchanges[no] = "its body cannot be unpacked"
        return b""


def newest_run(connection: Connection) -> Run | None:
    """Read the newest run of a recorder; None if there is none."""
    row = connection.execute(_RUN.order_by(sessions.c.no.desc()).limit(1)).one_or_none()
    return None if row is None else _run(row)


def run_of(connection: Connection, no: int) -> Run:
    """Read the run that recorded an exchange. Raises sqlalchemy's `NoResultFound`."""
    joined = exchanges.c.session_no == sessions.c.no
    return _run(connection.execute(_RUN.where(joined, exchanges.c.no == no)).one())


def _run(row: Row[Any]) -> Run:
    gone = is_gone(row.pid, row.boot_id)
    return Run(row.pid, row.heartbeat_at, row.ended_at, gone, row.listen, row.upstreams)


def runs(connection: Connection) -> int:
    """Count the runs of recorders on a tape."""
    return connection.execute(select(func.count()).select_from(sessions)).scalar_one()


def outcomes(connection: Connection) -> dict[str, int]:
    """Count the exchanges of each outcome, by name."""
    outcome = func.coalesce(measures.c.outcome, "open")
    statement = select(outcome, func.count()).select_from(exchanges).outerjoin(measures)
    return {name: count for name, count in connection.execute(statement.group_by(outcome).order_by(outcome))}
