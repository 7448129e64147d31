"""Which requests pass: by raw bytes over a socket, and the pure rules by table."""

import asyncio

import h11
import pytest

from tests.support.cases import each_case
from tests.support.relay import SECONDS, Relay, dial, on_loop, raw, select, take
from wiretape.recorder.demo.upstream import answer
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.guard import Origin, Policy, Refusal
from wiretape.recorder.relay.server import HEAD_BYTES

JSON = answer([(0.0, b"{}")], content_type="application/json", framing="length")


def heads(*lines: str) -> bytes:
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


HOST, LENGTH = "Host: 127.0.0.1", "Content-Length: 2"
REFUSED = {
    "absolute_form": (heads("POST http://evil.test/x HTTP/1.1", HOST), 400),
    "absolute_form_of_ours": (heads("GET http://127.0.0.1/x HTTP/1.1", HOST), 400),
    "authority_form": (heads("GET evil.test:80 HTTP/1.1", HOST), 400),
    "connect": (heads("CONNECT evil.test:443 HTTP/1.1", HOST), 405),
    "trace": (heads("TRACE /x HTTP/1.1", HOST), 405),
    "asterisk": (heads("OPTIONS * HTTP/1.1", HOST), 400),
    "two_slashes": (heads("GET //evil.test/x HTTP/1.1", HOST), 400),
    "at": (heads("GET @evil.test/x HTTP/1.1", HOST), 400),
    "port_at": (heads("GET :80@evil.test/x HTTP/1.1", HOST), 400),
    "dot": (heads("GET .evil.test/x HTTP/1.1", HOST), 400),
    "backslashes": (heads(r"GET \\evil.test\x HTTP/1.1", HOST), 400),
    "utf8_target": (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "two_hosts": (heads("GET /x HTTP/1.1", HOST, HOST), 400),
    "no_host": (heads("GET /x HTTP/1.1"), 400),
    "foreign_host": (heads("GET /x HTTP/1.1", "Host: evil.test:8377"), 421),
    "host_with_a_path": (heads("GET /x HTTP/1.1", "Host: a/?y"), 421),
    "host_of_a_rebinder": (heads("GET /x HTTP/1.1", "Host: 127.0.0.1.nip.io"), 421),
    "host_with_a_dot": (heads("GET /x HTTP/1.1", "Host: localhost."), 421),
    "foreign_origin": (heads("GET /x HTTP/1.1", HOST, "Origin: https://evil.test"), 403),
    "null_origin": (heads("GET /x HTTP/1.1", HOST, "Origin: null"), 403),
    "cross_site": (heads("GET /x HTTP/1.1", HOST, "Sec-Fetch-Site: cross-site"), 403),
    "connection_names_a_key": (heads("GET /x HTTP/1.1", HOST, "Connection: x-api-key, close", "x-api-key: k"), 400),
    "websocket_with_a_body": (
        heads("GET /x HTTP/1.1", HOST, LENGTH, "Connection: upgrade", "Upgrade: websocket") + b"{}",
        400,
    ),
    "websocket_by_post": (heads("POST /x HTTP/1.1", HOST, "Connection: Upgrade", "Upgrade: websocket"), 400),
    "two_protocols": (
        heads("GET /x HTTP/1.1", HOST, "Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"),
        400,
    ),
    "head_over_the_limit": (heads("GET /x HTTP/1.1", HOST, "x: " + "y" * 2 * HEAD_BYTES), 431),
    "head_of_1_mib": (heads("GET /x HTTP/1.1", HOST, "x: " + "y" * (1 << 20)), 431),
    "endless_request_line": (b"GET /" + b"x" * (1 << 20), 431),
    "length_and_chunked": (heads("POST /x HTTP/1.1", HOST, LENGTH, "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "two_lengths": (heads("POST /x HTTP/1.1", HOST, LENGTH, "Content-Length: 3") + b"abc", 400),
    "signed_length": (heads("POST /x HTTP/1.1", HOST, "Content-Length: +3") + b"abc", 400),
    "space_before_colon": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding : chunked") + b"0\r\n\r\n", 400),
    "xchunked": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: xchunked") + b"0\r\n\r\n", 400),
    "vertical_tab": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n", 400),
    "chunked_identity": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: chunked, identity") + b"0\r\n\r\n", 400),
    "gzip_chunked": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 501),
    "gzip_and_chunked_apart": (
        heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: gzip", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        501,
    ),
    "chunked_twice": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n", 400),
    "gzip_alone": (heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: gzip"), 400),
    "nul_in_a_value": (heads("GET /x HTTP/1.1", HOST, "x: a\0b"), 400),
    "cr_in_a_value": (heads("GET /x HTTP/1.1", HOST, "x: a\rb"), 400),
    "escape_in_a_value": (heads("GET /x HTTP/1.1", HOST, "x: a\x1bb"), 400),
    "folded_header": (heads("GET /x HTTP/1.1", HOST, "x: a", " b"), 400),
    "bare_line_feeds": (b"GET /x HTTP/1.1\nHost: localhost\n\n", 400),
    "garbage": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
}


@pytest.mark.parametrize("case", REFUSED)
@on_loop
async def test_nothing_of_a_refused_request_reaches_upstream(relay: Relay, case: str) -> None:
    request, status = REFUSED[case]
    connections = relay.upstream.connections
    got = await raw(relay.base, request)
    assert got.startswith(b"HTTP/1.1 %d " % status), got
    assert got.count(b"HTTP/1.1 ") == 1
    assert relay.upstream.connections == connections


@pytest.mark.parametrize("bad", [b"Z\r\n", b"3\nabc\n", b"3\r\nabcX\r\n", b"3\r\nabc\r\n0\r\nx\0: y\r\n\r\n"])
@on_loop
async def test_a_request_with_a_broken_body_never_reaches_upstream(relay: Relay, bad: bytes) -> None:
    connections = relay.upstream.connections
    got = await raw(relay.base, heads("POST /x HTTP/1.1", HOST, "Transfer-Encoding: chunked"), bad)
    assert got.startswith(b"HTTP/1.1 4")
    assert relay.upstream.connections == connections


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8377", "127.0.0.1:1", "[::1]", "[::1]:8377"])
@on_loop
async def test_the_names_of_loopback_are_let_in(relay: Relay, host: str) -> None:
    got = await raw(relay.base, heads("GET /x HTTP/1.1", f"Host: {host}", "Connection: close"))
    assert got.startswith(b"HTTP/1.1 200 ")


@on_loop
async def test_requests_of_another_parser_arrive_as_it_reads_them(relay: Relay) -> None:
    target = relay.plays(JSON)
    request = h11.Request(
        method="POST", target=target, headers=[("host", "localhost"), ("x", "a  b"), ("content-length", "3")]
    )
    sender = h11.Connection(h11.CLIENT)
    parts = (sender.send(request), sender.send(h11.Data(data=b"abc")), sender.send(h11.EndOfMessage()))
    async with dial(relay.base) as (reader, writer):
        writer.write(b"".join(part or b"" for part in parts))
        assert (await take(reader)).complete
    asked = relay.request(target)
    assert asked is not None
    assert (asked.method, asked.target, asked.body) == ("POST", target.encode(), b"abc")
    assert (b"x", b"a  b") in asked.headers


def offering(body: bytes, *lines: str) -> bytes:
    """Return a request as Java's HttpClient sends it over plain HTTP."""
    offer = ("Connection: Upgrade, HTTP2-Settings", *lines, HOST, "HTTP2-Settings: AAEAAEAAAAIAAAAB", "Upgrade: h2c")
    return heads("POST {target} HTTP/1.1", *offer) + body


@pytest.mark.parametrize(
    "question",
    [
        offering(b'{"a":1}', "Content-Length: 7"),
        offering(b'3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n', "Transfer-Encoding: chunked"),
    ],
)
@pytest.mark.parametrize("piece", [1, 150, 1 << 16])
@on_loop
async def test_an_offer_of_http2_is_ignored_despite_its_body(relay: Relay, question: bytes, piece: int) -> None:
    targets = [relay.plays(JSON) for _ in range(3)]
    sent = b"".join(question.replace(b"{target}", target.encode()) for target in targets)
    got = b""
    async with dial(relay.base) as (reader, writer), asyncio.timeout(SECONDS):
        for at in range(0, len(sent), piece):
            writer.write(sent[at : at + piece])
            await writer.drain()
        while got.count(b"HTTP/1.1 200 ") < len(targets):
            data = await reader.read(65_536)
            assert data, got
            got += data
    for target in targets:
        request = relay.request(target)
        assert request is not None
        names = {name.lower() for name, _ in request.headers}
        assert (request.method, request.body) == ("POST", b'{"a":1}')
        assert not names & {b"upgrade", b"http2-settings", b"connection"}
    assert "HTTP2-Settings" in (await relay.kept(targets[0])).row["request_headers"]


# The rules


def verdict(*headers: tuple[str, str], target: str = "/v1/x", policy: Policy | None = None) -> int | None:
    """Return the status of the refusal of a GET with these headers."""
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    refusal = guard.check("GET", target.encode(), pairs, policy or Policy())
    return refusal and refusal.status


LOCAL = ("host", "localhost")


@pytest.mark.parametrize("host", ["api.test", "API.test:80", "[fe80::1]:8377"])
def test_a_host_that_is_allowed_besides_is_let_in(host: str) -> None:
    policy = Policy(frozenset({"api.test", "[fe80::1]"}))
    assert verdict(("host", host), policy=policy) is None
    assert verdict(("host", "x" + host), policy=policy) == 421


@pytest.mark.parametrize(
    "host", ["", " ", "localhost:", "localhost:x", "localhost:123456", "127.1", "0", "[::1", "::1"]
)
def test_a_name_outside_loopback_is_not_our_host(host: str) -> None:
    assert verdict(("host", host)) == 421


@pytest.mark.parametrize("value", ["evil.test:8377", "4f9c1b2e8d7a60315c9b7e2f4d", "\x1b]2;a\x07", "a" * 60_000])
@pytest.mark.parametrize("name", ["host", "transfer-encoding", "origin", "x-wiretape-label"])
def test_a_refusal_repeats_nothing_of_what_it_refuses(name: str, value: str) -> None:
    headers = [(b"host", b"localhost")] if name != "host" else []
    headers.append((name.encode(), value.encode()))
    refusal = guard.check("GET", b"/", headers, guard.Policy()) or guard.labels(headers)
    assert isinstance(refusal, guard.Refusal)
    assert value not in refusal.message
    assert len(refusal.message) < 200


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"])
def test_a_page_from_this_machine_may_call(origin: str) -> None:
    assert verdict(LOCAL, ("origin", origin), ("sec-fetch-site", "same-site")) is None


def test_a_link_from_another_page_may_not_be_followed() -> None:
    link = ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")
    assert verdict(LOCAL, *link) == 403


@pytest.mark.parametrize("origin", ["http://localhost.evil.test", "file://", "ftp://localhost", "localhost", ""])
def test_a_page_from_elsewhere_may_not(origin: str) -> None:
    assert verdict(LOCAL, ("origin", origin)) == 403


@pytest.mark.parametrize("target", ["/", "/a//b", "/..", "/%2f%2e?x=//y", "/a#b", "/" + "x" * 8191])
def test_any_path_passes(target: str) -> None:
    assert verdict(LOCAL, target=target) is None


@pytest.mark.parametrize("name", ["authorization", "X-API-Key", "api-key", "cookie", "content-type", "content-length"])
def test_connection_may_not_remove_essential_headers(name: str) -> None:
    assert verdict(LOCAL, ("connection", f"close, {name}")) == 400


@pytest.mark.parametrize("name", ["close", "keep-alive", "te", "proxy-authorization", "x-private", "upgrade"])
def test_connection_may_name_what_is_for_this_hop(name: str) -> None:
    assert verdict(LOCAL, ("connection", name)) is None


SITE = Origin("https", "api.test", 443)


@pytest.mark.parametrize(
    ("target", "origin"),
    [
        (b"API.test:443", SITE),
        (b"[::1]:8080", Origin("https", "::1", 8080)),
        (b"api.test.:443", SITE),
        *((bad, None) for bad in (b"api.test", b"api.test:", b"api.test:0", b"a:65536", b"u@a:1", b"a:1/x", b":443")),
    ],
)
def test_connect_names_a_host_and_a_port(target: bytes, origin: Origin | None) -> None:
    assert guard.connect_origin(target) == origin


@pytest.mark.parametrize(
    ("target", "split"),
    [
        (b"https://api.test", (SITE, b"/")),
        (b"HTTPS://api.test:443//v1?x#y", (SITE, b"//v1?x#y")),
        (b"http://api.test?x", (Origin("http", "api.test", 80), b"/?x")),
        *((bad, None) for bad in (b"ftp://a/", b"http://u:p@a/", b"http:///x", b"http://a#x", b"http://a/ x", b"/x")),
    ],
)
def test_an_absolute_target_is_a_url_without_a_user(target: bytes, split: tuple[Origin, bytes] | None) -> None:
    assert guard.absolute_origin(target) == split


@pytest.mark.parametrize(
    ("host", "status"),
    [("api.test", None), ("API.TEST:443", None), ("api.test:80", 421), ("x.api.test", 421), ("api.test/x", 421)],
)
def test_a_tunnelled_request_is_for_the_connected_host(host: str, status: int | None) -> None:
    foreign = (b"origin", b"https://elsewhere.test")  # its server's to judge
    refusal = guard.check_proxied("GET", b"/x", [(b"host", host.encode()), foreign], SITE)
    assert (refusal and refusal.status) == status


def test_headers_named_by_connection_are_dropped_in_any_case() -> None:
    headers = [
        (b"Connection", b"X-One, close"),
        (b"x-one", b"1"),
        (b"X-Two", b"2"),
        (b"TE", b"trailers"),
        (b"Via", b"v"),
    ]
    assert guard.end_to_end(headers, without=frozenset({b"x-two"})) == [(b"Via", b"v")]


def test_a_label_is_utf_8_or_else_latin_1() -> None:
    assert guard.labels([(b"x-wiretape-label", "run=日本".encode())]) == {"run": "日本"}
    assert guard.labels([(b"x-wiretape-label", "run=é".encode("latin-1"))]) == {"run": "é"}


def test_labels_are_read_from_any_number_of_headers() -> None:
    headers = [(b"x-wiretape-label", b"a=1, b = "), (b"x", b"c=3"), (b"x-wiretape-label", b"d.e-f_9=x=y")]
    refusal = guard.labels([headers[0], headers[1]])
    assert isinstance(refusal, Refusal)
    assert (refusal.status, "key=value" in refusal.message, "b =" in refusal.message) == (400, True, False)
    assert guard.labels([(b"x-wiretape-label", b"a=1,b="), *headers[1:]]) == {"a": "1", "b": "", "d.e-f_9": "x=y"}


@pytest.mark.parametrize(
    ("path", "grants"),
    [
        (b"/v1/oauth/token?x=1", True),
        (b"/auth/exchange_user_api_key", True),
        (b"/api/oauth/claude_cli/create_api_key", True),
        (b"/v1/realtime/client_secrets", True),
        (b"/v1/chat/completions", False),
        (b"/v1/messages/count_tokens", False),
        (b"/v1/models/author/x", False),
        (b"/token/x", False),
        (b"/oauth/authorize", False),
        (b"/v1/chat?auth=1", False),
    ],
)
def test_a_path_tells_whether_credentials_are_exchanged(path: bytes, grants: bool) -> None:
    assert guard.grants_credentials(path) is grants


@on_loop
async def test_a_request_for_credentials_is_relayed_but_not_recorded(relay: Relay) -> None:
    got = await relay.get("/v1/oauth/token")
    assert (got.status, got.body) == (200, b"{}")
    other_target = relay.plays(JSON)
    await relay.get(other_target)
    await relay.kept(other_target)
    assert not select(relay.tape, "SELECT 1 FROM exchanges WHERE path LIKE '%oauth%'")


@each_case(
    "value, accepts",
    [
        (b"gzip", True),
        (b"deflate, GZIP;q=0.5", True),
        (b"gzip; q=1.000", True),
        (b"*", True),
        (b"br;q=1, *;q=0.1", True),
        (b"gzip;q=0", False),
        (b"gzip; q = 0.000, *", False),
        (b"identity", False),
        (b"x-gzip", False),
        (b"", False),
    ],
)
def test_a_coding_is_for_a_client_that_names_it(value, accepts):
    assert guard.accepts([(b"host", b"gzip"), (b"Accept-Encoding", value)], "gzip") == accepts
    assert not guard.accepts([(b"host", b"gzip")], "gzip")
