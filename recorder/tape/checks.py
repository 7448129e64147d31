"""Checks of a tape: SQLite's own, and the invariants between the tables.

Each problem is one sentence that names the exchange. Repairs are left to `wiretape db rebuild` and to people.
`problems` checks everything; `damage` and `verify` take a limited time, for a recorder that starts or ends.
"""

import contextlib
import hashlib
import itertools
import sqlite3
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import le
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    case,
    exists,
    func,
    not_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.exc import DatabaseError
from sqlalchemy.types import NullType

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import FAILURES, SUSPECT_NS, Reads
from wiretape.recorder.errors import DAMAGED, ForeignFile, sqlite_code
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape import cells, file, packing, reading
from wiretape.recorder.tape.journal import Verified
from wiretape.recorder.tape.schema import (
    COVERED,
    FROM_CLIENT,
    FROM_UPSTREAM,
    IS_PART_OF,
    IS_REQUEST_IN_PARTS,
    STREAMS,
    Stream,
    bodies,
    exchanges,
    measures,
    request_parts,
    request_versions,
    sessions,
    settlements,
)

_MOST = 5
EXCHANGES_SECONDS = 0.3
_INTERRUPT_SECONDS = 0.02

_CHECKED = ("no", "id", "ended_by", "bytes", "gap_bytes", "client_bytes", "client_gap_bytes", "clock", "request_size",
            "request_sha256")  # fmt: skip
_EXCHANGES: Select[Any] = select(
    *(exchanges.c[name] for name in _CHECKED),
    measures.c.outcome,
    bodies.c.size.label("packed"),
    exists().where(settlements.c.exchange_no == exchanges.c.no).label("is_settled"),
    (func.length(bodies.c.data) == 0).label("lacks_bytes"),
    case((IS_REQUEST_IN_PARTS, exchanges.c.request_body.is_(None))).label("is_in_parts"),
).select_from(exchanges.outerjoin(bodies).outerjoin(measures, measures.c.exchange_no == exchanges.c.no))
_LENGTHS = (
    select(exchanges.c.no, *(func.coalesce(func.length(stream.bodies.c.data), 0) for stream in STREAMS))
    .select_from(exchanges.outerjoin(FROM_UPSTREAM.bodies).outerjoin(FROM_CLIENT.bodies))
    .order_by(exchanges.c.no)
)
_PARTS = (
    select(*(type_coerce(request_parts.c[name], NullType()) for name in ("position", "since", "until", "data")))
    .where(request_versions.c.exchange_no == bindparam("no"), IS_PART_OF)
    .order_by(request_parts.c.position)
)
_UNUSED = select(func.count()).select_from(request_parts).where(not_(exists().where(IS_PART_OF)))
_GROUP = 100
_MOST_HELD = 16 << 20
"""Packed bodies of one group of exchanges, in bytes; a single body may be larger."""
_NUMBERS: BindParameter[Sequence[int]] = bindparam("numbers", expanding=True)


@dataclass(frozen=True, slots=True)
class _GroupStatements:
    """The statements that read one direction of a group of exchanges."""

    bodies: Select[Any]
    segments: Select[Any]

    @classmethod
    def of(cls, stream: Stream) -> "_GroupStatements":
        no, segment_no = stream.bodies.c.exchange_no, stream.segments.c.exchange_no
        held = func.coalesce(func.sum(func.length(stream.segments.c.data)), 0)
        return cls(
            select(no, *(stream.bodies.c[name] for name in ("data", "size", "sha256"))).where(no.in_(_NUMBERS)),
            select(segment_no, func.count(), held).where(segment_no.in_(_NUMBERS)).group_by(segment_no),
        )


_OF = {stream: _GroupStatements.of(stream) for stream in STREAMS}


@dataclass(frozen=True, slots=True)
class _Held:
    """The reads, bodies and segments (count, bytes) of one direction of a group of exchanges, by exchange number."""

    reads: dict[int, list[packing.Packed]]
    bodies: dict[int, Row[Any]]
    segments: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, connection: Connection, stream: Stream, numbers: Sequence[int]) -> "_Held":
        given, statements = {"numbers": numbers}, _OF[stream]
        rows, counts = connection.execute(statements.bodies, given), connection.execute(statements.segments, given)
        return cls(
            reading.packed_reads(connection, numbers, stream),
            {row.exchange_no: row for row in rows},
            {no: (count, size) for no, count, size in counts},
        )


