"""The figures and costs of groups of exchanges, worked out in the engine; nothing else is fetched.

Every percentile is exact, and equals that of a tape; those of gaps are estimates where there are too many. The engine
holds the ranked gaps in memory: with less of it they are estimated, too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import (
    BigInteger,
    Expression,
    Float,
    Function,
    Integer,
    and_,
    case,
    func,
    literal,
    not_,
    or_,
    select,
    template,
    true,
)
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.source.base import Measuring
from wiretape.viewer.source.grouping import ENDED_ANSWERS, FLAGGED, OUTCOME, group_of, sortable
from wiretape.viewer.source.querying import (
    ADDITIVE,
    BILLED,
    JOINED,
    MOST_TOKENS,
    Condition,
    Statement,
    cache_total,
    column,
    filtered,
    flagged,
)
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.histogram import EDGES, filled
from wiretape.viewer.stats.metrics import QUANTITIES, Quantity, token_buckets
from wiretape.viewer.stats.prices import Names, Paid, Prices, Usage
from wiretape.viewer.stats.summary import PERCENTILES, TOKENS, UNMEASURED, Figures, Key, ObjectiveCounts
from wiretape.viewer.wings.clickhouse.client import MemoryExceeded, NotAtCentre

MOST_EXACT: Final = 1_000_000_000
"""Number of gaps in all above which percentiles are estimated by default."""
_PLAIN: Final = Measuring()
_OUTCOMES: Final = (*OUTCOMES, UNMEASURED)
_COMPLETE: Final = func.coalesce(measures.c.outcome == "complete", literal(0)) == 1


def groups(
    connection: Connection,
    by: Sequence[str] = (),
    where: Condition | None = None,
    measuring: Measuring = _PLAIN,
    prices: Prices | None = None,
    most: int = MOST_EXACT,
) -> list[Figures]:
    """Return the figures of each group of the exchanges that `where` selects, ordered by their keys.

    Unless they are to be exact, the percentiles of gaps are estimated if there are more than `most`, or if the server
    has too little memory to rank them. Raises `NotAtCentre` for a field that the server lacks.
    """
    if "conversation" in by:
        raise NotAtCentre("conversations")
    measured = true() if measuring.include_failed else _COMPLETE

    def figures(is_estimated: bool) -> list[Figures]:
        """Return the figures of each group, without costs."""
        statement = _statement(by, measured, measuring, "tdigest" if is_estimated else measuring.method)
        with connection.begin():
            rows = connection.execute(filtered(statement, where).group_by(*map(_group_of, by))).all()
        return [_figures(tuple(row[: len(by)]), iter(row[len(by) :]), measuring, is_estimated) for row in rows]

    is_estimated = False
    if not measuring.exact:
        counted = select(func.sum(func.arraySum(measures.c.gap_hist))).select_from(JOINED)
        with connection.begin():
            gap_count = connection.execute(filtered(counted, where).where(measured)).scalar_one()
        is_estimated = int(gap_count or 0) > most
    try:
        groups = figures(is_estimated)
    except MemoryExceeded:
        if measuring.exact or is_estimated:
            raise
        groups = figures(True)  # estimates need less
    if prices:
        spent, priced = costs_by_group(connection, by, where, prices)
        for group in groups:
            unknown_n = max(group.paid.unknown_n - priced[group.key], 0)
            group.paid = replace(
                group.paid, cost=spent[group.key], cost_n=priced[group.key], unknown_n=unknown_n,
                currency=prices.currency,
            )  # fmt: skip
    return sorted(groups, key=lambda group: sortable(group.key))


def _group_of(name: str) -> Expression:
    """Return the expression of a group; that of a bucket of tokens is its lower bound."""
    if (buckets := token_buckets(name)) is None:
        return group_of(name)
    width = literal(buckets.width)
    return func.multiply(func.intDiv(column(buckets.field), width), width, type_=BigInteger)


def _statement(by: Sequence[str], measured: Expression, measuring: Measuring, of_gaps: str) -> Statement:
    method, bounds, histogram = measuring.method, measuring.bounds, measuring.drawn
    reported, total = measures.c.output_tokens.is_not(None), cache_total()
    after_2xx = _true(exchanges.c.status.between(200, 299))
    moving = func.arrayFilter(template("gap -> gap > 0"), measures.c.icl)

    def included(quantity: Quantity) -> Expression:
        return true() if quantity.of_every_outcome else measured

    def value(quantity: Quantity) -> Expression:
        """Return the expression of a quantity: integers in ns, other durations in ms."""
        raw = column(quantity.column or "")
        return raw / literal(1e6, Float) if quantity.unit == "ms" and not quantity.is_whole else raw

    counted = [
        func.count(),
        func.min(exchanges.c.started_at),
        func.max(exchanges.c.started_at),
        _count(measured),
        *(_count(OUTCOME.in_((name,))) for name in _OUTCOMES),
        *(_count(and_(OUTCOME.in_((name,)), after_2xx)) for name in _OUTCOMES),
        *(func.sum(measures.c[name]) for name in TOKENS),
        _count(reported),
        _count(and_(or_(_COMPLETE, _true(measures.c.output_chunks > 0)), not_(reported))),
    ]
    if bounds:  # complete exchanges that break one, and others with an unknown bounded value
        broken, unknown = list[Expression](), list[Expression]()
        for bound in bounds:
            raw, limit = column(bound.quantity.column or ""), literal(bound.limit, Float)
            amount = raw / literal(1e6, Float) if bound.quantity.unit == "ms" else raw
            broken.append(_true(amount >= limit if bound.is_highest else amount <= limit))
            unknown.append(raw.is_(None))
        counted.append(_count(and_(_COMPLETE, or_(*broken))))
        counted.append(_count(and_(_COMPLETE, or_(*unknown), not_(or_(*broken)))))
    counted += [
        *(_count(and_(measured, _true(flag))) for flag in FLAGGED),
        _count(_COMPLETE),
        func.sumIf(measures.c.cache_read_input_tokens, total.is_not(None)),
        func.sum(total),
        func.count(total),
        *(func.sum(count) for count in ENDED_ANSWERS),
        *(
            _statistics_of(value(quantity), included(quantity), method)
            for quantity in QUANTITIES.values()
            if quantity.column
        ),
        *(_statistics_of(gaps, measured, of_gaps, "Array") for gaps in (measures.c.icl, moving)),
    ]
    if histogram is not None and histogram.column is None:
        counted.append(_spread(func.groupArrayArrayIf(measures.c.icl, measured), 1e6))
    elif histogram is not None:
        values = func.groupArrayIf(column(histogram.column or ""), included(histogram))
        counted.append(_spread(values, 1e6 if histogram.unit == "ms" else 1.0))
    return select(*map(_group_of, by), *counted).select_from(JOINED)


def _true(condition: Expression) -> Expression:
    return func.coalesce(condition, literal(0)) == 1


def _count(condition: object) -> Expression:
    return func.countIf(condition, type_=Integer)


_QUANTILES: Final = {
    "linear": ("quantilesExactInclusive", 0.0),
    # The engine takes the value of index int(n · level): a shift below any share of a rank makes the level exact.
    "inverse_cdf": ("quantilesExact", -1e-12),
    "mlperf": ("quantilesExact", 1e-12),
    "tdigest": ("quantilesTDigest", 0.0),
}
"""The engine's function of each method, and an addend of its levels."""


