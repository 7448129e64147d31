"""Following a tape: its changes since a poll, and the settled exchanges that programs ship, in their order.

The writer numbers settled exchanges in the order of the commits: a follower selects higher numbers than its last one.
Each query is short, as in `queries`, but nothing that only lists and statistics need is loaded here: shipping is a
process of its own that stays, and takes little memory.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Expression, bindparam, func, select
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
from wiretape.viewer.source.base import Seen, Version
from wiretape.viewer.source.tape.columns import JOINED, Statement

PAGE = 50
"""Number of exchanges that a follower takes at once."""

_OPENINGS = itertools.count(1)
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
_NUMBERS = select(settlements.c.version, exchanges.c.no).select_from(
    settlements.join(exchanges, exchanges.c.no == settlements.c.exchange_no)
)
_SETTLED = _NUMBERS.where(settlements.c.version > bindparam("after")).order_by(settlements.c.version)
_BEGUN = select(exchanges.c.no).where(exchanges.c.no > bindparam("newest"))
_OPENING = "opening"
_CACHE_KIB = 256
_LAST = (1 << 63) - 1

_EARLIEST_US = 10**15
"""Versions below are numbers of exchanges: those of tapes made of texts."""


def _limited(statement: Statement) -> Statement:
    """Limit settled exchanges, in their order, to those after a version and not after another, and in number."""
    version = settlements.c.version
    limited = statement.where(version > bindparam("after"), version <= bindparam("until")).order_by(version)
    return limited.limit(bindparam("most"))


class Changes(NamedTuple):
    """The numbers of the exchanges that are new since a poll, and of those settled since, or derived again.

    Those that still run are `seen.unsettled`: any of them may have grown.
    """

    seen: Seen
    new: frozenset[int] = frozenset()
    settled: frozenset[int] = frozenset()


def version(connection: Connection) -> Version:
    """Return a value that is another whenever somebody else has written to the tape, or over another connection."""
    with connection.begin():
        return current_version(connection)


def current_version(connection: Connection) -> Version:
    """Return the `version` within a transaction."""
    if _OPENING not in connection.info:
        connection.info[_OPENING] = next(_OPENINGS)
    return connection.info[_OPENING], int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())


def start(connection: Connection) -> Seen:
    """Return the state of a tape from which `changes` goes on, within a transaction."""
    ends = (connection.execute(select(func.max(last))).scalar() for last in (exchanges.c.no, settlements.c.version))
    newest, settled = (end or 0 for end in ends)
    return Seen(current_version(connection), newest, settled, frozenset(unsettled(connection)))


def changes(connection: Connection, seen: Seen) -> Changes | None:
    """Return the changes since a state, within a transaction; None if nobody has written to the tape."""
    version = current_version(connection)
    if version == seen.version:
        return None
    new = frozenset(connection.execute(_BEGUN, {"newest": seen.newest}).scalars())
    rows = _in_order(connection, _SETTLED.params(after=seen.settled))
    settled = frozenset(row.no for row in rows)
    newest, last = max(new, default=seen.newest), rows[-1].version if rows else seen.settled
    return Changes(Seen(version, newest, last, (seen.unsettled | new) - settled), new, settled)


def unsettled(connection: Connection) -> set[int]:
    """Return those that run or are not measured yet; nearly always they are those that run, which an index has."""
    running = set(connection.execute(select(exchanges.c.no).where(exchanges.c.ended_by.is_(None))).scalars())
    total, measured = (
        connection.execute(select(func.count()).select_from(table)).scalar_one() for table in (exchanges, measures)
    )
    if measured + len(running) == total:
        return running
    unmeasured = select(exchanges.c.no).select_from(JOINED).where(measures.c.exchange_no.is_(None))
    return set(connection.execute(unmeasured).scalars())


def _in_order(connection: Connection, statement: Statement) -> list[Any]:
    """Return the rows of settled exchanges, except those whose version is damaged: they have no place in the order."""
    return [row for row in connection.execute(statement) if row.version is not None]


class Follower:
    """Takes exchanges as they settle, each once, those after a version first; of a tape, or of one session of it.

    Exchanges settled after `until`, if given, are left out. It may go on over another connection to the tape.
    """

    def __init__(self, version: int = 0, session: str | None = None, *, until: int | None = None) -> None:
        self._statement = _limited(_NUMBERS).params(until=_LAST if until is None else until, most=PAGE)
        if session is not None:
            own = select(sessions.c.no).where(sessions.c.uuid == session).scalar_subquery()
            self._statement = self._statement.where(exchanges.c.session_no == own)
        self.version = version
        """All that were settled up to this one have been taken."""

    def take(self, connection: Connection) -> list[int]:
        """Return the numbers of the next settled exchanges, at most a page of them; none: there are no more."""
        with connection.begin():
            rows = _in_order(connection, self._statement.params(after=self.version))
        self.version = rows[-1].version if rows else self.version
        return [row.no for row in rows]


class Waiting(NamedTuple):
    """The number of exchanges to ship, and the version of the first, or None without any."""

    exchanges: int
    first: int | None

    def lag_ns(self, wall_ns: int) -> int | None:
        """Return the time since the first was settled, or None if there is none, or its time is unknown."""
        if self.first is None or self.first < _EARLIEST_US:
            return None
        return max(wall_ns - self.first * 1000, 0)


def identity(connection: Connection) -> str | None:
    """Return the id of a tape, which another tape of its name lacks: its first session; None before that."""
    with connection.begin():
        uuid: str | None = connection.execute(select(sessions.c.uuid).order_by(sessions.c.no).limit(1)).scalar()
    return uuid


def read_through(connection: Connection) -> None:
    """Keep few pages of the tape in memory: each is read once."""
    connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.rollback()


def waiting(connection: Connection, after: int) -> Waiting:
    """Return the count of exchanges settled after a version, with the first version of them."""
    statement = select(func.count(), func.min(settlements.c.version)).where(settlements.c.version > after)
    with connection.begin():
        count, first = connection.execute(statement).one()
    return Waiting(count, first)


def settled(
    connection: Connection, columns: Sequence[Any], after: int, until: int | None, most: int
) -> list[tuple[Any, ...]]:
    """Return the exchanges settled after a version and not after `until`, in that order, with a limit.

    A row has the version, the labels, and then the columns.
    """
    statement = _statement(tuple(columns)).params(after=after, until=_LAST if until is None else until, most=most)
    with connection.begin():
        return connection.fetch(statement)


def fitting(connection: Connection, after: int, most: int, size: int) -> int:
    """Return the number of exchanges settled after a version that fit the limits of count and bytes; one at least."""
    with connection.begin():
        sizes = connection.execute(_limited(_SIZES).params(after=after, until=_LAST, most=most)).scalars().all()
    count: int = sum(so_far <= size for so_far in itertools.accumulate(sizes))
    return max(count, 1)


@functools.cache
def _statement(columns: tuple[Any, ...]) -> Statement:
    """Return the statement of `settled`, which is built once: that takes as long as running it."""
    return _limited(_selected(columns))


def _selected(columns: tuple[Any, ...]) -> Statement:
    first = (settlements.c.version, exchanges.c.labels)
    needs_bodies = any(column.table.name in ("bodies", "client_bodies") for column in columns)
    statement = select(*first, *map(_as_stored, columns)).select_from(_STREAMED if needs_bodies else _JOINED)
    if needs_bodies:  # bytes that are not here may be on the server
        statement = statement.where(func.coalesce(func.length(FROM_UPSTREAM.bodies.c.data), 1) > 0)
    return statement


def _as_stored(column: Any) -> Expression:
    """Return a column with JSON and booleans as the tape has them, checked all the same; a request from its parts."""
    if (column.table.name, column.name) == ("exchanges", "request_body"):
        return REQUEST_BODY
    return as_stored(TABLES[column.table.name].c[column.name])


def runs(connection: Connection, columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the runs of recorders on a tape, in their order."""
    statement = select(*map(_as_stored, columns)).order_by(sessions.c.no)
    with connection.begin():
        return connection.fetch(statement)
