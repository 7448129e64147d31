"""A recorder before a scripted upstream, HTTP clients, the command as a process, and a reader of the tape.

The client's side is read by h11 and the tape by plain sqlite3, so that nothing is judged by the code that made it.
"""

import asyncio
import contextlib
import fcntl
import functools
import itertools
import json
import os
import signal
import sqlite3
import ssl
import struct
import subprocess
import sys
import termios
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import SHUT_RDWR, SO_LINGER, SOL_SOCKET, create_server, socket
from typing import Any
from urllib.parse import urlsplit

import h11
import uvloop

from tests.support.forked import CLI, ROOT, Forked, Process
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.recorder.relay import providers, server
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.proxy import Proxy
from wiretape.recorder.relay.service import Observer, Recorder, RecorderOptions
from wiretape.recorder.relay.sockets import Handler, Socket, ask_for_times
from wiretape.recorder.relay.upstream import Transport

LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)
DONE = b"data: [DONE]\n\n"
SECONDS = 60.0
"""Limit of a wait for what is sure to come: other programs may take most of the machine's time."""


def run(main: Coroutine[Any, Any, Any], loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop) -> Any:
    """Run a coroutine on a loop of its own."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on the loop of its `relay`, on its `loop`, or on uvloop."""

    @functools.wraps(test)
    def call(**fixtures: Any) -> None:
        if "relay" in fixtures:
            fixtures["relay"].runner.run(test(**fixtures))
        else:
            run(test(**fixtures), fixtures.get("loop", uvloop.new_event_loop))

    return call


async def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait for a true value of the condition, and return the value.

    The longer it takes, the less often the condition is checked, which takes the time of whoever is waited for.
    """
    pause = 0.005
    async with asyncio.timeout(seconds):
        while not (result := condition()):
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, 0.1)
        return result


def chunk(text: str, **more: Any) -> bytes:
    """Return one event with a chat-completion chunk."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": more.pop("finish", None)}
    payload = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
STREAM = [(0.0, chunk("a")), (0.0, chunk("b", finish="stop")), (0.0, DONE)]


def plain(body: bytes, **more: Any) -> Scene:
    return answer([(0.0, body)], content_type="application/json", framing="length", **more)


# The tape


@dataclass(frozen=True, slots=True)
class Kept:
    """An ended exchange as the tape has it."""

    row: sqlite3.Row
    outcome: tuple[str, str | None]
    flags: frozenset[str]
    body: bytes
    reads: list[bytes]
    at_ns: list[int]
    relayed_ns: list[int | None]


def select(tape: Path, statement: str, *values: Any) -> list[sqlite3.Row]:
    """Ask the tape, without a right to write it."""
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(statement, values).fetchall()


def holds_session(tape: Path, base: str) -> bool:
    """Return True if a tape has the session of the recorder at a base URL."""
    try:
        return bool(select(tape, "SELECT 1 FROM sessions WHERE listen = ?", base))
    except sqlite3.OperationalError:  # its writer loads
        return False


def kept(tape: Path, path: str) -> Kept | None:
    """Return the finished exchange of this path, or None; fail if the tape is inconsistent."""
    try:
        rows = select(tape, "SELECT e.*, m.outcome, m.outcome_detail, m.flags, m.content FROM exchanges e"
                            " JOIN measures m ON m.exchange_no = e.no WHERE e.path = ?", path)  # fmt: skip
    except sqlite3.OperationalError:  # its writer loads
        return None
    if not rows:
        return None
    (row,) = rows
    packed = select(tape, "SELECT data FROM bodies WHERE exchange_no = ?", row["no"])
    reads = select(tape, "SELECT * FROM reads WHERE exchange_no = ? ORDER BY seq", row["no"])
    body = zlib.decompress(packed[0]["data"])
    at_ns = [read["at_ns"] for read in reads]
    assert [read["seq"] for read in reads] == list(range(len(reads)))
    assert at_ns == sorted(at_ns)
    assert [read["start"] for read in reads] == [0, *itertools.accumulate(read["size"] for read in reads)][: len(reads)]
    assert sum(read["size"] for read in reads) == len(body) == row["bytes"] - row["gap_bytes"]
    return Kept(
        row=row,
        outcome=(row["outcome"], row["outcome_detail"]),
        flags=frozenset(row["flags"].split()) - {"clock_suspect"},  # as others on the machine have it
        body=body,
        reads=[body[read["start"] : read["start"] + read["size"]] for read in reads],
        at_ns=at_ns,
        relayed_ns=[read["relayed_ns"] for read in reads],
    )


