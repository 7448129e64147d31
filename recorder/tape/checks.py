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
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
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
from wiretape.recorder.decode.exchange import FAILURES, SUSPECT_NS
from wiretape.recorder.errors import DAMAGED, ForeignFile, sqlite_code
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape import cells, file, packing, reading, tables
from wiretape.recorder.tape.column_types import cells_of
from wiretape.recorder.tape.file import driver_of
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
"""Time allowed for the newest exchanges when a recorder starts or ends: it waits for the check."""

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
_NUMBERS: BindParameter[Sequence[int]] = bindparam("numbers", expanding=True)


@dataclass(frozen=True, slots=True)
class _GroupStatements:
    """The statements that read one direction of a group of exchanges."""

    bodies: Select[Any]
    segments: Select[Any]

    @classmethod
    def of(cls, stream: Stream) -> "_GroupStatements":
        no, segment_no = stream.bodies.c.exchange_no, stream.segments.c.exchange_no
        size = func.coalesce(func.sum(func.length(stream.segments.c.data)), 0)
        return cls(
            select(no, *(stream.bodies.c[name] for name in ("data", "size", "sha256"))).where(no.in_(_NUMBERS)),
            select(segment_no, func.count(), size).where(segment_no.in_(_NUMBERS)).group_by(segment_no),
        )


_OF = {stream: _GroupStatements.of(stream) for stream in STREAMS}


@dataclass(frozen=True, slots=True)
class _StoredDirection:
    """The reads, bodies and segments (count, bytes) of one direction of a group of exchanges, by exchange number."""

    reads: dict[int, list[packing.Packed]]
    bodies: dict[int, Row[Any]]
    segments: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, connection: Connection, stream: Stream, numbers: Sequence[int]) -> "_StoredDirection":
        parameters, statements = {"numbers": numbers}, _OF[stream]
        rows = connection.execute(statements.bodies, parameters)
        counts = connection.execute(statements.segments, parameters)
        return cls(
            reading.packed_reads(file.reader_of(connection), numbers, tables.STREAMS[STREAMS.index(stream)]),
            {row.exchange_no: row for row in rows},
            {no: (count, size) for no, count, size in counts},
        )


def problems(connection: Connection) -> Iterator[str]:
    """Yield every problem of a tape; an undamaged one has none."""
    yield from _of_tape(connection, "integrity_check")
    unused_parts = select(func.count()).select_from(request_parts).where(not_(exists().where(IS_PART_OF)))
    if unused := connection.execute(unused_parts).scalar_one():
        yield f"parts of request bodies that no exchange has: {unused:,}"
    for numbers in _groups(tuple(row) for row in connection.execute(_LENGTHS).all()):
        sentences: list[str] = []
        with _snapshot(connection):
            rows = connection.execute(_EXCHANGES.where(exchanges.c.no.in_(numbers)).order_by(exchanges.c.no)).all()
            for exchange, problems_of_exchange in _of_exchanges(connection, rows):
                sentences += (f"exchange {exchange.id}: {problem}" for problem in problems_of_exchange)
                if exchange.is_settled and exchange.outcome is None and not exchange.lacks_bytes:
                    sentences.append(
                        f"exchange {exchange.id}: it has ended but has no measures: run 'wiretape db rebuild'"
                    )
        yield from sentences  # after the transaction: a reader that pauses would keep the log from being shortened


def _groups(lengths: Iterable[Sequence[int]]) -> Iterator[list[int]]:
    """Cut exchanges, given by number and lengths of their packed bodies, into groups that are checked together.

    A group has at most 100 exchanges and 16 MiB, which are in memory at once, or a single larger body.
    """
    group, total = list[int](), 0
    for no, *sizes in lengths:
        if group and (len(group) == 100 or total + sum(sizes) > 16 << 20):
            yield group
            group, total = [], 0
        group.append(no)
        total += sum(sizes)
    if group:
        yield group


