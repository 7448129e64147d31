"""Requests: their bodies upstream and on the tape, and connections that carry more than one."""

import asyncio
import hashlib
import os
import subprocess
import sys

import pytest

from tests.support.forked import ROOT
from tests.support.relay import STREAM, Relay, dial, on_loop, plain, post, raw, serving_raw, take, until
from wiretape.recorder.demo.upstream import answer


@on_loop
async def test_a_capped_request_keeps_its_full_size_and_hash(relay: Relay) -> None:
    body = os.urandom(1 << 20) * 17
    target = relay.plays(plain(b"{}"))
    await relay.get(target, body=body)
    request, row = relay.request(target), (await relay.kept(target)).row
    assert request is not None
    assert request.body == body
    assert (row["request_body"] == body[: 16 << 20], row["request_size"]) == (True, len(body))
    assert row["request_sha256"] == hashlib.sha256(body).hexdigest()


@on_loop
async def test_a_chunked_request_goes_upstream_whole(relay: Relay) -> None:
    target = relay.plays(plain(b"{}"))
    head = f"POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    await raw(relay.base, head.encode(), b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n")
    request = relay.request(target)
    assert request is not None
    assert (request.body, (b"transfer-encoding", b"chunked") in request.headers) == (b"abcdef", True)


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

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(60):
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

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(60):
        writer.write(f"POST /v1/large HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n".encode())
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()
        assert (await take(reader)).status == 200
    row = (await relay.kept("/v1/large")).row
    assert (row["request_size"], len(row["request_body"])) == (size, 16 << 20)


@pytest.mark.nightly
def test_ten_large_uploads_stay_within_a_memory_bound() -> None:
    """The relay and the writer together; with all bodies in memory they took 1.4 GiB."""
    command = [sys.executable, str(ROOT / "tests" / "bench" / "uploads.py"), "--uploads", "10", "--mib", "60"]
    report = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "10 answered right" in report
    together = next(line for line in report.splitlines() if line.startswith("together"))
    assert int(together.split()[-5]) < 400, report


@on_loop
async def test_an_answer_before_the_requests_end_passes_at_once(relay: Relay) -> None:
    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno!")
        await writer.drain()
        writer.close()

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(60):
        writer.write(b"POST /v1/early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\n\r\n" + bytes(100_000))
        got = await take(reader)
        assert (got.status, got.body, got.headers["connection"]) == (413, b"no!", "close")
    tape = await relay.kept("/v1/early")
    assert (tape.outcome, tape.row["request_truncated"]) == (("http_error", "client_error"), 1)
    assert (tape.row["request_size"], tape.row["request_sha256"]) == (9_000_000, None)


@on_loop
async def test_a_request_body_that_never_comes_times_out(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.server.BODY_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr("wiretape.recorder.relay.server.LINGER_SECONDS", 0.1)
    got = await raw(relay.base, post("/v1/half", b"", [("content-length", "2")]) + b"{")
    tape = await relay.kept("/v1/half")
    assert (got[:13], tape.row["ended_by"]) == (b"HTTP/1.1 408 ", "client_stalled")
    assert (tape.row["request_body"], tape.row["request_size"], tape.row["request_truncated"]) == (b"{", 2, 1)


@on_loop
async def test_a_malformed_request_body_ends_the_exchange(relay: Relay) -> None:
    connections = relay.upstream.connections
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(b"POST /v1/garbled HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await until(lambda: relay.upstream.connections > connections)
        writer.write(b"no size\r\n")
        assert (await take(reader)).status == 400
    tape = await relay.kept("/v1/garbled")
    assert (tape.outcome, tape.row["request_truncated"]) == (("client_closed", None), 1)


@on_loop
async def test_the_number_of_running_exchanges_is_limited(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.app.LIVE", 0)
    got = await relay.get("/x")
    assert (got.status, got.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize(
    "says", [b"HTTP/1.1 100 Continue\r\n\r\n", b""], ids=["upstream_says_so", "upstream_is_silent"]
)
@on_loop
async def test_a_client_that_expects_100_is_told_to_continue(
    relay: Relay, says: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.proxy.CONTINUE_SECONDS", 0.1)
    heads: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(says)
        assert await reader.readexactly(2) == b"{}"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer), asyncio.timeout(60):
        writer.write(post("/v1/expects", b"", [("expect", "100-continue"), ("content-length", "2")]))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await take(reader)).body == b"ok"
    assert b"expect: 100-continue\r\n" in heads[0]


@on_loop
async def test_a_connection_is_kept_for_the_next_request(relay: Relay) -> None:
    first_target, second_target = relay.plays(answer(STREAM)), relay.plays(plain(b"two"))
    async with dial(relay.base) as (reader, writer):
        for target, body in ((first_target, b"".join(piece for _, piece in STREAM)), (second_target, b"two")):
            writer.write(post(target))
            got = await take(reader)
            assert (got.complete, got.body) == (True, body)
    assert (await relay.kept(first_target)).row["no"] < (await relay.kept(second_target)).row["no"]


@on_loop
async def test_pipelined_requests_are_answered_in_their_order(relay: Relay) -> None:
    first_target, second_target = relay.plays(answer([(0.1, b"one")])), relay.plays(plain(b"two"))
    got = await raw(relay.base, post(first_target) + post(second_target, headers=[("connection", "close")]))
    assert 0 < got.index(b"one") < got.index(b"two")
    assert (await relay.kept(first_target)).body + (await relay.kept(second_target)).body == b"onetwo"
