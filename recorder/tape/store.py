"""Writes the tape, as recorders do: it appends journal frames to a tape and derives measures from the facts.

A batch of frames is one transaction. Appending is idempotent: frames that are already on the tape are passed over, so a
relay may repeat unacknowledged frames. Finished exchanges are settled after that, in a transaction of their own:
measures are derived and bodies are packed, so that no decoding stands in the way of facts. Several sessions may be
recorded at once: a batch has the frames of each. Rows are written through SQLite's own connection, which takes a tenth
of the time; cells are checked on reading by `wiretape.recorder.tape.cells`. Opening, locking and migrating are left to
`wiretape.recorder.tape.file`.
"""

import dataclasses
import hashlib
import secrets
import sqlite3
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import JSON, Connection, Row, Text, exists, insert, or_, select, type_coerce, update

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.metrics import DECODER_VERSION, Measures
from wiretape.recorder.decode.operation import model_in_path, model_in_query
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import DAMAGED, sqlite_code
from wiretape.recorder.process import may_return
from wiretape.recorder.tape import cells, faults, journal, packing, reading
from wiretape.recorder.tape.file import compact_json, driver_of
from wiretape.recorder.tape.losses import Relayed, Unstored
from wiretape.recorder.tape.packing import Array
from wiretape.recorder.tape.redact import Redactor
from wiretape.recorder.tape.requests import Requests
from wiretape.recorder.tape.retention import Pruner, TapeLimits
from wiretape.recorder.tape.schema import (
    FROM_CLIENT,
    FROM_UPSTREAM,
    STREAMS,
    Stream,
    exchanges,
    measures,
    sessions,
    settlements,
)
from wiretape.recorder.tape.weaving import may_share

_MEASURES = ", ".join(measures.c.keys())
_JSON_MEASURES = [place for place, column in enumerate(measures.c) if isinstance(cells.declared(column), JSON)]
_FLAGS, _ICL = map(measures.c.keys().index, ("flags", "icl"))
_OF_FINISHED = [one for one in journal.Finished.__struct_fields__ if one in measures.c]
_values_of = attrgetter(*measures.c.keys()[1:])
_INSERT_MEASURES = f"INSERT OR REPLACE INTO measures ({_MEASURES}) VALUES ({', '.join('?' * len(measures.c))})"
_UNKNOWN = {one.name: one.server_default and one.type.python_type() for one in exchanges.c if one.name != "no"}
"""The columns of a new exchange, all unknown or 0."""
_OF_BEGIN, _OF_HEAD = (_UNKNOWN.keys() & one.__struct_fields__ for one in (journal.Begin, journal.Head))
_OF_RELAYED = (_UNKNOWN.keys() & Relayed.__struct_fields__) - {"client_bytes"}
_INSERT: Final = {
    table: f"INSERT INTO {table.name} ({', '.join(table.c.keys())}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    for table in (*FROM_UPSTREAM, *FROM_CLIENT)
}
_NEXT_SETTLEMENT = "SELECT coalesce(max(version) + 1, 1) FROM settlements"
_INSERT_SETTLEMENT = "INSERT OR REPLACE INTO settlements (exchange_no, version) VALUES (?, ?)"
_NEXT_NO = """SELECT max((SELECT coalesce(max(no), 0) FROM exchanges),
    (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'exchanges')) + 1"""
"""Query for the number of the next exchange, as SQLite would assign it: no number is used again."""
_STORED = "SELECT id FROM exchanges WHERE id IN (SELECT value FROM json_each(?))"
_UPLOADED = """SELECT (SELECT coalesce(max(start + length(data)), 0) FROM uploads WHERE exchange_no = no)
    FROM exchanges WHERE no = ? AND request_size IS NULL AND request_truncated IS NULL"""
"""Stored size of a request body that is still being uploaded; no row after its end."""
_BODY_SIZES = """SELECT exchange_no, sum(length(data)) FROM segments
    WHERE exchange_no IN (SELECT value FROM json_each(?1)) GROUP BY exchange_no
    UNION ALL SELECT exchange_no, size FROM bodies WHERE exchange_no IN (SELECT value FROM json_each(?1))"""


_WITHOUT_SALT: Final = Redactor(None)
_COMPRESSION = 3
"""zlib's level: chunks are so repetitive that a higher level takes three times as long for the same size."""
_SMALL_WINDOW, _SMALL_MEMORY = 12, 4
"""zlib's window and memory for bodies that fit the window: the usual memory takes five times as long to clear."""
_KEPT_BYTES = 128 << 10
"""Size limit of an exchange's bodies for keeping its facts in memory until it is settled …"""
_ALL_KEPT_BYTES = 64 << 20
"""… if that of all of them is no more than this."""
_KEPT_BESIDES = 3 << 10
"""Approximate memory of an exchange's facts besides its bodies."""
_RUN_COLUMNS = (attrgetter("at_ns"), attrgetter("relayed_ns"), attrgetter("sizes"))
_texts_json = msgspec.json.Encoder().encode
"""Writes lists of texts with the same bytes as `compact_json`, in a tenth of the time."""


Batch = Mapping[int, Sequence[journal.Frame]]
"""Frames by the numbers of their sessions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Returning:
    """A session whose recorder has lost its writer, and the recorder's process."""

    no: int
    uuid: str
    pid: int


class _RequestRow(msgspec.Struct):
    model: str | None = None
    agent: Any = None


