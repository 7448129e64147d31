"""A program gets the same alone, and through `record` and `run`: the bytes of answers, and the class of errors."""

import asyncio
import contextlib
import fcntl
import gzip
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import termios
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import pytest
from h2.events import StreamEnded

from tests.support.outward import CompanyProxy
from tests.support.relay import (
    CHUNKED,
    DONE,
    HEAD,
    behind_handshakes,
    blocking,
    chunk,
    finish,
    recording,
    reset_at_once,
    run,
    serving,
    wiretape,
)

PROGRAM = """
import asyncio, base64, json, os, socket, ssl, subprocess, sys, urllib.parse, urllib.request
import h11, httpx

OWN = ("x-wiretape-", "x-accel-buffering", "connection", "keep-alive", "transfer-encoding")

class Tls:  # the sockets of Python's ssl take a reset for an end
    def __init__(self, sock, host):
        self.sock, self.input, self.output = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = ssl.create_default_context().wrap_bio(self.input, self.output, server_hostname=host)
        self.done(self.tls.do_handshake)

    def done(self, act, *values):
        while True:
            try:
                return act(*values)
            except ssl.SSLWantReadError:
                self.flush()
                data = self.sock.recv(65536)
                self.input.write(data) if data else self.input.write_eof()
            finally:
                self.flush()

    def flush(self):
        if data := self.output.read():
            self.sock.sendall(data)

    def sendall(self, data):
        self.done(self.tls.write, data)

    def recv(self, size):
        try:
            return self.done(self.tls.read, size)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

def dial(url):
    proxy = None if urllib.request.proxy_bypass(url.netloc) else urllib.request.getproxies().get(url.scheme)
    way = urllib.parse.urlsplit(proxy or url.geturl())
    sock = socket.create_connection((way.hostname, way.port), 10)
    if proxy:
        pair = f"{urllib.parse.unquote(way.username or '')}:{urllib.parse.unquote(way.password or '')}"
        credential = ("proxy-authorization", "Basic " + base64.b64encode(pair.encode()).decode())
        if url.scheme == "http":
            return sock, url.geturl(), [credential]
        lines = [f"CONNECT {url.netloc} HTTP/1.1", f"host: {url.netloc}", ": ".join(credential), "", ""]
        sock.sendall("\\r\\n".join(lines).encode())
        head = b""
        while not head.endswith(b"\\r\\n\\r\\n"):
            head += sock.recv(1)
        if b" 200 " not in head:
            raise ConnectionError(head)
    if url.scheme == "https":
        sock = Tls(sock, url.hostname)
    return sock, url.path + ("?" + url.query if url.query else ""), []

def by_h11(text):
    url, got = urllib.parse.urlsplit(text), {"interim": [], "status": None, "headers": [], "body": "", "end": ""}
    parser = h11.Connection(h11.CLIENT, 1 << 20)
    try:
        sock, target, more = dial(url)
        headers = [("host", url.netloc), ("accept-encoding", "gzip, br"), ("connection", "close"), *more]
        sock.sendall(parser.send(h11.Request(method="GET", target=target, headers=headers)))
        sock.sendall(parser.send(h11.EndOfMessage()))
        while not got["end"]:
            match parser.next_event():
                case h11.NEED_DATA:
                    parser.receive_data(sock.recv(65536))
                case h11.InformationalResponse() as head:
                    got["interim"].append(head.status_code)
                case h11.Response() as head:
                    got["status"] = head.status_code
                    pairs = ((name.decode(), value.decode("latin-1")) for name, value in head.headers)
                    base = f"{url.scheme}://{url.netloc}"
                    got["headers"] = [(n, v.replace(base, "BASE")) for n, v in pairs if not n.startswith(OWN)]
                case h11.Data(data=data):
                    got["body"] += bytes(data).decode("latin-1")
                case h11.EndOfMessage():
                    got["end"] = "whole"
    except Exception as error:
        got["end"] = type(error).__name__
    return got

def by_http1(text):
    return asyncio.run(asked_by_httpx(text, http1=True, http2=False))

def by_http2(text):
    return asyncio.run(asked_by_httpx(text, http1=False, http2=True))

async def asked_by_httpx(text, **protocols):
    got = {"version": None, "status": None, "body": "", "end": "whole"}
    try:
        async with (
            httpx.AsyncClient(**protocols, timeout=60) as client, client.stream("GET", text) as answer
        ):
            got["version"], got["status"] = answer.http_version, answer.status_code
            async for piece in answer.aiter_raw():
                got["body"] += piece.decode("latin-1")
    except Exception as error:
        got["end"] = type(error).__name__
    return got

def by_curl(text):
    done = subprocess.run(["curl", "-s", "-m", "10", "-w", "%{http_code}", text], capture_output=True)
    return {"code": done.returncode, "out": done.stdout.decode("latin-1")}

print(json.dumps({name: globals()[f"by_{kind}"](url) for name, kind, url in json.loads(sys.argv[1])}))
"""
"""A client of the requests that its argument lists; it prints the transcript of each."""

