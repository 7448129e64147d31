"""Proxies on the way from wiretape to its upstreams: those named, those excluded, tunnels, refusals."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http2 import Stream, Upstream
from tests.support.outward import PASSWORD, CompanyProxy
from tests.support.relay import DONE, Relay, chunk, dial, fetch, on_loop, post, raw, run, serving
from wiretape.recorder.demo.upstream import answer
from wiretape.recorder.errors import ConfigError
from wiretape.recorder.relay import intercept, outward
from wiretape.recorder.relay.upstream import Timeouts

STREAM = answer([(0, chunk("Hel")), (0, chunk("lo", finish="stop")), (0, DONE)])
API = "api.internal.test"


@pytest.mark.parametrize(
    ("environ", "arguments", "plain", "secure"),
    [
        ({}, None, None, None),
        ({"HTTPS_PROXY": "http://a:1"}, None, None, "a:1"),
        ({"https_proxy": "b", "HTTPS_PROXY": "http://a:1", "HTTP_PROXY": ""}, None, None, "b:80"),
        ({"ALL_PROXY": "socks5h://[::1]", "http_proxy": "http://a:1"}, None, "a:1", "[::1]:1080"),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "x, *"}, None, None, None),
        ({"HTTPS_PROXY": "http://a:1", "WIRETAPE_PROXY": "c:2"}, None, "c:2", "c:2"),
        ({"HTTPS_PROXY": "http://a:1", "WIRETAPE_PROXY": ""}, None, None, "a:1"),
        ({"HTTP_PROXY": "http://a:1", "REQUEST_METHOD": "GET"}, None, None, None),
        ({"http_proxy": "http://a:1", "REQUEST_METHOD": "GET"}, None, "a:1", None),
        ({"HTTPS_PROXY": "http://a:1"}, "c:2", "c:2", "c:2"),
        ({"HTTPS_PROXY": "http://a:1"}, "", None, None),
    ],
)
def test_proxies_are_named_as_curl_and_python_have_it(
    environ: dict[str, str], arguments: str | None, plain: str | None, secure: str | None
) -> None:
    proxies = outward.read(environ, arguments)
    chosen = [proxies.of(scheme, API, 443) for scheme in ("http", "https")]
    assert [proxy and str(proxy) for proxy in chosen] == [plain, secure]


def test_credentials_are_percent_decoded_and_in_no_text() -> None:
    proxy = outward.parse("http://us%40er:p%2Fss@wor%3Ad@a:1", "X")
    assert proxy.authorization == [(b"Proxy-Authorization", b"Basic dXNAZXI6cC9zc0B3b3I6ZA==")]
    assert "ss" not in f"{proxy}{proxy!r}"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://u:hunter2@a", "by https://, which wiretape does not speak"),
        ("socks4://u:hunter2@a", "by socks4://"),
        ("http://u:hunter2#@a:1", "is not the URL of a proxy"),
        ("http://u:hunter2@a:port", "percent-encoded"),
        (f"socks5://{'hunter2' * 40}@a", "more than 255 bytes"),
    ],
)
def test_an_unusable_proxy_is_named_without_its_password(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        outward.read({"HTTPS_PROXY": url})
    assert str(raised.value).startswith("HTTPS_PROXY ")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("excluded", "past", "through"),
    [
        ("internal.test", ["internal.test:1", "API.internal.test.:1"], ["xinternal.test:1"]),
        (".internal.test *.other.test", ["a.internal.test:1", "other.test:1", "b.other.test:1"], ["test:1"]),
        ("internal.test:8443", ["internal.test:8443"], ["internal.test:443"]),
        ("10.0.0.1, 10.1.0.0/16", ["10.0.0.1:1", "10.1.2.3:1"], ["10.0.0.11:1", "10.2.0.0:1"]),
        ("[2001:db8::1]:8443,2001:db9::/32", ["[2001:DB8::1]:8443", "[2001:db9::7]:1"], ["[2001:db8::1]:443"]),
        ("0.1,,(", [], ["10.0.0.1:1", "a.test:1"]),
    ],
)
def test_no_proxy_matches_names_ports_addresses_and_networks(
    excluded: str, past: list[str], through: list[str]
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        proxies = outward.read({"HTTPS_PROXY": "http://a:1", name: excluded})
        for places, is_past in ((past, True), (through, False)):
            for place in places:
                host, _, port = place.rpartition(":")
                assert (proxies.of("https", host.strip("[]"), int(port)) is None) is is_past, place


def test_a_remote_proxy_is_not_asked_for_this_machine() -> None:
    away, local = (outward.read({"HTTP_PROXY": f"http://{host}:8377"}) for host in ("proxy.test", "localhost"))
    assert away.of("http", "127.0.0.1", 8000) is None
    assert local.of("http", "127.0.0.1", 8000) is not None
    assert local.without(8377).of("http", API, 80) is None
    assert local.without(8378).of("http", API, 80) is not None
    assert away.without(8377).of("http", API, 80) is not None


class Behind(Relay):
    """A recorder that intercepts, and reaches an API server of TLS, or of plain HTTP, through a proxy only."""

    def __init__(self, directory: Path, proxy: str, authority: Path | None = None, **more: Any) -> None:
        self.settings = intercept.make(("*.test", "localhost"))
        files = {"tls": serving(authority, "good"), "ca_file": authority / "ca.pem"} if authority else {}
        super().__init__(directory, interception=self.settings, proxies=outward.read({}, proxy), **files, **more)

    @property
    def port(self) -> int:
        return int(self.upstream.url.rpartition(":")[2])

    def client(self, **more: Any) -> httpx.AsyncClient:
        trusting = ssl.create_default_context(cadata=self.settings.authority.certificate)
        return httpx.AsyncClient(proxy=self.settings.proxy_url(self.base), verify=trusting, **more)

    def connect(self, place: str) -> bytes:
        credential = self.settings.credential.decode()
        return f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\nproxy-authorization: Basic {credential}\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def behind(directory: Path, proxy: str, authority: Path | None = None, **more: Any) -> AsyncIterator[Behind]:
    relay = Behind(directory, proxy, authority, **more)
    await relay.start()
    try:
        yield relay
        assert relay.troubles == []
    finally:
        await relay.stop()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_recorded_call_uses_one_tunnel_without_storing_passwords(
    tmp_path: Path, authority: Path, scheme: str
) -> None:
    run(record_through_tunnel(tmp_path, authority, scheme))
    assert all(PASSWORD.encode() not in file.read_bytes() for file in tmp_path.iterdir())


async def record_through_tunnel(directory: Path, authority: Path, scheme: str) -> None:
    async with CompanyProxy() as proxy, behind(directory, proxy.url(scheme), authority) as relay:
        target = relay.plays(STREAM)
        async with relay.client() as client:
            for _ in range(2):
                got = await client.post(f"https://localhost:{relay.port}{target}", json={})
        request = relay.request(target)
        assert (got.status_code, len(proxy.heads), relay.upstream.connections) == (200, 1, 1)
        assert request is not None
        assert not [name for name, _ in request.headers if name.startswith(b"proxy-")]


@on_loop
async def test_http2_is_agreed_on_through_one_tunnel(tmp_path: Path, authority: Path) -> None:
    async def play(stream: Stream) -> None:
        stream.send_head([(":status", "200"), ("content-type", "text/event-stream")])
        await stream.send(DONE, end=True)

    async with (
        CompanyProxy() as proxy,
        Upstream(play, tls=serving(authority, "good")) as upstream,
        behind(tmp_path, proxy.url(), authority) as relay,
    ):
        url = upstream.url.replace("127.0.0.1", "localhost")
        async with relay.client(http2=True) as client:
            for target in ("/v1/one", "/v1/two"):
                got = await client.post(f"{url}{target}", json={})
                assert (got.http_version, got.text) == ("HTTP/2", DONE.decode())
                assert (await relay.kept(target)).row["protocol"] == "h2"
        assert len(proxy.heads) == 1


@on_loop
async def test_plain_http_asks_the_proxy_over_one_connection(tmp_path: Path) -> None:
    async with CompanyProxy() as proxy, behind(tmp_path, proxy.url()) as relay:
        target = relay.plays(STREAM)
        async with relay.client() as client:
            for _ in range(2):
                got = await client.post(f"http://{API}:{relay.port}{target}", json={})
                assert got.status_code == 200
        (head,) = proxy.heads
        assert head.startswith(b"POST http://%b:%d%b HTTP/1.1\r\n" % (API.encode(), relay.port, target.encode()))
        assert relay.upstream.connections == 1


@on_loop
async def test_a_websocket_by_plain_http_goes_through_a_tunnel(tmp_path: Path) -> None:
    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x88\0")
        await reader.read()
        writer.close()

    upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "x3JJHMbDL1EzLkh9GBhXDw==")]
    async with CompanyProxy() as proxy, await asyncio.start_server(upstream, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        extra_hosts = [f"socket=http://{API}:{port}"]
        async with behind(tmp_path, proxy.url(), others=extra_hosts) as relay, dial(relay.base) as (reader, writer):
            writer.write(post("/socket/v1/realtime", b"", upgrade, method="GET"))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            (head,) = proxy.heads
            assert head.startswith(b"CONNECT %b:%d HTTP/1.1\r\n" % (API.encode(), port))


@on_loop
async def test_a_hosts_first_bytes_are_not_the_proxys(tmp_path: Path) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail")
        writer.close()

    for scheme in ("http", "socks5"):
        async with (
            CompanyProxy() as proxy,
            await asyncio.start_server(greet, "127.0.0.1", 0) as server,
            behind(tmp_path, proxy.url(scheme)) as relay,
        ):
            place = f"mail.example:{server.sockets[0].getsockname()[1]}"
            got = await raw(relay.base, relay.connect(place))
            assert got == b"HTTP/1.1 200 Connection established\r\n\r\n220 mail"


FORBIDDEN = b"HTTP/1.1 403 Not here\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("response", "status_line", "outcome", "words"),
    [
        (FORBIDDEN, b"HTTP/1.1 403 Not here\r\n", ("connect_error", "refused"), "answered 403 Not here to CONNECT"),
        (
            None,
            b"HTTP/1.1 407 Who are you\r\n",
            ("connect_error", "refused"),
            "407 Who are you to CONNECT: see",
        ),
        (
            "HTTP/1.1 403 Verböten\r\n\r\n".encode("latin-1"),
            "HTTP/1.1 403 Verböten\r\n".encode("latin-1"),
            ("connect_error", "refused"),
            "answered 403 Verb\N{REPLACEMENT CHARACTER}ten to CONNECT",
        ),
        (b"HTTP/1.1 102 \r\n\r\n" + FORBIDDEN, b"HTTP/1.1 403 ", ("connect_error", "refused"), "403"),
        (b"", b"", ("connect_error", "reset"), "closed the connection without an answer"),
        (b"SSH-2.0", b"", ("connect_error", "protocol"), "not HTTP"),
    ],
)
@on_loop
async def test_a_proxys_refusal_is_answered_recorded_and_reported(
    tmp_path: Path, response: bytes | None, status_line: bytes, outcome: tuple[str, str], words: str
) -> None:
    async with CompanyProxy(response) as proxy, behind(tmp_path, proxy.url(password="wrong")) as relay:
        for host in (API, "pypi.example"):
            got = await raw(relay.base, relay.connect(f"{host}:443"))
            assert got.startswith(status_line), "recorded, and not"
            assert got or not status_line
        row = await relay.kept("/")
        assert (row.row["method"], row.row["upstream"], row.outcome) == ("CONNECT", f"https://{API}", outcome)
        (notice,) = relay.notices
        assert notice.startswith(f"no answer from {API}:443: the proxy 127.0.0.1:")
        assert words in notice
        assert "wrong" not in notice


@on_loop
async def test_a_base_url_client_learns_why_the_proxy_failed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        full = socket.create_connection(silent.getsockname())
        for sock, status, words in ((closed, 502, "refused"), (silent, 504, "no connection within 0.2 s")):
            place = "127.0.0.1:{1}".format(*sock.getsockname())
            async with behind(
                tmp_path, f"http://u:hunter2@{place}", others=[f"api=https://{API}"], limits=Timeouts(0.2)
            ) as relay:
                got = await fetch(relay.base, post("/api/v1/x"))
            text = got.body.decode()
            assert (got.status, words in text.lower(), place in text, "hunter2" in text) == (status, True, True, False)
        full.close()