@dataclasses.dataclass(slots=True)
class _Facts:
    """The facts of an exchange, kept in memory to settle it without reading it back.

    `row` has its columns; headers are as they would be read. `size` is the memory of all of them. `is_packed`: its body
    is stored packed already, as it came in one batch.
    """

    row: dict[str, Any]
    asked: RecordedRequest
    response_headers: list[list[str]] | None = None
    response_trailers: list[list[str]] | None = None
    runs: list[tuple[journal.ReadRun, bytes]] = dataclasses.field(default_factory=list)
    size: int = 0
    is_packed: bool = False

    def again(self) -> "_Facts":
        """Return a copy to be changed by a transaction that may fail."""
        heads = self.asked, self.response_headers, self.response_trailers
        return _Facts(self.row.copy(), *heads, self.runs.copy(), self.size)

    def received(self) -> tuple[Reads, bytes]:
        """Return the reads of the body, and its bytes."""
        if len(self.runs) == 1:  # as of nearly all short answers
            (run, _), *_ = self.runs
            at_ns, relayed_ns, sizes = run.at_ns, run.relayed_ns, run.sizes
        else:
            columns = [[value for run, _ in self.runs for value in column(run)] for column in _RUN_COLUMNS]
            at_ns, relayed_ns, sizes = columns
        reads = Reads(range(len(sizes)), at_ns, relayed_ns, list(accumulate(sizes, initial=0))[:-1], sizes)
        if sizes and not at_ns:
            reads = Reads((), (), (), (), ())
        return reads, b"".join(data for _, data in self.runs)

    def unsettled(self, no: int, dialects: str | None) -> "Unsettled":
        """Return the exchange as it would be read from the tape, with the JSON of the dialects declared for it."""
        body = self.asked.body
        row = SimpleNamespace(**self.row)
        row.request_headers, row.response_headers = self.asked.headers, self.response_headers
        row.response_trailers = self.response_trailers
        row.request_stored, row.dialects = len(body or b""), dialects
        row.request_needed = body if reading.needs_request(row.path, row.request_stored, row.status) else None
        facts = (row.id, row.method, row.path, row.request_model, reading.exchange_of(row), *self.received())
        return Unsettled(no, *facts, self.asked, is_settled=False, is_packed=self.is_packed)


@dataclasses.dataclass(slots=True)
class _Come:
    """The progress of writing one direction; `runs` are reads and bytes about to be written, with their offsets."""

    next_seq: int = 0
    stored: int = 0
    runs: list[tuple[int, journal.ReadRun, bytes]] = dataclasses.field(default_factory=list)

    def again(self) -> "_Come":
        """Return a copy to be changed by a transaction that may fail; all before is written."""
        return _Come(self.next_seq, self.stored)

    def add(self, run: journal.ReadRun, data: bytes) -> None:
        """Append reads that follow the present ones."""
        self.runs.append((self.stored, run, data))
        self.next_seq += len(run.sizes)
        self.stored += len(data)

    def segments(self, no: int | None) -> list[tuple[Any, ...]]:
        """Return the rows for the reads that are about to be written. Raises `OverflowError` as `packing.packed`."""
        return [
            (no, *packing.packed(run.seq, start, run.at_ns, run.relayed_ns, run.sizes), data)
            for start, run, data in self.runs
        ]


@dataclasses.dataclass(slots=True)
class _Open:
    """The progress of writing an exchange; `uploaded` is the stored size of an unfinished request body.

    `body` is upstream's direction, `client` the client's over a WebSocket. `changes` are columns that are about to be
    written.
    """

    no: int | None
    body: _Come = dataclasses.field(default_factory=_Come)
    client: _Come | None = None
    ended: bool = False
    uploaded: int | None = None
    facts: _Facts | None = None
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Memory of the kept facts, in bytes."""
        return 0 if self.facts is None else self.facts.size

    def again(self) -> "_Open":
        """Return a copy to be changed by a transaction that may fail; all before is written."""
        client = self.client and self.client.again()
        facts = self.facts and self.facts.again()
        return _Open(self.no, self.body.again(), client, self.ended, self.uploaded, facts)

    def come(self, run: journal.ReadRun) -> _Come:
        """Return the direction that reads are of."""
        if not run.is_client:
            return self.body
        self.client = self.client or _Come()
        return self.client

    def change(self, values: dict[str, Any]) -> None:
        """Enter columns."""
        self.changes.update(values)
        if self.facts is not None and self.facts.row is not self.changes:
            self.facts.row.update(values)

    def keep(self, run: journal.ReadRun, data: bytes) -> None:
        """Keep reads in memory, up to the size limit."""
        if self.facts is not None:
            self.facts.runs.append((run, data))
            self.facts.size += len(data)
            if self.facts.size > _KEPT_BYTES:
                self.facts = None


@dataclasses.dataclass(slots=True)
class _UploadPart:
    """A batch's part of a request body."""

    pieces: list[journal.Upload] = dataclasses.field(default_factory=list)
    end: journal.Uploaded | None = None

    def data(self, start: int) -> bytes:
        """Return the body's continuation from `start`; pieces that are on the tape, or repeated, are skipped."""
        data = []
        for piece in self.pieces:
            if piece.start == start:
                start += len(piece.data)
                data.append(piece.data)
        return b"".join(data)


@dataclasses.dataclass(frozen=True, slots=True)
class Unsettled:
    """An ended exchange as it stands on the tape.

    `is_settled`: it was settled before, and is only shown again; `is_packed`: its bodies are stored packed.
    """

    no: int
    id: str
    method: str
    path: str
    request_model: str | None
    exchange: Exchange
    reads: Reads
    body: bytes
    asked: RecordedRequest
    is_settled: bool
    is_packed: bool

    @property
    def size(self) -> int:
        """Bytes of both directions."""
        return len(self.body) + (len(self.exchange.sent.data) if self.exchange.sent else 0)


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    """Ended exchanges read from the tape together, by number; `received` holds the bodies of those not settled yet."""

    connection: Connection
    rows: Mapping[int, Row[Any]]
    reads: Mapping[int, Reads]
    received: Mapping[int, bytes]

    @classmethod
    def of(cls, connection: Connection, numbers: Sequence[int]) -> "_Stored":
        if not numbers:
            return cls(connection, {}, {}, {})
        rows = reading.rows_with_requests(connection, numbers)
        packed = [row.no for row in rows.values() if row.is_packed and not row.is_settled]
        received = reading.unpacked_bodies(connection, numbers) | reading.packed_bodies(connection, packed)
        return cls(connection, rows, reading.reads_of_all(connection, numbers), received)

    def unsettled(self, no: int) -> Unsettled:
        """Return one exchange; the body of a settled one and the client's side of a WebSocket are read only now."""
        row = self.rows[no]
        facts = (row.id, row.method, row.path, row.request_model, reading.facts_of(self.connection, row))
        body = reading.readable_body(self.connection, no) if row.is_settled else self.received.get(no, b"")
        asked = RecordedRequest(row.request_headers or [], row.request_body)
        settled = row.is_settled, row.is_packed
        return Unsettled(no, *facts, self.reads.get(no, reading.NO_READS), body, asked, *settled)


