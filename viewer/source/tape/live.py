"""Queries for the list of a growing tape: matching exchanges, changes, and recorders.

Each query is short, as in `queries`. Nothing read here grows with the recording: texts are cut by the database, so that
a line of many megabytes costs no more than any other. A running exchange is measured from its present data, unless
that is large, and is the same on every screen. The use of the rows is left to `wiretape.viewer.listing`.
"""

import functools
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import Exchange, Reads, RecordedExchange
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.decode.sessions import session_named
from wiretape.recorder.decode.stalls import DEFAULT, stalls_among
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Expression, LargeBinary, Text, and_, bindparam, case, cast, func, or_, select
from wiretape.recorder.tape.tables import exchanges, joined, measures, sessions
from wiretape.viewer.record import rows, units
from wiretape.viewer.record.fields import stored_name
from wiretape.viewer.record.rows import LISTED, DetailRow, ListRow, PreviewRow, TableRow
from wiretape.viewer.source.base import Change
from wiretape.viewer.source.tape import following, queries
from wiretape.viewer.source.tape.columns import JOINED, Statement, among, column, last_read
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.following import Changes

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded
    from wiretape.viewer.listing.ranking import RankedExchange

LONGEST: Final = 256
"""Maximum number of characters read of a text for the list."""

TAIL: Final = 4000
"""Number of characters read from the end of an answer for the preview."""

LARGEST: Final = 512 << 10
"""A body of more bytes is not measured before its exchange has ended."""

AT_ONCE: Final = 128 << 10
"""Size limit of the bodies that are measured in a poll."""

RATIO: Final = 20
"""Highest usual compression ratio of an event stream; with a flush after each event it is 2 to 5."""

MEASURED: Final = (
    "response_model", "api", "operation", "input_tokens", "output_tokens", "total_tokens", "reasoning_tokens",
    "cache_read_input_tokens", "cache_write_input_tokens", "cache_write_1h_input_tokens", "input_uncached_tokens",
    "ttfb_ms", "ttfc_ms", "ttft_ms", "ttfo_ms", "ttst_ms", "ttf_byte_ms", "ttf_content_ms", "thinking_ms",
    "icl_mean_ms", "icl_p50_ms", "icl_p90_ms", "icl_p99_ms", "icl_max_ms", "max_gap_ms", "max_silence_ms", "events",
    "comments", "chunks", "output_chunks", "coalesced_fraction", "sparkline",
)  # fmt: skip
"""The fields that a running exchange's row has: those that are known before its end."""

R = TypeVar("R", bound=ListRow)

_FLAGS: Final = frozenset({"stall", "backpressure", "storage_gap"})
_TAILS: Final = ("content", "reasoning", "refusal")
_MOST_ROWS: Final = 256
_FIGURES: Final = "figures"
_EXCESS: Final = "excess"
_SESSIONS: Final = "sessions"
MOST_GAPS: Final = 65_536
"""Limit of gaps read for the stalls of a list's row; of an exchange without a stall none are read."""

HAS_STALL: Final = measures.c.max_gap_ns > DEFAULT.stall_ns
"""The condition that a gap between outputs is a stall, or would be but for the tools of the provider."""

_ENDS: Final = select(exchanges.c.no, exchanges.c.started_at, exchanges.c.end_ns).select_from(JOINED)
_MOST_VALUES: Final = 200
_MOST_STARTED: Final = 10_000


def numbers(
    connection: Connection, where: Condition | None = None, by: str | None = None, *, descending: bool = False
) -> list[int]:
    """Return the numbers of the exchanges that fit: ascending, or in the order of a field, unknown last."""
    if by is None:
        source = exchanges if where is None else JOINED
        statement = select(func.json_group_array(exchanges.c.no)).select_from(source)
        return sorted(_numbers_of(connection, statement if where is None else statement.where(where)))
    key = column(by).desc() if descending else column(by)
    by_key = select(exchanges.c.no).select_from(JOINED).order_by(key.nulls_last(), exchanges.c.no.desc())
    ordered = (by_key if where is None else by_key.where(where)).subquery()
    return _numbers_of(connection, select(func.json_group_array(ordered.c.no)))