def problems(connection: Connection) -> Iterator[str]:
    """Yield every problem of a tape; an undamaged one has none."""
    yield from _of_tape(connection, "integrity_check")
    if unused := connection.execute(_UNUSED).scalar_one():
        yield f"parts of request bodies that no exchange has: {unused:,}"
    for numbers in _groups(tuple(row) for row in connection.execute(_LENGTHS).all()):
        found: list[str] = []
        with _snapshot(connection):
            rows = connection.execute(_EXCHANGES.where(exchanges.c.no.in_(numbers)).order_by(exchanges.c.no)).all()
            for exchange, its_problems in _of_exchanges(connection, rows):
                found += (f"exchange {exchange.id}: {problem}" for problem in its_problems)
                if exchange.is_settled and exchange.outcome is None and not exchange.lacks_bytes:
                    found.append(f"exchange {exchange.id}: it has ended but has no measures: run 'wiretape db rebuild'")
        yield from found


def _groups(lengths: Iterable[Sequence[int]]) -> Iterator[list[int]]:
    """Cut exchanges, given by number and lengths of their bodies, into groups that are checked together."""
    group, held = list[int](), 0
    for no, *sizes in lengths:
        if group and (len(group) == _GROUP or held + sum(sizes) > _MOST_HELD):
            yield group
            group, held = [], 0
        group.append(no)
        held += sum(sizes)
    if group:
        yield group


def damage(connection: Connection, seconds: float, clock: Clock = SYSTEM) -> list[str]:
    """Return the first few problems found in limited time: `seconds` for SQLite's checks, then the newest exchanges.

    Missing measures are no damage: they can be derived again. Raises SQLite's error if it cannot read the tape.
    """
    found: list[str] = []
    with _interrupted_after(connection, seconds):
        found += itertools.islice(_of_tape(connection, "quick_check"), _MOST)
    if found:
        return found
    until = clock.now() + int(EXCHANGES_SECONDS * 1e9)
    with _interrupted_after(connection, EXCHANGES_SECONDS), _snapshot(connection):
        for exchange in connection.execute(_EXCHANGES.order_by(exchanges.c.no.desc())):
            if len(found) >= _MOST or clock.now() >= until:
                break
            for _, its_problems in _of_exchanges(connection, [exchange]):
                found += (f"exchange {exchange.id}: {problem}" for problem in its_problems)
    return found[:_MOST]


def verify(path: Path, uuid: str, seconds: float, newest_no: int = 0) -> Verified:
    """Count the exchanges and bytes of a session in the file, and check it, within `seconds` each.

    Its exchanges are numbered above `newest_no`. Unreadable data of a damaged file counts as missing.
    """
    if not paths.exists(path):
        return Verified(0, 0, 0, ["it was removed"])
    held = Verified(None, None, None, [])
    try:
        with file.reader_beside_writer(path).connect() as connection:
            with _interrupted_after(connection, seconds):
                session = select(sessions.c.no).where(sessions.c.uuid == uuid).scalar_subquery()
                of_session = (exchanges.c.no > newest_no) & (exchanges.c.session_no == session)
                held = _count(connection, of_session)
                sizes = (_sum(size, table).where(of_session) for table, size in _STORED)
                held = msgspec.structs.replace(held, bytes=sum(connection.execute(one).scalar_one() for one in sizes))
            return msgspec.structs.replace(held, problems=damage(connection, seconds))
    except DatabaseError as error:
        if sqlite_code(error) in DAMAGED:
            held = Verified(
                held.exchanges or 0, held.failed or 0, held.bytes or 0, [], non_generations=held.non_generations
            )
        return msgspec.structs.replace(held, problems=[str(error.orig)])
    except ForeignFile as error:
        return Verified(0, 0, 0, [str(error)])


_STORED = [
    one
    for stream in STREAMS
    for one in ((stream.bodies, stream.bodies.c.size), (stream.segments, func.length(stream.segments.c.data)))
]
"""Tables with the bytes of bodies, and the expression for their size."""


def _sum(size: ColumnElement[Any], table: Table) -> Select[Any]:
    return select(func.coalesce(func.sum(size), 0)).select_from(exchanges).join(table)


