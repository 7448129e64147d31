"""The settled exchanges of a tape, each once and in their order, for programs that ship or count them.

The writer numbers settled exchanges in the order of the commits: a program that follows a tape selects higher numbers
than its last one, the `version` up to which it has taken all. Each query is short, so that a reader never holds up the
writer's checkpoints. Nothing that only lists and statistics need is loaded here: shipping is a process of its own that
stays, and takes little memory.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.tape import reader
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Expression, Select, bindparam, func, select
from wiretape.recorder.tape.tables import (
    FROM_CLIENT,
    FROM_UPSTREAM,
    REQUEST_BODY,
    TABLES,
    as_stored,
    exchanges,
    measures,
    sessions,
    settlements,
)
from wiretape.viewer.source.base import POLL_SECONDS
from wiretape.viewer.source.tape.following import SETTLED_NUMBERS, in_order

if TYPE_CHECKING:
    from wiretape.viewer.stats.dashboard import Traced

PAGE = 50
"""Number of exchanges that a follower takes at once."""

_JOINED = (
    settlements.join(exchanges, exchanges.c.no == settlements.c.exchange_no)
    .join(sessions, sessions.c.no == exchanges.c.session_no)
    .outerjoin(measures, measures.c.exchange_no == exchanges.c.no)
)
_STREAMED = _JOINED.outerjoin(FROM_UPSTREAM.bodies, FROM_UPSTREAM.bodies.c.exchange_no == exchanges.c.no).outerjoin(
    FROM_CLIENT.bodies, FROM_CLIENT.bodies.c.exchange_no == exchanges.c.no
)
_SIZES = select(
    func.coalesce(exchanges.c.request_size, 0)
    + func.coalesce(FROM_UPSTREAM.bodies.c.size, 0)
    + func.coalesce(FROM_CLIENT.bodies.c.size, 0)
).select_from(_STREAMED)
_CACHE_KIB = 256
_LAST = (1 << 63) - 1

_EARLIEST_US = 10**15
"""Versions below are numbers of exchanges, not times of settling: those of tapes made of texts."""


@contextlib.contextmanager
def opened(path: Path, *, decodes: bool) -> Iterator["SettledTape"]:
    """Open a tape; `decodes` for `traced` and `ended`, which need what lists need. Raises as `reader.opened` does."""
    opener: Callable[[Path], contextlib.AbstractContextManager[Connection]] = reader.opened
    if decodes:
        from wiretape.viewer.source.tape import queries

        opener = queries.opened
    with opener(path) as connection:
        yield SettledTape(connection)


class ShippingBacklog(NamedTuple):
    """The number of exchanges to ship, and the version of the first, or None without any."""

    exchanges: int
    first: int | None

    def lag_ns(self, wall_ns: int) -> int | None:
        """Return the time since the first was settled, or None if there is none, or its time is unknown."""
        if self.first is None or self.first < _EARLIEST_US:
            return None
        return max(wall_ns - self.first * 1000, 0)


class SettledTape:
    """A tape that is open, as its settled exchanges."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Each page is read once: what SQLite would keep of the tape in memory is of no use, and a process that ships is
        # to stay below 64 MiB.
        connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.rollback()

    def identity(self) -> str | None:
        """Return the id of the tape, which another of its name lacks: its first session; None before that."""
        statement = select(sessions.c.uuid).order_by(sessions.c.no).limit(1)
        with self._connection.begin():
            uuid: str | None = self._connection.execute(statement).scalar()
        return uuid

    def backlog(self, after: int) -> ShippingBacklog:
        """Return the count of exchanges settled after a version, with the first version of them."""
        statement = select(func.count(), func.min(settlements.c.version)).where(settlements.c.version > after)
        with self._connection.begin():
            count, first = self._connection.execute(statement).one()
        return ShippingBacklog(count, first)

    def rows(self, columns: Sequence[Any], after: int, until: int | None, most: int) -> list[tuple[Any, ...]]:
        """Return the exchanges settled after a version and not after `until`, in that order, with a limit.

        A row has the version, the labels, and then the columns.
        """
        statement = _rows(tuple(columns)).params(after=after, until=_LAST if until is None else until, most=most)
        with self._connection.begin():
            return self._connection.fetch(statement)

    def count_within(self, size: int, after: int, most: int) -> int:
        """Return the number of exchanges settled after a version whose bodies fit `size` bytes: at least 1."""
        statement = _limited(_SIZES).params(after=after, until=_LAST, most=most)
        with self._connection.begin():
            sizes: Sequence[int] = self._connection.execute(statement).scalars().all()
        return max(sum(total <= size for total in itertools.accumulate(sizes)), 1)

    def runs(self, columns: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the runs of recorders on the tape, in their order."""
        statement = select(*map(_as_stored, columns)).order_by(sessions.c.no)
        with self._connection.begin():
            return self._connection.fetch(statement)

    def followed(self, version: int = 0, *, until: int | None = None, session: str | None = None) -> "Follower":
        """Return the follower of all exchanges settled after a version, and not after `until`; or of one session's."""
        return Follower(self._connection, version, until, session)

    def traced(self, numbers: Sequence[int], *, of_spans: bool = False) -> "Iterator[Traced]":
        """Yield the exchanges of these numbers, except those that have been deleted since.

        `of_spans` adds the time before each, for which the sessions of the tape are read, and the parameters of its
        request.
        """
        from wiretape.viewer.source.tape import session

        return session.traced(self._connection, numbers, of_spans=of_spans)

    def ended(self, session: str) -> "Iterator[Traced]":
        """Yield every exchange of a session that has ended, then, for ever, those that end."""
        follower = self.followed(session=session)
        while True:
            while numbers := follower.take():
                yield from self.traced(numbers)
            SYSTEM.sleep(POLL_SECONDS["command"])


class Follower:
    """Takes exchanges as they settle, each once, those after a version first."""

    def __init__(self, connection: Connection, version: int, until: int | None, session: str | None) -> None:
        self._connection = connection
        self._statement = _limited(SETTLED_NUMBERS).params(until=_LAST if until is None else until, most=PAGE)
        if session is not None:
            session_no = select(sessions.c.no).where(sessions.c.uuid == session).scalar_subquery()
            self._statement = self._statement.where(exchanges.c.session_no == session_no)
        self.version = version
        """All that were settled up to this one have been taken."""

    def take(self) -> list[int]:
        """Return the numbers of the next settled exchanges, at most a page of them; none: there are no more."""
        with self._connection.begin():
            rows = in_order(self._connection.execute(self._statement.params(after=self.version)))
        self.version = rows[-1].version if rows else self.version
        return [row.no for row in rows]


def _limited(statement: Select) -> Select:
    """Limit settled exchanges, in their order, to those after a version and not after another, and in number."""
    version = settlements.c.version
    limited = statement.where(version > bindparam("after"), version <= bindparam("until")).order_by(version)
    return limited.limit(bindparam("most"))


@functools.cache
def _rows(columns: tuple[Any, ...]) -> Select:
    """Return the statement of `SettledTape.rows`, which is built once: that takes as long as running it."""
    needs_bodies = any(column.table.name in ("bodies", "client_bodies") for column in columns)
    statement = select(settlements.c.version, exchanges.c.labels, *map(_as_stored, columns))
    statement = statement.select_from(_STREAMED if needs_bodies else _JOINED)
    if needs_bodies:  # bytes that are not here may be on the server
        statement = statement.where(func.coalesce(func.length(FROM_UPSTREAM.bodies.c.data), 1) > 0)
    return _limited(statement)


def _as_stored(column: Any) -> Expression:
    """Return a column with JSON and booleans as the tape has them, checked all the same; a request from its parts."""
    if (column.table.name, column.name) == ("exchanges", "request_body"):
        return REQUEST_BODY
    return as_stored(TABLES[column.table.name].c[column.name])