def damage(connection: Connection, seconds: float, clock: Clock = SYSTEM) -> list[str]:
    """Return the first few problems found in limited time: `seconds` for SQLite's checks, then the newest exchanges.

    Missing measures are no damage: they can be derived again. Raises SQLite's error if it cannot read the tape.
    """
    sentences: list[str] = []
    with _interrupted_after(connection, seconds):
        sentences += itertools.islice(_of_tape(connection, "quick_check"), _MOST)
    if sentences:
        return sentences
    until = clock.now() + int(EXCHANGES_SECONDS * 1e9)
    with _interrupted_after(connection, EXCHANGES_SECONDS), _snapshot(connection):
        for exchange in connection.execute(_EXCHANGES.order_by(exchanges.c.no.desc())):
            if len(sentences) >= _MOST or clock.now() >= until:
                break
            for _, problems_of_exchange in _of_exchanges(connection, [exchange]):
                sentences += (f"exchange {exchange.id}: {problem}" for problem in problems_of_exchange)
    return sentences[:_MOST]


def verify(path: Path, uuid: str, seconds: float, newest_no: int = 0) -> Verified:
    """Count the exchanges and bytes of a session in the file, and check it, within `seconds` each.

    Its exchanges are numbered above `newest_no`. Unreadable data of a damaged file counts as missing.
    """
    if not paths.exists(path):
        return Verified(0, 0, 0, ["it was removed"])
    counts = Verified(None, None, None, [])
    try:
        with file.reader_beside_writer(path).connect() as connection:
            with _interrupted_after(connection, seconds):
                session = select(sessions.c.no).where(sessions.c.uuid == uuid).scalar_subquery()
                of_session = (exchanges.c.no > newest_no) & (exchanges.c.session_no == session)
                counts = _count(connection, of_session)
                sums = [
                    select(func.coalesce(func.sum(size), 0)).select_from(exchanges).join(table).where(of_session)
                    for table, size in _STORED_SIZES
                ]
                size = sum(connection.execute(statement).scalar_one() for statement in sums)
                counts = msgspec.structs.replace(counts, bytes=size)
            return msgspec.structs.replace(counts, problems=damage(connection, seconds))
    except DatabaseError as error:
        if sqlite_code(error) in DAMAGED:
            zeros = {name: getattr(counts, name) or 0 for name in ("exchanges", "failed", "bytes")}
            counts = msgspec.structs.replace(counts, **zeros)
        return msgspec.structs.replace(counts, problems=[str(error.orig)])
    except ForeignFile as error:
        return Verified(0, 0, 0, [str(error)])


_STORED_SIZES = [
    pair
    for stream in STREAMS
    for pair in ((stream.bodies, stream.bodies.c.size), (stream.segments, func.length(stream.segments.c.data)))
]
"""Tables with the bytes of bodies, and the expression for their size."""


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
            wait = 0.02

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
        for key, problem in cells.faults(driver_of(connection), table.name, cells_of(table.c)):
            yield f"{cells.row_of(driver_of(connection), table.name, key)}: {problem}"


def has_open_run(connection: Connection) -> bool:
    """Return True if an exchange is running on a tape, or its newest run of a recorder has no end."""
    newest_no = select(func.max(sessions.c.no)).scalar_subquery()
    has_no_end = sessions.c.ended_at.is_(None) & sessions.c.imported_from.is_(None)
    is_run_open = exists().where(sessions.c.no == newest_no, has_no_end)
    return bool(connection.execute(select(is_run_open | exists().where(exchanges.c.ended_by.is_(None)))).scalar_one())


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
        return [problem for _, problems in _of_exchanges(connection, rows) for problem in problems]


def _of_exchanges(connection: Connection, rows: Sequence[Row[Any]]) -> Iterator[tuple[Row[Any], list[str]]]:
    """Yield each exchange of a group with its problems."""
    numbers = [exchange.no for exchange in rows]
    directions = {stream: _StoredDirection.of(connection, stream, numbers) for stream in STREAMS}
    for exchange in rows:
        yield exchange, [*_of_exchange(exchange, directions), *_of_request(connection, exchange)]


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


