"""A client as an app sees it: a request, and the connection or the stream that takes the answer to it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import Headers, Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.relay.sockets import Ends
from wiretape.recorder.relay.upstream import Carrier, ConnectionFacts, Transport

P = ParamSpec("P")
R = TypeVar("R")

LINGER_SECONDS = 2.0
"""Time for reading a connection after its last answer: a reset on unread bytes would keep the client from it."""
FAULT = b"wiretape: a fault of its own\n"
"""The answer to a request that a fault of wiretape's own has ended."""


class App(Protocol):
    """The program behind a server: `wiretape.recorder.relay.app.HttpApp` is its base."""

    def serve(self, client: "Client", request: "Request") -> Responder | None:
        """Answer a request, at once (None) or later."""

    def client_rejected(self, refusal: Refusal) -> None:
        """Report bytes of a client that are no request; they are answered and the connection is closed."""

    def client_failed(self, error: Exception) -> None:
        """Report a fault of wiretape's own on a client's connection, which is closed."""


class Client(Protocol):
    """The client of one request: a connection of HTTP/1.1, or a stream of HTTP/2."""

    keep_seconds: float
    """Time that the connection is kept without a request; over HTTP/2 not the streams' to decide."""

    # the request

    @property
    def may_switch(self) -> bool:
        """True if the request that is answered now asks for another protocol."""

    @property
    def can_switch(self) -> bool:
        """True if the last request asks for another protocol, and has no body that would come first."""

    @property
    def stamp(self) -> int:
        """The timestamp of the last read from the client; the clock's ns."""

    @property
    def connection(self) -> object:
        """The connection, which other requests may share."""

    @property
    def ends(self) -> Ends | None:
        """Both ends of the connection, ours first; None where it is closed, or not over IPv4."""

    def hold_body(self, is_held: bool) -> None:
        """Hold the request's body back, or release it."""

    def inform(self, status: int, reason: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Send an informational response, such as 100 (Continue), before the answer.

        One that the client does not take at once is dropped: a server may send any number of them.
        """

    # the way to an API server

    def reuse(self, upstream: Upstream) -> Carrier | None:
        """Return a carrier on a connection to an API server that is open already, or None."""

    def connect_at_once(self, transport: Transport, upstream: Upstream, facts: ConnectionFacts) -> Carrier | None:
        """Return a carrier on a new connection that needs no waiting, or None: `connect` has to."""

    async def connect(self, transport: Transport, upstream: Upstream, facts: ConnectionFacts) -> Carrier:
        """Return a carrier on a new connection. Raises `UpstreamError`."""

    def keep(self, carrier: Carrier) -> None:
        """Keep a carrier's connection for another request."""

    # the answer

    def start(self, status: int, reason: bytes, headers: Headers, *, chunked: bool, closes: bool) -> None:
        """Begin an answer; `closes`: the connection ends with it."""

    def add(self, body: bytes) -> None:
        """Go on with an answer's body."""

    def add_unframed(self, data: bytes) -> None:
        """Go on with bytes outside of the answer's framing, as a server sends that breaks HTTP."""

    def add_end(self, trailers: Headers | None = None) -> None:
        """End an answer's body; `trailers` are sent over HTTP/2 only."""

    def pad(self, size: int) -> None:
        """Pad the next part of the body, if the protocol has padding."""

    def send(self, body: bytes, chunk: bytes = b"") -> bool:
        """Send more of an answer's body; return True if the kernel took all that was written at once.

        `chunk`: the same as a chunk of HTTP/1.1, if there is one.
        """

    def flush(self) -> bool:
        """Send the bytes that were added; return True if the kernel took all of them at once."""

    def answer(
        self, status: int, body: bytes, content_type: str, headers: Headers | None = None, reason: bytes = b""
    ) -> None:
        """Send a whole answer of wiretape's own, the connection's last."""

    @property
    def unsent(self) -> int:
        """Bytes that wait to be taken by the kernel."""

    @property
    def written(self) -> int:
        """All bytes that were written to the connection; over HTTP/2, those of the stream's body."""

    # the end

    def finish(self) -> None:
        """End an answer: go on with the next request, or end the connection."""

    def cut(self, code: int | None = None) -> None:
        """End in the middle of an answer, when all that came of it is sent.

        `code` is the HTTP/2 error of the server's reset; without one, the server's connection was lost.
        """

    def reset(self, code: int | None = None) -> None:
        """End as `cut` does, but by a reset."""

    def close(self) -> None:
        """End at once."""

    @property
    def has_ended(self) -> bool:
        """True if the client closed in good order, and so had read all that had reached it."""

    @property
    def reset_code(self) -> int | None:
        """The code of HTTP/2 by which the client reset the stream, or None."""

    # faults

    def guarded(self, call: Callable[P, R]) -> Callable[P, R | None]:
        """Return a callback for the event loop, or another thread's result, whose exceptions fail this client."""

    def hand_over(self, responder: Responder, successor: Responder) -> None:
        """Replace a responder, if its client is still there."""

    def failed(self, error: Exception) -> None:
        """Report a fault of our own, answer the request if no answer has begun, and end."""


def guarded(call: Callable[P, R], failed: Callable[[Exception], None]) -> Callable[P, R | None]:
    """Return a callback whose exceptions are passed to `failed`: the event loop would only print them."""

    return partial(_call_guarded, call, failed)


def _call_guarded(
    call: Callable[P, R], failed: Callable[[Exception], None], *args: P.args, **kwargs: P.kwargs
) -> R | None:
    try:
        return call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - any fault ends the client, which would wait
        failed(error)
        return None
