"""Queries over a whole tape: samples of its groups for statistics, a trend over time, failures.

Each query is short, as in `queries`, and its transaction ends before the next begins. Numbers are read as columns and
never pass through rows of named fields; the gaps of all exchanges of a group lie side by side in one array.
"""

import builtins
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import FAILURES, OUTCOMES
from wiretape.recorder.decode.metrics import METRICS
from wiretape.recorder.decode.turns import TURN_OUTCOMES
from wiretape.recorder.tape.cells import Cell, Damage, Type
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import (
    Expression,
    Integer,
    Select,
    Text,
    and_,
    case,
    func,
    not_,
    null,
    or_,
    select,
    true,
    type_coerce,
)
from wiretape.recorder.tape.tables import COVERED, exchanges, measures
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.source.base import Failures
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import (
    JOINED,
    among,
    cache_total,
    column,
    cost_units,
    each_label,
    flagged,
    label,
)
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.stats import summary
from wiretape.viewer.stats import trend as trends
from wiretape.viewer.stats.metrics import QUANTITIES, Bound, token_buckets
from wiretape.viewer.stats.prices import Paid
from wiretape.viewer.stats.summary import TOKENS, UNMEASURED, AnswerEnds, Duplicates, Key, Sample
from wiretape.viewer.stats.timeouts import StoredSilences
from wiretape.viewer.stats.trend import StartedExchanges, Trend

MOST_GAPS: Final = 12_000_000
"""More pooled gaps than this are not held in memory, of 8 bytes each: their figures are left to the command."""


