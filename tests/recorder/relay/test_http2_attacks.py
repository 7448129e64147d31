"""HTTP/2 attacks: each costs a bounded amount of work and memory, and only its own connection."""

import asyncio
import functools
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import hpack
import pytest
import uvloop

from tests.support.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Limits,
    Peer,
    Stream,
    Upstream,
    ask,
    connect,
    frame,
)
from tests.support.relay import Relay, select, until
from wiretape.recorder.relay.http2 import CREDIT, CREDIT_A_SECOND, STREAMS, WINDOW_BYTES

OK = (":status", "200")
PIECES = [bytes([number]) * 500 for number in range(40)]
TRAILERS = [("x-sum", "40")]
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, COMPRESSION_ERROR, CALM = 1, 3, 6, 9, 11
PEAK_BYTES = 8 << 20
"""Limit of the memory of an attack, with that of the attacker, which is in the same process."""
HELD_BYTES = 2 * WINDOW_BYTES + 65_536
"""Limit of the data that the relay takes for a stream whose client takes none: for the client, ahead, and in a read."""
FLOOD = 100_000
"""Frames of a flood: at the relay's pace, it takes a minute."""
DEFAULT = Limits()
Attack = Callable[[Peer], Coroutine[Any, Any, None]]


HOSTILE: dict[str, Callable[[Stream], Coroutine[Any, Any, None]]] = {}


class Site:
    """A recorder, and an upstream whose answers are hostile where the path names one of `HOSTILE`."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.upstream = Upstream(self._answer)
        self.relay: Relay
        self.sent = 0
        """Bytes that the endless answer has sent."""

    async def start(self, directory: Path) -> None:
        await self.upstream.__aenter__()
        self.relay = Relay(directory, others=[f"h={self.upstream.url}"])
        await self.relay.start()

    async def stop(self) -> None:
        await self.relay.stop()
        await self.upstream.__aexit__()
        assert self.relay.troubles == []

    async def _answer(self, stream: Stream) -> None:
        _, kind, *_ = stream.headers[":path"].split("/")
        if kind == "never":
            return
        if kind in HOSTILE:
            await HOSTILE[kind](stream)
            return
        stream.send_head([OK])
        if kind == "endless":
            self.sent = 0
            while True:
                await stream.send(bytes(8192))
                self.sent += 8192
        for piece in PIECES:
            await stream.send(piece)
            await asyncio.sleep(0)
        stream.send_head(TRAILERS, end=True)

    def received(self, path: str) -> int:
        """Return the count of requests for a path that reached the upstream."""
        return sum(
            stream.headers.get(":path") == path for peer in self.upstream.peers for stream in peer.streams.values()
        )

    def stream(self, path: str) -> Stream | None:
        """Return the first stream with this path that reached the upstream."""
        streams = (stream for peer in self.upstream.peers for stream in peer.streams.values())
        return next((stream for stream in streams if stream.headers.get(":path") == path), None)

    def recorded(self, path: str) -> list[Any]:
        """Return the finished exchanges of a path."""
        return select(
            self.relay.tape,
            "SELECT e.*, m.outcome, m.outcome_detail FROM exchanges e JOIN measures m ON m.exchange_no = e.no"
            " WHERE e.path = ?", path,
        )  # fmt: skip

    async def neighbour(self) -> None:
        """Check that a stream on another connection is whole."""
        async with connect(self.relay.base) as peer:
            stream = await peer.request(ask("/h/whole"), end=True).over()
            assert (bytes(stream.body), stream.trailers, stream.is_ended) == (b"".join(PIECES), TRAILERS, True)

    @asynccontextmanager
    async def attacked(self, attack: Attack, limits: Limits = DEFAULT) -> AsyncIterator["Attacked"]:
        """Attack from one client while another one takes streams; yield once that one has."""
        async with connect(self.relay.base, limits) as peer:
            began = monotonic()
            attacking = asyncio.create_task(attack(peer))
            try:
                await self.neighbour()
                yield Attacked(peer, began, attacking)
                await self.neighbour()
            finally:
                attacking.cancel()
                await asyncio.gather(attacking, return_exceptions=True)


class Attacked:
    """An attack that runs."""

    def __init__(self, peer: Peer, began: float, attacking: asyncio.Task[None]) -> None:
        self.peer, self.began, self.attacking = peer, began, attacking

    def allowance(self) -> float:
        """Return the cost of frames that a peer may have sent by now."""
        return CREDIT + CREDIT_A_SECOND * (monotonic() - self.began) + 500

    async def refused(self, *codes: int) -> None:
        """Wait for the end of the attacker's connection, with a GOAWAY of one of these codes."""
        await self.peer.until(lambda: self.peer.is_closed or self.peer.goaway)
        assert self.peer.goaway is not None
        assert self.peer.goaway[0] in codes
        await self.peer.until(lambda: self.peer.is_closed)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site()
    with site.runner:
        site.runner.run(site.start(tmp_path_factory.mktemp("relay")))
        yield site
        site.runner.run(site.stop())