EVENTS = [chunk(str(number)) for number in range(3)]
LONG = "x" * 60_000


def framed(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def flushed() -> Iterator[bytes]:
    """Yield events in gzip, flushed after each."""
    coder = zlib.compressobj(wbits=31)
    for event in [*EVENTS, DONE]:
        yield coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH)
    yield coder.flush()


def coded(*pieces: bytes) -> bytes:
    return HEAD + b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n" + framed(*pieces) + b"0\r\n\r\n"


def plain(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"content-length: %d" % len(body), b"", body])


ANSWERS = {
    "gzip_flushed": coded(*flushed()),
    "gzip_unflushed": coded(gzip.compress(b"".join([*EVENTS, DONE]))),
    "interim": b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + plain(b"{}"),
    "headers": plain(b"{}", *(b"x-%d: %d" % (number, number) for number in range(200))),
    "cut": CHUNKED + framed(*EVENTS),
    "reset": CHUNKED + framed(*EVENTS),
    "reset_before_head": b"",
    "closed_before_head": b"",
    "old": b"HTTP/1.0 200 OK\r\n\r\nhello",
    "lines": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
}


def drop(sock: socket.socket) -> None:
    """Wait until the peer's kernel has all that was sent."""
    while any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))):
        time.sleep(0.001)


def respond(sock: socket.socket) -> None:
    """Answer one request by the name in its path."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(65536)
        if not piece:
            return
        head += piece
    target = head.split(b" ", 2)[1]
    name = target.rpartition(b"/")[2].partition(b"?")[0].decode()
    if name == "long":
        sock.sendall(plain(b"%d" % len(target)))
    elif name == "accepts":
        sock.sendall(plain(head.lower().partition(b"accept-encoding: ")[2].partition(b"\r")[0]))
    elif name == "moved":
        host = head.lower().partition(b"host: ")[2].partition(b"\r")[0]
        sock.sendall(plain(b"", b"location: https://%b/v1/chat/completions/long" % host, status=b"307 Moved"))
    else:
        sock.sendall(ANSWERS[name])
    if name.startswith("reset"):
        drop(sock)
        reset_at_once(sock)
    else:
        sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            sock.recv(1)


def respond_by_http2(sock: ssl.SSLSocket) -> None:
    """Answer one request over HTTP/2 with some data and a reset."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    sock.sendall(connection.data_to_send())
    while data := sock.recv(65536):
        for event in connection.receive_data(data):
            if isinstance(event, StreamEnded):
                connection.send_headers(event.stream_id, [(":status", "200")])
                connection.send_data(event.stream_id, b"".join(EVENTS))
                sock.sendall(connection.data_to_send())
                drop(sock)
                reset_at_once(sock)
                return
        sock.sendall(connection.data_to_send())


def serve(sock: ssl.SSLSocket) -> None:
    """Answer a connection, by its protocol."""
    respond_by_http2(sock) if sock.selected_alpn_protocol() == "h2" else respond(sock)


def close(sock: socket.socket) -> None:
    """End a connection in good order, and wait for the client's end."""
    sock.shutdown(socket.SHUT_WR)
    with contextlib.suppress(OSError):
        while sock.recv(65536):
            pass


PATHS = {
    "accepts": "accepts",
    "long_target": f"long/{LONG}/long",
    "long_query": f"long?{LONG}",
    "absolute_location": "moved",
    **{name: name for name in ANSWERS if name not in ("old", "lines")},
}
"""Requests that are recorded, with their paths."""
LOCAL = ("old", "lines", f"long?{LONG}")
"""Requests to a server of this machine that is no API."""
ALONE = {
    "accepts": (200, "whole"),
    "absolute_location": (307, "whole"),
    "cut": (200, "RemoteProtocolError"),
    "reset": (200, "ConnectionResetError"),
    "reset_before_head": (None, "ConnectionResetError"),
    "closed_before_head": (None, "RemoteProtocolError"),
    "closed_behind_handshake": (None, "RemoteProtocolError"),
    "http_2_reset": (200, "ReadError"),
}
"""Status and end of the requests that are not answered as usual."""
UNANSWERED = {name for name, (status, _) in ALONE.items() if status is None}
"""Requests to which `record` answers 502."""