def started(connection: Connection, numbers: Collection[int] | None = None) -> tuple[str, str] | None:
    """Return when the first and the last of these exchanges began, of all if there are no numbers; None of none.

    Of very many, only those with the least and the greatest number are looked at: they are nearly always the ones.
    """
    ends = [select(joined(exchanges.c.started_at, end)) for end in ("min", "max")]
    if numbers is not None:
        looked_up = numbers if len(numbers) <= _MOST_STARTED else (min(numbers), max(numbers))
        ends = [end.where(among(looked_up)) for end in ends]
    with connection.begin():  # each on its own: an index gives one end, not both
        first, last = (connection.execute(end).scalar() for end in ends)
    return None if first is None or last is None else (first, last)


def listed(connection: Connection, numbers: Sequence[int], *, in_turns: bool = False) -> list[ListRow]:
    """Return the rows of these exchanges, except those that are gone; running ones are measured until now.

    So are only some of them where they are large or many, above all `in_turns`; the others have their last figures.
    """
    with connection.begin():
        stored = connection.execute(_listed(), {"numbers": [*numbers]}).all()
    list_rows = [row_of(no, last_ns, gaps, values) for no, last_ns, gaps, *values in stored]
    measured = _measured(connection, [row for row in list_rows if is_measurable(row)], in_turns=in_turns)
    return [
        row if (measures := measured.get(row.id)) is None else _with_stalls(filled(row, measures), measures.icl)
        for row in list_rows
    ]


def _measured(connection: Connection, running: Sequence[ListRow], *, in_turns: bool) -> dict[str, Measures]:
    """Measure running exchanges until now, within a limit of bytes; return their figures and the last ones of others.

    Those measured the longest time ago come first. The last one may exceed the limit; of turns, this is taken off the
    next one's.
    """
    last_figures: dict[str, Measures] = connection.info.setdefault(_FIGURES, {})  # in the order of measuring
    measured_order = {id: place for place, id in enumerate(last_figures)}
    room: int = AT_ONCE - connection.info.get(_EXCESS, 0) if in_turns else LARGEST
    for row in sorted(running, key=lambda row: measured_order.get(row.id, -1)):
        if room <= 0:
            break
        room -= row.bytes or 0
        last_figures.pop(row.id, None)
        last_figures[row.id] = figures(connection, row.no)
    if in_turns:
        connection.info[_EXCESS] = max(-room, 0)
    for id in list(last_figures)[:-_MOST_ROWS]:
        del last_figures[id]
    return {row.id: last_figures[row.id] for row in running if row.id in last_figures}


def row_of(no: int, last_ns: int | None, gaps: bytes | None, values: Sequence[object]) -> ListRow:
    """Return a row of the list, with the values of `short_columns`; `gaps` are those of an exchange with a stall."""
    return _with_stalls(ListRow(no=no, last_read_ms=units.ms(last_ns), **rows.exchange(LISTED, values)), gaps)


def _with_stalls(row: ListRow, gaps: bytes | None) -> ListRow:
    """Return a row with its stalls; those of several responses are left out, as no gap is known between responses."""
    if "multi_response" in row.flags:
        return row
    numbers = struct.unpack_from(f"<{len(gaps or b'') // 8}q", gaps or b"")
    first_ns, last_ns, silence_ns = map(units.ns, (row.first_output_ms, row.latency_ms, row.last_silence_ms))
    tools = [(from_ns, to_ns) for from_ns, to_ns in row.tool_spans or ()]
    return replace(row, stalls=[*stalls_among(numbers, first_ns, last_ns, silence_ns, tools)])


