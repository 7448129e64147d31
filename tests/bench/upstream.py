"""The upstream of the benchmarks: cheap, precise, and it writes down what it sent and when.

    python -m tests.bench.upstream [CERTIFICATE KEY]

A process of its own on raw epoll, so that it takes little of the machine and sends within some 0.1 ms of the deadline.
The path says what to send: `/NUMBER/CHUNKS/GAP_US/…`. With chunks, these are a stream, whose head goes out at once and
whose chunks go out on absolute deadlines; without, a short answer. Each payload ends with the instant of its sending
(`time.monotonic_ns`), so that a client on the same machine knows how long it took.

Prints the plain and the TLS port of HTTP/1.1, and those of HTTP/2. Each line on standard input is a file name: the log
since the last one is written to it as JSON, and a line printed. Ends at end of file. Nothing sent is kept but its
instants: `pieces` makes it again.
"""

import gc
import heapq
import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench.channel import Channel
from tests.bench.http2 import Http2Connection, Stream

DONE = b"data: [DONE]\n\n"
STAMP = slice(-20, -4)
"""Where the instant stands in a piece or a short answer: 16 hexadecimal digits."""
WORDS = [f" {word}{end}" for word in ("the", "quick", "brown", "fox", "over", "lazy") for end in ("", "s", "ing", "d")]
_CHUNK = (
    b'data: {"id":"chatcmpl-%012d","object":"chat.completion.chunk","created":1773042793,"model":"bench-model-2026-01'
    b'-01","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":"%s"},'
    b'"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"%016x"}\n\n'
)
_ANSWER = (
    b'{"id":"chatcmpl-%012d","object":"chat.completion","created":1773042793,"model":"bench-model-2026-01-01","choices"'
    b':[{"index":0,"message":{"role":"assistant","content":"Yes."},"logprobs":null,"finish_reason":"stop"}],"usage":'
    b'{"prompt_tokens":16,"completion_tokens":2,"total_tokens":18},"obfuscation":"%016x"}\n\n'
)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_ANSWER_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_BACKLOG = 4096
_GOLDEN = 0.6180339887


def piece(number: int, seq: int, at_ns: int) -> bytes:
    """Return the event that stream `number` sends as its `seq`-th: of the size of a typical chunk."""
    return _CHUNK % (number, WORDS[(number * 7 + seq * 13) % len(WORDS)].encode(), at_ns)


def short(number: int, at_ns: int) -> bytes:
    """Return the whole short answer to request `number`."""
    return _ANSWER % (number, at_ns)


def pieces(number: int, chunks: int, sent_ns: Sequence[int]) -> list[bytes]:
    """Return what was sent as the body of response `number`, a piece for each sending."""
    if not chunks:
        return [short(number, sent_ns[0])]
    return [*(piece(number, seq, at) for seq, at in enumerate(sent_ns)), *([DONE] if len(sent_ns) == chunks else [])]


@dataclass(slots=True)
class Sent:
    """One response: when each piece went out, how late that was, and where it ends in the connection's bytes."""

    number: int
    chunks: int
    peer: int
    tls: bool
    sent_ns: list[int] = field(default_factory=list)
    late_ns: list[int] = field(default_factory=list)
    wire_ends: list[int] = field(default_factory=list)


class Connection(Channel):
    """A client's connection, and the response on it; `received` holds an incomplete request."""

    def __init__(self, sock: socket.socket, peer: int, context: ssl.SSLContext | None) -> None:
        super().__init__(sock, context, is_server=True)
        self.peer, self.is_tls = peer, context is not None
        self.received = bytearray()

    def receive(self) -> bool:
        """Read; False when the client has left."""
        try:
            data = self.read()
        except OSError:
            return False
        self.received += data or b""
        return data is not None

    @property
    def connection(self) -> "Connection":
        return self

    def requests(self) -> Iterator[tuple["Connection | Stream", bytes]]:
        """Remove the whole requests from `received`; yield the responder and the path of each."""
        for path in requests(self.received):
            yield self, path

    def head(self) -> bytes:
        """Return the head of a stream's response."""
        return _STREAM_HEAD

    def chunk(self, data: bytes) -> bytes:
        """Return a chunk of its body."""
        return b"%x\r\n%s\r\n" % (len(data), data)

    def last(self, data: bytes) -> bytes:
        """Return the last chunk and the end of its body."""
        return self.chunk(data) + b"0\r\n\r\n"

    def answer(self, data: bytes) -> bytes:
        """Return a whole short response."""
        return _ANSWER_HEAD % len(data) + data


class Multiplexed(Http2Connection, Connection):
    """A client's connection of HTTP/2, whose responses are on streams."""


