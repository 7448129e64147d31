"""Settling: finished exchanges → measures, and bodies that are packed.

The rules:

- Facts come first. An exchange is settled in a transaction of its own, after the one that holds its end: no decoding
  stands in the way of facts, and a decoder's bug costs none. The next writer settles the exchanges that one has left
  (`Settling.unsettled`).
- Three steps: `take` the facts, from memory or the tape; `settle` them, which is pure, can take long, and so runs in a
  thread of its own; `put` bodies and measures, which replaces the segments of the open exchange.
- An exchange that began and ended in one batch is packed when it is appended: it has no segments to replace.
- Each settled exchange gets the next number of `settlements` in the transaction that stores its measures. Numbers only
  increase, so that a program that follows a tape continues after the last number that it has seen.
- A value that SQLite refuses costs the measures of its exchange, and those of no other.
"""

import dataclasses
import hashlib
import sqlite3
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import JSON, Connection, select

from wiretape.recorder.clock import Clock, wall_ns
from wiretape.recorder.decode import hosted
from wiretape.recorder.decode.agent_turns import thread_at
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.decode.sessions import creates_session, session_id, session_named
from wiretape.recorder.errors import DAMAGED, sqlite_code
from wiretape.recorder.tape import faults, journal, packing, reading
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.file import compact_json, driver_of, reader_of
from wiretape.recorder.tape.packing import Array
from wiretape.recorder.tape.progress import Facts, FactsInMemory
from wiretape.recorder.tape.reader import Connection as Reader
from wiretape.recorder.tape.redact import Redactor
from wiretape.recorder.tape.schema import (
    FROM_CLIENT,
    FROM_UPSTREAM,
    STREAMS,
    Stream,
    exchanges,
    measures,
    settlements,
)

MEASURES: Final = ", ".join(measures.c.keys())
_JSON_MEASURES: Final = [position for position, column in enumerate(measures.c) if isinstance(declared(column), JSON)]
_FLAGS, *_ARRAYS = map(measures.c.keys().index, ("flags", "icl", "silences", "ping_gaps"))
_SHARED_FIELDS: Final = [name for name in journal.Finished.__struct_fields__ if name in measures.c]
_figures_of = attrgetter(*_SHARED_FIELDS)
_values_of = attrgetter(*measures.c.keys()[1:])
_INSERT_MEASURES: Final = f"INSERT OR REPLACE INTO measures ({MEASURES}) VALUES ({', '.join('?' * len(measures.c))})"
INSERT_BODY: Final = {
    table: f"INSERT INTO {table.name} ({', '.join(table.c.keys())}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    for table in (stream.bodies for stream in STREAMS)
}
_WITHOUT_SALT: Final = Redactor(None)