class _BodyRow(NamedTuple):
    """A row of `bodies`, without its key."""

    size: int
    sha256: str
    at_ns: Array
    relayed_ns: Array
    sizes: Array
    data: bytes

    @classmethod
    def of(cls, reads: Reads, data: bytes) -> "_BodyRow":
        packed = packing.pack(reads) if reads or not data else packing.untimed(len(data))
        is_small = len(data) <= 1 << _SMALL_WINDOW
        sizes = (_SMALL_WINDOW, _SMALL_MEMORY) if is_small else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
        compressor = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, *sizes)
        packed_data = compressor.compress(data) + compressor.flush()
        return cls(len(data), hashlib.sha256(data).hexdigest(), *packed[2:], packed_data)


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """The rows of a finished exchange: its packed reads and bytes of each direction that is not stored packed yet.

    `measures` are None if a bug prevented them.
    """

    facts: Unsettled
    bodies: dict[Stream, _BodyRow]
    measures: Measures | None


def settle(facts: Unsettled) -> Settled:
    """Derive measures and pack the body: pure, and the one thing in a writer that can take long."""
    if facts.is_packed:
        return Settled(facts, {}, _derived(facts))
    packed = {FROM_UPSTREAM: _BodyRow.of(facts.reads, facts.body)}
    if (sent := facts.exchange.sent) is not None:
        packed[FROM_CLIENT] = _BodyRow.of(sent.reads, sent.data)
    return Settled(facts, packed, _derived(facts))


def _derived(facts: Unsettled) -> Measures | None:
    """Return the measures without credentials: an API may repeat the key that it refuses in its error."""
    try:
        found = derive(facts.exchange, facts.reads, facts.body, asked=facts.asked)
    except Exception as error:  # noqa: BLE001 - a decoder's bug must not cost the facts: they are derived again
        faults.report(error)
        return None
    has_turn_error = any("error_code" in turn for turn in found.turns or ())
    if found.error_code is None and found.error_message is None and not has_turn_error:
        return found
    code, message = (text and _WITHOUT_SALT.text(text) for text in (found.error_code, found.error_message))
    turns = found.turns and [
        turn | {"error_code": _WITHOUT_SALT.text(turn["error_code"])} if "error_code" in turn else turn
        for turn in found.turns
    ]
    return dataclasses.replace(found, error_code=code, error_message=message, turns=turns)