def short_columns() -> list[Expression]:
    """Return the columns of the list's rows, with texts cut."""
    return [_short(name).label(name) for name in LISTED]


@functools.cache
def _listed() -> Statement:
    unended = case((exchanges.c.ended_by.is_(None), last_read()))
    is_wide = func.substr(measures.c.icl, 1, 1, type_=LargeBinary) == b"\x08"
    most_bytes = case((is_wide, 1 + 8 * MOST_GAPS), else_=1 + 4 * MOST_GAPS)
    is_few = func.length(measures.c.icl) <= most_bytes
    few_gaps = case((and_(HAS_STALL, is_few), measures.c.icl))
    numbers = select(func.json_each(bindparam("numbers")).table_valued("value").c.value)
    statement = select(exchanges.c.no, unended, few_gaps, *short_columns()).select_from(JOINED)
    return statement.where(exchanges.c.no.in_(numbers))


def change(
    connection: Connection, previous: Change | None, where: Condition | None = None, looked_at: Iterable[int] = ()
) -> Change | None:
    """Return the changes of the tape since a `previous` state (None: there is none); None if nobody has written to it.

    Rows are read of those that are new and of those that are `looked_at`, the newest of them at most.
    """
    with connection.begin():  # one snapshot: later changes are seen the next time
        changes = following.changes(connection, previous.seen) if previous else Changes(following.start(connection))
        if changes is None:
            return None
        seen, new, settled = changes
        total = connection.execute(select(func.count()).select_from(exchanges)).scalar_one()
        running = connection.execute(select(func.count()).where(exchanges.c.ended_by.is_(None))).scalar_one()
        recorder = reading.newest_run(connection)
        changed = sorted(seen.unsettled | settled)
        statement = queries.filtered(select(exchanges.c.no).select_from(JOINED).where(among(changed)), where)
        matches = set(connection.execute(statement).scalars()) if changed else set()
    matching = [no for no in changed if no in matches]
    visible = new.union(looked_at)
    is_other = previous is not None and previous.seen.version[0] != seen.version[0]
    return Change(
        seen,
        total,
        running,
        recorder,
        matching,
        [no for no in changed if no not in matches],
        listed(connection, [no for no in matching if no in visible][-_MOST_ROWS:], in_turns=True),
        deleted=is_other or (previous is not None and total < previous.total + len(new)),
    )


def ended(
    connection: Connection,
    fields: tuple[str, ...],
    where: Condition | None = None,
    *,
    last: int = 10,
    wait: Callable[[], None],
) -> Iterator[list[TableRow]]:
    """Yield the newest `last` that have ended, then, for ever, those that end; each once, in the order of ending.

    Of exchanges that end between two polls the times of their ends decide. `wait` is called before each poll.
    """
    is_measured = measures.c.exchange_no.is_not(None)
    newest = queries.filtered(_ENDS.where(is_measured), where).order_by(exchanges.c.no.desc()).limit(last)
    with connection.begin():  # one snapshot: an exchange that ends later is read later, and only once
        state = following.start(connection)
        numbers = _in_order_of_ending(connection.execute(newest).all())
    yield list(queries.numbered(connection, fields, numbers))
    while True:
        wait()
        with connection.begin():
            changes = following.changes(connection, state)
            if changes is None:
                continue
            ran = changes.settled & (state.unsettled | changes.new)  # others were derived again
            numbers, state = _in_order_of_ending(connection.execute(_ENDS.where(among(ran))).all()), changes.seen
        if batch := list(queries.numbered(connection, fields, numbers, where)):
            yield batch


def _in_order_of_ending(rows: Sequence[Any]) -> list[int]:
    def ended(row: Any) -> tuple[datetime, int]:
        lasted = timedelta(microseconds=(row.end_ns or 0) / 1000)
        return datetime.fromisoformat(row.started_at) + lasted, row.no

    return [row.no for row in sorted(rows, key=ended)]


