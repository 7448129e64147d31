"""The fields of an exchange's row as SQL expressions, over exchanges left-joined to measures.

Lists, filters and sorts use the same expressions. SELECTs are in `wiretape.viewer.source.tape`.
"""

import json
from collections.abc import Callable, Iterable
from typing import Final

from wiretape.recorder.decode.metrics import METRICS
from wiretape.recorder.tape.cells import Type
from wiretape.recorder.tape.selects import (
    BigInteger,
    Column,
    Expression,
    Float,
    FromClause,
    Integer,
    Select,
    Text,
    and_,
    as_blob,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    true,
    type_coerce,
)
from wiretape.recorder.tape.tables import REQUEST_BODY, UNSIZED, bodies, exchanges, measures, segments, sessions
from wiretape.viewer.record import fields
from wiretape.viewer.record.fields import GAP_PERCENTILES
from wiretape.viewer.stats.prices import UNITS

Statement = Select

JOINED: Final = exchanges.outerjoin(measures, measures.c.exchange_no == exchanges.c.no)
"""The tables that the expressions select from: every exchange, measured or not."""


CONVERSATION: Final = "conversation_of"
CONTINUED: Final = "continued_by"
ABOVE: Final = "number_above"
CONTINUED_NUMBER: Final = "number_continued"
"""SQL functions (`functions`): an exchange's conversation, the id that it continues, its parent's number, and the
number of the one that it continues."""
RESOLVED: Final = "numbers_resolved"
"""SQL function (`functions`): the numbers of all exchanges whose conversations are known now, as JSON."""


OF_SESSION: Final = {
    "cache_verdict": "cache_verdict_of",
    "cache_broken_at": "cache_break_of",
    "cache_expected_tokens": "cache_expected_of",
    "cache_idle_ms": "cache_idle_of",
    "cache_common_tokens": "cache_common_of",
    "cache_remedy": "cache_remedy_of",
    "turn": "turn_of",
    "duplicate_of": "duplicate_of",
}
"""SQL functions (`caching`): the figures that need a generation's session, by the fields that they give."""
PREDECESSOR: Final = "predecessor_of"
"""SQL function (`caching`): the number of a generation's predecessor, null without one, and 0 if it is unknown."""


BOOT: Final = func.coalesce(sessions.c.boot_id, sessions.c.uuid, type_=Text)
"""The boot of the machine during the run of a recorder."""


COST: Final = "cost_of"
CURRENCY: Final = "currency_of"
"""SQL functions (`functions`): cost, in units of `wiretape.viewer.stats.prices`, and currency."""


BILLED: Final = (
    "input_uncached_tokens", "output_tokens", "reasoning_tokens", "cache_read_input_tokens", "cache_write_input_tokens",
    "cache_write_1h_input_tokens",
)  # fmt: skip
"""The counts of tokens that a cost is of, in the order of `COST`'s arguments."""


COST_TYPE: Final = Type("Cost")
CURRENCY_TYPE: Final = Type("Currency")
"""The types of costs, in the currency, and of the currency of a cost that is known."""


def among(numbers: Iterable[int]) -> Expression:
    """Return the condition that an exchange is one of these; however many they are, they are one bound value."""
    listed_numbers = list(numbers)
    if not all(isinstance(no, int) for no in listed_numbers):  # a server has texts for numbers
        return exchanges.c.no.in_(listed_numbers)
    items = func.json_each(json.dumps(listed_numbers)).table_valued("value")
    return exchanges.c.no.in_(select(items.c.value))


def column(field: str) -> Expression:
    """Return the expression of a field; of a running exchange, reads and bytes are counted from its segments.

    A metric is withheld where the exchange has one of the flags that its entry names: the speed of a burst's generation
    is unknown, and where usage counts tokens that did not arrive, so are all metrics per token.
    """
    if field in _WORKED_OUT:
        return _WORKED_OUT[field]()
    unmeasured = measures.c.exchange_no.is_(None)
    match field:
        case "model":
            return func.coalesce(exchanges.c.request_model, measures.c.response_model)
        case "outcome":
            return func.coalesce(measures.c.outcome, "open")  # a finished exchange is measured a moment later
        case "reads":
            counted = _sum(_count(bodies.c.sizes), bodies) + _sum(_count(segments.c.sizes), segments)
            return _typed(case((unmeasured, counted), else_=measures.c.reads), measures.c.reads)
        case "bytes":
            summed = _sum(bodies.c.size, bodies) + _sum(func.length(segments.c.data), segments)
            size = case((unmeasured, summed), (UNSIZED, null()), else_=measures.c.bytes)
            return _typed(size, measures.c.bytes)
        case "gap_p50_ms" | "gap_p90_ms" | "gap_p99_ms":
            return func.gap_percentile(measures.c.icl, GAP_PERCENTILES[field])
    stored = fields.stored_name(field)
    if (metric := METRICS.get(stored)) is not None and metric.withheld:
        value = measures.c[stored]
        return _typed(case((or_(*map(flagged, metric.withheld)), null()), else_=value), value)
    expression: Expression = measures.c[stored] if stored in measures.c else exchanges.c[stored]
    return expression


