"""Whether a tape keeps its promises: SQLite's own checks, and what must hold between the tables.

Each problem is one sentence that names the exchange. Mending is left to `wiretape db rebuild` and to people.
"""

import contextlib
import hashlib
import zlib
from collections.abc import Generator, Iterator
from typing import Any

from sqlalchemy import Connection, Row, func, select, text

from recorder.schema import bodies, exchanges, measures, reads, segments

_CHECKED = [exchanges.c[name] for name in ("no", "id", "ended_by", "bytes", "gap_bytes")]


def problems(connection: Connection) -> Iterator[str]:
    """Look for damage; an undamaged tape gives nothing."""
    for (said,) in connection.execute(text("PRAGMA integrity_check")):
        if said != "ok":
            yield f"SQLite: {said}"
    for row in connection.execute(text("PRAGMA foreign_key_check")):
        yield f"a row of {row[0]} refers to a row of {row[2]} that is not there"
    numbers = connection.execute(select(exchanges.c.no).order_by(exchanges.c.no)).scalars().all()
    for no in numbers:
        with _snapshot(connection):
            exchange = connection.execute(select(*_CHECKED).where(exchanges.c.no == no)).one()
            found = [f"exchange {exchange.id}: {problem}" for problem in _of_exchange(connection, exchange)]
        yield from found


@contextlib.contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    """See one state of a tape that is being written meanwhile."""
    connection.rollback()
    with connection.begin():
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction:
            driver.execute("BEGIN")
        yield


def _of_exchange(connection: Connection, exchange: Row[Any]) -> Iterator[str]:
    stored = yield from _of_reads(connection, exchange.no)
    if exchange.ended_by is None:
        yield from _of_open(connection, exchange.no, stored)
        return
    if exchange.bytes != stored + exchange.gap_bytes:
        yield f"{exchange.bytes} bytes came, but {stored} are in reads and {exchange.gap_bytes} are counted as a gap"
    outcome = connection.execute(select(measures.c.outcome).where(measures.c.exchange_no == exchange.no)).scalar()
    packed = connection.execute(select(bodies.c.size).where(bodies.c.exchange_no == exchange.no)).scalar()
    if outcome is None and packed is None:  # the writer has yet to come to it: all is as in an open exchange
        yield from _of_open(connection, exchange.no, stored)
        return
    yield from _of_body(connection, exchange.no, stored)
    if outcome is None:
        yield "it has ended but has no measures: run 'wiretape db rebuild'"
    left = select(func.count()).select_from(segments).where(segments.c.exchange_no == exchange.no)
    if connection.execute(left).scalar():
        yield "it has ended but still has segments"


def _of_reads(connection: Connection, no: int) -> Generator[str, None, int]:
    """Check that the reads follow each other in number, time and place; return the bytes that they cover."""
    position, last = 0, None
    columns = (reads.c.seq, reads.c.at_ns, reads.c.start, reads.c.size)
    rows = connection.execute(select(*columns).where(reads.c.exchange_no == no).order_by(reads.c.seq))
    for expected, (seq, at_ns, start, size) in enumerate(rows):
        if seq != expected:
            yield f"read {expected} is missing"
            break
        if last is not None and at_ns < last:
            yield f"read {seq} came before the one that it follows"
        if start != position:
            yield f"read {seq} starts at {start}, not at {position}"
        position, last = position + size, at_ns
    return position


def _of_open(connection: Connection, no: int, stored: int) -> Iterator[str]:
    size = select(func.coalesce(func.sum(func.length(segments.c.data)), 0)).where(segments.c.exchange_no == no)
    if (held := connection.execute(size).scalar()) != stored:
        yield f"its segments hold {held} bytes, its reads {stored}"


def _of_body(connection: Connection, no: int, stored: int) -> Iterator[str]:
    body = connection.execute(select(bodies).where(bodies.c.exchange_no == no)).one_or_none()
    if body is None:
        yield "it has ended but has no body"
        return
    try:
        data = zlib.decompress(body.data)
    except zlib.error as error:
        yield f"its body cannot be unpacked ({error})"
        return
    if len(data) != body.size or body.size != stored:
        yield f"its body has {len(data)} bytes, its reads {stored}"
    if hashlib.sha256(data).hexdigest() != body.sha256:
        yield "its body is not the one that was stored (sha256)"
