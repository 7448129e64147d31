"""A recorder as a forward proxy: interception, tunnels and refusals."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.cases import each_case
from tests.support.relay import (
    DONE,
    Relay,
    accepting,
    address,
    behind_handshakes,
    chunk,
    dial,
    fill,
    on_loop,
    post,
    raw,
    reset,
    reset_at_once,
    serving,
    sip,
    take,
    until,
)
from wiretape.recorder.demo.upstream import Scene, answer
from wiretape.recorder.relay import intercept, tunnel
from wiretape.recorder.relay.upstream import Timeouts

STREAM = answer([(0, chunk("Hel")), (0.02, chunk("lo", finish="stop")), (0, DONE)])


class Intercepting(Relay):
    """A recorder that intercepts, before an API server on this machine that speaks TLS."""

    def __init__(
        self,
        directory: Path,
        authority: Path,
        hosts: tuple[str, ...] = ("127.0.0.2", "*.loopback.test"),
        **more: object,
    ) -> None:
        self.settings = intercept.make(tuple(hosts))
        tls = serving(authority, "good")
        super().__init__(
            directory, tls=tls, others=["other=http://127.0.0.1:9"], interception=self.settings,
            ca_file=authority / "ca.pem", **more,
        )  # fmt: skip

    @property
    def proxy(self) -> str:
        return self.settings.proxy_url(self.base)

    @property
    def authorization(self) -> tuple[str, str]:
        return "proxy-authorization", f"Basic {self.settings.credential.decode()}"

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.settings.authority.certificate)

    def connect(self, place: str, *headers: tuple[str, str], version: str = "1.1") -> bytes:
        lines = [f"CONNECT {place} HTTP/{version}", f"host: {place}", *(f"{name}: {value}" for name, value in headers)]
        return "\r\n".join([*lines, "\r\n"]).encode()


@pytest.fixture(scope="module")
def intercepting(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[Intercepting]:
    with Intercepting(tmp_path_factory.mktemp("relay"), authority) as relay:
        yield relay
        assert relay.troubles == []


@pytest.fixture
def relay(intercepting: Intercepting) -> Intercepting:
    """The recorder of all tests, without the reports of earlier ones."""
    for log in (intercepting.asked, intercepting.notices, intercepting.refused, intercepting.upstream.requests):
        log.clear()
    intercepting.upstream.connections = 0
    return intercepting


@on_loop
async def test_a_program_with_a_fixed_url_is_recorded(relay: Intercepting) -> None:
    target = relay.plays(STREAM)
    async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
        for _ in range(2):
            got = await client.post(
                f"{relay.upstream.url}{target}", json={}, headers={"authorization": "Bearer sk-123"}
            )
            assert got.text.endswith(DONE.decode())
    row = await until(lambda: relay.request(target))
    sent = dict(row.headers)
    assert sent[b"host"] == relay.upstream.url.removeprefix("https://").encode()
    assert sent[b"authorization"] == b"Bearer sk-123"
    assert sent[b"accept-encoding"].startswith(b"gzip")
    assert relay.upstream.connections == 1
    assert relay.asked == [(relay.upstream.url.removeprefix("https://"), "intercepted")]


@on_loop
async def test_the_tape_has_the_stream_and_no_credential(relay: Intercepting) -> None:
    target = relay.plays(STREAM)
    async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
        await client.post(f"{relay.upstream.url}{target}", json={}, headers={"proxy-authorization": "Basic inside"})
    row = await relay.kept(target)
    assert (row.outcome, row.row["upstream"]) == (("complete", None), relay.upstream.url)
    assert b"".join(row.reads).endswith(DONE)
    assert "proxy-" not in row.row["request_headers"]
    assert "h2_offered" not in row.flags
    assert all(not name.startswith(b"proxy-") for name, _ in relay.upstream.requests[0].headers)


@on_loop
async def test_breaks_and_departures_are_seen_through_tls(relay: Intercepting) -> None:
    opening = [(0.0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n:a\n\n\r\n")]
    broken, stalled = relay.plays(Scene(opening, "reset")), relay.plays(Scene(opening, "stall"))
    async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
        with pytest.raises(httpx.ReadError):
            await client.post(f"{relay.upstream.url}{broken}", json={})
        async with client.stream("POST", f"{relay.upstream.url}{stalled}", json={}) as got:
            assert await anext(got.aiter_raw()) == b":a\n\n"
    assert (await relay.kept(broken)).outcome == ("truncated", "reset")
    assert (await relay.kept(stalled)).outcome == ("client_closed", None)
    assert relay.notices == []


@pytest.mark.parametrize("credential", [None, "Basic d2lyZXRhcGU6d3Jvbmc=", "Bearer x", "twice"])
@on_loop
async def test_a_client_without_the_credential_connects_to_nothing(relay: Intercepting, credential: str | None) -> None:
    credentials = relay.authorization
    fields = {None: [], "twice": [credentials, credentials]}.get(
        credential, [("proxy-authorization", credential or "")]
    )
    place = relay.upstream.url.removeprefix("https://")
    for request in (relay.connect(place, *fields), post(f"http://{place}/v1/x", headers=fields)):
        got = await raw(relay.base, request)
        assert got.startswith(b"HTTP/1.1 407 ")
        assert b'proxy-authenticate: Basic realm="wiretape"' in got
    assert relay.upstream.connections == 0
    assert relay.asked == [(place, "refused")]
    assert [refusal.status for refusal in relay.refused] == [407, 407]


@on_loop
async def test_any_other_host_gets_a_blind_tunnel(relay: Intercepting) -> None:
    endings: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(9))
        endings.append(await reader.read())
        writer.write(b"after the half-close")
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.3", 0) as server, dial(relay.base) as (reader, writer):
        place = "{}:{}".format(*server.sockets[0].getsockname())
        writer.write(relay.connect(place, relay.authorization, version="1.0") + b"not ")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        writer.write(b"HTTP\0more")
        writer.write_eof()
        assert await reader.read() == b"not HTTP\0after the half-close"
    assert endings == [b"more"]
    assert relay.asked == [(place, "tunnelled")]
    assert relay.refused == []


@on_loop
async def test_a_tunnel_ends_though_its_server_does_not_close(
    relay: Intercepting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel, "HALF_OPEN_SECONDS", 0.05)
    seen = asyncio.Event()

    async def stays(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(b"the last")
        await seen.wait()
        writer.close()

    async with await asyncio.start_server(stays, "127.0.0.3", 0) as server, dial(relay.base) as (reader, writer):
        writer.write(relay.connect("{}:{}".format(*server.sockets[0].getsockname()), relay.authorization))
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        assert await reader.read() == b"the last"
        seen.set()


@on_loop
async def test_a_slow_tunnel_client_gets_everything_before_a_reset(relay: Intercepting) -> None:
    counts: asyncio.Queue[int] = asyncio.Queue()

    async def play(server: socket.socket) -> None:
        counts.put_nowait(await fill(server, bytes(60_000)))
        reset_at_once(server)

    async with accepting(play) as port:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.connect(address(relay.base))
            client.setblocking(False)
            client.send(relay.connect(f"127.0.0.1:{port}", relay.authorization))
            count = await asyncio.wait_for(counts.get(), 60)
            got, is_reset = await sip(client)
    assert len(got.partition(b"\r\n\r\n")[2]) >= count > 1_000_000
    assert is_reset


@on_loop
async def test_a_clients_reset_passes_a_tunnel(relay: Intercepting) -> None:
    ends: asyncio.Queue[bool] = asyncio.Queue()

    async def play(server: socket.socket) -> None:
        ends.put_nowait((await sip(server))[1])

    async with accepting(play) as port, dial(relay.base) as (reader, writer):
        writer.write(relay.connect(f"127.0.0.1:{port}", relay.authorization))
        await reader.readuntil(b"\r\n\r\n")
        reset(writer)
        assert await asyncio.wait_for(ends.get(), 60)


@pytest.mark.parametrize("wrong", [(), ("content-length", "4"), ("transfer-encoding", "chunked")])
@on_loop
async def test_connect_has_a_host_a_port_and_no_body(relay: Intercepting, wrong: tuple[str, str] | tuple[()]) -> None:
    place = "127.0.0.2:1" if wrong else "127.0.0.2"
    got = await raw(relay.base, relay.connect(place, relay.authorization, *([wrong] if wrong else [])))
    assert got.startswith(b"HTTP/1.1 400 ")
    assert [refusal.status for refusal in relay.refused] == [400]


def test_a_tunnel_to_a_silent_host_times_out(tmp_path: Path, authority: Path) -> None:
    async def main() -> None:
        got = await raw(relay.base, relay.connect("{}:{}".format(*full.getsockname()), relay.authorization))
        assert got.startswith(b"HTTP/1.1 502 ")
        assert b"no connection within 0.1 s" in got

    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_connection(full.getsockname()),
        socket.socket() as listener,
        Intercepting(tmp_path, authority, limits=Timeouts(connect=0.1)) as relay,
    ):
        listener.setblocking(False)
        listener.connect_ex(full.getsockname())
        relay.runner.run(main())


@on_loop
async def test_a_host_that_cannot_be_reached_is_answered_502(relay: Intercepting) -> None:
    got = await raw(relay.base, relay.connect("[::1]:10", relay.authorization))
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"[::1]:10: " in got


@on_loop
async def test_plain_http_is_recorded_only_from_an_api(relay: Intercepting) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nx-y: z\r\n\r\n%b" % (len(head), head))
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_server(answers, "127.0.0.2", 0) as api,
        await asyncio.start_server(answers, "127.0.0.1", 0) as listening,
        httpx.AsyncClient(proxy=relay.proxy, headers={"accept-encoding": "br"}) as client,
    ):
        places = ["{}:{}".format(*server.sockets[0].getsockname()) for server in (api, listening)]
        recorded, relayed = [await client.get(f"http://{place}//v1/x?y") for place in places]
    assert recorded.text.startswith(f"GET //v1/x?y HTTP/1.1\r\nHost: {places[0]}\r\n")
    assert relayed.text.startswith(f"GET //v1/x?y HTTP/1.1\r\nHost: {places[1]}\r\n")
    assert all("\r\nUser-Agent: python-httpx" in got.text for got in (recorded, relayed)), "as the client spells it"
    assert "accept-encoding: br" in recorded.text
    assert "accept-encoding: br" in relayed.text
    assert ["x-wiretape-id" in got.headers for got in (recorded, relayed)] == [True, False]
    assert relay.asked == [(places[0], "intercepted"), (places[1], "relayed")]
    await relay.kept("//v1/x?y")
    assert relay.recorder.counts.unrecorded == 0


@pytest.mark.parametrize(
    ("version", "answer", "head"),
    [
        ("1.1", b"HTTP/1.1 200 Fine\nx-y: z\ncontent-length: 5\n\nhello", b"HTTP/1.1 200 Fine\r\nx-y: z\r\n"),
        ("1.0", b"HTTP/1.0 200 OK\r\n\r\nhello", b"HTTP/1.1 200 OK\r\n"),
        (
            "1.0",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
        ),
    ],
)
@on_loop
async def test_a_server_without_an_api_may_speak_older_http(
    relay: Intercepting, version: str, answer: bytes, head: bytes
) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.3", 0) as server:
        place = "{}:{}".format(*server.sockets[0].getsockname())
        request = post(f"http://{place}/?{'q' * 20_000}", b"", [relay.authorization], "GET")
        got = await raw(relay.base, request.replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
    assert got.startswith(head)
    assert got.partition(b"\r\n\r\n")[2] == b"hello"
    assert b"chunked" not in got


@on_loop
async def test_a_tunnel_to_an_api_may_hold_plain_http(relay: Intercepting) -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.2", 0) as api, dial(relay.base) as (reader, writer):
        place = "{}:{}".format(*api.sockets[0].getsockname())
        request = post("/v1/x").replace(b"host: localhost", b"host: other.test")
        writer.write(relay.connect(place, relay.authorization) + request)
        await reader.readuntil(b"\r\n\r\n")
        assert (await take(reader)).status == 421


@on_loop
async def test_tunnelled_plain_http_to_a_local_api_is_recorded(relay: Intercepting) -> None:
    seen = list[bytes]()
    posts = "/infill", "/text-to-speech/a/with-timestamps", "/v1beta/models/m%3AgenerateContent"
    calls = [("GET", "/health", b""), *(("POST", path, b"{}") for path in posts)]

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(b"connection")
        with contextlib.suppress(asyncio.IncompleteReadError):  # the end
            while head := await reader.readuntil(b"\r\n\r\n"):
                seen.append(head.split()[0])
                await reader.readexactly(2 * head.startswith(b"POST"))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.3", 0) as server, dial(relay.base) as (reader, writer):
        place = "{}:{}".format(*server.sockets[0].getsockname())
        writer.write(relay.connect(place, relay.authorization))
        await reader.readuntil(b"\r\n\r\n")
        for method, path, body in calls:
            spelling = place if body else place.replace(":", ".:")
            request = post(path, body, method=method).replace(b"localhost", spelling.encode())
            writer.write(request[:7])  # the first line comes in two reads
            await writer.drain()
            writer.write(request[7:])
            assert (await take(reader, method)).status == 200
            assert relay.asked[-1] == (place, "intercepted" if body else "relayed")
    assert seen == [b"connection", b"GET", b"POST", b"POST", b"POST"]
    for _, path, _ in calls[1:]:
        assert (await relay.kept(path)).row["upstream"] == f"http://{place}"


@on_loop
async def test_a_websocket_of_a_local_api_is_recorded(relay: Intercepting) -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    upgrade = [
        ("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]  # fmt: skip
    for path, treatment in (("/v1/realtime", "intercepted"), ("/events", "relayed")):
        async with (
            await asyncio.start_server(refuses, "127.0.0.3", 0) as server,
            dial(relay.base) as (reader, writer),
        ):
            place = "{}:{}".format(*server.sockets[0].getsockname())
            writer.write(post(f"http://{place}{path}", b"", [relay.authorization, *upgrade], "GET"))
            assert (await take(reader, "GET")).status == 404
            assert relay.asked[-1] == (place, treatment)


@each_case("first", ["server", "other protocol", "other host"])
def test_any_other_tunnel_to_this_machine_stays_blind(intercepting: Intercepting, first: str) -> None:
    sent = {
        "server": b"",
        "other protocol": b"GET / HTTP/1.1 \r\n",
        "other host": b"POST /api/chat HTTP/1.1\r\nhost: tenant.test\r\n\r\n",
    }[first]

    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready" if first == "server" else await reader.readexactly(len(sent)))
        await reader.read()
        writer.close()

    async def calls() -> bytes:
        async with await asyncio.start_server(speaks, "127.0.0.3", 0) as server, dial(relay.base) as (reader, writer):
            place = "{}:{}".format(*server.sockets[0].getsockname())
            writer.write(relay.connect(place, relay.authorization) + sent)
            await reader.readuntil(b"\r\n\r\n")
            got = await reader.readexactly(len(sent) or 9)
            writer.write_eof()
            return got + await reader.read()

    relay = intercepting
    assert relay.runner.run(calls()) == (sent or b"220 ready")


@on_loop
async def test_a_request_to_wiretape_itself_is_served_in_place(relay: Intercepting) -> None:
    target = relay.plays(STREAM)
    async with httpx.AsyncClient(proxy=relay.proxy) as client:
        got = await client.post(f"{relay.base}{target}", json={})
    assert got.text.endswith(DONE.decode())
    assert (await relay.kept(target)).row["upstream"] == relay.upstream.url


@contextlib.asynccontextmanager
async def shaking(
    relay: Intercepting, context: ssl.SSLContext, host: str, port: int = 443
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Ask for an API server, and speak TLS with who answers."""
    async with dial(relay.base) as (reader, writer):
        writer.write(relay.connect(f"{host}:{port}", relay.authorization))
        await reader.readuntil(b"\r\n\r\n")
        await writer.start_tls(context, server_hostname=host)
        yield reader, writer


