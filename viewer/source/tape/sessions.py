"""The sessions of a tape: the time account of each, and the references that name them.

A session is a conversation, as `wiretape.viewer.listing.conversations` groups exchanges. One statement reads the facts
of all exchanges; of running ones, the data until now is measured.
"""

import dataclasses
import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from wiretape.recorder.clock import SYSTEM, Clock, wall_ns
from wiretape.recorder.decode.exchange import NOT_SHIPPED
from wiretape.recorder.decode.operation import is_covered
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.recorder.errors import NoResultFound, NotFound
from wiretape.recorder.process import boot_id
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Select, Text, case, func, literal, null, or_, select, type_coerce
from wiretape.recorder.tape.tables import exchanges, measures, sessions
from wiretape.viewer.record.rows import ConversationRow, TableRow
from wiretape.viewer.sessions.account import Account
from wiretape.viewer.sessions.exchanges import SessionExchange, account_of, before_each
from wiretape.viewer.source.base import NEWEST_SESSION, SESSION
from wiretape.viewer.source.tape import caching, conversations, live, queries
from wiretape.viewer.source.tape.columns import (
    BOOT,
    CONTINUED_NUMBER,
    JOINED,
    among,
    column,
    flagged,
    last_read,
    resolved,
    stalled_gaps,
)
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.functions import key_marks

_NAME: Final = column("conversation")
_NOTHING: Final = Account()
_OF_CONVERSATION: Final = [field.name for field in dataclasses.fields(ConversationRow)]
_CANDIDATES: Final = 5
_TOGETHER: Final = 100
"""Sessions whose prompts are read together."""
MOST_PLACED: Final = 50_000
"""Maximum number of exchanges of a tape whose places in sessions a process that follows it keeps in memory.

They cost it 64 MB, and 24 ms a batch.
"""
_REQUEST: Final = func.coalesce(
    measures.c.messages_hash, exchanges.c.path + literal(" ") + exchanges.c.request_sha256, type_=Text
)


def find(connection: Connection, reference: str) -> str:
    """Resolve a reference to a session's key. Raises `NotFound` if there is none, or more than one."""
    newest, key = func.max(exchanges.c.no).desc(), reference.removeprefix(SESSION)
    names_of_all = select(_NAME).select_from(JOINED).where(_NAME.is_not(None)).group_by(_NAME)
    if reference == NEWEST_SESSION:
        statement = names_of_all.where(exchanges.c.resent_from.is_(None)).order_by(newest).limit(1)
    else:
        statement = names_of_all.where(func.substr(_NAME, 1, len(key)) == key)
        statement = statement.order_by(func.length(_NAME) > len(key), newest).limit(_CANDIDATES + 1)
    with connection.begin():
        names: Sequence[str] = connection.execute(statement).scalars().all()
        if not names and reference != NEWEST_SESSION:  # a whole key whose hash is the name, or the reverse
            mark = key_marks(connection)
            names = [name for name in connection.execute(names_of_all).scalars() if mark(name) == mark(key)]
    if not names:
        raise NotFound(f"no session {safe(reference)}: 'wiretape ls --by conversation' lists them")
    if len(names) > 1 and names[0] != key:
        more = " and more" if len(names) > _CANDIDATES else ""
        candidates = ", ".join(safe(name) for name in names[:_CANDIDATES])
        raise NotFound(f"{safe(reference)} fits several sessions: {candidates}{more}: give more of the key")
    return names[0]


def numbers(connection: Connection, name: str) -> list[int]:
    """Return the numbers of a session's exchanges, the oldest first."""
    statement = select(exchanges.c.no).select_from(JOINED).where(literal(name) == _NAME).order_by(exchanges.c.no)
    with connection.begin():
        return list(connection.execute(statement).scalars())