@dataclasses.dataclass(frozen=True, slots=True)
class Unsettled:
    """An ended exchange as it stands on the tape.

    `is_settled`: it was settled before, and is only shown again; `is_packed`: its bodies are stored packed. `session`
    are the other exchanges of its hosted session, if the turns of that are to be linked anew.
    """

    no: int
    id: str
    exchange: Exchange
    reads: Reads
    body: bytes
    request: RecordedRequest
    is_settled: bool
    is_packed: bool
    session: tuple["Unsettled", ...] | None = None

    @classmethod
    def of(cls, no: int, facts: Facts, dialects: str | None) -> "Unsettled":
        """Return the exchange as it would be read from the tape, with the JSON of the dialects declared for it."""
        body = facts.request.body
        row = SimpleNamespace(**facts.row)
        row.request_headers, row.response_headers = facts.request.headers, facts.response_headers
        row.response_trailers = facts.response_trailers
        row.request_stored, row.dialects = len(body or b""), dialects
        row.request_needed = body if reading.needs_request(row.path, row.request_stored, row.status) else None
        exchange, received = reading.exchange_of(row), facts.received()
        return cls(no, row.id, exchange, *received, facts.request, is_settled=False, is_packed=facts.is_packed)

    @property
    def size(self) -> int:
        """Bytes of both directions."""
        return len(self.body) + (len(self.exchange.sent.data) if self.exchange.sent else 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """Ended exchanges read from the tape together, by number; `received` holds the bodies of those not settled yet."""

    reader: Reader
    rows: Mapping[int, Any]
    reads: Mapping[int, Reads]
    received: Mapping[int, bytes]

    @classmethod
    def of(cls, connection: Connection, numbers: Sequence[int]) -> "Stored":
        """Read exchanges together: one at a time would take a query for each of its parts."""
        if not numbers:
            return cls(reader_of(connection), {}, {}, {})
        reader = reader_of(connection)
        rows = reading.rows_with_requests(reader, numbers)
        packed = [row.no for row in rows.values() if row.is_packed and not row.is_settled]
        received = reading.unpacked_bodies(reader, numbers) | reading.packed_bodies(reader, packed)
        return cls(reader, rows, reading.reads_of_all(reader, numbers), received)

    def unsettled(self, no: int) -> Unsettled:
        """Return one exchange; the body of a settled one and the client's side of a WebSocket are read only now."""
        row = self.rows[no]
        exchange = reading.facts_of(self.reader, row)
        body = reading.readable_body(self.reader, no) if row.is_settled else self.received.get(no, b"")
        request = RecordedRequest(row.request_headers or [], row.request_body)
        reads = self.reads.get(no, reading.NO_READS)
        return Unsettled(no, row.id, exchange, reads, body, request, row.is_settled, row.is_packed)


class BodyRow(NamedTuple):
    """A row of `bodies`, without its key."""

    size: int
    sha256: str
    at_ns: Array
    relayed_ns: Array
    sizes: Array
    data: bytes

    @classmethod
    def of(cls, reads: Reads, data: bytes) -> "BodyRow":
        """Pack reads and their bytes."""
        packed = packing.pack(reads) if reads or not data else packing.untimed(len(data))
        # For a body that fits a window of 4 KiB, the usual memory takes five times as long to clear.
        window, memory = (12, 4) if len(data) <= 1 << 12 else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
        # Chunks are so repetitive that a level above 3 takes three times as long for the same size.
        compressor = zlib.compressobj(3, zlib.DEFLATED, window, memory)
        packed_data = compressor.compress(data) + compressor.flush()
        return cls(len(data), hashlib.sha256(data).hexdigest(), *packed[2:], packed_data)


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """The rows of a finished exchange: its packed reads and bytes of each direction that is not stored packed yet.

    `measures` are None if a bug prevented them; `linked` are those of the other streams of its session, by number.
    """

    facts: Unsettled
    bodies: dict[Stream, BodyRow]
    measures: Measures | None
    linked: dict[int, Measures] = dataclasses.field(default_factory=dict)


def settle(facts: Unsettled) -> Settled:
    """Derive measures and pack the body: pure, and the one thing in a writer that can take long."""
    packed = dict[Stream, BodyRow]()
    if not facts.is_packed:
        packed[FROM_UPSTREAM] = BodyRow.of(facts.reads, facts.body)
        if (sent := facts.exchange.sent) is not None:
            packed[FROM_CLIENT] = BodyRow.of(sent.reads, sent.data)
    streams = linked_streams(facts)
    others = {each.no: derived(each, streams[each.id]) for each in facts.session or () if each.id in streams}
    linked = {no: measures for no, measures in others.items() if measures is not None}
    return Settled(facts, packed, derived(facts, streams.get(facts.id)), linked)


def linked_streams(facts: Unsettled) -> dict[str, Decoded]:
    """Return the streams of an exchange's hosted session, decoded and linked, by the ids of their exchanges."""
    if facts.session is None:
        return {}
    members = sorted([facts, *facts.session], key=attrgetter("no"))
    try:
        return hosted.decoded_streams(
            [hosted.SessionExchange(each.id, each.exchange, each.reads, each.body, each.request) for each in members]
        )
    except Exception as error:  # noqa: BLE001 - a decoder's bug must not cost the facts: they are derived again
        faults.report(error)
        return {}


def derived(facts: Unsettled, decoded: Decoded | None = None) -> Measures | None:
    """Return the measures without credentials: an API may repeat the key that it refuses in its error."""
    try:
        measured = derive(facts.exchange, facts.reads, facts.body, decoded, facts.request)
    except Exception as error:  # noqa: BLE001 - a decoder's bug must not cost the facts: they are derived again
        faults.report(error)
        return None
    has_turn_error = any("error_code" in turn for turn in measured.turns or ())
    if measured.error_code is None and measured.error_message is None and not has_turn_error:
        return measured
    code, message = (text and _WITHOUT_SALT.text(text) for text in (measured.error_code, measured.error_message))
    turns = measured.turns and [
        turn | {"error_code": _WITHOUT_SALT.text(turn["error_code"])} if "error_code" in turn else turn
        for turn in measured.turns
    ]
    return dataclasses.replace(measured, error_code=code, error_message=message, turns=turns)


# The `+` keeps SQLite from the index of the key, by which it would read a whole session to find a few numbers.
_MEMBERS: Final = """SELECT e.no, e.id, e.path, e.started_at, e.end_ns, m.operation = 'agent_session',
    m.outcome = 'complete' AND m.finish_reason IS NOT NULL, m.turns, m.input_tokens IS NULL, e.method = 'GET'
    FROM exchanges AS e JOIN measures AS m ON m.exchange_no = e.no
    WHERE e.upstream = ? AND +m.conversation_key = ? AND m.conversation_key_from = 'session'
    AND (e.method = 'POST' OR m.operation = 'agent_session'
        OR e.path LIKE '%/events%' OR e.path LIKE '%/items%' OR e.path LIKE '%/turns%')
    AND m.exchange_no IN (SELECT value FROM json_each(?))"""
_MOST_SESSIONS: Final = 16
"""Limit of the hosted sessions whose exchanges are remembered."""
_MOST_CHANGES: Final = 1000
"""Limit of the settlements behind which a session is read anew: most of them may belong to other sessions."""


def _member(
    no: int,
    id: str,
    path: str,
    started_at: str,
    end_ns: int | None,
    is_stream: bool,
    is_whole: bool,
    turns: str | None,
    lacks: bool,
    is_get: bool,
) -> hosted.SessionMember:
    """Return an exchange of a session from its row."""
    start_ns = wall_ns(started_at) or 0
    ids = (f"{turn.get('begun_by_id')} {turn.get('steered_by')}" for turn in msgspec.json.decode(turns or "[]"))
    times = start_ns, start_ns + (end_ns or 0)
    taken = frozenset(" ".join(ids).split())
    is_list = is_get and not is_stream
    return hosted.SessionMember(no, id, *times, is_stream, is_whole, taken, thread_at(path), lacks, is_list)


def _member_of(facts: Unsettled) -> hosted.SessionMember:
    exchange = facts.exchange
    times, is_stream = (exchange.started_at, exchange.end_ns), hosted.is_stream(exchange)
    is_get = exchange.method == "GET"
    return _member(facts.no, facts.id, exchange.path, *times, is_stream, False, None, True, is_get)


def _session_key(facts: Unsettled) -> str | None:
    """Return the id of an exchange's hosted session, as its conversation; None if it is of none."""
    exchange = facts.exchange
    if "/sessions" not in exchange.path:  # as of nearly all
        return None
    name = session_named(exchange.path)
    if name is None and creates_session(exchange.path):
        name = session_id(exchange, decode(exchange, facts.reads, facts.body))
    return name


class SessionMembers:
    """The settled exchanges of hosted sessions, by number, as of the last settlement seen.

    They are remembered: a session has thousands, and each that settles asks for all.
    """

    def __init__(self, connection: Connection) -> None:
        self._driver = driver_of(connection)
        self._sessions: dict[tuple[str, str], tuple[int, dict[int, hosted.SessionMember]]] = {}
        """The last settlement and the members, by upstream and id; the session asked for last is the last."""

    def of(self, upstream: str, key: str) -> Mapping[int, hosted.SessionMember]:
        """Return the settled exchanges of a session, within a transaction."""
        (version,) = self._driver.execute("SELECT coalesce(max(version), 0) FROM settlements").fetchone()
        members: dict[int, hosted.SessionMember]
        seen, members = self._sessions.pop((upstream, key), (version + 1, {}))
        statement = "SELECT exchange_no FROM settlements WHERE version > ? LIMIT ?"
        changed = self._driver.execute(statement, (seen, _MOST_CHANGES)).fetchall()
        if seen > version or len(changed) == _MOST_CHANGES:
            members = {}
            statement = "SELECT exchange_no FROM measures WHERE conversation_key = ?"
            changed = self._driver.execute(statement, (key,)).fetchall()
        numbers = [no for (no,) in changed]
        for no in numbers:  # an exchange that is derived again may leave the session
            members.pop(no, None)
        if numbers:
            parameters = upstream, key, msgspec.json.encode(numbers).decode()
            members |= {row[0]: _member(*row) for row in self._driver.execute(_MEMBERS, parameters)}
        self._sessions[upstream, key] = version, members
        if len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return members


class Settling:
    """Settles exchanges of one tape; the facts of those in `memory` are not read back."""

    def __init__(self, connection: Connection, clock: Clock, memory: FactsInMemory) -> None:
        self._connection, self._clock, self._memory = connection, clock, memory
        self._driver = driver_of(connection)
        self._members = SessionMembers(connection)
        self._dialects: dict[int, str | None] = {}
        """The JSON of the dialects declared for sessions, by the numbers of these."""

    def unsettled(self) -> list[int]:
        """Return the ended exchanges that no writer has settled yet."""
        statement = select(exchanges.c.no).outerjoin(settlements).order_by(exchanges.c.no)
        statement = statement.where(exchanges.c.ended_by.is_not(None), settlements.c.exchange_no.is_(None))
        with self._connection.begin():
            return list(self._connection.execute(statement).scalars())

    def take(self, numbers: deque[int], most: int, most_bytes: int) -> list[Unsettled]:
        """Remove exchanges from the queue's front and read their facts for settling: at least one, within limits.

        An exchange may be in the queue twice: a relay that has lost its connection to the writer sends its end again.
        """
        unsettled: list[Unsettled] = []
        settling = set[int]()
        size = 0
        with self._connection.begin():
            not_in_memory = [no for no in islice(numbers, most) if no not in self._memory.finished]
            from_tape = Stored.of(self._connection, self._within(not_in_memory, most_bytes))
            while numbers and (not unsettled or (len(unsettled) < most and size < most_bytes)):
                if (no := numbers.popleft()) in settling:
                    continue
                settling.add(no)
                if (facts := self._memory.take(no)) is not None:
                    unsettled.append(Unsettled.of(no, facts, self._dialects_of(facts.row["session_no"])))
                else:
                    if no not in from_tape.rows:
                        from_tape = Stored.of(self._connection, [no])
                    unsettled.append(from_tape.unsettled(no))
                size += unsettled[-1].size
            return [self.with_session(facts, unsettled) for facts in unsettled]

    def with_session(self, facts: Unsettled, others: Sequence[Unsettled] = ()) -> Unsettled:
        """Return an exchange with those of its hosted session whose turns it may change.

        A stream may; so may a request if a stream that went on after it has settled before, and a list if a stream
        lacks texts or tokens. `others` are settled at the same time.
        """
        key = _session_key(facts)
        if key is None or (facts.exchange.method != "POST" and not hosted.has_turns(facts.exchange)):
            return facts
        peers = {each.no: each for each in others if each is not facts and _session_key(each) == key}
        settled = self._members.of(facts.exchange.upstream, key)
        members = [settled[no] for no in sorted(settled.keys() - peers.keys() - {facts.no})]
        members += [_member_of(each) for each in peers.values()]
        numbers = hosted.related(_member_of(facts), members)
        if not numbers and not hosted.is_stream(facts.exchange):
            return facts
        stored = Stored.of(self._connection, [no for no in numbers if no not in peers])
        session = (peers.get(no) or stored.unsettled(no) for no in numbers if no in peers or no in stored.rows)
        return dataclasses.replace(facts, session=tuple(session))

    def _within(self, numbers: Sequence[int], most_bytes: int) -> Sequence[int]:
        """Return the first exchanges, at least one, up to the one whose stored bytes reach a limit."""
        statement = """SELECT exchange_no, sum(length(data)) FROM segments
            WHERE exchange_no IN (SELECT value FROM json_each(?1)) GROUP BY exchange_no
            UNION ALL SELECT exchange_no, size FROM bodies WHERE exchange_no IN (SELECT value FROM json_each(?1))"""
        parameters = (msgspec.json.encode(numbers).decode(),)
        sizes = dict(self._driver.execute(statement, parameters).fetchall()) if numbers else {}
        positions = accumulate((sizes.get(no) or 0 for no in numbers), initial=0)
        return [no for no, position in zip(numbers, positions, strict=False) if position < most_bytes] or numbers[:1]

    def _dialects_of(self, session_no: int) -> str | None:
        """Return the JSON of the dialects declared for a session."""
        if session_no not in self._dialects:
            row = self._driver.execute("SELECT dialects FROM sessions WHERE no = ?", (session_no,)).fetchone()
            self._dialects[session_no] = row and row[0]
        return self._dialects[session_no]

    def put(self, settled: Sequence[Settled]) -> list[journal.Finished]:
        """Store bodies and measures, in one transaction; return the summaries of the exchanges."""
        new = [exchange for exchange in settled if not exchange.facts.is_settled]
        with self._connection.begin():
            for stream in STREAMS:
                rows = [(exchange.facts.no, *exchange.bodies[stream]) for exchange in new if stream in exchange.bodies]
                if rows:
                    self._driver.executemany(INSERT_BODY[stream.bodies], rows)
                    statement = f"DELETE FROM {stream.segments.name} WHERE exchange_no = ?"
                    self._driver.executemany(statement, [row[:1] for row in rows])
            measured = [(exchange.facts.no, exchange.measures) for exchange in new if exchange.measures is not None]
            refused = self.put_measures(measured)
            linked = {no: measures for exchange in settled for no, measures in exchange.linked.items()}
            changed = [(no, measures) for no, measures in linked.items() if self.is_changed(no, measures)]
            refused |= self.put_measures(changed)
            self.number([*(exchange.facts.no for exchange in new), *(no for no, _ in changed)])
        return [
            _summary(exchange.facts, None if exchange.facts.no in refused else exchange.measures)
            for exchange in settled
        ]

    def is_changed(self, no: int, measured: Measures) -> bool:
        """Return True if other measures of a settled exchange are stored than these."""
        row = self._driver.execute(f"SELECT {MEASURES} FROM measures WHERE exchange_no = ?", (no,)).fetchone()
        return bool(row != measures_row(no, measured))

    def put_measures(self, measured: Sequence[tuple[int, Measures]]) -> set[int]:
        """Store measures of exchanges, in place of any before; return the numbers of those that are refused."""
        refused = set[int]()
        try:
            self._driver.executemany(_INSERT_MEASURES, [measures_row(no, values) for no, values in measured])
        except Exception as error:  # a value that SQLite refuses must not cost the facts, nor others
            if isinstance(error, sqlite3.OperationalError) or sqlite_code(error) in DAMAGED:
                raise
            if len(measured) == 1:
                faults.report(error)
                return {measured[0][0]}
            for exchange in measured:
                refused |= self.put_measures([exchange])
        return refused

    def number(self, numbers: Sequence[int]) -> None:
        """Number derived exchanges, in their own transaction: one writer, so that the order is that of the commits.

        Based on the wall clock, numbers increase even after an old copy of the tape was restored.
        """
        (following,) = self._driver.execute("SELECT coalesce(max(version) + 1, 1) FROM settlements").fetchone()
        version = max(self._clock.wall_ns() // 1000, following)
        statement = "INSERT OR REPLACE INTO settlements (exchange_no, version) VALUES (?, ?)"
        self._driver.executemany(statement, [(no, version + index) for index, no in enumerate(numbers)])


def _summary(facts: Unsettled, measured: Measures | None) -> journal.Finished:
    """Return the summary of an exchange; `measured` is None if measuring failed."""
    exchange = facts.exchange
    if measured is None:
        model = exchange.request_model
        return journal.Finished(facts.id, exchange.method, exchange.path, model, exchange.status, "unmeasured")
    model = exchange.request_model or measured.response_model
    figures = dict(zip(_SHARED_FIELDS, _figures_of(measured), strict=True)) | {"flags": list(measured.flags)}
    return journal.Finished(facts.id, exchange.method, exchange.path, model, exchange.status, **figures)


def measures_row(no: int, measured: Measures) -> tuple[Any, ...]:
    """Return the row of `measures`."""
    row = [no, *_values_of(measured)]
    row[_FLAGS] = " ".join(measured.flags)
    for position in _ARRAYS:
        row[position] = packing.pack_gaps(row[position])
    for position in _JSON_MEASURES:
        if row[position] is not None:
            row[position] = compact_json(row[position])
    return tuple(row)
