"""Appending: journal frames → rows of the tape's facts.

The rules:

- A batch of frames is one transaction: on an error nothing of it is on the tape, and the same batch may come again.
- Appending is idempotent. A relay sends frames again that were not acknowledged, so an exchange that is on the tape is
  not begun again, and reads and pieces of uploads that it has are passed over. Those whose predecessor is missing are
  counted as lost (`Appending.lost`), and so are those of an exchange that the tape lacks.
- Several sessions may be recorded at once: a batch has the frames of each.
- In a batch the order is: new exchanges and heads, reads, ends; then one row for each exchange, one segment for the
  reads of each direction, and last uploads, which need the row's number. An exchange that begins and ends in the batch
  has no segment: its body is packed at once. So a row is written once, and not again for its head and its end.
- The progress of each running exchange is kept in memory, and read from the tape after a restart. A batch changes
  copies of it, which count once it is committed.
- Credentials are replaced here: frames hold the bytes sent.

Rows are written through SQLite's own connection, which takes a tenth of the time; cells are checked on reading by
`wiretape.recorder.tape.cells`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from wiretape.recorder import facts
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.operation import model_in_path, model_in_query
from wiretape.recorder.facts import Answered, Begun, Connected, Ended
from wiretape.recorder.tape import journal, reading, tables
from wiretape.recorder.tape.file import compact_json, driver_of, reader_of
from wiretape.recorder.tape.progress import Direction, ExchangeProgress, Facts, FactsInMemory, UploadPart
from wiretape.recorder.tape.redact import Redactor
from wiretape.recorder.tape.requests import Requests
from wiretape.recorder.tape.schema import FROM_CLIENT, FROM_UPSTREAM, STREAMS, exchanges
from wiretape.recorder.tape.settle import INSERT_BODY, BodyRow
from wiretape.recorder.tape.weaving import may_share

_UNKNOWN: Final = {
    column.name: column.server_default and column.type.python_type() for column in exchanges.c if column.name != "no"
}
"""The columns of a new exchange, all unknown or 0."""
_facts_of_begin, _facts_of_head = facts.reader(Begun), facts.reader(Connected, Answered)
_facts_of_end = facts.reader(Connected, Ended)
_INSERT_SEGMENT: Final = {
    table: f"INSERT INTO {table.name} ({', '.join(table.c.keys())}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    for table in (stream.segments for stream in STREAMS)
}
_texts_json = msgspec.json.Encoder().encode
"""Writes lists of texts with the same bytes as `compact_json`, in a tenth of the time."""

Batch = Mapping[int, Sequence[journal.Frame]]
"""Frames by the numbers of their sessions."""


class _RequestNames(msgspec.Struct):
    model: str | None = None
    agent: Any = None


class Appending:
    """Appends to one tape; facts stay in `memory` until their exchange is settled."""

    def __init__(self, connection: Connection, memory: FactsInMemory) -> None:
        self.connection, self._memory = connection, memory
        self._driver = driver_of(connection)
        self._requests = Requests(self._driver)
        self.redactor = Redactor(b"")
        self._open: dict[str, ExchangeProgress] = {}
        """The progress of running exchanges, by their ids."""
        self._touched: dict[str, ExchangeProgress] = {}
        """The progress of the exchanges of a batch, by their ids."""
        self._present: set[str] = set()
        """The exchanges that a batch begins although they are on the tape."""
        self._lost: dict[str, journal.Lost] = {}

    @property
    def lost(self) -> list[journal.Lost]:
        """The data that the last `append` could not store, as they continue nothing that is on the tape."""
        return list(self._lost.values())

    def append(self, batch: Batch) -> list[int]:
        """Commit a batch's facts in one transaction; return the numbers of the exchanges that ended, to be settled."""
        self._touched, self._lost = {}, {}
        try:
            with self.connection.begin():
                ended_numbers = self._append(batch)
        except BaseException:
            self._requests.forget()
            raise
        for id, progress in self._touched.items():
            self.forget(id)
            if (facts := progress.facts) is not None:
                if self._memory.has_room(facts):
                    self._memory.size += facts.size
                else:
                    progress.facts = None  # it can be read back
            if not progress.has_ended:
                self._open[id] = progress
            elif progress.facts is not None and progress.no is not None:
                self._memory.finished[progress.no] = progress.facts
        return ended_numbers

    def forget(self, id: str) -> None:
        """Drop the progress of an exchange that is no longer running."""
        if (progress := self._open.pop(id, None)) is not None and progress.facts is not None:
            self._memory.size -= progress.facts.size

    def _append(self, batch: Batch) -> list[int]:
        frames = [frame for part in batch.values() for frame in part]
        ids = [frame.id for frame in frames if isinstance(frame, journal.Begin)]
        present = "SELECT id FROM exchanges WHERE id IN (SELECT value FROM json_each(?))"
        self._present = {id for (id,) in self._driver.execute(present, (_texts_json(ids).decode(),))} if ids else set()
        uploads, runs = _bodies(frames)
        for session_no, part in batch.items():
            for frame in part:
                match frame:
                    case journal.Begin():
                        self._begin(frame, session_no, uploads)
                    case journal.Head():
                        self._head(frame)
                    case journal.Heartbeat(at=at):
                        self._update("sessions", session_no, {"heartbeat_at": at})
                    case journal.Close(at=at):
                        self._update("sessions", session_no, {"heartbeat_at": at, "ended_at": at})
        self._append_reads(runs)
        ends = [frame for frame in frames if isinstance(frame, journal.End)]
        finished = [progress for end in ends if (progress := self._end(end)) is not None]
        self._write()
        self._append_uploads(uploads)
        for progress in finished:
            if progress.uploaded is not None and progress.no is not None:
                self.end_request(progress.no, b"", None)  # the exchange ended while its request still came
        return [progress.no for progress in finished if progress.no is not None]

    def _begin(self, frame: journal.Begin, session_no: int, uploads: dict[str, UploadPart]) -> None:
        """Enter an exchange; if all of its request body is in the same batch, that, too."""
        if frame.id in self._present or frame.id in self._touched:
            return
        is_coming = frame.body_size is None and frame.body is None  # of an import, it may never be known
        is_truncated = None if frame.body_size is None else False
        if is_coming and (upload := uploads.get(frame.id)) and (end := upload.end):
            request = {"body": _stored_request(upload.data(0), end), "body_size": end.size, "body_sha256": end.sha256}
            frame, is_coming, is_truncated = msgspec.structs.replace(frame, **request), False, end.truncated
        path, headers = self.redactor.path(frame.path), self.redactor.headers(frame.headers)
        row = _UNKNOWN | _facts_of_begin(frame)
        row |= {
            "id": frame.id,
            "session_no": session_no,
            "path": path,
            "upstream": self.redactor.url(frame.upstream),
            "request_model": _model_in(headers, frame.body) or model_of_path(frame.method, path),
            "request_headers": _texts_json(headers).decode(),
            "request_body": frame.body,
            "request_size": frame.body_size,
            "request_sha256": frame.body_sha256,
            "request_truncated": is_truncated,
            "labels": compact_json(self.redactor.labels(frame.labels)) if frame.labels else "{}",
        }
        progress = self._touched[frame.id] = ExchangeProgress(None, uploaded=0 if is_coming else None, changes=row)
        if not is_coming:
            progress.facts = Facts.of(row, RecordedRequest(headers, frame.body))

    def _head(self, frame: journal.Head) -> None:
        progress = self._find(frame.id)
        if progress is None:
            self._lose(frame.id, 0, is_whole=True)
        elif not progress.has_ended:
            if frame.framing == "websocket":
                progress.facts = None  # they are of one direction: both are read back
            headers = self.redactor.headers(frame.headers)
            progress.change(_facts_of_head(frame) | {"response_headers": _texts_json(headers).decode()})
            if progress.facts is not None:
                progress.facts.response_headers = headers

    def _append_reads(self, batch: "_Runs") -> None:
        for (id, _), runs in batch.items():
            progress = self._find(id)
            if progress is None:
                self._lose(id, sum(len(data) for _, data in runs), is_whole=True)
                continue
            direction = progress.direction(runs[0][0])
            new, data = self._continuation(runs, direction, has_ended=progress.has_ended)
            if new.sizes:
                direction.add(new, data)
                progress.keep(new, data)

    def _continuation(
        self, runs: list[tuple[journal.ReadRun, bytes]], direction: Direction, *, has_ended: bool
    ) -> tuple[journal.ReadRun, bytes]:
        """Return, as one, the runs that continue a stream; reads that are on the tape, or repeated, are skipped."""
        if len(runs) == 1 and runs[0][0].seq == direction.next_seq and not has_ended:  # nearly always
            return runs[0]
        joined, pieces = journal.ReadRun(runs[0][0].id, direction.next_seq, [], [], []), []
        for run, data in runs:
            repeated = direction.next_seq + len(joined.sizes) - run.seq
            if repeated < 0 or (has_ended and repeated < len(run.sizes)):  # an earlier read is missing
                self._lose(run.id, len(data), is_whole=False)
            elif repeated < len(run.sizes):
                joined.at_ns.extend(run.at_ns[repeated:])
                joined.relayed_ns.extend(run.relayed_ns[repeated:])
                joined.sizes.extend(run.sizes[repeated:])
                pieces.append(data[sum(run.sizes[:repeated]) :])
        return joined, b"".join(pieces)

    def _end(self, frame: journal.End) -> ExchangeProgress | None:
        """End an exchange and return it; a relay that sends its end again has not received the report of it."""
        progress = self._find(frame.id)
        if progress is None:
            self._lose(frame.id, 0, is_whole=True)
            return None
        if not progress.has_ended:
            values = _facts_of_end(frame)
            if frame.trailers:
                trailers = self.redactor.headers(frame.trailers)
                values["response_trailers"] = _texts_json(trailers).decode()
                if progress.facts is not None:
                    progress.facts.response_trailers = trailers
            values["gap_bytes"] = max(frame.gap_bytes, frame.bytes - progress.body.size)
            if frame.client_bytes is not None:
                stored_bytes = progress.client.size if progress.client else 0
                values["client_gap_bytes"] = max(frame.client_gap_bytes or 0, frame.client_bytes - stored_bytes)
            values["ended_detail"] = frame.ended_detail and self.redactor.text(frame.ended_detail.replace("\0", ""))
            progress.change(values)
            progress.has_ended = True
        return progress

    def _write(self) -> None:
        """Write the changes of the batch."""
        rows: list[tuple[Any, ...]] = []
        client_rows: list[tuple[Any, ...]] = []
        new = [progress for progress in self._touched.values() if progress.no is None]
        self._insert(new)
        packed_rows = []
        for progress in new:
            if progress.has_ended and progress.facts is not None:
                packed_rows.append((progress.no, *BodyRow.of(*progress.facts.received())))
                progress.facts.is_packed, progress.body.runs = True, []
        self._driver.executemany(INSERT_BODY[FROM_UPSTREAM.bodies], packed_rows)
        for progress in self._touched.values():
            if progress.changes and progress.no is not None:
                self._update("exchanges", progress.no, progress.changes)
            rows += progress.body.segments(progress.no)
            if progress.client is not None:
                client_rows += progress.client.segments(progress.no)
                progress.client.runs = []
            progress.changes, progress.body.runs = {}, []
        self._driver.executemany(_INSERT_SEGMENT[FROM_UPSTREAM.segments], rows)
        if client_rows:
            self._driver.executemany(_INSERT_SEGMENT[FROM_CLIENT.segments], client_rows)

    def _insert(self, new: Sequence[ExchangeProgress]) -> None:
        """Write the rows of new exchanges; `_begin` made them, with all columns in the same order."""
        if not new:
            return
        columns = new[0].changes.keys()
        # The next number as SQLite would assign it: that of a deleted exchange is not used again.
        (next_no,) = self._driver.execute(
            """SELECT max((SELECT coalesce(max(no), 0) FROM exchanges),
            (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'exchanges')) + 1"""
        ).fetchone()
        statement = f"INSERT INTO exchanges (no, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})"
        requests: dict[int, bytes] = {}
        for no, progress in enumerate(new, next_no):
            progress.no = no
            if (body := progress.changes["request_body"]) and may_share(body) and _is_whole(progress.changes):
                requests[no], progress.changes["request_body"] = body, None
        self._driver.executemany(statement, [(progress.no, *progress.changes.values()) for progress in new])
        for progress in new:
            progress.changes = {}
        for no, body in requests.items():
            self._requests.put(no, body)

    def _append_uploads(self, uploads: dict[str, UploadPart]) -> None:
        for id, upload in uploads.items():
            progress = self._find(id)
            if progress is None:
                self._lose(id, 0, is_whole=True)
            elif progress.uploaded is not None and progress.no is not None:
                data = upload.data(progress.uploaded)
                if upload.end is not None:
                    self.end_request(progress.no, data, upload.end)
                    progress.uploaded = None
                elif data:
                    piece = (progress.no, progress.uploaded, data)
                    self._driver.execute("INSERT INTO uploads (exchange_no, start, data) VALUES (?, ?, ?)", piece)
                    progress.uploaded += len(data)

    def end_request(self, no: int, data: bytes, end: journal.Uploaded | None) -> None:
        """Join the stored pieces of a request body and its last `data`; without an end it is truncated there."""
        of_exchange = "FROM uploads WHERE exchange_no = ?"
        pieces = self._driver.execute(f"SELECT data {of_exchange} ORDER BY start", (no,)).fetchall()
        body = b"".join([*(piece for (piece,) in pieces), data])
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
        if pieces:
            self._driver.execute(f"DELETE {of_exchange}", (no,))

    def _update(self, table: str, no: int, values: dict[str, Any]) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in values)
        self._driver.execute(f"UPDATE {table} SET {assigned} WHERE no = :no", {**values, "no": no})

    def _lose(self, id: str, size: int, *, is_whole: bool) -> None:
        """Note that frames of an exchange have no place on the tape."""
        previous = self._lost.get(id)
        self._lost[id] = journal.Lost(id, size + (previous.bytes if previous else 0), is_whole)

    def _find(self, id: str) -> ExchangeProgress | None:
        """Return the writing progress of an exchange, from memory or, after a restart, from the tape."""
        if (progress := self._touched.get(id)) is None:
            progress = self._open.get(id) or self._read_progress(id)
            if progress is not None:
                progress = self._touched[id] = progress.copy()
        return progress

    def _read_progress(self, id: str) -> ExchangeProgress | None:
        row = self._driver.execute("SELECT no, ended_by FROM exchanges WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        no, ended_by = row
        columns = (reading.reads_of(reader_of(self.connection), no, stream) for stream in tables.STREAMS)
        body, client = (Direction(reads.seq[-1] + 1, sum(reads.size)) if reads else Direction() for reads in columns)
        return ExchangeProgress(no, body, client, has_ended=ended_by is not None, uploaded=self.uploaded(no))

    def uploaded(self, no: int) -> int | None:
        """Return the stored size of a request body that is still being uploaded, or None after its end."""
        statement = """SELECT (SELECT coalesce(max(start + length(data)), 0) FROM uploads WHERE exchange_no = no)
            FROM exchanges WHERE no = ? AND request_size IS NULL AND request_truncated IS NULL"""
        row = self._driver.execute(statement, (no,)).fetchone()
        return None if row is None else int(row[0])


_Runs = dict[tuple[str, bool], list[tuple[journal.ReadRun, bytes]]]
"""Reads by the ids of their exchanges, and whether the client sent them."""


def _bodies(frames: Iterable[journal.Frame]) -> tuple[dict[str, UploadPart], _Runs]:
    """Return a batch's parts of request bodies by the ids of their exchanges, and its reads."""
    uploads: dict[str, UploadPart] = {}
    runs: _Runs = {}
    for frame in frames:
        match frame:
            case journal.Upload():
                uploads.setdefault(frame.id, UploadPart()).pieces.append(frame)
            case journal.Uploaded():
                uploads.setdefault(frame.id, UploadPart()).end = frame
            case journal.SocketReads():
                for run, data in frame.parts():
                    runs.setdefault((run.id, run.is_client), []).append((run, data))
    return uploads, runs


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
        request = msgspec.json.decode(encoding.uncoded(headers, body or b""), type=_RequestNames)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # Interactions of Gemini run agents, too.
    model = request.model or (request.agent if isinstance(request.agent, str) else None)
    return model and model.replace("\0", "�")


def model_of_path(method: str, path: str) -> str | None:
    """Return the model that a request's path names."""
    model = model_in_path(path) if method == "POST" else model_in_query(path)
    return model and model.replace("\0", "�")
