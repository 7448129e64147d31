"""The conversations of a tape: the totals of each, and the exchanges that it has."""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from wiretape.recorder.decode.elements import SOURCES
from wiretape.recorder.decode.exchange import FAILURES
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Expression, Select, and_, case, func, not_, null, or_, select
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.listing.conversations import TreeParent, tree
from wiretape.viewer.record.rows import ConversationRow, TurnRow
from wiretape.viewer.record.units import ms
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import (
    ABOVE,
    CONTINUED,
    IS_TOOL_CALL,
    JOINED,
    RESOLVED,
    among,
    column,
    cost_units,
    label,
    resolved,
    tool_call,
)
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.functions import ONLY
from wiretape.viewer.stats.prices import UNITS

_USED: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens")
_SUMMED: Final = (*_USED, "duration_ms")
_SIZES: Final = [f"context_{source}_bytes" for source in SOURCES]
_NAME: Final = column("conversation")
_LONGEST: Final = 200
_SEEDS, _MOST_SEEDS = 4, 2000
"""Exchanges that are looked at first for each of some conversations, and at most for all of them."""
_PROMPT, _ANSWERS, _TOOLS = 3, 4, 13
"""Places of columns in a row of `_turns`, behind its name and number."""


def listed(
    connection: Connection,
    where: Condition | None = None,
    limit: int | None = None,
    seeds: Sequence[int] | None = None,
) -> list[ConversationRow]:
    """Return the conversations of the exchanges that fit, with totals of these: the one with the newest first.

    `seeds` are the result of `newest`. Raises `ConfigError`.
    """
    with connection.begin():
        currency: str | None = connection.execute(select(func.currency_of(0))).scalar_one()
    numbers = func.min(exchanges.c.no), func.max(exchanges.c.no)
    # Requests for a title, or to check a quota, have no tools: they come first, and are nobody's prompt.
    first_prompt = func.min(case((measures.c.context_tools_bytes > 0, exchanges.c.no)))
    totals = (
        func.min(exchanges.c.started_at),
        func.max(exchanges.c.started_at),
        func.count(),
        _count(column("outcome").in_(FAILURES)),
        _count(exchanges.c.ended_by.is_(None)),
        func.json_group_array(column("model").distinct()),
        *(_used(column(name)) for name in _USED),
        func.sum(column("duration_ms")),
        _used(cost_units()) if currency else null(),
    )
    columns = select(_NAME, *numbers, func.coalesce(first_prompt, numbers[0]), *totals)
    statement = queries.filtered(columns.select_from(JOINED), where).where(_NAME.is_not(None))
    statement = statement.group_by(_NAME).order_by(numbers[1].desc()).limit(limit)
    statement = only(statement, seeds)
    with connection.begin():
        rows = connection.execute(statement).all()
        starts = connection.execute(_starts({no for row in rows for no in (row[1], row[3])}))
        start_by_no = {no: columns for no, *columns in starts}
    return [
        _row(name, (*start_by_no[first][:2], start_by_no[prompted][2]), currency, *totals)
        for name, first, _, prompted, *totals in rows
    ]


def only(statement: Select, seeds: Sequence[int] | None) -> Select:
    """Return a statement about the conversations of some exchanges, for which no other is read; None: about all."""
    if seeds is None:
        return statement
    numbers = func.json_each(getattr(func, RESOLVED)()).table_valued("value")
    return statement.where(exchanges.c.no.in_(select(numbers.c.value))).execution_options(**{ONLY: tuple(seeds)})


def newest(connection: Connection, where: Condition | None, count: int | None) -> list[int] | None:
    """Return the newest exchanges that fit, as many as have so many conversations; None if all have to be read."""
    size = _SEEDS * (count or _MOST_SEEDS)
    while count and size <= _MOST_SEEDS:
        seeds = [*islice(queries.numbers(connection, where, newest_first=True), size)]
        if len(seeds) < size:
            break
        names = only(select(_NAME).distinct().where(among(seeds), _NAME.is_not(None)), seeds)
        with connection.begin():
            if len(connection.execute(names).all()) >= count:
                return seeds
        size *= _SEEDS
    return None


def _used(value: Expression) -> Expression:
    """Return the sum of a count of tokens, without the answers of count_tokens, which use none."""
    return func.sum(case((measures.c.operation.is_distinct_from("count_tokens"), value)))


def _count(condition: Condition) -> Expression:
    return func.sum(case((condition, 1), else_=0))


def _starts(numbers: Iterable[int]) -> Any:
    """Return the statement for the displayed columns of exchanges that conversations begin with."""
    columns = (exchanges.c.no, exchanges.c.id, label("argv0"), measures.c.asked)
    return select(*columns).select_from(JOINED).where(among(numbers))


