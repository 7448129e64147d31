"""Responses: equal at upstream, at the client and on the tape."""

import asyncio
import gzip
import os
import socket
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from tests.support.relay import (
    CHUNKED,
    DONE,
    HEAD,
    STREAM,
    ByHand,
    Relay,
    chunk,
    dial,
    on_loop,
    plain,
    post,
    raw,
    relaying,
    take,
    until,
)
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.demo.upstream import Scene, answer
from wiretape.recorder.relay import providers, server
from wiretape.recorder.relay.proxy import Proxy
from wiretape.recorder.relay.states import Receiving
from wiretape.recorder.relay.upstream import ConnectionFacts, Http1Connection, Transport


@on_loop
async def test_every_read_reaches_client_and_tape_verbatim(relay: Relay) -> None:
    pieces = [os.urandom(size) for size in (1, 7, 4096, 1, 300, 65_000, 2, 1024, 33, 5)]
    target = relay.plays(answer([(0.02, piece) for piece in pieces]))
    got = await relay.get(target)
    tape, request = await relay.kept(target), relay.request(target)
    assert got.complete
    assert got.body == b"".join(pieces) == tape.body
    assert request is not None
    # If the machine delayed all processes, pieces were sent close together and may have arrived so.
    gaps = [later[0] - earlier[0] > 15_000_000 for earlier, later in pairwise(request.sent[1:-1])]
    assert tape.reads == pieces or not all(gaps)
    if all(gaps):
        assert all(later - earlier > 10_000_000 for earlier, later in pairwise(tape.at_ns))


@on_loop
async def test_a_read_is_relayed_before_the_next_arrives(relay: Relay) -> None:
    reads = [(b"1\r\na\r\n", b"a\r\n"), (b"1\r\nb\r\n", b"b\r\n"), (b"0\r\n\r\n", b"0\r\n\r\n")]
    got, tape = await relay.shows_apart((CHUNKED, b"\r\n\r\n"), *reads)
    assert got.complete
    assert tape.reads == [b"a", b"b"]
    for at_ns, relayed_ns in zip(tape.at_ns, tape.relayed_ns, strict=True):
        assert relayed_ns is not None
        assert at_ns <= relayed_ns


@on_loop
async def test_several_http_chunks_in_one_read_stay_one(relay: Relay) -> None:
    texts = b"3\r\nabc\r\n4;ext=1\r\ndefg\r\n", b"abcdefg\r\n"
    remainder_texts = b"1\r\nh\r\n0\r\nTrailer: x\r\n\r\n", b"0\r\n\r\n"
    got, tape = await relay.shows_apart((CHUNKED, b"\r\n\r\n"), texts, remainder_texts)
    assert got.body == b"abcdefgh"
    assert tape.reads == [b"abcdefg", b"h"]


@on_loop
async def test_one_http_chunk_in_two_reads_stays_two(relay: Relay) -> None:
    halves = [(b"6\r\nabc", b"abc\r\n"), (b"def\r\n", b"def\r\n")]
    got, tape = await relay.shows_apart((CHUNKED, b"\r\n\r\n"), *halves, (b"0\r\n\r\n", b"0\r\n\r\n"))
    assert got.complete
    assert tape.reads == [b"abc", b"def"]