class Upstream:
    """The listeners, the connections and the deadlines; `contexts` are those of TLS, of HTTP/1.1 and of HTTP/2."""

    def __init__(self, contexts: Sequence[ssl.SSLContext | None]) -> None:
        self.epoll = select.epoll()
        self.listeners = {
            (sock := _listener()).fileno(): (sock, context_used, kind)
            for kind, context in zip((Connection, Multiplexed), contexts, strict=True)
            for context_used in (None, context)
        }
        self.connections: dict[int, Connection] = {}
        self.due: list[tuple[int, int, int, Callable[[], None]]] = []
        self.responses = list[Sent]()
        self.accepted = 0
        for fd in (*self.listeners, 0):
            self.epoll.register(fd, select.EPOLLIN)

    @property
    def ports(self) -> list[int]:
        """The plain and the TLS port of HTTP/1.1, and of HTTP/2."""
        return [sock.getsockname()[1] for sock, _, _ in self.listeners.values()]

    def run(self) -> None:
        """Serve until standard input ends."""
        while True:
            wait = max((self.due[0][0] - time.monotonic_ns()) / 1e9, 0) if self.due else None
            select.select([self.epoll], [], [], wait)  # unlike epoll's own, this wait is finer than a millisecond
            for fd, event in self.epoll.poll(0):
                if fd == 0:
                    if not self._report():
                        return
                elif fd in self.listeners:
                    self._accept(*self.listeners[fd])
                else:
                    self._serve(fd, event)
            self._send_due()

    def _send_due(self) -> None:
        while self.due and self.due[0][0] <= time.monotonic_ns():
            heapq.heappop(self.due)[3]()

    def _report(self) -> bool:
        name = sys.stdin.readline().strip()
        if name:
            log = {"accepted": self.accepted, "responses": [asdict(response) for response in self.responses]}
            Path(name).write_text(json.dumps(log))
            self.accepted, self.responses = 0, []
            print("written", flush=True)
        return bool(name)

    def _accept(self, listener: socket.socket, context: ssl.SSLContext | None, kind: type[Connection]) -> None:
        for _ in range(64):
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            self.accepted += 1
            self.connections[sock.fileno()] = kind(sock, address[1], context)
            self.epoll.register(sock, select.EPOLLIN)

    def _serve(self, fd: int, event: int) -> None:
        connection = self.connections[fd]
        if event & select.EPOLLOUT:
            connection.flush()
            self._watch(connection)
        if not event & ~select.EPOLLOUT:
            return
        if not connection.receive():
            del self.connections[fd]
            connection.sock.close()
            return
        for response, path in connection.requests():
            _, number, chunks, gap_us, *_ = path.split(b"/")
            self._answer(response, Sent(int(number), int(chunks), connection.peer, connection.is_tls), int(gap_us))

    def _write(self, connection: Connection, data: bytes) -> int:
        connection.write(data)
        if connection.unsent:
            self._watch(connection)
        return connection.sent

    def _watch(self, connection: Connection) -> None:
        if connection.sock.fileno() >= 0:
            self.epoll.modify(connection.sock, select.EPOLLIN | (select.EPOLLOUT if connection.unsent else 0))

    def _answer(self, response: Connection | Stream, sent: Sent, gap_us: int) -> None:
        self.responses.append(sent)
        if not sent.chunks:
            at = time.monotonic_ns()
            sent.sent_ns.append(at)
            data = short(sent.number, at)
            sent.wire_ends.append(self._write(response.connection, response.answer(data)))
            return
        self._write(response.connection, response.head())
        gap_ns = gap_us * 1000
        # Streams that begin together do not go on in step.
        self._next(response, sent, time.monotonic_ns() + int(gap_ns * (1 + sent.number * _GOLDEN % 1)), gap_ns)

    def _next(self, response: Connection | Stream, sent: Sent, due_ns: int, gap_ns: int) -> None:
        connection = response.connection

        def act() -> None:
            seq = len(sent.sent_ns)
            if connection.sock.fileno() < 0:
                return
            if seq == sent.chunks:
                sent.wire_ends.append(self._write(connection, response.last(DONE)))
                return
            at = time.monotonic_ns()
            sent.sent_ns.append(at)
            sent.late_ns.append(at - due_ns)
            data = piece(sent.number, seq, at)
            sent.wire_ends.append(self._write(connection, response.chunk(data)))
            self._next(response, sent, due_ns + gap_ns, gap_ns)

        heapq.heappush(self.due, (due_ns, sent.number, id(response), act))


def requests(received: bytearray) -> Iterator[bytes]:
    """Take the whole requests out of what came; yield their paths."""
    while (end := received.find(b"\r\n\r\n")) >= 0:
        head = bytes(received[:end])
        _, _, length = head.lower().partition(b"content-length:")
        end += 4 + int(length.split(None, 1)[0] if length else 0)
        if len(received) < end:
            return
        del received[:end]
        yield head.split(b" ", 2)[1]


def _listener() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    sock.setblocking(False)
    return sock


def _context(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.set_alpn_protocols([protocol])
    return context


def main() -> None:
    """Serve, with TLS if a certificate and its key are named."""
    contexts: list[ssl.SSLContext | None] = [None, None]
    if len(sys.argv) > 1:
        contexts = [_context(protocol) for protocol in ("http/1.1", "h2")]
    gc.disable()
    upstream = Upstream(contexts)
    print(*upstream.ports, flush=True)
    upstream.run()


if __name__ == "__main__":
    main()
