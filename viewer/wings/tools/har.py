"""Exchanges as an HTTP archive: HAR 1.2 as softwareishard.com specifies it, with the fields that Chrome adds.

Each event of a stream is in `_eventSourceMessages` at the timestamp of the read that completed it, each message of a
WebSocket in `_webSocketMessages`; `_trailers` of a response are its trailers. What HAR has no place for (outcome,
labels, the reads, which times are known) is in `_wiretape`. Headers are as stored: redacted. Of the timings, `blocked`,
`dns` and `ssl` are not known apart (-1): `connect` holds them. `send`, `wait` and `receive` may not be -1 by the
specification: a phase that was never reached took 0 ms, the one in which the exchange ended lasted until then.

Everything beyond ASCII is escaped, so that an archive is exact and harmless on a terminal. Entries are written as they
come. Reading them is left to `queries`.
"""

import base64
import json
from collections.abc import Iterable
from datetime import timedelta
from typing import BinaryIO, Final
from urllib.parse import parse_qsl, urlsplit

from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.facts import PROTOCOLS
from wiretape.recorder.plurals import counted
from wiretape.viewer.record import rows, units
from wiretape.viewer.record.rows import Headers, RequestRow
from wiretape.viewer.source.tape.exchange import FullExchange

_PAGE: Final = "page_1"
"""The id of the only page of an archive, to which all entries belong."""
_PHASES: Final = ("connect", "send", "wait", "receive")
_OWN: Final = (
    "id", "outcome", "outcome_detail", "ended_by", "ended_detail", "clock", "flags", "labels", "protocol", "reset_code",
    "gap_bytes",
)  # fmt: skip


def write(out: BinaryIO, found: Iterable[FullExchange], version: str) -> int:
    """Write an archive, one entry in each line, and return their count; `version` is wiretape's."""
    creator = json.dumps({"name": "wiretape", "version": version})
    out.write(f'{{"log": {{"version": "1.2", "creator": {creator}, "entries": ['.encode())
    count, earliest = 0, ""
    for one in found:
        out.write(f"{',' if count else ''}\n{json.dumps(entry(one), separators=(',', ':'))}".encode())
        earliest = min(earliest or one.row.started_at, one.row.started_at)
        count += 1
    # Safari opens no archive without a page; it is the last part, as only then the earliest time is known.
    timings = {"onContentLoad": -1, "onLoad": -1}
    page = {"startedDateTime": earliest, "id": _PAGE, "title": "wiretape", "pageTimings": timings}
    out.write(f'\n], "pages": {json.dumps([page] if count else [])}}}}}\n'.encode())
    return count


def entry(one: FullExchange) -> JsonObject:
    """Return one exchange as an entry of an archive."""
    phases = timings(one)
    found = {
        "pageref": _PAGE,
        "startedDateTime": one.row.started_at,
        "time": round(sum(phases[name] for name in _PHASES if phases[name] > 0), 6),
        "request": _request(one.request, _version(one)),
        "response": _response(one),
        "cache": {},
        "timings": phases,
        "_resourceType": "fetch",
    }
    if one.decoded.framing == "websocket":
        found |= {"_resourceType": "websocket", "_webSocketMessages": _frames(one)}
    elif one.decoded.stream:
        found["_eventSourceMessages"] = _messages(one)
    if one.row.outcome != "complete":
        found["comment"] = one.ending
    own = {name: getattr(one.row, name) for name in _OWN}
    marks = {"connected": one.exchange.connected_ns, "sent": one.exchange.sent_ns, "headers": one.exchange.headers_ns}
    own |= {f"{name}_ms": units.ms(at_ns) for name, at_ns in (marks | {"end": one.exchange.end_ns}).items()}
    return found | {"_wiretape": own | {"reads": [rows.read(read) for read in one.reads]}}


def timings(one: FullExchange) -> dict[str, float]:
    """Return the phases of an exchange, in ms; of one that is still open, up to its last read."""
    marks = [one.exchange.connected_ns, one.exchange.sent_ns, one.exchange.headers_ns]
    while marks and marks[-1] is None:
        marks.pop()
    found: dict[str, float] = {"blocked": -1, "dns": -1, "ssl": -1, "connect": -1, "send": 0, "wait": 0, "receive": 0}
    before = 0
    for name, at in zip(_PHASES, [*marks, *[one.last_ns] * (len(_PHASES) - len(marks))], strict=True):
        if at is not None:
            found[name] = round(max(at - before, 0) / 1e6, 6)
            before = max(at, before)
    return found


