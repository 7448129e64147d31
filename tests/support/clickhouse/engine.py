"""ClickHouse of today on loopback: an HTTP server over the engine in this process, with faults.

A client's statements are executed; a fault befalls an insert of exchanges or bodies.
"""

import json
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from wiretape.viewer.ship.acknowledged import locked
from wiretape.viewer.ship.shipper import Shipper
from wiretape.viewer.source import settled
from wiretape.viewer.wings.clickhouse import ddl, tables
from wiretape.viewer.wings.clickhouse.address import Credentials, Target
from wiretape.viewer.wings.clickhouse.client import Centre
from wiretape.viewer.wings.clickhouse.sink import CentreSink, ShippedLabels

chdb = pytest.importorskip("chdb")
lz4 = pytest.importorskip("lz4.frame")  # which the client sends batches in

_INSERT: Final = re.compile(rb"INSERT INTO (\S+) \([^)]*\) FORMAT Native\n")
_LANES: Final = ("exchanges", "streams")
_CODE: Final = re.compile(r"Code: (\d+)")

HEADERS: Final = {"X-ClickHouse-Summary": "{}"}


@dataclass(frozen=True)
class Answer:
    """An answer in the place of the engine's; without a status the connection is cut, `is_stored` or not."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    is_stored: bool = False


def failed(status: int, code: int, message: str) -> Answer:
    """Return the answer of a node that refuses."""
    text = f"Code: {code}. DB::Exception: {message}. (NAME) (version 26.9.2.1)\n"
    return Answer(status, HEADERS | {"X-ClickHouse-Exception-Code": str(code)}, text.encode())


CUT: Final = Answer(is_stored=True)
CUT_BEFORE: Final = Answer()


@dataclass
class Engine:
    """The engine, its faults, and the tokens of the inserts of each table."""

    connection: Any
    port: int = 0
    faults: list[Answer | None] = field(default_factory=list)
    answer: Answer | None = None
    """The answer to everything, instead of the engine's."""
    tokens: dict[str, list[str]] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], dict[str, str], bytes]] = field(default_factory=list)
    """The headers, the parameters and the body of each request."""
    turn: Any = field(default_factory=threading.Lock)

    @property
    def target(self) -> Target:
        """Two nodes of one server."""
        return Target(tuple(f"http://{host}:{self.port}" for host in ("127.0.0.1", "localhost")))

    def query(self, statement: str, database: str = "wiretape") -> list[dict[str, Any]]:
        """Return the rows of a query."""
        data = self.run(f"{statement} FORMAT JSONEachRow".encode(), database)
        return [json.loads(line) for line in data.decode("utf-8", "replace").split("\n") if line]

    def run(self, statement: bytes, database: str = "wiretape", format: str = "TabSeparated") -> bytes:
        with self.turn:
            self.connection.query(f"USE {database}")
            result: bytes = self.connection.query(statement.decode(), format).bytes()
            return result

    def forget(self) -> None:
        """Empty the tables."""
        self.tokens, self.asked, self.faults, self.answer = {}, [], [], None
        for table in tables.TABLES:
            self.run(f"TRUNCATE TABLE {table.name}".encode())

    def final(self, table: str = "exchanges") -> dict[str, dict[str, Any]]:
        """Return the current rows by id."""
        return {row["id"]: row for row in self.query(f"SELECT * FROM {table} FINAL")}

    def count(self, table: str = "exchanges") -> int:
        """Count the rows, those of older versions included."""
        return int(self.query(f"SELECT count() AS n FROM {table}")[0]["n"])

    def executed(self, statement: bytes, parameters: dict[str, str]) -> bytes:
        """Execute a request. Raises `RuntimeError`."""
        database = parameters.get("database", "default")
        match = _INSERT.match(statement)
        if match is None:
            format = statement.rpartition(b"FORMAT ")[2].decode() if b"FORMAT " in statement else "TabSeparated"
            return self.run(statement, database, format if format.isalpha() else "TabSeparated")
        table = match[1].decode().replace("`", "").rpartition(".")[2]
        token = parameters.get("insert_deduplication_token", "")
        self.tokens.setdefault(table, []).append(token)
        with tempfile.NamedTemporaryFile(suffix=".native") as file:
            file.write(statement[match.end() :])
            file.flush()
            head = statement[: match.end()].decode().replace(" FORMAT Native\n", "")
            clause = f" SETTINGS insert_deduplication_token = '{token}'" if token else ""
            self.run(f"{head} FROM INFILE '{file.name}'{clause} FORMAT Native".encode(), database)
        return b""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self._body()
        parameters = dict(parse_qsl(urlsplit(self.path).query))
        self.engine.asked.append((dict(self.headers.items()), parameters, body))
        match = _INSERT.match(body)
        answer = self.engine.answer
        if answer is None and match and match[1].decode().strip("`").endswith(_LANES) and self.engine.faults:
            answer = self.engine.faults.pop(0)
        if answer is None or answer.is_stored:
            try:
                done = Answer(200, HEADERS, self.engine.executed(body, parameters))
            except RuntimeError as error:
                code = _CODE.search(str(error))
                done = Answer(
                    500, HEADERS | {"X-ClickHouse-Exception-Code": code[1] if code else "0"}, str(error).encode()
                )
            answer = answer or done
        if not answer.status:
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self.send_response(answer.status)
        for name, value in (answer.headers | {"Content-Length": str(len(answer.data))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.data)

    do_GET = do_POST

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_packed = self.headers.get("Content-Encoding") == "lz4"
        return lz4.decompress(data) if is_packed else data  # type: ignore[no-any-return]


@contextmanager
def running(directory: Path, kind: type[Engine] = Engine) -> Iterator[Engine]:
    """Run the engine of a directory behind an HTTP server, with tables."""
    engine = kind(chdb.connect(str(directory)))
    handler = type("Handler", (_Handler,), {"engine": engine})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    engine.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        engine.run(ddl.database("wiretape").encode(), "default")
        for table in tables.TABLES:  # which keep the old exchanges of tests
            engine.run("".join(ddl.create(table, "wiretape", expires=False)).encode())
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        engine.connection.close()


def centre(engine: Engine) -> Centre:
    return Centre(engine.target, Credentials("someone", "a secret"))


def ship(tape: Path, engine: Engine, sink: type[CentreSink] = CentreSink, **more: Any) -> tuple[int, list[str]]:
    """Ship a tape once; return the number of exchanges shipped, and the messages."""
    messages: list[str] = []
    with (
        settled.opened(tape, decodes=False) as exchanges,
        locked(tape, engine.target.name) as progress,
        centre(engine) as server,
    ):
        shipping = sink(server, more.pop("origin", ShippedLabels("a-host")), more.pop("bodies", False))
        shipper = Shipper(shipping, progress, warn=messages.append, **more)
        shipper.run(exchanges, once=True)
    return shipper.shipped, messages