@on_loop
async def test_a_client_without_the_authority_learns_the_missing_variable(
    relay: Intercepting,
) -> None:
    proxy = httpx.Proxy(relay.proxy, headers={"user-agent": "curl/8.1"})
    for _ in range(2):
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(httpx.get, relay.upstream.url, proxy=proxy, trust_env=False)
    await until(lambda: len(relay.asked) == 2)
    (notice,) = relay.notices
    assert "curl/8.1 does not trust wiretape's certificate for 127.0.0.1 (TLS alert unknown_ca)" in notice
    assert "CURL_CA_BUNDLE" in notice
    assert {decision for _, decision in relay.asked} == {"untrusted"}


@on_loop
async def test_a_client_that_leaves_at_the_certificate_distrusts_it(relay: Intercepting) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with shaking(relay, context, "left.loopback.test"):
        pass
    await until(lambda: relay.notices)
    assert "closed the connection on seeing it" in relay.notices[0]


@on_loop
async def test_a_client_that_has_gone_on_before_trusts_it(relay: Intercepting) -> None:
    target, (host, port), context = relay.plays(STREAM), address(relay.upstream.url), relay.trusting()
    async with shaking(relay, context, host, port) as (reader, writer):
        writer.write(post(target).replace(b"localhost", f"{host}:{port}".encode()))
        assert (await take(reader)).complete
    async with shaking(relay, context, host, port):
        pass
    async with shaking(relay, context, "last.loopback.test"):
        pass
    await until(lambda: relay.notices)
    assert [decision for _, decision in relay.asked] == ["intercepted", "untrusted"]


