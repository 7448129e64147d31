"""Requests without an answer: their bodies on the tape, and the errors that programs get."""

import asyncio
import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import Kept, Relay, dial, kept, on_loop, reset, select, serving_raw, take, until
from wiretape.recorder.relay import proxy, recording, server
from wiretape.recorder.relay.upstream import Timeouts

BODY = json.dumps({"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]}).encode()
PATH = "/v1/chat/completions"


async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reset a connection at its request."""
    await reader.readuntil(b"\r\n\r\n")
    reset(writer)


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """Upstreams that cannot be reached, by how that ends."""
    with socket.socket() as refusing, socket.socket() as full, socket.socket() as first, socket.socket() as second:
        refusing.bind(("127.0.0.1", 0))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())
        second.setblocking(False)
        second.connect_ex(full.getsockname())
        yield {
            "refused": "http://127.0.0.1:{1}".format(*refusing.getsockname()),
            "connect_timeout": "http://127.0.0.1:{1}".format(*full.getsockname()),
            "dns": f"http://{'x' * 60}.invalid",
        }


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory, places: dict[str, str]) -> Iterator[Relay]:
    """A recorder of little patience before those upstreams, and one that speaks no TLS where that was expected."""
    directory = tmp_path_factory.mktemp("relay")
    options = [f"{name}={url}" for name, url in places.items()]
    with Relay(directory, others=options, limits=Timeouts(connect=0.4)) as relay:
        yield relay
        assert relay.troubles == []


def head(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {target} HTTP/1.1", "host: localhost", *headers, "\r\n"]).encode()


LENGTH = f"content-length: {len(BODY)}"
CHUNKED = "transfer-encoding: chunked"


def framed(body: bytes, header: str) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if header == CHUNKED else body


async def ended_row(relay: Relay, path: str) -> tuple[Kept, dict[str, Any]]:
    """Wait for the exchange of this path; give it with its measures."""
    tape = await relay.kept(path)
    (measured,) = select(relay.tape, "SELECT * FROM measures WHERE exchange_no = ?", tape.row["no"])
    return tape, dict(measured)


@pytest.mark.parametrize("header", [LENGTH, CHUNKED])
@pytest.mark.parametrize(
    ("failure", "status", "outcome"),
    [
        ("refused", 502, ("connect_error", "refused")),
        ("dns", 502, ("connect_error", "dns")),
        ("connect_timeout", 504, ("timeout", "connect")),
    ],
)
@on_loop
async def test_an_unconnected_call_has_its_body_and_model(
    relay: Relay, failure: str, status: int, outcome: tuple[str, str], header: str
) -> None:
    path = f"{PATH}?{failure}-{header[0]}"
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(head(f"/{failure}{path}", header))
        await asyncio.sleep(0.1)  # as long as most failures take
        writer.write(framed(BODY, header))
        got = await take(reader)
    assert (got.status, got.headers["x-wiretape-error"], got.complete) == (status, failure, True)
    tape, measured = await ended_row(relay, path)
    row = tape.row
    assert (row["request_body"], row["request_size"], row["request_truncated"]) == (BODY, len(BODY), 0)
    assert (row["request_sha256"], row["request_model"]) == (hashlib.sha256(BODY).hexdigest(), "gpt-x")
    assert (tape.outcome, row["sent_ns"], tape.flags & {"request_not_stored"}) == (outcome, None, set())
    assert (measured["operation"], measured["messages_hash"] is not None) == ("chat", True)


@on_loop
async def test_a_break_before_the_body_loses_none_of_it(relay: Relay) -> None:
    async with serving_raw(relay, breaks) as base, dial(base) as (reader, writer), asyncio.timeout(60):
        writer.write(head(f"{PATH}?breaks", LENGTH))
        await asyncio.sleep(0.1)
        writer.write(BODY)
        assert (await take(reader)).status == 502
    tape = await relay.kept(f"{PATH}?breaks")
    assert (tape.outcome, tape.row["request_body"]) == (("connect_error", "reset"), BODY)


@on_loop
async def test_a_kept_connections_early_break_waits_for_the_body(relay: Relay) -> None:
    async def answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await breaks(reader, writer)

    async with serving_raw(relay, answers_once) as base, dial(base) as (reader, writer), asyncio.timeout(60):
        writer.write(head("/v1/first", "content-length: 2") + b"{}")
        assert (await take(reader)).status == 200
        writer.write(head(f"{PATH}?kept", LENGTH))
        await asyncio.sleep(0.1)
        writer.write(BODY)
        with pytest.raises(ConnectionResetError):
            await reader.read()
    row = (await relay.kept(f"{PATH}?kept")).row
    assert (row["connection_reused"], row["ended_by"], row["request_body"]) == (1, "reset", BODY)


@on_loop
async def test_a_client_expecting_100_is_asked_for_its_body(relay: Relay) -> None:
    async with dial(relay.base) as (reader, writer), asyncio.timeout(proxy.REST_SECONDS):
        writer.write(head(f"/refused{PATH}?expects", LENGTH, "expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        assert (await take(reader)).status == 502
    assert (await relay.kept(f"{PATH}?expects")).row["request_body"] == BODY


@on_loop
async def test_a_large_body_before_the_connection_is_stored_whole(relay: Relay) -> None:
    body = bytes(4 * server.UPLOAD_BYTES)
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(head("/connect_timeout/v1/large", f"content-length: {len(body)}") + body)
        assert (await take(reader)).status == 504
    row = (await relay.kept("/v1/large")).row
    assert (row["ended_by"], row["request_body"], row["request_truncated"]) == ("connect_timeout", body, 0)


@pytest.mark.parametrize(("header", "size"), [("content-length: 50000000", 50_000_000), (CHUNKED, None)])
@on_loop
async def test_an_upload_is_read_only_up_to_its_limit(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, header: str, size: int | None
) -> None:
    monkeypatch.setattr(recording, "REQUEST_STORED_BYTES", 10_000)
    path = f"/v1/huge-{header[0]}"
    async with dial(relay.base) as (reader, writer), asyncio.timeout(proxy.REST_SECONDS):
        writer.write(head(f"/refused{path}", header))
        writer.write(bytes(20_000) if size else b"4e20\r\n" + bytes(20_000))
        assert (await take(reader)).status == 502
    row = (await relay.kept(path)).row
    assert (row["request_body"], row["request_size"], row["request_sha256"]) == (bytes(10_000), size, None)
    assert row["request_truncated"] == 1


@pytest.mark.parametrize(
    ("header", "size"), [("content-length: 7", 7), (CHUNKED, None), (f"content-length: {2**64 - 1}", None)]
)
@on_loop
async def test_an_upload_that_never_comes_times_out(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, header: str, size: int | None
) -> None:
    monkeypatch.setattr(proxy, "REST_SECONDS", 0.1)
    path = f"/v1/slow-{header}".replace(" ", "")
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        began = time.monotonic_ns()
        writer.write(head(f"/refused{path}", header) + (b"3\r\nabc\r\n" if header == CHUNKED else b"abc"))
        assert (await take(reader)).status == 502
        took_ns = time.monotonic_ns() - began
    tape = await relay.kept(path)
    row = tape.row
    assert (row["request_body"], row["request_size"], row["request_sha256"]) == (b"abc", size, None)
    assert (row["request_truncated"], tape.flags & {"request_not_stored"}) == (1, {"request_not_stored"})
    assert row["end_ns"] <= took_ns - 100_000_000, "the time of the refusal, not of its answer"


@on_loop
async def test_a_missing_body_is_unknown_and_not_empty(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "REST_SECONDS", 0.05)
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(head("/refused/v1/nothing", CHUNKED))
        assert (await take(reader)).status == 502
    row = (await relay.kept("/v1/nothing")).row
    assert (row["request_body"], row["request_size"], row["request_truncated"]) == (None, None, 1)


@on_loop
async def test_a_malformed_upload_ends_as_its_upstream_did(relay: Relay) -> None:
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(head("/refused/v1/broken", CHUNKED))
        await asyncio.sleep(0.05)
        writer.write(b"no chunk\r\n")
        assert (await take(reader)).status == 400
    row = (await relay.kept("/v1/broken")).row
    assert (row["ended_by"], row["request_size"]) == ("refused", None)


@asynccontextmanager
async def sending(
    relay: Relay, target: str, body: bytes
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send a request's head and a part of its body; close the connection at the end."""
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(head(target, LENGTH))
        await until(lambda: relay.recorder.live)
        await asyncio.sleep(0.05)
        writer.write(body)
        await asyncio.sleep(0.05)
        yield reader, writer
        writer.close()


@on_loop
async def test_a_client_that_leaves_unconnected_has_sent_its_request(relay: Relay) -> None:
    async with sending(relay, f"/connect_timeout{PATH}?left", BODY):
        pass
    tape = await relay.kept(f"{PATH}?left")
    assert (tape.outcome, tape.row["request_body"]) == (("client_closed", None), BODY)
    assert (tape.row["request_truncated"], tape.row["request_model"]) == (0, "gpt-x")


@on_loop
async def test_a_client_that_leaves_later_hides_no_failure(relay: Relay) -> None:
    async with sending(relay, f"/refused{PATH}?gone", BODY[:10]):
        pass
    tape = await relay.kept(f"{PATH}?gone")
    assert (tape.outcome, tape.row["request_body"]) == (("connect_error", "refused"), BODY[:10])
    assert tape.row["client_closed_ns"] > tape.row["end_ns"]


@on_loop
async def test_pipelined_requests_keep_each_its_own_body(relay: Relay) -> None:
    second = head(f"/refused{PATH}?second", LENGTH) + BODY
    async with dial(relay.base) as (reader, writer), asyncio.timeout(60):
        writer.write(head(f"/refused{PATH}?first", "content-length: 2"))
        await asyncio.sleep(0.05)
        writer.write(b"{}" + second)
        got = await take(reader)
    assert (got.status, got.headers["connection"]) == (502, "close")
    assert (await relay.kept(f"{PATH}?first")).row["request_body"] == b"{}"
    assert kept(relay.tape, f"{PATH}?second") is None, "a client may send it again: it was not begun"


def test_a_recorder_that_stops_meanwhile_keeps_the_failure(tmp_path: Path, places: dict[str, str]) -> None:
    async def main() -> None:
        async with sending(relay, f"/refused{PATH}", BODY[:10]) as (reader, _):
            relay.recorder.cut()
            await relay.stop()
            assert (await take(reader)).status == 503

    with Relay(tmp_path, others=[f"refused={places['refused']}"]) as relay:
        relay.runner.run(main())
    row = kept(relay.tape, PATH)
    assert row is not None
    assert (row.outcome, row.row["request_body"]) == (("connect_error", "refused"), BODY[:10])
