"""The clients of the benchmarks: many at once in one process on raw epoll, each read stamped as it comes.

    python -m tests.bench.clients JSON

JSON is a `Plan`. Each payload is compared with what the upstream must have sent, and the instant in it with the one of
its arrival. Begins at a line on standard input; prints a line before that, one when all has ended, and then the
figures, as JSON.
"""

import gc
import json
import select
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httptools

from tests.bench import http2
from tests.bench.channel import Channel
from tests.bench.upstream import DONE, STAMP, piece, short

PATIENCE_S = 30
"""After so long without a byte, what has not come is lost."""
_BODY = b'{"model":"bench-model-2026-01-01","stream":true,"messages":[{"role":"user","content":"Tell me a story."}]}'
_REQUEST = (
    b"POST /%d/%d/%d/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\ncontent-type: application/json"
    b"\r\nauthorization: Bearer sk-0123456789abcdef\r\nuser-agent: bench\r\ncontent-length: %d\r\n\r\n%s"
)

_PATH = 4
_HEAD = b"\x83\x86" + http2.literal(1, b"127.0.0.1")
_FIELDS = (
    http2.literal(b"accept", b"*/*")
    + http2.literal(b"content-type", b"application/json")
    + http2.literal(b"authorization", b"Bearer sk-0123456789abcdef")
    + http2.literal(b"user-agent", b"bench")
    + http2.literal(b"te", b"trailers")
)
"""The same fields in HPACK, with names of the static table where it has them."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to ask, of whom: `clients` at once, each `requests` one after the other, all of it `repeat` times.

    Responses have `chunks` chunks, or are short ones if that is 0. `ca` is a file, and asks for TLS. With `is_http2`,
    the clients are streams of one connection.
    """

    port: int
    first: int
    clients: int
    requests: int
    repeat: int
    chunks: int
    gap_us: int
    pause_ms: float
    is_kept: bool
    ca: str | None = None
    is_http2: bool = False


@dataclass(slots=True)
class Response:
    """What came of one response: instants in ns, those of the upstream's sendings in `sent`, of arrivals in `came`."""

    number: int
    is_first: bool
    began: int
    first_byte: int = 0
    is_wrong: bool = False
    is_whole: bool = False
    sent: list[int] = field(default_factory=list)
    came: list[int] = field(default_factory=list)


class Client:
    """One client: a request after the other."""

    def __init__(self, clients: "Clients", first: int) -> None:
        self.clients, self.plan = clients, clients.plan
        self.number, self.left = first, self.plan.requests
        self.channel: Channel | None = None
        self.response: Response | None = None
        self.at = 0

    def start(self) -> None:
        """Send the next request, on a new connection unless there is one."""
        began = time.monotonic_ns()
        self.response = Response(self.number, self.channel is None, began)
        if self.channel is None:
            self._connect()
        assert self.channel is not None
        self.tail = b""
        self.channel.write(_REQUEST % (self.number, self.plan.chunks, self.plan.gap_us, len(_BODY), _BODY))
        self.left -= 1
        self.number += 1

    def _connect(self) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", self.plan.port))
        self.channel = Channel(sock, self.clients.context, is_server=False)
        self.parser = httptools.HttpResponseParser(self)
        self.clients.watch(self)

    def receive(self) -> None:
        """Take what has come."""
        assert self.channel is not None
        try:
            data = self.channel.read()
            self.at = time.monotonic_ns()
            if data and self.response is not None:
                self.response.first_byte = self.response.first_byte or self.at
                self.parser.feed_data(data)
        except (OSError, httptools.HttpParserError):
            data = None
        if data is None:
            self.finish()

    def on_body(self, body: bytes) -> None:
        """Take the whole events out of the body. Called by the parser."""
        *events, self.tail = (self.tail + body).split(b"\n\n")
        for event in events:
            self._check(event + b"\n\n")

    def _check(self, event: bytes) -> None:
        response = self.response
        if event == DONE or response is None:
            return
        digits, seq = event[STAMP], len(response.sent)
        at = int(digits, 16) if digits.isalnum() else 0
        right = piece(response.number, seq, at) if self.plan.chunks else short(response.number, at)
        if event != right:
            response.is_wrong = True
            return
        response.sent.append(at)
        response.came.append(self.at)

    def on_message_complete(self) -> None:
        """Go on. Called by the parser."""
        assert self.response is not None
        self.response.is_whole = True
        self.is_keepable = self.parser.should_keep_alive()
        self.clients.ending.append(self)  # not from within the parser

    def finish(self) -> None:
        """Note the response, and send the next request or end."""
        response, self.response = self.response, None
        if not (self.plan.is_kept and self.left and response and response.is_whole and self.is_keepable):
            self.clients.unwatch(self)
        if response is not None:
            self.clients.responses.append(response)
            if self.left:
                self.clients.again(self)


