"""A quantity over time, counted in the engine: nothing but counts is fetched, by column and by bit length."""

from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Integer, func, literal, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from wiretape.recorder.tape.schema import measures
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import JOINED, Expression, column
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.overview import SPREAD, Alike, laid
from wiretape.viewer.stats import heatmap
from wiretape.viewer.stats.heatmap import Heatmap

_AT_MS: Final = literal_column(
    "(toInt64(toUnixTimestamp(started)) * 1000 + toInt64OrZero(substring(started_at, 21, 3)))", Integer
)
"""The start in ms since the epoch; `started` is in whole seconds."""


def heat(connection: Connection, metric: str, room: tuple[int, int], where: Condition | None = None) -> Heatmap | None:
    """Count a metric of `heatmap.METRICS` over time, as `wiretape.viewer.source.tape.overview.heat` does."""
    ends: list[Expression] = [func.count(), func.min(_AT_MS), func.max(_AT_MS)]
    with connection.begin():
        size, first, last = connection.execute(queries.filtered(select(*ends).select_from(JOINED), where)).one()
    if not size:
        return None
    start, step_ms, count = heatmap.columns(first, last, room[0], size)
    value, counts = column(SPREAD[metric]), np.zeros((64, count), np.int64)
    place = func.intDiv(_AT_MS - literal(start), literal(step_ms), type_=Integer)

    def counted(*by: Expression, sums: Expression) -> list[tuple[Any, ...]]:
        statement = select(place, *by, sums).select_from(JOINED).where(value.is_not(None)).group_by(place, *by)
        with connection.begin():
            rows = connection.execute(queries.filtered(statement, where)).all()
        return [tuple(row) for row in rows if 0 <= row[0] < count]  # one that has come meanwhile may begin later

    if metric != "gap":
        for at, bits, n in counted(_BitLength(value), sums=func.count()):
            counts[bits, at] = n
        return laid(metric, (start, step_ms), counts, None, room[1])
    for at, hist in counted(sums=func.sumForEach(measures.c.gap_hist)):
        counts[: len(hist), at] = hist
    groups = counted(_BitsOf(measures.c.gap_hist), sums=func.count())
    places, had, n = (np.array([row[part] for row in groups], np.uint64) for part in range(3))
    alike = Alike(places.astype(np.int64), had, n.astype(np.int64))
    return laid(metric, (start, step_ms), counts, alike, room[1])


class _BitLength(FunctionElement[Any]):
    """The bit length of the whole part of a value that is known."""

    name = "bit_length"
    type = Integer()
    inherit_cache = False


class _BitsOf(FunctionElement[Any]):
    """A bitmap of the bit lengths that gaps have."""

    name = "bits_of"
    type = Integer()
    inherit_cache = False


@compiles(_BitLength, "clickhouse")
def _(element: _BitLength, compiler: Any, **kw: Any) -> str:
    powers = ", ".join(str(1 << bit) for bit in range(63))
    return (
        f"toInt64(arrayCount(power -> power <= assumeNotNull({compiler.process(element.clauses, **kw)}), [{powers}]))"
    )


@compiles(_BitsOf, "clickhouse")
def _(element: _BitsOf, compiler: Any, **kw: Any) -> str:
    hist = compiler.process(element.clauses, **kw)
    bit = "if(n > 0, bitShiftLeft(toUInt64(1), toUInt8(place - 1)), toUInt64(0))"
    return f"arraySum(arrayMap((n, place) -> {bit}, {hist}, arrayEnumerate({hist})))"