@on_loop
async def test_the_certificate_is_for_the_named_host_over_http1(relay: Intercepting) -> None:
    context = relay.trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with shaking(relay, context, "api.loopback.test") as (_, writer):
        secured = writer.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "http/1.1"
        assert secured.getpeercert()["subjectAltName"] == (("DNS", "api.loopback.test"),)


@on_loop
async def test_a_client_that_speaks_no_http_is_let_through(relay: Intercepting, authority: Path) -> None:
    host, port = address(relay.upstream.url)
    context = ssl.create_default_context(cafile=authority / "ca.pem")
    context.set_alpn_protocols(["imap"])
    async with shaking(relay, context, host, port) as (reader, writer):
        writer.write(post("/v1/x"))
        assert (await take(reader)).status == 200
    assert relay.asked == [(f"{host}:{port}", "tunnelled")]
    assert "only imap, and no HTTP" in relay.notices[0]


@on_loop
async def test_a_client_that_offers_http2_speaks_its_servers_version(relay: Intercepting) -> None:
    target, (host, port), context = relay.plays(STREAM), address(relay.upstream.url), relay.trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with shaking(relay, context, host, port) as (reader, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
        writer.write(post(target).replace(b"localhost", f"{host}:{port}".encode()))
        assert (await take(reader)).complete
    tape = await relay.kept(target)
    assert (tape.row["protocol"], tape.row["connection_reused"], relay.upstream.connections) == ("http/1.1", 0, 1)
    assert "h2_offered" not in tape.flags


def test_a_recorder_in_several_processes_intercepts(tmp_path: Path, authority: Path) -> None:
    async def main() -> None:
        for _ in range(4):
            async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
                await client.post(f"{relay.upstream.url}/v1/x", json={})
        await until(lambda: len(relay.asked) == 4)

    with Intercepting(tmp_path, authority, workers=2) as relay:
        relay.runner.run(main())


def test_unrecorded_tunnels_may_be_silent_and_delay_no_end(tmp_path: Path, authority: Path) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.15)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await asyncio.sleep(0.15)
        writer.write(b"1\r\nx\r\n")
        await reader.read()
        writer.close()

    async def main() -> None:
        async with (
            await asyncio.start_server(answers, "127.0.0.3", 0) as server,
            httpx.AsyncClient(proxy=relay.proxy) as client,
            client.stream("GET", "http://{}:{}".format(*server.sockets[0].getsockname())) as got,
        ):
            assert await anext(got.aiter_raw()) == b"x"
            started = asyncio.get_running_loop().time()
            await relay.stop()
            assert asyncio.get_running_loop().time() - started < 5

    with Intercepting(tmp_path, authority, limits=Timeouts(headers=0.05, idle=0.05)) as relay:
        relay.runner.run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
