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
"""Maximum number of exchanges of a tape whose places in sessions a process that follows it keeps in memory."""
_REQUEST: Final = func.coalesce(
    measures.c.messages_hash, exchanges.c.path + literal(" ") + exchanges.c.request_sha256, type_=Text
)


def find(connection: Connection, reference: str) -> str:
    """Resolve a reference to a session's key. Raises `NotFound` if there is none, or more than one."""
    newest, key = func.max(exchanges.c.no).desc(), reference.removeprefix(SESSION)
    named = select(_NAME).select_from(JOINED).where(_NAME.is_not(None)).group_by(_NAME)
    if reference == NEWEST_SESSION:
        statement = named.order_by(newest).limit(1)
    else:
        statement = named.where(func.substr(_NAME, 1, len(key)) == key)
        statement = statement.order_by(func.length(_NAME) > len(key), newest).limit(_CANDIDATES + 1)
    with connection.begin():
        found: Sequence[str] = connection.execute(statement).scalars().all()
        if not found and reference != NEWEST_SESSION:  # a whole key whose hash is the name, or the reverse
            marked = key_marks(connection)
            found = [name for name in connection.execute(named).scalars() if marked(name) == marked(key)]
    if not found:
        raise NotFound(f"no session {safe(reference)}: 'wiretape ls --by conversation' lists them")
    if len(found) > 1 and found[0] != key:
        more = " and more" if len(found) > _CANDIDATES else ""
        fitting = ", ".join(safe(name) for name in found[:_CANDIDATES])
        raise NotFound(f"{safe(reference)} fits several sessions: {fitting}{more}: give more of the key")
    return found[0]


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
    found = conversations.listed(connection, where, limit, seeds)
    names = None if limit is None else [row.conversation for row in found]
    known = {name: account_of(its, limits) for name, its in members(connection, limits, clock, where, names, seeds)}
    return [_fields_of(row) | known.get(row.conversation, _NOTHING).row() for row in found]


def _fields_of(row: ConversationRow) -> TableRow:
    return {name: getattr(row, name) for name in _OF_CONVERSATION}


def accounts(
    connection: Connection,
    limits: Thresholds,
    clock: Clock,
    where: Condition | None = None,
    names: Collection[str] | None = None,
) -> Iterator[tuple[str, Account]]:
    """Yield the key of each session with exchanges that fit, and the account of these; or of those of these `names`."""
    for name, found in members(connection, limits, clock, where, names):
        yield name, account_of(found, limits)


def verdicts(connection: Connection, where: Condition | None, names: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the verdicts about the provider's cache in each of these sessions, counted, the most frequent first."""
    verdict, count = column("cache_verdict"), func.count()
    statement = queries.filtered(select(_NAME, verdict, count).select_from(JOINED), where)
    statement = statement.where(_named(names), verdict.is_not(None)).group_by(_NAME, verdict).order_by(count.desc())
    found: dict[str, dict[str, int]] = {}
    with connection.begin():
        for name, word, counted in connection.execute(statement):
            found.setdefault(name, {})[word] = counted
    return found


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
        found = connection.fetch(conversations.only(statement, seeds))
    for row in found:
        if (name := row[-1]) is not None:
            groups.setdefault(name, []).append(SessionExchange._make(row[:-1]))
    remaining = iter(groups.items())
    while some := dict(islice(remaining, _TOGETHER)):
        for name, its in _tied(connection, some):
            yield name, [one if one.outcome != "open" else _until_now(connection, one, clock) for one in its]


def before(
    connection: Connection, numbers: Sequence[int], clock: Clock = SYSTEM, most: int = MOST_PLACED
) -> dict[int, tuple[str, int]]:
    """Return the part before each of some exchanges in which none of its session was open, and its length in ns.

    Exchanges without such a time are left out. It is unknown in a session with an exchange that has ended and is not
    measured, and on a tape with more than `most` exchanges.
    """
    named = select(_NAME).distinct().select_from(JOINED).where(among(numbers), _NAME.is_not(None))
    with connection.begin():
        if connection.execute(select(func.count()).select_from(exchanges)).scalar_one() > most:
            return {}
        names = connection.execute(named).scalars().all()
    found: dict[int, tuple[str, int]] = {}
    for _, its in members(connection, DEFAULT, clock, names=names):
        if all(one.outcome is not None for one in its):
            found |= before_each(its)
    return {no: found[no] for no in numbers if no in found}


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
    branched = {name for name, its in groups.items() if not _is_dialogue(its)}
    found = caching.tied(connection, {one.no: name for name in branched for one in groups[name]}) if branched else {}
    known = {no: tie.predecessor for no, tie in found.items() if tie.is_known}
    for name, its in groups.items():
        yield name, [one._replace(continued=known[one.no]) if one.no in known else one for one in its]


def _is_dialogue(its: Sequence[SessionExchange]) -> bool:
    told = [one.continued for one in its if is_covered(one.operation)]
    return None not in told[1:] and len(set(told)) == len(told)


def _until_now(connection: Connection, one: SessionExchange, clock: Clock) -> SessionExchange:
    """Return an open exchange as measured until now; if its recorder does not run any more, until its last read."""
    try:
        found = live.figures(connection, one.no)
        with connection.begin():
            run = reading.run_of(connection, one.no)
            last_ns = connection.execute(select(last_read()).where(exchanges.c.no == one.no)).scalar_one()
    except NoResultFound:  # it was deleted meanwhile
        return one
    end_ns = max(last_ns or 0, found.latency_ns or 0)
    began_ns = wall_ns(one.started_at)
    if run.state(clock.wall_ns()) != "running" or began_ns is None:
        pass
    elif one.boot_ns is not None and one.boot == boot_id():
        end_ns = max(end_ns, clock.boot_ns() - one.boot_ns)
    else:
        end_ns = max(end_ns, clock.wall_ns() - began_ns)
    return one._replace(
        outcome="open",
        operation=found.operation,
        ttft_ns=found.ttft_ns,
        latency_ns=found.latency_ns,
        duration_ns=end_ns,
        end_ns=end_ns,
        gaps=found.icl,
        turn_spans=found.turn_spans,
        calls_tool=bool(found.tool_calls),
    )