class Multiplexed(Client):
    """A client whose requests are streams of the one connection."""

    def start(self) -> None:
        """Send the next request, on a stream of its own."""
        began = time.monotonic_ns()
        self.response = Response(self.number, self.clients.shared is None, began)
        self.clients.shared = self.clients.shared or Shared(self.clients)
        self.tail = b""
        self.clients.shared.request(self, b"/%d/%d/%d/v1/chat/completions" % (
            self.number, self.plan.chunks, self.plan.gap_us))  # fmt: skip
        self.left -= 1
        self.number += 1

    def finish(self) -> None:
        """Note the response, and send the next request after the pause."""
        assert self.response is not None
        self.clients.responses.append(self.response)
        self.response = None
        if self.left:
            self.clients.again(self)
        shared = self.clients.shared
        if shared is not None and not (shared.streams or self.clients.waiting or self.clients.ending):
            shared.close()


class Shared:
    """The one connection of HTTP/2."""

    left = 0

    def __init__(self, clients: "Clients") -> None:
        self.clients, self.received = clients, bytearray()
        self.streams = dict[int, Multiplexed]()
        self.next = 1
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", clients.plan.port))
        self.channel: Channel | None = Channel(sock, clients.context, is_server=False)
        clients.watch(self)

    def request(self, client: Multiplexed, path: bytes) -> None:
        """Open a stream."""
        id, self.next = self.next, self.next + 2
        self.streams[id] = client
        assert self.channel is not None
        greeting = http2.PREFACE + http2.SETTINGS_SENT if id == 1 else b""
        head = http2.frame(http2.HEADERS, http2.END_HEADERS, id, _HEAD + http2.literal(_PATH, path) + _FIELDS)
        self.channel.write(greeting + head + http2.frame(http2.DATA, http2.END_STREAM, id, _BODY))
        if self.channel.unsent:
            self.clients.epoll.modify(self.channel.sock, select.EPOLLIN | select.EPOLLOUT)

    def receive(self) -> None:
        """Read the socket and handle its whole frames."""
        assert self.channel is not None
        try:
            data = self.channel.read()
        except OSError:
            data = None
        at = time.monotonic_ns()
        self.received += data or b""
        for kind, flags, id, payload in http2.frames(self.received):
            if kind in (http2.SETTINGS, http2.PING):
                if not flags & http2.ACK:
                    self.channel.write(http2.frame(kind, http2.ACK, 0, payload if kind == http2.PING else b""))
            elif id in self.streams:
                self._take(self.streams[id], at, kind, flags, id, payload)
        if data is None:
            self.finish()

    def _take(self, client: Multiplexed, at: int, kind: int, flags: int, id: int, payload: bytes) -> None:
        response = client.response
        assert response is not None
        response.first_byte, client.at = response.first_byte or at, at
        if kind == http2.DATA and payload:
            client.on_body(payload)
        if kind == http2.RST_STREAM or (flags & http2.END_STREAM and kind in (http2.DATA, http2.HEADERS)):
            response.is_whole = kind != http2.RST_STREAM
            del self.streams[id]
            self.clients.ending.append(client)

    def finish(self) -> None:
        """Abandon all streams."""
        given_up = list(self.streams.values())
        self.streams.clear()
        for client in given_up:
            client.left = 0
            client.finish()

    def close(self) -> None:
        """Close the connection."""
        if self.channel is not None:
            self.clients.unwatch(self)
        self.clients.shared = None


