"""A tape served over HTTP: a client gets the bytes that the recorder got."""

import asyncio
import contextlib
import itertools
import json
import math
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import http2
from tests.support.compressors import COMPRESS
from tests.support.frames import STEP, begin, body, end, exchange, head, opened, record
from tests.support.relay import Answer, dial, fetch, on_loop, post, raw, until
from wiretape.recorder.clock import SYSTEM, KernelTime
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import Reads
from wiretape.recorder.relay import providers, server
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.service import Observer, Recorder
from wiretape.recorder.relay.service import RecorderOptions as Recording
from wiretape.recorder.tape import journal, retention
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.replayed import ReplaySource
from wiretape.viewer.wings.replay import serve
from wiretape.viewer.wings.replay.control import Control
from wiretape.viewer.wings.replay.faults import parse
from wiretape.viewer.wings.replay.matching import ReplayRequest
from wiretape.viewer.wings.replay.pacing import APART_NS
from wiretape.viewer.wings.replay.planning import AnswerPlan, Planner, ServingOptions
from wiretape.viewer.wings.replay.serve import Replay, Served
from wiretape.viewer.wings.replay.websocket import Upgrade

CHAT = "/v1/chat/completions"
PIECES = [b"data: {}\n\n", b"data: {", b"}\n\n", b"data: [DONE]\n\n"]
REQUEST = b'{"model":"gpt-test","stream":true}'
TOKEN = "sixteen-or-more-characters"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """The path for a test's own tape."""
    return tmp_path / "tape.db"


@dataclass
class Serving:
    """A server of a tape, and its messages."""

    base: str = ""
    served: list[Served] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    async def ask(self, target: str = CHAT, body: bytes = REQUEST, **more: Any) -> Answer:
        return await fetch(self.base, post(target, body, **more), more.get("method", "POST"))


@contextlib.asynccontextmanager
async def serving(tape: Path, **options: Any) -> AsyncIterator[Serving]:
    """Serve a tape, without waits unless told otherwise."""
    api = Serving()
    settings = ServingOptions(**{"speed": math.inf} | options)
    app = Replay(lambda: Planner(ReplaySource(tape), settings), on_served=api.served.append,
                 on_refused=api.refused.append, on_trouble=api.troubles.append,
                 upgrade=Upgrade, direct=(lambda app: Control(app, TOKEN)) if settings.token else None,
                 hold_seconds=settings.hold_seconds)  # fmt: skip
    sock = server.bound("127.0.0.1", 0)
    await app.start()
    front = server.Server(app, sock, api.refused.append, kernel_time=KernelTime(SYSTEM))
    api.base = server.base_url(sock)
    try:
        yield api
    finally:
        front.close()
        await app.stop()
        await front.wait_closed(0)


def taped(tape: Path, *frames: journal.Frame) -> Path:
    with opened(tape) as store:
        record(store, list(frames))
    return tape


def broken(ended_by: str, pieces: Sequence[bytes] = PIECES, headers: Sequence[tuple[bytes, bytes]] = (),
           framing: str = "chunked") -> list[journal.Frame]:  # fmt: skip
    """Return the frames of an exchange with the given end."""
    import msgspec

    opening = msgspec.structs.replace(head("a1"), headers=list(headers), framing=framing)
    return [begin("a1"), opening, *body("a1", pieces), end("a1", pieces, ended_by)]


def recorded(tape: Path) -> list[tuple[str, str, str | None, bytes, int | None, list[list[str]]]]:
    """Return the facts of each exchange of a tape that must be the same on another one, in the order of the models."""
    with closing(ReplaySource(tape)) as source, TapePlace(tape).opened() as place:
        heads = []
        for start in source.newer():
            answer = source.answer(start)
            fields = [
                pair for pair in map(list, answer.exchange.headers.response) if not pair[0].startswith("x-wiretape-")
            ]
            detail = place.exchange(start.no).detail().outcome_detail
            heads.append((str(start.model), start.outcome, detail, answer.body, start.status, sorted(fields)))
        return sorted(heads)


