"""The base of the HTTP apps on a recorder's server: the relay, the replay, the live pages and the metrics.

It handles the guard, HTTP/1.0, `Expect`, the limit of concurrent requests, refusals, and wiretape's own faults.
"""

from collections.abc import Callable, Sized

from wiretape.recorder.relay import guard
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Policy, Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.tape.redact import shown

LIVE = 4096
"""Limit of requests answered at a time; further ones are refused."""


class HttpApp:
    """A program behind a server: a request that passes the guard and the limits is given to `respond`.

    `on_refused` is called with each refusal, `on_trouble` with a message for each fault of wiretape's own.
    """

    policy = Policy()
    takes_http_1_0 = False
    """True if requests with HTTP/1.0 are accepted."""
    no_websocket = ""
    """Reason for refusing requests for a WebSocket, or empty if they are accepted."""
    records_refusals = False
    """True if `respond` gets requests with a `Request.refusal`, too."""
    sends_continue = True
    """True if `Expect: 100-continue` is answered here, and not upstream."""
    live: Sized = ()
    """The requests that are being answered."""
    on_refused: Callable[[Refusal], None]
    on_trouble: Callable[[str], None]

    def serve(self, client: Client, request: Request) -> Responder | None:
        """Answer a request, at once (None) or later, unless it may not pass."""
        refusal = guard.check(request.method, request.target, request.headers, self.policy)
        if request.version == "1.0":
            refusal = refusal or self.check_version(request)
        refusal = refusal or self.admit(client, request)
        if refusal is not None:
            self.client_rejected(refusal)
            self.refuse(client, refusal)
            return None
        if self.sends_continue and not request.complete and guard.expects_continue(request.headers):
            client.inform(100)
        return self.respond(client, request)

    def check_version(self, request: Request) -> Refusal | None:
        """Return the refusal of a request with HTTP/1.0 to an app that does not take it, or None."""
        if self.takes_http_1_0 or request.version != "1.0":
            return None
        return Refusal(505, "HTTP/1.0 has no chunks, so a broken answer would look whole: use HTTP/1.1")

    def admit(self, client: Client, request: Request) -> Refusal | None:
        """Return the refusal of a request that passed the guard, or None if it is answered."""
        if self.no_websocket and client.may_switch:
            return Refusal(426, self.no_websocket)
        if len(self.live) >= LIVE:
            return Refusal(503, f"more than {LIVE} requests at a time")
        return None if self.records_refusals else request.refusal

    def respond(self, client: Client, request: Request) -> Responder | None:
        """Answer a request that may pass, at once (None) or later."""
        raise NotImplementedError

    def refuse(self, client: Client, refusal: Refusal) -> None:
        """Answer a request that may not pass."""
        text = f"wiretape: {refusal.message}\n" if refusal.message else ""
        client.answer(refusal.status, text.encode(), "text/plain; charset=utf-8")

    def client_rejected(self, refusal: Refusal) -> None:
        """Report a refusal, which the client has in its answer, without credentials that its message may quote."""
        self.on_refused(Refusal(refusal.status, shown(refusal.message)))

    def client_failed(self, error: Exception) -> None:
        """Report a fault of wiretape's own on a client's connection."""
        self.on_trouble(f"a connection failed by a fault of wiretape's own: {shown(repr(error))}")