def listed(
    connection: Connection,
    limits: Thresholds = DEFAULT,
    clock: Clock = SYSTEM,
    where: Condition | None = None,
    limit: int | None = None,
) -> list[TableRow]:
    """Return the `CONVERSATION_FIELDS` of the conversations of exchanges that fit: the one with the newest first.

    Raises `ConfigError`.
    """
    seeds = conversations.newest(connection, where, limit)
    conversation_rows = conversations.listed(connection, where, limit, seeds)
    names = None if limit is None else [row.conversation for row in conversation_rows]
    sessions = members(connection, limits, clock, where, names, seeds)
    account_by_name = {name: account_of(session, limits) for name, session in sessions}
    return [
        {name: getattr(row, name) for name in _OF_CONVERSATION} | account_by_name.get(row.conversation, _NOTHING).row()
        for row in conversation_rows
    ]


def accounts(
    connection: Connection,
    limits: Thresholds,
    clock: Clock,
    where: Condition | None = None,
    names: Collection[str] | None = None,
) -> Iterator[tuple[str, Account]]:
    """Yield the key of each session with exchanges that fit, and the account of these; or of those of these `names`."""
    for name, session_exchanges in members(connection, limits, clock, where, names):
        yield name, account_of(session_exchanges, limits)


def verdicts(connection: Connection, where: Condition | None, names: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the verdicts about the provider's cache in each of these sessions, counted, the most frequent first."""
    verdict, count = column("cache_verdict"), func.count()
    statement = queries.filtered(select(_NAME, verdict, count).select_from(JOINED), where)
    statement = statement.where(_named(names), verdict.is_not(None)).group_by(_NAME, verdict).order_by(count.desc())
    counts_by_name: dict[str, dict[str, int]] = {}
    with connection.begin():
        for name, word, verdict_count in connection.execute(statement):
            counts_by_name.setdefault(name, {})[word] = verdict_count
    return counts_by_name


def _named(names: Collection[str]) -> Condition:
    """Return the condition for exchanges of these sessions."""
    return _NAME.in_(select(func.json_each(json.dumps(list(names))).table_valued("value").c.value))


def members(
    connection: Connection,
    limits: Thresholds,
    clock: Clock,
    where: Condition | None = None,
    names: Collection[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> Iterator[tuple[str, list[SessionExchange]]]:
    """Yield the key of each session with exchanges that fit, or of those of these `names`, and these exchanges.

    They come in the order of their numbers. `seeds` are the result of `conversations.newest`, by which the names are.
    """
    statement = queries.filtered(_members(limits.stall_ns), where).order_by(exchanges.c.no)
    if names is not None:
        statement = statement.where(_named(names))
    groups: dict[str, list[SessionExchange]] = {}
    with connection.begin():
        rows = connection.fetch(conversations.only(statement, seeds))
    for row in rows:
        if (name := row[-1]) is not None:
            groups.setdefault(name, []).append(SessionExchange._make(row[:-1]))
    remaining = iter(groups.items())
    while batch := dict(islice(remaining, _TOGETHER)):
        for name, session in _tied(connection, batch):
            yield name, [_until_now(connection, each, clock) if each.outcome == "open" else each for each in session]


def before(
    connection: Connection, numbers: Sequence[int], clock: Clock = SYSTEM, most: int = MOST_PLACED
) -> dict[int, tuple[str, int]]:
    """Return the part before each of some exchanges in which none of its session was open, and its length in ns.

    Exchanges without such a time are left out. It is unknown in a session with an exchange that has ended and is not
    measured, and on a tape with more than `most` exchanges.
    """
    statement = select(_NAME).distinct().select_from(JOINED).where(among(numbers), _NAME.is_not(None))
    with connection.begin():
        if connection.execute(select(func.count()).select_from(exchanges)).scalar_one() > most:
            return {}
        names = connection.execute(statement).scalars().all()
    time_before: dict[int, tuple[str, int]] = {}
    for _, session_exchanges in members(connection, DEFAULT, clock, names=names):
        if all(exchange.outcome is not None for exchange in session_exchanges):
            time_before |= before_each(session_exchanges)
    return {no: time_before[no] for no in numbers if no in time_before}


@functools.cache
def _members(stall_ns: int) -> Select:
    """Return the statement for the columns of a `SessionExchange`, and the key of its session."""
    outcome = case((exchanges.c.ended_by.is_(None), "open"), else_=measures.c.outcome)
    times = (measures.c[name] for name in ("ttft_ns", "latency_ns", "duration_ns"))
    called = measures.c.tool_calls.is_not(None)
    calls_tool = case((called, literal(1)), (flagged(NOT_SHIPPED), null()), else_=literal(0))
    follows = or_(measures.c.continues_hash.is_not(None), measures.c.previous_response_id.is_not(None))
    wall = type_coerce(exchanges.c.started_at, Text)  # checked where it is parsed: nearly always the boot clock does
    columns = (
        exchanges.c.no, resolved(CONTINUED_NUMBER), wall, BOOT, exchanges.c.boot_ns, exchanges.c.clock,
        outcome, measures.c.operation, *times, exchanges.c.end_ns, stalled_gaps(stall_ns), measures.c.turn_spans,
        calls_tool, measures.c.answers_tools, follows, _REQUEST, measures.c.last_silence_ns, measures.c.tool_spans,
        flagged("given_up"), _NAME,
    )  # fmt: skip
    return select(*columns).select_from(JOINED.join(sessions, sessions.c.no == exchanges.c.session_no))


def _tied(
    connection: Connection, groups: Mapping[str, list[SessionExchange]]
) -> Iterator[tuple[str, list[SessionExchange]]]:
    """Yield sessions with the predecessors of their exchanges.

    In a plain dialogue, where each turn continues another one, the hashes of the messages tell them. Branches,
    repetitions and edited histories need the messages of all requests.
    """
    branched = {name: session for name, session in groups.items() if not _is_dialogue(session)}
    names_by_no = {exchange.no: name for name, session in branched.items() for exchange in session}
    tie_by_no = caching.tied(connection, names_by_no) if names_by_no else {}
    predecessor_by_no = {no: tie.predecessor for no, tie in tie_by_no.items() if tie.is_known}
    for name, session in groups.items():
        if name in branched:
            session = [each._replace(continued=predecessor_by_no.get(each.no, each.continued)) for each in session]
        yield name, session


def _is_dialogue(session: Sequence[SessionExchange]) -> bool:
    continued = [exchange.continued for exchange in session if is_covered(exchange.operation)]
    return None not in continued[1:] and len(set(continued)) == len(continued)


def _until_now(connection: Connection, exchange: SessionExchange, clock: Clock) -> SessionExchange:
    """Return an open exchange as measured until now; if its recorder does not run any more, until its last read."""
    try:
        measures = live.figures(connection, exchange.no)
        with connection.begin():
            run = reading.run_of(connection, exchange.no)
            last_ns = connection.execute(select(last_read()).where(exchanges.c.no == exchange.no)).scalar_one()
    except NoResultFound:  # it was deleted meanwhile
        return exchange
    end_ns = max(last_ns or 0, measures.latency_ns or 0)
    began_ns = wall_ns(exchange.started_at)
    if run.state(clock.wall_ns()) != "running" or began_ns is None:
        pass
    elif exchange.boot_ns is not None and exchange.boot == boot_id():
        end_ns = max(end_ns, clock.boot_ns() - exchange.boot_ns)
    else:
        end_ns = max(end_ns, clock.wall_ns() - began_ns)
    return exchange._replace(
        outcome="open",
        operation=measures.operation,
        ttft_ns=measures.ttft_ns,
        latency_ns=measures.latency_ns,
        duration_ns=end_ns,
        end_ns=end_ns,
        gaps=measures.icl,
        turn_spans=measures.turn_spans,
        calls_tool=bool(measures.tool_calls),
    )
