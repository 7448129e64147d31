"""Pure: HTTP archives (HAR 1.2) of browsers, proxies and wiretape itself.

An archive has the phases of an exchange, and bodies without their content coding: as text, if at all. For a stream,
Chrome has each event with the time at which it was dispatched (`_eventSourceMessages`); all other archives have no
times of a body. An export of wiretape has each read (`_wiretape`). T0 is `startedDateTime`: the time at which the
browser queued the request, so that `blocked` is part of every time.
"""

import base64
import binascii
import itertools
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from wiretape.recorder.decode.exchange import RESET_CODE
from wiretape.recorder.decode.framings.sse import Event, EventCursor
from wiretape.recorder.facts import ENDED_BY, ClockName, EndedBy
from wiretape.recorder.plurals import counted
from wiretape.viewer import imported
from wiretape.viewer.imported import Data, Headers, ImportedExchange, ImportedFile, NotImportable, Unimportable

_ID: Final = re.compile(r"[0-9a-f]{16}")
_BOM: Final = b"\xef\xbb\xbf"
_ENTRIES: Final = re.compile(rb'"entries"\s*:\s*\[(?!\s*\])')
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)
"""A text, which may hold brackets and may be cut off, or a bracket or a comma of JSON."""
_ERRORS: Final[tuple[tuple[str, EndedBy], ...]] = (
    ("HTTP2_", "reset"), ("QUIC_PROTOCOL_ERROR", "reset"),
    ("NAME_NOT_RESOLVED", "dns"), ("CONNECTION_REFUSED", "refused"), ("CONNECTION_RESET", "reset"),
    ("CONNECTION_CLOSED", "eof"), ("EMPTY_RESPONSE", "eof"), ("INCOMPLETE_CHUNKED", "eof"),
    ("CONTENT_LENGTH_MISMATCH", "length"), ("CERT", "tls"), ("SSL", "tls"), ("ABORTED", "client"),
    ("CONNECTION_TIMED_OUT", "connect_timeout"), ("TIMED_OUT", "connect_timeout"), ("PROTOCOL_ERROR", "protocol"),
)  # fmt: skip
"""Chrome's errors (net::ERR_…), and the `ended_by` of each."""

_WINDOWS_1252: Final = {bytes([byte]).decode("cp1252", "ignore") or chr(byte): byte for byte in range(256)}
"""The byte for each character of an answer whose head names no charset, as Chrome decodes those of event streams."""

_Number = int | float | None


class _Pair(msgspec.Struct):
    name: str | None = None
    value: str | None = None


class _HarMessage(msgspec.Struct):
    """An event of a stream, as it was dispatched; `time` is in seconds since the epoch."""

    time: _Number = None
    data: str | None = ""
    event: str | None = msgspec.field(default=None, name="eventName")
    type: str | None = None
    id: str | None = msgspec.field(default=None, name="eventId")


class _PostData(msgspec.Struct):
    text: str | None = None
    params: list[Any] | None = None
    encoding: str | None = msgspec.field(default=None, name="_encoding")


class _HarRequest(msgspec.Struct):
    method: str
    url: str
    version: str | None = msgspec.field(default=None, name="httpVersion")
    headers: list[_Pair] = []
    body_size: _Number = msgspec.field(default=None, name="bodySize")
    post: _PostData | None = msgspec.field(default=None, name="postData")


class _Content(msgspec.Struct):
    text: str | None = None
    encoding: str | None = None
    size: _Number = None
    kind: str | None = msgspec.field(default=None, name="mimeType")


class _HarResponse(msgspec.Struct):
    status: int
    version: str | None = msgspec.field(default=None, name="httpVersion")
    headers: list[_Pair] = []
    trailers: list[_Pair] = msgspec.field(default_factory=list, name="_trailers")
    content: _Content = msgspec.field(default_factory=_Content)
    error: str | None = msgspec.field(default=None, name="_error")


class _Timings(msgspec.Struct):
    """The phases, in ms; -1 and null are unknown, or did not happen."""

    blocked: _Number = None
    dns: _Number = None
    connect: _Number = None
    send: _Number = None
    wait: _Number = None
    receive: _Number = None


class _HarRead(msgspec.Struct):
    at_ms: int | float
    size: int


