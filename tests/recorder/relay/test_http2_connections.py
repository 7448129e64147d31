"""HTTP/2 connections of clients and API servers: the effects of one's end on the other and on its streams."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.http2 import Limits, Stream, Upstream, ask, connect, recording
from tests.support.relay import DONE, Relay, chunk, kept, on_loop, until
from wiretape.recorder.relay.upstream import Timeouts

SSE = ("content-type", "text/event-stream")
OK = (":status", "200")
INTERNAL_ERROR, PROTOCOL_ERROR, REFUSED, CANCEL = 2, 1, 7, 8


async def outcome_of(relay: Relay, path: str) -> Any:
    return (await until(lambda: kept(relay.tape, path))).outcome


async def whole(answering: Stream) -> None:
    answering.send_head([OK, SSE])
    await answering.send(DONE, end=True)


@on_loop
async def test_a_silent_stream_is_reset_on_both_sides_and_its_neighbour_goes_on(tmp_path: Path) -> None:
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
        asked = peer.request(ask("/h/x"), end=True)
        assert (await asked.over()).reset_code == INTERNAL_ERROR
        other = next(one for one in upstream.peers[0].streams.values() if one.headers[":path"] == "/x")
        await other.peer.until(lambda: other.reset_code is not None)
        assert other.reset_code == CANCEL
        assert await outcome_of(relay, "/x") == ("timeout", "idle")
        go_on.set()
        assert bytes((await later.over()).body) == chunk("a") + DONE


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
async def test_a_request_after_a_final_goaway_is_not_sent_for_the_client_repeats_it(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def leaving(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        answering.peer.leave(0, answering.id)
        await go_on.wait()
        await answering.send(DONE, end=True)

    async with recording(tmp_path, leaving) as (_, upstream, base), connect(base) as peer:
        asked = peer.request(ask("/h/x"), end=True)
        await peer.until(lambda: peer.goaway)
        assert peer.goaway == (0, asked.id)
        peer.goaway = None  # it asks before it has read that
        assert (await peer.request(ask("/h/y"), end=True).over()).reset_code == REFUSED
        go_on.set()
        assert bytes((await asked.over()).body) == DONE
        await peer.until(lambda: peer.is_closed)
        assert len(upstream.peers) == 1


@pytest.mark.parametrize("says_goaway", [True, False])
@on_loop
async def test_an_idle_connection_ends_with_the_upstreams(tmp_path: Path, says_goaway: bool) -> None:
    async with recording(tmp_path, whole) as (relay, upstream, base), connect(base) as peer:
        asked = await peer.request(ask("/h/x"), end=True).over()
        await until(lambda: not relay.recorder.proxy.live)
        if says_goaway:
            upstream.peers[0].leave(0, 1)
        upstream.peers[0].finish()
        await peer.until(lambda: peer.is_closed)
        assert peer.goaway == (0, asked.id)


@on_loop
async def test_a_request_that_crosses_the_end_of_the_connection_is_not_sent(tmp_path: Path) -> None:
    async with recording(tmp_path, whole) as (relay, upstream, base), connect(base) as peer:
        await peer.request(ask("/h/x"), end=True).over()
        upstream.peers[0].finish()
        await peer.until(lambda: peer.goaway)
        peer.is_closed, peer.goaway = False, None  # it asks before it has read the end
        peer.request(ask("/h/y"), end=True)
        await peer.until(lambda: peer.is_closed)
        await until(lambda: relay.recorder.accepted and not relay.recorder.proxy.live)
        assert len(upstream.peers) == 1


@on_loop
async def test_a_request_opens_another_connection_where_the_kept_one_has_just_been_closed(tmp_path: Path) -> None:
    async with recording(tmp_path, whole) as (_, upstream, base), connect(base) as peer:
        await peer.request(ask("/h/x"), end=True).over()
        ours, theirs = (one.socket.dup() for one in (peer, upstream.peers[0]))
        with ours, theirs:  # both come to the relay in the same turn of its loop
            theirs.shutdown(socket.SHUT_RDWR)
            asked = peer.request(ask("/h/y"), end=True)
            assert bytes((await asked.over()).body) == DONE
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
        asked = await peer.request(ask("/h/x"), end=True).over()
        assert (bytes(asked.body), asked.reset_code) == (b"abc", PROTOCOL_ERROR)
        assert await outcome_of(relay, "/x") == ("truncated", "length")
        go_on.set()
        assert bytes((await neighbour.over()).body) == chunk("a") + DONE


@pytest.mark.parametrize(("method", "status"), [("HEAD", "200"), ("GET", "304")])
@on_loop
async def test_the_length_of_a_body_that_is_not_sent_is_no_error(tmp_path: Path, method: str, status: str) -> None:
    async def bare(answering: Stream) -> None:
        answering.send_head([(":status", status), ("content-length", "10")], end=True)

    async with recording(tmp_path, bare) as (_, _, base), connect(base) as peer:
        asked = await peer.request(ask("/h/x", method=method), end=True).over()
        assert (asked.is_ended, asked.reset_code, asked.headers[":status"]) == (True, None, status)


@on_loop
async def test_a_client_that_leaves_while_the_upstream_begins_closes_that_connection(tmp_path: Path) -> None:
    came: list[asyncio.StreamReader] = []

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(reader)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        relay = Relay(tmp_path, others=[f"h=http://127.0.0.1:{server.sockets[0].getsockname()[1]}"])
        await relay.start()
        async with connect(relay.base) as peer:
            peer.request(ask("/h/x"), end=True)
            await until(lambda: came)
        await until(lambda: came[0].at_eof(), seconds=2.0)
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
        asked = await peer.request(ask("/v1/x", method=method), end=True).over()
        assert asked.headers[":status"] == "400"
    await relay.stop()
    assert (relay.troubles, relay.upstream.requests) == ([], [])


@on_loop
async def test_a_stop_announces_the_end_and_takes_no_further_request(tmp_path: Path) -> None:
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
            asked = peer.request(ask("/h/x"), end=True)
            await asked.until(lambda: asked.body)
            stopping = asyncio.create_task(relay.stop())
            await peer.until(lambda: peer.goaway)
            assert peer.goaway == (0, asked.id)
            peer.goaway = None  # it asks before it has read that
            assert (await peer.request(ask("/h/y"), end=True).over()).reset_code == REFUSED
            go_on.set()
            assert bytes((await asked.over()).body) == chunk("a") + DONE
        await stopping
        assert [one.headers[":path"] for one in upstream.peers[0].streams.values()] == ["/x"]


@on_loop
async def test_a_lost_stream_that_the_client_resets_does_not_keep_the_connection_open(tmp_path: Path) -> None:
    async def dying(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(b"a" * 100)
        answering.peer.finish()

    limits = Limits(window=10, is_manual=True)
    async with recording(tmp_path, dying) as (relay, _, base), connect(base, limits) as peer:
        asked = peer.request(ask("/h/x"), end=True)
        await asked.until(lambda: len(asked.body) == 10)
        assert (await outcome_of(relay, "/x"))[0] == "truncated"
        asked.reset(CANCEL)
        await peer.until(lambda: relay.recorder.proxy.live == set())
        other = peer.request(ask("/h/y"), end=True)
        await other.until(lambda: len(other.body) == 10)
        other.grant(90)
        await peer.until(lambda: peer.is_closed)


@pytest.mark.parametrize("header", [("x-a", "1\r\nset-cookie: b=2"), ("a name", "1")])
@on_loop
async def test_a_header_that_would_break_http_1_1_is_no_answer(tmp_path: Path, header: tuple[str, str]) -> None:
    async def breaking(answering: Stream) -> None:
        answering.send_head([OK, SSE, header], end=True)

    async with recording(tmp_path, breaking) as (relay, _, base), connect(base) as peer:
        assert (await peer.request(ask("/h/x"), end=True).over()).reset_code == PROTOCOL_ERROR
        assert await outcome_of(relay, "/x") == ("connect_error", "protocol")


@on_loop
async def test_bytes_beyond_a_requests_length_do_not_reach_an_upstream_of_http_1_1(tmp_path: Path) -> None:
    relay = Relay(tmp_path)
    await relay.start()
    async with connect(relay.base) as peer:
        asked = peer.request(ask("/v1/x", ("content-length", "2")))
        await asked.send(b"{}POST /v1/other HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}")
        await peer.until(lambda: peer.is_closed)
    await relay.stop()
    assert relay.upstream.requests == []
    assert [one.status for one in relay.refused] == [400]
