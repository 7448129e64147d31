"""The figures of all gaps of a group, worked out in the engine: their sums, and those that percentiles are made of.

The gaps of a large group are not sorted: its percentiles are gaps of known ranks once it is known how many there are,
which a statement of its own counts first, from the histograms. The engine selects a rank by its level, and sorts ten
times as long. If the counts differ by the time of the second statement, both are repeated.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, and_, case, func, literal, not_, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType

from wiretape.recorder.tape.schema import exchanges, measures
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import JOINED, Expression
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.overview import group_of
from wiretape.viewer.stats.summary import PERCENTILES, Key, Method

MOST_EXACT: Final = 1_000_000_000
"""Number of gaps in all above which percentiles are estimated by default."""

MOST_SKETCHED: Final = 1 << 23
"""Gaps of a group above which estimates use a sample of its exchanges: a t-digest of release 18.16 counts to 2^24."""

LARGE: Final = 100_000
"""Number of gaps from which a group is large."""
_MOST_LARGE: Final = 32
"""Maximum number of large groups: those with the most gaps."""
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class NeighbourRank:
    """The rank of a percentile's neighbour among `n` ordered values, from 0, in integers, here and in SQL."""

    less: int = 0
    more: int = 0
    back: int = 0

    def of(self, n: int, percent: int) -> int:
        """Return the place among `n` values."""
        return ((n - self.less) * percent + self.more) // 100 - self.back

    def sql(self, n: str, percent: int) -> str:
        """Return the expression of the place among as many values as an expression says."""
        return f"intDiv(({n} - {self.less}) * {percent} + {self.more}, 100) - {self.back}"


PLACES: Final[dict[Method, tuple[NeighbourRank, NeighbourRank]]] = {
    "linear": (NeighbourRank(less=1), NeighbourRank(less=1, more=99)),
    "inverse_cdf": (NeighbourRank(more=99, back=1),) * 2,
    "mlperf": (NeighbourRank(),) * 2,
}
"""The lower and the higher neighbour of a percentile."""

Ordered = tuple[int, float, float, float, float, Sequence[float], Sequence[float]]
"""n, sum, sum of squares about the mean, least, most, lower and higher neighbours of the `PERCENTILES`."""


class Changed(Exception):
    """Between two statements gaps came to a group or went."""


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """A method of ranking the gaps of groups: those of `large` groups are selected, given their gaps and those of 0.

    An estimate for a group of `one_of` samples one exchange in that number.
    """

    method: Method
    large: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    is_estimated: bool = False
    one_of: Mapping[Key, int] = field(default_factory=dict)

    def columns(self, by: Sequence[str], measured: Expression) -> Iterator[Expression]:
        """Yield the columns to query of each group; `measured` is the condition for measured exchanges."""
        if self.is_estimated:
            divisors = [(_is_of(by, key), literal(count)) for key, count in self.one_of.items()]
            divisor = case(*divisors, else_=literal(1)) if divisors else literal(1)
            sampled = and_(measured, func.modulo(func.cityHash64(exchanges.c.id), divisor) == 0)
            yield _Gaps(measures.c.icl, measures.c.gap_hist, measured, _Estimated(measures.c.icl, measured, sampled))
            return
        own = [_is_of(by, key) for key in self.large]
        others = and_(measured, not_(or_(*own))) if own else measured
        yield _Gaps(measures.c.icl, measures.c.gap_hist, measured, _Sorted(measures.c.icl, others, self.method))
        for condition, (n, zeros) in zip(own, self.large.values(), strict=True):
            yield _Selected(measures.c.icl, and_(measured, condition), n, _selected(n, zeros, self.method))

    def read(self, key: Key, values: Iterator[Any]) -> tuple[Ordered, Ordered]:
        """Consume the values of `columns` in a group's row; return all its gaps, and those above 0.

        Raises `Changed`.
        """
        n, zeros, total, squares, variance, ranked = next(values)
        for one, counts in self.large.items():
            (selected,) = next(values)
            if one == key and counts != (n, zeros):
                raise Changed
            if one == key:
                by_rank = dict(zip(_selected(n, zeros, self.method), selected, strict=True))
                ranked = [by_rank.get(rank, 0) for rank in _ranks(n, zeros, self.method)]
        squares = _whole(squares, n * ((variance or 0) + (total / max(n, 1)) ** 2))
        size = len(ranked) // 2
        return _ordered(n, total, squares, ranked[:size]), _ordered(n - zeros, total, squares, ranked[size:])