class _Own(msgspec.Struct):
    """Fields of wiretape's own archives only; `end_ms` is there if the other times are, or are known not to be."""

    connected_ms: _Number = None
    sent_ms: _Number = None
    headers_ms: _Number = None
    end_ms: _Number | msgspec.UnsetType = msgspec.UNSET
    id: str | None = None
    ended_by: EndedBy | None = None
    ended_detail: str | None = None
    protocol: str | None = None
    reset_code: str | None = None
    clock: ClockName | None = None
    gap_bytes: int = 0
    flags: list[str] = []
    labels: dict[str, str] = {}
    reads: list[_HarRead] = []


class _HarEntry(msgspec.Struct):
    started: str = msgspec.field(name="startedDateTime")
    request: _HarRequest
    response: _HarResponse
    time: _Number = None
    error: str | None = msgspec.field(default=None, name="_error")
    timings: _Timings | None = None
    messages: list[_HarMessage] | None = msgspec.field(default=None, name="_eventSourceMessages")
    sockets: list[Any] | None = msgspec.field(default=None, name="_webSocketMessages")
    own_fields: _Own | None = msgspec.field(default=None, name="_wiretape")


class _Log(msgspec.Struct):
    entries: list[msgspec.Raw]


class _Archive(msgspec.Struct):
    log: _Log


_archive = msgspec.json.Decoder(_Archive)
_entry = msgspec.json.Decoder(_HarEntry, strict=True)


class _TimedBody(NamedTuple):
    """A body and its pieces; `missing` bytes of it are not in the archive; `is_lost`: their number is unknown."""

    data: bytes
    at_ns: list[int]
    sizes: list[int]
    missing: int = 0
    is_lost: bool = False
    is_coarse: bool = False
    is_rebuilt: bool = False
    note: str | None = None


def read(data: Data, source: ImportedFile) -> Iterator[ImportedExchange | Unimportable]:
    """Yield the exchanges of an archive. Raises `NotImportable`."""
    for number, raw in enumerate(_entries(data[:].removeprefix(_BOM))):
        place = f"entry {number}"
        results = imported.attempt(place, partial(_imported, place, raw))
        yield from (results,) if isinstance(results, Unimportable) else results


def _entries(data: bytes) -> Sequence[bytes | msgspec.Raw]:
    """Return the entries of an archive as JSON, also of one in which some are broken. Raises `NotImportable`."""
    entries: Sequence[bytes | msgspec.Raw]
    try:
        entries = _archive.decode(data).log.entries
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        begin = _ENTRIES.search(data)
        if begin is None:
            raise NotImportable(f"it is no HTTP archive ({error})") from error
        entries = list(_elements(data, begin.end()))  # one broken entry must not cost the others
    if not entries:
        raise NotImportable("the archive has no entries")
    return entries


def _elements(data: bytes, begin: int) -> Iterator[bytes]:
    """Yield the elements of an array by their brackets alone; the last one may be cut off."""
    depth = 0
    for token in _TOKEN.finditer(data, begin):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        if depth < 0 or (not depth and token[0] == b","):
            yield data[begin : token.start()]
            begin = token.end()
        if depth < 0:
            return
    yield data[begin:]


def _imported(place: str, raw: bytes | msgspec.Raw) -> Sequence[ImportedExchange | Unimportable]:
    """Return an exchange, after the note about it if there is one. Raises `ValueError`."""
    entry = _entry.decode(raw)
    own_fields, response = entry.own_fields or _Own(), entry.response
    if entry.sockets is not None:
        raise ValueError("it is a WebSocket, and an archive does not have its bytes")
    if entry.own_fields is None and not entry.request.url.lower().startswith(("http://", "https://")):
        raise ValueError("its URL is not one of HTTP")
    ended_by, detail = _ending(entry)
    started = datetime.fromisoformat(entry.started)
    if started.tzinfo is None:
        raise ValueError(f"startedDateTime has no time zone: {entry.started}")
    status, marks = response.status or None, _marks(entry)
    headers, was_coded = imported.decoded(_headers(response.headers))
    # Archives of wiretape name HTTP/1.1 where the protocol is not known.
    version = entry.response.version or entry.request.version if entry.own_fields is None else entry.own_fields.protocol
    protocol = imported.protocol(version or "")
    request, request_size = _request_body(entry)
    body = _body(entry, started, marks.end_ns, was_coded=was_coded)
    if entry.own_fields is None and ended_by == "end" and (200 <= response.status < 300):
        _require_body(entry, body)
    exchange = ImportedExchange(
        place=place,
        id=own_fields.id if own_fields.id and _ID.fullmatch(own_fields.id) else None,
        started=started,
        stamp=entry.started,
        method=entry.request.method,
        url=entry.request.url,
        request_headers=_headers(entry.request.headers),
        request=request,
        request_size=request_size,
        status=status,
        response_headers=headers,
        response_trailers=_headers(response.trailers),
        protocol=protocol,
        framing=imported.framing(entry.request.method, status, headers, protocol) if status else None,
        connected_ns=marks.connected_ns,
        sent_ns=marks.sent_ns,
        headers_ns=marks.headers_ns if status else None,
        end_ns=max([marks.end_ns, *body.at_ns[-1:]]) if marks.end_ns is not None else None,
        body=body.data,
        at_ns=body.at_ns,
        sizes=body.sizes,
        missing=body.missing,
        is_lost=body.is_lost or own_fields.clock == "none",
        ended_by=ended_by,
        ended_detail=detail,
        reset_code=own_fields.reset_code if RESET_CODE.fullmatch(own_fields.reset_code or "") else None,
        is_coarse=body.is_coarse or "coarse_clock" in own_fields.flags,
        is_rebuilt=body.is_rebuilt or was_coded or "rebuilt" in own_fields.flags,
        labels=own_fields.labels,
    )
    return [exchange] if body.note is None else [Unimportable(place, body.note, is_note=True), exchange]


