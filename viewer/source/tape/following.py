"""Following a tape: its changes since a poll, by the numbers that its writer gives to settled exchanges."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import bindparam, func, select
from wiretape.recorder.tape.tables import exchanges, measures, settlements
from wiretape.viewer.source.base import Seen, Version
from wiretape.viewer.source.tape.columns import JOINED

_OPENINGS = itertools.count(1)
_OPENING = "opening"
SETTLED_NUMBERS = select(settlements.c.version, exchanges.c.no).select_from(
    settlements.join(exchanges, exchanges.c.no == settlements.c.exchange_no)
)
"""The statement for the versions and the numbers of settled exchanges."""
_SETTLED_AFTER = SETTLED_NUMBERS.where(settlements.c.version > bindparam("after")).order_by(settlements.c.version)
_BEGUN = select(exchanges.c.no).where(exchanges.c.no > bindparam("newest"))


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
    rows = in_order(connection.execute(_SETTLED_AFTER.params(after=seen.settled)))
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


def in_order(rows: Iterable[Any]) -> list[Any]:
    """Return the rows of settled exchanges, except those whose version is damaged: they have no place in the order."""
    return [row for row in rows if row.version is not None]
