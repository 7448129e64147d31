"""Transcripts: what upstream sends, what the client gets, what the tape holds."""

import asyncio
import gzip
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.support.forked import ROOT
from tests.support.relay import DONE, ByHand, Relay, chunk, dial, on_loop, post, raw, reset, serving_raw, take, until
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer
from wiretape.recorder.relay import providers, server
from wiretape.recorder.relay.proxy import Proxy
from wiretape.recorder.relay.states import Receiving
from wiretape.recorder.relay.upstream import Connection, Instants, Timeouts, Transport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
STREAM = [(0.0, chunk("a")), (0.0, chunk("b", finish="stop")), (0.0, DONE)]


def plain(body: bytes, **more: Any) -> Scene:
    return answer([(0.0, body)], content_type="application/json", framing="length", **more)


# Bytes and instants


@on_loop
async def test_every_read_reaches_the_client_and_the_tape_as_it_was_sent(relay: Relay) -> None:
    pieces = [os.urandom(size) for size in (1, 7, 4096, 1, 300, 65_000, 2, 1024, 33, 5)]
    target = relay.plays(answer([(0.02, piece) for piece in pieces]))
    got = await relay.get(target)
    tape, asked = await relay.kept(target), relay.request(target)
    assert got.complete
    assert got.body == b"".join(pieces) == tape.body
    assert asked is not None
    # Where the machine held all of us up, pieces were sent close together and may have come so.
    apart = [later[0] - earlier[0] > 15_000_000 for earlier, later in pairwise(asked.sent[1:-1])]
    assert tape.reads == pieces or not all(apart)
    if all(apart):
        assert all(later - earlier > 10_000_000 for earlier, later in pairwise(tape.at_ns))


@on_loop
async def test_a_read_is_relayed_at_once_and_not_with_the_next(relay: Relay) -> None:
    target = relay.plays(answer([(0.0, chunk("first")), (0.3, chunk("second"))]))
    await relay.get(target)
    tape = await relay.kept(target)
    assert tape.relayed_ns[0] is not None
    assert tape.at_ns[0] <= tape.relayed_ns[0] < tape.at_ns[0] + 100_000_000 < tape.at_ns[1]


@on_loop
async def test_several_http_chunks_in_one_socket_read_are_one_read(relay: Relay) -> None:
    both = b"3\r\nabc\r\n4;ext=1\r\ndefg\r\n"
    got, tape = await relay.shows(Scene([(0, CHUNKED), (0.05, both), (0.05, b"1\r\nh\r\n0\r\nTrailer: x\r\n\r\n")]))
    assert got.body == b"abcdefgh"
    assert tape.reads == [b"abcdefg", b"h"]


@on_loop
async def test_an_http_chunk_that_comes_in_two_reads_is_two_reads(relay: Relay) -> None:
    got, tape = await relay.shows(Scene([(0, CHUNKED), (0.05, b"6\r\nabc"), (0.05, b"def\r\n"), (0.05, b"0\r\n\r\n")]))
    assert got.complete
    assert tape.reads == [b"abc", b"def"]


