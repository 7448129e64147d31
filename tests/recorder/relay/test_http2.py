"""HTTP/2 through a recorder: each stream is an exchange, whose bytes, trailers and end are the upstream's."""

import asyncio
import random
import ssl
from pathlib import Path
from typing import Any

import pytest
from h2.settings import SettingCodes
from hpack import NeverIndexedHeaderTuple

from tests.support.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PRIORITY,
    Limits,
    Peer,
    Stream,
    ask,
    connect,
    frame,
    recording,
)
from tests.support.relay import DONE, Relay, address, chunk, kept, on_loop, select, serving, until
from wiretape.recorder.demo.upstream import Scene, answer
from wiretape.recorder.relay import intercept

SSE = ("content-type", "text/event-stream")
OK = (":status", "200")
PARTS = (chunk("a"), chunk("b", finish="stop"), DONE)
CANCEL, REFUSED, CALM = 8, 7, 11
EMPTY = {"/empty": b"", "/pseudo": b"\x8d", "/invalid": b"\x00\x01x\x03a\rb",
         "/connection": b"\x00\x0aconnection\x05close"}  # fmt: skip
"""Trailers of which nothing is left, in HPACK."""


async def stream(answering: Stream) -> None:
    """Answer with three events and a trailer."""
    answering.send_head([OK, SSE, ("trailer", "x-sum")])
    for part in PARTS:
        await answering.send(part)
        await asyncio.sleep(0.01)
    answering.send_head([("x-sum", "3")], end=True)


async def tape_of(relay: Relay, path: str) -> Any:
    return await until(lambda: kept(relay.tape, path))


@on_loop
async def test_an_http2_stream_is_relayed_as_an_exchange(tmp_path: Path) -> None:
    requests = list[Stream]()

    async def stream_as_it_is_read(answering: Stream) -> None:
        answering.send_head([OK, SSE, ("trailer", "x-sum")])
        for count, part in enumerate(PARTS, 1):
            await answering.send(part)
            await requests[0].until(lambda: len(requests[0].body) == sum(map(len, PARTS[:count])))  # noqa: B023 - at once
        answering.send_head([("x-sum", "3")], end=True)

    async with recording(tmp_path, stream_as_it_is_read) as (relay, upstream, base), connect(base) as peer:
        request = peer.request(ask("/h/v1/chat", ("te", "trailers"), ("x-a", "1")), end=True)
        requests.append(request)
        await request.over()
        assert (bytes(request.body), request.trailers) == (b"".join(PARTS), [("x-sum", "3")])
        assert request.headers["trailer"] == "x-sum"
        (relayed,) = upstream.peers[0].streams.values()
        assert {("te", "trailers"), ("x-a", "1"), (":path", "/v1/chat")} <= set(relayed.head)
        tape = await tape_of(relay, "/v1/chat")
    assert tape.outcome == ("complete", None)
    assert (tape.row["protocol"], tape.row["framing"], tape.row["clock"]) == ("h2", "h2", "kernel")
    assert tape.row["response_trailers"] == '[["x-sum","3"]]'
    assert len(tape.reads) == 3
    assert "h2_offered" not in tape.flags


@on_loop
async def test_streams_of_one_connection_share_one_to_the_upstream(tmp_path: Path) -> None:
    async with recording(tmp_path, stream) as (relay, upstream, base), connect(base) as peer:
        requests = [peer.request(ask(f"/h/{place}"), end=True) for place in range(20)]
        for request in requests:
            assert bytes((await request.over()).body).endswith(DONE)
        late = peer.request(ask("/h/late"), end=True)
        await late.over()
        assert len(upstream.peers) == 1
        first, last = await tape_of(relay, "/0"), await tape_of(relay, "/late")
    assert (first.row["connection_reused"], last.row["connection_reused"]) == (0, 1)
    assert first.row["connected_ns"] is not None
    assert last.row["connected_ns"] is None