def _request_body(entry: _HarEntry) -> tuple[bytes | None, int | None]:
    """Return the body of a request and its size, None if unknown. An empty text may stand for a missing body."""
    post, stated = entry.request.post or _PostData(), entry.request.body_size
    size = int(stated) if stated is not None and stated >= 0 else None
    body = _bytes(post.text, post.encoding)
    if not body and size == 0:
        return b"", 0
    if body == b"" and (size or post.params or imported.has_body(_headers(entry.request.headers))):
        body = None
    return body, size


def _require_body(entry: _HarEntry, body: _TimedBody) -> None:
    """Raise `ValueError` unless the archive has the whole body of an answer: without it, nobody knows how it ended."""
    headers, size = _headers(entry.response.headers), len(body.data)
    if imported.framing(entry.request.method, entry.response.status, headers) == "none":
        return
    if body.missing:
        part = f"only {counted(size, 'byte')}" if size else "nothing"
        raise ValueError(f"the archive has {part} of its body of {body.missing + size:,} bytes")
    kind = entry.response.content.kind  # the one source where the headers were left out of the archive
    if not size and (imported.promises_body(headers, kind) or (body.is_lost and not imported.has_length(headers))):
        raise ValueError("its body was streamed past the program that wrote the archive, which kept nothing of it")


def _ending(entry: _HarEntry) -> tuple[EndedBy, str | None]:
    """Return the `ended_by` of an exchange, and its message. Raises `ValueError` if it still ran, or never began."""
    if entry.own_fields is not None:
        ended_by = next((name for name in ENDED_BY if name == entry.own_fields.ended_by), None)
        if ended_by is None:
            raise ValueError("it still ran when it was exported")
        return ended_by, entry.own_fields.ended_detail
    error = entry.response.error or entry.error
    ended_by = next((ended_by for word, ended_by in _ERRORS if error and word in error), None)
    if ended_by is None and not entry.response.status:
        raise ValueError(f"it has no answer ({error or 'it was blocked, or had not come'})")
    return ended_by or "end", error


class _HarMarks(NamedTuple):
    """When the phases of an exchange ended."""

    connected_ns: int | None
    sent_ns: int | None
    headers_ns: int | None
    end_ns: int | None


def _marks(entry: _HarEntry) -> _HarMarks:
    phases, own_fields = entry.timings or _Timings(), entry.own_fields
    if own_fields is not None and own_fields.end_ms is not msgspec.UNSET:  # its phases are 0 if unknown
        own_marks = (own_fields.connected_ms, own_fields.sent_ms, own_fields.headers_ms, own_fields.end_ms)
        return _HarMarks(*(None if at is None else round(at * 1e6) for at in own_marks))
    if not phases.wait and not phases.receive:  # 0 may stand for an unknown time: every answer takes some
        phases = _Timings()
    queued = sum(value for value in (phases.blocked, phases.dns) if value is not None and value > 0)
    connected = _end_of(queued, phases.connect)
    sent = _end_of(queued if connected is None else connected, phases.send)
    headers = _end_of(sent, phases.wait)
    end = _end_of(headers, phases.receive)
    marks = (connected, sent, headers if phases.wait else None, end)
    return _HarMarks(*(None if at is None else round(at * 1e6) for at in marks))


def _end_of(start: float | None, phase: _Number) -> float | None:
    return None if start is None or phase is None or phase < 0 else start + phase


