"""A recorded WebSocket served to a client: upstream's bytes after the messages that they answered."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.frames import begin, end, exchange, head, opened, record
from tests.support.relay import dial, on_loop, post, until
from tests.support.websockets import ASK, MS, response, side
from tests.viewer.wings.replay.test_cassette import session
from tests.viewer.wings.replay.test_serve import Serving, serving
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.framings.websocket import messages
from wiretape.recorder.errors import NotShipped
from wiretape.recorder.tape import journal
from wiretape.viewer.source.replayed import ExchangeHead, ReplaySource
from wiretape.viewer.wings.replay import turns
from wiretape.viewer.wings.replay.faults import parse
from wiretape.viewer.wings.replay.matching import Miss, ReplayRequest
from wiretape.viewer.wings.replay.planning import Greeting, Planner, ServingOptions, Talk

PATH = "/v1/responses"
DEFLATE = "permessage-deflate; server_no_context_takeover; client_max_window_bits=12"
AGAIN = json.dumps({"type": "response.create", "model": "gpt-test", "input": "And?"})
Timed = list[tuple[int, bytes]]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """The path for a test's own tape."""
    return tmp_path / "tape.db"


def conversation(extensions: str | None, closes: bytes = b"") -> tuple[Timed, Timed]:
    """Return the bytes received and sent in two turns, each 50 ms after its message; a read may end in a frame."""
    up, down = side(extensions, client=True), side(extensions)
    sent = [(100, bytes(up.send_data(ASK))), (300, bytes(up.send_data(AGAIN)))]
    first_data = b"".join(bytes(down.send_data(message)) for message in response(1, "Hel", "lo"))
    second = b"".join(bytes(down.send_data(message)) for message in response(2, "Well"))
    received = [(150, first_data[:40]), (170, first_data[40:]), (350, second), *([(360, closes)] if closes else [])]
    return received, sent


def taped(tape: Path, received: Timed, sent: Timed, extensions: str | None = None, ended_by: str = "end",
          id: str = "a1", path: str = PATH) -> Path:  # fmt: skip
    """Write a WebSocket to a tape."""

    def frames(pieces: Timed, is_client: bool) -> list[journal.SocketReads]:
        runs = [journal.ReadRun(id, seq, [at * MS], [at * MS], [len(data)]) for seq, (at, data) in enumerate(pieces)]
        return [
            journal.SocketReads([msgspec.structs.replace(run, is_client=is_client)], data)
            for run, (_, data) in zip(runs, pieces, strict=True)
        ]

    headers = [(b"x-up", b"1"), *([(b"sec-websocket-extensions", extensions.encode())] if extensions else [])]
    by_turns = [
        frame
        for pair in zip_longest(frames(sent, True), frames(received, False))
        for frame in pair
        if frame is not None
    ]
    size = sum(len(data) for _, data in received)
    ending = msgspec.structs.replace(
        end(id, [b"x" * size], ended_by), end_ns=400 * MS, client_bytes=sum(len(data) for _, data in sent),
        client_gap_bytes=0,
    )  # fmt: skip
    switched = msgspec.structs.replace(head(id, headers), status=101, framing="websocket")
    with opened(tape) as store:
        record(store, [begin(id, method="GET", path=path, body=b""), switched, *by_turns, ending])
    return tape


