"""Queries for replays: all requests, and the answer to one of them.

Each query is short, as in `queries`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import NOT_SHIPPED, Outcome, RecordedExchange
from wiretape.recorder.facts import EndedBy, Framing
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import and_, func, select
from wiretape.recorder.tape.tables import REQUEST_BODY, exchanges
from wiretape.viewer.record.rows import Headers
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import column, label
from wiretape.viewer.source.tape.conditions import Condition

_BY_RECORDER: Final = ("died", "shutdown", "local")


class ExchangeHead(NamedTuple):
    """An ended exchange by which a request finds its answer; `no` is its number in its source.

    It holds no `Exchange`: those of a whole tape are read before the first request is answered.
    """

    no: int
    id: str
    method: str
    path: str
    upstream: str
    model: str | None
    status: int | None
    outcome: Outcome
    framing: Framing | None
    started_at: str
    ended_by: EndedBy = "end"
    request_sha256: str | None = None
    request_size: int | None = None
    flags: str | None = None

    @property
    def has_bytes(self) -> bool:
        """True if the tape holds its bytes; False if it was pulled from a server that does not have them."""
        return not self._is_flagged(NOT_SHIPPED)

    @property
    def has_stall(self) -> bool:
        """True if its stream stalled."""
        return self._is_flagged("stall")

    def _is_flagged(self, flag: str) -> bool:
        return flag in (self.flags or "").split()

    @property
    def is_answered(self) -> bool:
        """True if upstream answered: False if no answer came, or if the recorder itself broke it off."""
        return self.status is not None and self.ended_by not in _BY_RECORDER and self.has_bytes


_FIELDS = ("no", "id", "method", "path", "upstream", "model", "status", "outcome", "framing", "started_at", "ended_by",
           "request_sha256", "request_size", "flags")  # fmt: skip
_BODIES: Final = select(exchanges.c.no, exchanges.c.request_headers, REQUEST_BODY, exchanges.c.request_size)
_GROUP, _GROUP_BYTES = 200, 4 << 20


def heads(
    connection: Connection, where: Condition | None = None, among: Condition | None = None
) -> Iterator[ExchangeHead]:
    """Yield the exchanges that fit and have ended, of those `among` if some are named, oldest first."""
    statement = select(*(column(name).label(name) for name in _FIELDS))
    conditions = (exchanges.c.ended_by.is_not(None), among, where)
    ended = and_(*(one for one in conditions if one is not None))
    for batch in queries.in_batches(connection, statement, ended):
        yield from map(ExchangeHead._make, batch)


def labelled(connection: Connection, key: str) -> dict[int, str]:
    """Return the value of a label, by the number of each exchange that has it."""
    statement = select(exchanges.c.no, label(key)).where(label(key).is_not(None))
    with connection.begin():
        return {no: value for no, value in connection.execute(statement)}


def running(connection: Connection, after: int) -> tuple[set[int], int]:
    """Return the numbers above `after` of the exchanges that have not ended, and the newest number of all."""
    statement = select(exchanges.c.no).where(exchanges.c.no > after, exchanges.c.ended_by.is_(None))
    with connection.begin():
        newest = connection.execute(select(func.max(exchanges.c.no))).scalar()
        return set(connection.execute(statement).scalars()), newest or 0


def numbers(after: int, until: int) -> Condition:
    """Return the condition for the exchanges with numbers above `after`, up to `until`.

    Without a bound where there is no need for one: SQLite takes one of two lower bounds for its search, and it is to be
    that of a batch.
    """
    upper = exchanges.c.no <= until
    return upper & (exchanges.c.no > after) if after else upper


def request_bodies(connection: Connection, requests: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
    """Yield the body of each request without its content coding; None if the tape does not hold all of it.

    Several are read at once, except large ones.
    """
    group, held = list[ExchangeHead](), 0
    for head in requests:
        size = head.request_size or 0
        if group and (len(group) == _GROUP or held + size > _GROUP_BYTES):
            yield from _bodies_of_group(connection, group)
            group, held = [], 0
        group.append(head)
        held += size
    if group:
        yield from _bodies_of_group(connection, group)


def _bodies_of_group(connection: Connection, group: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
    statement = _BODIES.where(exchanges.c.no.in_([head.no for head in group]))
    with connection.begin():
        stored = {no: values for no, *values in connection.execute(statement)}
    for head in group:
        yield _uncoded(*stored[head.no]) if head.no in stored else None  # deleted meanwhile


def _uncoded(headers: Headers | None, stored: bytes | None, size: int | None) -> bytes | None:
    body = stored or b""
    if size != len(body):
        return None
    return encoding.uncoded(headers or [], body)


def answer(connection: Connection, no: int) -> RecordedExchange:
    """Read the answer of an exchange. Raises `TapeDamaged`, and `NoResultFound`."""
    with connection.begin():
        exchange = reading.facts_of(connection, reading.row_of(connection, no))
        return RecordedExchange(exchange, reading.reads_of(connection, no), reading.stored_body(connection, no))