@on_loop
async def test_head_and_body_in_one_read_share_its_timestamp(relay: Relay) -> None:
    got, tape = await relay.shows(Scene([(0, CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")]))
    assert got.body == b"hi"
    assert tape.at_ns == [tape.row["headers_ns"]]
    assert tape.row["end_ns"] == tape.row["headers_ns"]


@on_loop
async def test_the_timestamps_of_an_exchange_are_in_order(relay: Relay) -> None:
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
async def test_a_compressed_body_is_relayed_and_stored_verbatim(relay: Relay) -> None:
    packed = gzip.compress(b"".join(piece for _, piece in STREAM))
    got, tape = await relay.shows(answer([(0, packed)], headers=[("content-encoding", "gzip")]))
    assert got.headers["content-encoding"] == "gzip"
    assert got.body == tape.body == packed
    assert tape.row["content"] == "ab"


@on_loop
async def test_a_body_ended_by_closing_ends_cleanly(relay: Relay) -> None:
    got, tape = await relay.shows(answer(STREAM, framing="close"))
    assert got.complete
    assert (tape.row["framing"], tape.outcome) == ("close", ("complete", None))


@pytest.mark.parametrize(
    ("scene", "detail", "body"),
    [
        pytest.param(Scene([(0, CHUNKED), (0, b"64\r\ndata: par")], "fin"), "eof", b"data: par", id="fin_in_a_chunk"),
        pytest.param(Scene([(0, CHUNKED), (0, b"3\r\nabc\r\n")], "fin"), "eof", b"abc", id="fin_without_terminator"),
        pytest.param(Scene([(0, HEAD + b"content-length: 9\r\n\r\nabc")], "fin"), "length", b"abc", id="length"),
        pytest.param(Scene([(0, CHUNKED), (0, b"3\r\nabc\r\nZZ\r\n")], "stall"), "framing", b"abc", id="chunk_size"),
        pytest.param(Scene([(0, CHUNKED), (0, b"3\r\nabcdef\r\n")], "stall"), "framing", b"abc", id="chunk_end"),
    ],
)
@on_loop
async def test_after_a_broken_upstream_the_client_is_cut(relay: Relay, scene: Scene, detail: str, body: bytes) -> None:
    got, tape = await relay.shows(scene)
    assert (got.status, got.body, got.complete) == (200, body, False)
    assert (tape.outcome, tape.row["ended_by"], tape.body) == (("truncated", detail), detail, body)


@pytest.mark.parametrize(
    ("pieces", "end", "detail", "body"),
    [
        pytest.param([(CHUNKED + b"3\r\nabc\r\n", b"abc\r\n")], "reset", "reset", b"abc", id="reset"),
        pytest.param([(HEAD + b"\r\ndata: par", b"data: par\r\n")], "reset", "reset", b"data: par",
                     id="reset_of_a_body_that_ends_by_closing"),
        pytest.param([(CHUNKED + b"1\r\na\r\n0\r\nX: ", b"a\r\n"), (b"y" * 70_000, b"")], "stall", "framing", b"a",
                     id="endless_trailer"),
    ],
)  # fmt: skip
@on_loop
async def test_bytes_before_a_broken_end_are_relayed_and_stored(
    relay: Relay, pieces: list[tuple[bytes, bytes]], end: str, detail: str, body: bytes
) -> None:
    got, tape = await relay.shows_apart(*pieces, end=end)
    assert (got.status, got.body, got.complete) == (200, body, False)
    assert (tape.outcome, tape.row["ended_by"], tape.body) == (("truncated", detail), detail, body)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nx: " + b"y" * (1 << 20) + b"\r\n\r\n", id="header_of_1_mib"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000 + b"\r\n", id="200000_headers"),
        pytest.param(b"HTTP/1.1 103 E\r\n" + b"link: <x>\r\n" * 30_000 + b"\r\n", id="large_informational"),
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
async def test_a_head_that_is_not_http_becomes_a_502(relay: Relay, head: bytes) -> None:
    got, tape = await relay.shows(Scene([(0, head)], "stall"))
    assert (got.status, got.headers["x-wiretape-error"], got.complete) == (502, "protocol", True)
    assert b'"type":"wiretape_error"' in got.body
    assert tape.outcome == ("connect_error", "protocol")
    assert (await until(lambda: relay.upstream.requests[-1].peer_left_ns)) > 0


@pytest.mark.parametrize("end", ["fin", "reset"])
@on_loop
async def test_an_upstream_close_without_answer_becomes_a_502(relay: Relay, end: Any) -> None:
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


def test_another_kernel_clock_gives_flagged_loop_times(relay: Relay) -> None:
    clock = Clock(wall_ns=lambda: time.time_ns() + 10_000_000_000)
    targets = [relay.plays(Scene([(0, CHUNKED), *[(0.05, b"1\r\nx\r\n")] * 4, (0, b"0\r\n\r\n")])) for _ in range(3)]

    async def main() -> None:
        proxy = Proxy([providers.parse(relay.upstream.url)], Transport(clock=clock), relay.recorder.tap, clock=clock)
        listening = server.bound("127.0.0.1", 0)
        served = server.Server(proxy, listening)
        async with dial(server.base_url(listening)) as (reader, writer):
            for target in targets:
                writer.write(post(target))
                await take(reader)
        served.close()
        tapes = [await relay.kept(target) for target in targets]
        assert all(tape.row["headers_ns"] > 0 and min(tape.at_ns) > 0 for tape in tapes)
        assert [tape.row["clock"] for tape in tapes] == ["loop"] * 3
        assert "clock_suspect" in tapes[-1].row["flags"]  # the kernel begins to stamp a moment after the request for it

    relay.runner.run(main())


@on_loop
async def test_reads_merged_by_a_late_loop_are_flagged(relay: Relay) -> None:
    barrier = threading.Barrier(2, timeout=60)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_in_three_pieces() -> None:  # beside the event loop, which is held up
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(CHUNKED + b"1\r\na\r\n")
                barrier.wait()
                connection.sendall(b"1\r\nb\r\n")
                time.sleep(0.03)
                connection.sendall(b"1\r\nc\r\n0\r\n\r\n")
                time.sleep(0.005)
                barrier.wait()
                barrier.wait()  # an end that comes with the last piece would be what the kernel stamps

        thread = threading.Thread(target=answer_in_three_pieces)
        thread.start()
        async with relaying(relay, listener.getsockname()[1]) as base, dial(base) as (reader, writer):
            writer.write(post("/v1/late"))
            await reader.readuntil(b"a\r\n")
            silent_from = time.monotonic_ns()
            await asyncio.sleep(0.5)  # a silence, in which the loop runs
            barrier.wait()
            barrier.wait()  # the loop is held up
            await reader.readuntil(b"0\r\n\r\n")
            silent_ns = time.monotonic_ns() - silent_from
            barrier.wait()
            tape = await relay.kept("/v1/late")
        thread.join()
    assert (tape.reads, tape.row["clock"]) == ([b"a", b"bc"], "kernel")
    assert 30_000_000 < tape.row["clock_error_ns"] < silent_ns  # the first piece has waited for 35 ms


class Unstamped(Transport):
    """Opens connections on a system whose kernel stamps no reads."""

    @property
    def has_kernel_time(self) -> bool:
        return False


@pytest.mark.parametrize("transport", [Transport, Unstamped])
@on_loop
async def test_loop_lag_is_measured_only_while_stamping_reads(relay: Relay, transport: type[Transport]) -> None:
    looks = 0

    def now() -> int:
        nonlocal looks
        looks += 1
        return time.monotonic_ns()

    proxy = Proxy([providers.parse(relay.upstream.url)], transport(), relay.recorder.tap, clock=Clock(now=now))
    listening = server.bound("127.0.0.1", 0)
    served = server.Server(proxy, listening)
    async with dial(server.base_url(listening)) as (reader, writer):
        writer.write(post(relay.plays(Scene([(0, CHUNKED + b"1\r\na\r\n")], "stall"))))
        await reader.readuntil(b"a\r\n")
        looks = 0
        await asyncio.sleep(0.05)
        assert (looks > 0) is (transport is Unstamped)
    served.close()


class Faulty(Http1Connection):
    """A connection that fails by a fault of our own."""

    def begin(self, *_: object, **more: object) -> None:
        raise KeyError("what is not there")


class Broken(Transport):
    """Fails by a fault of our own, in connecting or, on a new or a kept connection, after it."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    async def connect(
        self, upstream: providers.Upstream, facts: ConnectionFacts, *, switches: bool = False
    ) -> Http1Connection:
        if self.fault == "connecting":
            raise KeyError("what is not there")
        return Faulty(ByHand(), SYSTEM, upstream)


@pytest.mark.parametrize("fault", ["connecting", "a new connection", "a kept connection"])
@on_loop
async def test_a_fault_of_wiretapes_own_is_answered_and_reported(relay: Relay, fault: str) -> None:
    troubles: list[str] = []
    upstream, target = providers.parse("http://upstream.test"), "/v1/fault-" + fault.replace(" ", "-")
    proxy = Proxy([upstream], Broken(fault), relay.recorder.tap, on_trouble=troubles.append)
    listening = server.bound("127.0.0.1", 0)
    base = server.base_url(listening)
    served = server.Server(proxy, listening)
    if fault == "a kept connection":
        closed: list[server.Http1Client] = []
        sock = ByHand()
        client = server.Http1Client(sock, proxy, SYSTEM, closed.append)
        kept_one = Faulty(ByHand(), SYSTEM, upstream)
        kept_one.state = Receiving.ENDED
        client.keep(kept_one)
        client.received(0, memoryview(post(target)))
        assert closed
        got = b"".join(sock.sent)
    else:
        got = await raw(base, post(target))
    tape = await relay.kept(target)
    served.close()
    assert tape.outcome == ("interrupted", None)
    assert "KeyError" in tape.row["ended_detail"]
    assert got.startswith(b"HTTP/1.1 500 ")
    assert b"wiretape_error" in got
    assert "KeyError" in troubles[0]
    assert "test_proxy.py" in troubles[0]
    assert not proxy.live