class Caller:
    """A client, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, extensions: str | None) -> None:
        self.reader, self.writer, self.side = reader, writer, side(extensions, client=True)
        self.extensions = extensions

    async def say(self, message: str) -> None:
        self.writer.write(bytes(self.side.send_data(message)))

    async def take(self, size: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(size), 60)

    async def remainder(self) -> list[tuple[str, bytes]]:
        """Return the remaining messages."""
        data = await asyncio.wait_for(self.reader.read(), 60)
        received_messages = messages(data, from_client=False, extensions=self.extensions)
        return [(message.kind, message.data) for message in received_messages]


@contextlib.asynccontextmanager
async def calling(
    replay: Serving, offer: str | None = None, agreed: str | None = None, path: str = PATH
) -> AsyncIterator[tuple[bytes, Caller]]:
    """Ask for a WebSocket; give the head of the answer, and a caller that takes `agreed` as agreed on."""
    key = base64.b64encode(b"0123456789abcdef").decode()
    headers = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", key)]
    headers += [("sec-websocket-version", "13"), *([("sec-websocket-extensions", offer)] if offer else [])]
    async with dial(replay.base) as (reader, writer):
        writer.write(post(path, b"", headers, method="GET"))
        yield (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).lower(), Caller(reader, writer, agreed)


def joined(pieces: Timed) -> bytes:
    return b"".join(data for _, data in pieces)


@pytest.mark.parametrize("extensions", [None, DEFLATE])
@on_loop
async def test_each_turn_waits_for_its_message(tape: Path, extensions: str | None) -> None:
    closing = bytes(side().close(1000, "done"))
    received, sent = conversation(extensions, closing)
    async with (
        serving(taped(tape, received, sent, extensions), speed=1) as replay,
        calling(replay, "permessage-deflate; client_max_window_bits", extensions) as (answered, caller),
    ):
        assert answered.startswith(b"http/1.1 101 ")
        assert b"sec-websocket-accept: " in answered
        assert b"x-up: 1\r\n" in answered
        assert ((extensions or "deflate").encode() in answered) == (extensions is not None)
        await asyncio.sleep(0.3)  # a client that is slower than it was
        asked_at = time.monotonic()
        await caller.say(ASK)
        assert await caller.take(len(joined(received[:2]))) == joined(received[:2])
        assert time.monotonic() - asked_at >= 0.07
        await caller.say(AGAIN)
        assert await caller.take(len(joined(received[2:]))) == joined(received[2:])
        assert await caller.reader.read() == b""
        await until(lambda: replay.served)
    (served,) = replay.served
    assert (served.status, served.ending, list(served.sizes)) == (101, "end", [len(data) for _, data in received])
    assert not replay.troubles


@on_loop
async def test_a_client_without_extensions_gets_the_same_messages(tape: Path) -> None:
    received, sent = conversation(DEFLATE)
    async with serving(taped(tape, received, sent, DEFLATE)) as replay:
        for offer in (None, "permessage-deflate; server_max_window_bits=9"):
            async with calling(replay, offer) as (answered, caller):
                assert b"sec-websocket-extensions" not in answered
                await caller.say(ASK)
                await caller.say(AGAIN)
                texts = [data.decode() for _, data in await caller.remainder()]
            assert texts == [*response(1, "Hel", "lo"), *response(2, "Well")]


@pytest.mark.parametrize(
    ("requests", "path", "differs", "nearest"),
    [
        ([ASK.replace("Hi", "No")], PATH, "input: ", "a1"),
        ([ASK, AGAIN.replace("And", "No")], PATH, "input: ", "a1"),
        ([ASK, AGAIN, ASK], PATH, "one more than were recorded", "a1"),
        ([], "/v1/other", "differs in its path", "a1"),
    ],
    ids=["first", "second", "more", "path"],
)
@on_loop
async def test_an_unrecorded_message_names_the_nearest_recording(
    tape: Path, requests: Sequence[str], path: str, differs: str, nearest: str
) -> None:
    received, sent = conversation(None)
    async with serving(taped(tape, received, sent, ended_by="idle_timeout")) as replay:
        async with calling(replay, path=path) as (answered, caller):
            for message in requests:
                await caller.say(message)
            if not requests:
                assert answered.startswith(b"http/1.1 404 ")
                return
            *_, (_, texts), (kind, reason) = await caller.remainder()
        await until(lambda: replay.served)
    error = json.loads(texts)["error"]
    assert (error["code"], error["nearest"]) == ("not_recorded", nearest)
    assert differs in error["message"]
    assert kind == "close"
    assert reason.startswith(b"1008 wiretape: ")
    (served,) = replay.served
    assert served.miss is not None


@on_loop
async def test_an_upgrade_for_recorded_http_is_told_so(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("a1"))
    taped(tape, *conversation(None), id="b2")
    for record_mode, path in (("none", "/v1/chat/completions"), ("new", "/v1/chat/completions"), ("all", PATH)):
        async with serving(tape, record=record_mode) as replay, calling(replay, path=path) as (answered, _):
            assert answered.startswith(b"http/1.1 426 ")


@on_loop
async def test_a_missing_websocket_is_recorded_and_then_served(tmp_path: Path) -> None:
    received, sent = conversation(None, bytes(side().close(1000)))
    accepted = 0

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        for piece in (received[:2], received[2:]):
            await reader.readexactly(len(sent[0][1]))
            writer.write(joined(piece))
        writer.close()

    front = await asyncio.start_server(upstream, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{front.sockets[0].getsockname()[1]}"
    tape = tmp_path / "cassette.jsonl"
    for upstreams in ([url], [url], []):
        async with (
            session(tape, "once", *upstreams) as cassette,
            calling(Serving(cassette.cassette.base)) as (_, caller),
        ):
            await caller.say(ASK)
            got = await caller.take(len(joined(received[:2])))
            caller.writer.write(bytes(caller.side.send_data(AGAIN[: len(ASK)].ljust(len(ASK)))))
            assert got + await asyncio.wait_for(caller.reader.read(), 60) == joined(received)
    front.close()
    assert accepted == 1


@on_loop
async def test_pings_and_closes_are_answered_between_frames(tape: Path) -> None:
    received, sent = conversation(None)
    async with serving(taped(tape, received, sent), speed=1) as replay, calling(replay) as (_, caller):
        await caller.say(ASK)
        first_data = await caller.take(len(received[0][1]))  # which ends in the middle of a frame
        caller.writer.write(bytes(caller.side.ping(b"there?")))
        caller.writer.write(bytes(caller.side.close(1001)))
        messages_received = list(messages(first_data + await caller.reader.read(), from_client=False, extensions=None))
    assert [(message.kind, message.data) for message in messages_received[-2:]] == [
        ("pong", b"there?"),
        ("close", b"1001"),
    ]
    assert {message.kind for message in messages_received[:-2]} == {"text"}


@on_loop
async def test_what_upstream_said_first_is_not_waited_for(tape: Path) -> None:
    hello = bytes(side().send_data("hello"))
    sent = [(100, bytes(side(client=True).send_data(ASK)))]
    async with serving(taped(tape, [(50, hello), (150, hello)], sent)) as replay, calling(replay) as (_, caller):
        assert await caller.take(len(hello)) == hello
        await caller.say(ASK)
        assert await caller.remainder() == [("text", b"hello")]


@pytest.mark.parametrize(
    ("fault", "expected_end", "status", "is_short"),
    [("cut@#2", "close", 101, True), ("reset@50%", "reset", 101, True), ("status:503", "end", 503, True),
     ("stall:1ms@#1", "end", 101, False)],
)  # fmt: skip
@on_loop
async def test_faults_strike_a_websocket(
    tape: Path, fault: str, expected_end: str, status: int, is_short: bool
) -> None:
    received, sent = conversation(None)
    got = b""
    async with (
        serving(taped(tape, received, sent), faults=[parse(fault)]) as replay,
        calling(replay) as (answered, caller),
    ):
        assert answered.startswith(b"http/1.1 %d " % status)
        if status == 101:
            with contextlib.suppress(ConnectionError):
                await caller.say(ASK)
                await caller.say(AGAIN)
                got = await caller.reader.read()
        await until(lambda: replay.served)
    (served,) = replay.served
    assert (served.ending, served.faults, served.status) == (expected_end, (fault,), status)
    assert (len(got) < len(joined(received))) == is_short


@on_loop
async def test_a_recording_that_was_cut_is_cut_there(tape: Path) -> None:
    received, sent = conversation(None)
    cut = [*received[:2], (350, received[2][1][:30])]
    async with serving(taped(tape, cut, sent, ended_by="reset")) as replay, calling(replay) as (_, caller):
        await caller.say(ASK)
        await caller.say(AGAIN)
        assert await caller.take(len(joined(cut))) == joined(cut)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(caller.reader.read(), 60)


@on_loop
async def test_a_request_that_is_no_handshake_is_refused(tape: Path) -> None:
    received, sent = conversation(None)
    headers: list[Any] = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")]
    async with serving(taped(tape, received, sent)) as replay, dial(replay.base) as (reader, writer):
        writer.write(post(PATH, b"", headers, method="GET"))
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")


class Pulled(ReplaySource):
    """A tape on which the bytes of one exchange are not."""

    def answer(self, head: ExchangeHead) -> RecordedExchange:
        if head.id == "a1":
            raise NotShipped(head.id)
        return super().answer(head)


def test_a_websocket_without_bytes_lets_others_answer(tape: Path) -> None:
    for id in ("a1", "b2"):
        taped(tape, *conversation(None), id=id)
    with contextlib.closing(Planner(Pulled(tape), ServingOptions("model"))) as planner:
        assert len(planner.heads) == 2
    with contextlib.closing(Planner(Pulled(tape), ServingOptions())) as planner:
        plan = planner.talk(ReplayRequest("GET", PATH.encode(), ASK.encode()), None, speaks_first=False)
        assert isinstance(plan, Talk)
        assert plan.head.id == "b2"
        assert isinstance(planner.greet(ReplayRequest("GET", PATH.encode(), b"", "b2"), "", ()), Greeting)
        for missed in (planner.greet(requests := ReplayRequest("GET", PATH.encode(), b"", "a1"), "", ()),
                       planner.talk(requests, None, speaks_first=True)):  # fmt: skip
            assert isinstance(missed, Miss)
            assert "were not shipped" in missed.message


@on_loop
async def test_users_may_speak_in_other_pieces_than_recorded(tape: Path) -> None:
    path, up, down = "/v1/realtime?model=m", side(client=True), side()
    heard = json.dumps({"type": "input_audio_buffer.append", "audio": "AAAA"})
    update, create = '{"type":"session.update","session":{}}', '{"type":"response.create"}'
    sent = [(10, update), *((at, heard) for at in (20, 30, 40)), (100, create)]
    messages_sent = [(12, '{"type":"session.updated"}'), (60, '{"type":"input_audio_buffer.speech_started"}')]
    messages_sent += [(110, '{"type":"response.created","response":{"id":"r1"}}')]
    received = [(5, bytes(down.send_data('{"type":"session.created"}')))]
    received += [(at, bytes(down.send_data(text))) for at, text in messages_sent]
    requests = [(at, bytes(up.send_data(text))) for at, text in sent]
    async with (
        serving(taped(tape, received, requests, path=path), speed=1) as replay,
        calling(replay, path=path) as (_, caller),
    ):
        await caller.take(len(received[0][1]))
        for message in (update, heard):
            await caller.say(message)
        await caller.take(len(joined(received[1:3])))
        for message in (heard, create):
            await caller.say(message)
        await caller.take(len(received[3][1]))
        assert not replay.troubles


@pytest.mark.parametrize("cut", ["event", "byte", "split", "glued", "7"])
def test_a_cut_changes_no_byte_of_turns(tape: Path, cut: str) -> None:
    received, sent = conversation(DEFLATE)
    with contextlib.closing(ReplaySource(taped(tape, received, sent, DEFLATE))) as source:
        recorded = turns.of(source.answer(source.newer()[0]), as_recorded=True)
    recut = turns.rechunked(recorded, cut)
    assert [turn.body for turn in recut.schedules] == [turn.body for turn in recorded.schedules]
    counts = {"event": (0, 4, 3), "glued": (0, 1, 1), "byte": tuple(len(turn.body) for turn in recorded.schedules)}
    assert cut not in counts or tuple(len(turn.ends) for turn in recut.schedules) == counts[cut]


@on_loop
async def test_pings_come_between_the_frames_of_a_cut(tape: Path) -> None:
    received, sent = conversation(None)
    async with (
        serving(taped(tape, received, sent), forms=("ping:2ms", "byte", "crlf")) as replay,
        calling(replay) as (answered, caller),
    ):
        assert b"x-wiretape-form: ping:2ms,byte\r\n" in answered
        assert await caller.take(10) == b"\x89\x08wiretape"
        await caller.say(ASK)
        await caller.say(AGAIN)
        kinds = [(kind, data) for kind, data in await caller.remainder() if kind != "ping"]
        await until(lambda: replay.served)
    assert kinds == [("text", message.encode()) for message in (*response(1, "Hel", "lo"), *response(2, "Well"))]
    assert replay.served[0].choice.left_out == (("crlf", "WebSocket"),)
    assert set(replay.served[0].sizes) == {1}
