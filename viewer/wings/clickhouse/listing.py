"""A server's exchanges as the viewer lists them: their numbers by key, in pages, and the rows of those in sight.

A number is an exchange's start time and id. No more is read than a screen shows, however many exchanges there are.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal_column, null, or_, select

from wiretape.recorder.tape import packing
from wiretape.recorder.tape.schema import exchanges, measures
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import Page
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.source.tape.columns import JOINED, Expression, column
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.wings.clickhouse.client import Centre
from wiretape.viewer.wings.clickhouse.tables import EXCHANGES

AT_ONCE: Final = 1024
"""Numbers per query."""

_WINDOWS: Final = (timedelta(hours=1), timedelta(days=1), timedelta(weeks=1), None)
"""Ranges to search for the newest, until there are enough of them; None: without a limit."""

_NO: Final = exchanges.c.no
_STARTED_AT: Final = exchanges.c.started_at


def check(centre: Centre) -> None:
    """Raise `UnusableServer` or `Unavailable` for a server that cannot be listed."""
    centre.rows(f"SELECT 1 FROM {EXCHANGES.name} LIMIT 1")


def start_of(number: object) -> str:
    """Return the start of an exchange of a server, by its number."""
    return str(number).partition(" ")[0]


def newest(connection: Connection, where: Condition | None = None, after: int | None = None) -> Page:
    """Return the numbers of the newest exchanges that fit, or of those that follow a number."""
    end = _newest_start(connection) if after is None else datetime.fromisoformat(start_of(after))
    beyond = () if after is None else (after > _NO,)
    numbers: list[int] = []
    for window in _WINDOWS if end is not None else (None,):
        since = () if window is None or end is None else (f"{(end - window):%Y-%m-%dT%H:%M:%S}" <= _STARTED_AT,)
        statement = queries.filtered(select(_NO).select_from(JOINED), where).where(*beyond, *since)
        with connection.begin():
            numbers = list(connection.execute(statement.order_by(_NO.desc()).limit(AT_ONCE)).scalars())
        if len(numbers) == AT_ONCE:
            return Page(numbers, goes_on=True)
    return Page(numbers)


def ordered(
    connection: Connection, where: Condition | None, by: str, *, descending: bool, after: tuple[Any, int] | None = None
) -> Page:
    """Return the numbers in the order of a field, unknown last, or of those that follow a value and a number."""
    key = column(by)
    statement = queries.filtered(select(_NO, key.label("key")).select_from(JOINED), where)
    if after is not None:
        statement = statement.where(_beyond(key, *after, descending=descending))
    order = (key.desc() if descending else key).nulls_last(), _NO.desc()
    with connection.begin():
        found = connection.execute(statement.order_by(*order).limit(AT_ONCE)).all()
    return Page([no for no, _ in found], found[-1][1] if found else None, len(found) == AT_ONCE)


def _beyond(key: Expression, value: object, number: int, *, descending: bool) -> ColumnElement[bool]:
    """Return the condition for the items after this one in an order."""
    if value is None:
        return and_(key.is_(None), number > _NO)
    further = key < value if descending else key > value
    return or_(further, and_(key == value, number > _NO), key.is_(None))


def _newest_start(connection: Connection) -> datetime | None:
    """Return when the newest exchange began, in whole seconds; None if there is none."""
    with connection.begin():  # in any version: the start of an exchange never changes
        text = connection.exec_driver_sql(f"SELECT toString(max(started)) FROM {EXCHANGES.name}").scalar_one()
    return None if text < "1970-01-02" else datetime.fromisoformat(text) + timedelta(seconds=1)


def rows(connection: Connection, numbers: Sequence[int]) -> list[ListRow]:
    """Return the rows of these exchanges, except those that the server does not have."""
    few_gaps = func.arraySlice(measures.c.icl, 1, case((live.HAS_STALL, live.MOST_GAPS + 1), else_=0))
    statement = select(_NO, null(), few_gaps, *live.short_columns()).select_from(JOINED).where(_NO.in_(numbers))
    with connection.begin():
        found = connection.execute(statement).all()
    return [live.row_of(no, None, _if_few(gaps), values) for no, _, gaps, *values in found]


def _if_few(packed: bytes) -> bytes | None:
    gaps = packing.unpack_gaps(packed)
    return None if len(gaps) > 8 * live.MOST_GAPS else gaps


def label_keys(connection: Connection, where: Condition | None = None, most: int = 20) -> list[str]:
    """Return the keys of labels, the most frequent first, as `wiretape.viewer.source.tape.overview` does."""
    key = func.arrayJoin(literal_column("label_names"))
    statement = queries.filtered(select(key).select_from(JOINED), where).group_by(key)
    with connection.begin():
        return list(connection.execute(statement.order_by(func.count().desc(), key).limit(most)).scalars())