@on_loop
async def test_an_unreachable_api_gives_its_program_no_answer_either(relay: Intercepting, scheme: str) -> None:
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.2", 0))
        place = "{}:{}".format(*refusing.getsockname())
        async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
            for number in range(2):
                with pytest.raises(httpx.RemoteProtocolError, match="disconnected without sending a response"):
                    await client.post(f"{scheme}://{place}/v1/{scheme}-{number}", json={"model": "gpt-x"})
    tape = await relay.kept(f"/v1/{scheme}-1")
    assert (tape.outcome, tape.row["request_model"]) == (("connect_error", "refused"), "gpt-x")
    (notice,) = relay.notices
    assert notice.startswith(f"no answer from {place}: ")


@on_loop
async def test_only_the_user_learns_of_an_untrusted_certificate(relay: Intercepting, authority: Path) -> None:
    async def unused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "wrong.pem", authority / "wrong.key")
    async with (
        await asyncio.start_server(unused, "127.0.0.2", 0, ssl=context) as server,
        httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client,
    ):
        place = "{}:{}".format(*server.sockets[0].getsockname())
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"https://{place}/v1/untrusted", json={})
    assert (await relay.kept("/v1/untrusted")).outcome == ("connect_error", "tls")
    assert "certificate" in relay.notices[0]


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
@pytest.mark.parametrize(("asks", "detail"), [(True, "tls"), (False, "reset")], ids=["asks_for_certificate", "closes"])
def test_an_api_that_ends_after_its_handshake_is_recorded(
    tmp_path: Path, authority: Path, protocol: str, asks: bool, detail: str
) -> None:
    async def main() -> None:
        async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting(), http2=True, timeout=60) as client:
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await client.post(f"https://{place}/v1/closed", json={})
            assert (await relay.kept("/v1/closed")).outcome == ("connect_error", detail)

    tls = serving(authority, "good")
    tls.set_alpn_protocols([protocol])
    tls.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
    tls.load_verify_locations(authority / "ca.pem")
    with (
        behind_handshakes(tls, ssl.SSLSocket.close) as place,
        Intercepting(tmp_path, authority, hosts=(place,)) as relay,
    ):
        relay.runner.run(main())
    (notice,) = relay.notices
    assert notice.startswith(f"no answer from {place}: ")
    assert ("client certificate" in notice) is asks