async def writer_of(tape: Path, recorder: int) -> int:
    """Wait until the lock file of a tape names its writer, and not the process that starts it; return the pid."""

    def named() -> int:
        _, pid, *_ = [*Path(f"{tape}.lock").read_text("utf-8").split("\n"), "", ""]  # it may be empty for an instant
        return int(pid) if pid.isdecimal() and int(pid) != recorder else 0

    pid: int = await until(named)
    return pid


# The wire


@dataclass(slots=True)
class Answer:
    """A response as a client received it; `complete` if the body ended as its framing demands."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False
    error: str = ""


def address(base: str) -> tuple[str, int]:
    """Return the host and the port of a base URL."""
    parts = urlsplit(base)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


@contextlib.asynccontextmanager
async def dial(base: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a plain connection to the relay."""
    reader, writer = await asyncio.open_connection(*address(base))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post(target: str, body: bytes = b"{}", headers: Sequence[tuple[str, str]] = (), method: str = "POST") -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in headers)]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1") + body


async def raw(base: str, *pieces: bytes, seconds: float = 5.0) -> bytes:
    """Send exactly these bytes and give all that comes back until the connection ends, or falls silent for long."""
    async with dial(base) as (reader, writer):
        got = b""
        try:
            async with asyncio.timeout(seconds):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                while data := await reader.read(65536):
                    got += data
        except (TimeoutError, ConnectionError):
            pass  # no more data comes after that
        return got


async def fetch(base: str, request: bytes, method: str = "POST", seconds: float = SECONDS) -> Answer:
    """Send a request and read its answer as h11 sees it."""
    async with dial(base) as (reader, writer), asyncio.timeout(seconds):
        writer.write(request)
        return await take(reader, method)


async def take(reader: asyncio.StreamReader, method: str = "POST") -> Answer:
    """Read one answer as h11 sees it."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    parser.send(h11.EndOfMessage())
    got, body = Answer(), bytearray()
    try:
        while not got.complete:
            match parser.next_event():
                case h11.NEED_DATA:
                    parser.receive_data(await reader.read(65536))
                case h11.Response() as head:
                    got.status = head.status_code
                    got.headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    got.complete = True
    except (h11.RemoteProtocolError, ConnectionError) as error:
        got.error = repr(error)
    got.body = bytes(body)
    return got


def reset(writer: asyncio.StreamWriter) -> None:
    """Leave with a TCP reset."""
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# TLS


def make_authority(there: Path) -> Path:
    """Make a throw-away authority (ca.pem) in a directory, and servers' certificates by it: good, wrong, expired."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=there, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority = ("-days", "2", "-subj", "/CN=throw-away CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", *authority)
    names = {"good": "IP:127.0.0.1,DNS:localhost", "wrong": "DNS:other.test", "expired": "IP:127.0.0.1"}
    for name, alternative in names.items():
        # Python 3.13 and later ask for the identifier, and for the authority's usage above.
        (there / "ext").write_text(f"subjectAltName={alternative}\nauthorityKeyIdentifier=keyid\n")
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        sign = ("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-out", f"{name}.pem")
        openssl(*sign, "-days", "0" if name == "expired" else "2", "-extfile", "ext", "-CAcreateserial")
    return there


def serving(authority: Path, name: str) -> ssl.SSLContext:
    """Return the TLS context of a server with one of an authority's certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / f"{name}.pem", authority / f"{name}.key")
    return context


@contextlib.contextmanager
def behind_handshakes(context: ssl.SSLContext, serve: Callable[[ssl.SSLSocket], object]) -> Iterator[str]:
    """Serve each connection to a place, which is given, behind its handshake.

    By blocking sockets: asyncio's server resets a connection instead of sending the alert of a failed handshake.
    """

    def shake_hands(connection: socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            serve(secured)

    with blocking(shake_hands) as place:
        yield place


@contextlib.contextmanager
def blocking(serve: Callable[[socket], object]) -> Iterator[str]:
    """Serve one connection after another to a place, which is given, in a thread."""

    def accept() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:  # it was shut down
                return
            with contextlib.suppress(OSError), connection:
                serve(connection)

    with create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield "{}:{}".format(*listener.getsockname())
        finally:
            listener.shutdown(SHUT_RDWR)
            thread.join()


@contextlib.asynccontextmanager
async def relaying(relay: "Relay", port: int) -> AsyncIterator[str]:
    """Serve a relay's tape before an upstream on a port; give the base URL for clients."""
    proxy = Proxy([providers.parse(f"http://127.0.0.1:{port}")], Transport(), relay.recorder.tap)
    listening = server.bound("127.0.0.1", 0)
    own_server = server.Server(proxy, listening)
    try:
        yield server.base_url(listening)
    finally:
        own_server.close()
        proxy.cut()
        await own_server.wait_closed(1)