@on_loop
async def test_head_and_body_in_one_read_share_its_instant(relay: Relay) -> None:
    got, tape = await relay.shows(Scene([(0, CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")]))
    assert got.body == b"hi"
    assert tape.at_ns == [tape.row["headers_ns"]]
    assert tape.row["end_ns"] == tape.row["headers_ns"]


@on_loop
async def test_the_instants_of_an_exchange_are_in_order(relay: Relay) -> None:
    _, tape = await relay.shows(answer(STREAM, delay=0.02))
    row = tape.row
    assert 0 < row["connected_ns"] <= row["sent_ns"] < row["headers_ns"] <= tape.at_ns[0] <= row["end_ns"]


@on_loop
async def test_fifty_streams_at_once_lose_and_reorder_nothing(relay: Relay) -> None:
    pieces = [[(0.005, chunk(f"{stream}.{number}")) for number in range(40)] for stream in range(50)]
    targets = [relay.plays(answer([*stream, (0.0, DONE)])) for stream in pieces]
    answers = await asyncio.gather(*(relay.get(target) for target in targets))
    for stream, target, got in zip(pieces, targets, answers, strict=True):
        tape = await relay.kept(target)
        assert got.complete
        assert got.body == tape.body == b"".join(piece for _, piece in stream) + DONE
        assert (tape.row["gap_bytes"], tape.row["ended_by"]) == (0, "end")


@on_loop
async def test_a_compressed_body_passes_and_is_stored_as_it_came(relay: Relay) -> None:
    packed = gzip.compress(b"".join(piece for _, piece in STREAM))
    got, tape = await relay.shows(answer([(0, packed)], headers=[("content-encoding", "gzip")]))
    assert got.headers["content-encoding"] == "gzip"
    assert got.body == tape.body == packed
    assert tape.row["content"] == "ab"


@on_loop
async def test_a_body_that_ends_by_closing_is_a_clean_end(relay: Relay) -> None:
    got, tape = await relay.shows(answer(STREAM, framing="close"))
    assert got.complete
    assert (tape.row["framing"], tape.outcome) == ("close", ("complete", None))


# Heads


@pytest.mark.parametrize("status", [200, 201, 301, 308, 400, 401, 404, 413, 418, 429, 500, 503, 529, 599, 600, 999])
@on_loop
async def test_a_status_and_its_body_pass_as_they_came(relay: Relay, status: int) -> None:
    headers = [("retry-after", "7"), ("location", "http://127.0.0.1:9/elsewhere"), ("x-request-id", "r-1")]
    before = relay.upstream.connections
    got, tape = await relay.shows(plain(b'{"error": 1}', status=status, headers=headers))
    assert (got.status, got.body, got.complete) == (status, b'{"error": 1}', True)
    assert headers == [(name, got.headers[name]) for name, _ in headers]
    assert (tape.row["status"], tape.body) == (status, b'{"error": 1}')
    assert relay.upstream.connections == before + 1


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(302, "redirect"), (400, "client_error"), (429, "rate_limited"), (500, "server_error"), (529, "server_error")],
)
@on_loop
async def test_a_status_of_300_and_above_is_an_http_error(relay: Relay, status: int, outcome: str) -> None:
    _, tape = await relay.shows(plain(b"{}", status=status))
    assert tape.outcome == ("http_error", outcome)


@pytest.mark.parametrize(("status", "length"), [(204, ""), (304, ""), (304, "content-length: 5\r\n")])
@on_loop
async def test_an_answer_without_a_body_ends_with_its_head(relay: Relay, status: int, length: str) -> None:
    got, tape = await relay.shows(Scene([(0, f"HTTP/1.1 {status} X\r\n{length}etag: e\r\n\r\n".encode())]))
    assert (got.status, got.body, got.complete, got.headers["etag"]) == (status, b"", True, "e")
    assert (tape.row["framing"], tape.row["ended_by"], tape.body) == ("none", "end", b"")


@on_loop
async def test_head_has_the_length_of_a_body_that_never_comes(relay: Relay) -> None:
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
    asked = relay.request(target)
    assert asked is not None
    assert (asked.method, asked.body) == (method, b"" if method == "GET" else b"\x00\xff")
    assert (got.status, (await relay.kept(target)).row["method"]) == (200, method)


@on_loop
async def test_informational_responses_are_passed_over(relay: Relay) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    got, tape = await relay.shows(Scene([(0, early), (0.02, CHUNKED + b"2\r\nok\r\n0\r\n\r\n")]))
    assert (got.status, got.body, "link" in got.headers) == (200, b"ok", False)
    assert tape.row["status"] == 200


@on_loop
async def test_request_headers_pass_in_order_but_for_those_of_the_connection(relay: Relay) -> None:
    target = relay.plays(plain(b"{}"))
    hop = [("connection", "close, x-hop"), ("x-hop", "1"), ("te", "trailers"), ("proxy-authorization", "Basic x")]
    kept_on = [("authorization", "Bearer k"), ("x-twice", "1"), ("x-twice", "2"), ("user-agent", "t\xe9st")]
    ours = [("x-wiretape-label", "run=7"), ("accept-encoding", "gzip, br"), ("keep-alive", "5"), ("upgrade", "h2c")]
    await relay.get(target, headers=[*hop, *kept_on, *ours])
    asked = relay.request(target)
    assert asked is not None
    assert asked.headers == [
        (b"host", relay.upstream.url.removeprefix("http://").encode()),
        *((name.encode(), value.encode("latin-1")) for name, value in kept_on),
        (b"accept-encoding", b"identity"),
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
    asked = relay.request(target)
    assert asked is not None
    assert not [name for name, _ in asked.headers if b"wiretape" in name]
    assert (await relay.kept(target)).row["labels"] == '{"run":"7","who":"me"}'


@on_loop
async def test_a_label_that_is_none_is_refused_rather_than_lost(relay: Relay) -> None:
    got = await relay.get(relay.plays(answer(STREAM)), headers=[("X-Wiretape-Label", "run")])
    assert (got.status, b"key=value" in got.body) == (400, True)


# Requests


@on_loop
async def test_a_request_is_stored_up_to_a_cap_with_the_size_and_hash_of_the_whole(relay: Relay) -> None:
    body = os.urandom(1 << 20) * 17
    target = relay.plays(plain(b"{}"))
    await relay.get(target, body=body)
    asked, row = relay.request(target), (await relay.kept(target)).row
    assert asked is not None
    assert asked.body == body
    assert (row["request_body"] == body[: 16 << 20], row["request_size"]) == (True, len(body))
    assert row["request_sha256"] == hashlib.sha256(body).hexdigest()


@on_loop
async def test_a_chunked_request_goes_upstream_whole(relay: Relay) -> None:
    target = relay.plays(plain(b"{}"))
    head = f"POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    await raw(relay.base, head.encode(), b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n")
    asked = relay.request(target)
    assert asked is not None
    assert (asked.body, (b"transfer-encoding", b"chunked") in asked.headers) == (b"abcdef", True)


@pytest.mark.parametrize("framing", ["length", "chunked"])
@on_loop
async def test_a_request_body_goes_upstream_as_it_arrives(relay: Relay, framing: str) -> None:
    pieces = [b"first ", b"second ", b"third"]
    header = f"content-length: {sum(map(len, pieces))}" if framing == "length" else "transfer-encoding: chunked"
    arrived = bytearray()

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not arrived.endswith(b"third" if framing == "length" else b"0\r\n\r\n"):
            arrived.extend(await reader.read(65536))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(10):
        writer.write(f"POST /v1/{framing} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n\r\n".encode())
        for piece in pieces:
            writer.write(piece if framing == "length" else b"%x\r\n%b\r\n" % (len(piece), piece))
            await until(lambda sent=piece: sent in arrived)
        if framing == "chunked":
            writer.write(b"0\r\n\r\n")
        assert (await take(reader)).body == b"{}"
    row = (await relay.kept(f"/v1/{framing}")).row
    assert (row["request_body"], row["request_size"], row["request_truncated"]) == (b"first second third", 18, 0)
    assert row["request_sha256"] == hashlib.sha256(b"".join(pieces)).hexdigest()


@on_loop
async def test_an_upload_has_no_limit_and_takes_little_memory(relay: Relay) -> None:
    size, piece = 80 << 20, bytes(1 << 20)
    received = 0

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await reader.readuntil(b"\r\n\r\n")
        while received < size:
            received += len(await reader.read(1 << 20))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(20):
        writer.write(f"POST /v1/large HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n".encode())
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()
        assert (await take(reader)).status == 200
    row = (await relay.kept("/v1/large")).row
    assert (row["request_size"], len(row["request_body"])) == (size, 16 << 20)


@pytest.mark.nightly
def test_ten_large_uploads_at_a_time_stay_within_a_bound_of_memory() -> None:
    """The relay and the writer together; with all bodies in memory they took 1.4 GiB."""
    command = [sys.executable, str(ROOT / "tests" / "bench" / "uploads.py"), "--uploads", "10", "--mib", "60"]
    report = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "10 answered right" in report
    together = next(line for line in report.splitlines() if line.startswith("together"))
    assert int(together.split()[-5]) < 400, report


@on_loop
async def test_an_answer_before_the_end_of_the_request_passes_at_once(relay: Relay) -> None:
    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno!")
        await writer.drain()
        writer.close()

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(10):
        writer.write(b"POST /v1/early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\n\r\n" + bytes(100_000))
        got = await take(reader)
        assert (got.status, got.body, got.headers["connection"]) == (413, b"no!", "close")
    tape = await relay.kept("/v1/early")
    assert (tape.outcome, tape.row["request_truncated"]) == (("http_error", "client_error"), 1)
    assert (tape.row["request_size"], tape.row["request_sha256"]) == (9_000_000, None)


@on_loop
async def test_a_request_body_that_does_not_come_is_not_waited_for(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.server.BODY_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr("wiretape.recorder.relay.server.LINGER_SECONDS", 0.1)
    got = await raw(relay.base, post("/v1/half", b"", [("content-length", "2")]) + b"{")
    tape = await relay.kept("/v1/half")
    assert (got[:13], tape.row["ended_by"]) == (b"HTTP/1.1 408 ", "client_stalled")
    assert (tape.row["request_body"], tape.row["request_size"], tape.row["request_truncated"]) == (b"{", 2, 1)


@on_loop
async def test_a_request_body_that_is_no_http_ends_the_exchange(relay: Relay) -> None:
    before = relay.upstream.connections
    async with dial(relay.base) as (reader, writer), asyncio.timeout(10):
        writer.write(b"POST /v1/garbled HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await until(lambda: relay.upstream.connections > before)
        writer.write(b"no size\r\n")
        assert (await take(reader)).status == 400
    tape = await relay.kept("/v1/garbled")
    assert (tape.outcome, tape.row["request_truncated"]) == (("client_closed", None), 1)


@on_loop
async def test_there_is_a_bound_on_how_many_run_at_a_time(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.app.LIVE", 0)
    got = await relay.get("/x")
    assert (got.status, got.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize(
    "says", [b"HTTP/1.1 100 Continue\r\n\r\n", b""], ids=["upstream_says_so", "upstream_is_silent"]
)
@on_loop
async def test_who_expects_100_is_told_to_continue(relay: Relay, says: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.proxy.CONTINUE_SECONDS", 0.1)
    heads: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(says)
        assert await reader.readexactly(2) == b"{}"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(10):
        writer.write(post("/v1/expects", b"", [("expect", "100-continue"), ("content-length", "2")]))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await take(reader)).body == b"ok"
    assert b"expect: 100-continue\r\n" in heads[0]


@on_loop
async def test_a_connection_is_kept_for_the_next_request(relay: Relay) -> None:
    one, two = relay.plays(answer(STREAM)), relay.plays(plain(b"two"))
    async with dial(relay.base) as (reader, writer):
        for target, body in ((one, b"".join(piece for _, piece in STREAM)), (two, b"two")):
            writer.write(post(target))
            got = await take(reader)
            assert (got.complete, got.body) == (True, body)
    assert (await relay.kept(one)).row["no"] < (await relay.kept(two)).row["no"]


@on_loop
async def test_pipelined_requests_are_answered_in_their_order(relay: Relay) -> None:
    one, two = relay.plays(answer([(0.1, b"one")])), relay.plays(plain(b"two"))
    got = await raw(relay.base, post(one) + post(two, headers=[("connection", "close")]))
    assert 0 < got.index(b"one") < got.index(b"two")
    assert (await relay.kept(one)).body + (await relay.kept(two)).body == b"onetwo"


# Broken upstreams


@pytest.mark.parametrize(
    ("scene", "detail", "stored"),
    [
        pytest.param(Scene([(0, CHUNKED), (0, b"64\r\ndata: par")], "fin"), "eof", b"data: par", id="fin_in_a_chunk"),
        pytest.param(Scene([(0, CHUNKED), (0, b"3\r\nabc\r\n")], "fin"), "eof", b"abc", id="fin_without_terminator"),
        pytest.param(Scene([(0, CHUNKED), (0.02, b"3\r\nabc\r\n"), (0.05, b"")], "reset"), "reset", b"abc", id="reset"),
        pytest.param(Scene([(0, HEAD + b"content-length: 9\r\n\r\nabc")], "fin"), "length", b"abc", id="length"),
        pytest.param(Scene([(0, CHUNKED), (0, b"3\r\nabc\r\nZZ\r\n")], "stall"), "framing", b"abc", id="chunk_size"),
        pytest.param(Scene([(0, CHUNKED), (0, b"3\r\nabcdef\r\n")], "stall"), "framing", b"abc", id="chunk_end"),
        pytest.param(Scene([(0, CHUNKED + b"1\r\na\r\n0\r\nX: "), (0.02, b"y" * 70_000)], "stall"), "framing", b"a",
                     id="endless_trailer"),
        pytest.param(Scene([(0, HEAD + b"\r\n"), (0.02, b"data: par"), (0.05, b"")], "reset"), "reset", b"data: par",
                     id="reset_of_a_body_that_ends_by_closing"),
    ],
)  # fmt: skip
@on_loop
async def test_after_a_broken_upstream_the_client_is_cut(
    relay: Relay, scene: Scene, detail: str, stored: bytes
) -> None:
    got, tape = await relay.shows(scene)
    assert (got.status, got.body, got.complete) == (200, stored, False)
    assert (tape.outcome, tape.row["ended_by"], tape.body) == (("truncated", detail), detail, stored)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nx: " + b"y" * (1 << 20) + b"\r\n\r\n", id="header_of_1_mib"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000 + b"\r\n", id="200000_headers"),
        pytest.param(b"HTTP/1.1 103 E\r\nlink: <x>\r\n\r\n" * 4000, id="endless_informational"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n", id="nul"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx: a\x1b]0;t\x07b\r\n\r\n", id="escape"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n", id="bare_cr"),
        pytest.param(HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="coded_and_chunked"),
        pytest.param(
            HEAD + b"Transfer-Encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", id="coded_apart"
        ),
        pytest.param(HEAD + b"transfer-encoding: deflate\r\n\r\nabc", id="coded"),
        pytest.param(
            HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", id="length_and_chunked"
        ),
        pytest.param(HEAD + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd", id="two_lengths"),
        pytest.param(b"HTTP/9.9 200 OK\r\n\r\n", id="version"),
        pytest.param(b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n", id="status_99"),
        pytest.param(b"HTTP/1.1 20 Short\r\n\r\n", id="status_20"),
        pytest.param(b"HTTP/1.1 150 Odd\r\ncontent-length: 3\r\n\r\nabc", id="informational_with_a_body"),
        pytest.param(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", id="switching"),
        pytest.param(b"220 mail.example ESMTP\r\n", id="not_http"),
    ],
)
@on_loop
async def test_a_head_that_is_no_http_is_a_502_of_ours(relay: Relay, head: bytes) -> None:
    got, tape = await relay.shows(Scene([(0, head)], "stall"))
    assert (got.status, got.headers["x-wiretape-error"], got.complete) == (502, "protocol", True)
    assert b'"type":"wiretape_error"' in got.body
    assert tape.outcome == ("connect_error", "protocol")
    assert (await until(lambda: relay.upstream.requests[-1].peer_left_ns)) > 0


@pytest.mark.parametrize("end", ["fin", "reset"])
@on_loop
async def test_an_upstream_that_closes_without_an_answer_is_a_502(relay: Relay, end: Any) -> None:
    got, tape = await relay.shows(Scene([], end))
    assert (got.status, got.headers["x-wiretape-id"]) == (502, tape.row["id"])
    assert tape.outcome == ("connect_error", "reset")


@on_loop
async def test_what_follows_a_response_reaches_nobody(relay: Relay) -> None:
    stolen = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nSTOLEN"
    target = relay.plays(Scene([(0, HEAD + b"content-length: 4\r\n\r\n" + b"mine" + stolen)]))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        assert (await take(reader)).body == b"mine"
        writer.write(post(relay.plays(plain(b"next"))))
        assert (await take(reader)).body == b"next"
    tape = await relay.kept(target)
    assert (tape.body, "surplus_bytes" in tape.flags) == (b"mine", True)


# Clients that leave


def leave(writer: asyncio.StreamWriter, how: str) -> None:
    if how == "half_close":
        writer.write_eof()
    elif how == "reset":
        reset(writer)
    else:
        writer.close()


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
@pytest.mark.parametrize("pieces", [[], [(0.0, CHUNKED)], [(0.0, CHUNKED + b"3\r\nabc\r\n")]])
@on_loop
async def test_when_the_client_leaves_upstream_is_closed_within_a_second(
    relay: Relay, how: str, pieces: list[tuple[float, bytes]]
) -> None:
    target = relay.plays(Scene(pieces, "stall"))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        await until(lambda: relay.request(target))
        if pieces:
            await reader.readuntil(b"3\r\nabc\r\n" if b"abc" in pieces[0][1] else b"\r\n\r\n")
        leave(writer, how)
        asked = relay.request(target)
        assert asked is not None
        await until(lambda: asked.peer_left_ns)
    tape = await relay.kept(target)
    assert (tape.outcome, tape.row["ended_by"]) == (("client_closed", None), "client")
    assert 0 < tape.row["client_closed_ns"] <= tape.row["end_ns"]
    assert tape.body == (b"abc" if pieces and b"abc" in pieces[0][1] else b"")


@pytest.fixture(scope="module")
def deaf() -> Iterator[str]:
    """A port whose queue of connections is full: to connect to it takes for ever."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        second.setblocking(False)
        second.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, deaf: str) -> Iterator[Relay]:
    """A relay of little patience."""
    limits = Timeouts(connect=0.7, headers=0.4, idle=0.5)
    with Relay(tmp_path_factory.mktemp("hasty"), others=[f"deaf={deaf}"], limits=limits) as relay:
        yield relay


def test_each_limit_has_its_own_outcome(hasty: Relay) -> None:
    async def main() -> None:
        got = await hasty.get("/deaf/x")
        assert (got.status, got.headers["x-wiretape-error"]) == (504, "connect_timeout")
        assert (await hasty.kept("/x")).outcome == ("timeout", "connect")
        got, tape = await hasty.shows(Scene([], "stall"))
        assert (got.status, tape.outcome, tape.row["ended_by"]) == (504, ("timeout", "headers"), "headers_timeout")
        got, tape = await hasty.shows(answer([(0.0, b"abc")], end="stall"))
        assert (got.status, got.body, got.complete) == (200, b"abc", False)
        assert (tape.outcome, tape.row["ended_by"], tape.body) == (("timeout", "idle"), "idle_timeout", b"abc")
        assert tape.row["end_ns"] - tape.at_ns[-1] > 450_000_000
        got, tape = await hasty.shows(answer([(0.2, b"drip")] * 4))
        assert (got.complete, len(tape.reads)) == (True, 4)

    hasty.runner.run(main())


def test_a_client_may_leave_while_upstream_is_being_connected_to(hasty: Relay) -> None:
    async def main() -> None:
        async with dial(hasty.base) as (_, writer):
            writer.write(post("/deaf/left"))
            await until(lambda: hasty.recorder.live)
        tape = await hasty.kept("/left")
        assert (tape.outcome, tape.row["connected_ns"]) == (("client_closed", None), None)

    hasty.runner.run(main())


async def settled(asked: ReceivedRequest) -> None:
    """Wait until upstream can send no more."""
    sent = -1
    while sent != (sent := len(asked.sent)):  # noqa: ASYNC110 - that nothing happens has no event
        await asyncio.sleep(0.2)


@on_loop
async def test_a_slow_reader_slows_upstream_and_not_our_memory(relay: Relay) -> None:
    size, block = 24 << 20, bytes(64 << 10)
    pieces = [(0.0, b"%x\r\n%s\r\n" % (len(block), block))] * (size // len(block))
    target = relay.plays(Scene([(0, CHUNKED), *pieces, (0, b"0\r\n\r\n")]))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        asked = await until(lambda: relay.request(target))
        await settled(asked)
        assert len(asked.sent) < len(pieces)
        got = await take(reader)
    tape = await relay.kept(target)
    assert (got.complete, len(got.body), len(tape.body)) == (True, size, size)
    assert "backpressure" in tape.flags


def test_a_client_that_stops_reading_is_cut_after_a_minute(relay: Relay) -> None:
    late = 0
    clock = Clock(now=lambda: time.monotonic_ns() + late)
    block = bytes(64 << 10)
    target = relay.plays(Scene([(0, CHUNKED), *[(0.0, b"10000\r\n%s\r\n" % block)] * 400], "stall"))

    async def main() -> None:
        nonlocal late
        proxy = Proxy([providers.parse(relay.upstream.url)], Transport(clock=clock), relay.recorder.tap, clock=clock)
        listening = server.listen("127.0.0.1", 0)
        base = server.base_url(listening)
        own = server.Server(proxy, listening)
        async with dial(base) as (_, writer):
            writer.write(post(target))
            asked = await until(lambda: relay.request(target))
            await settled(asked)
            proxy.end_stalled()
            assert proxy.live
            late = 61_000_000_000
            proxy.end_stalled()
            tape = await relay.kept(target)
        own.close()
        assert tape.outcome == ("client_closed", "stalled")
        assert None in tape.relayed_ns

    relay.runner.run(main())


def test_where_the_kernel_has_another_clock_times_are_the_loops_and_flagged(relay: Relay) -> None:
    clock = Clock(wall_ns=lambda: time.time_ns() + 10_000_000_000)
    targets = [relay.plays(Scene([(0, CHUNKED), *[(0.05, b"1\r\nx\r\n")] * 4, (0, b"0\r\n\r\n")])) for _ in range(3)]

    async def main() -> None:
        proxy = Proxy([providers.parse(relay.upstream.url)], Transport(clock=clock), relay.recorder.tap, clock=clock)
        listening = server.listen("127.0.0.1", 0)
        own = server.Server(proxy, listening)
        async with dial(server.base_url(listening)) as (reader, writer):
            for target in targets:
                writer.write(post(target))
                await take(reader)
        own.close()
        tapes = [await relay.kept(target) for target in targets]
        assert all(tape.row["headers_ns"] > 0 and min(tape.at_ns) > 0 for tape in tapes)
        assert [tape.row["clock"] for tape in tapes] == ["loop"] * 3
        assert "clock_suspect" in tapes[-1].row["flags"]  # the kernel begins to stamp a moment after it was asked to

    relay.runner.run(main())


# Faults of our own


class Faulty(Connection):
    """A connection that fails by a fault of our own."""

    def begin(self, *_: object, **more: object) -> None:
        raise KeyError("what is not there")


class Broken(Transport):
    """Fails by a fault of our own, in connecting or, on a new or a kept connection, after it."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    async def connect(self, upstream: providers.Upstream, instants: Instants) -> Connection:
        if self.fault == "connecting":
            raise KeyError("what is not there")
        return Faulty(ByHand(), SYSTEM, upstream)


@pytest.mark.parametrize("fault", ["connecting", "a new connection", "a kept connection"])
@on_loop
async def test_a_fault_of_our_own_is_answered_and_said(relay: Relay, fault: str) -> None:
    troubles: list[str] = []
    upstream, target = providers.parse("http://upstream.test"), "/v1/fault-" + fault.replace(" ", "-")
    proxy = Proxy([upstream], Broken(fault), relay.recorder.tap, on_trouble=troubles.append)
    listening = server.listen("127.0.0.1", 0)
    base = server.base_url(listening)
    own = server.Server(proxy, listening)
    if fault == "a kept connection":
        closed: list[server.Client] = []
        sock = ByHand()
        client = server.Client(sock, proxy, SYSTEM, closed.append)
        kept_one = Faulty(ByHand(), SYSTEM, upstream)
        kept_one.state = Receiving.ENDED
        client.keep(kept_one)
        client.received(0, memoryview(post(target)))
        assert closed
        got = b"".join(sock.sent)
    else:
        got = await raw(base, post(target))
    tape = await relay.kept(target)
    own.close()
    assert tape.outcome == ("interrupted", None)
    assert "KeyError" in tape.row["ended_detail"]
    assert got.startswith(b"HTTP/1.1 500 ")
    assert b"wiretape_error" in got
    assert "KeyError" in troubles[0]
    assert "test_proxy.py" in troubles[0]
    assert not proxy.live


@on_loop
async def test_clients_that_come_and_go_leave_nothing_behind(relay: Relay) -> None:
    async def visit(number: int) -> None:
        target = relay.plays(Scene([(0, CHUNKED + b"1\r\na\r\n")] if number % 2 else [], "stall"))
        async with dial(relay.base) as (_, writer):
            writer.write(post(target))
            await until(lambda: relay.request(target))
            reset(writer) if number % 3 else writer.close()

    def in_use() -> tuple[int, int]:
        return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

    await until(lambda: not relay.recorder.live)
    before = await until(in_use)
    await asyncio.gather(*(visit(number) for number in range(60)))
    await until(lambda: all(now <= then for now, then in zip(in_use(), before, strict=True)))


@on_loop
async def test_trailers_of_a_request_never_become_its_headers(relay: Relay) -> None:
    trailed = b"POST /v1/trailed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    trailed += b"2\r\n{}\r\n0\r\nauthorization: Bearer smuggled\r\n\r\n"
    async with dial(relay.base) as (_, writer):
        writer.write(trailed)
        tape = await relay.kept("/v1/trailed")
    assert "smuggled" not in tape.row["request_headers"]
    (asked,) = [one for one in relay.upstream.requests if one.target == b"/v1/trailed"]
    assert (asked.body, dict(asked.headers).get(b"authorization")) == (b"{}", None)


@on_loop
async def test_http_1_0_is_refused_since_a_broken_answer_would_look_whole(relay: Relay) -> None:
    async with dial(relay.base) as (reader, writer):
        writer.write(b"GET /v1/old HTTP/1.0\r\nhost: localhost\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 505 ")


@on_loop
async def test_the_head_of_an_event_stream_is_not_truncated(relay: Relay) -> None:
    _, tape = await relay.shows(
        Scene([(0, b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")]), method="HEAD"
    )
    assert (tape.outcome, tape.flags) == (("complete", None), {"nonstream"})
