"""Following a tape: the exchanges that fit, in batches, as they end.

The tape numbers settled exchanges in the order of the commits: a follower selects higher numbers than its last one.
Each query is short, as in `queries`, which fetches the rows; the format of batches is left to the commands.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select, true

from wiretape.recorder.tape.schema import exchanges, measures, sessions, settlements
from wiretape.viewer.rows import TableRow
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import JOINED, Statement, among
from wiretape.viewer.source.tape.conditions import Condition

POLL_SECONDS = 0.2
"""Maximum delay before a finished exchange is seen; people do not notice a fifth of a second."""


PAGE = 50
"""Number of exchanges per query."""


class Follower:
    """Takes exchanges as they end, each once, those settled after a version first; of a tape, or of one session of it.

    Exchanges settled after `until`, if given, are left out. It may go on over another connection to the tape.
    """

    def __init__(self, version: int = 0, session: str | None = None, *, until: int | None = None) -> None:
        joined = settlements.join(exchanges, exchanges.c.no == settlements.c.exchange_no)
        self._ended = select(settlements.c.version, exchanges.c.no).select_from(joined)
        if session is not None:
            own = select(sessions.c.no).where(sessions.c.uuid == session).scalar_subquery()
            self._ended = self._ended.where(exchanges.c.session_no == own)
        if until is not None:
            self._ended = self._ended.where(settlements.c.version <= until)
        self.version = version
        """All that were settled up to this one have been taken."""

    def skip(self, connection: Connection) -> None:
        """Skip the exchanges that have been settled before now."""
        self.version = connection.execute(select(func.max(settlements.c.version))).scalar() or 0

    def take(self, connection: Connection) -> list[int]:
        """Return the numbers of the next exchanges that have ended, at most a page of them; none: there are no more."""
        statement = self._ended.where(settlements.c.version > self.version)
        with connection.begin():
            rows = connection.execute(statement.order_by(settlements.c.version).limit(PAGE)).all()
        self.version = rows[-1].version if rows else self.version
        return [row.no for row in rows]


@contextlib.contextmanager
def interrupts(seconds: float = POLL_SECONDS) -> Iterator[Callable[[], None]]:
    """Yield a function that waits for the next poll, and raises `KeyboardInterrupt` for an interrupt until then.

    By itself Python raises it wherever it happens to be; within a callback of a library it would be lost.
    """
    came = threading.Event()

    def pause() -> None:
        if came.wait(seconds):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield pause
    finally:
        signal.signal(signal.SIGINT, before)


def pause() -> None:
    """Wait for the next poll."""
    threading.Event().wait(POLL_SECONDS)


def ended(
    connection: Connection,
    fields: tuple[str, ...],
    where: Condition | None = None,
    *,
    last: int = 10,
    wait: Callable[[], None] = pause,
) -> Iterator[list[TableRow]]:
    """Yield the newest `last` that have ended, then, for ever, those that end; each once, in the order of ending.

    Of exchanges that end between two polls the times of their ends decide. `wait` is called before each poll.
    """
    batches = ended_numbers(connection, where, last=last, wait=wait)
    yield list(queries.numbered(connection, fields, next(batches)))
    for numbers in batches:
        if batch := list(queries.numbered(connection, fields, numbers, where)):
            yield batch


def ended_numbers(
    connection: Connection, where: Condition | None = None, *, last: int | None = None, wait: Callable[[], None] = pause
) -> Iterator[list[int]]:
    """Yield the numbers of the newest `last` that fit and have ended, or of all; then of all that end, fit or not."""
    follower = Follower()
    with connection.begin():  # one snapshot: an exchange that ends later is read later, and only once
        follower.skip(connection)
        newest, running = _unsettled(connection)
        numbers = _last_ended(connection, last, where)
    yield numbers
    while True:
        wait()
        settled = set[int]()
        while page := follower.take(connection):
            settled.update(page)
        last_begun = max(settled, default=0)
        running |= _between(connection, newest, last_begun)
        if ended := settled & running:  # others were derived again
            yield _in_order_of_ending(_ended(connection, ended))
        newest, running = max(newest, last_begun), running - settled


def _unsettled(connection: Connection) -> tuple[int, set[int]]:
    """Return the highest number of an exchange, and the numbers of those that are open or not yet measured."""
    running = select(exchanges.c.no).select_from(JOINED).where(measures.c.exchange_no.is_(None))
    newest = connection.execute(select(func.max(exchanges.c.no))).scalar()
    return newest or 0, set(connection.execute(running).scalars())


def _between(connection: Connection, newest: int, last: int) -> set[int]:
    """Return the numbers of the exchanges that have begun after one, up to another."""
    statement = select(exchanges.c.no).where(exchanges.c.no > newest, exchanges.c.no <= last)
    with connection.begin():
        return set(connection.execute(statement).scalars())


def _ended(connection: Connection, numbers: set[int]) -> Sequence[Any]:
    with connection.begin():
        return connection.execute(_ends().where(among(numbers))).all()


def _last_ended(connection: Connection, count: int | None, where: Condition | None) -> list[int]:
    statement = _ends().where(measures.c.exchange_no.is_not(None), true() if where is None else where)
    rows = connection.execute(statement.order_by(exchanges.c.no.desc()).limit(count)).all()
    return _in_order_of_ending(rows)


def _ends() -> Statement:
    return select(exchanges.c.no, exchanges.c.started_at, exchanges.c.end_ns).select_from(JOINED)


def _in_order_of_ending(rows: Sequence[Any]) -> list[int]:
    def ended(row: Any) -> tuple[datetime, int]:
        lasted = timedelta(microseconds=(row.end_ns or 0) / 1000)
        return datetime.fromisoformat(row.started_at) + lasted, row.no

    return [row.no for row in sorted(rows, key=ended)]