async def program(rows: list[tuple[str, str, str]], env: dict[str, str], *through: object) -> dict[str, Any]:
    """Return the transcripts of requests that a program makes, alone or `through` a command of wiretape."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(rows)]
    if through:
        async with wiretape(*through, "--", *command, env=env) as process:
            code, out, err = await finish(process)
    else:
        program = await asyncio.create_subprocess_exec(
            *command, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        code, out, err = program.returncode, *[text.decode() for text in await program.communicate()]
    assert out, (code, err)
    transcripts: dict[str, Any] = json.loads(out)
    return transcripts


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> dict[str, dict[str, Any]]:
    """The transcripts of all requests, by their ways."""
    directory, trusted = tmp_path_factory.mktemp("pairs"), authority / "ca.pem"
    asking = serving(authority, "good")
    asking.verify_mode = ssl.CERT_REQUIRED
    asking.load_verify_locations(trusted)
    sites = serving(authority, "good")
    sites.set_alpn_protocols(["h2", "http/1.1"])

    def requests(base: str, closing: str, asking: str) -> list[tuple[str, str, str]]:
        return [
            *((name, "h11", f"{base}/v1/{path}") for name, path in PATHS.items()),
            ("closed_behind_handshake", "h11", f"{closing}/v1/x"),
            ("certificate_asked", "http1", f"{asking}/v1/accepts"),
            ("http_2_reset", "http2", f"{base}/v1/reset"),
        ]

    async def main() -> dict[str, dict[str, Any]]:
        with contextlib.ExitStack() as servers:
            places = [
                servers.enter_context(behind_handshakes(context, respond)).replace("127.0.0.1", "https://localhost")
                for context, respond in ((sites, serve), (serving(authority, "good"), close), (asking, serve))
            ]
            env = {"SSL_CERT_FILE": str(trusted)}
            upstreams = [f"{name}={place}" for name, place in zip(("closing", "asking"), places[1:], strict=True)]
            options = [option for upstream in upstreams for option in ("--upstream", upstream)]
            ca = ("--ca-file", trusted)
            async with recording(directory / "record.db", places[0], *options, *ca) as (_, base):
                recorded = await program(requests(base, f"{base}/closing", f"{base}/asking"), env)
            through = ("run", "--db", directory / "run.db", "--host", "localhost")
            rows = requests(*places)
            return {"alone": await program(rows, env), "record": recorded, "run": await program(rows, env, *through)}

    result: dict[str, dict[str, Any]] = run(main())
    return result


@pytest.fixture(scope="module")
def company_transcripts(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> list[Any]:
    """The transcripts in a company's network alone and through `run`, each with the count of calls by its proxy."""
    directory, certificates = tmp_path_factory.mktemp("company"), tmp_path_factory.mktemp("certificates")
    shutil.copy(authority / "ca.pem", certificates)
    subprocess.run(["openssl", "rehash", certificates], check=True, capture_output=True)

    async def main() -> list[Any]:
        with contextlib.ExitStack() as servers:
            place = servers.enter_context(behind_handshakes(serving(authority, "wrong"), serve))
            local = servers.enter_context(blocking(respond))
            url = f"https://other.test{place[place.index(':') :]}/v1/accepts"
            rows = [("proxied", "h11", url), *((name, "h11", f"http://{local}/{name}") for name in LOCAL)]
            if shutil.which("curl"):
                rows.append(("bundle_of_curl", "curl", url))
            transcripts = []
            for through in ((), ("run", "--db", directory / "run.db", "--host", "other.test")):
                async with CompanyProxy() as proxy:
                    env = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), proxy.url()) | {"NO_PROXY": "127.0.0.1"}
                    env |= {"SSL_CERT_DIR": str(certificates), "CURL_CA_BUNDLE": str(authority / "ca.pem")}
                    transcripts.append((await program(rows, env, *through), len(proxy.heads)))
            return transcripts

    result: list[Any] = run(main())
    return result


def test_a_program_gets_the_same_in_a_companys_network(company_transcripts: list[Any]) -> None:
    (alone, count), (got, proxied_count) = company_transcripts
    assert got == alone
    assert proxied_count == count > 0
    assert {alone[name]["status"] for name in ("proxied", *LOCAL)} == {200}
    assert alone.get("bundle_of_curl", {"code": 0})["code"] == 0


@pytest.mark.parametrize("mode", ["record", "run"])
@pytest.mark.parametrize("name", [*PATHS, "closed_behind_handshake", "http_2_reset"])
def test_a_program_gets_the_same_as_alone(transcripts: dict[str, dict[str, Any]], name: str, mode: str) -> None:
    alone, got = transcripts["alone"][name], transcripts[mode][name]
    assert (alone["status"], alone["end"]) == ALONE.get(name, (200, "whole"))
    if mode == "record" and name in UNANSWERED:
        assert (got["status"], got["end"]) == (502, "whole")
    else:
        assert got == alone


def test_a_missing_client_certificate_is_an_error_at_once(
    transcripts: dict[str, dict[str, Any]],
) -> None:
    ends = {mode: rows["certificate_asked"] for mode, rows in transcripts.items()}
    assert ends["alone"]["end"] in ("SSLError", "ReadError")  # a reset may overtake the alert
    assert (ends["record"]["status"], ends["record"]["end"]) == (502, "whole")
    assert (ends["run"]["status"], ends["run"]["end"]) == (None, "RemoteProtocolError")
