"""A server of hosted agents' sessions by both APIs: each request with events lets the next script of events follow."""

import itertools
import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.support.hosted_sessions import Event, sse

AGENTS, SESSIONS = "agents/sessions", "sessions"


class HostedServer(ThreadingHTTPServer):
    """Serves on a free loopback port; `scripts` are the events that follow the requests of a session, by its id.

    An event None ends the session's streams.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts: dict[str, list[list[Event | None]]] = {}
        self.streams: dict[str, list[queue.Queue[Event | None]]] = {}
        self.numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def tell(self, session: str, *events: Event | None) -> None:
        """Send events to the open streams of a session."""
        for event in events:
            for stream in self.streams.get(session, ()):
                stream.put(event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HostedServer

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    @property
    def _session(self) -> str:
        return self.path.partition("sessions/")[2].partition("/")[0].partition("?")[0]

    def do_GET(self) -> None:
        stream: queue.Queue[Event | None] = queue.Queue()
        self.server.streams.setdefault(self._session, []).append(stream)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            while (event := stream.get()) is not None:
                data = sse(event)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True  # the client left
        self.server.streams[self._session].remove(stream)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_openai = AGENTS in self.path
        if "events" not in body:
            session = f"{'sess' if is_openai else 'sesn'}_{next(self.server.numbers)}"
            self._answer(200, {"id": session, "object": "agent.session", "type": "session"})
            return
        stored = [{**event, "id": f"u{next(self.server.numbers)}", "processed_at": None} for event in body["events"]]
        # The turn may begin before the answer of its request.
        scripts = self.server.scripts.get(self._session)
        self.server.tell(self._session, *(scripts.pop(0) if scripts else ()))
        self._answer(202 if is_openai else 200, None if is_openai else {"data": stored})

    def _answer(self, status: int, value: Any) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def hosted_server() -> Iterator[HostedServer]:
    """Serve until the block ends."""
    with HostedServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            for stream in itertools.chain(*server.streams.values()):
                stream.put(None)
            server.shutdown()
            thread.join()