@contextlib.asynccontextmanager
async def serving_raw(relay: "Relay", upstream: Callable[..., Coroutine[Any, Any, None]]) -> AsyncIterator[str]:
    """Serve a relay's tape before an upstream that reads and writes by itself; give the base URL for clients."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await upstream(reader, writer)
        finally:
            writer.transport.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    try:
        async with relaying(relay, listener.sockets[0].getsockname()[1]) as base:
            yield base
    finally:
        listener.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


@contextlib.asynccontextmanager
async def accepting(play: Callable[[socket], Coroutine[Any, Any, None]]) -> AsyncIterator[int]:
    """Play to one connection after another on a port, which is given.

    Its bytes and its reset are with the peer at once: no turn of the event loop comes between them.
    """
    loop = asyncio.get_running_loop()

    async def accept() -> None:
        while True:
            sock, _ = await loop.sock_accept(listener)
            with sock:
                sock.setblocking(False)
                await play(sock)

    with create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        task = asyncio.create_task(accept())
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def reset_at_once(sock: socket, data: bytes = b"") -> None:
    """Send as much as the peer's kernel takes, and leave with a TCP reset."""
    if data:
        sock.send(data)
    sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def fill(sock: socket, piece: bytes) -> int:
    """Send a piece again and again, until nothing is taken for a while; return the size that the peer's kernel has."""
    refusals, sent = 0, 0
    while refusals < 20:
        try:
            sent += sock.send(piece[sent % len(piece) :])
            refusals = 0
        except BlockingIOError:
            refusals += 1
            await asyncio.sleep(0.005)
    return sent - int(struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0])


async def sip(sock: socket) -> tuple[bytes, bool]:
    """Receive until the end, more slowly than a relay does; return the data, and True if the end was a reset."""
    received = b""
    try:
        while data := await asyncio.get_running_loop().sock_recv(sock, 65536):
            received += data
            await asyncio.sleep(0.001)
    except ConnectionResetError:
        return received, True
    return received, False


# A socket


class ByHand(Socket):
    """A socket whose input and whose room for output are set by the test."""

    def __init__(self) -> None:
        self.is_closed = self.is_paused = self.has_kernel_time = False
        self.loop, self.is_reading = asyncio.get_running_loop(), True
        self.stamp = self.since = self.unsent = self.written = 0
        self.kernel_time = None
        self.sent: list[bytes] = []
        self.takes_all = True
        self.news: list[bytes] = []
        self.handler: Handler

    def start(self, handler: Handler, *, is_read_to_end: bool = False) -> None:
        self.handler = handler

    def expect(self) -> None:
        pass

    def pause(self) -> None:
        self.is_paused, self.is_reading = True, False

    def resume(self) -> None:
        self.is_paused, self.is_reading = False, True

    def look(self) -> bool:
        if self.news and not self.is_closed:
            self.handler.received(self.stamp, memoryview(self.news.pop(0)))
            return True
        return False

    def write(self, data: bytes) -> bool:
        self.sent.append(data)
        self.unsent += 0 if self.takes_all else len(data)
        return self.takes_all

    def end(self) -> None:
        """Ignore it."""

    def close(self) -> None:
        self.is_closed = True


# The command


@contextlib.asynccontextmanager
async def wiretape(
    *arguments: object, env: dict[str, str] | None = None, is_fresh: bool = False, **more: Any
) -> AsyncIterator[Process]:
    """Start the command, forked unless it `is_fresh`; it is killed at the end of the block if it still runs."""
    quiet = {
        name: value for name, value in os.environ.items() if not name.startswith(("WIRETAPE_", "OPENAI_", "ANTHR"))
    }
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    start, python = (subprocess.Popen, [sys.executable]) if is_fresh else (Forked, [])
    command = [*python, *CLI, *map(str, arguments)]
    process = await Process.of(start(command, env=quiet | (env or {}), cwd=ROOT, **streams))
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def recording(tape: Path, upstream: str, *arguments: object, **more: Any) -> AsyncIterator[tuple[Process, str]]:
    """Start `wiretape record` on a free port; give it with its base URL once its writer holds the tape."""
    told = ("--db", tape, "--upstream", upstream, "--listen", ":0", *arguments)
    async with wiretape("record", *told, **more) as process:
        assert process.stdout is not None
        base = (await process.stdout.readline()).decode().rstrip("\n")
        if base:
            await until(lambda: holds_session(tape, base))
        yield process, base


async def finish(
    process: Process, number: signal.Signals | None = None, seconds: float = SECONDS
) -> tuple[int, str, str]:
    """Wait for the end of the command, after a signal if one is given; return its exit code and remaining output."""
    if number is not None:
        process.send_signal(number)
    async with asyncio.timeout(seconds):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, (out or b"").decode(), (err or b"").decode()


