"""Pure: the form of the messages of a call by gRPC, gRPC-Web or Connect, and the status that ends it.

Sources: gRPC over HTTP2 and gRPC-Web (grpc/grpc, doc/PROTOCOL-HTTP2.md and PROTOCOL-WEB.md), the Connect protocol
(connectrpc.com/docs/protocol). A unary call by Connect has no framing and is no stream.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.dialect import ReportedError
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.framings import length_prefixed
from wiretape.recorder.decode.values import text

RpcFraming = Literal["grpc", "grpc-web", "connect"]
"""The framing of a stream of length-prefixed messages, which is also its API where no dialect knows the payloads."""

FRAMINGS: Final = frozenset({"grpc", "grpc-web", "connect"})

STATUSES: Final = (
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
"""The names of gRPC's status codes, in their order from 0."""

_CODINGS: Final = {"grpc": "grpc-encoding", "grpc-web": "grpc-encoding", "connect": "connect-content-encoding"}
"""The header with the coding of compressed messages, by framings."""
_TYPE: Final = re.compile(r"application/(grpc-web(?:-text)?|grpc|connect(?=\+))(?:\+(.+))?")


class MessageType(NamedTuple):
    """The framing of a stream of messages, and whether their payloads are JSON."""

    framing: RpcFraming
    is_json: bool


class CallStatus(NamedTuple):
    """The status of a call; `error` is None if it succeeded."""

    error: ReportedError | None


def message_type(content_type: str | None) -> MessageType | None:
    """Return the type of the messages that a content type names; None if it is of no stream of messages."""
    match = _TYPE.fullmatch((content_type or "").partition(";")[0].strip().lower())
    if match is None:
        return None
    framing: Any = match[1].removesuffix("-text")
    return MessageType(framing, match[2] == "json")


def message_coding(exchange: Exchange, framing: str) -> str | None:
    """Return the coding of the messages that are compressed."""
    return dict(reversed(exchange.headers.response)).get(_CODINGS[framing])


def status_around(exchange: Exchange, framing: str, *, is_empty: bool) -> CallStatus | None:
    """Return gRPC's status in the trailers of an answer; in its head if the body is empty; None if there is none."""
    if framing == "connect":
        return None
    of_head = exchange.headers.response if is_empty else ()
    return _status(exchange.headers.trailers) or _status(of_head)


def status_in(payload: bytes, framing: str) -> CallStatus | None:
    """Return the status in the payload of the message that ends a stream; None if it has none."""
    if framing == "connect":
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        error = value.get("error")
        if error is None:
            return CallStatus(None)
        details = error if isinstance(error, dict) else {}
        return CallStatus(ReportedError(text(details.get("code")) or "unknown", text(details.get("message")) or None))
    lines = (line.partition(":") for line in payload.decode("utf-8", "replace").splitlines())
    return _status((name.strip().lower(), value.strip()) for name, _, value in lines)


def coded_payloads(headers: Iterable[Sequence[str]], body: bytes) -> Iterator[bytes]:
    """Yield the payloads of messages, of a request or an answer, that came compressed, or all if they came in base64.

    `body` is without its content coding. A payload that cannot be decoded is left out.
    """
    values = {name: value for name, value in headers}
    call = message_type(values.get("content-type"))
    if call is None:
        return
    coding = values.get(_CODINGS[call.framing])
    is_base64 = encoding.is_base64(values["content-type"])
    data = encoding.plain(encoding.BASE64, body, (len(body),)).data if is_base64 else body
    for message in length_prefixed.messages(data, call.framing):
        if message.flags & length_prefixed.COMPRESSED:
            yield encoding.plain(coding, data[message.payload], (message.end - message.payload.start,)).data
        elif is_base64:
            yield data[message.payload]


def _status(headers: Iterable[tuple[str, str]]) -> CallStatus | None:
    values = dict(headers)
    code = values.get("grpc-status")
    if code is None:
        return None
    if code == "0":
        return CallStatus(None)
    message = unquote(values.get("grpc-message", ""), errors="replace")
    is_known = code.isascii() and code.isdigit() and len(code) <= 2 and int(code) < len(STATUSES)
    return CallStatus(ReportedError(STATUSES[int(code)] if is_known else code or "unknown", message or None))
