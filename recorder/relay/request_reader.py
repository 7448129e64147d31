"""The requests of a client's connection as they come: HTTP/1.1 by `httptools` (llhttp, strict)."""

import httptools

from wiretape.recorder.relay import guard
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.hello import HANDSHAKE
from wiretape.recorder.relay.request import Headers, Request
from wiretape.recorder.relay.states import INBOUND, Inbound, raise_illegal

HEAD_BYTES = 256 << 10
"""Limit of a request's head, in bytes: API servers take 8 KiB to 1 MiB. Also of trailers."""


class RequestReader:
    """The requests that are not answered yet, the last one perhaps in part, and the input's `state`.

    `rejection` ends the connection after their answers. `early` are bytes that are not parsed: those that may be
    HTTP/2's preface, or those after a request for another protocol, which are in that protocol if it is switched to.
    """

    __slots__ = (
        "_head_bytes", "_headers", "_parser", "_read_bytes", "_spelling", "_target", "early", "rejection", "requests",
        "state",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state = Inbound.NEW
        self.requests = list[Request]()
        self.rejection: Refusal | None = None
        self.early = b""
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: Headers = []
        self._spelling: dict[bytes, bytes] = {}
        self._head_bytes = self._read_bytes = 0
        """Bytes of a head, or of trailers, in reads that held nothing else; bytes of the current read.

        `feed` adds the latter to the former: a callback that makes it the negative number leaves 0.
        """

    @property
    def has_partial_head(self) -> bool:
        """True if a head, or trailers, have come in part."""
        return self._head_bytes > 0

    def feed(self, data: memoryview) -> None:
        """Parse data; a request that only offers another protocol is parsed again without the offer."""
        self._read_bytes = len(data)
        unread = data
        try:
            while unread:
                assert self._parser is not None  # None after the end of the connection, or of HTTP on it
                try:
                    self._parser.feed_data(unread)
                    break
                except httptools.HttpParserUpgrade as upgrade:
                    unread = unread[upgrade.args[0] :]
                request = self.requests[-1]
                if request.method == "CONNECT" or guard.asks_for_websocket(request.headers):
                    self._hold_back(bytes(unread))
                    break
                self._ignore_offer(self.requests.pop())
        except httptools.HttpParserError as error:
            raise_illegal(error)
            is_tls = self.state is Inbound.HEAD and not self._target and data[0] == HANDSHAKE
            tls = "a client speaks TLS to this plain port: its URL must begin with http://, not https://"
            self._reject(Refusal(400, tls if is_tls else "the request is not valid HTTP"))
        self._head_bytes += self._read_bytes
        if self._head_bytes > HEAD_BYTES:
            self._reject_oversized()

    def _ignore_offer(self, request: Request) -> None:
        """Parse a head again without its offer of another protocol, which a server may ignore (RFC 9110, 7.8).

        The parser took the body for the new protocol. The request keeps the client's headers, for the tape.
        """
        spelled = request.spelling.get
        headers = [pair for pair in request.headers if pair[0] != b"upgrade"]
        lines = [b"%s %s HTTP/%s\r\n" % (request.method.encode(), request.target, request.version.encode())]
        lines += (b"%s: %s\r\n" % (spelled(name, name), value) for name, value in headers)
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"".join([*lines, b"\r\n"]))
        self.requests[-1].headers, self.requests[-1].spelling = request.headers, request.spelling

    def _hold_back(self, data: bytes) -> None:
        """Keep the bytes after a request for another protocol; after one with a body they are neither that nor HTTP."""
        request = self.requests[-1]
        if any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
               for name, value in request.headers):  # fmt: skip
            request.keeps = False
            self.deafen()
        else:
            self.state, self.early = INBOUND[self.state, "upgrade"], data

    # httptools callbacks; those that end a head reset `_head_bytes`, since their read held more than a head

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.state is Inbound.HEAD:  # else it is a trailer
            lower = name.lower()
            self._headers.append((lower, value))
            self._spelling[lower] = name

    def on_headers_complete(self) -> None:
        """Add a request with its head."""
        parser = self._parser
        assert parser is not None  # it calls
        self._head_bytes = -self._read_bytes
        self.state = INBOUND[self.state, "head"]
        method, version = parser.get_method().decode("ascii"), parser.get_http_version()
        keeps = parser.should_keep_alive()
        self.requests.append(Request(method, self._target, self._headers, version, keeps, self._spelling))
        self._target, self._headers, self._spelling = b"", [], {}

    def on_body(self, body: bytes) -> None:
        self._head_bytes = -self._read_bytes
        request = self.requests[-1]
        request.pieces.append(body)
        request.has_news = True

    def on_message_complete(self) -> None:
        self._head_bytes = -self._read_bytes
        self.state = INBOUND[self.state, "end"]
        request = self.requests[-1]
        request.complete = request.has_news = True

    # ends

    def _reject(self, refusal: Refusal) -> None:
        """End the connection by a refusal, after the pending answers."""
        self.deafen()
        if self.rejection is None:
            self.rejection = refusal

    def _reject_oversized(self) -> None:
        """Refuse a head or trailers, and end the connection; the app gets the received part of the head."""
        refusal = Refusal(431, f"the head or the trailers of the request are larger than {HEAD_BYTES} bytes")
        if self.state is not Inbound.HEAD or self._parser is None or not self._headers:
            self._reject(refusal)
            return
        method = self._parser.get_method().decode("ascii")
        request = Request(method, self._target, self._headers, "1.1", keeps=False, spelling=self._spelling)
        request.complete, request.refusal = True, refusal
        self.requests.append(request)
        self.deafen()

    def deafen(self) -> None:
        """Drop all that comes from now on."""
        self.state = INBOUND[self.state, "deafen"]

    def switch(self) -> bytes:
        """End HTTP/1.1: another protocol begins. Return its first bytes, which have come already."""
        self.state = INBOUND[self.state, "switch"]
        early, self.early = self.early, b""
        self.requests.clear()
        self.close()
        return early

    def resume(self) -> None:
        """Read requests again: the request for another protocol got an ordinary answer, or that protocol has ended."""
        self.state = INBOUND[self.state, "resume"]
        early, self.early = self.early, b""
        self._parser = httptools.HttpRequestParser(self)
        if early:
            self.feed(memoryview(early))

    def close(self) -> None:
        """Parse nothing more: the parser refers to this reader, and both would wait for a garbage collection."""
        self._parser = None