def _statistics_of(value: Expression, included: Expression, method: str, combinator: str = "") -> Expression:
    """Return n, sum, variance, least, most and `PERCENTILES` of a value of each included exchange, or of arrays."""
    name, shift = _QUANTILES[method]
    levels = ", ".join(repr(percent / 100 + shift) for percent in PERCENTILES)
    names = [f"{function}{combinator}If" for function in ("count", "sum", "varPopStable", "min", "max")]
    names.append(f"{name}{combinator}If({levels})")
    return func.tuple(*(Function(name, value, included) for name in names))


def _spread(values: Expression, unit: float) -> Expression:
    """Return counts of an array's values, divided by their unit: those that are 0, and those in each bucket."""
    borders = [(">= {low!r}", "< {high!r}")] * (len(EDGES) - 1)
    borders[0], borders[-1] = ("> 0", borders[0][1]), (borders[-1][0], "<= inf")
    counted = [
        f"arrayCount(x -> x / {unit} {least} AND x / {unit} {most}, v)".format(low=low, high=high)
        for (least, most), (low, high) in zip(borders, pairwise(EDGES), strict=True)
    ]
    return template(f"arrayMap(v -> [arrayCount(x -> x = 0, v), {', '.join(counted)}], [{{}}])[1]", values)


def _figures(key: tuple[Any, ...], values: Iterator[Any], measuring: Measuring, is_estimated: bool) -> Figures:
    bounds, histogram = measuring.bounds, measuring.drawn
    size, first_at, last_at, measured = (next(values) for _ in range(4))
    outcomes, after_2xx = ({name: next(values) for name in _OUTCOMES} for _ in range(2))
    tokens = {name: next(values) for name in TOKENS}
    with_usage, without_usage = next(values), next(values)
    missed, unknown = (next(values), next(values)) if bounds else (0, 0)
    flagged = [next(values) for _ in FLAGGED]
    complete, cached, input_tokens, cached_n = (next(values) for _ in range(4))
    ends = summary.AnswerEnds(*(int(next(values) or 0) for _ in ENDED_ANSWERS))
    by_quantity = {
        quantity.name: _statistics(next(values), 1e6 if quantity.is_whole else 1)
        for quantity in QUANTITIES.values()
        if quantity.column
    }
    pooled = {name: _statistics(next(values), 1e6) for name in ("icl", "gap")}
    gap_count, moving_count = (int(pooled[name]["n"] or 0) for name in ("icl", "gap"))
    zeros, *spread = next(values) if histogram is not None else [0]
    return Figures(
        key=key,
        size=size,
        outcomes=Counter(outcomes),
        after_2xx=Counter(after_2xx),
        first_at=first_at if size else None,
        last_at=last_at if size else None,
        measured=measured,
        tokens=tokens,
        with_usage=with_usage,
        without_usage=without_usage,
        objective=ObjectiveCounts(complete - missed - unknown, missed, unknown) if bounds else None,
        gaps_of_0=gap_count - moving_count,
        chunks=gap_count + int(by_quantity["latency"]["n"] or 0),
        statistics={**by_quantity, **pooled},
        flagged=flagged,
        paid=Paid(unknown_n=complete, cached=cached or 0, input=input_tokens or 0, cached_n=cached_n),
        ends=ends,
        histogram=filled(0 if histogram is None or histogram.name == "gap" else zeros, spread),
        is_estimated=is_estimated,
    )


