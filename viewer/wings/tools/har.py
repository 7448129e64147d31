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
from wiretape.viewer.exchange.opened import FullExchange
from wiretape.viewer.record import rows, units
from wiretape.viewer.record.rows import Headers, RequestRow

_PAGE: Final = "page_1"
"""The id of the only page of an archive, to which all entries belong."""
_PHASES: Final = ("connect", "send", "wait", "receive")
_OWN: Final = (
    "id", "outcome", "outcome_detail", "ended_by", "ended_detail", "clock", "flags", "labels", "protocol", "reset_code",
    "gap_bytes",
)  # fmt: skip


def write(out: BinaryIO, all_exchanges: Iterable[FullExchange], version: str) -> int:
    """Write an archive, one entry in each line, and return their count; `version` is wiretape's."""
    creator = json.dumps({"name": "wiretape", "version": version})
    out.write(f'{{"log": {{"version": "1.2", "creator": {creator}, "entries": ['.encode())
    count, earliest = 0, ""
    for full in all_exchanges:
        out.write(f"{',' if count else ''}\n{json.dumps(entry(full), separators=(',', ':'))}".encode())
        earliest = min(earliest or full.row.started_at, full.row.started_at)
        count += 1
    # Safari opens no archive without a page; it is the last part, as only then the earliest time is known.
    timings = {"onContentLoad": -1, "onLoad": -1}
    page = {"startedDateTime": earliest, "id": _PAGE, "title": "wiretape", "pageTimings": timings}
    out.write(f'\n], "pages": {json.dumps([page] if count else [])}}}}}\n'.encode())
    return count


def entry(full: FullExchange) -> JsonObject:
    """Return one exchange as an entry of an archive."""
    phases = timings(full)
    fields = {
        "pageref": _PAGE,
        "startedDateTime": full.row.started_at,
        "time": round(sum(phases[name] for name in _PHASES if phases[name] > 0), 6),
        "request": _request(full.request, _version(full)),
        "response": _response(full),
        "cache": {},
        "timings": phases,
        "_resourceType": "fetch",
    }
    if full.decoded.framing == "websocket":
        fields |= {"_resourceType": "websocket", "_webSocketMessages": _frames(full)}
    elif full.decoded.stream:
        fields["_eventSourceMessages"] = [
            {"time": _seconds(full, item.at_ns), "eventName": item.type, "eventId": item.id, "data": item.data}
            for item in full.decoded.items()
            if item.kind == "event"
        ]
    if full.row.outcome != "complete":
        fields["comment"] = full.ending
    own_fields = {name: getattr(full.row, name) for name in _OWN}
    marks = {
        "connected": full.exchange.connected_ns,
        "sent": full.exchange.sent_ns,
        "headers": full.exchange.headers_ns,
    }
    own_fields |= {f"{name}_ms": units.ms(at_ns) for name, at_ns in (marks | {"end": full.exchange.end_ns}).items()}
    return fields | {"_wiretape": own_fields | {"reads": [rows.read_row(read) for read in full.reads]}}


def timings(full: FullExchange) -> dict[str, float]:
    """Return the phases of an exchange, in ms; of one that is still open, up to its last read."""
    marks = [full.exchange.connected_ns, full.exchange.sent_ns, full.exchange.headers_ns]
    while marks and marks[-1] is None:
        marks.pop()
    phases: dict[str, float] = {"blocked": -1, "dns": -1, "ssl": -1, "connect": -1, "send": 0, "wait": 0, "receive": 0}
    end_ns = 0
    for name, at in zip(_PHASES, [*marks, *[full.last_ns] * (len(_PHASES) - len(marks))], strict=True):
        if at is not None:
            phases[name] = round(max(at - end_ns, 0) / 1e6, 6)
            end_ns = max(at, end_ns)
    return phases


def _version(full: FullExchange) -> str:
    """Return the protocol of an exchange; recordings that do not name it are of HTTP/1.1."""
    return PROTOCOLS.get(full.exchange.protocol or "", "" if full.exchange.is_imported else "HTTP/1.1")


def _request(request: RequestRow, version: str) -> JsonObject:
    url = request.exchange.upstream + request.exchange.path
    fields = {
        "method": request.exchange.method,
        "url": url,
        "httpVersion": version,
        "cookies": [],
        "headers": _headers(request.headers),
        "queryString": [{"name": name, "value": value} for name, value in _query(url)],
        "headersSize": -1,
        "bodySize": -1 if request.size is None and not request.body else request.known_size,
    }
    if request.known_size:
        body = request.body or b""
        text, encoding = _text(body)
        post = {"mimeType": _header(request.headers, "content-type"), "text": text}
        if encoding:  # HAR 1.2 has no name for it here
            post["_encoding"] = encoding
        if len(body) < request.known_size:
            size = counted(request.known_size, "byte")
            post["comment"] = f"the first {len(body):,} of {size}: the tape keeps no more"
        fields["postData"] = post
    return fields


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:  # not a URL, or too many parameters to read safely
        return []


def _response(full: FullExchange) -> JsonObject:
    status, headers = full.row.status, full.exchange.headers.response
    answered = status is not None
    fields = {
        "status": status if answered else 0,
        "statusText": "",
        "httpVersion": _version(full) if answered else "",
        "cookies": [],
        "headers": _headers(headers),
        "content": _content(full, _header(headers, "content-type")),
        "redirectURL": _header(headers, "location"),
        "headersSize": -1,
        "bodySize": full.exchange.bytes if answered and full.row.bytes is not None else -1,
    }
    if full.exchange.headers.trailers:
        fields["_trailers"] = _headers(full.exchange.headers.trailers)
    return fields if answered else fields | {"_error": full.ending}


def _content(full: FullExchange, mime_type: str) -> JsonObject:
    if full.decoded.framing == "websocket":
        return {"size": 0, "mimeType": "x-unknown", "text": ""}
    if full.row.bytes is None:  # an import that did not have it
        return {"size": -1, "mimeType": mime_type or "x-unknown"}
    text, encoding = _text(full.decoded.data)
    fields: JsonObject = {"size": len(full.decoded.data)}
    if full.decoded.data != full.body:
        fields["compression"] = len(full.decoded.data) - len(full.body)
    fields |= {"mimeType": mime_type or "x-unknown", "text": text}
    return fields | ({"encoding": encoding} if encoding else {})


def _text(body: bytes) -> tuple[str, str | None]:
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def _seconds(full: FullExchange, at_ns: int | None) -> float | None:
    return None if at_ns is None else (full.started + timedelta(microseconds=at_ns // 1000)).timestamp()


def _frames(full: FullExchange) -> list[JsonObject]:
    """Return the messages of a WebSocket, and its control frames; binary data are in base64, as Chrome has them."""
    opcodes = {"event": 1, "close": 8, "ping": 9, "pong": 10}
    return [
        {"type": "send" if item.sender == "client" else "receive", "time": _seconds(full, item.at_ns)}
        | {"opcode": 2 if encoding and item.kind == "event" else opcodes[item.kind], "data": data}
        for item in full.decoded.items()
        if item.kind in opcodes
        for data, encoding in [_text(full.decoded.data[item.start : item.end])]
    ]


def _headers(pairs: Headers) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in pairs]


def _header(pairs: Headers, header_name: str) -> str:
    return next((str(value) for name, value in pairs if name.lower() == header_name), "")