_PERIODS: Final = {"day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
"""Formats of the groups by time."""
_CODES: Final = {name: code for code, name in enumerate((*OUTCOMES, UNMEASURED))}
COUNTED_FLAGS: Final = {
    "burst": True, "backpressure": False, "hidden_tokens": True, "clock_suspect": False, "imported": False,
    "no_timing": False,
}  # fmt: skip
"""The flags that `Figures.flagged` counts among the measured exchanges, in its order; True: of those with a speed."""
FLAGGED: Final = tuple(
    and_(flagged(flag), measures.c.tps_user.is_not(None)) if of_speed else flagged(flag)
    for flag, of_speed in COUNTED_FLAGS.items()
)
ENDED_ANSWERS: Final = (
    measures.c.answers,
    measures.c.stalled_answers,
    measures.c.given_up_answers,
    case((measures.c.silent_end_by.is_not(None), 1)),
)
"""The counts of `AnswerEnds` of one exchange."""
OUTCOME: Final = case((exchanges.c.ended_by.is_(None), "open"), else_=func.coalesce(measures.c.outcome, UNMEASURED))
"""Elsewhere an exchange that has ended and is not measured counts as open; it is missing from the figures."""

_OUTCOME_OF_TURN: Final = {"interrupted": "client_closed", "cancelled": "client_closed", "error": "error_event"}
"""The outcomes of exchanges that count for those of turns; others have the same name."""

_PAID: Final = 3
"""Number of columns for payments: the cost, the tokens from the cache, and all tokens of the request."""

_OPEN, _UNKNOWN = _CODES["open"], _CODES[UNMEASURED]
_COLUMNS: Final = {quantity.name: quantity for quantity in QUANTITIES.values() if quantity.column is not None}
_NOT_FAILED: Final = ("complete", "open")


def left_out(connection: Connection, where: Condition | None = None) -> dict[str, int]:
    """Count the exchanges that rates and latencies do not cover, by operation, the most frequent first."""
    operation = column("operation").label("operation")
    statement = select(operation, func.count()).select_from(JOINED).where(not_(COVERED))
    statement = queries.filtered(statement, where).group_by(operation).order_by(func.count().desc(), operation)
    with connection.begin():
        return {str(name): count for name, count in connection.execute(statement)}


def figures(
    connection: Connection, by: str, where: Condition | None = None, bounds: Sequence[Bound] = (), *, gaps: bool = True
) -> tuple[list[TableRow], TableRow | None]:
    """Return the statistics of each group, and those of all together, without a key; None if there are none.

    Without `gaps` those of pooled gaps are left unknown, which is far faster.
    """
    group_samples = samples(connection, (by,), where, gaps=gaps)
    rows = [summary.row(sample, (by,), bounds=bounds) for sample in group_samples]
    return rows, summary.row(Sample.together(group_samples), (), bounds=bounds) if group_samples else None


def samples(
    connection: Connection,
    by: Sequence[str] = (),
    where: Condition | None = None,
    *,
    include_failed: bool = False,
    gaps: bool = True,
    has_sessions: bool = True,
) -> list[Sample]:
    """Read the exchanges that `where` selects, in groups, ordered by their keys; without `by`, one group of all.

    Only complete exchanges are `measured`, unless `include_failed`. `gaps` false leaves the gaps unread. A session of
    voice counts as its turns, each by itself, without gaps; by turn or by tokens, so does any other WebSocket.
    Without `has_sessions`, as on a server, no duplicates are known.
    """
    with connection.begin():
        currency = connection.execute(select(func.currency_of(0))).scalar_one()
        duplicates = _duplicates(connection) if has_sessions else ()
    groups: dict[Key, _Group] = {} if by else {(): _Group()}
    statement = _sample_statement(by, gaps, include_failed, currency)
    for columns in queries.in_batches(connection, statement, where, columns=True):
        nos, icl, starts, *keys = map(connection.checked, statement.types[: 3 + len(by)], columns[: 3 + len(by)])
        numbers = _numbers(connection, statement.types, columns, 3 + len(by))
        if any(columns[-1]) or any(columns[-2]):
            spans, turns = (connection.checked(statement.types[at], columns[at]) for at in (-2, -1))
            rows = [*zip(nos, icl, starts, *keys, *numbers.T.tolist(), map(_turns, spans, turns), strict=True)]
            turn_rows = [turn_row for row in rows for turn_row in _turns_of(row, by)]
            nos, icl, starts, *others = list[Sequence[Any]](zip(*turn_rows, strict=True))
            keys, numbers = others[: len(by)], np.array(others[len(by) : -1], np.float64).T
        keys = [_bucketed(name, values) for name, values in zip(by, keys, strict=True)]
        members: dict[Key, list[int]] = {}
        for index, key in enumerate(zip(*keys, strict=True)) if by else ():
            members.setdefault(key, []).append(index)
        for key, places in members.items() if by else [((), range(len(starts)))]:
            group = groups.setdefault(key, _Group())
            group.gaps += b"".join([gaps for index in places if (gaps := icl[index])])
            start_times = [*filter(None, group.starts), *(starts[index] for index in places)]
            group.starts = min(start_times), max(start_times)
            group.numbers.append(numbers[places] if by else numbers)
            if duplicates:
                group.duplicates.append(numbers[[index for index in places if nos[index] in duplicates]])
    return [_sample(key, groups.pop(key), include_failed, currency) for key in sorted(groups, key=sortable)]


def silences(connection: Connection, by: str | None, where: Condition | None = None) -> dict[Any, StoredSilences]:
    """Read the silences of streams by the name of a group; without `by`, of all as the group of an empty name."""
    columns = exchanges.c.id, measures.c.output_tokens, measures.c.silences, measures.c.ping_gaps
    statement = select(exchanges.c.no, *columns, *([group_of(by)] if by else []))
    has_streams = func.length(measures.c.silences) > 0
    groups: dict[Any, StoredSilences] = {} if by else {"": StoredSilences()}
    for batch in queries.in_batches(connection, statement.where(has_streams), where, columns=True):
        values = [*map(connection.checked, statement.types[1:], batch[1:])]
        if not by:
            groups[""].add(*values)
            continue
        places: dict[Any, list[int]] = {}
        for place, key in enumerate(_bucketed(by, values.pop())):
            places.setdefault(key, []).append(place)
        for key, chosen in places.items():
            groups.setdefault(key, StoredSilences()).add(*([column[place] for place in chosen] for column in values))
    return groups


def _duplicates(connection: Connection) -> Collection[int]:
    """Return the numbers of requests that were sent twice. Without equal ones in sessions, none of these is judged."""
    ties = ("conversation_key", "conversation_parent", "previous_response_id", "continues_hash")
    sent = select(exchanges.c.no, exchanges.c.request_sha256).select_from(
        exchanges.join(measures, measures.c.exchange_no == exchanges.c.no)
    )
    # SQLite seeks the indexes of ties by comparisons only, and would take that of a plain outcome: nearly all rows.
    is_tied = or_(*(measures.c[name] > "" for name in ties))
    rows = connection.execute(sent.where(is_tied, func.coalesce(measures.c.outcome, "") == "complete")).all()
    counts = Counter(sha256 for _, sha256 in rows)
    equal = [no for no, sha256 in rows if sha256 is not None and counts[sha256] > 1]
    if not equal:
        return ()
    statement = select(exchanges.c.no).select_from(JOINED).where(among(equal), column("duplicate_of").is_not(None))
    return set(connection.execute(statement).scalars())


@dataclass(slots=True)
class _Group:
    """The data of a group: a row of numbers for each exchange, those of duplicates again, all gaps, and two starts."""

    numbers: list[NDArray[np.float64]] = field(default_factory=list)
    duplicates: list[NDArray[np.float64]] = field(default_factory=list)
    gaps: bytearray = field(default_factory=bytearray)
    starts: tuple[str | None, str | None] = (None, None)


def group_of(name: str) -> Expression:
    """Return the expression of a group's name: `label.KEY`, or one of `GROUPS`; of a bucket the count of tokens."""
    if name.startswith("label."):
        return label(name.removeprefix("label."))
    if name in _PERIODS:
        # A day is that of a person's clock, as in filters (`at:2026-11-28`). SQLite takes other texts for times, too.
        started = exchanges.c.started_at
        is_time = and_(func.typeof(started) == "text", started.like("____-__-__T%"))
        return case((is_time, func.strftime(_PERIODS[name], started, "localtime", type_=Text)))
    if name == "upstream":  # two names of one URL are two groups
        return func.coalesce(exchanges.c.upstream_name, exchanges.c.upstream, type_=Text)
    buckets = token_buckets(name)
    return column(name if buckets is None else buckets.field)


def _sample_statement(by: Sequence[str], gaps: bool, include_failed: bool, currency: str | None) -> Select:
    icl = measures.c.icl if include_failed else case((measures.c.outcome == "complete", measures.c.icl))
    # Columns as they are, and not the expressions of lists: SQLite takes twice as long for those.
    columns = (
        exchanges.c.no,
        icl if gaps else null(),
        exchanges.c.started_at,
        *map(group_of, by),
        type_coerce(exchanges.c.ended_by.is_(None), Integer),
        type_coerce(measures.c.outcome, Text),
        type_coerce(measures.c.flags, Text),
        exchanges.c.status,
        measures.c.output_chunks,
        *(measures.c[name] for name in TOKENS),
        *(measures.c[quantity.column] for quantity in _COLUMNS.values() if quantity.column),
        *ENDED_ANSWERS,
        cost_units() if currency else null(),
        measures.c.cache_read_input_tokens,
        cache_total(),
        measures.c.tps_user,
        measures.c.turn_spans if any(name == "turn" or token_buckets(name) for name in by) else null(),
        case((measures.c.operation.in_(("realtime", "agent_session")), measures.c.turns)),
    )
    return select(*columns)


def _numbers(connection: Connection, types: Sequence[Type], columns: Sequence[Any], head: int) -> NDArray[np.float64]:
    """Return the numbers of exchanges, a row for each: the outcome's code, the others, and whether it has each flag."""
    is_open, outcomes, flags = columns[head : head + 3]
    codes = [_OPEN if open else _CODES.get(word, _UNKNOWN) for open, word in zip(is_open, outcomes, strict=True)]
    *numbers, tps_user = (
        _array(type, values, connection.damage)
        for type, values in zip(types[head + 3 : -2], columns[head + 3 : -2], strict=True)
    )
    flag_codes: dict[Any, int] = {}
    texts = np.array([flag_codes.setdefault(words, len(flag_codes)) for words in flags])

    def flagged(flag: str) -> NDArray[np.bool_]:
        has_flag: NDArray[np.bool_] = np.array([f" {flag} " in f" {text} " for text in flag_codes])[texts]
        return has_flag

    for index, quantity in enumerate(_COLUMNS.values(), 2 + len(TOKENS)):
        metric = METRICS.get(str(quantity.column))
        for flag in metric.withheld if metric else ():
            numbers[index][flagged(flag)] = np.nan
    has_speed = ~np.isnan(tps_user)
    flag_columns = [
        flagged(flag) & has_speed if of_speed else flagged(flag) for flag, of_speed in COUNTED_FLAGS.items()
    ]
    return np.column_stack([np.array(codes, np.float64), *numbers, *flag_columns])


def _array(type: Type, values: Sequence[Any], damage: Damage) -> NDArray[np.float64]:
    """Return a column of numbers, checked: unknown ones are NaN."""
    if isinstance(type, Cell) and not {*map(builtins.type, values)} - {NoneType} <= type.kind.types:
        return np.array(type.column(values, damage), np.float64)
    numbers = np.array(values, np.float64)
    low, high = (type.kind.limits if isinstance(type, Cell) else None) or (-np.inf, np.inf)
    if ((numbers < low) | (numbers > high)).any():
        return np.array(type.column(values, damage), np.float64)
    return numbers


_TURN_CODES: Final = {name: _CODES[_OUTCOME_OF_TURN.get(name, name)] for name in TURN_OUTCOMES}


def _bucketed(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return the keys of groups by a name: of counts of tokens, the lower bounds of their buckets."""
    if (buckets := token_buckets(name)) is None:
        return values
    return [None if value is None else value // buckets.width * buckets.width for value in values]


def _turns(spans: Sequence[Sequence[Any]] | None, turns: Sequence[TableRow] | None) -> Sequence[TableRow] | None:
    """Return the turns of a WebSocket: of voice as they are, else, of several, made of their `spans`."""
    if turns or not spans or len(spans) < 2:
        return turns
    made = list[TableRow]()
    for asked_ns, first_ns, last_ns, end_ns, *_ in spans:
        turn = {"started_at_ns": asked_ns, "ended_at_ns": end_ns, "outcome": "complete" if end_ns is not None else None}
        if first_ns is not None:
            turn |= {"ttft_ns": first_ns - asked_ns, "last_ns": last_ns - asked_ns, "first_output_at_ns": first_ns}
        made.append(turn)
    return made


def _turns_of(row: Sequence[Any], by: Sequence[str]) -> list[Sequence[Any]]:
    """Return the row of an exchange; or, if its last value are turns, a row for each, with its own groups of `by`."""
    turns, head = row[-1], 3 + len(by)
    if turns is None:
        return [row]
    if not turns:  # a stream of a hosted session that told no turn of its own
        return []
    unknown = (None,) * (_PAID + len(FLAGGED) + 1)
    # The outcome of the exchange covers all of its turns.
    first_end = 3 + len(TOKENS) + len(_COLUMNS)
    ends = [
        row[head + first_end : head + first_end + len(ENDED_ANSWERS)],
        *((None,) * len(ENDED_ANSWERS) for _ in turns[1:]),
    ]
    turn_rows = [
        [
            *(row[0], None, row[2]),
            *(_turn_key(*group, number, turn) for group in zip(by, row[3:head], strict=True)),
            *_numbers_of(turn, row[head]),
            *answer_ends,
            *unknown,
        ]
        for number, (turn, answer_ends) in enumerate(zip(turns, ends, strict=True), 1)
    ]
    # So do its silences: the longest of all turns, and the first silence of the first turn.
    for index, quantity in enumerate(_COLUMNS.values(), head + 3 + len(TOKENS)):
        if quantity.of_every_outcome:
            turn_rows[0][index] = row[index]
    return list[Sequence[Any]](turn_rows)


def _turn_key(name: str, value: Any, number: int, turn: TableRow) -> Any:
    """Return the key of a turn in groups by a name, whose value is its exchange's."""
    buckets = token_buckets(name)
    return number if name == "turn" else value if buckets is None else turn.get(buckets.field)


def _numbers_of(turn: TableRow, exchange_code: float) -> Iterator[Any]:
    """Yield the numbers of a turn in the order of a sample's statement, up to those of payments.

    A turn without an outcome of its own ended as its exchange did, which has the code of that.
    """
    started_ns, ended_ns = turn.get("started_at_ns"), turn.get("ended_at_ns")
    durations = {"ttft_ns": turn.get("ttft_ns"), "latency_ns": turn.get("last_ns")}
    if started_ns is not None and ended_ns is not None:
        durations["duration_ns"] = ended_ns - started_ns
    code = exchange_code if turn["outcome"] is None else _TURN_CODES.get(turn["outcome"], _CODES[UNMEASURED])
    yield from (code, None, int("first_output_at_ns" in turn))
    yield from (turn.get(name) for name in TOKENS)
    yield from (durations.get(str(quantity.column)) for quantity in _COLUMNS.values())


def _sample(key: Key, group: _Group, include_failed: bool, currency: str | None) -> Sample:
    width = 3 + len(TOKENS) + len(_COLUMNS) + len(ENDED_ANSWERS) + _PAID + len(FLAGGED)
    table = np.concatenate([np.empty((0, width)), *group.numbers])
    codes, statuses, chunks = table[:, 0], table[:, 1], table[:, 2]
    columns = {name: table[:, 3 + index].copy() for index, name in enumerate(TOKENS)}
    for index, quantity in enumerate(_COLUMNS.values(), 3 + len(TOKENS)):
        columns[quantity.name] = table[:, index] / (1e6 if quantity.unit == "ms" else 1)
    complete = codes == _CODES["complete"]
    measured = np.ones(len(table), bool) if include_failed else complete
    sample = Sample(
        key,
        _counts(codes),
        _counts(codes[(statuses >= 200) & (statuses < 300)]),
        complete,
        complete | (chunks > 0),
        measured,
        columns,
        np.frombuffer(group.gaps, "<i8"),
        *group.starts,
        *np.count_nonzero(table[measured, -len(FLAGGED) :] > 0, axis=0).tolist(),
    )
    counts = table[:, -len(FLAGGED) - _PAID - len(ENDED_ANSWERS) : -len(FLAGGED) - _PAID]
    sample.ends = AnswerEnds(*map(int, np.nansum(counts, axis=0).tolist()))
    for rows in group.duplicates:
        tokens, costs = rows[:, 3 + TOKENS.index("total_tokens")], rows[:, -len(FLAGGED) - _PAID]
        sums = (int(np.nansum(values)) if not np.isnan(values).all() else None for values in (tokens, costs))
        sample.duplicates += Duplicates(len(rows), *sums)
    sample.paid = _paid(table[:, -len(FLAGGED) - _PAID : -len(FLAGGED)], complete, currency)
    return sample


def _paid(table: NDArray[np.float64], complete: NDArray[np.bool_], currency: str | None) -> Paid:
    """Sum payments; each number is an integer, and the sums are exact."""
    costs, cached, totals = table.T
    has_cost, has_total = ~np.isnan(costs), ~np.isnan(cached + totals)
    return Paid(
        cost=sum(map(int, costs[has_cost].tolist())),
        cost_n=int(has_cost.sum()),
        unknown_n=int((complete & ~has_cost).sum()),
        cached=int(cached[has_total].sum()),
        input=int(totals[has_total].sum()),
        cached_n=int(has_total.sum()),
        currency=currency,
    )


def _counts(codes: NDArray[np.float64]) -> Counter[str]:
    counts = np.bincount(codes.astype(np.int64), minlength=len(_CODES)).tolist()
    return Counter({name: count for name, count in zip(_CODES, counts, strict=True) if count})


def sortable(key: Iterable[object]) -> list[tuple[bool, str]]:
    """Return a sort key for a group's keys: numbers by value, unknown last."""
    return [(part is None, f"{part:>9}" if isinstance(part, int) else str(part)) for part in key]


def pooled(connection: Connection, where: Condition | None = None) -> int:
    """Estimate the count of gaps that the figures of groups would pool."""
    statement = select(func.coalesce(func.sum(measures.c.output_chunks), 0)).select_from(JOINED)
    with connection.begin():
        return int(connection.execute(queries.filtered(statement, where)).scalar_one())


def failures(connection: Connection, where: Condition | None = None) -> list[Failures]:
    """Count the ways in which exchanges did not become complete, the most frequent first."""
    names = [column(name).label(name) for name in ("outcome", "outcome_detail", "error_code", "status")]
    failed = column("outcome").not_in(_NOT_FAILED)
    statement = queries.filtered(select(*names, func.count().label("count")).select_from(JOINED), where).where(failed)
    order = (func.count().desc(), *names)
    with connection.begin():
        rows = connection.execute(statement.group_by(*names).order_by(*order).limit(50)).all()
    return [Failures(*row) for row in rows]


def endings(connection: Connection, where: Condition | None = None) -> dict[Ending, int]:
    """Count how exchanges ended, equal endings together."""
    is_error = OUTCOME == "error_event"
    names = [
        column("outcome").label("outcome"),
        column("outcome_detail").label("detail"),
        case((is_error, column("error_code"))).label("code"),
        case((OUTCOME == "http_error", exchanges.c.status)).label("status"),
        func.coalesce(flagged("stall"), False).label("stalled"),
        func.coalesce(flagged("burst"), False).label("buffered"),
        func.coalesce(flagged("given_up"), False).label("given_up"),
    ]
    statement = queries.filtered(select(*names, func.count()).select_from(JOINED), where).group_by(*names)
    with connection.begin():
        return {Ending(*ending): count for *ending, count in connection.execute(statement)}


def label_keys(connection: Connection, where: Condition | None = None, most: int = 20) -> list[str]:
    labels = each_label()
    statement = queries.filtered(select(labels.c.key).select_from(JOINED.join(labels, true())), where)
    with connection.begin():
        statement = statement.group_by(labels.c.key).order_by(func.count().desc(), labels.c.key).limit(most)
        return [str(key) for key in connection.execute(statement).scalars()]


def trend(connection: Connection, room: int, where: Condition | None = None) -> Trend | None:
    """Return the trend of exchanges in at most `room` intervals; times are those of complete ones."""
    is_complete = measures.c.outcome == "complete"
    failed = case((measures.c.outcome.in_(FAILURES), 1), else_=0)
    times = [case((is_complete, measures.c[name])) for name in ("ttft_ns", "max_gap_ns")]
    blocks = [np.empty((0, 4))]
    for batch in queries.in_batches(connection, select(exchanges.c.no, exchanges.c.started_at, failed, *times), where):
        values = np.array([row[2:] for row in batch], np.float64)
        blocks.append(np.column_stack((_milliseconds([row[1] for row in batch]) // 1000, values)))
    starts, failures, ttft_ns, gap_ns = np.concatenate(blocks).T
    return trends.trend(StartedExchanges(starts.astype(np.int64), failures > 0, ttft_ns / 1e6, gap_ns / 1e6), room)


def _milliseconds(instants: Sequence[str]) -> NDArray[np.int64]:
    whole = (text[:23] if text[19:20] == "." else text[:19] for text in instants)
    return np.array(list(whole), "datetime64[ms]").astype(np.int64)