def _headers(pairs: Sequence[_Pair]) -> Headers:
    return imported.encoded((pair.name or "", pair.value or "") for pair in pairs)


def _bytes(text: str | None, encoding: str | None) -> bytes | None:
    if text is None or encoding != "base64":
        return None if text is None else text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its base64 is broken ({error})") from error


def _body(entry: _HarEntry, started: datetime, end_ns: int | None, *, was_coded: bool) -> _TimedBody:
    content, messages, own_fields = entry.response.content, entry.messages or [], entry.own_fields or _Own()
    data = _bytes(content.text, content.encoding)
    # To the microsecond: a float of seconds since the epoch does not hold more.
    epoch = started.timestamp()
    times = [None if event.time is None else round((event.time - epoch) * 1e6) * 1000 for event in messages]
    if messages and not data:
        blocks = [_block(event) for event in messages]
        data, ends = b"".join(blocks), [*itertools.accumulate(map(len, blocks))]
        return _timed(data, ends, times, end_ns)._replace(is_rebuilt=True)
    if data is None:
        is_known = content.size is not None and content.size >= 0
        missing = own_fields.gap_bytes or (int(content.size or 0) if is_known else 0)
        return _TimedBody(b"", [], [], missing, is_lost=not is_known)
    missing = own_fields.gap_bytes
    # Where a content coding was undone, some programs give the size before; a text may lack the mark of its encoding.
    if entry.own_fields is None and not was_coded and content.size is not None and content.size > len(data) + len(_BOM):
        missing = int(content.size) - len(data)
    sizes = [item.size for item in own_fields.reads]
    if sizes and sum(sizes) == len(data) and not was_coded:
        return _TimedBody(data, [round(item.at_ms * 1e6) for item in own_fields.reads], sizes, missing)
    ends, note = _ends(data, messages), None
    kind = imported.header(_headers(entry.response.headers), "content-type") or ""
    is_foreign_stream = entry.own_fields is None and kind.startswith("text/event-stream")
    if not ends and is_foreign_stream and (original := _misread(content)) is not None:
        data, ends, note = original, _ends(original, messages), "its text was not read as UTF-8: it has been put right"
    body = _timed(data, ends, times, end_ns)
    if not body.at_ns and any(at_ns is not None for at_ns in times):
        note = "the times of its events go backwards, or are of other events"
    return body._replace(note=note, missing=missing)


def _misread(content: _Content) -> bytes | None:
    """Return the bytes of a text that was not read as the UTF-8 that an event stream is; None if it cannot be one."""
    try:
        data = bytes(_WINDOWS_1252[character] for character in content.text or "")
        is_other = data.decode() != content.text
    except (KeyError, UnicodeDecodeError):
        return None
    return data if is_other else None


def _block(message: _HarMessage) -> bytes:
    event, id = message.event or message.type or "message", message.id or ""
    if set(event + id) & {"\r", "\n"}:
        raise ValueError("the name or the id of an event is of several lines")
    lines = [f"event: {event}"] * (event != "message") + [f"id: {id}"] * bool(id)
    return "\n".join([*lines, *(f"data: {line}" for line in (message.data or "").split("\n")), "", ""]).encode()


def _ends(data: bytes, messages: Sequence[_HarMessage]) -> list[int]:
    """Return the ends of the events in a body; nothing unless they are those that the archive has."""
    if not messages:
        return []
    cursor, ends = EventCursor(data), list[int]()
    while cursor.at < len(data):
        item = cursor.step()
        if isinstance(item, Event):
            if len(ends) == len(messages) or item.data != messages[len(ends)].data:
                return []
            ends.append(item.end)
    return ends if len(ends) == len(messages) else []


def _timed(data: bytes, ends: list[int], times: list[int | None], end_ns: int | None) -> _TimedBody:
    """Return a body whose pieces end where its events do, at their times; data after them came by the end."""
    known_ns = [at_ns for at_ns in times if at_ns is not None]
    is_ordered = all(earlier <= later for earlier, later in itertools.pairwise([0, *known_ns]))
    if not ends or len(known_ns) < len(ends) or not is_ordered:
        return _TimedBody(data, [], [])
    if data[ends[-1] :].strip() and end_ns is not None:
        ends, known_ns = [*ends, len(data)], [*known_ns, max(end_ns, known_ns[-1])]
    ends[-1] = len(data)
    sizes = [later - earlier for earlier, later in itertools.pairwise([0, *ends])]
    return _TimedBody(data, known_ns, sizes, is_coarse=True)