def plans(
    connection: Connection,
    by: Sequence[str],
    where: Condition | None,
    measured: Expression,
    method: Method,
    most: int | None,
) -> Iterator[RankingPlan]:
    """Yield plans, each made when the one before was `Changed`; the last one cannot be.

    Of more than `most` gaps percentiles are estimated.
    """
    for _ in range(_TRIES):
        counts = _counted(connection, by, where, measured)
        if most is not None and sum(n for n, _ in counts.values()) > most:
            one_of = {key: -(-n // MOST_SKETCHED) for key, (n, _) in counts.items() if n > MOST_SKETCHED}
            yield RankingPlan(method, is_estimated=True, one_of=one_of)
            return
        largest = sorted(counts.items(), key=lambda one: one[1], reverse=True)[:_MOST_LARGE]
        yield RankingPlan(method, {key: found for key, found in largest if found[0] >= LARGE})
    yield RankingPlan(method)


def _counted(
    connection: Connection, by: Sequence[str], where: Condition | None, measured: Expression
) -> dict[Key, tuple[int, int]]:
    """Count the gaps of each group, and those of 0, from their histograms."""
    keys, hist = [group_of(name) for name in by], measures.c.gap_hist
    columns = func.sum(func.arraySum(hist)), func.sum(func.arrayElement(hist, 1))
    statement = select(*keys, *columns).select_from(JOINED)
    with connection.begin():
        rows = connection.execute(queries.filtered(statement, where).where(measured).group_by(*keys)).all()
    return {tuple(row[: len(by)]): (row[-2], row[-1]) for row in rows}


def _is_of(by: Sequence[str], key: Key) -> Expression:
    """Return the condition that an exchange is of the group with this key."""
    same = [one.is_(None) if part is None else one == part for one, part in zip(map(group_of, by), key, strict=True)]
    return func.coalesce(and_(literal(1) == 1, *same), literal(0)) == 1


def _ranks(n: int, zeros: int, method: Method) -> list[int]:
    """Return the ranks that `Ordered` needs among `n` gaps, from 0: of all gaps, and of those above 0."""
    ranks = list[int]()
    for least in (0, zeros):
        ranks += [least, n - 1]
        ranks += [least + place.of(n - least, percent) for place in PLACES[method] for percent in PERCENTILES]
    return [min(max(rank, 0), n - 1) for rank in ranks]


def _selected(n: int, zeros: int, method: Method) -> list[int]:
    """Return those ranks once: each takes the engine a pass over the gaps above it. Those of gaps of 0 are known."""
    return sorted({rank for rank in _ranks(n, zeros, method) if rank >= zeros} or {n - 1})


def _whole(wrapped: int, about: float) -> int:
    """Return the integer that has these last 64 bits and is closest to `about`."""
    estimate = round(about)
    return estimate + (wrapped - estimate + (1 << 63)) % (1 << 64) - (1 << 63)


def _ordered(n: int, total: int, squares: int, ranked: Sequence[Any]) -> Ordered:
    if not n:
        return 0, 0.0, 0.0, 0.0, 0.0, (), ()
    least, most, *found = ranked
    # An estimate has 24 bits, and is NULL if no exchange was in the sample.
    neighbours = [math.nan if one is None else min(max(one, least), most) for one in found]
    half = len(PERCENTILES)
    return n, total, (n * squares - total * total) / n, least, most, neighbours[:half], neighbours[half:]


class _Gaps(FunctionElement[Any]):
    """The count of gaps, of those that are 0, their sum, sum of squares (mod 2^64), variance, and values by rank."""

    name = "gaps"
    type = NullType()
    inherit_cache = False


class _Sorted(FunctionElement[Any]):
    """The ranked gaps of small groups: they are sorted."""

    name = "sorted_gaps"
    type = NullType()
    inherit_cache = False

    def __init__(self, gaps: Expression, measured: Expression, method: Method) -> None:
        super().__init__(gaps, measured)
        self.method = method


class _Selected(FunctionElement[Any]):
    """The ranked gaps of a large group of `n` gaps: each is selected."""

    name = "selected_gaps"
    type = NullType()
    inherit_cache = False

    def __init__(self, gaps: Expression, measured: Expression, n: int, ranks: Sequence[int]) -> None:
        super().__init__(gaps, measured)
        self.levels = [(rank + 0.5) / n for rank in ranks]


class _Estimated(FunctionElement[Any]):
    """The ranked gaps of any group, as estimates."""

    name = "estimated_gaps"
    type = NullType()
    inherit_cache = False


@compiles(_Gaps, "clickhouse")
def _(element: _Gaps, compiler: Any, **kw: Any) -> str:
    gaps, hist, measured, ranked = (compiler.process(one, **kw) for one in element.clauses)
    counted = f"toInt64(sumIf(arraySum({hist}), {measured})), toInt64(sumIf({hist}[1], {measured}))"
    squares = f"sumIf(arraySum(gap -> gap * gap, {gaps}), {measured})"
    return f"({counted}, sumArrayIf({gaps}, {measured}), {squares}, varPopArrayIf({gaps}, {measured}), {ranked})"


@compiles(_Sorted, "clickhouse")
def _(element: _Sorted, compiler: Any, **kw: Any) -> str:
    gaps, measured = (compiler.process(one, **kw) for one in element.clauses)
    ordered = f"arraySort(groupArrayArrayIf({gaps}, {measured}))"
    n, ranked = "toInt64(length(v))", list[str]()
    for least in ("0", "zeros"):
        ranked += [f"v[{least} + 1]", "v[-1]"]
        places = [place.sql(f"({n} - {least})", percent) for place in PLACES[element.method] for percent in PERCENTILES]
        ranked += [f"v[{least} + {place} + 1]" for place in places]
    zeros = f"toInt64(arrayCount(gap -> gap = 0, {ordered}))"
    return f"arrayMap((v, zeros) -> [{', '.join(ranked)}], [{ordered}], [{zeros}])[1]"


@compiles(_Selected, "clickhouse")
def _(element: _Selected, compiler: Any, **kw: Any) -> str:
    gaps, measured = (compiler.process(one, **kw) for one in element.clauses)
    return f"tuple(quantilesExactArrayIf({', '.join(map(repr, element.levels))})({gaps}, {measured}))"


@compiles(_Estimated, "clickhouse")
def _(element: _Estimated, compiler: Any, **kw: Any) -> str:
    gaps, measured, sampled = (compiler.process(one, **kw) for one in element.clauses)
    levels, parts = ", ".join(str(percent / 100) for percent in PERCENTILES), list[str]()
    for one in (gaps, f"arrayFilter(gap -> gap > 0, {gaps})"):
        estimates = f"arrayMap(x -> toFloat64(x), quantilesTDigestArrayIf({levels})({one}, {sampled}))"
        ends = f"toFloat64(minArrayIf({one}, {measured})), toFloat64(maxArrayIf({one}, {measured}))"
        parts += [f"[{ends}]", estimates, estimates]
    return f"arrayConcat({', '.join(parts)})"