def _row(
    name: str, first: Sequence[Any], currency: str | None, started_at: str, last_at: str, *totals: Any
) -> ConversationRow:
    id, argv0, prompt = first
    count, failed, running, models, input_tokens, output_tokens, cached, duration_ns, units = totals
    model_names = sorted(model for model in json.loads(models) if isinstance(model, str))
    counts = count, failed, running, model_names, input_tokens, output_tokens, cached, ms(duration_ns)
    paid = (None, None) if units is None else (units / UNITS, currency)
    return ConversationRow(name, id, started_at, last_at, *counts, argv0, prompt, *paid)


def left_out(connection: Connection, where: Condition | None = None) -> int:
    """Count the exchanges that fit and are part of no conversation, such as requests for a list of models."""

    def fitting(condition: Condition) -> Condition:
        return condition if where is None else where & condition

    is_measured, is_turn = measures.c.exchange_no.is_not(None), measures.c.operation.in_(GENERATIONS)
    is_unnamed = and_(is_measured, not_(func.coalesce(is_turn, False)), measures.c.conversation_key.is_(None))
    is_tied = or_(
        measures.c.previous_response_id.is_not(None),
        measures.c.continues_hash.is_not(None),
        func.coalesce(measures.c.retries, 0) > 0,
    )
    # Nearly all are judged by their own rows: conversations are derived only for those that others may be tied to.
    undecided = or_(not_(is_measured), and_(is_unnamed, is_tied))
    numbers = [*islice(queries.numbers(connection, fitting(undecided)), _MOST_SEEDS + 1)]
    if len(numbers) > _MOST_SEEDS:
        return queries.count(connection, fitting(_NAME.is_(None)))
    count = queries.count(connection, fitting(and_(is_unnamed, not_(is_tied))))
    if numbers:
        alone = select(func.count()).select_from(JOINED).where(among(numbers), _NAME.is_(None))
        with connection.begin():
            count += connection.execute(alone.execution_options(**{ONLY: tuple(numbers)})).scalar_one()
    return count


def turns(
    connection: Connection, names: Iterable[str], where: Condition | None = None, *, judged: bool = False
) -> dict[str, list[TurnRow]]:
    """Return the exchanges of some conversations that fit, as the tree of each has them, by its name.

    `judged` asks for the verdicts about the provider's cache: the first time, they are computed for all of the tape.
    """
    listed_names = func.json_each(json.dumps(list(names))).table_valued("value")
    statement = queries.filtered(_turns(judged), where).where(_NAME.in_(select(listed_names.c.value)))
    exchanges_by_name: dict[str, dict[int, Any]] = {}
    with connection.begin():
        for name, no, *values in connection.execute(statement):
            exchanges_by_name.setdefault(name, {})[no] = values
    return {name: _tree(exchanges) for name, exchanges in exchanges_by_name.items()}


@functools.cache
def _turns(judged: bool) -> Select:
    tools = select(func.group_concat(tool_call("name"), ", ")).where(IS_TOOL_CALL).scalar_subquery()
    texts = [func.substr(text, 1, _LONGEST) for text in (column("content"), tools)]
    *tokens, duration = (column(name) for name in _SUMMED)
    facts = [column(name) for name in ("id", "started_at", "model", "outcome")]
    verdicts = [column(name) if judged else null() for name in ("cache_verdict", "cache_broken_at")]
    sizes = [column(name) for name in _SIZES]
    position = resolved(ABOVE), resolved(CONTINUED).is_not(None)
    columns = (
        *position, duration, column("asked"), measures.c.answers_tools, *facts, *tokens, *texts, *verdicts, *sizes,
    )  # fmt: skip
    return select(_NAME, exchanges.c.no, *columns).select_from(JOINED)


def _tree(exchanges: Mapping[int, Sequence[Any]]) -> list[TurnRow]:
    turns, first_no = [], min(exchanges)
    numbers = {no: number for number, no in enumerate(sorted(exchanges), 1)}
    for no, depth in tree({no: TreeParent(parent, continues) for no, (parent, continues, *_) in exchanges.items()}):
        parent, _, duration_ns, prompt, _, *fields = exchanges[no]
        sizes = zip(SOURCES, fields[-len(SOURCES) :], strict=True)  # those of a damaged row may be no numbers
        fields[-len(SOURCES) :] = [{source: size for source, size in sizes if type(size) is int and size > 0}]
        is_repeated = no == first_no or (parent in exchanges and prompt == exchanges[parent][_PROMPT])
        turn = TurnRow(no, depth, ms(duration_ns), None if is_repeated else prompt, *fields)
        turns.append(replace(turn, number=numbers[no], results_of=results_of(exchanges, no)))
    return turns


def results_of(exchanges: Mapping[int, Sequence[Any]], no: int) -> str | None:
    """Return the tools whose results a request brings: those called before it, behind its failed attempts."""
    seen = set[int]()
    while exchanges[no][_ANSWERS] and no not in seen:
        seen.add(no)
        no = exchanges[no][0]
        if no not in exchanges or (called := exchanges[no][_TOOLS]):
            return called if no in exchanges else None
    return None