def values(connection: Connection, field: str) -> list[str]:
    """Return the values of a text field on the tape, the commonest first, except those that a filter cannot name."""
    text = func.substr(cast(column(field), Text), 1, LONGEST)
    statement = select(text).select_from(JOINED).group_by(text).order_by(func.count().desc()).limit(_MOST_VALUES)
    with connection.begin():
        return [value for value in connection.execute(statement).scalars() if value]


def preview(connection: Connection, no: int) -> PreviewRow | None:
    """Return a row of the list, with the process that recorded it, and the ends of its texts; None if it is gone."""
    list_rows = listed(connection, [no])
    if not list_rows:
        return None
    row = list_rows[0]
    tails = [func.substr(column(name), -TAIL, type_=column(name).type) for name in _TAILS]
    sizes = [func.length(column(name)) for name in _TAILS]
    tools = func.substr(cast(column("tool_calls"), Text), 1, TAIL)
    pid = select(sessions.c.pid).where(sessions.c.no == exchanges.c.session_no).scalar_subquery()
    statement = select(pid, tools, *tails, *sizes).select_from(JOINED).where(exchanges.c.no == no)
    with connection.begin():
        stored = connection.execute(statement).one_or_none()
    if stored is None:  # deleted since
        return None
    recorder_pid, calls, *texts_and_sizes = stored
    texts = dict(zip(_TAILS, texts_and_sizes[: len(_TAILS)], strict=True))
    lengths = dict(zip(_TAILS, texts_and_sizes[len(_TAILS) :], strict=True))
    if is_measurable(row):
        so_far = figures(connection, no)
        measured = {name: getattr(so_far, name) for name in _TAILS}
        texts = {name: None if text is None else text[-TAIL:] for name, text in measured.items()}
        lengths = {name: None if text is None else len(text) for name, text in measured.items()}
    return PreviewRow(replace(row, recorder_pid=recorder_pid), texts | {"tool_calls": calls}, lengths)


def without_texts(row: ListRow) -> PreviewRow:
    """Return a row of the list as a preview without texts."""
    return PreviewRow(row, dict.fromkeys((*_TAILS, "tool_calls")), dict.fromkeys(_TAILS))


def is_measurable(row: ListRow) -> bool:
    """Return True if an exchange still runs and is known not to be larger than `LARGEST`."""
    return row.outcome == "open" and row.bytes is not None and row.bytes <= LARGEST


def figures(connection: Connection, no: int) -> Measures:
    """Measure a running exchange until now; of a large compressed one nothing. Raises `NoResultFound`."""
    from wiretape.recorder.decode.derive import derive

    with connection.begin():
        facts, its_reads, body = reading.answer(connection, no)
    if not is_short(facts, body):
        return derive(facts, [], b"")
    if (session := session_named(facts.path)) is not None:
        return _linked(connection, no, RecordedExchange(facts, its_reads, body), session)
    return _measure_once(_hashable_facts(facts), _hashable(its_reads), body)


def _linked(connection: Connection, no: int, answer: RecordedExchange, session: str) -> Measures:
    """Measure a running stream of a hosted session, whose turns began with requests that have ended."""
    from wiretape.recorder.decode import hosted
    from wiretape.recorder.decode.conversation import RecordedRequest
    from wiretape.recorder.decode.derive import derive

    peers = select(exchanges.c.no).select_from(JOINED).where(
        measures.c.conversation_key == session,
        measures.c.conversation_key_from == "session",
        exchanges.c.upstream == answer.exchange.upstream,
        or_(exchanges.c.method == "POST", measures.c.operation == "agent_session"),
    )  # fmt: skip
    with connection.begin():
        numbers = list(connection.execute(peers.order_by(exchanges.c.no)).scalars())
        state = len(answer.body), numbers
        last: dict[int, tuple[object, Measures]] = connection.info.setdefault(_SESSIONS, {})
        if no in last and last[no][0] == state:
            return last[no][1]
        members = [hosted.SessionExchange(str(no), *answer, RecordedRequest([]))]
        for row in reading.rows_with_requests(connection, numbers).values():
            request = RecordedRequest(row.request_headers or [], row.request_body)
            recording = reading.answer(connection, row.no)
            members.append(hosted.SessionExchange(row.id, *recording, request))
    decoded_by_id = hosted.decoded_streams(members)
    measured = derive(*answer, decoded_by_id.get(str(no)))
    last[no] = state, measured
    return measured


