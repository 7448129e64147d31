"""A request as it came from a client."""

from dataclasses import dataclass, field
from typing import NamedTuple

from wiretape.recorder.relay import guard
from wiretape.recorder.relay.guard import Refusal

Headers = list[tuple[bytes, bytes]]
HTTP2 = "2"
"""The version of a request that came over HTTP/2."""


class Priority(NamedTuple):
    """The priority that a client of HTTP/2 gives a stream among those of its connection, by the client's numbers."""

    stream: int
    parent: int
    weight: int
    is_exclusive: bool


@dataclass(slots=True, eq=False)
class Request:
    """A request with its head; `pieces` are the body bytes received since the last `take`."""

    method: str
    target: bytes
    headers: Headers
    """Names in lower case; of HTTP/2, `:authority` is the first one, as `host`."""
    version: str
    keeps: bool
    spelling: dict[bytes, bytes] = field(default_factory=dict)
    """Each name as the client writes it, by its lower case."""
    pieces: list[bytes] = field(default_factory=list)
    complete: bool = False
    has_news: bool = False
    trailers: Headers | None = None
    """The headers after the body, which only HTTP/2 has here."""
    stream: int = 0
    """The number of its stream of HTTP/2."""
    scheme: bytes = b""
    """The scheme of its URL, which HTTP/1.1 has in absolute targets only."""
    priority: Priority | None = None
    padding: int = 0
    """Bytes of padding in the newest part of the body."""
    refusal: Refusal | None = None
    """The refusal of a head that is too large; `headers` are those before the limit."""

    @property
    def origin(self) -> bytes:
        """The origin that it was sent to, which is wiretape's own unless it came through a proxy."""
        return b"%b://%b" % (self.scheme or b"http", guard.host(self.headers))

    def take(self) -> bytes:
        """Return the body bytes received since the last call."""
        body = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        return body