@on_loop
async def test_an_api_reset_before_an_answer_resets_its_program(relay: Intercepting) -> None:
    async def play(server: socket.socket) -> None:
        await asyncio.get_running_loop().sock_recv(server, 65536)
        reset_at_once(server)

    async with accepting(play) as port, dial(relay.base) as (reader, writer):
        target, place = "/v1/chat/completions", f"127.0.0.1:{port}"
        request = post(f"http://{place}{target}", headers=[relay.authorization])
        writer.write(request.replace(b"host: localhost", b"host: %b" % place.encode()))
        with pytest.raises(ConnectionResetError):
            await reader.read()


@on_loop
async def test_a_redirect_of_an_api_stays_as_it_is(relay: Intercepting) -> None:
    target = relay.plays(answer([(0, b"")], status=307, headers=[("location", f"{relay.upstream.url}/v1/moved")]))
    async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
        got = await client.post(f"{relay.upstream.url}{target}", json={})
    assert got.headers["location"] == f"{relay.upstream.url}/v1/moved"


@on_loop
async def test_an_api_close_without_answer_closes_its_program(relay: Intercepting) -> None:
    target = relay.plays(Scene([], "fin"))
    async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="disconnected without sending a response"):
            await client.post(f"{relay.upstream.url}{target}", json={})
    assert (await relay.kept(target)).outcome == ("connect_error", "reset")


def test_a_limit_of_the_recorder_is_answered_through_proxies(tmp_path: Path, authority: Path) -> None:
    async def main() -> None:
        target = relay.plays(Scene([], "stall"))
        async with httpx.AsyncClient(proxy=relay.proxy, verify=relay.trusting()) as client:
            got = await client.post(f"{relay.upstream.url}{target}", json={})
        assert (got.status_code, got.headers["x-wiretape-error"]) == (504, "headers_timeout")

    with Intercepting(tmp_path, authority, limits=Timeouts(headers=0.05, idle=0.05)) as relay:
        relay.runner.run(main())
