"""Pure: the flows that mitmproxy saves (`mitmdump -w FILE`): a netstring with a type at its end for each.

mitmproxy keeps the times of an answer's beginning and end, but not of its pieces; it keeps no bytes of an answer that
broke off, or that it streamed without storing. T0 is the time at which it had received the request, before sending it
on.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from wiretape.recorder.facts import EndedBy
from wiretape.viewer import imported
from wiretape.viewer.imported import Data, ImportedExchange, ImportedFile, NotImportable, Unimportable

_SIZE: Final = re.compile(rb"(\d{1,12}):")
_SCALARS: Final[dict[bytes, Callable[[bytes], Any]]] = {
    b",": bytes, b";": bytes.decode, b"#": int, b"^": float, b"!": b"true".__eq__, b"~": lambda _: None,
}  # fmt: skip
"""The converter for a value of each type."""
_TABLE: Final = b"}"
_TYPES: Final = frozenset((b"]", _TABLE, *_SCALARS))
_ERRORS: Final[tuple[tuple[str, EndedBy], ...]] = (
    ("name or service not known", "dns"), ("nodename nor servname", "dns"), ("getaddrinfo", "dns"),
    ("refused", "refused"), ("connect call failed", "refused"), ("certificate", "tls"), ("tls", "tls"),
    ("client disconnected", "client"), ("connection killed", "client"), ("timed out", "connect_timeout"),
    ("without sending complete", "eof"), ("reset", "reset"), ("closed", "eof"), ("disconnected", "eof"),
    ("protocol error", "protocol"),
)  # fmt: skip
"""mitmproxy's messages about failed flows, in lower case, and the `ended_by` of each."""

_Time = float | int | None


class _FlowSide(msgspec.Struct):
    headers: list[tuple[bytes, bytes]]
    content: bytes | None
    timestamp_start: float | int
    timestamp_end: _Time = None


class _FlowRequest(_FlowSide, kw_only=True):
    method: bytes
    scheme: bytes
    host: str
    port: int
    path: bytes


class _FlowResponse(_FlowSide, kw_only=True):
    status_code: int
    http_version: bytes = b""
    trailers: list[tuple[bytes, bytes]] | None = None


class _FlowError(msgspec.Struct):
    msg: str
    timestamp: _Time = None


class _FlowServer(msgspec.Struct):
    timestamp_tcp_setup: _Time = None
    timestamp_tls_setup: _Time = None


class _MitmFlow(msgspec.Struct):
    request: _FlowRequest
    response: _FlowResponse | None = None
    error: _FlowError | None = None
    server_conn: _FlowServer | None = None
    websocket: Any = None


def read(data: Data, source: ImportedFile) -> Iterator[ImportedExchange | Unimportable]:
    """Yield the exchanges of a file of flows. Raises `NotImportable`."""
    at, number = 0, 0
    while at < len(data):
        place = f"flow {number}"
        size = _SIZE.match(data, at)
        end = size.end() + int(size[1]) if size else 0
        kind = data[end : end + 1]
        if size is None or kind not in _TYPES or (kind != _TABLE and not number):
            cut_off = (
                "the file ends within it" if end >= len(data) else "it is damaged, and the next flow cannot be found"
            )
            if not number:
                raise NotImportable(f"it holds no flow of mitmproxy: {cut_off}")
            yield Unimportable(place, cut_off)
            return
        yield imported.attempt(place, partial(_imported, place, data[at : end + 1]))
        at, number = end + 1, number + 1