@pytest.mark.parametrize(("method", "status"), [("HEAD", "200"), ("POST", "204"), ("GET", "304")])
@on_loop
async def test_an_answer_without_a_body_is_not_truncated(tmp_path: Path, method: str, status: str) -> None:
    async def bare(answering: Stream) -> None:
        answering.send_head([(":status", status), SSE], end=True)

    async with recording(tmp_path, bare) as (relay, _, base), connect(base) as peer:
        request = await peer.request(ask("/h/x", method=method), end=True).over()
        assert (dict(request.head)[":status"], bytes(request.body)) == (status, b"")
        tape = await tape_of(relay, "/x")
    assert (tape.row["framing"], tape.row["outcome"]) == ("none", "http_error" if status == "304" else "complete")


@pytest.mark.parametrize("speaks_http_2", [True, False])
@on_loop
async def test_informational_responses_pass_over_http_2(tmp_path: Path, speaks_http_2: bool) -> None:
    async def working(answering: Stream) -> None:
        answering.send_head([(":status", "102")])
        answering.send_head([(":status", "103"), ("link", "</x>")])
        answering.send_head([OK], end=True)

    lines = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    old = Scene([(0, lines), (0, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")])
    async with recording(tmp_path, working) as (relay, _, base), connect(base) as peer:
        target = "/h/x" if speaks_http_2 else relay.plays(old)
        request = await peer.request(ask(target), end=True).over()
        assert request.informational == [[(":status", "102")], [(":status", "103"), ("link", "</x>")]]
        assert request.head[0] == OK


@pytest.mark.parametrize("code", [2, CALM, 0x42])
@on_loop
async def test_an_upstream_reset_reaches_the_client_and_the_tape(tmp_path: Path, code: int) -> None:
    async def breaking(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        answering.reset(code)

    async with recording(tmp_path, breaking) as (relay, _, base), connect(base) as peer:
        request = await peer.request(ask("/h/x"), end=True).over()
        assert (bytes(request.body), request.reset_code) == (chunk("a"), code)
        tape = await tape_of(relay, "/x")
    name = {2: "internal_error", CALM: "enhance_your_calm", 0x42: "0x42"}[code]
    assert tape.outcome == ("truncated", f"rst_{name}")


@on_loop
async def test_a_reset_before_an_answer_is_a_connect_error(tmp_path: Path) -> None:
    async def refusing(answering: Stream) -> None:
        answering.reset(REFUSED)

    async with recording(tmp_path, refusing) as (relay, _, base), connect(base) as peer:
        assert (await peer.request(ask("/h/x"), end=True).over()).reset_code == REFUSED
        tape = await tape_of(relay, "/x")
    assert tape.outcome == ("connect_error", "rst_refused_stream")


@on_loop
async def test_a_client_reset_reaches_upstream_and_spares_other_streams(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def hold(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        await go_on.wait()
        await answering.send(DONE, end=True)

    async with recording(tmp_path, hold) as (relay, upstream, base), connect(base) as peer:
        departing, stays = (peer.request(ask(path), end=True) for path in ("/h/left", "/h/stays"))
        await departing.until(lambda: departing.body)
        departing.reset(CANCEL)
        relayed = next(stream for stream in upstream.peers[0].streams.values() if stream.headers[":path"] == "/left")
        await relayed.peer.until(lambda: relayed.reset_code is not None)
        assert relayed.reset_code == CANCEL
        go_on.set()
        assert bytes((await stays.over()).body) == chunk("a") + DONE
        assert (await tape_of(relay, "/left")).outcome == ("client_closed", "rst_cancel")
        assert (await tape_of(relay, "/stays")).outcome == ("complete", None)


@on_loop
async def test_a_slow_stream_holds_back_only_its_own_upstream(tmp_path: Path) -> None:
    size = 4 << 20

    async def flooding(answering: Stream) -> None:
        answering.send_head([OK])
        await answering.send(bytes(size), end=True)

    limits = Limits(window=1 << 10, connection=1 << 24, is_manual=True)
    async with recording(tmp_path, flooding) as (relay, upstream, base), connect(base, limits) as peer:
        slow = peer.request(ask("/h/slow"), end=True)
        await slow.until(lambda: len(slow.body) == limits.window)
        quick = peer.request(ask("/h/quick"), end=True)
        quick.grant(size)
        peer.grant(2 * size)
        assert len((await quick.over()).body) == size
        (held,) = (stream for stream in upstream.peers[0].streams.values() if stream.headers[":path"] == "/slow")
        await until(lambda: upstream.peers[0].h2.local_flow_control_window(held.id) == 0)  # it waits
        slow.grant(size)
        assert len((await slow.over()).body) == size
        tape = await tape_of(relay, "/slow")
    assert "backpressure" in tape.flags
    assert tape.row["bytes"] == size


@on_loop
async def test_requests_beyond_the_upstreams_limit_of_streams_wait(tmp_path: Path) -> None:
    most = 0

    async def counting(answering: Stream) -> None:
        nonlocal most
        most = max(most, sum(not stream.has_sent_end for stream in answering.peer.streams.values()))
        await asyncio.sleep(0.005)
        answering.send_head([OK], end=True)

    limits = Limits(streams=3)
    async with recording(tmp_path, counting, limits=limits) as (_, upstream, base), connect(base) as peer:
        for request in [peer.request(ask(f"/h/{place}"), end=True) for place in range(20)]:
            assert (await request.over()).headers[":status"] == "200"
        assert len(upstream.peers) == 1
    assert most <= limits.streams


@on_loop
async def test_a_body_is_uploaded_as_it_comes_with_trailers(tmp_path: Path) -> None:
    async def echoing(answering: Stream) -> None:
        answering.send_head([OK])
        await answering.until(lambda: answering.body)
        await answering.send(bytes(answering.body))
        await answering.until(lambda: answering.is_ended)
        await answering.send(b"|" + str(answering.trailers).encode(), end=True)

    async with recording(tmp_path, echoing) as (_, _, base), connect(base) as peer:
        request = peer.request(ask("/h/x"))
        await request.send(b"first")
        await request.until(lambda: request.body == b"first")
        request.send_head([("x-end", "1")], end=True)
        assert bytes((await request.over()).body) == b"first|[('x-end', '1')]"


@on_loop
async def test_empty_trailers_end_a_request_and_its_answer(tmp_path: Path) -> None:
    async def echoing(answering: Stream) -> None:
        await answering.until(lambda: answering.is_ended)
        answering.peer.raw(
            frame(HEADERS, answering.id, b"\x88", END_HEADERS)
            + frame(DATA, answering.id, answering.body)
            + frame(HEADERS, answering.id, EMPTY[answering.headers[":path"]], END_HEADERS | END_STREAM)
        )

    async with recording(tmp_path, echoing) as (relay, _, base), connect(base) as peer:
        for path in EMPTY:
            request = peer.request(ask(f"/h{path}"))
            await request.send(b"question")
            peer.raw(frame(HEADERS, request.id, b"", END_HEADERS | END_STREAM))
            await request.over()
            assert (bytes(request.body), request.is_ended, request.trailers) == (b"question", True, None)
            tape = await tape_of(relay, path)
            assert (tape.outcome, tape.body) == (("complete", None), b"question")


@on_loop
async def test_an_http1_upstream_is_asked_and_recorded_as_such(tmp_path: Path) -> None:
    async with recording(tmp_path, stream) as (relay, _, base), connect(base) as peer:
        target = relay.plays(answer([(0, DONE)]))
        for _ in range(2):
            request = await peer.request(ask(target), end=True).over()
            assert bytes(request.body) == DONE
            assert not {"transfer-encoding", "connection"} & set(request.headers)
        tape = await until(lambda: first_of_two(relay, target))
    assert (tape["protocol"], tape["h2_offered"]) == ("http/1.1", 1)


def first_of_two(relay: Relay, target: str) -> Any:
    rows = select(relay.tape, "SELECT * FROM exchanges WHERE path = ? AND ended_by IS NOT NULL ORDER BY no", target)
    return rows[0] if len(rows) == 2 else None


@on_loop
async def test_a_graceful_goaway_lets_running_streams_end_whole(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def leaving(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        answering.peer.leave(0, 2**31 - 1)
        await go_on.wait()
        await answering.send(DONE, end=True)

    async with recording(tmp_path, leaving) as (relay, upstream, base), connect(base) as peer:
        request = peer.request(ask("/h/x"), end=True)
        await peer.until(lambda: peer.goaway)
        assert peer.goaway is not None
        assert peer.goaway[0] == 0
        second = peer.request(ask("/h/y"), end=True)
        go_on.set()
        for stream in (request, second):
            assert bytes((await stream.over()).body) == chunk("a") + DONE
        assert len(upstream.peers) == 2
        assert (await tape_of(relay, "/x")).outcome == ("complete", None)


@on_loop
async def test_data_received_with_a_goaway_precedes_it_everywhere(tmp_path: Path) -> None:
    async def leaving(answering: Stream) -> None:
        await answering.until(lambda: answering.is_ended)
        denied = frame(GOAWAY, 0, CALM.to_bytes(8, "big"))
        answering.peer.raw(
            frame(HEADERS, answering.id, b"\x88", END_HEADERS) + frame(DATA, answering.id, chunk("a")) + denied
        )

    async with recording(tmp_path, leaving) as (relay, _, base), connect(base) as peer:
        request = peer.request(ask("/h/x"), end=True)
        await peer.until(lambda: peer.goaway)
        assert (bytes(request.body), peer.goaway) == (chunk("a"), (CALM, 0))
        tape = await tape_of(relay, "/x")
        assert (tape.outcome, tape.body) == (("truncated", "goaway_enhance_your_calm"), chunk("a"))


@pytest.mark.parametrize(("code", "detail"), [(CALM, "goaway_enhance_your_calm"), (0, "eof")])
@on_loop
async def test_a_close_after_goaway_ends_streams_with_its_error(tmp_path: Path, code: int, detail: str) -> None:
    async def leaving(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        answering.peer.leave(code, answering.id)
        answering.peer.end()

    async with recording(tmp_path, leaving) as (relay, _, base), connect(base) as peer:
        await peer.request(ask("/h/x"), end=True).over()
        assert (await tape_of(relay, "/x")).outcome == ("truncated", detail)


@on_loop
async def test_a_lost_upstream_ends_its_streams_and_their_connection(tmp_path: Path) -> None:
    async def dying(answering: Stream) -> None:
        answering.send_head([OK, SSE])
        await answering.send(chunk("a"))
        answering.peer.close()

    async with recording(tmp_path, dying) as (relay, _, base), connect(base) as peer:
        request = await peer.request(ask("/h/x"), end=True).over()
        assert bytes(request.body) == chunk("a")
        assert not request.is_ended
        await peer.until(lambda: peer.is_closed)
        assert (await tape_of(relay, "/x")).outcome[0] == "truncated"


@on_loop
async def test_an_intercepted_client_speaks_http2_if_its_server_does(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(("127.0.0.1",))
    async with recording(
        tmp_path, stream, tls=serving(authority, "good"), interception=settings, ca_file=authority / "ca.pem"
    ) as (relay, upstream, base):
        place = upstream.url.removeprefix("https://")
        trusting = ssl.create_default_context(cadata=settings.authority.certificate)
        trusting.set_alpn_protocols(["h2", "http/1.1"])
        reader, writer = await asyncio.open_connection(*address(base))
        line = f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\nproxy-authorization: Basic "
        writer.write(line.encode() + settings.credential + b"\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await writer.start_tls(trusting, server_hostname="127.0.0.1")
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        peer = Peer(reader, writer, Limits(), is_client=True)
        peer.start()
        reading = asyncio.create_task(peer.serve())
        request = await peer.request(ask("/v1/x", authority=place), end=True).over()
        assert bytes(request.body).endswith(DONE)
        assert len(upstream.peers) == 1
        tape = await tape_of(relay, "/v1/x")
        peer.close()
        await reading
    assert (tape.row["protocol"], tape.row["connection_reused"], tape.row["upstream"]) == ("h2", 0, upstream.url)


@on_loop
async def test_padding_is_passed_on_both_ways(tmp_path: Path) -> None:
    async def padding(answering: Stream) -> None:
        answering.send_head([OK])
        await answering.until(lambda: answering.is_ended)
        await answering.send(b"abc", padding=17, end=True)

    async with recording(tmp_path, padding) as (relay, upstream, base), connect(base) as peer:
        request = peer.request(ask("/h/x"))
        await request.send(b"question", padding=100, end=True)
        assert ((await request.over()).body, request.sizes) == (b"abc", [3 + 1 + 17])
        (relayed,) = upstream.peers[0].streams.values()
        assert (relayed.body, relayed.sizes) == (b"question", [8 + 1 + 100])
        assert (await tape_of(relay, "/x")).body == b"abc"


@on_loop
async def test_priorities_are_passed_on(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def hold(answering: Stream) -> None:
        answering.send_head([OK])
        await go_on.wait()
        await answering.send(b"x", end=True)

    async with recording(tmp_path, hold) as (_, upstream, base), connect(base) as peer:
        first_request = peer.request(ask("/h/first"), end=True)
        await first_request.until(lambda: first_request.head)
        peer.h2.prioritize(first_request.id, 99)
        peer.flush()
        await until(lambda: upstream.peers[0].frames[PRIORITY])
        go_on.set()
        assert (await first_request.over()).body == b"x"


@pytest.mark.parametrize("trailers", [None, [("grpc-status", "0")]])
@on_loop
async def test_a_bodiless_answer_ends_with_its_head_or_trailers(
    tmp_path: Path, trailers: list[tuple[str, str]] | None
) -> None:
    async def ending(answering: Stream) -> None:
        answering.send_head([OK, ("grpc-status", "8")], end=trailers is None)
        if trailers:
            answering.send_head(trailers, end=True)

    async with recording(tmp_path, ending) as (_, upstream, base), connect(base) as peer:
        request = await peer.request(ask("/h/x"), end=True).over()
        assert (request.headers["grpc-status"], request.trailers, request.is_ended) == ("8", trailers, True)
        assert peer.frames[DATA] == 0
        assert upstream.peers[0].frames[DATA] == 0


@on_loop
async def test_a_client_may_open_as_many_streams_as_upstream(tmp_path: Path) -> None:
    async with recording(tmp_path, stream, limits=Limits(streams=7)) as (_, _, base), connect(base) as peer:
        assert peer.h2.remote_settings.max_concurrent_streams > 7
        await peer.request(ask("/h/x"), end=True).over()
        await peer.until(lambda: peer.h2.remote_settings.max_concurrent_streams == 7)


@on_loop
async def test_a_proxy_is_asked_over_http2_for_its_host(tmp_path: Path) -> None:
    settings = intercept.make(("127.0.0.1",))
    async with recording(tmp_path, stream, interception=settings) as (relay, upstream, base), connect(base) as peer:
        place = upstream.url.removeprefix("http://")
        credential = ("proxy-authorization", f"Basic {settings.credential.decode()}")
        request = await peer.request(ask("/v1/x", credential, authority=place), end=True).over()
        assert bytes(request.body).endswith(DONE)
        tape = await tape_of(relay, "/v1/x")
        assert (tape.row["upstream"], tape.row["protocol"]) == (upstream.url, "h2")
        assert credential not in upstream.peers[0].streams[1].head
        direct = await peer.request(ask("/h/v1/y", authority=base.removeprefix("http://")), end=True).over()
        assert bytes(direct.body).endswith(DONE)


@pytest.mark.parametrize("ending", ["request", "refusal", "client"])
@on_loop
async def test_a_request_may_outlast_its_answer(tmp_path: Path, ending: str) -> None:
    async def first(answering: Stream) -> None:
        await answering.until(lambda: answering.body)
        answering.send_head([OK])
        await answering.send(b"answer", end=True)
        await answering.until(lambda: answering.body == b"ab")
        if ending == "refusal":
            answering.reset(0)

    async with recording(tmp_path, first) as (relay, upstream, base), connect(base) as peer:
        request = peer.request(ask("/h/x"))
        await request.send(b"a")
        await request.over()
        assert (request.body, request.reset_code) == (b"answer", None)
        await request.send(b"b")
        (relayed,) = upstream.peers[0].streams.values()
        await relayed.peer.until(lambda: relayed.body == b"ab")
        if ending == "request":
            await request.send(b"c", end=True)
            await relayed.over()
        elif ending == "client":
            request.reset(CANCEL)
        else:
            await request.peer.until(lambda: request.reset_code == 0)
        tape = await tape_of(relay, "/x")
    sent = b"abc" if ending == "request" else b"ab"
    assert bytes(relayed.body) == sent
    assert (tape.outcome, tape.row["request_size"]) == (("complete", None), len(sent) if ending == "request" else None)


@pytest.mark.parametrize("more", [b"", b"more"])
@on_loop
async def test_a_body_without_length_reaches_an_http1_upstream(tmp_path: Path, more: bytes) -> None:
    async with recording(tmp_path, stream) as (relay, _, base), connect(base) as peer:
        target = relay.plays(answer([(0, DONE)]))
        request = peer.request(ask(target))
        await request.send(b'{"a":1}', end=not more)
        if more:
            await asyncio.sleep(0.05)
            await request.send(more, end=True)
        await request.over()
        row = relay.request(target)
        assert row is not None
        assert row.body == b'{"a":1}' + more


@on_loop
async def test_a_lost_upstream_closes_the_connection_after_its_data(tmp_path: Path) -> None:
    size = 100_000

    async def dying(answering: Stream) -> None:
        answering.send_head([OK])
        await answering.send(bytes(size))
        answering.peer.end()

    limits = Limits(window=1000, is_manual=True)
    async with recording(tmp_path, dying) as (relay, _, base), connect(base, limits) as peer:
        request = peer.request(ask("/h/x"), end=True)
        await until(lambda: kept(relay.tape, "/x"))
        assert not peer.is_closed
        request.grant(size)
        peer.grant(size)
        await peer.until(lambda: peer.is_closed)
        assert (len(request.body), request.reset_code, request.is_ended) == (size, None, False)


@on_loop
async def test_a_lost_upstream_resets_only_its_own_streams(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def dying(answering: Stream) -> None:
        answering.send_head([OK])
        await answering.send(b"x")
        await go_on.wait()
        answering.peer.close()

    async with recording(tmp_path, dying) as (relay, _, base), connect(base) as peer:
        target = relay.plays(answer([(0, chunk("a")), (0.5, DONE)]))
        request, neighbour = peer.request(ask("/h/x"), end=True), peer.request(ask(target), end=True)
        await request.until(lambda: request.body)
        await neighbour.until(lambda: neighbour.body)
        go_on.set()
        assert (await request.over()).reset_code == 2
        assert bytes((await neighbour.over()).body) == chunk("a") + DONE


@on_loop
async def test_streams_that_come_while_the_connection_opens_share_it(tmp_path: Path) -> None:
    async with recording(tmp_path, stream) as (_, upstream, base), connect(base) as peer:
        requests = []
        for place in range(60):
            requests.append(peer.request(ask(f"/h/{place}"), end=True))
            await asyncio.sleep(0)
        for request in requests:
            assert bytes((await request.over()).body).endswith(DONE)
        assert len(upstream.peers) == 1


@on_loop
async def test_a_large_body_through_a_small_window_is_whole(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(3 << 20)

    async def echoing(answering: Stream) -> None:
        answering.send_head([OK])
        await answering.until(lambda: answering.is_ended)
        await answering.send(bytes(answering.body), end=True)

    async with recording(tmp_path, echoing) as (_, _, base), connect(base) as peer:
        request = peer.request(ask("/h/x"))
        await request.send(body, end=True)
        assert bytes((await request.over()).body) == body


@on_loop
async def test_settings_of_an_upstream_that_leaves_are_no_fault(tmp_path: Path) -> None:
    async def leaving(answering: Stream) -> None:
        answering.send_head([OK])
        answering.peer.leave(0, answering.id)
        answering.peer.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
        await answering.send(b"x", end=True)

    async with recording(tmp_path, leaving) as (_, _, base), connect(base) as peer:
        assert (await peer.request(ask("/h/x"), end=True).over()).body == b"x"


@on_loop
async def test_a_never_indexed_header_keeps_its_mark(tmp_path: Path) -> None:
    async def setting(answering: Stream) -> None:
        answering.send_head([OK, NeverIndexedHeaderTuple("x-secret", "s")], end=True)

    async with recording(tmp_path, setting) as (relay, upstream, base), connect(base) as peer:
        request = await peer.request(ask("/h/x", NeverIndexedHeaderTuple("x-api-key", "k")), end=True).over()
        (relayed,) = upstream.peers[0].streams.values()
        for head, name in ((relayed.head, "x-api-key"), (request.head, "x-secret")):
            (row,) = [pair for pair in head if pair[0] == name]
            assert isinstance(row, NeverIndexedHeaderTuple)
        assert '"k"' not in (await tape_of(relay, "/x")).row["request_headers"]
