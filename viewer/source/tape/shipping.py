"""The shipped parts of a tape: exchanges in the order in which they were settled, and the runs of recorders.

Each query is short, as in `queries`, but nothing that only lists and statistics need is loaded here: shipping is a
process of its own that stays, and takes little memory.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import JSON, Column, Connection, Integer, bindparam, func, select, type_coerce

from wiretape.recorder.tape import cells
from wiretape.recorder.tape.schema import FROM_CLIENT, FROM_UPSTREAM, exchanges, measures, sessions, settlements
from wiretape.viewer.source.tape.columns import Expression, Statement

_JOINED = (
    settlements.join(exchanges, exchanges.c.no == settlements.c.exchange_no)
    .join(sessions, sessions.c.no == exchanges.c.session_no)
    .outerjoin(measures, measures.c.exchange_no == exchanges.c.no)
)
_STREAMED = _JOINED.outerjoin(FROM_UPSTREAM.bodies, FROM_UPSTREAM.bodies.c.exchange_no == exchanges.c.no).outerjoin(
    FROM_CLIENT.bodies, FROM_CLIENT.bodies.c.exchange_no == exchanges.c.no
)


_SIZES = (
    select(
        func.coalesce(exchanges.c.request_size, 0)
        + func.coalesce(FROM_UPSTREAM.bodies.c.size, 0)
        + func.coalesce(FROM_CLIENT.bodies.c.size, 0)
    )
    .select_from(_STREAMED)
    .where(settlements.c.version > bindparam("after"))
    .order_by(settlements.c.version)
    .limit(bindparam("most", type_=Integer))
)
_CACHE_KIB = 256
_LAST = (1 << 63) - 1


_EARLIEST_US = 10**15
"""Versions below are numbers of exchanges: those of tapes that are older than versions, and made ones."""


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
    connection: Connection, columns: Sequence[Column[Any]], after: int, until: int | None, most: int
) -> list[tuple[Any, ...]]:
    """Return the exchanges settled after a version and not after `until`, in that order, with a limit.

    A row has the version, the labels, and then the columns.
    """
    statement = _statement(tuple(columns)).params(after=after, until=_LAST if until is None else until, most=most)
    with connection.begin():
        return cells.fetch(connection, statement)


def fitting(connection: Connection, after: int, most: int, size: int) -> int:
    """Return the number of exchanges settled after a version that fit the limits of count and bytes; one at least."""
    with connection.begin():
        sizes = connection.execute(_SIZES.params(after=after, most=most)).scalars().all()
    count: int = sum(so_far <= size for so_far in itertools.accumulate(sizes))
    return max(count, 1)


def of_versions(
    connection: Connection, columns: Sequence[Column[Any]], versions: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Return the rows of `settled` that have these versions: those that were not deleted, or derived again, since."""
    with connection.begin():
        return cells.fetch(connection, _by_version(tuple(columns)).params(versions=versions))


@functools.cache
def _statement(columns: tuple[Column[Any], ...]) -> Statement:
    """Return the statement of `settled`, which is built once: that takes as long as running it."""
    version = settlements.c.version
    statement = _selected(columns).where(version > bindparam("after"), version <= bindparam("until"))
    return statement.limit(bindparam("most", type_=Integer))


@functools.cache
def _by_version(columns: tuple[Column[Any], ...]) -> Statement:
    return _selected(columns).where(settlements.c.version.in_(bindparam("versions", expanding=True)))


def _selected(columns: tuple[Column[Any], ...]) -> Statement:
    first = (settlements.c.version, exchanges.c.labels)
    needs_bodies = any(column.table in (FROM_UPSTREAM.bodies, FROM_CLIENT.bodies) for column in columns)
    statement = select(*first, *map(_as_stored, columns)).select_from(_STREAMED if needs_bodies else _JOINED)
    if needs_bodies:  # bytes that are not here may be on the server
        statement = statement.where(func.coalesce(func.length(FROM_UPSTREAM.bodies.c.data), 1) > 0)
    return statement.order_by(settlements.c.version)


def _as_stored(column: Column[Any]) -> Expression:
    """Return a column with JSON as the text that the tape has, checked all the same."""
    is_json = isinstance(cells.declared(column), JSON)
    return type_coerce(column, cells.text_of(column)) if is_json else column


def runs(connection: Connection, columns: Sequence[Column[Any]]) -> list[tuple[Any, ...]]:
    """Return the runs of recorders on a tape, in their order."""
    statement = select(*map(_as_stored, columns)).order_by(sessions.c.no)
    with connection.begin():
        return cells.fetch(connection, statement)