def _parsed(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the value at an offset, and where it ends. Raises `ValueError`."""
    size = _SIZE.match(data, at)
    if size is None or not depth:
        raise ValueError("it is damaged")
    start = size.end()
    end = start + int(size[1])
    payload, kind = data[start:end], data[end : end + 1]
    if kind in (b"]", _TABLE):
        parts = []
        at = 0
        while at < len(payload):
            value, at = _parsed(payload, at, depth - 1)
            parts.append(value)
        if kind == b"]":
            return parts, end + 1
        if any(isinstance(key, list | dict) for key in parts[::2]):
            raise ValueError("it is damaged: a name in it is a list")
        return dict(zip(parts[::2], parts[1::2], strict=True)), end + 1
    if kind not in _SCALARS:
        raise ValueError("it is damaged")
    return _SCALARS[kind](payload), end + 1


def _imported(place: str, data: bytes) -> ImportedExchange:
    # Of values nested deeper, a hostile file would exhaust the stack.
    value, _ = _parsed(data, 0, 32)
    if not isinstance(value, dict):
        raise ValueError("it is no flow")
    if value.get("type") != "http":
        raise ValueError(f"it is a flow of {value.get('type')}, not of HTTP")
    flow = msgspec.convert(value, _MitmFlow)
    if flow.websocket is not None:
        raise ValueError("it is a WebSocket, and mitmproxy does not have its bytes")
    request, response = flow.request, flow.response
    ended_by, detail = _ending(flow)
    is_unsaid = request.content == b"" and imported.has_body(_headers(request))
    # T0 is when mitmproxy had the whole request; if the answer came earlier, when the request began.
    began, sent = request.timestamp_start, request.timestamp_end
    if sent is not None and (response is None or sent <= response.timestamp_start):
        began = sent
    end_time = flow.error.timestamp if flow.error else response.timestamp_end if response else None
    server = flow.server_conn or _FlowServer()

    def since(at: _Time) -> int | None:
        return None if at is None else round((at - began) * 1e6) * 1000

    connected_ns = since(server.timestamp_tls_setup or server.timestamp_tcp_setup)
    method = request.method.decode("latin-1")
    protocol = imported.protocol(response.http_version.decode("latin-1")) if response else None
    scheme, path = request.scheme.decode("latin-1"), request.path.decode("latin-1")
    host = f"[{request.host}]" if ":" in request.host else request.host
    port = "" if {"http": 80, "https": 443}.get(scheme) == request.port else f":{request.port}"
    return ImportedExchange(
        place=place,
        started=imported.utc(began),
        stamp=str(began),
        method=method,
        url=(f"{scheme}://{host}{port}{path if path.startswith('/') else ''}"),
        request_headers=_headers(request),
        request=None if is_unsaid else request.content,
        status=response.status_code if response else None,
        response_headers=_headers(response) if response else [],
        response_trailers=(response.trailers if response else None) or [],
        protocol=protocol,
        framing=imported.framing(method, response.status_code, _headers(response), protocol) if response else None,
        connected_ns=connected_ns if connected_ns is not None and connected_ns >= 0 else None,
        headers_ns=since(response.timestamp_start) if response else None,
        end_ns=since(end_time),
        body=(response.content if response else None) or b"",
        is_lost=response is not None and response.content is None,
        ended_by=ended_by,
        ended_detail=detail,
    )


def _ending(flow: _MitmFlow) -> tuple[EndedBy, str | None]:
    """Return the `ended_by` of a flow, and its message. Raises `ValueError` if it still ran, or its body is lost."""
    if flow.error is None:
        if flow.response is None:
            raise ValueError("it has no answer: it still ran when it was saved")
        if flow.response.content is None or _lacks_body(flow.request, flow.response):
            raise ValueError("its body was streamed past mitmproxy, which kept nothing of it")
        return "end", None
    message = flow.error.msg
    ended_by = next((ended_by for words, ended_by in _ERRORS if words in message.lower()), None)
    if ended_by is None:
        raise ValueError(f"its ending is not known: {message}")
    lost = "; mitmproxy kept nothing of the body" if flow.response and flow.response.content is None else ""
    return ended_by, message + lost


def _lacks_body(request: _FlowRequest, response: _FlowResponse) -> bool:
    """Return True if an answer is empty although its head says that it has a body."""
    headers, method = _headers(response), request.method.decode("latin-1")
    is_bare = imported.framing(method, response.status_code, headers) == "none" or response.status_code >= 300
    return not response.content and not is_bare and imported.promises_body(headers)


def _headers(side: _FlowSide) -> imported.Headers:
    return imported.regular(side.headers)
