"""Flows of mitmproxy: their contents and their ends."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from wiretape.viewer.imported import ImportedExchange, ImportedFile, NotImportable, Unimportable, problem
from wiretape.viewer.wings.imports import formats, mitmproxy

FLOWS = (Path(__file__).parents[3] / "data" / "imports" / "mitmproxy-11.flows").read_bytes()
"""Flows of mitmdump 11.0.2 as a reverse proxy: a stream, a complete answer, and a stream that broke off."""
SOURCE = ImportedFile("t", datetime(2026, 3, 1, tzinfo=UTC))
REQUEST = {
    "method": b"GET", "scheme": b"https", "host": "api.test", "port": 443, "path": b"/v1/x", "content": b"",
    "headers": [[b":authority", b"a"], [b"accept", b"*/*"]], "timestamp_start": 100.0, "timestamp_end": 100.5,
}  # fmt: skip
RESPONSE = {
    "status_code": 200, "headers": [[b"content-length", b"2"]], "content": b"{}", "timestamp_start": 101.0,
    "timestamp_end": 102.0,
}  # fmt: skip


def dumped(value: Any) -> bytes:
    """Return a value as a typed netstring."""
    match value:
        case None:
            data, kind = b"", b"~"
        case bool():
            data, kind = str(value).lower().encode(), b"!"
        case int():
            data, kind = str(value).encode(), b"#"
        case float():
            data, kind = repr(value).encode(), b"^"
        case bytes():
            data, kind = value, b","
        case str():
            data, kind = value.encode(), b";"
        case list():
            data, kind = b"".join(map(dumped, value)), b"]"
        case _:
            data, kind = b"".join(dumped(part) for pair in value.items() for part in pair), b"}"
    return b"%d:%b%b" % (len(data), data, kind)


def flow(**changes: Any) -> dict[str, Any]:
    flow_state: dict[str, Any] = {
        "type": "http",
        "version": 21,
        "request": REQUEST,
        "response": RESPONSE,
        "error": None,
    }
    return {**flow_state, "websocket": None, "marked": "", "intercepted": False} | changes


def only(**changes: Any) -> ImportedExchange | Unimportable:
    (exchange,) = mitmproxy.read(dumped(flow(**changes)), SOURCE)
    return exchange


def test_real_flows_have_bodies_and_start_and_end_times() -> None:
    assert formats.recognised(FLOWS) == "mitmproxy"
    exchanges = [exchange for exchange in mitmproxy.read(FLOWS, SOURCE) if isinstance(exchange, ImportedExchange)]
    assert [exchange.url.removeprefix("http://127.0.0.1:28311") for exchange in exchanges] == [
        "/v1/chat/completions",
        "/json",
        "/cut",
    ]
    assert [(flow.status, flow.ended_by, len(flow.body), flow.is_lost) for flow in exchanges] == [
        (200, "end", 710, False), (200, "end", 11, False), (200, "eof", 0, True),
    ]  # fmt: skip
    assert [problem(exchange) for exchange in exchanges] == [None] * 3
    assert not any(exchange.is_timed for exchange in exchanges)


def test_times_count_from_when_mitmproxy_had_the_request() -> None:
    exchange = only(server_conn={"timestamp_tcp_setup": 100.6, "timestamp_tls_setup": 100.75})
    assert isinstance(exchange, ImportedExchange)
    assert (exchange.started.timestamp(), exchange.headers_ns, exchange.end_ns) == (100.5, 5 * 10**8, 15 * 10**8)
    assert (exchange.connected_ns, exchange.url, exchange.request_headers) == (
        25 * 10**7,
        "https://api.test/v1/x",
        [(b"host", b"a"), (b"accept", b"*/*")],
    )
    early = only(request=REQUEST | {"timestamp_end": 101.5}, server_conn={"timestamp_tcp_setup": 99.0})
    assert isinstance(early, ImportedExchange)
    assert (early.started.timestamp(), early.headers_ns, early.connected_ns) == (100.0, 10**9, None)


def test_an_empty_request_with_a_length_is_unknown() -> None:
    for length, request in ((b"9", None), (b"0", b"")):
        exchange = only(request=REQUEST | {"content": b"", "headers": [[b"content-length", length]]})
        assert isinstance(exchange, ImportedExchange)
        assert exchange.request == request


@pytest.mark.parametrize(("version", "protocol"), [("HTTP/2.0", "h2"), ("HTTP/1.1", "http/1.1"), ("HTTP/3", "h3")])
def test_a_flow_has_its_answers_protocol_and_trailers(version: str, protocol: str) -> None:
    trailers = [[b"grpc-status", b"0"]]
    exchange = only(response=RESPONSE | {"http_version": version.encode(), "trailers": trailers})
    assert isinstance(exchange, ImportedExchange)
    assert (exchange.protocol, exchange.response_trailers) == (protocol, [(b"grpc-status", b"0")])
    assert exchange.framing == ("h2" if protocol == "h2" else "length")


@each_case(
    ("message", "ended_by"),
    [
        ("[Errno 111] Connect call failed ('127.0.0.1', 1)", "refused"),
        ("[Errno -2] Name or service not known", "dns"),
        ("Certificate verify failed: self-signed certificate", "tls"),
        ("Client disconnected.", "client"),
        ("server closed connection", "eof"),
    ],
)
def test_how_a_flow_without_an_answer_ended(message: str, ended_by: str) -> None:
    exchange = only(response=None, error={"msg": message, "timestamp": 103.0})
    assert isinstance(exchange, ImportedExchange)
    assert (exchange.ended_by, exchange.ended_detail, exchange.end_ns, exchange.status) == (
        ended_by,
        message,
        25 * 10**8,
        None,
    )


@each_case(
    ("changes", "reason"),
    [
        ({"type": "tcp"}, "flow of tcp"),
        ({"websocket": {"messages": []}}, "WebSocket"),
        ({"response": None}, "still ran"),
        ({"response": RESPONSE | {"content": None}}, "streamed past"),
        ({"response": RESPONSE | {"content": b""}}, "streamed past"),
        ({"error": {"msg": "?"}, "response": None}, "not known"),
        ({"request": {}}, "missing required field"),
        ({"request": REQUEST | {"port": "x"}}, "Expected `int`"),
        ({"response": RESPONSE | {"timestamp_start": float("nan")}}, "NaN"),
        ({"request": REQUEST | {"timestamp_end": 1e300}, "response": None, "error": {"msg": "closed"}}, "no time"),
    ],
)
def test_an_unusable_flow_says_why(changes: dict[str, Any], reason: str) -> None:
    exchange = only(**changes)
    assert isinstance(exchange, Unimportable)
    assert (exchange.place, reason in exchange.reason) == ("flow 0", True), exchange.reason


def test_damage_within_a_flow_costs_only_that_flow() -> None:
    good, bad = dumped(flow()), dumped(flow(type="\N{BULLET}")).replace("\N{BULLET}".encode(), b"\xff\xff\xff")
    deep = b"1:1,"
    for _ in range(40):
        deep = b"%d:%b]" % (len(deep), deep)
    nested = b"%d:1:a;%b}" % (len(deep) + 4, deep)
    for data, kinds in (
        (good + bad + good, [ImportedExchange, Unimportable, ImportedExchange]),
        (good + nested + good, [ImportedExchange, Unimportable, ImportedExchange]),
        (good + dumped([1]) + dumped("a") + good, [ImportedExchange, Unimportable, Unimportable, ImportedExchange]),
        (good + good[:-9], [ImportedExchange, Unimportable]),
        (good + b"rubbish" + good, [ImportedExchange, Unimportable]),
        (good + b"999999999999:" + good, [ImportedExchange, Unimportable]),
    ):
        assert [type(exchange) for exchange in mitmproxy.read(data, SOURCE)] == kinds
    with pytest.raises(NotImportable, match="no flow"):
        list(mitmproxy.read(b"10:3:abc;", SOURCE))


def test_a_broken_flow_costs_no_other() -> None:
    key = dumped([]) + dumped(1)
    hostile = [
        b"%d:%b}" % (len(key), key),
        dumped(flow(request=[])),
        dumped(flow(response=RESPONSE | {"timestamp_start": 10**4000})),
        dumped(flow(response=RESPONSE | {"timestamp_end": float("nan")})),
        dumped(flow(response=RESPONSE | {"timestamp_end": 1e308})),
        dumped(flow()).replace(b"8:api.test;", b"8:a\xed\xa0\xbd.tst;"),
    ]
    exchanges = list(mitmproxy.read(b"".join([*hostile, dumped(flow())]), SOURCE))
    assert [exchange.place for exchange in exchanges if isinstance(exchange, Unimportable)] == [
        f"flow {no}" for no in range(len(hostile))
    ]
    assert exchanges[0] == Unimportable("flow 0", "it is damaged: a name in it is a list")
    assert isinstance(exchanges[-1], ImportedExchange)
