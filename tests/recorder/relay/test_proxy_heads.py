"""Heads of requests and responses: which headers, statuses and methods pass."""

import json

import pytest

from tests.support.relay import CHUNKED, STREAM, Relay, dial, on_loop, plain, post, raw
from wiretape.recorder.demo.upstream import Scene, answer
from wiretape.recorder.relay.server import HEAD_BYTES


@pytest.mark.parametrize("status", [200, 201, 301, 308, 400, 401, 404, 413, 418, 429, 500, 503, 529, 599, 600, 999])
@on_loop
async def test_a_status_and_its_body_pass_as_they_came(relay: Relay, status: int) -> None:
    headers = [("retry-after", "7"), ("location", "http://127.0.0.1:9/elsewhere"), ("x-request-id", "r-1")]
    connections = relay.upstream.connections
    got, tape = await relay.shows(plain(b'{"error": 1}', status=status, headers=headers))
    assert (got.status, got.body, got.complete) == (status, b'{"error": 1}', True)
    assert headers == [(name, got.headers[name]) for name, _ in headers]
    assert (tape.row["status"], tape.body) == (status, b'{"error": 1}')
    assert relay.upstream.connections == connections + 1


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(302, "redirect"), (400, "client_error"), (429, "rate_limited"), (500, "server_error"), (529, "server_error")],
)
@on_loop
async def test_a_status_from_300_on_is_an_error(relay: Relay, status: int, outcome: str) -> None:
    _, tape = await relay.shows(plain(b"{}", status=status))
    assert tape.outcome == ("http_error", outcome)


@pytest.mark.parametrize(("status", "length"), [(204, ""), (304, ""), (304, "content-length: 5\r\n")])
@on_loop
async def test_an_answer_without_a_body_ends_with_its_head(relay: Relay, status: int, length: str) -> None:
    got, tape = await relay.shows(Scene([(0, f"HTTP/1.1 {status} X\r\n{length}etag: e\r\n\r\n".encode())]))
    assert (got.status, got.body, got.complete, got.headers["etag"]) == (status, b"", True, "e")
    assert (tape.row["framing"], tape.row["ended_by"], tape.body) == ("none", "end", b"")