def cost_units() -> Expression:
    """Return the cost of an exchange, in units of `wiretape.viewer.stats.prices`."""
    counts = (measures.c[name] for name in BILLED)
    facts = (measures.c.outcome, measures.c.flags, exchanges.c.started_at)
    called = (column("model"), measures.c.response_model, exchanges.c.upstream, measures.c.api)
    return func.cost_of(*map(as_blob, (*facts, *called)), *counts, type_=BigInteger)


def resolved(function: str) -> Expression:
    """Return the result of a resolver's function for an exchange."""
    value: Expression = getattr(func, function)(
        exchanges.c.no, type_=Integer if function in (ABOVE, CONTINUED_NUMBER) else Text
    )
    return value


def _of_session(field: str) -> Callable[[], Expression]:
    kind = Text if field in ("cache_verdict", "cache_broken_at", "cache_remedy", "duplicate_of") else BigInteger
    return lambda: getattr(func, OF_SESSION[field])(exchanges.c.no, type_=kind)


def cache_total() -> Expression:
    """Return the tokens of a request; null if there are none, or it is not known how many of them a cache had."""
    is_known = (measures.c[name].is_not(null()) for name in ("cache_read_input_tokens", "input_uncached_tokens"))
    return case((and_(*is_known), func.nullif(measures.c.input_tokens, 0, type_=BigInteger)))


_WORKED_OUT: Final[dict[str, Callable[[], Expression]]] = {
    "conversation": lambda: resolved(CONVERSATION),
    "continues": lambda: resolved(CONTINUED),
    "cost": lambda: type_coerce(cost_units() / literal(float(UNITS)), COST_TYPE),
    "currency": lambda: func.currency_of(cost_units(), type_=CURRENCY_TYPE),
    "cache_hit_rate": lambda: cast(measures.c.cache_read_input_tokens, Float) / cache_total(),
    **{field: _of_session(field) for field in OF_SESSION},
    "request_body": lambda: REQUEST_BODY,
    "stored_ttft_ms": lambda: measures.c.ttft_ns,
    "stored_ttfo_ms": lambda: measures.c.ttfo_ns,
}
"""The expressions of `rows.WORKED_OUT`, of the request body, which may be in parts, and of times never withheld."""


def _sum(value: Expression, table: FromClause) -> Expression:
    summed = select(func.coalesce(func.sum(value), 0)).where(table.c.exchange_no == exchanges.c.no)
    return summed.scalar_subquery()


def _count(array: Expression) -> Expression:
    return case((func.json_valid(array) == 1, func.json_array_length(array)))


def last_read() -> Expression:
    """Return the expression of when the last read came of an exchange that is open."""
    is_of_exchange = segments.c.exchange_no == exchanges.c.no
    last_seq = select(func.max(segments.c.seq)).where(is_of_exchange).scalar_subquery()
    # An array that is damaged has no elements here.
    deltas = func.json_each(case((func.json_valid(segments.c.at_ns) == 1, segments.c.at_ns))).table_valued("value")
    summed = (
        select(func.sum(deltas.c.value))
        .select_from(segments.join(deltas, true()))
        .where(is_of_exchange, segments.c.seq == last_seq)
    )
    return type_coerce(summed.scalar_subquery(), exchanges.c.end_ns.type)


def _typed(expression: Expression, column: Column) -> Expression:
    """Return an expression with the type of a column, so that its values are checked as those of the column."""
    return type_coerce(expression, column.type)


def label(key: str) -> Expression:
    """Return the expression of a label's value; null where there is none."""
    return case((func.json_valid(exchanges.c.labels) == 1, exchanges.c.labels[key]))


def each_label() -> FromClause:
    """Return the labels of an exchange as rows of `key` and `value`."""
    intact = case((func.json_valid(exchanges.c.labels) == 1, exchanges.c.labels), else_="{}")
    return func.json_each(intact).table_valued("key", "value")


_CALLS: Final = func.json_each(case((func.json_valid(measures.c.tool_calls) == 1, measures.c.tool_calls))).table_valued(
    "value", "type"
)
IS_TOOL_CALL: Final = _CALLS.c.type == "object"
"""The condition that an item of an exchange's tool calls is one: a cell that is damaged may hold anything."""


def tool_call(key: str) -> Expression:
    """Return a part of a tool call, for a subquery over those that are one."""
    # Of an item that is a text `json_extract` says "malformed JSON", which ends the statement.
    return func.json_extract(case((IS_TOOL_CALL, _CALLS.c.value)), f"$.{key}")


def stalled_gaps(stall_ns: int) -> Expression:
    """Return the expression of the gaps between outputs; null where none is a stall."""
    return case((measures.c.max_gap_ns > stall_ns, measures.c.icl))


def flagged(flag: str) -> Expression:
    """Return the condition that an exchange is measured and carries a flag."""
    return func.instr(literal(" ") + measures.c.flags + " ", f" {flag} ") > 0
