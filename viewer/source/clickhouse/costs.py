"""Costs of a server's exchanges: prices are known here only, so the engine adds up the tokens of each price.

A cost is proportional to the counts of tokens, as long as the same ones are known: the sum of costs is that of sums.
"""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Integer, case, func, literal, select

from wiretape.recorder.tape.schema import exchanges, measures
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import JOINED, Expression, column, flagged
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.overview import group_of
from wiretape.viewer.source.tape.pricing import ADDITIVE, MOST_TOKENS
from wiretape.viewer.stats.prices import Names, Prices, usage
from wiretape.viewer.stats.summary import Key


def by_group(
    connection: Connection, by: Sequence[str], where: Condition | None, prices: Prices
) -> tuple[Counter[Key], Counter[Key]]:
    """Return each group's cost, in units of `wiretape.viewer.stats.prices`, and its count of exchanges with a cost."""
    keys = [group_of(name) for name in by]
    names = column("model"), measures.c.response_model, exchanges.c.upstream, measures.c.api
    counts = input, _, read, write, hour = _counts()
    since = sum((_one_if(literal(at) <= exchanges.c.started_at) for at in prices.since), literal(0))
    contradicts = func.coalesce(read, literal(0)) + func.coalesce(write, literal(0)) > input
    differs = (contradicts, write > literal(0), hour > literal(0), hour > write)
    alike = (*names, *(_one_if(one) for one in (*(each.is_(None) for each in counts), *differs)), since)
    sums = func.min(exchanges.c.started_at), func.count(), *(func.sum(one) for one in counts)
    statement = select(*keys, *alike, *sums).select_from(JOINED).where(measures.c.outcome == "complete")
    with connection.begin():
        rows = connection.execute(queries.filtered(statement, where).group_by(*keys, *alike)).all()
    costs, known = Counter[Key](), Counter[Key]()
    for row in rows:
        key, its = tuple(row[: len(by)]), row[len(by) :]
        called, (first_at, n) = its[:4], its[-7:-5]
        tokens = (None if unknown else int(total) for unknown, total in zip(its[4:9], its[-5:], strict=True))
        cost = prices.cost(Names(*called), first_at, usage(called[-1], *tokens))
        if cost is not None:
            costs[key] += cost
            known[key] += n
    return costs, known


def _counts() -> tuple[Expression, ...]:
    """Return the tokens of the request, of the answer with all reasoning, and those a cache read, wrote and keeps."""
    names = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_input_tokens",
             "cache_creation_input_tokens", "cache_creation_1h_input_tokens")  # fmt: skip
    known = (case((measures.c[name].between(0, MOST_TOKENS), measures.c[name])) for name in names)
    input, output, reasoning, *cached = known
    besides = case((flagged(ADDITIVE), func.coalesce(reasoning, literal(0))), else_=literal(0))
    return input, output + besides, *cached


def _one_if(condition: Expression) -> ColumnElement[int]:
    return case((condition, literal(1, Integer)), else_=literal(0, Integer))