def recordings(tape: Path) -> list[tuple[str, bytes, Reads, bytes]]:
    """Return each request of a tape, and the reads and the body of its answer."""
    with closing(ReplaySource(tape)) as source:
        heads = source.newer()
        answers = [*map(source.answer, heads)]
        bodies = [body or b"" for body in source.request_bodies(heads)]
        return [
            (start.path, request, answer.reads, answer.body)
            for start, request, answer in zip(heads, bodies, answers, strict=True)
        ]


@on_loop
async def test_the_demos_streams_are_recorded_again_unchanged(demo: tuple[Path, str], tmp_path: Path) -> None:
    second_tape, requests = tmp_path / "again.db", recordings(demo[0])
    async with serving(demo[0]) as replay:
        recorder = Recorder(Recording(second_tape, [providers.make("", replay.base)]), Observer())
        await recorder.start()
        await asyncio.gather(*(fetch(recorder.base, post(path, request)) for path, request, _, _ in requests))
        await until(lambda: len(replay.served) == len(requests))
        assert await recorder.stop() == 0
    assert recorded(second_tape) == recorded(demo[0])
    assert not replay.troubles


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
@on_loop
async def test_an_http2_client_gets_http2_with_trailers(tape: Path, protocol: str) -> None:
    import msgspec

    pieces = exchange("a1", PIECES)
    ending = msgspec.structs.replace(pieces[-1], protocol=protocol, trailers=[(b"grpc-status", b"0")])
    async with serving(taped(tape, *pieces[:-1], ending)) as replay, http2.connect(replay.base) as peer:
        request = peer.request(http2.ask(CHAT), end=False)
        await request.send(REQUEST, end=True)
        await request.over()
        assert (bytes(request.body), request.trailers) == (b"".join(PIECES), [("grpc-status", "0")])
        got = await replay.ask()
        assert (got.body, got.complete) == (b"".join(PIECES), True)


@on_loop
async def test_a_head_that_ended_its_stream_ends_it_again(tape: Path) -> None:
    import msgspec

    first, head, ended = exchange("a1", [])
    ended = msgspec.structs.replace(ended, protocol="h2", end_ns=head.headers_ns)
    async with serving(taped(tape, first, head, ended)) as replay, http2.connect(replay.base) as peer:
        request = peer.request(http2.ask(CHAT))
        await request.send(REQUEST, end=True)
        await request.over()
        assert (request.is_ended, request.sizes) == (True, [])


@on_loop
async def test_a_reset_stream_is_reset_with_its_code(tape: Path) -> None:
    import msgspec

    *before, last = broken("reset")
    ending = msgspec.structs.replace(last, reset_code="rst_enhance_your_calm")
    async with serving(taped(tape, *before, ending)) as replay, http2.connect(replay.base) as peer:
        request = peer.request(http2.ask(CHAT))
        await request.send(REQUEST, end=True)
        await request.over()
        assert (bytes(request.body), request.reset_code) == (b"".join(PIECES), 11)


@on_loop
async def test_each_recorded_read_is_its_own_chunk(demo: tuple[Path, str]) -> None:
    async with serving(demo[0]) as replay:
        for path, request, reads, body in recordings(demo[0]):
            got = await raw(replay.base, post(path, request, [("connection", "close")]))
            head, _, sent = got.partition(b"\r\n\r\n")
            pieces = [body[read.start : read.start + read.size] for read in reads]
            if b"transfer-encoding: chunked" in head:
                assert sent.removesuffix(b"0\r\n\r\n") == b"".join(
                    b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces
                )
            else:
                assert sent == body


@on_loop
async def test_waits_are_those_of_the_recording(tape: Path) -> None:
    pieces = [b"data: %d\n\n" % number for number in range(20)]
    async with serving(taped(tape, *exchange("a1", pieces)), speed=0.5) as replay:  # 2 ms between reads
        got = await replay.ask()
        await until(lambda: replay.served)
        (served,) = replay.served
    assert got.body == b"".join(pieces)
    assert served.head_ns is not None
    assert served.head_ns >= 6_000_000
    assert all(at >= (8 + 2 * place) * 1_000_000 for place, at in enumerate(served.written_ns))
    assert served.ended_ns is not None
    assert served.ended_ns >= 50_000_000