def on_site(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on the loop of its site."""

    @functools.wraps(test)
    def call(site: Site, **fixtures: Any) -> None:
        site.runner.run(test(site, **fixtures))

    return call


# Floods of frames without data


async def flood(peer: Peer, frames: bytes, count: int = FLOOD) -> None:
    """Send the same frames over and over, each time with a PING; its acknowledgements tell how many were handled."""
    many = (frames + frame(PING, payload=bytes(8))) * 100
    for _ in range(count // 100):
        peer.raw(many)
        await peer.drain()
        await asyncio.sleep(0)


UNKNOWN_SETTINGS = b"".join(struct.pack(">HI", code, 1) for code in range(1000, 3000))
FLOODS: dict[str, tuple[bytes, float]] = {
    "ping": (b"", 0),
    "settings": (frame(SETTINGS, payload=struct.pack(">HI", 1, 4096)), 10),
    "empty settings": (frame(SETTINGS), 10),
    "unknown settings": (frame(SETTINGS, payload=UNKNOWN_SETTINGS), 187),
    "priority": (frame(PRIORITY, 1001, struct.pack(">IB", 0, 15)), 1),
    "connection window": (frame(WINDOW_UPDATE, 0, struct.pack(">I", 1)), 1),
    "unknown": (frame(0x77, 0, b"?"), 1),
    "large unknown": (frame(0x77, 0, bytes(16_384)), 256),
    "goaway": (frame(GOAWAY, 0, struct.pack(">II", 0x7FFFFFFF, 0)), 1),
}
"""Frames of a flood, and their cost."""


@pytest.mark.parametrize("name", FLOODS)
@on_site
async def test_a_flood_is_read_at_its_credits_pace(site: Site, name: str) -> None:
    frames, cost = FLOODS[name]

    async def attack(peer: Peer) -> None:
        await flood(peer, frames)

    cost_each = 1 + cost  # a PING goes with them
    async with site.attacked(attack) as attacked:
        await attacked.peer.until(lambda: attacked.peer.frames[PING] * cost_each > CREDIT * 0.9)
        await site.neighbour()
        assert attacked.peer.frames[PING] * cost_each <= attacked.allowance()


@on_site
async def test_a_head_costs_by_its_fields(site: Site) -> None:
    block = request_block("/h/never/fields") + b"\x93" * 1000  # each byte is a field
    cost_each = 10 + 1000 / 16 + 10 + 1  # HEADERS, fields, RST_STREAM, PING

    async def attack(peer: Peer) -> None:
        for number in range(1000):
            peer.raw(frame(HEADERS, 2 * number + 1, block, END_HEADERS | END_STREAM))
            peer.raw(frame(RST_STREAM, 2 * number + 1, bytes(4)) + frame(PING, payload=bytes(8)))
            await peer.drain()
            await asyncio.sleep(0)

    async with site.attacked(attack) as attacked:
        await attacked.peer.until(lambda: attacked.peer.frames[PING] * cost_each > CREDIT * 0.9)
        await site.neighbour()
        assert attacked.peer.frames[PING] * cost_each <= attacked.allowance() + 10 * cost_each


@on_site
async def test_single_byte_windows_open_at_their_credits_pace(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        stream = peer.request(ask("/h/endless/bytes"), end=True)
        await stream.until(lambda: len(stream.body) == peer.limits.connection)
        peer.h2.increment_flow_control_window(FLOOD)  # its own h2 is not told of the raw frames
        peer.h2.clear_outbound_data_buffer()
        await flood(peer, frame(WINDOW_UPDATE, 0, struct.pack(">I", 1)))

    cost_each = 1 + 1 + 3  # PING, WINDOW_UPDATE, and a frame of a byte
    async with site.attacked(attack, Limits(window=1 << 20, is_manual=True)) as attacked:
        await attacked.peer.until(lambda: attacked.peer.frames[PING] * cost_each > CREDIT * 0.9)
        await site.neighbour()
        assert attacked.peer.frames[PING] * cost_each <= attacked.allowance()


@on_site
async def test_data_of_ended_streams_is_read_at_credit_pace(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        stream = peer.request(ask("/h/never/over"))
        await until(lambda: site.stream("/never/over"))
        peer.raw(frame(RST_STREAM, stream.id, bytes(4)))
        await flood(peer, frame(DATA, stream.id, bytes(100)))

    async with site.attacked(attack) as attacked:
        await attacked.peer.until(lambda: attacked.peer.frames[PING] * 2 > CREDIT * 0.9)
        await site.neighbour()
        assert attacked.peer.frames[PING] * 2 <= attacked.allowance()


@on_site
async def test_streams_reset_at_once_reach_upstream_at_credit_pace(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        for _ in range(300):
            streams = [peer.request(ask("/h/never/reset"), end=True) for _ in range(10)]
            await asyncio.sleep(0.001)
            for stream in streams:
                stream.reset(8)

    async with site.attacked(attack) as attacked:
        await until(lambda: site.received("/never/reset") > CREDIT // 20 * 0.9)
        await site.neighbour()
        assert site.received("/never/reset") <= attacked.allowance() / 20
        await until(lambda: len(site.recorded("/never/reset")) > CREDIT // 20 * 0.9)
        assert {row["outcome"] for row in site.recorded("/never/reset")} == {"client_closed"}


@on_site
async def test_empty_data_frames_are_read_at_credit_pace(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        stream = peer.request(ask("/h/never/empty"))
        await flood(peer, frame(DATA, stream.id))

    async with site.attacked(attack) as attacked:
        await attacked.peer.until(lambda: attacked.peer.frames[PING] * 2 > CREDIT * 0.9)
        await site.neighbour()
        assert attacked.peer.frames[PING] * 2 <= attacked.allowance()
        (row,) = [
            stream
            for peer in site.upstream.peers
            for stream in peer.streams.values()
            if stream.headers[":path"] == "/never/empty"
        ]
        assert len(row.sizes) <= 10


@pytest.mark.parametrize("payload", [b"?", b"\x0f" + bytes(15)], ids=["byte", "padding"])
@on_site
async def test_small_data_frames_leave_other_connections_their_turn(site: Site, payload: bytes) -> None:
    async with connect(site.relay.base) as peer, connect(site.relay.base) as neighbour:
        stream = peer.request(ask("/h/never/small"))
        await until(lambda: site.stream("/never/small"))
        flags = PADDED if len(payload) > 1 else 0
        many = frame(DATA, stream.id, payload, flags) * (60_000 // (9 + len(payload)) - 1)
        peer.raw(many + frame(PING, payload=bytes(8)))
        neighbour.raw(frame(PING, payload=bytes(8)))
        await neighbour.until(lambda: neighbour.frames[PING])
        assert not peer.frames[PING]
        await peer.until(lambda: peer.frames[PING])


@on_site
async def test_streams_beyond_the_limit_do_not_reach_the_upstream(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        for number in range(2 * STREAMS):
            peer.raw(frame(HEADERS, 2 * number + 1, request_block("/h/never/many"), END_HEADERS | END_STREAM))

    async with site.attacked(attack) as attacked:
        await attacked.attacking
        await attacked.refused(PROTOCOL_ERROR)
        assert site.received("/never/many") <= STREAMS


# Memory


@contextmanager
def limited(peak_bytes: int = PEAK_BYTES) -> Iterator[None]:
    """Check the peak of the memory allocated in a block."""
    tracemalloc.start()
    try:
        connections, _ = tracemalloc.get_traced_memory()
        yield
        assert tracemalloc.get_traced_memory()[1] - connections < peak_bytes
    finally:
        tracemalloc.stop()


def request_block(path: str, *more: tuple[str, str]) -> bytes:
    """Return the headers of a request in HPACK."""
    return hpack.Encoder().encode([*ask(path), *more])


def bomb() -> bytes:
    """Return a small block of HPACK that stands for 50 MB: a field of the table, thousands of times."""
    block = hpack.Encoder().encode([*ask("/h/never/bomb"), ("x", "A" * 4000)])
    return block + b"\xbe" * 12_000


@on_site
async def test_a_compressed_head_without_limit_ends_the_connection(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        peer.raw(frame(HEADERS, 1, bomb(), END_HEADERS | END_STREAM))

    with limited():
        async with site.attacked(attack) as attacked:
            await attacked.refused(PROTOCOL_ERROR, COMPRESSION_ERROR, CALM)
    assert site.received("/never/bomb") == 0


@pytest.mark.parametrize("size", [0, 1, 16_384])
@on_site
async def test_a_head_without_an_end_ends_the_connection(site: Site, size: int) -> None:
    async def attack(peer: Peer) -> None:
        peer.raw(frame(HEADERS, 1, request_block("/h/never/head"), 0))
        for _ in range(10_000):
            peer.raw(frame(CONTINUATION, 1, bytes(size)))
            await peer.drain()
            await asyncio.sleep(0)

    with limited():
        async with site.attacked(attack) as attacked:
            await attacked.refused(PROTOCOL_ERROR, COMPRESSION_ERROR, CALM)
    assert site.received("/never/head") == 0


@on_site
async def test_a_client_that_ignores_ping_answers_is_not_read(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        peer.reading.clear()
        await flood(peer, b"")

    with limited():
        async with site.attacked(attack):
            pass


@on_site
async def test_a_window_that_stays_closed_holds_the_upstream_back(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        stream = peer.request(ask("/h/endless/closed"), end=True)
        await stream.until(lambda: stream.body)
        await asyncio.Event().wait()

    with limited():
        async with site.attacked(attack, Limits(window=1, is_manual=True)) as attacked:
            await attacked.peer.until(lambda: attacked.peer.streams)
            await until(lambda: site.sent)
            await site.neighbour()
            assert site.sent <= HELD_BYTES


@on_site
async def test_a_window_of_one_byte_passes_each_byte(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        stream = peer.request(ask("/h/endless/narrow"), end=True)
        await stream.until(lambda: len(stream.body) > 1000)

    async with site.attacked(attack, Limits(window=1)) as attacked:
        await attacked.attacking
        assert site.sent <= HELD_BYTES


# Frames that are wrong


def header_block(*fields: tuple[bytes, bytes]) -> bytes:
    """Return fields in HPACK, valid or not."""
    literals = (bytes((0, len(name))) + name + bytes((len(value),)) + value for name, value in fields)
    return NEVER + b"".join(literals)


NEVER = request_block("/h/never/wrong")


_HPACK = (COMPRESSION_ERROR, PROTOCOL_ERROR)
WRONG: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "a window of the connection that overflows": (
        frame(WINDOW_UPDATE, 0, struct.pack(">I", 0x7FFFFFFF)), (FLOW_CONTROL_ERROR,)
    ),
    "an increment of nothing": (frame(WINDOW_UPDATE, 0, bytes(4)), (PROTOCOL_ERROR,)),
    "a frame that is too large": (frame(DATA, 1, bytes(16_385)), (FRAME_SIZE_ERROR,)),
    "a window of settings that overflows": (
        frame(SETTINGS, 0, struct.pack(">HI", 4, 0x80000000)), (FLOW_CONTROL_ERROR, PROTOCOL_ERROR)
    ),
    "invalid HPACK": (frame(HEADERS, 1, b"\xff" * 6, END_HEADERS), _HPACK),
    "a table that is too large": (frame(HEADERS, 1, b"\x3f\xe1\xff\xff\x07", END_HEADERS), _HPACK),
    "data without a stream": (frame(DATA, 1, b"x"), (PROTOCOL_ERROR,)),
    "data on the connection": (frame(DATA, 0, b"x"), (PROTOCOL_ERROR,)),
    "padding beyond the frame": (frame(DATA, 1, b"\xff", PADDED), (PROTOCOL_ERROR,)),
    "a stream of the upstream's": (frame(HEADERS, 2, NEVER, END_HEADERS), (PROTOCOL_ERROR,)),
    "a push": (frame(PUSH_PROMISE, 1, struct.pack(">I", 2) + NEVER, END_HEADERS), (PROTOCOL_ERROR,)),
    "changes of the table's size": (frame(HEADERS, 1, b"\x20" * 16_384, 0), _HPACK),
    "a naked continuation": (frame(CONTINUATION, 1, b"", END_HEADERS), (PROTOCOL_ERROR,)),
    "a reset of no stream": (frame(RST_STREAM, 1, bytes(4)), (PROTOCOL_ERROR,)),
    "a name in capitals": (frame(HEADERS, 1, header_block((b"X-A", b"1")), END_HEADERS), (PROTOCOL_ERROR,)),
    "an empty name": (frame(HEADERS, 1, header_block((b"", b"")), END_HEADERS), (PROTOCOL_ERROR,)),
    "a line feed in a value": (frame(HEADERS, 1, header_block((b"a", b"b\r\nc: d")), END_HEADERS), (PROTOCOL_ERROR,)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@on_site
async def test_a_connection_with_a_wrong_frame_ends(site: Site, name: str) -> None:
    data, codes = WRONG[name]

    async def attack(peer: Peer) -> None:
        peer.raw(data)

    async with site.attacked(attack) as attacked:
        await attacked.refused(*codes)


@on_site
async def test_a_stream_whose_window_overflows_is_reset_alone(site: Site) -> None:
    async with connect(site.relay.base) as peer:
        wide = peer.request(ask("/h/never/wide"), end=True)
        complete = peer.request(ask("/h/whole"), end=True)
        await until(lambda: site.received("/never/wide"))
        peer.raw(frame(WINDOW_UPDATE, wide.id, struct.pack(">I", 0x7FFFFFFF)))
        assert (await wide.over()).reset_code == FLOW_CONTROL_ERROR
        assert bytes((await complete.over()).body) == b"".join(PIECES)
    await until(lambda: site.recorded("/never/wide"))


# Hostile upstreams


async def answer_with(stream: Stream, data: bytes, count: int = 1) -> None:
    """Begin an answer, and send raw frames many times."""
    stream.send_head([OK])
    for _ in range(count):
        stream.peer.raw(data)
        await stream.peer.drain()
        await asyncio.sleep(0)
    await stream.until(lambda: False)


def hostile(data: Callable[[int], bytes], count: int = 1) -> Callable[[Stream], Coroutine[Any, Any, None]]:
    """Return an answer of these bytes to the stream of a number."""
    return lambda stream: answer_with(stream, data(stream.id), count)


def _pushed(id: int) -> bytes:
    return frame(PUSH_PROMISE, id, struct.pack(">I", 2) + request_block("/pushed"), END_HEADERS)


def _endless_head(id: int) -> bytes:
    return frame(HEADERS, id, b"\x88", 0) + frame(CONTINUATION, id, bytes(16_384)) * 100


def _bomb(id: int) -> bytes:
    return frame(HEADERS, id, hpack.Encoder().encode([("x", "A" * 4000)]) + b"\xbe" * 12_000, END_HEADERS | END_STREAM)


BROKEN: dict[str, Callable[[int], bytes]] = {
    "push": _pushed,
    "unknown stream": lambda id: frame(DATA, id + 1000, b"x"),
    "invalid hpack": lambda id: frame(HEADERS, id, b"\xff" * 8, END_HEADERS | END_STREAM),
    "endless head": _endless_head,
    "table sizes": lambda id: frame(HEADERS, id, b"\x20" * 16_384, 0),
    "bomb": _bomb,
    "large frame": lambda id: frame(DATA, id, bytes(20_000)),
    "window overflow": lambda id: frame(WINDOW_UPDATE, 0, struct.pack(">I", 0x7FFFFFFF)),
    "short goaway": lambda id: frame(GOAWAY, 0, b"x"),
    "wrong settings": lambda id: frame(SETTINGS, 0, struct.pack(">HI", 5, 1)),
    "no http2": lambda id: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10,
}
FLOODS_OF_UPSTREAM: dict[str, Callable[[int], bytes]] = {
    "ping": lambda id: b"",
    "settings": lambda id: frame(SETTINGS, 0, struct.pack(">HI", 3, 100)),
    "unknown-settings": lambda id: frame(SETTINGS, 0, UNKNOWN_SETTINGS),
    "data": lambda id: frame(DATA, id),
    "informational": lambda id: frame(HEADERS, id, hpack.Encoder().encode([(":status", "103")]), END_HEADERS),
    "window": lambda id: frame(WINDOW_UPDATE, id, struct.pack(">I", 1)),
    "goaway": lambda id: frame(GOAWAY, 0, struct.pack(">II", 0x7FFFFFFF, 0)),
}


async def _flood_client(stream: Stream) -> None:
    name = stream.headers[":path"].split("/")[2]
    if name != "informational":
        stream.send_head([OK])
    await flood(stream.peer, FLOODS_OF_UPSTREAM[name](stream.id))


async def _exceed(stream: Stream) -> None:
    """Fill the window of a client that takes nothing, exceed it by a byte, and ask whether that has arrived."""
    stream.send_head([OK])
    turns = 0
    while turns < 20:
        size = min(stream.peer.h2.local_flow_control_window(stream.id), 16_384)
        turns = 0 if size else turns + 1
        await (stream.send(bytes(size)) if size else asyncio.sleep(0.01))
    stream.peer.raw(frame(DATA, stream.id, b".") + frame(PING, payload=bytes(8)))


HOSTILE |= {name.replace(" ", "-"): hostile(data) for name, data in BROKEN.items()} | {
    "exceed": _exceed,
    "flood": _flood_client,
    "overrun": hostile(lambda id: frame(DATA, id, bytes(16_384)) * (3 * WINDOW_BYTES // 16_384)),
}


@pytest.mark.parametrize("name", BROKEN)
@on_site
async def test_an_upstream_that_breaks_http2_ends_only_its_exchanges(site: Site, name: str) -> None:
    path = f"/{name.replace(' ', '-')}"
    finished = list[Stream]()

    async def attack(peer: Peer) -> None:
        finished.append(await peer.request(ask(f"/h{path}"), end=True).over())

    with limited():
        async with site.attacked(attack) as attacked:
            await attacked.attacking
            assert not finished[0].is_ended
            (row,) = await until(lambda: site.recorded(path))
            assert (row["outcome"], row["ended_by"]) in {("truncated", "framing"), ("connect_error", "framing")}


@pytest.mark.parametrize("name", FLOODS_OF_UPSTREAM)
@on_site
async def test_an_upstreams_flood_is_read_at_credit_pace(site: Site, name: str) -> None:
    async def attack(peer: Peer) -> None:
        await peer.request(ask(f"/h/flood/{name}"), end=True).over()

    async with site.attacked(attack) as attacked:
        peer = (await until(lambda: site.stream(f"/flood/{name}"))).peer
        cost_each = {"ping": 1, "informational": 11, "settings": 11, "unknown-settings": 188}.get(name, 2)
        await until(lambda: peer.frames[PING] * cost_each > CREDIT * 0.9)
        await site.neighbour()
        assert peer.frames[PING] * cost_each <= attacked.allowance()


@on_site
async def test_an_upstream_beyond_its_window_ends_only_its_exchanges(site: Site) -> None:
    async def attack(peer: Peer) -> None:
        await peer.request(ask("/h/overrun"), end=True).over()

    with limited():
        async with site.attacked(attack, Limits(window=100, is_manual=True)):
            (row,) = await until(lambda: site.recorded("/overrun"))
            assert (row["outcome"], row["ended_by"]) == ("truncated", "framing")
            assert row["bytes"] <= HELD_BYTES


@on_site
async def test_exceeding_a_window_counts_even_if_the_client_left(
    site: Site,
) -> None:
    async with connect(site.relay.base, Limits(window=100, is_manual=True)) as peer:
        peer.request(ask("/h/never/beside"), end=True)
        stream = peer.request(ask("/h/exceed"), end=True)
        upstream = await until(lambda: site.stream("/exceed"))
        await until(lambda: upstream.peer.frames[PING])
        stream.reset(8)
        (row,) = await until(lambda: site.recorded("/never/beside"))
    assert (row["outcome"], row["ended_by"]) == ("connect_error", "framing")
    assert "control window" in row["ended_detail"]