class Store:
    """Appends to one tape through its only writing `connection`."""

    def __init__(self, connection: Connection, clock: Clock = SYSTEM) -> None:
        self.connection = connection
        self._clock = clock
        self._driver = driver_of(connection)
        self._requests = Requests(self._driver)
        self._session_no = 0
        self._redactor = Redactor(b"")
        self._open: dict[str, _Open] = {}
        self._touched: dict[str, _Open] = {}
        self._ended: dict[int, _Facts] = {}
        """The facts of finished exchanges that are not settled yet, by their numbers."""
        self._declared: dict[int, str | None] = {}
        """The JSON of the dialects declared for sessions, by the numbers of these."""
        self._kept = 0
        """Memory of the kept facts of running and finished exchanges, in bytes."""
        self._stored: set[str] = set()
        """The exchanges that a batch begins although they are on the tape."""
        self._lost: dict[str, journal.Lost] = {}

    @property
    def lost(self) -> list[journal.Lost]:
        """The data that the last `append` could not store, as they continue nothing that is on the tape."""
        return list(self._lost.values())

    def pruner(self, limits: TapeLimits, clock: Clock) -> Pruner:
        """Return the pruner that deletes exchanges past the limits while the tape is recorded."""
        return Pruner(self.connection, limits, clock)

    def begin_session(self, session: journal.Session) -> int:
        """Enter a recorder's run; then end open exchanges of recorders that have ended. Return the session's number."""
        self._session_no = self.enter(session)
        self.recover(besides={self._session_no, *(one.no for one in self.returning())})
        return self._session_no

    def enter(self, session: journal.Session) -> int:
        """Enter a recorder's run, or find it again; return its number."""
        with self.connection.begin():
            if (no := self.number_of(session.uuid)) is None:
                no = self._enter(session)
            salt = self.connection.execute(select(sessions.c.salt).where(sessions.c.no == no)).scalar_one()
            self._redactor = Redactor(salt)  # the same for all sessions of a tape
        return no

    def number_of(self, uuid: str) -> int | None:
        """Return the number of a session; None if it is not on the tape."""
        row = self._driver.execute("SELECT no FROM sessions WHERE uuid = ?", (uuid,)).fetchone()
        return None if row is None else int(row[0])

    def returning(self, uuids: Collection[str] = ()) -> list[Returning]:
        """Return the sessions with open exchanges, and those of `uuids`, whose recorder may still run.

        It has lost its writer and joins the next one: it knows more of its exchanges than the tape does.
        """
        is_open = exists().where(exchanges.c.session_no == sessions.c.no, exchanges.c.ended_by.is_(None))
        columns = (sessions.c.no, sessions.c.uuid, sessions.c.pid, sessions.c.boot_id)
        statement = select(*columns).where(sessions.c.ended_at.is_(None), is_open | sessions.c.uuid.in_(uuids))
        with self.connection.begin():
            found = self.connection.execute(statement).all()
        return [Returning(no, uuid, pid) for no, uuid, pid, boot in found if may_return(pid, boot)]

    def running(self, session_no: int) -> list[str]:
        """Return the ids of a session's open exchanges."""
        statement = "SELECT id FROM exchanges WHERE ended_by IS NULL AND session_no = ?"
        return [str(id) for (id,) in self._driver.execute(statement, (session_no,))]

    def knows(self, id: str) -> bool:
        """Return True if an exchange is on the tape."""
        return self._row(id) is not None

    def newest(self) -> int:
        """Return the number of the newest exchange; 0 if there is none."""
        row = self._driver.execute("SELECT max(no) FROM exchanges").fetchone()
        return row[0] or 0

    def _enter(self, session: journal.Session) -> int:
        salt = self.connection.execute(select(sessions.c.salt).order_by(sessions.c.no).limit(1)).scalar()
        salt = salt or secrets.token_bytes(32)
        upstreams = [[name, Redactor(salt).url(url)] for name, url in session.upstreams]
        source = session.imported_from and Redactor(salt).text(session.imported_from)
        values = msgspec.structs.asdict(session) | {"upstreams": upstreams, "salt": salt, "imported_from": source}
        self.connection.execute(insert(sessions).values(**values, heartbeat_at=session.started_at))
        return int(self._driver.execute("SELECT max(no) FROM sessions").fetchone()[0])

    def recover(
        self,
        unstored: Iterable[Unstored] = (),
        *,
        of: Collection[int] | None = None,
        besides: Collection[int] = (),
        ids: Collection[str] | None = None,
    ) -> list[int]:
        """End the open exchanges of recorders that died, and enter those that the tape lacks; return their numbers.

        Only those `of` some sessions, if given, those of sessions `besides` excepted, or only those with `ids`. Each
        ends as its recorder knew it to have ended, where that is in `unstored`.
        """
        columns = (exchanges.c.no, exchanges.c.id, exchanges.c.status, exchanges.c.framing)
        statement = select(*columns).where(exchanges.c.ended_by.is_(None), exchanges.c.session_no.not_in(besides))
        if of is not None:
            statement = statement.where(exchanges.c.session_no.in_(of))
        if ids is not None:
            statement = statement.where(exchanges.c.id.in_(ids))
        known = {one.id: one for part in unstored for one in part.exchanges}
        with self.connection.begin():
            dead = self.connection.execute(statement).all()
            for no, id, status, framing in dead:
                if self._uploaded(no) is not None:
                    self._end_request(no, b"", None)
                is_websocket = framing == "websocket"
                self._mark_died(no, known.get(id), is_answered=status is not None, is_websocket=is_websocket)
                self._forget(id)
            numbers = [row.no for row in dead]
            for part in unstored:
                session_no = self.number_of(part.session)
                if session_no is not None and session_no not in besides and (of is None or session_no in of):
                    numbers += [self._enter_relayed(session_no, one) for one in self._lacking(part, ids)]
        return numbers

    def _lacking(self, unstored: Unstored, ids: Collection[str] | None) -> list[Relayed]:
        """Return the exchanges that are missing on the tape, but known well enough to enter them."""
        known = [one for one in unstored.exchanges if one.began is not None and (ids is None or one.id in ids)]
        return [one for one in known if self._row(one.id) is None]

    def _enter_relayed(self, session_no: int, relayed: Relayed) -> int:
        """Enter an exchange that began while nothing could be stored, without its bytes; return its number."""
        began = relayed.began
        assert began is not None
        path = self._redactor.path(began.path)
        row = _facts_relayed(relayed, is_answered=False) | {
            "id": relayed.id,
            "session_no": session_no,
            "started_at": began.started_at,
            "boot_ns": began.boot_ns,
            "method": began.method,
            "path": path,
            "upstream": self._redactor.url(began.upstream),
            "request_model": _model_of_path(began.method, path),
            "request_headers": [],
            "labels": {},
            "ended_by": relayed.ended_by or "died",
            "end_ns": relayed.end_ns,
            "bytes": relayed.bytes,
            "gap_bytes": relayed.bytes,
            "client_bytes": relayed.client_bytes,
            "client_gap_bytes": relayed.client_bytes,
        }
        self.connection.execute(insert(exchanges).values(row))
        return int(self._row(relayed.id)[0])

    def _mark_died(self, no: int, relayed: Relayed | None, *, is_answered: bool, is_websocket: bool) -> None:
        its_reads, sent = (reading.reads_of(self.connection, no, stream) for stream in STREAMS)
        last, size = max((*its_reads.at_ns, *sent.at_ns), default=None), sum(its_reads.size)
        facts: dict[str, Any] = {"ended_by": "died", "end_ns": last, "bytes": size}
        if relayed is not None:
            facts = _facts_relayed(relayed, is_answered) | {
                "ended_by": relayed.ended_by or "died",
                "end_ns": last if relayed.end_ns is None else relayed.end_ns,
                "bytes": max(relayed.bytes, size),
                "gap_bytes": max(relayed.bytes - size, 0),
            }
        if is_websocket or facts.get("framing") == "websocket":
            size = sum(sent.size)
            came = max(size, (relayed and relayed.client_bytes) or 0)
            facts |= {"client_bytes": came, "client_gap_bytes": came - size}
        self.connection.execute(update(exchanges).where(exchanges.c.no == no).values(facts))

    def missing(self, unstored: Unstored) -> tuple[int, int]:
        """Count the exchanges of `unstored` that are not on the tape at all, and the bytes of their bodies."""
        with self.connection.begin():
            missing = [one.all_bytes for one in unstored.exchanges if self._row(one.id) is None]
        return unstored.unlisted + len(missing), unstored.unlisted_bytes + sum(missing)

    def append(self, frames: Sequence[journal.Frame]) -> list[int]:
        """Commit frames of the session that was begun last, as `append_all` does."""
        return self.append_all({self._session_no: frames})

    def append_all(self, batch: Batch) -> list[int]:
        """Commit a batch's facts in one transaction; return the numbers of the exchanges that ended, to be settled.

        On an error nothing of the batch is on the tape, and the same batch may be tried again.
        """
        self._touched, self._lost = {}, {}
        try:
            with self.connection.begin():
                ended = self._append(batch)
        except BaseException:
            self._requests.forget()
            raise
        for id, known in self._touched.items():
            self._forget(id)
            if self._kept + known.kept > _ALL_KEPT_BYTES:
                known.facts = None  # it can be read back
            self._kept += known.kept
            if not known.ended:
                self._open[id] = known
            elif known.facts is not None and known.no is not None:
                self._ended[known.no] = known.facts
        return ended

    def _forget(self, id: str) -> None:
        """Drop the progress of an exchange that is no longer open."""
        if (known := self._open.pop(id, None)) is not None:
            self._kept -= known.kept

    def settle(self, numbers: Iterable[int]) -> list[journal.Finished]:
        """Derive the measures of ended exchanges and pack their bodies; return their summaries.

        That is apart from `append`, so that no decoding stands in the way of facts. `take_unsettled` and `put` are its
        two halves, for callers that settle in another thread in between.
        """
        waiting, finished = deque(numbers), list[journal.Finished]()
        while waiting:
            finished += self.put([settle(facts) for facts in self.take_unsettled(waiting)])
        return finished

    def take_unsettled(self, numbers: deque[int], most: int = 1, most_bytes: int = 0) -> list[Unsettled]:
        """Remove exchanges from the queue's front and read their facts for settling: at least one, within limits.

        An exchange may be in the queue twice: a relay that has lost its connection to the writer sends its end again.
        """
        taken: list[Unsettled] = []
        settling = set[int]()
        size = 0
        with self.connection.begin():
            not_kept = [no for no in islice(numbers, most) if no not in self._ended]
            stored = _Stored.of(self.connection, self._within(not_kept, most_bytes))
            while numbers and (not taken or (len(taken) < most and size < most_bytes)):
                if (no := numbers.popleft()) in settling:
                    continue
                settling.add(no)
                if (facts := self._ended.pop(no, None)) is not None:
                    self._kept -= facts.size
                    taken.append(facts.unsettled(no, self._dialects_of(facts.row["session_no"])))
                else:
                    if no not in stored.rows:
                        stored = _Stored.of(self.connection, [no])
                    taken.append(stored.unsettled(no))
                size += taken[-1].size
        return taken

    def _dialects_of(self, session_no: int) -> str | None:
        """Return the JSON of the dialects declared for a session."""
        if session_no not in self._declared:
            found = self._driver.execute("SELECT dialects FROM sessions WHERE no = ?", (session_no,)).fetchone()
            self._declared[session_no] = found and found[0]
        return self._declared[session_no]

    def declare(self, dialects: Sequence[JsonObject]) -> None:
        """Enter declarations for all sessions of the tape, in the place of those with the same names."""
        names = {one["name"] for one in dialects}
        with self.connection.begin():
            for no, before in self.connection.execute(select(sessions.c.no, sessions.c.dialects)).all():
                kept = [one for one in before or () if isinstance(one, dict) and one.get("name") not in names]
                after = [*dialects, *kept] or None
                self.connection.execute(update(sessions).where(sessions.c.no == no).values(dialects=after))
        self._declared.clear()

    def _within(self, numbers: Sequence[int], most_bytes: int) -> Sequence[int]:
        """Return the first exchanges, at least one, up to the one whose stored bytes reach a limit."""
        sizes = dict(self._driver.execute(_BODY_SIZES, (_texts_json(numbers),)).fetchall()) if numbers else {}
        before = accumulate((sizes.get(no) or 0 for no in numbers), initial=0)
        return [no for no, size in zip(numbers, before, strict=False) if size < most_bytes] or numbers[:1]

    def put(self, settled: Sequence[Settled]) -> list[journal.Finished]:
        """Store bodies and measures, in one transaction; return the summaries of the exchanges."""
        new = [one for one in settled if not one.facts.is_settled]
        with self.connection.begin():
            for stream in STREAMS:
                rows = [(one.facts.no, *one.bodies[stream]) for one in new if stream in one.bodies]
                if rows:
                    self._driver.executemany(_INSERT[stream.bodies], rows)
                    statement = f"DELETE FROM {stream.segments.name} WHERE exchange_no = ?"
                    self._driver.executemany(statement, [row[:1] for row in rows])
            measured = [(one.facts.no, one.measures) for one in new if one.measures is not None]
            refused = self._put_measures(measured)
            self._number([one.facts.no for one in new])
        return [_finished(one.facts, None if one.facts.no in refused else one.measures) for one in settled]

    def _put_measures(self, measured: Sequence[tuple[int, Measures]]) -> set[int]:
        """Store measures of exchanges, in place of any before; return the numbers of those that are refused."""
        refused = set[int]()
        try:
            self._driver.executemany(_INSERT_MEASURES, [_measures_row(*one) for one in measured])
        except Exception as error:  # a value that SQLite refuses must not cost the facts, nor others
            if isinstance(error, sqlite3.OperationalError) or sqlite_code(error) in DAMAGED:
                raise
            if len(measured) == 1:
                faults.report(error)
                return {measured[0][0]}
            for one in measured:
                refused |= self._put_measures([one])
        return refused

    def _number(self, numbers: Sequence[int]) -> None:
        """Number derived exchanges, in their own transaction: one writer, so that the order is that of the commits.

        Based on the wall clock, numbers increase even after an old copy of the tape was restored.
        """
        (following,) = self._driver.execute(_NEXT_SETTLEMENT).fetchone()
        first = max(self._clock.wall_ns() // 1000, following)
        self._driver.executemany(_INSERT_SETTLEMENT, [(no, first + place) for place, no in enumerate(numbers)])

    def unsettled(self) -> list[int]:
        """Return the ended exchanges that no writer has settled yet."""
        statement = select(exchanges.c.no).outerjoin(settlements).order_by(exchanges.c.no)
        statement = statement.where(exchanges.c.ended_by.is_not(None), settlements.c.exchange_no.is_(None))
        with self.connection.begin():
            return list(self.connection.execute(statement).scalars())

    def _append(self, batch: Batch) -> list[int]:
        frames = [frame for part in batch.values() for frame in part]
        uploads = _uploads(frames)
        ids = [frame.id for frame in frames if isinstance(frame, journal.Begin)]
        self._stored = {id for (id,) in self._driver.execute(_STORED, (_texts_json(ids),))} if ids else set()
        for session_no, part in batch.items():
            for frame in part:
                self._append_one(frame, session_no, uploads)
        self._append_reads(_runs(frames))
        ends = [frame for frame in frames if isinstance(frame, journal.End)]
        ended = [known for end in ends if (known := self._end(end)) is not None]
        self._write()
        self._append_uploads(uploads)
        for known in ended:
            self._cut_request(known)
        return [known.no for known in ended if known.no is not None]

    def _append_one(self, frame: journal.Frame, session_no: int, uploads: dict[str, _UploadPart]) -> None:
        match frame:
            case journal.Begin():
                self._begin(frame, session_no, uploads)
            case journal.Head():
                self._head(frame)
            case journal.Heartbeat(at=at):
                self._update("sessions", session_no, {"heartbeat_at": at})
            case journal.Close(at=at):
                self._update("sessions", session_no, {"heartbeat_at": at, "ended_at": at})

    def _cut_request(self, known: _Open) -> None:
        """End the request of an exchange that ended while its body was still coming."""
        if known.uploaded is not None and known.no is not None:
            self._end_request(known.no, b"", None)

    def _write(self) -> None:
        """Write the changes of the batch: one row for each exchange, one segment for the reads of each.

        An exchange that begins and ends in the batch has no segment: its body is packed at once.
        """
        rows: list[tuple[Any, ...]] = []
        of_clients: list[tuple[Any, ...]] = []
        begun = [known for known in self._touched.values() if known.no is None]
        self._insert(begun)
        self._pack([known for known in begun if known.ended])
        for known in self._touched.values():
            if known.changes and known.no is not None:
                self._update("exchanges", known.no, known.changes)
            rows += known.body.segments(known.no)
            if known.client is not None:
                of_clients += known.client.segments(known.no)
                known.client.runs = []
            known.changes, known.body.runs = {}, []
        self._driver.executemany(_INSERT[FROM_UPSTREAM.segments], rows)
        if of_clients:
            self._driver.executemany(_INSERT[FROM_CLIENT.segments], of_clients)

    def _pack(self, ended: Sequence[_Open]) -> None:
        """Write the bodies of whole exchanges, as far as they are kept in memory."""
        rows = []
        for known in ended:
            if known.facts is not None:
                rows.append((known.no, *_BodyRow.of(*known.facts.received())))
                known.facts.is_packed, known.body.runs = True, []
        self._driver.executemany(_INSERT[FROM_UPSTREAM.bodies], rows)

    def _insert(self, begun: Sequence[_Open]) -> None:
        """Write the rows of new exchanges; `_begin` made them, with all columns in the same order."""
        if not begun:
            return
        columns = begun[0].changes.keys()
        (first,) = self._driver.execute(_NEXT_NO).fetchone()
        statement = f"INSERT INTO exchanges (no, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})"
        requests: dict[int, bytes] = {}
        for no, known in enumerate(begun, first):
            known.no = no
            if (body := known.changes["request_body"]) and may_share(body) and _is_whole(known.changes):
                requests[no], known.changes["request_body"] = body, None
        self._driver.executemany(statement, [(known.no, *known.changes.values()) for known in begun])
        for known in begun:
            known.changes = {}
        for no, body in requests.items():
            self._requests.put(no, body)

    def _begin(self, frame: journal.Begin, session_no: int, uploads: dict[str, _UploadPart]) -> None:
        """Enter an exchange; if all of its request body is in the same batch, that, too."""
        if frame.id in self._stored or frame.id in self._touched:
            return
        is_coming = frame.body_size is None and frame.body is None  # of an import, it may never be known
        is_truncated = None if frame.body_size is None else False
        if is_coming and (upload := uploads.get(frame.id)) and (end := upload.end):
            request = {"body": _stored_request(upload.data(0), end), "body_size": end.size, "body_sha256": end.sha256}
            frame, is_coming, is_truncated = msgspec.structs.replace(frame, **request), False, end.truncated
        path, headers = self._redactor.path(frame.path), self._redactor.headers(frame.headers)
        row = _UNKNOWN | {name: getattr(frame, name) for name in _OF_BEGIN}
        row |= {
            "session_no": session_no,
            "path": path,
            "upstream": self._redactor.url(frame.upstream),
            "request_model": _model_in(headers, frame.body) or _model_of_path(frame.method, path),
            "request_headers": _texts_json(headers).decode(),
            "request_body": frame.body,
            "request_size": frame.body_size,
            "request_sha256": frame.body_sha256,
            "request_truncated": is_truncated,
            "labels": compact_json(self._redactor.labels(frame.labels)) if frame.labels else "{}",
        }
        known = self._touched[frame.id] = _Open(None, uploaded=0 if is_coming else None, changes=row)
        size = _KEPT_BESIDES + len(frame.body or b"")
        if not is_coming and size <= _KEPT_BYTES:
            known.facts = _Facts(row, RecordedRequest(headers, frame.body), size=size)

    def _append_uploads(self, uploads: dict[str, _UploadPart]) -> None:
        for id, upload in uploads.items():
            known = self._find(id)
            if known is None:
                self._lose(id, 0, whole=True)
            elif known.uploaded is not None and known.no is not None:
                data = upload.data(known.uploaded)
                if upload.end is not None:
                    self._end_request(known.no, data, upload.end)
                    known.uploaded = None
                elif data:
                    piece = (known.no, known.uploaded, data)
                    self._driver.execute("INSERT INTO uploads (exchange_no, start, data) VALUES (?, ?, ?)", piece)
                    known.uploaded += len(data)

    def _end_request(self, no: int, data: bytes, end: journal.Uploaded | None) -> None:
        """Join the stored pieces of a request body and its last `data`; without an end it is truncated there."""
        of_exchange = "FROM uploads WHERE exchange_no = ?"
        before = self._driver.execute(f"SELECT data {of_exchange} ORDER BY start", (no,)).fetchall()
        body = b"".join([*(piece for (piece,) in before), data])
        values: dict[str, Any] = {"request_body": _stored_request(body, end), "request_truncated": True}
        if end is not None:
            values |= {"request_size": end.size, "request_sha256": end.sha256, "request_truncated": end.truncated}
        (headers,) = self._driver.execute("SELECT request_headers FROM exchanges WHERE no = ?", (no,)).fetchone()
        if model := _model_in(msgspec.json.decode(headers or b"[]"), body):
            values["request_model"] = model
        is_whole = _is_whole(values)
        self._update("exchanges", no, values | ({"request_body": None} if is_whole else {}))
        if is_whole:
            self._requests.put(no, body)
        if before:
            self._driver.execute(f"DELETE {of_exchange}", (no,))

    def _head(self, frame: journal.Head) -> None:
        known = self._find(frame.id)
        if known is None:
            self._lose(frame.id, 0, whole=True)
        elif not known.ended:
            if frame.framing == "websocket":
                known.facts = None  # they are of one direction: both are read back
            headers = self._redactor.headers(frame.headers)
            values = {name: getattr(frame, name) for name in _OF_HEAD}
            known.change(values | {"response_headers": _texts_json(headers).decode()})
            if known.facts is not None:
                known.facts.response_headers = headers

    def _append_reads(self, batch: dict[tuple[str, bool], list[tuple[journal.ReadRun, bytes]]]) -> None:
        for (id, _), runs in batch.items():
            known = self._find(id)
            if known is None:
                self._lose(id, sum(len(data) for _, data in runs), whole=True)
                continue
            come = known.come(runs[0][0])
            new, data = self._following(runs, come, ended=known.ended)
            if new.sizes:
                come.add(new, data)
                known.keep(new, data)

    def _following(
        self, runs: list[tuple[journal.ReadRun, bytes]], come: _Come, *, ended: bool
    ) -> tuple[journal.ReadRun, bytes]:
        """Return, as one, the runs that continue a stream; reads that are on the tape, or repeated, are skipped."""
        if len(runs) == 1 and runs[0][0].seq == come.next_seq and not ended:  # nearly always
            return runs[0]
        whole, body = journal.ReadRun(runs[0][0].id, come.next_seq, [], [], []), []
        for run, data in runs:
            present = come.next_seq + len(whole.sizes) - run.seq
            if present < 0 or (ended and present < len(run.sizes)):  # an earlier read is missing
                self._lose(run.id, len(data), whole=False)
            elif present < len(run.sizes):
                whole.at_ns.extend(run.at_ns[present:])
                whole.relayed_ns.extend(run.relayed_ns[present:])
                whole.sizes.extend(run.sizes[present:])
                body.append(data[sum(run.sizes[:present]) :])
        return whole, b"".join(body)

    def _end(self, frame: journal.End) -> _Open | None:
        """End an exchange and return it; a relay that sends its end again has not received the report of it."""
        known = self._find(frame.id)
        if known is None:
            self._lose(frame.id, 0, whole=True)
            return None
        if not known.ended:
            values = msgspec.structs.asdict(frame)
            del values["id"], values["trailers"]
            if frame.trailers:
                trailers = self._redactor.headers(frame.trailers)
                values["response_trailers"] = _texts_json(trailers).decode()
                if known.facts is not None:
                    known.facts.response_trailers = trailers
            values["gap_bytes"] = max(frame.gap_bytes, frame.bytes - known.body.stored)
            if frame.client_bytes is not None:
                stored = known.client.stored if known.client else 0
                values["client_gap_bytes"] = max(frame.client_gap_bytes or 0, frame.client_bytes - stored)
            values["ended_detail"] = frame.ended_detail and self._redactor.text(frame.ended_detail.replace("\0", ""))
            known.change(values)
            known.ended = True
        return known

    def _update(self, table: str, no: int, values: dict[str, Any]) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in values)
        self._driver.execute(f"UPDATE {table} SET {assigned} WHERE no = :no", {**values, "no": no})

    def _lose(self, id: str, size: int, *, whole: bool) -> None:
        """Note that frames of an exchange have no place on the tape."""
        before = self._lost.get(id)
        self._lost[id] = journal.Lost(id, size + (before.bytes if before else 0), whole)

    def _find(self, id: str) -> _Open | None:
        """Return the writing progress of an exchange, from memory or, after a restart, from the tape."""
        if (known := self._touched.get(id)) is None:
            known = self._open.get(id) or self._find_stored(id)
            if known is not None:
                known = self._touched[id] = known.again()
        return known

    def _find_stored(self, id: str) -> _Open | None:
        row = self._row(id)
        if row is None:
            return None
        body, client = (self._come(row[0], stream) for stream in STREAMS)
        return _Open(row[0], body, client, ended=row[1] is not None, uploaded=self._uploaded(row[0]))

    def _come(self, no: int, stream: Stream) -> _Come:
        its_reads = reading.reads_of(self.connection, no, stream)
        return _Come(its_reads.seq[-1] + 1, sum(its_reads.size)) if its_reads else _Come()

    def _uploaded(self, no: int) -> int | None:
        """Return the stored size of a request body that is still being uploaded, or None."""
        row = self._driver.execute(_UPLOADED, (no,)).fetchone()
        return None if row is None else int(row[0])

    def _row(self, id: str) -> Any:
        """Return the number of an exchange and how it ended; None if the tape does not hold it."""
        return self._driver.execute("SELECT no, ended_by FROM exchanges WHERE id = ?", (id,)).fetchone()

    def size(self) -> int:
        """Return the bytes of the whole database, in the file and in its log."""
        pages, page = (self._pragma(name)[0] for name in ("page_count", "page_size"))
        return int(pages * page)

    def give_back(self, pages: int) -> bool:
        """Return free pages to the file system, at most `pages`; return True if more are left to return."""
        self._driver.executescript(f"PRAGMA incremental_vacuum({pages})")  # `execute` would take one step: one page
        return bool(self._pragma("freelist_count")[0])

    def checkpoint(self) -> bool:
        """Move all of the log into the tape itself; return True if that was possible."""
        try:
            busy, pages, moved = self._pragma("wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            return False
        return not busy and pages == moved

    def _pragma(self, statement: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._driver.execute(f"PRAGMA {statement}").fetchone()
        return row

    def ended(self, *, outdated: bool = False) -> Sequence[int]:
        """Return the exchanges that have ended; if `outdated`, those whose measures another decoder derived.

        A declaration that is no longer known is another decoder, too.
        """
        statement = select(exchanges.c.no).where(exchanges.c.ended_by.is_not(None)).order_by(exchanges.c.no)
        if outdated:
            version = measures.c.dialect_version
            is_other = version.is_not(None) & version.not_in(self._dialect_versions())
            statement = statement.join(measures).where(or_(measures.c.decoder_version != DECODER_VERSION, is_other))
        with self.connection.begin():
            return self.connection.execute(statement).scalars().all()

    def _dialect_versions(self) -> set[str]:
        """Return the versions of all declared dialects, of this program and of the tape's recordings."""
        with self.connection.begin():
            given = self.connection.execute(select(type_coerce(sessions.c.dialects, Text)).distinct()).scalars().all()
        return {one.version for declarations in [None, *given] for one in registry.declared(declarations)}

    def rebuild(self, numbers: Iterable[int] | None = None) -> Iterator[bool]:
        """Derive ended exchanges again, these or all, one transaction each; yield for each whether anything changed."""
        unsettled = set(self.unsettled())
        for no in self.ended() if numbers is None else numbers:
            if no in unsettled:
                self.settle([no])
                yield True
            else:
                yield self._rederive(no)

    def _rederive(self, no: int) -> bool:
        """Derive one exchange again; if its body is missing, or cannot be unpacked, keep its measures."""
        with self.connection.begin():
            facts = _Stored.of(self.connection, [no]).unsettled(no)
            if not facts.exchange.has_bytes or no in cells.damage_of(self.connection).exchanges:
                return False
            measured = _derived(facts)
            before = self._driver.execute(f"SELECT {_MEASURES} FROM measures WHERE exchange_no = ?", (no,)).fetchone()
            if measured is None or before == _measures_row(no, measured):
                return False
            is_stored = not self._put_measures([(no, measured)])
            if is_stored:
                self._number([no])
            return is_stored


def _finished(facts: Unsettled, measured: Measures | None) -> journal.Finished:
    """Return the summary of an exchange; `measured` is None if measuring failed."""
    facts_shown = facts.id, facts.method, facts.path
    if measured is None:
        return journal.Finished(*facts_shown, facts.request_model, facts.exchange.status, "not measured")
    model = facts.request_model or measured.response_model
    figures = {name: getattr(measured, name) for name in _OF_FINISHED} | {"flags": list(measured.flags)}
    return journal.Finished(*facts_shown, model, facts.exchange.status, **figures)


def _facts_relayed(relayed: Relayed, is_answered: bool) -> dict[str, Any]:
    """Return the relay's facts that were not stored, without the head of an answer whose head is stored."""
    names = _OF_RELAYED - {"status", "framing", "headers_ns"} if is_answered else _OF_RELAYED
    return {name: value for name in names if (value := getattr(relayed, name)) is not None}


def _measures_row(no: int, measured: Measures) -> tuple[Any, ...]:
    row = [no, *_values_of(measured)]
    row[_FLAGS], row[_ICL] = " ".join(measured.flags), packing.pack_gaps(measured.icl)
    for place in _JSON_MEASURES:
        if row[place] is not None:
            row[place] = compact_json(row[place])
    return tuple(row)


def _uploads(frames: Iterable[journal.Frame]) -> dict[str, _UploadPart]:
    """Return a batch's parts of request bodies, by the ids of their exchanges."""
    uploads: dict[str, _UploadPart] = {}
    for frame in frames:
        if isinstance(frame, journal.Upload):
            uploads.setdefault(frame.id, _UploadPart()).pieces.append(frame)
        elif isinstance(frame, journal.Uploaded):
            uploads.setdefault(frame.id, _UploadPart()).end = frame
    return uploads


def _runs(frames: Iterable[journal.Frame]) -> dict[tuple[str, bool], list[tuple[journal.ReadRun, bytes]]]:
    """Return the reads that a batch brings, by the ids of their exchanges and whether they are the client's."""
    runs: dict[tuple[str, bool], list[tuple[journal.ReadRun, bytes]]] = {}
    for frame in frames:
        if isinstance(frame, journal.SocketReads):
            for run, data in frame.parts():
                runs.setdefault((run.id, run.is_client), []).append((run, data))
    return runs


def _stored_request(body: bytes, end: journal.Uploaded | None) -> bytes | None:
    """Return the value of `request_body`: None if no byte of a body could be stored."""
    return body if body or (end is not None and end.size == 0) else None


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Return True if all of a request's body is there, with its size and its hash."""
    body, sha256 = row["request_body"], row.get("request_sha256")
    return body is not None and sha256 is not None and row.get("request_size") == len(body)


def _model_in(headers: Iterable[Sequence[str]], body: bytes | None) -> str | None:
    """Return the model that a request's body names, else the agent."""
    try:
        named = msgspec.json.decode(encoding.uncoded(headers, body or b""), type=_RequestRow)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    model = named.model or (named.agent if isinstance(named.agent, str) else None)  # Interactions run agents, too
    return model and model.replace("\0", "�")


def _model_of_path(method: str, path: str) -> str | None:
    model = model_in_path(path) if method == "POST" else model_in_query(path)
    return model and model.replace("\0", "�")
