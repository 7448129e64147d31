"""HTTP/2 connections of clients and API servers: the effects of one's end on the other and on its streams."""

import asyncio
import socket
import struct
from pathlib import Path
from typing import Any

import hpack
import pytest
from h2.settings import SettingCodes

from tests.support.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    SETTINGS,
    Limits,
    Stream,
    Upstream,
    ask,
    connect,
    frame,
    recording,
)
from tests.support.relay import DONE, Relay, address, chunk, dial, kept, on_loop, until
from wiretape.recorder.relay import server
from wiretape.recorder.relay.upstream import Timeouts

SSE = ("content-type", "text/event-stream")
OK = (":status", "200")
INTERNAL_ERROR, PROTOCOL_ERROR, REFUSED, CANCEL, HTTP_1_1_REQUIRED = 2, 1, 7, 8, 13


async def outcome_of(relay: Relay, path: str) -> Any:
    return (await until(lambda: kept(relay.tape, path))).outcome


async def complete(answering: Stream) -> None:
    answering.send_head([OK, SSE])
    await answering.send(DONE, end=True)


@on_loop
async def test_a_silent_stream_is_reset_alone_on_both_sides(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def silent(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        if answering.headers[":path"] == "/later":
            await go_on.wait()
            await answering.send(DONE, end=True)

    async with recording(tmp_path, silent) as (relay, upstream, base), connect(base) as peer:
        later = peer.request(ask("/h/later"), end=True)
        await later.until(lambda: later.body)
        relay.recorder.proxy.transport.limits = Timeouts(idle=0.1)
        request = peer.request(ask("/h/x"), end=True)
        assert (await request.over()).reset_code == INTERNAL_ERROR
        relayed = next(stream for stream in upstream.peers[0].streams.values() if stream.headers[":path"] == "/x")
        await relayed.peer.until(lambda: relayed.reset_code is not None)
        assert relayed.reset_code == CANCEL
        assert await outcome_of(relay, "/x") == ("timeout", "idle")
        go_on.set()
        assert bytes((await later.over()).body) == chunk("a") + DONE


@on_loop
async def test_a_stream_that_a_get_opens_outlives_silence(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def silent(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        if answering.headers[":method"] == "GET":
            await go_on.wait()
            await answering.send(DONE, end=True)

    async with recording(tmp_path, silent) as (relay, _, base), connect(base) as peer:
        relay.recorder.proxy.transport.limits = Timeouts(idle=0.1)
        session = peer.request(ask("/h/session", method="GET"), end=True)
        await session.until(lambda: session.body)
        assert (await peer.request(ask("/h/x"), end=True).over()).reset_code == INTERNAL_ERROR
        go_on.set()
        assert bytes((await session.over()).body) == chunk("a") + DONE


@on_loop
async def test_a_single_silent_stream_leaves_its_connection_open(tmp_path: Path) -> None:
    async def silent(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await (answering.send(DONE, end=True) if answering.headers[":path"] == "/y" else answering.send(chunk("a")))

    async with recording(tmp_path, silent) as (relay, upstream, base), connect(base) as peer:
        relay.recorder.proxy.transport.limits = Timeouts(idle=0.1)
        assert (await peer.request(ask("/h/x"), end=True).over()).reset_code == INTERNAL_ERROR
        assert bytes((await peer.request(ask("/h/y"), end=True).over()).body) == DONE
        assert len(upstream.peers) == 1


@on_loop
async def test_a_request_after_a_final_goaway_is_not_sent(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def leaving(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        answering.peer.leave(0, answering.id)
        await go_on.wait()
        await answering.send(DONE, end=True)

    async with recording(tmp_path, leaving) as (_, upstream, base), connect(base) as peer:
        request = peer.request(ask("/h/x"), end=True)
        await peer.until(lambda: peer.goaway)
        assert peer.goaway == (0, request.id)
        peer.goaway = None  # it asks before it has read that
        assert (await peer.request(ask("/h/y"), end=True).over()).reset_code == REFUSED
        go_on.set()
        assert bytes((await request.over()).body) == DONE
        await peer.until(lambda: peer.is_closed)
        assert len(upstream.peers) == 1


@pytest.mark.parametrize("says_goaway", [True, False])
@on_loop
async def test_an_idle_connection_ends_with_the_upstreams(tmp_path: Path, says_goaway: bool) -> None:
    async with recording(tmp_path, complete) as (relay, upstream, base), connect(base) as peer:
        request = await peer.request(ask("/h/x"), end=True).over()
        await until(lambda: not relay.recorder.proxy.live)
        if says_goaway:
            upstream.peers[0].leave(0, 1)
        upstream.peers[0].finish()
        await peer.until(lambda: peer.is_closed)
        assert peer.goaway == (0, request.id)


@on_loop
async def test_a_request_that_crosses_a_close_is_not_sent(tmp_path: Path) -> None:
    async with recording(tmp_path, complete) as (relay, upstream, base), connect(base) as peer:
        await peer.request(ask("/h/x"), end=True).over()
        upstream.peers[0].finish()
        await peer.until(lambda: peer.goaway)
        peer.is_closed, peer.goaway = False, None  # it asks before it has read the end
        peer.request(ask("/h/y"), end=True)
        await peer.until(lambda: peer.is_closed)
        await until(lambda: relay.recorder.accepted and not relay.recorder.proxy.live)
        assert len(upstream.peers) == 1


@on_loop
async def test_a_request_replaces_a_kept_connection_just_closed(tmp_path: Path) -> None:
    async with recording(tmp_path, complete) as (_, upstream, base), connect(base) as peer:
        await peer.request(ask("/h/x"), end=True).over()
        ours, theirs = (peer_end.socket.dup() for peer_end in (peer, upstream.peers[0]))
        with ours, theirs:  # both come to the relay in the same turn of its loop
            theirs.shutdown(socket.SHUT_RDWR)
            request = peer.request(ask("/h/y"), end=True)
            assert bytes((await request.over()).body) == DONE
        assert len(upstream.peers) == 2


@on_loop
async def test_a_body_of_another_length_resets_its_stream_alone(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def lying(answering: Stream) -> None:
        if answering.headers[":path"] == "/x":
            answering.send_head([OK, ("content-length", "10")])
            await answering.send(b"abc", end=True)
            return
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        await go_on.wait()
        await answering.send(DONE, end=True)

    async with recording(tmp_path, lying) as (relay, _, base), connect(base) as peer:
        neighbour = peer.request(ask("/h/neighbour"), end=True)
        await neighbour.until(lambda: neighbour.body)
        request = await peer.request(ask("/h/x"), end=True).over()
        assert (bytes(request.body), request.reset_code) == (b"abc", PROTOCOL_ERROR)
        assert await outcome_of(relay, "/x") == ("truncated", "length")
        go_on.set()
        assert bytes((await neighbour.over()).body) == chunk("a") + DONE


@pytest.mark.parametrize(("method", "status"), [("HEAD", "200"), ("GET", "304")])
@on_loop
async def test_an_unsent_bodys_length_is_no_error(tmp_path: Path, method: str, status: str) -> None:
    async def bare(answering: Stream) -> None:
        answering.send_head([(":status", status), ("content-length", "10")], end=True)

    async with recording(tmp_path, bare) as (_, _, base), connect(base) as peer:
        request = await peer.request(ask("/h/x", method=method), end=True).over()
        assert (request.is_ended, request.reset_code, request.headers[":status"]) == (True, None, status)


@on_loop
async def test_a_client_that_leaves_early_closes_its_upstream_connection(tmp_path: Path) -> None:
    readers: list[asyncio.StreamReader] = []

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        readers.append(reader)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        relay = Relay(tmp_path, others=[f"h=http://127.0.0.1:{server.sockets[0].getsockname()[1]}"])
        await relay.start()
        async with connect(relay.base) as peer:
            peer.request(ask("/h/x"), end=True)
            await until(lambda: readers)
        await until(lambda: readers[0].at_eof())
        assert await outcome_of(relay, "/x") == ("client_closed", None)
        await relay.stop()


@on_loop
async def test_cookies_go_to_http_1_1_as_one(tmp_path: Path) -> None:
    relay = Relay(tmp_path)
    await relay.start()
    async with connect(relay.base) as peer:
        await peer.request(ask("/v1/x", ("cookie", "a=1"), ("x-a", "2"), ("cookie", "b=2")), end=True).over()
    request = await until(lambda: relay.request("/v1/x"))
    assert [value for name, value in request.headers if name.lower() == b"cookie"] == [b"a=1; b=2"]
    await relay.stop()


@pytest.mark.parametrize("method", ["G T", "GET /other HTTP/1.1", "G\xc9T"])
@on_loop
async def test_a_method_that_is_no_token_is_refused(tmp_path: Path, method: str) -> None:
    relay = Relay(tmp_path)
    await relay.start()
    async with connect(relay.base) as peer:
        request = await peer.request(ask("/v1/x", method=method), end=True).over()
        assert request.headers[":status"] == "400"
    await relay.stop()
    assert (relay.troubles, relay.upstream.requests) == ([], [])


@on_loop
async def test_a_stop_announces_the_end_and_refuses_requests(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        await go_on.wait()
        await answering.send(DONE, end=True)

    async with Upstream(slow) as upstream:
        relay = Relay(tmp_path, others=[f"h={upstream.url}"])
        await relay.start()
        async with connect(relay.base) as peer:
            request = peer.request(ask("/h/x"), end=True)
            await request.until(lambda: request.body)
            stopping = asyncio.create_task(relay.stop())
            await peer.until(lambda: peer.goaway)
            assert peer.goaway == (0, request.id)
            peer.goaway = None  # it asks before it has read that
            assert (await peer.request(ask("/h/y"), end=True).over()).reset_code == REFUSED
            go_on.set()
            assert bytes((await request.over()).body) == chunk("a") + DONE
        await stopping
        assert [stream.headers[":path"] for stream in upstream.peers[0].streams.values()] == ["/x"]


@on_loop
async def test_a_reset_of_a_lost_stream_closes_the_connection(tmp_path: Path) -> None:
    async def dying(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(b"a" * 100)
        answering.peer.finish()

    limits = Limits(window=10, is_manual=True)
    async with recording(tmp_path, dying) as (relay, _, base), connect(base, limits) as peer:
        request = peer.request(ask("/h/x"), end=True)
        await request.until(lambda: len(request.body) == 10)
        assert (await outcome_of(relay, "/x"))[0] == "truncated"
        request.reset(CANCEL)
        await peer.until(lambda: relay.recorder.proxy.live == set())
        relayed = peer.request(ask("/h/y"), end=True)
        await relayed.until(lambda: len(relayed.body) == 10)
        relayed.grant(90)
        await peer.until(lambda: peer.is_closed)


@pytest.mark.parametrize("header", [("x-a", "1\r\nset-cookie: b=2"), ("a name", "1")])
@on_loop
async def test_a_header_that_breaks_http1_is_no_answer(tmp_path: Path, header: tuple[str, str]) -> None:
    async def breaking(answering: Stream) -> None:
        answering.send_head([OK, SSE, header], end=True)

    async with recording(tmp_path, breaking) as (relay, _, base), connect(base) as peer:
        assert (await peer.request(ask("/h/x"), end=True).over()).reset_code == PROTOCOL_ERROR
        assert await outcome_of(relay, "/x") == ("connect_error", "protocol")


@on_loop
async def test_bytes_beyond_a_requests_length_stay_from_http1_upstreams(tmp_path: Path) -> None:
    relay = Relay(tmp_path)
    await relay.start()
    async with connect(relay.base) as peer:
        request = peer.request(ask("/v1/x", ("content-length", "2")))
        await request.send(b"{}POST /v1/other HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}")
        await peer.until(lambda: peer.is_closed)
    await relay.stop()
    assert relay.upstream.requests == []
    assert [refusal.status for refusal in relay.refused] == [400]


@on_loop
async def test_streams_that_began_before_accept_outlive_the_head_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)

    async def slow(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await asyncio.sleep(0.4)
        await answering.send(DONE, end=True)

    block = hpack.Encoder().encode(ask("/h/x"))
    async with recording(tmp_path, slow) as (relay, _, base):
        with socket.create_connection(address(base)) as connected:  # the relay, in the same loop, has not accepted it
            connected.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, 1, block, END_HEADERS | END_STREAM))
            connected.setblocking(False)
            received = b""
            async with asyncio.timeout(60):
                while DONE not in received:
                    part = await asyncio.get_running_loop().sock_recv(connected, 65_536)
                    assert part, received
                    received += part
        assert await outcome_of(relay, "/x") == ("complete", None)


@on_loop
async def test_a_client_that_breaks_http2_is_told_and_closed(tmp_path: Path) -> None:
    async def endless(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))

    async with recording(tmp_path, endless) as (relay, _, base), connect(base) as peer:
        request = peer.request(ask("/h/x"), end=True)
        await request.until(lambda: request.body)
        block = hpack.Encoder().encode(ask("/none"))
        peer.raw(frame(HEADERS, 3, block, END_HEADERS | END_STREAM) + frame(DATA, 0, b"x"))
        await peer.until(lambda: peer.is_closed)
        row = (await until(lambda: kept(relay.tape, "/x"))).row
        assert (row["ended_by"], row["outcome"]) == ("client", "client_closed")
        assert row["ended_detail"].startswith("wiretape closed the connection: a client broke HTTP/2: ")
        assert 3 not in peer.h2.streams  # nothing is answered behind the frame that broke the connection


@pytest.mark.parametrize("size", [100, 60_000])
@on_loop
async def test_data_before_a_broken_frame_is_kept(tmp_path: Path, size: int) -> None:
    async def breaking(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.until(lambda: answering.peer.h2.local_flow_control_window(answering.id) > size)
        data = b"".join(frame(DATA, answering.id, bytes(at)) for at in (16_000,) * (size // 16_000) + (size % 16_000,))
        answering.peer.raw(data + frame(DATA, 0, b"x"))
        await answering.until(lambda: False)

    async with recording(tmp_path, breaking) as (relay, _, base), connect(base, Limits(window=1 << 20)) as peer:
        request = await peer.request(ask("/h/x"), end=True).over()
        tape = await until(lambda: kept(relay.tape, "/x"))
        assert (tape.outcome, len(tape.body), len(request.body)) == (("truncated", "framing"), size, size)


@on_loop
async def test_a_goaway_that_refuses_requests_reaches_the_client_verbatim(tmp_path: Path) -> None:
    async def refusing(answering: Stream) -> None:
        if answering.headers[":path"] == "/whole":
            await complete(answering)
            return
        answering.peer.leave(HTTP_1_1_REQUIRED, answering.id - 2, b"over HTTP/1.1, please")
        answering.peer.finish()

    async with recording(tmp_path, refusing) as (relay, _, base), connect(base) as peer:
        response = await peer.request(ask("/h/whole"), end=True).over()
        request = peer.request(ask("/h/x"), end=True)
        await peer.until(lambda: peer.is_closed)
        assert peer.goaway == (HTTP_1_1_REQUIRED, response.id)
        assert (peer.frames[GOAWAY], request.reset_code) == (1, None)
        assert await outcome_of(relay, "/x") == ("connect_error", "goaway_http_1_1_required")


@on_loop
async def test_repeated_announcements_are_not_kept_for_a_client(tmp_path: Path) -> None:
    async def leaving(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        for code in range(100):
            answering.peer.leave(code, 0x7FFFFFFF - code, bytes(16_000))
            await answering.peer.drain()
        await answering.send(DONE, end=True)

    async with recording(tmp_path, leaving) as (_, _, base), connect(base) as peer:
        request = await peer.request(ask("/h/x"), end=True).over()
        assert bytes(request.body) == DONE
        assert 1 <= peer.frames[GOAWAY] <= 10


@on_loop
async def test_our_header_table_is_small_whatever_the_peer_allows(tmp_path: Path) -> None:
    async with recording(tmp_path, complete) as (_, _, base):
        for allowed, size in ((1 << 30, 4096), (100, 100)):
            limits = Limits(others={SettingCodes.HEADER_TABLE_SIZE: allowed})
            async with connect(base, limits) as peer:
                await peer.until(lambda peer=peer: peer.acks)  # type: ignore[misc] # our SETTINGS are in force
                for _ in range(2):
                    assert bytes((await peer.request(ask("/h/x"), end=True).over()).body) == DONE
                assert peer.h2.decoder.header_table_size == size


@pytest.mark.parametrize(
    "header",
    [("x-a", "1\r\nx-b: 2"), ("x-a", "1\0"), ("a name", "1"), ("X-A", "1"), ("content-length", "1_0"),
     ("transfer-encoding", "chunked"), (":path", "/v1/x HTTP/1.1\r\nx: y")],
)  # fmt: skip
@on_loop
async def test_a_header_that_breaks_http1_is_no_request(tmp_path: Path, header: tuple[str, str]) -> None:
    relay = Relay(tmp_path)
    await relay.start()
    async with connect(relay.base) as peer:
        fields = [pair for pair in ask("/v1/x") if pair[0] != header[0]]
        pseudo = [header] if header[0].startswith(":") else []
        request = peer.request([*pseudo, *fields, *([] if pseudo else [header])])
        await peer.until(lambda: request.reset_code is not None or peer.is_closed)
    await relay.stop()
    assert relay.upstream.requests == []
    assert [refusal.status for refusal in relay.refused] == [400]


@on_loop
async def test_unacknowledged_stream_limits_are_not_sent_repeatedly(
    tmp_path: Path,
) -> None:
    async def changing(answering: Stream) -> None:
        for limit in (10, 20) * 20:
            answering.peer.raw(frame(SETTINGS, 0, struct.pack(">HI", SettingCodes.MAX_CONCURRENT_STREAMS, limit)))
        answering.send_head([OK, SSE])
        await answering.send(DONE, end=True)

    block = hpack.Encoder().encode(ask("/h/x"))
    async with recording(tmp_path, changing) as (_, _, base), dial(base) as (reader, writer):
        writer.write(PREFACE + frame(SETTINGS) + frame(HEADERS, 1, block, END_HEADERS | END_STREAM))
        limits, body = 0, b""
        async with asyncio.timeout(60):
            while DONE not in body:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                limits += head[3] == SETTINGS and not head[4]
                body += payload if head[3] == DATA else b""
    assert limits <= 3  # the first ones, and a change