LENGTH = [(b"content-length", b"100")]


@pytest.mark.parametrize(
    ("ended_by", "headers", "framing", "error"),
    [
        ("eof", (), "chunked", "without sending complete message body"),
        ("reset", (), "chunked", "ConnectionResetError"),
        ("length", LENGTH, "length", "without sending complete message body"),
        ("framing", (), "chunked", "illegal chunk header"),
        ("client", (), "chunked", "without sending complete message body"),
        ("died", (), "chunked", "without sending complete message body"),
    ],
)
@on_loop
async def test_a_broken_stream_breaks_as_it_did(
    tape: Path, ended_by: str, headers: Sequence[tuple[bytes, bytes]], framing: str, error: str
) -> None:
    async with serving(taped(tape, *broken(ended_by, headers=headers, framing=framing))) as replay:
        got = await replay.ask()
    assert (got.status, got.body, got.complete) == (200, b"".join(PIECES), False)
    assert error in got.error


@on_loop
async def test_an_answer_that_closed_its_connection_closes_again(tape: Path) -> None:
    async with serving(taped(tape, *broken("end", framing="close"))) as replay:
        got = await replay.ask()
    assert (got.body, got.complete, got.headers["connection"]) == (b"".join(PIECES), True, "close")
    assert "transfer-encoding" not in got.headers


@on_loop
async def test_where_no_answer_came_the_connection_is_closed(tape: Path) -> None:
    frames = [begin("a1"), end("a1", [], "refused")]
    async with serving(taped(tape, *frames)) as replay:
        assert await raw(replay.base, post(CHAT, REQUEST)) == b""