def _count(connection: Connection, of_session: ColumnElement[bool]) -> Verified:
    """Count the exchanges of a session: all, failed generations, non-generations, and unmeasured ones."""
    failed = func.count().filter(COVERED, measures.c.outcome.in_(FAILURES))
    non_generations = func.count().filter(not_(COVERED))
    unmeasured = func.count().filter(exchanges.c.ended_by.is_not(None), measures.c.exchange_no.is_(None))
    counts = select(func.count(), failed, non_generations, unmeasured)
    count, *parts = connection.execute(counts.select_from(exchanges).outerjoin(measures).where(of_session)).one()
    return Verified(count, parts[0], None, [], non_generations=parts[1], unmeasured=parts[2])


@contextlib.contextmanager
def _interrupted_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Interrupt SQLite, and leave the block, when it works for longer than `seconds`."""
    driver: Any = connection.connection.driver_connection
    done = threading.Event()
    is_interrupted = False

    def interrupt() -> None:
        nonlocal is_interrupted
        wait = seconds
        while not done.wait(wait):  # repeatedly, as the first interrupt may come between two statements
            is_interrupted = True
            driver.interrupt()
            wait = _INTERRUPT_SECONDS

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        yield
    except (DatabaseError, sqlite3.Error) as error:
        if sqlite_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
    finally:
        done.set()
        thread.join()
        if is_interrupted:
            # An interrupt stays in force while any statement is open, and would end a rollback, too.
            connection.invalidate()
            connection.rollback()


def _of_tape(connection: Connection, check: str) -> Iterator[str]:
    """Yield the problems that one of SQLite's checks finds; if there are none, those of keys and cells.

    A file that SQLite finds damaged may be unreadable. Reads and bodies are checked with their exchange.
    """
    is_sound = True
    for (report,) in connection.execute(text(f"PRAGMA {check}")):
        for line in report.splitlines():
            if line != "ok" and not line.startswith("***"):  # a heading
                is_sound = False
                yield f"SQLite: {line}"
    if not is_sound and check == "quick_check":
        return
    for row in connection.execute(text("PRAGMA foreign_key_check")):
        yield f"a row of {row[0]} refers to a row of {row[2]} that is not there"
    for table in (sessions, exchanges, measures, settlements, request_versions):
        for key, problem in cells.faults(connection, table.c):
            yield f"{cells.row_of(connection, table, key)}: {problem}"


def suspect_clocks(connection: Connection) -> tuple[int, int]:
    """Count the exchanges whose timestamps may be late by more than `SUSPECT_NS`, and all."""
    late = func.count(case((exchanges.c.clock_error_ns > SUSPECT_NS, 1)))
    row = connection.execute(select(late, func.count()).select_from(exchanges)).one()
    return row[0], row[1]


@contextlib.contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    """Read one state of a tape that is being written."""
    connection.rollback()
    with connection.begin():
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction:
            driver.execute("BEGIN")
        yield


def of_exchange(connection: Connection, no: int) -> list[str]:
    """Return the problems of the reads and the body of one exchange; none if the exchange does not exist."""
    with _snapshot(connection):
        rows = connection.execute(_EXCHANGES.where(exchanges.c.no == no)).all()
        return [problem for _, found in _of_exchanges(connection, rows) for problem in found]


def _of_exchanges(connection: Connection, rows: Sequence[Row[Any]]) -> Iterator[tuple[Row[Any], list[str]]]:
    """Yield each exchange of a group with its problems."""
    numbers = [exchange.no for exchange in rows]
    held = {stream: _Held.of(connection, stream, numbers) for stream in STREAMS}
    for exchange in rows:
        yield exchange, [*_of_exchange(exchange, held), *_of_request(connection, exchange)]


def _of_request(connection: Connection, exchange: Row[Any]) -> Iterator[str]:
    """Check a request body that is in parts."""
    if exchange.is_in_parts is None:
        return
    parts = connection.execute(_PARTS, {"no": exchange.no}).all()
    is_sound = exchange.is_in_parts and all([*map(type, part)] == [int, int, int, bytes] for part in parts)
    body = b"".join(part.data for part in parts) if is_sound else b"\0"
    if 0 in body or len({part.position for part in parts}) < len(parts):
        yield "the parts of its request are damaged"
        return
    if len(body) != exchange.request_size:
        yield f"its request has {counted(len(body), 'byte')} in parts, not {exchange.request_size}"
    elif hashlib.sha256(body).hexdigest() != exchange.request_sha256:
        yield "its request is not the one that was stored (sha256)"


def _of_exchange(exchange: Row[Any], held: Mapping[Stream, _Held]) -> Iterator[str]:
    counts = {FROM_UPSTREAM: (exchange.bytes, exchange.gap_bytes)}
    if exchange.client_bytes is not None or exchange.client_gap_bytes is not None:
        counts[FROM_CLIENT] = exchange.client_bytes, exchange.client_gap_bytes
    elif exchange.ended_by is None:
        counts[FROM_CLIENT] = 0, 0
    for stream, (came, gap) in counts.items():
        of = "" if stream is FROM_UPSTREAM else "what the client sent: "
        yield from (of + problem for problem in _of_stream(exchange, held[stream], came, gap))


def _of_stream(exchange: Row[Any], held: _Held, came: int | None, gap: int | None) -> Iterator[str]:
    segments, segment_bytes = held.segments.get(exchange.no, (0, 0))
    is_timed = exchange.clock != "none" and not exchange.lacks_bytes
    stored = yield from _of_reads(held.reads.get(exchange.no, []), is_timed=is_timed)
    is_running = exchange.ended_by is None
    if came is None or gap is None:
        yield from () if is_running else ("its counts of bytes are damaged",)
    elif not is_running and came != stored + gap:
        yield f"{came} bytes came, but {stored} are in reads and {gap} are counted as a gap"
    if is_running or (exchange.outcome is None and exchange.packed is None):  # the writer has not settled it yet
        if segment_bytes != stored:
            yield f"its segments hold {segment_bytes} bytes, its reads {stored}"
        return
    if not exchange.lacks_bytes:
        yield from _of_body(held.bodies.get(exchange.no), stored)
    if segments:
        yield "it has ended but still has segments"


def _of_reads(pieces: Iterable[packing.Packed], *, is_timed: bool) -> Generator[str, None, int]:
    """Check that the reads follow each other in number, time and place; return the bytes that they cover."""
    number = position = last = 0
    for piece in pieces:
        if piece.seq != number:
            yield f"read {number} is missing"
            break
        if piece.start != position:
            yield f"read {number} starts at {piece.start!s:.20}, not at {position}"
        reads, problem = _unpacked(piece)
        if reads and _are_ascending([last, *reads.at_ns] if number else reads.at_ns):  # nearly always
            position, last, number = position + sum(reads.size), reads.at_ns[-1], number + len(reads)
            continue
        position, last, number = yield from _of_elements(piece, problem, is_timed, (position, last, number))
    return position


def _of_elements(
    piece: packing.Packed, problem: str | None, is_timed: bool, before: tuple[int, int, int]
) -> Generator[str, None, tuple[int, int, int]]:
    """Check reads one by one; return the position, the latest timestamp and the count of reads after `before`."""
    (position, last, number), at_ns = before, 0
    for seq, (delta, _, size) in enumerate(packing.elements(piece), number):
        if size is None or (delta is None and is_timed):
            yield f"read {seq} is damaged"
            problem = None
        elif seq and delta is not None and at_ns + delta < last:
            yield f"read {seq} came before the one that it follows"
        at_ns += delta or 0
        position, last, number = position + (size or 0), max(last, at_ns) if seq else at_ns, seq + 1
    if problem:
        yield problem
    return position, last, number


def _are_ascending(values: Sequence[int]) -> bool:
    return all(map(le, values, values[1:]))


def _unpacked(piece: packing.Packed) -> tuple[Reads | None, str | None]:
    """Return unpacked reads, or None and the reason for which they cannot be unpacked."""
    try:
        return packing.unpack(piece), None
    except (ValueError, TypeError) as error:
        return None, f"its reads are damaged ({error})"


def _of_body(body: Row[Any] | None, stored: int) -> Iterator[str]:
    if body is None:
        yield "it has ended but has no body"
        return
    try:
        data = encoding.unpack(body.data or b"", -1 if body.size is None else body.size)
    except ValueError as error:
        yield f"its body cannot be unpacked ({error})"
        return
    if len(data) != body.size or body.size != stored:
        yield f"its body has {counted(len(data), 'byte')}, its reads {stored}"
    if hashlib.sha256(data).hexdigest() != body.sha256:
        yield "its body is not the one that was stored (sha256)"
