"""Following a tape: the exchanges that fit, in batches, as they end.

A poll costs one number from SQLite, and only when that has changed is anything looked up. Each query is short, as in
`queries`, which fetches the rows; what the batches look like is left to the commands.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select, true

from recorder.tape.schema import exchanges, measures
from viewer.rows import TableRow
from viewer.source.tape import queries
from viewer.source.tape.columns import JOINED
from viewer.source.tape.conditions import Condition

POLL_SECONDS = 0.2
"""How long an exchange that has ended may go unseen; people do not notice a fifth of a second."""


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
    with connection.begin():  # of one moment: what ends after it comes later, and only then
        newest, running = _unsettled(connection)
        numbers = _last_ended(connection, last, where)
    yield numbers
    version: int | None = None
    while True:
        wait()
        latest = queries.version(connection)
        if latest == version:
            continue
        version = latest
        numbers, newest, running = _settled(connection, newest, running)
        if numbers:
            yield numbers


def _unsettled(connection: Connection) -> tuple[int, set[int]]:
    """Return the highest number of an exchange, and the numbers of those that are open or not yet measured."""
    running = select(exchanges.c.no).select_from(JOINED).where(measures.c.exchange_no.is_(None))
    newest = connection.execute(select(func.max(exchanges.c.no))).scalar()
    return newest or 0, set(connection.execute(running).scalars())


def _settled(connection: Connection, newest: int, running: set[int]) -> tuple[list[int], int, set[int]]:
    """Return which of the exchanges in `running` and above `newest` have ended, in the order in which they did.

    With their numbers come the new `newest` and `running`.
    """
    statement = _ends().where(or_(exchanges.c.no > newest, exchanges.c.no.in_(running)))
    with connection.begin():
        rows = connection.execute(statement).all()
    still = {row.no for row in rows if row.exchange_no is None}
    ended = [row for row in rows if row.exchange_no is not None]
    return _in_order_of_ending(ended), max([newest, *(row.no for row in rows)]), still


def _last_ended(connection: Connection, count: int | None, where: Condition | None) -> list[int]:
    statement = _ends().where(measures.c.exchange_no.is_not(None), true() if where is None else where)
    rows = connection.execute(statement.order_by(exchanges.c.no.desc()).limit(count)).all()
    return _in_order_of_ending(rows)


def _ends() -> Select[Any]:
    columns = (exchanges.c.no, exchanges.c.started_at, exchanges.c.end_ns, measures.c.exchange_no)
    return select(*columns).select_from(JOINED)


def _in_order_of_ending(rows: Sequence[Any]) -> list[int]:
    def ended(row: Any) -> tuple[datetime, int]:
        lasted = timedelta(microseconds=(row.end_ns or 0) / 1000)
        return datetime.fromisoformat(row.started_at) + lasted, row.no

    return [row.no for row in sorted(rows, key=ended)]