@on_loop
async def test_a_timeout_is_silence_until_the_client_leaves(tape: Path) -> None:
    async with serving(taped(tape, *broken("idle_timeout"))) as replay:
        async with dial(replay.base) as (reader, writer), asyncio.timeout(60):
            writer.write(post(CHAT, REQUEST))
            await reader.readuntil(b"e\r\ndata: [DONE]\n\n\r\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
        await until(lambda: replay.served)
    assert replay.served[0].ending == "client"


@on_loop
async def test_cookies_framing_and_header_line_breaks_stay_behind(tape: Path) -> None:
    headers = [
        (b"content-type", b"text/event-stream"), (b"set-cookie", b"a=b"), (b"content-length", b"7"),
        (b"transfer-encoding", b"gzip"), (b"x-wiretape-id", b"1"), (b"x-request-id", b"r1"), (b"x-evil", b"a\r\nb: c"),
    ]  # fmt: skip
    async with serving(taped(tape, *broken("end", headers=headers))) as replay:
        got = await replay.ask()
    assert got.headers == {
        "content-type": "text/event-stream", "x-request-id": "r1", "x-wiretape-exchange": "a1",
            "x-wiretape-match": "equal",
        "transfer-encoding": "chunked",
    }  # fmt: skip
    assert got.complete


@on_loop
async def test_recorded_upstream_addresses_lead_to_recordings(tape: Path) -> None:
    names = (b"Location", b"Operation-Location", b"X-Goog-Upload-URL")
    sent = [(name, b"http://upstream.test:1/v1/moved") for name in names]
    away = (b"Azure-AsyncOperation", b"http://elsewhere.test/v1/moved")
    frames = begin("a1", upstream="http://upstream.test:1"), head("a1", [*sent, away]), end("a1", [])
    async with serving(taped(tape, *frames)) as served:
        got = await served.ask()
    assert {got.headers[name.decode().lower()] for name in names} == {"http://localhost/v1/moved"}
    assert got.headers["azure-asyncoperation"] == "http://elsewhere.test/v1/moved"


@on_loop
async def test_a_request_is_a_404_until_it_is_recorded(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1"))) as replay:
        missed = await replay.ask(body=b'{"model":"other"}')
        assert missed.status == 404
        assert json.loads(missed.body)["error"] == {
            "message": "wiretape: no recording answers POST /v1/chat/completions: the nearest is a1, which differs in "
            'model: "gpt-test" recorded, "other" asked; stream: true recorded, nothing asked',
            "type": "wiretape_error", "code": "not_recorded", "nearest": "a1", "differs": ["model", "stream"],
        }  # fmt: skip
        with opened(tape) as store:
            later = begin("b2", body=b'{"model":"other"}')
            record(store, [later, head("b2"), *body("b2", PIECES), end("b2", PIECES)])
        assert (await replay.ask(body=b'{"model":"other"}')).headers["x-wiretape-exchange"] == "b2"
        assert (await replay.ask("/@a1/what/ever", body=b"")).headers["x-wiretape-exchange"] == "a1"


@on_loop
async def test_half_a_surrogate_pair_is_shown_as_a_replacement(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1"))) as replay:
        missed = await replay.ask(body=rb'{"model":"gpt-test","stream":true,"\ud83d":"cut off \ud83d"}')
    assert missed.status == 404
    error = json.loads(missed.body)["error"]
    assert error["differs"] == ["\ufffd"]
    assert error["message"].endswith('differs in \ufffd: nothing recorded, "cut off \ufffd" asked')
    assert replay.troubles == []


@on_loop
async def test_a_running_recording_is_served_after_its_end(tape: Path) -> None:
    other_request = b'{"model":"later"}'
    async with serving(taped(tape, *exchange("a1"))) as replay:
        with opened(tape) as store:
            record(store, [begin("b2", body=other_request), *exchange("c3")])
            assert (await replay.ask(body=other_request)).status == 404
            record(store, [head("b2"), *body("b2", PIECES), end("b2", PIECES)])
        assert (await replay.ask(body=other_request)).headers["x-wiretape-exchange"] == "b2"
        with opened(tape) as store:
            list(retention.erase(store.connection, ["c3"]))
        assert "deleted" in json.loads((await replay.ask("/@c3/", b"")).body)["error"]["message"]


@on_loop
async def test_a_gap_is_a_cut_that_is_reported(tape: Path) -> None:
    frames = [begin("a1"), head("a1"), *body("a1", PIECES), end("a1", PIECES, gap=7)]
    async with serving(taped(tape, *frames)) as replay:
        got = await replay.ask()
        await until(lambda: replay.served)
    assert (got.body, got.complete, replay.served[0].missing) == (b"".join(PIECES), False, 7)


@on_loop
async def test_chunked_compressed_and_pipelined_requests_match(tape: Path) -> None:
    packed = b"".join(COMPRESS["gzip"]([REQUEST], False))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (packed[:9], packed[9:], b""))
    headers = [("transfer-encoding", "chunked"), ("content-encoding", "gzip")]
    upload = post(CHAT, b"", headers) + chunks
    async with serving(taped(tape, *exchange("a1"))) as replay:
        request = post("/@a1/", b"", [("connection", "close")], method="HEAD")
        got = await raw(replay.base, upload + post("/@a1/", b"", method="HEAD") + upload + request)
    heads = [part.partition(b"\r\n\r\n") for part in got.split(b"HTTP/1.1 ")[1:]]
    assert [head[:3] for head, _, _ in heads] == [b"200"] * 4
    assert [bool(sent) for _, _, sent in heads] == [True, False, True, False]


@on_loop
async def test_an_answer_keeps_distance_from_a_slow_request(tape: Path) -> None:
    request = post(CHAT, REQUEST, [("connection", "close")])
    async with serving(taped(tape, *exchange("a1")), speed=0.1) as replay, dial(replay.base) as (reader, writer):
        writer.write(request[:-1])
        await asyncio.sleep(0.1)
        writer.write(request[-1:])
        await reader.read()
        await until(lambda: replay.served)
    sent_ns, at_ns = 2 * STEP, [(4 + seq) * STEP for seq in range(len(PIECES))]
    written_ns, came_ns = replay.served[0].written_ns, replay.served[0].uploaded_ns or 0
    assert came_ns > 10 * at_ns[-1]
    assert all(written_at - came_ns >= 10 * (at - sent_ns) for written_at, at in zip(written_ns, at_ns, strict=True))


@on_loop
async def test_a_tape_damaged_meanwhile_is_reported_so(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1"))) as replay:
        os.truncate(tape, 8192)
        got = await replay.ask()
        os.unlink(tape)
    assert (got.status, json.loads(got.body)["error"]["code"]) == (500, "tape")
    assert "is damaged" in replay.troubles[0]


def packed(coding: str) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return the reads of a compressed answer whose events are flushed, and its headers."""
    pieces = [piece for piece in COMPRESS[coding](PIECES, True) if piece]
    length = b"%d" % len(b"".join(pieces))
    return pieces, [(b"content-type", b"text/event-stream"), (b"content-encoding", coding.encode()),
                    (b"content-length", length)]  # fmt: skip


@on_loop
@pytest.mark.parametrize("coding", COMPRESS)
@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_a_compressed_answer_is_decoded_unless_clients_accept_it(tape: Path, coding: str, framing: str) -> None:
    pieces, headers = packed(coding)
    async with serving(taped(tape, *broken("end", pieces, headers, framing))) as replay:
        answer = await replay.ask(headers=[("accept-encoding", f"x, {coding};q=0.5")])
        plain = [await replay.ask(headers=more) for more in ([], [("accept-encoding", f"identity, {coding};q=0")])]
    assert (answer.body, answer.headers["content-encoding"], answer.complete) == (b"".join(pieces), coding, True)
    for got in plain:
        assert (got.body, "content-encoding" in got.headers, got.complete) == (b"".join(PIECES), False, True)


def test_a_decoded_answer_keeps_events_at_their_reads(tape: Path) -> None:
    pieces, headers = packed("gzip")
    planner = Planner(ReplaySource(taped(tape, *broken("end", pieces, headers))), ServingOptions())
    request = ReplayRequest("POST", CHAT.encode(), REQUEST)
    coded, plain = (planner.plan(replace(request, headers=more)) for more in ([(b"accept-encoding", b"gzip")], []))
    planner.close()
    assert isinstance(coded, AnswerPlan)
    assert isinstance(plain, AnswerPlan)
    assert [*plain.schedule.at_ns] == [*coded.schedule.at_ns][: len(PIECES)]
    assert [*plain.schedule.ends] == [*itertools.accumulate(map(len, PIECES))]


@on_loop
async def test_an_undecodable_answer_is_served_as_recorded(tape: Path) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", b"snappy")]
    async with serving(taped(tape, *broken("end", [b"\xff\xfe\x00\x01"], headers))) as replay:
        got = await replay.ask()
    assert (got.body, got.headers["content-encoding"]) == (b"\xff\xfe\x00\x01", "snappy")


@on_loop
async def test_the_list_says_what_is_served(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1"))) as replay:
        text = await replay.ask("/", b"", method="GET")
        listing = await replay.ask("/", b"", method="GET", headers=[("accept", "application/json")])
    assert b"a1  200  " in text.body
    assert json.loads(listing.body)["exchanges"][0]["model"] == "gpt-test"


@on_loop
async def test_a_web_page_and_another_host_are_refused(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1"))) as replay:
        page = await replay.ask(headers=[("origin", "https://evil.example")])
        foreign = await raw(replay.base, b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n")
    assert page.status == 403
    assert foreign.startswith(b"HTTP/1.1 421 ")
    assert [refusal.status for refusal in replay.refused] == [403, 421]


@on_loop
async def test_a_fault_without_a_place_is_reported(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1")), faults=[parse("corrupt@#999"), parse("slow:1x")]) as replay:
        assert (await replay.ask()).complete
        await until(lambda: replay.served)
    assert (replay.served[0].faults, replay.served[0].unplaced) == (("slow:1x",), ("corrupt@#999",))


@on_loop
async def test_a_held_stream_waits_until_its_client_leaves(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1", PIECES)), faults=[parse("hold@#1")]) as replay:
        async with dial(replay.base) as (reader, writer):
            writer.write(post(CHAT, REQUEST))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"\n\n\r\n") == b"a\r\ndata: {}\n\n\r\n"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
        await until(lambda: replay.served)
    assert (replay.served[0].ending, replay.served[0].faults) == ("client", ("hold@#1",))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/other"])
@on_loop
async def test_a_page_of_this_machine_may_call(tape: Path, path: str) -> None:
    origin = ("origin", "http://localhost:5173")
    asked = [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")]
    async with serving(taped(tape, *exchange("a1", PIECES))) as replay:
        allowed = await replay.ask(path, b"", headers=[*asked, ("sec-fetch-site", "cross-site")], method="OPTIONS")
        assert (allowed.status, allowed.headers["access-control-allow-headers"]) == (204, "authorization")
        got = await replay.ask(path, headers=[origin, ("sec-fetch-site", "cross-site")])
        assert allowed.headers["access-control-allow-origin"] == got.headers["access-control-allow-origin"] == origin[1]
        foreign = await replay.ask(path, headers=[("origin", "https://example.com")])
        assert foreign.status == 403
        await until(lambda: replay.served)
    assert len(replay.served) == 1


@on_loop
async def test_recorded_permissions_of_pages_stay(tape: Path) -> None:
    recorded = broken("end", headers=[(b"access-control-allow-origin", b"*")])
    async with serving(taped(tape, *recorded)) as replay:
        got = await replay.ask(headers=[("origin", "http://127.0.0.1:5173")])
    assert got.headers["access-control-allow-origin"] == "*"


@on_loop
async def test_a_chance_fault_is_an_error_instead_of_answers(tape: Path) -> None:
    faults = [parse("status:503"), parse("cut@#1")]
    async with serving(taped(tape, *exchange("a1")), faults=faults) as replay:
        got = await replay.ask()
        await until(lambda: replay.served)
    assert (got.status, json.loads(got.body)["error"]["code"]) == (503, "fault")
    assert replay.served[0].faults == ("status:503",)


@on_loop
async def test_a_client_that_does_not_read_delays_itself_only(tape: Path) -> None:
    pieces = [b"data: %s\n\n" % (b"x" * 60_000)] * 300  # 18 MB, more than sockets take
    async with serving(taped(tape, *exchange("a1", pieces))) as replay:
        slow = socket.create_connection(("127.0.0.1", int(replay.base.rpartition(":")[2])))
        with slow:
            slow.sendall(post(CHAT, REQUEST))
            await asyncio.wait_for(replay.ask(), 60)  # another one gets all of it
            assert len(replay.served) == 1
        await until(lambda: len(replay.served) == 2)
    served = replay.served[1]
    assert (served.ending, len(served.waits)) == ("client", 1)
    assert sum(served.sizes) < 18_000_000


@on_loop
async def test_an_answer_without_body_is_one_frame(tape: Path) -> None:
    import msgspec

    opening, *_, final = exchange("a1", [])
    headed = msgspec.structs.replace(head("a1"), headers=[(b"grpc-status", b"8")], framing="h2", protocol="h2")
    ending = msgspec.structs.replace(final, end_ns=headed.headers_ns, protocol="h2")
    async with serving(taped(tape, opening, headed, ending)) as replay, http2.connect(replay.base) as peer:
        request = peer.request(http2.ask(CHAT))
        await request.send(REQUEST, end=True)
        await request.over()
        assert (request.headers["grpc-status"], peer.frames[http2.DATA]) == ("8", 0)


@on_loop
async def test_the_bodies_of_all_requests_have_one_limit(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "ALL_BODIES_BYTES", 100_000)
    opening = post(CHAT, bytes(70_000))[:-10_000]
    async with (
        serving(taped(tape, *exchange("a1"))) as replay,
        dial(replay.base) as first_client,
        dial(replay.base) as second_client,
    ):
        answers = {asyncio.create_task(reader.readline()) for reader, _ in (first_client, second_client)}
        for _, writer in (first_client, second_client):
            writer.write(opening)
        done, pending = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert [b" 503 " in task.result() for task in done] == [True]
        assert (await replay.ask(CHAT, bytes(40_000))).status == 404  # there is room again
        for task in pending:
            task.cancel()
    assert [refusal.status for refusal in replay.refused] == [503]


@on_loop
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize(("form", "framing"), [("crlf,{}", "length"), ("chunk-extensions,byte,{}", "close")])
async def test_a_coding_and_chunks_carry_the_same_answer(tape: Path, form: str, framing: str, coding: str) -> None:
    names = form.format(coding)
    headers = [(b"content-type", b"text/event-stream"), (b"content-length", b"%d" % len(b"".join(PIECES)))]
    async with serving(
        taped(tape, *broken("end", PIECES, headers[: 2 if framing == "length" else 1], framing))
    ) as replay:
        answer = await replay.ask(f"/@form={names}{CHAT}", headers=[("accept-encoding", coding)])
        plain = await replay.ask(headers=[("accept-encoding", "identity"), ("x-wiretape-form", f"{coding}, bom")])
        await until(lambda: len(replay.served) == 2)
    text = encoding.plain(coding, answer.body, [len(answer.body)])
    assert (text.flag, text.data.replace(b"\r", b"")) == (None, b"".join(PIECES))
    assert (answer.headers["x-wiretape-form"], answer.headers["content-encoding"], answer.complete) == (
        names,
        coding,
        True,
    )
    assert (plain.body, plain.headers["x-wiretape-form"]) == (b"\xef\xbb\xbf" + b"".join(PIECES), "bom")
    assert replay.served[1].choice.left_out == ((coding, "Accept-Encoding"),)
    assert set(replay.served[0].sizes) == {1} or "byte" not in names


@on_loop
async def test_contradictory_forms_of_a_request_are_refused(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1")), forms=("bom",)) as replay:
        answer = await replay.ask(headers=[("x-wiretape-form", "crlf,cr")])
        recorded = await replay.ask("/@form=recorded" + CHAT)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (400, "bad_form")
    assert "crlf and cr contradict each other" in error["message"]
    assert "x-wiretape-form" not in recorded.headers


@on_loop
async def test_pings_go_on_through_a_silence_without_end(tape: Path) -> None:
    frames = broken("idle_timeout", [b"data: {}\n\n"], [(b"content-type", b"text/event-stream")])
    async with (
        serving(taped(tape, *frames), forms=("ping:2ms", "crlf")) as replay,
        dial(replay.base) as (reader, writer),
    ):
        writer.write(post(CHAT, REQUEST))
        received = await asyncio.wait_for(reader.readuntil(b": ping\r\n\r\n\r\na\r\n: ping\r\n\r\n\r\n"), 10)
    assert b"data: {}\r\n\r\n" in received


@on_loop
async def test_cuts_by_bytes_are_kept_apart(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1", PIECES)), forms=("byte",)) as replay:
        assert (await replay.ask()).body == b"".join(PIECES)
        await until(lambda: len(replay.served) == 1)
    [served] = replay.served
    assert set(served.sizes) == {1}
    distances = [later - earlier for earlier, later in itertools.pairwise(served.written_ns)]
    assert min(distances) >= APART_NS * 0.9


@on_loop
async def test_cuts_kept_apart_make_no_end_late(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1", [bytes(700)])), forms=("byte",)) as replay:
        await replay.ask()
        await until(lambda: len(replay.served) == 1)
    [served] = replay.served
    assert served.late[-1] < served.written_ns[-1] - served.written_ns[0]


@on_loop
async def test_forms_are_sent_over_http2(tape: Path) -> None:
    served = taped(tape, *exchange("a1", PIECES))
    async with serving(served, forms=("h2", "gzip")) as replay, http2.connect(replay.base) as peer:
        request = peer.request(http2.ask(CHAT))
        await request.send(REQUEST, end=True)
        await request.over()
        await until(lambda: replay.served)
    assert replay.served[0].choice.names == ("h2", "gzip")
    plain = encoding.plain("gzip", bytes(request.body), [len(request.body)])
    assert (plain.data, plain.flag) == (b"".join(PIECES), None)