def _version(one: FullExchange) -> str:
    """Return the protocol of an exchange; recordings that do not name it are of HTTP/1.1."""
    return PROTOCOLS.get(one.exchange.protocol or "", "" if one.exchange.is_imported else "HTTP/1.1")


def _request(request: RequestRow, version: str) -> JsonObject:
    url = request.exchange.upstream + request.exchange.path
    found = {
        "method": request.exchange.method,
        "url": url,
        "httpVersion": version,
        "cookies": [],
        "headers": _headers(request.headers),
        "queryString": [{"name": name, "value": value} for name, value in _query(url)],
        "headersSize": -1,
        "bodySize": -1 if request.size is None and not request.body else request.known_size,
    }
    return found | ({"postData": _post_data(request)} if request.known_size else {})


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:  # not a URL, or too many parameters to read safely
        return []


def _post_data(request: RequestRow) -> JsonObject:
    body = request.body or b""
    text, encoding = _text(body)
    found = {"mimeType": _header(request.headers, "content-type"), "text": text}
    if encoding:  # HAR 1.2 has no name for it here
        found["_encoding"] = encoding
    if len(body) < request.known_size:
        found["comment"] = f"the first {len(body):,} of {counted(request.known_size, 'byte')}: the tape keeps no more"
    return found


def _response(one: FullExchange) -> JsonObject:
    status, headers = one.row.status, one.exchange.headers.response
    answered = status is not None
    found = {
        "status": status if answered else 0,
        "statusText": "",
        "httpVersion": _version(one) if answered else "",
        "cookies": [],
        "headers": _headers(headers),
        "content": _content(one, _header(headers, "content-type")),
        "redirectURL": _header(headers, "location"),
        "headersSize": -1,
        "bodySize": one.exchange.bytes if answered and one.row.bytes is not None else -1,
    }
    if one.exchange.headers.trailers:
        found["_trailers"] = _headers(one.exchange.headers.trailers)
    return found if answered else found | {"_error": one.ending}


def _content(one: FullExchange, mime_type: str) -> JsonObject:
    if one.decoded.framing == "websocket":
        return {"size": 0, "mimeType": "x-unknown", "text": ""}
    if one.row.bytes is None:  # an import that did not have it
        return {"size": -1, "mimeType": mime_type or "x-unknown"}
    text, encoding = _text(one.decoded.data)
    found: JsonObject = {"size": len(one.decoded.data)}
    if one.decoded.data != one.body:
        found["compression"] = len(one.decoded.data) - len(one.body)
    found |= {"mimeType": mime_type or "x-unknown", "text": text}
    return found | ({"encoding": encoding} if encoding else {})


def _text(body: bytes) -> tuple[str, str | None]:
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def _seconds(one: FullExchange, at_ns: int | None) -> float | None:
    return None if at_ns is None else (one.started + timedelta(microseconds=at_ns // 1000)).timestamp()


def _messages(one: FullExchange) -> list[JsonObject]:
    return [
        {"time": _seconds(one, item.at_ns), "eventName": item.type, "eventId": item.id, "data": item.data}
        for item in one.decoded.items()
        if item.kind == "event"
    ]


def _frames(one: FullExchange) -> list[JsonObject]:
    """Return the messages of a WebSocket, and its control frames; binary data are in base64, as Chrome has them."""
    opcodes = {"event": 1, "close": 8, "ping": 9, "pong": 10}
    return [
        {"type": "send" if item.sender == "client" else "receive", "time": _seconds(one, item.at_ns)}
        | {"opcode": 2 if encoding and item.kind == "event" else opcodes[item.kind], "data": data}
        for item in one.decoded.items()
        if item.kind in opcodes
        for data, encoding in [_text(one.decoded.data[item.start : item.end])]
    ]


def _headers(stored: Headers) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in stored]


def _header(stored: Headers, wanted: str) -> str:
    return next((str(value) for name, value in stored if name.lower() == wanted), "")