@on_loop
async def test_head_announces_the_length_of_a_missing_body(relay: Relay) -> None:
    got, tape = await relay.shows(
        Scene([(0, b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n")]), method="HEAD", body=b""
    )
    assert (got.status, got.headers["content-length"], got.complete) == (200, "12", True)
    assert (tape.row["method"], tape.row["ended_by"], "surplus_bytes" in tape.flags) == ("HEAD", "end", False)


@on_loop
async def test_a_body_on_head_is_surplus(relay: Relay) -> None:
    got, tape = await relay.shows(plain(b"never"), method="HEAD", body=b"")
    assert (got.complete, got.body, tape.body) == (True, b"", b"")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"])
@on_loop
async def test_any_method_and_path_passes_and_is_recorded(relay: Relay, method: str) -> None:
    target = f"/v9/any%20thing/..;x=1//{method}?a=%0a&b=[1]&c"
    got = await relay.get(target, method=method, body=b"" if method == "GET" else b"\x00\xff")
    request = relay.request(target)
    assert request is not None
    assert (request.method, request.body) == (method, b"" if method == "GET" else b"\x00\xff")
    assert (got.status, (await relay.kept(target)).row["method"]) == (200, method)


@pytest.mark.parametrize(
    "name", ["location", "operation-location", "azure-asyncoperation", "x-goog-upload-url", "x-goog-upload-control-url"]
)
@on_loop
async def test_a_location_within_upstream_leads_to_wiretape(relay: Relay, name: str) -> None:
    address = (name, f"{relay.upstream.url}/v1/moved?a=1")
    got, tape = await relay.shows(plain(b"", status=202, headers=[address]))
    assert got.headers[name] == "http://localhost/v1/moved?a=1"
    assert list(address) in json.loads(tape.row["response_headers"])


@on_loop
async def test_informational_responses_pass_without_being_recorded(relay: Relay) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
    early += b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    target = relay.plays(Scene([(0, early), (0.02, CHUNKED + b"2\r\nok\r\n0\r\n\r\n")]))
    got = await raw(relay.base, post(target, headers=[("connection", "close")]))
    assert got.startswith(early + b"HTTP/1.1 200 OK\r\n")
    tape = await relay.kept(target)
    assert (tape.row["status"], tape.body) == (200, b"ok")


@on_loop
async def test_an_answer_may_follow_any_number_of_informational_responses(relay: Relay) -> None:
    working = b"HTTP/1.1 102 Processing\r\n\r\n"
    target = relay.plays(Scene([(0, working * 4000), (0.02, CHUNKED + b"2\r\nok\r\n0\r\n\r\n")]))
    got = await raw(relay.base, post(target, headers=[("connection", "close")]))
    assert got.startswith(working * 4000 + b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("query", "headers"),
    [("?" + "q" * 60_000, []), ("", [(f"x-{number}", "y") for number in range(1000)])],
    ids=["long_target", "many_headers"],
)
@on_loop
async def test_the_api_judges_the_size_of_a_head(relay: Relay, query: str, headers: list[tuple[str, str]]) -> None:
    target = "/v1/sizes" + query
    await relay.get(target, headers=headers)
    request = relay.upstream.requests[-1]
    assert request.target.decode() == target
    assert {(name.decode(), value.decode()) for name, value in request.headers} >= set(headers)


@on_loop
async def test_a_head_too_large_for_wiretape_is_recorded_refused(relay: Relay) -> None:
    connections = relay.upstream.connections
    got = await raw(relay.base, post("/v1/large", b"", [("x-large", "y" * (1 << 20))]))
    assert got.startswith(b"HTTP/1.1 431 ")
    tape = await relay.kept("/v1/large")
    assert tape.outcome == ("connect_error", "local")
    assert f"larger than {HEAD_BYTES} bytes" in tape.row["ended_detail"]
    assert relay.upstream.connections == connections


@on_loop
async def test_request_headers_keep_their_order_without_connection_headers(relay: Relay) -> None:
    target = relay.plays(plain(b"{}"))
    hop = [("connection", "close, x-hop"), ("x-hop", "1"), ("te", "trailers"), ("proxy-authorization", "Basic x")]
    kept_on = [("authorization", "Bearer k"), ("x-twice", "1"), ("x-twice", "2"), ("user-agent", "t\xe9st")]
    ours = [("x-wiretape-label", "run=7"), ("accept-encoding", "gzip, br"), ("keep-alive", "5"), ("upgrade", "h2c")]
    await relay.get(target, headers=[*hop, *kept_on, *ours])
    request = relay.request(target)
    assert request is not None
    assert request.headers == [
        (b"host", relay.upstream.url.removeprefix("http://").encode()),
        *((name.encode(), value.encode("latin-1")) for name, value in kept_on),
        (b"accept-encoding", b"gzip, br"),
        (b"content-length", b"2"),
        (b"connection", b"close"),
    ]


@on_loop
async def test_response_headers_pass_but_for_those_of_the_connection(relay: Relay) -> None:
    headers = [("Connection", "x-hop, keep-alive"), ("x-hop", "1"), ("keep-alive", "3"), ("x-tab", "a\tb")]
    got, tape = await relay.shows(answer(STREAM, headers=[*headers, ("set-cookie", "a=1"), ("x-wiretape-id", "else")]))
    assert {"x-hop", "connection"} & got.headers.keys() == set()
    assert got.headers["keep-alive"] == "3"  # of upstream's connection, on whose life the client's depends
    assert (got.headers["x-tab"], got.headers["set-cookie"], got.headers["x-accel-buffering"]) == ("a\tb", "a=1", "no")
    assert got.headers["x-wiretape-id"] == tape.row["id"]


@on_loop
async def test_labels_are_stored_and_not_passed_on(relay: Relay) -> None:
    target = relay.plays(answer(STREAM))
    await relay.get(target, headers=[("X-Wiretape-Label", "run=7, who=me")])
    request = relay.request(target)
    assert request is not None
    assert not [name for name, _ in request.headers if b"wiretape" in name]
    assert (await relay.kept(target)).row["labels"] == '{"run":"7","who":"me"}'


@on_loop
async def test_an_invalid_label_is_refused_rather_than_lost(relay: Relay) -> None:
    got = await relay.get(relay.plays(answer(STREAM)), headers=[("X-Wiretape-Label", "run")])
    assert (got.status, b"key=value" in got.body) == (400, True)


@on_loop
async def test_trailers_of_a_request_never_become_its_headers(relay: Relay) -> None:
    trailed = b"POST /v1/trailed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    trailed += b"2\r\n{}\r\n0\r\nauthorization: Bearer smuggled\r\n\r\n"
    async with dial(relay.base) as (_, writer):
        writer.write(trailed)
        tape = await relay.kept("/v1/trailed")
    assert "smuggled" not in tape.row["request_headers"]
    (request,) = [
        upstream_request for upstream_request in relay.upstream.requests if upstream_request.target == b"/v1/trailed"
    ]
    assert (request.body, dict(request.headers).get(b"authorization")) == (b"{}", None)


@on_loop
async def test_http10_cannot_show_a_break_and_is_refused(relay: Relay) -> None:
    async with dial(relay.base) as (reader, writer):
        writer.write(b"GET /v1/old HTTP/1.0\r\nhost: localhost\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 505 ")


@on_loop
async def test_the_head_of_an_event_stream_is_not_truncated(relay: Relay) -> None:
    _, tape = await relay.shows(
        Scene([(0, b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")]), method="HEAD"
    )
    assert (tape.outcome, tape.flags) == (("complete", None), {"nonstream"})