def is_short(facts: Exchange, body: bytes) -> bool:
    """Return True if a running exchange's data until now are not too large to be decoded by each poll."""
    if len(body) > LARGEST or encoding.is_identity(facts.content_encoding):
        return len(body) <= LARGEST
    return encoding.plain(facts.content_encoding, body, (len(body),), LARGEST).flag != "decode_limit"


def decoded(facts: Exchange, reads: Reads, body: bytes) -> "Decoded":
    """Decode the data of an exchange until now: once per change, for all lists, previews and panes."""
    return _decode_once(_hashable_facts(facts), _hashable(reads), body)


def _hashable_facts(facts: Exchange) -> Exchange:
    return facts if facts.sent is None else replace(facts, sent=replace(facts.sent, reads=_hashable(facts.sent.reads)))


def _hashable(reads: Reads) -> Reads:
    seq, at_ns, start, size = (tuple(column) for column in (reads.seq, reads.at_ns, reads.start, reads.size))
    return Reads(seq, at_ns, tuple(reads.relayed_ns), start, size)


@functools.lru_cache(8)
def _decode_once(facts: Exchange, reads: Reads, body: bytes) -> "Decoded":
    from wiretape.recorder.decode.decoder import decode

    return decode(facts, reads, body)


@functools.lru_cache(8)
def _measure_once(facts: Exchange, reads: Reads, body: bytes) -> Measures:
    from wiretape.recorder.decode.derive import derive

    return derive(facts, reads, body, _decode_once(facts, reads, body))


def filled(row: R, figures: Measures) -> R:
    """Return a row with those of these figures that it has fields for; a requested model is not replaced."""
    values = rows.exchange(MEASURED, [getattr(figures, stored_name(name)) for name in MEASURED])
    values["model"] = row.model or figures.response_model
    values["flags"] = [flag for flag in figures.flags if flag in _FLAGS]
    changed = {name: value for name, value in values.items() if hasattr(row, name)}
    if isinstance(row, DetailRow):
        changed["derived"] = {name: values.get(name, value) for name, value in row.derived.items()}
    return replace(row, **changed)


def entries(connection: Connection, numbers: Sequence[int]) -> "list[RankedExchange]":
    """Return these exchanges as a table of several shows them, except those that are gone."""
    return [entry for no in numbers if (entry := _entry(connection, no)) is not None]


def _entry(connection: Connection, no: int) -> "RankedExchange | None":
    from wiretape.viewer.listing.ranking import RankedExchange

    list_rows = listed(connection, [no])
    if not list_rows:
        return None
    with connection.begin():
        gaps: bytes | None = connection.execute(select(measures.c.icl).where(measures.c.exchange_no == no)).scalar()
        run = reading.run_of(connection, no)
    if is_measurable(list_rows[0]):
        gaps = figures(connection, no).icl
    return RankedExchange(no, list_rows[0], run, gaps or b"")


def _numbers_of(connection: Connection, statement: Any) -> list[int]:
    # One row for all: a row for each of a hundred thousand costs ten times as much.
    with connection.begin():
        return msgspec.json.decode(connection.execute(statement).scalar_one(), type=list[int])


def _short(name: str) -> Expression:
    whole = column(name)
    return func.substr(whole, 1, LONGEST, type_=whole.type) if whole.type.python_type is str else whole
