"""The recorded facts of one exchange: one entry each, from which everything else that names it is derived.

An entry is a field of one of the records below: its name and type, its meaning and its default. The record says by
which frame of the journal the relay sends it. The tape's column, the field of `Exchange`, of an import and of the file
of losses come from there; so do, for a fact that is shown, the fields of lists, details, exports, filters and servers,
and every text about it. Adding a fact is one entry, its column in the migration, and the line of the relay that
observes it.

Integer nanoseconds (`_ns`) are since T0, the moment before the upstream request is issued. None is unknown; a number or
a truth that cannot be unknown is 0 or False until it is observed.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

EndedBy = Literal[
    "end", "eof", "length", "reset", "framing", "protocol", "dns", "refused", "tls", "connect_timeout",
    "headers_timeout", "idle_timeout", "client", "client_stalled", "local", "shutdown", "died",
]  # fmt: skip
Framing = Literal["chunked", "length", "close", "h2", "none", "websocket"]
ClockName = Literal["kernel", "loop", "imported", "none"]

ENDED_BY: Final[dict[EndedBy, str]] = {
    "end": "the HTTP body ended as framed; a body delimited by close, or a WebSocket, was closed",
    "eof": "upstream closed before the end of its framing",
    "length": "upstream closed before Content-Length was reached",
    "reset": "the upstream connection was reset",
    "framing": "upstream broke HTTP inside the body",
    "protocol": "upstream broke HTTP in the head",
    "dns": "the upstream name did not resolve",
    "refused": "upstream refused the connection",
    "tls": "the TLS handshake failed",
    "connect_timeout": "no connection within the limit",
    "headers_timeout": "no response head within the limit",
    "idle_timeout": "no byte of the body within the limit",
    "client": "the client left",
    "client_stalled": "the client stopped reading",
    "local": "wiretape's own machine had no file descriptors, ports or disk left for it, or its head was too large",
    "shutdown": "cut when the recorder stopped",
    "died": "the recorder died",
}
"""The end of the transport: a fact, not a judgement. None if it has not ended."""

FRAMINGS: Final[dict[Framing, str]] = {
    "chunked": "in chunks of HTTP/1.1",
    "length": "by Content-Length",
    "close": "by the end of the connection",
    "h2": "by frames of HTTP/2",
    "none": "an answer that has no body, as to HEAD",
    "websocket": "messages of both sides, after an upgrade",
}
"""The ways in which a body is delimited."""

CLOCKS: Final[dict[ClockName, str]] = {
    "kernel": "when a read came to this machine",
    "loop": "when wiretape took a read",
    "imported": "what another program wrote down",
    "none": "nobody knows when the body came",
}
"""The sources of the timestamps of reads."""

PROTOCOLS: Final = {"http/1.0": "HTTP/1.0", "http/1.1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}
"""The protocols spoken with upstream, by their names in TLS (ALPN), with those in a status line."""

Style = Literal["whole", "prefix", "within", "host", "path", "word"]
"""The part of a text that must match in a filter: the whole value, its beginning, a part of it; the host of a URL, or
all of it; a path, with or without its query; one of the words of a list."""


def value(
    meaning: str,
    formula: Callable[[Any], Any] | None = None,
    default: object = None,
    metric: Any = None,
    aliases: tuple[str, ...] = (),
    style: Style = "whole",
    is_shown: bool = True,
    is_indexed: bool = False,
) -> Any:
    """Define a fact or a derived value; `formula` is None where decoding gives it.

    Its `aliases` are accepted for its name; `style` is of its filter, `is_indexed` of its column.
    """
    more = {"aliases": aliases, "style": style, "is_shown": is_shown, "is_indexed": is_indexed}
    return field(default=default, metadata={"doc": meaning, "formula": formula, "metric": metric, **more})


internal: Final = partial(value, is_shown=False)
"""Define a value that no list, filter or export has as a field."""


def count(meaning: str, *, is_shown: bool = False) -> Any:
    """Define a fact that is counted from 0."""
    return value(meaning, default=0, is_shown=is_shown)


def mark(meaning: str) -> Any:
    """Define a fact that is False until it is observed; the flags show it."""
    return internal(meaning, default=False)


def kinds(entry: dataclasses.Field[Any]) -> tuple[Any, ...]:
    """Return the types of a value, None last if it can be unknown; the names of an enumeration are texts."""
    types = get_args(entry.type) if get_origin(entry.type) in (UnionType, Union) else (entry.type,)
    return tuple(str if get_origin(type) is Literal else type for type in types)


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class Begun:
    """The facts at T0, of the frame `begin`."""

    __slots__ = ()

    started_at: str = value("wall time at T0, UTC, ISO 8601; only for show", default="", is_indexed=True)
    method: str = value("of the request", default="POST")
    path: str = value("below the upstream's URL, with the query; secret values redacted", default="", style="path")
    upstream: str = value("base URL of the API server, user info redacted", default="", style="host", aliases=("host",))
    upstream_name: str | None = value(
        "the upstream's name in --upstream NAME=URL; NULL: none", aliases=("upstream.name",)
    )
    resent_from: str | None = value("the id of the exchange whose request 'resend' repeated; NULL: none")
    resent_no: int | None = value("the number of the repetition of that request, from 1; NULL: none")
    resent_in: str | None = internal("the call of 'resend' that sent it; NULL: none")
    coarse_clock: bool = mark("timestamps are not of socket reads")
    h2_offered: bool | None = internal("the client offered or spoke HTTP/2; NULL: not known, as without --intercept")
    rebuilt: bool | None = internal("built from an import's data: not the original bytes; NULL: recorded")
    asks_identity: bool | None = internal("its Accept-Encoding is that of --identity; NULL: it is the client's")
    boot_ns: int | None = internal("the machine's boot clock at T0; NULL: not known, as of an import")


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class Connected:
    """The facts about the connection, of the frames `head` and `end`: an exchange may end without a head."""

    __slots__ = ()

    connected_ns: int | None = internal("connected, TLS included; NULL on a connection that was kept")
    sent_ns: int | None = internal("request written")
    connection_reused: bool | None = value("sent on a connection kept from an exchange before; NULL: not known")
    clock: ClockName | None = value(
        f"whose time a read has: {', '.join(f'{name} ({about})' for name, about in CLOCKS.items())}; NULL: not known"
    )
    protocol: str | None = value("spoken with upstream: http/1.1, h2; NULL: no connection, or not known")


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class Answered:
    """The facts of the response's head, of the frame `head`."""

    __slots__ = ()

    status: int | None = value("HTTP status; NULL: no answer came")
    framing: Framing | None = value(f"how the body was delimited: {', '.join(FRAMINGS)}")
    headers_ns: int | None = internal("the read that completed the response head")


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class Ended:
    """The facts of the end, of the frame `end`."""

    __slots__ = ()

    bytes: int = count("body bytes that upstream sent")
    client_bytes: int | None = internal("bytes that the client sent over a WebSocket; NULL: no WebSocket")
    end_ns: int | None = internal("the body ended, or the exchange was cut")
    client_closed_ns: int | None = internal("the client was seen to have left")
    ended_by: EndedBy | None = value("how the transport ended: a fact, no judgement; NULL: still open", is_indexed=True)
    ended_detail: str | None = value("the transport's own words, redacted", style="within")
    gap_bytes: int = count("body bytes that could not be stored", is_shown=True)
    paused: int = count("times upstream waited for a slow client")
    surplus: bool = mark("upstream sent bytes after the response")
    clock_error_ns: int | None = value("timestamps may be late by this much; NULL: not known")
    client_gap_bytes: int | None = internal("of these, bytes that could not be stored")
    reset_code: str | None = value("HTTP/2 error that ended it: rst_NAME, goaway_NAME; NULL: none, or not known")


FACTS: Final = {entry.name: entry for part in (Begun, Connected, Answered, Ended) for entry in dataclasses.fields(part)}
"""Every fact that a frame brings, by its name on the tape."""


def names(*parts: type) -> tuple[str, ...]:
    """Return the names of the facts in some parts."""
    return tuple(entry.name for part in parts for entry in dataclasses.fields(part))


def reader(*parts: type) -> Callable[[Any], dict[str, Any]]:
    """Return a function that takes the facts of some parts, by name, from any record or row that has them."""
    keys = names(*parts)
    values = attrgetter(*keys)
    return lambda record: dict(zip(keys, values(record), strict=True))