# The relay


async def stamping() -> None:
    """Wait until the kernel records receive times: it begins a moment after the first socket has asked, or later."""
    with create_server(("127.0.0.1", 0)) as listener, socket() as near:
        near.connect(listener.getsockname())
        with listener.accept()[0] as far:
            ask_for_times(near)

            def is_stamped() -> bool:
                far.send(b".")
                return bool(near.recvmsg(1, 64)[1]) or sys.platform != "linux"

            await until(is_stamped)


class Relay:
    """A recorder before a scripted upstream, which plays a scene to requests for the target from `plays`."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.runner = asyncio.Runner(loop_factory=options.pop("loop", uvloop.new_event_loop))
        self.tape = directory / "tape.db"
        self.upstream = ScriptedUpstream(options.pop("choose", self._choose), options.pop("tls", None))
        self.refused: list[Refusal] = []
        self.troubles: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self._options = options
        self._stopped = False
        self._scenes: dict[bytes, Scene] = {}
        self.recorder: Recorder

    def __enter__(self) -> "Relay":
        self.runner.run(self.start())
        return self

    def __exit__(self, *_: object) -> None:
        if not self._stopped:
            self.runner.run(self.stop())
        self.runner.close()

    async def start(self) -> None:
        await self.upstream.__aenter__()
        upstreams = [providers.parse(text) for text in self._options.pop("others", ())]
        options = RecorderOptions(self.tape, [providers.parse(self.upstream.url), *upstreams], **self._options)
        observer = Observer(
            refused=self.refused.append,
            failed=self.troubles.append,
            trouble=self._note_trouble,
            asked=lambda host, decision: self.asked.append((host, decision)),
            notice=self.notices.append,
        )
        self.recorder = Recorder(options, observer)
        await self.recorder.start()
        await self.recorder.tap.ready()
        await stamping()

    def _note_trouble(self, message: str) -> None:
        """Note a trouble of the recording; that a loaded machine's writer is late, and has lost nothing, is none."""
        if not message.endswith(("; new data is kept in memory", "nothing was lost meanwhile")):
            self.troubles.append(message)

    async def stop(self) -> int:
        unstored = await self.recorder.stop()
        await self.upstream.__aexit__()
        self._stopped = True
        return unstored

    @property
    def base(self) -> str:
        return self.recorder.base

    def plays(self, scene: Scene) -> str:
        """Return a new target, whose requests get this scene."""
        target = f"/v1/scene-{len(self._scenes)}"
        self._scenes[target.encode()] = scene
        return target

    def _choose(self, request: ReceivedRequest) -> Scene:
        return self._scenes.get(request.target) or answer(
            [(0, b"{}")], content_type="application/json", framing="length"
        )

    def request(self, target: str) -> ReceivedRequest | None:
        """Return the request that upstream received for this target."""
        return next((request for request in self.upstream.requests if request.target == target.encode()), None)

    async def get(self, target: str, **request: Any) -> Answer:
        return await fetch(self.base, post(target, **request), request.get("method", "POST"))

    async def kept(self, target: str) -> Kept:
        """Wait for the exchange of this target to have ended on the tape."""
        row: Kept = await until(lambda: kept(self.tape, target))
        return row

    async def shows(self, scene: Scene, **request: Any) -> tuple[Answer, Kept]:
        """Play a scene to one client, and return its answer and the exchange on the tape."""
        target = self.plays(scene)
        got = await self.get(target, **request)
        return got, await self.kept(target)

    async def shows_apart(self, *pieces: tuple[bytes, bytes], end: str = "close") -> tuple[Answer, Kept]:
        """Play pieces that no read can hold together, and return the client's answer and the exchange on the tape.

        Each follows when the client has got the one before it, up to the bytes that are given with that: b"" for none.
        Upstream then ends by "close" or "reset", or waits for the relay to end: "stall".
        """
        target, received = self.plays(Scene([])), asyncio.StreamReader()
        writer_future: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        over = asyncio.Event()

        async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"{}")
            writer_future.set_result(writer)
            await over.wait()

        async with serving_raw(self, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(SECONDS):
            writer.write(post(target))
            sending = await writer_future
            for data, is_final in pieces:
                sending.write(data)
                if is_final:
                    received.feed_data(await reader.readuntil(is_final))
            if end == "reset":
                reset(sending)
            elif end == "close":
                over.set()
            with contextlib.suppress(ConnectionError):
                received.feed_data(await reader.read())
        received.feed_eof()
        return await take(received), await self.kept(target)