def _of_exchange(exchange: Row[Any], directions: Mapping[Stream, _StoredDirection]) -> Iterator[str]:
    counts = {FROM_UPSTREAM: (exchange.bytes, exchange.gap_bytes)}
    if exchange.client_bytes is not None or exchange.client_gap_bytes is not None:
        counts[FROM_CLIENT] = exchange.client_bytes, exchange.client_gap_bytes
    elif exchange.ended_by is None:
        counts[FROM_CLIENT] = 0, 0
    for stream, (received, gap) in counts.items():
        of = "" if stream is FROM_UPSTREAM else "what the client sent: "
        yield from (of + problem for problem in _of_stream(exchange, directions[stream], received, gap))


def _of_stream(exchange: Row[Any], direction: _StoredDirection, received: int | None, gap: int | None) -> Iterator[str]:
    segments, segment_bytes = direction.segments.get(exchange.no, (0, 0))
    is_timed = exchange.clock != "none" and not exchange.lacks_bytes
    read_bytes = yield from _of_reads(direction.reads.get(exchange.no, []), is_timed=is_timed)
    is_running = exchange.ended_by is None
    if received is None or gap is None:
        yield from () if is_running else ("its counts of bytes are damaged",)
    elif not is_running and received != read_bytes + gap:
        yield f"{received} bytes came, but {read_bytes} are in reads and {gap} are counted as a gap"
    if is_running or (exchange.outcome is None and exchange.packed is None):  # the writer has not settled it yet
        if segment_bytes != read_bytes:
            yield f"its segments hold {segment_bytes} bytes, its reads {read_bytes}"
        return
    if not exchange.lacks_bytes:
        yield from _of_body(direction.bodies.get(exchange.no), read_bytes)
    if segments:
        yield "it has ended but still has segments"


def _of_reads(pieces: Iterable[packing.Packed], *, is_timed: bool) -> Generator[str, None, int]:
    """Check that the reads follow each other in number, time and place; return the bytes that they cover."""
    end = _End(0, 0, 0)
    for piece in pieces:
        if piece.seq != end.seq:
            yield f"read {end.seq} is missing"
            break
        if piece.start != end.position:
            yield f"read {end.seq} starts at {piece.start!s:.20}, not at {end.position}"
        reads, problem = None, None
        try:
            reads = packing.unpack(piece)
        except (ValueError, TypeError) as error:
            problem = f"its reads are damaged ({error})"
        if reads:
            timestamps = [end.latest_ns, *reads.at_ns] if end.seq else reads.at_ns
            if all(map(le, timestamps, timestamps[1:])):  # nearly always
                end = _End(end.position + sum(reads.size), reads.at_ns[-1], end.seq + len(reads))
                continue
        end = yield from _of_elements(piece, problem, is_timed, end)
    return end.position


class _End(NamedTuple):
    """The end of the reads that are checked: the position, the latest timestamp, and the number of the next read."""

    position: int
    latest_ns: int
    seq: int


def _of_elements(piece: packing.Packed, problem: str | None, is_timed: bool, end: _End) -> Generator[str, None, _End]:
    """Check reads one by one that follow an end; return theirs."""
    (position, latest_ns, number), at_ns = end, 0
    for seq, (delta, _, size) in enumerate(packing.elements(piece), number):
        if size is None or (delta is None and is_timed):
            yield f"read {seq} is damaged"
            problem = None
        elif seq and delta is not None and at_ns + delta < latest_ns:
            yield f"read {seq} came before the one that it follows"
        at_ns += delta or 0
        position, latest_ns = position + (size or 0), max(latest_ns, at_ns) if seq else at_ns
        number = seq + 1
    if problem:
        yield problem
    return _End(position, latest_ns, number)


def _of_body(body: Row[Any] | None, read_bytes: int) -> Iterator[str]:
    if body is None:
        yield "it has ended but has no body"
        return
    try:
        data = encoding.unpack(body.data or b"", -1 if body.size is None else body.size)
    except ValueError as error:
        yield f"its body cannot be unpacked ({error})"
        return
    if len(data) != body.size or body.size != read_bytes:
        yield f"its body has {counted(len(data), 'byte')}, its reads {read_bytes}"
    if hashlib.sha256(data).hexdigest() != body.sha256:
        yield "its body is not the one that was stored (sha256)"