def _statistics(values: Sequence[Any], unit: float) -> dict[str, float | None]:
    """Return the statistics of values by name, from the engine's result. An estimate has 24 bits."""
    n, total, variance, least, most, percentiles = values
    shares = [min(max(float(value), least), most) for value in percentiles] if n else []
    return summary.statistics(n, float(total or 0), variance or 0.0, least or 0.0, most or 0.0, shares, unit)


def costs_by_group(
    connection: Connection, by: Sequence[str], where: Condition | None, prices: Prices
) -> tuple[Counter[Key], Counter[Key]]:
    """Return each group's cost, in units of `wiretape.viewer.stats.prices`, and its count of exchanges with a cost."""

    def one_if(condition: Expression) -> Expression:
        return case((condition, literal(1, Integer)), else_=literal(0, Integer))

    keys = [_group_of(name) for name in by]
    names = column("model"), measures.c.response_model, exchanges.c.upstream, measures.c.api
    # The tokens of the request, of the answer with all reasoning, and those that a cache read, wrote and keeps.
    token_counts = (case((measures.c[name].between(0, MOST_TOKENS), measures.c[name])) for name in BILLED)
    uncached, output, reasoning, cache_read, cache_write, cache_hour = token_counts
    additive = case((flagged(ADDITIVE), func.coalesce(reasoning, literal(0))), else_=literal(0))
    counts = uncached, output + additive, cache_read, cache_write, cache_hour
    nothing = func.toInt64(0)  # the engine takes a bare number in GROUP BY for the position of a column
    since = sum((one_if(literal(at) <= exchanges.c.started_at) for at in prices.since), nothing)
    differs = (cache_write > literal(0), cache_hour > literal(0), cache_hour > cache_write)
    columns_alike = (
        *names,
        *(one_if(condition) for condition in (*(count.is_(None) for count in counts), *differs)),
        since,
    )
    sums = func.min(exchanges.c.started_at), func.count(), *(func.sum(count) for count in counts)
    statement = select(*keys, *columns_alike, *sums).select_from(JOINED).where(measures.c.outcome == "complete")
    with connection.begin():
        rows = connection.execute(filtered(statement, where).group_by(*keys, *columns_alike)).all()
    costs, priced = Counter[Key](), Counter[Key]()
    for row in rows:
        key, values = tuple(row[: len(by)]), row[len(by) :]
        tokens = (None if unknown else int(total) for unknown, total in zip(values[4:9], values[-5:], strict=True))
        first_at, n = values[-7:-5]
        cost = prices.cost(Names(*values[:4]), first_at, Usage(*tokens))
        if cost is not None:
            costs[key] += cost
            priced[key] += n
    return costs, priced
