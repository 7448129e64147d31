"""Reads what a recorder stored: an exchange's facts, its reads and its body, and the run that recorded it.

Whatever is damaged is noted (`recorder.tape.cells`) and left out. Queries over many exchanges are left to
`viewer.tape`.
"""

from collections.abc import Sequence
from operator import lt
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Row, Select, bindparam, case, func, literal, select, type_coerce
from sqlalchemy.types import NullType

from recorder.decode import encoding
from recorder.decode.outcome import Exchange, Reads
from recorder.errors import TapeDamaged
from recorder.process import Run, is_gone
from recorder.tape import cells, packing
from recorder.tape.packing import Packed
from recorder.tape.schema import bodies, exchanges, measures, segments, sessions

_NEEDS_REQUEST = "/aigc/"
REQUEST_NEEDED = case((exchanges.c.path.contains(_NEEDS_REQUEST), exchanges.c.request_body)).label("request_needed")
"""The body of a request where decoding needs it: DashScope's answers mean what the request asked for."""

_NO_READS: Final = Reads((), (), (), (), ())
# Statements are built once: that takes longer than running them.
_OF_NO: BindParameter[int] = bindparam("no")
_FACTS: Select[Any] = select(
    *(column for column in exchanges.c if column.name != "request_body"),
    func.coalesce(func.length(exchanges.c.request_body), 0).label("request_stored"),
    REQUEST_NEEDED,
).where(exchanges.c.no == _OF_NO)
_NUMBERS: BindParameter[Sequence[int]] = bindparam("numbers", expanding=True)
# Checked as whole exchanges, not cell by cell.
_ARRAYS = ("at_ns", "relayed_ns", "sizes")
_READS = select(
    bodies.c.exchange_no, literal(0), literal(0), *(type_coerce(bodies.c[name], NullType()) for name in _ARRAYS)
).where(bodies.c.exchange_no.in_(_NUMBERS))
_NEW_READS = (
    select(segments.c.exchange_no, *(type_coerce(segments.c[name], NullType()) for name in ("seq", "start", *_ARRAYS)))
    .where(segments.c.exchange_no.in_(_NUMBERS))
    .order_by(segments.c.exchange_no, segments.c.seq)
)
_BODY = select(bodies.c.data, bodies.c.size).where(bodies.c.exchange_no == _OF_NO)
_SEGMENTS = select(segments.c.data).where(segments.c.exchange_no == _OF_NO).order_by(segments.c.start)
_RUN = select(*(sessions.c[name] for name in ("pid", "boot_id", "heartbeat_at", "ended_at", "listen", "upstreams")))


def answer(connection: Connection, no: int) -> tuple[Exchange, Reads, bytes]:
    """Read an exchange's facts, its reads and its body, as the decoder takes them. Raises `NoResultFound`."""
    return exchange_of(row_of(connection, no)), reads_of(connection, no), readable_body(connection, no)


def row_of(connection: Connection, no: int) -> Row[Any]:
    """Read an exchange's row, without the request's body. Raises sqlalchemy's `NoResultFound`."""
    return connection.execute(_FACTS, {"no": no}).one()


def needs_request(path: str) -> bool:
    """Return whether decoding needs the body of a request to this path."""
    return _NEEDS_REQUEST in path.lower()


def exchange_of(row: Any) -> Exchange:
    """Return the facts in an exchange's row, or in what has its columns as attributes."""
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
        connection_reused=row.connection_reused,
        clock_error_ns=row.clock_error_ns,
    )


def reads_of(connection: Connection, no: int) -> Reads:
    """Read an exchange's reads, in order; those that are damaged are noted and left out."""
    return reads_of_all(connection, [no]).get(no, _NO_READS)


def reads_of_all(connection: Connection, numbers: Sequence[int]) -> dict[int, Reads]:
    """Read the reads of exchanges, by their numbers, as `reads_of` does; without those that have none."""
    return {no: _joined(connection, no, pieces) for no, pieces in packed_reads(connection, numbers).items()}


def packed_reads(connection: Connection, numbers: Sequence[int]) -> dict[int, list[Packed]]:
    """Read the packed reads of exchanges, by their numbers; more than one piece of those that are not settled."""
    found: dict[int, list[Packed]] = {}
    for statement in (_READS, _NEW_READS):
        for no, *packed in connection.execute(statement, {"numbers": numbers}):
            found.setdefault(no, []).append(Packed(*packed))
    return found


def _joined(connection: Connection, no: int, pieces: list[Packed]) -> Reads:
    try:
        joined = packing.join([packing.unpack(piece) for piece in pieces])
        if all(map(lt, joined.seq, joined.seq[1:])):
            return joined
    except (ValueError, TypeError):
        pass
    cells.damage_of(connection).exchanges.setdefault(no, "its reads are damaged")
    intact = {read.seq: read for piece in pieces for read in packing.intact(piece)}
    return Reads.of([intact[seq] for seq in sorted(intact)])


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