class Clients:
    """All clients, and what they saw."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.context = ssl.create_default_context(cafile=plan.ca) if plan.ca else None
        self.epoll = select.epoll()
        self.active = dict[int, Client | Shared]()
        self.shared: Shared | None = None
        self.ending = deque[Client]()
        self.waiting = deque[tuple[int, Client]]()
        self.responses = list[Response]()

    def watch(self, client: Client | Shared) -> None:
        """Be told of what comes for a client."""
        assert client.channel is not None
        self.epoll.register(client.channel.sock, select.EPOLLIN | select.EPOLLOUT)
        self.active[client.channel.sock.fileno()] = client

    def unwatch(self, client: Client | Shared) -> None:
        """Close a client's connection."""
        assert client.channel is not None
        del self.active[client.channel.sock.fileno()]
        client.channel.sock.close()
        client.channel = None

    def again(self, client: Client) -> None:
        """Have a client send its next request after the pause."""
        self.waiting.append((time.monotonic_ns() + int(self.plan.pause_ms * 1e6), client))

    def run(self) -> None:
        """Run it all."""
        plan, kind = self.plan, Multiplexed if self.plan.is_http2 else Client
        per_run = plan.requests * plan.clients
        for time_ in range(plan.repeat):
            if time_:
                time.sleep(0.2)
            first_request = plan.first + time_ * per_run
            starts = (kind(self, first_request + client * plan.requests) for client in range(plan.clients))
            self.waiting.extend((0, client) for client in starts)
            self._run_once()

    def _run_once(self) -> None:
        heard = time.monotonic()
        while self.active or self.waiting:
            now = time.monotonic_ns()
            is_due = bool(self.waiting) and self.waiting[0][0] <= now
            if is_due:  # one at a time: in between, what has come is looked at
                self.waiting.popleft()[1].start()
                wait = 0.0
            else:
                wait = (self.waiting[0][0] - now) / 1e9 if self.waiting else 1.0
                select.select([self.epoll], [], [], wait)
            if self._poll() or is_due:
                heard = time.monotonic()
            elif time.monotonic() - heard > PATIENCE_S:
                for client in list(self.active.values()):
                    client.left = 0
                    client.finish()

    def _poll(self) -> bool:
        events = self.epoll.poll(0)
        for fd, event in events:
            client = self.active[fd]
            assert client.channel is not None
            if event & select.EPOLLOUT:
                client.channel.flush()
                if not client.channel.unsent:
                    self.epoll.modify(fd, select.EPOLLIN)
            if event & ~select.EPOLLOUT:
                client.receive()
            while self.ending:
                self.ending.popleft().finish()
        return bool(events)


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return percentiles of durations in ns, in ms; of none, nothing."""
    ordered = sorted(values)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0} if ordered else {}
    last_index = len(ordered) - 1
    return {f"{name}_{key}_ms": round(ordered[round(last_index * share)] / 1e6, 6) for key, share in shares.items()}


def figures(clients: Clients) -> dict[str, Any]:
    """Return what is to be known of all responses."""
    plan, responses = clients.plan, clients.responses
    request_count = plan.clients * plan.requests * plan.repeat
    payloads = request_count * max(plan.chunks, 1)
    # Of kept connections, the first request also opens those behind it.
    timed = [response for response in responses if response.came and not (plan.is_kept and response.is_first)]
    gaps = [zip(pairwise(response.came), pairwise(response.sent), strict=True) for response in responses]
    icl = [(at - previous_at, sent - sent_before) for ones in gaps for (previous_at, at), (sent_before, sent) in ones]
    latencies = [at - sent for response in responses for sent, at in zip(response.sent, response.came, strict=True)]
    since = max((response.came[0] for response in responses if response.came), default=0)
    steady = [
        at - sent
        for response in responses
        for sent, at in zip(response.sent, response.came, strict=True)
        if sent > since
    ]
    return {
        "requests": request_count,
        "failed": request_count - sum(response.is_whole and not response.is_wrong for response in responses),
        "payloads": payloads,
        "lost": payloads - len(latencies),
        **spread("ttfb", [response.first_byte - response.began for response in timed]),
        **spread("ttft", [response.came[0] - response.began for response in timed]),
        **spread("latency", latencies),
        **spread("steady", steady),
        **spread("icl", [gap for gap, _ in icl]),
        **spread("icl_error", [abs(gap - sent) for gap, sent in icl]),
    }


def main() -> None:
    """Run a plan."""
    clients = Clients(Plan(**json.loads(sys.argv[1])))
    gc.disable()
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu = time.monotonic(), time.process_time()
    clients.run()
    took = {"seconds": time.monotonic() - began, "client_cpu_s": time.process_time() - cpu}
    print("ended", flush=True)
    print(json.dumps(figures(clients) | took), flush=True)


if __name__ == "__main__":
    main()
