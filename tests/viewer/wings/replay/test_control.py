"""Answers that a test holds, steps and ends: the requests below `/@control`."""

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support import http2
from tests.support.frames import STEP, begin, end, exchange, head, read
from tests.support.relay import dial, fetch, on_loop, post, until
from tests.support.websockets import ASK, response
from tests.viewer.wings.replay import test_websocket
from tests.viewer.wings.replay.test_serve import CHAT, REQUEST, TOKEN, Serving, broken, serving, taped
from tests.viewer.wings.replay.test_websocket import AGAIN, calling, conversation
from wiretape.recorder.decode.framings.websocket import messages
from wiretape.recorder.tape import journal
from wiretape.viewer.wings.replay.faults import parse

EVENTS = [b'data: {"n":%d}\n\n' % number for number in range(6)]
BEARER = ("authorization", f"Bearer {TOKEN}")
Answered = tuple[int, Any]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """The path for a test's own tape."""
    return tmp_path / "tape.db"


class Controlled:
    """A server whose answers are controlled."""

    def __init__(self, replay: Serving) -> None:
        self.replay = replay

    async def call(self, path: str, body: object = None, method: str = "") -> Answered:
        """Return the status and the value of an answer to control; the code of an error."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        got = await fetch(self.replay.base, post(f"/@control/{path}", data, [BEARER], method), method)
        value = json.loads(got.body)
        return got.status, value["error"]["code"] if "error" in value else value

    async def done(self, path: str, body: object = None) -> Any:
        path += "&timeout=60s" if "until=" in path and "timeout=" not in path else ""
        status, value = await self.call(path, body)
        assert status in (200, 201), value
        return value

    async def held(self, reference: str = "@") -> dict[str, Any]:
        """Return a stream once it is held."""
        held: dict[str, Any] = await self.done(f"streams/{reference}?until=held&timeout=60s")
        return held


@contextlib.asynccontextmanager
async def controlled(tape: Path, **options: Any) -> AsyncIterator[Controlled]:
    async with serving(tape, token=TOKEN, **options) as replay:
        yield Controlled(replay)
    assert not replay.troubles


class Reader:
    """A client of HTTP/1.1 that reads an answer piece by piece."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def head(self) -> bytes:
        return await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 60)

    async def body(self, size: int) -> bytes:
        """Return so many bytes of the body, which comes in chunks."""
        data = b""
        while len(data) < size:
            line = await asyncio.wait_for(self._reader.readuntil(b"\r\n"), 60)
            data += (await self._reader.readexactly(int(line, 16) + 2))[:-2]
        return data

    async def remainder(self) -> bytes:
        return await asyncio.wait_for(self._reader.read(), 60)


@contextlib.asynccontextmanager
async def reading(replay: Serving) -> AsyncIterator[Reader]:
    async with dial(replay.base) as (reader, writer):
        writer.write(post(CHAT, REQUEST, [("connection", "close")]))
        yield Reader(reader)


def stalled() -> list[journal.Frame]:
    """Return an exchange whose stream is silent for twelve seconds before event 4."""
    times = [4, 5, 6, 7, 12_007, 12_008]
    reads = [read("a1", seq, at * STEP, None, data) for seq, (at, data) in enumerate(zip(times, EVENTS, strict=True))]
    ending = msgspec.structs.replace(end("a1", EVENTS), end_ns=12_009 * STEP)
    return [begin("a1"), head("a1"), *reads, ending]


@pytest.mark.parametrize("speed", [1, math.inf])
@on_loop
async def test_a_held_stream_is_stepped_and_released(tape: Path, speed: float) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS)), speed=speed) as control:
        await control.done("hold", {"at": "#2"})
        async with reading(control.replay) as client:
            held = await control.held()
            assert (held["event"], held["events"], held["size"], held["ended"]) == (2, 6, 30, None)
            await client.head()
            assert await client.body(30) == b"".join(EVENTS[:2])
            stepped = await control.done("streams/@/step", {})
            assert (stepped["state"], stepped["event"]) == ("held", 3)
            assert await client.body(15) == EVENTS[2]
            assert (await control.done("streams/1/step", {"events": 2}))["event"] == 5
            assert await client.body(30) == b"".join(EVENTS[3:5])
            assert (await control.done("streams/1/release", {}))["held_ms"] is None
            assert await client.body(15) == EVENTS[5]
            assert await client.remainder() == b"0\r\n\r\n"
        over = await control.done("streams/1")
        assert (over["state"], over["event"], over["exchange"], over["match"]) == ("done", 6, "a1", "equal")


@on_loop
async def test_a_stream_is_held_at_each_position(tape: Path) -> None:
    positions = [("head", 0, 0), ("#0", 0, 0), ("#3", 3, 45), ("51%", 3, 45), ("stall", 4, 60), ("end", 6, 90)]
    async with controlled(taped(tape, *stalled())) as control:
        for number, (at, event, size) in enumerate(positions, 1):
            await control.done("hold", {"at": at})
            async with reading(control.replay):
                held = await control.held(str(number))
                assert (held["event"], held["size"] // 15 * 15, held["faults"]) == (event, size, [f"hold@{at}"])
                await control.done(f"streams/{number}/release", {})
                assert (await control.done(f"streams/{number}?until=done"))["size"] == 90


@on_loop
async def test_a_hold_does_not_wait_for_its_time(tape: Path) -> None:
    async with controlled(taped(tape, *stalled()), speed=1) as control, reading(control.replay) as client:
        waiting = await control.done("streams/1?until=stalled")
        assert (waiting["event"], waiting["held_ms"]) == (4, None)
        assert (await control.done("streams/1/hold", {}))["state"] == "held"
        await control.done("streams/1/release", {})
        await client.head()
        assert await client.body(90) == b"".join(EVENTS)


@on_loop
async def test_a_step_beyond_the_last_event_ends(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS)), speed=1) as control:
        for number, (at, count) in enumerate([("#4", 2), ("#4", 999), ("end", 1), ("head", 6)], 1):
            await control.done("hold", {"at": at})
            async with reading(control.replay) as client:
                await control.held(str(number))
                stepped = await control.done(f"streams/{number}/step", {"events": count})
                assert (stepped["state"], stepped["event"], stepped["ended"]) == ("done", 6, "end"), (at, count)
                assert (await client.remainder()).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(("verb", "ended"), [("cut", "close"), ("reset", "reset")])
@pytest.mark.parametrize("at", ["head", "#2"])
@on_loop
async def test_a_held_stream_is_cut(tape: Path, verb: str, ended: str, at: str) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        await control.done("hold", {"at": at})
        async with reading(control.replay) as client:
            await control.held()
            cut = await control.done(f"streams/1/{verb}", {})
            assert (cut["state"], cut["ended"]) == ("cut", ended)
            if verb == "cut":
                assert b"0\r\n\r\n" not in await client.remainder()
            else:
                with pytest.raises(ConnectionResetError):
                    await client.remainder()
        for later in ("release", "step", "cut", "hold", "speed"):
            body = {"speed": 1} if later == "speed" else {}
            assert await control.call(f"streams/1/{later}", body) == (409, "over")


@on_loop
async def test_a_running_stream_is_cut_at_a_later_event(tape: Path) -> None:
    async with controlled(taped(tape, *stalled())) as control:
        await control.done("hold", {"at": "#1"})
        async with reading(control.replay) as client:
            await control.held()
            await control.done("streams/1/cut", {"at": "#3"})
            assert await control.call("streams/1/cut", {"at": "#0"}) == (409, "passed")
            await control.done("streams/1/release", {})
            await client.head()
            assert await client.body(45) == b"".join(EVENTS[:3])
            assert await client.remainder() == b""
        assert (await control.done("streams/1"))["faults"] == ["hold@#1", "cut@#3"]


@on_loop
async def test_a_held_clients_leave_is_noticed_at_once(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        await control.done("hold", {"at": "#1"})
        async with reading(control.replay):
            await control.held()
        left = await control.done("streams/1?until=left&timeout=60s")
        assert (left["ended"], left["held_ms"]) == ("client", None)
        assert await control.call("streams/1/release", {}) == (409, "over")


@on_loop
async def test_two_streams_are_held_apart(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        await control.done("hold", {"at": "#1", "times": 0})
        async with reading(control.replay) as first, reading(control.replay) as second:
            await asyncio.gather(control.held("1"), control.held("2"))
            await control.done("streams/@/release", {})
            assert (await second.remainder()).endswith(b"0\r\n\r\n")
            rows = (await control.done("streams"))["streams"]
            assert [(row["stream"], row["state"]) for row in rows] == [(1, "held"), (2, "done")]
            await control.done("streams/@-1/release", {})
            assert (await first.remainder()).endswith(b"0\r\n\r\n")
        assert (await control.done("next"))["next"][0]["times"] == 0


@on_loop
async def test_a_failure_needs_no_recording(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        error = {"status": 429, "headers": {"retry-after": "2"}, "body": {"error": "slow"}, "model": "gpt-*"}
        await control.done("fail", error | {"model": "other"})
        await control.done("fail", error | {"path": "/completions"})
        got = await control.replay.ask("/openai/v1/chat/completions", REQUEST.replace(b"test", b"none"))
        assert (got.status, got.headers["retry-after"], json.loads(got.body)) == (429, "2", {"error": "slow"})
        assert (await control.replay.ask()).status == 200
        failed = await control.done("streams/1")
        assert (failed["state"], failed["status"], failed["exchange"]) == ("done", 429, None)
        assert [entry["model"] for entry in (await control.done("next"))["next"]] == ["other"]
        assert await control.call("next", method="DELETE") == (200, {"next": []})


@pytest.mark.parametrize(("at", "answered"), [("head", (200, "done")), ("#0", (409, "head_sent"))])
@on_loop
async def test_only_an_answer_without_a_head_can_fail(tape: Path, at: str, answered: Answered) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        await control.done("hold", {"at": at})
        async with reading(control.replay):
            await control.held()
            status, value = await control.call("streams/1/fail", {"status": 503, "body": "busy"})
            assert (status, value if status == 409 else value["state"]) == answered
            faults = ["hold@#0"] if status == 409 else ["hold@head", "status:503"]
            assert (await control.done("streams/1"))["faults"] == faults


@on_loop
async def test_entries_of_other_verbs_strike_one_request(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        for verb, at in (("hold", "#1"), ("cut", "#3"), ("hold", "#2")):
            await control.done(verb, {"at": at})
        async with reading(control.replay):
            assert (await control.held())["event"] == 1
            await control.done("streams/1/release", {})
            assert (await control.done("streams/1?until=cut"))["event"] == 3
        async with reading(control.replay):
            assert (await control.held("2"))["event"] == 2


@on_loop
async def test_a_speed_is_for_running_and_later_streams(tape: Path) -> None:
    async with controlled(taped(tape, *stalled()), speed=1) as control, reading(control.replay) as client:
        await control.done("streams/1?until=stalled")
        assert await control.done("speed", {"speed": 0}) == {"speed": 0}
        assert (await client.remainder()).endswith(b"0\r\n\r\n")
        assert (await control.replay.ask()).body == b"".join(EVENTS)


@on_loop
async def test_the_speed_of_a_held_stream_is_kept(tape: Path) -> None:
    async with controlled(taped(tape, *stalled()), speed=0.001) as control:
        await control.done("hold", {"at": "#0"})
        async with reading(control.replay) as client:
            await control.done("streams/1?until=waiting,held")
            await control.done("streams/1/speed", {"speed": 1e6})
            await control.held("1")
            await control.done("streams/1/release", {})
            assert (await client.remainder()).endswith(b"0\r\n\r\n")


@on_loop
async def test_a_forgotten_hold_is_cut(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS)), hold_seconds=0.05) as control:
        await control.done("hold", {"at": "#1"})
        async with reading(control.replay) as client:
            assert not (await client.remainder()).endswith(b"0\r\n\r\n")
        await until(lambda: control.replay.served)
        (served,) = control.replay.served
        assert (served.ending, served.remark) == ("close", "held for 0.05 s, and cut")


@on_loop
async def test_a_faults_hold_has_no_limit(tape: Path) -> None:
    holding = {"faults": [parse("hold@#1")], "hold_seconds": 0.01}
    async with (
        controlled(taped(tape, *exchange("a1", EVENTS)), **holding) as control,
        reading(control.replay) as client,
    ):
        await control.held("1")
        assert await control.call("streams/1?until=cut&timeout=100ms") == (409, "not_reached")
        await control.done("streams/1/release", {})
        assert (await client.remainder()).endswith(b"0\r\n\r\n")


@on_loop
async def test_the_servers_end_stops_held_streams(tape: Path) -> None:
    async with contextlib.AsyncExitStack() as clients, controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        await control.done("hold", {"at": "#1"})
        await clients.enter_async_context(reading(control.replay))
        await control.held()
    assert [served.ending for served in control.replay.served] == ["stopped"]


REFUSALS: list[tuple[str, str, bytes | None, Answered]] = [
    ("GET", "streams/1", None, (404, "unknown_stream")),
    ("GET", "streams/%40", None, (404, "unknown_stream")),
    ("GET", "streams/x?until=held", None, (404, "unknown_stream")),
    ("GET", "streams/1?until=held&timeout=10ms", None, (409, "not_reached")),
    ("GET", "streams/1?until=gone", None, (400, "bad_request")),
    ("GET", "streams/1?untill=held", None, (400, "bad_request")),
    ("GET", "streams/1?until=held&timeout=x", None, (400, "bad_request")),
    ("GET", "nothing", None, (404, "unknown_path")),
    ("POST", "streams/1/melt", b"{}", (404, "unknown_path")),
    ("PUT", "hold", b"{}", (405, "wrong_method")),
    ("GET", "streams/1/hold", None, (405, "wrong_method")),
    ("POST", "hold", b"{", (400, "bad_request")),
    ("POST", "hold", b"[]", (400, "bad_request")),
    ("POST", "hold", b'{"att": "#3"}', (400, "bad_request")),
    ("POST", "hold", b'{"at": "3"}', (400, "bad_request")),
    ("POST", "hold", b'{"at": ""}', (400, "bad_request")),
    ("POST", "streams/1/step", b'{"at": "#1"}', (404, "unknown_stream")),
    ("POST", "hold", b'{"times": -1}', (400, "bad_request")),
    ("POST", "fail", b"{}", (400, "bad_request")),
    ("POST", "fail", b'{"status": 200}', (400, "bad_request")),
    ("POST", "fail", b'{"status": 429, "headers": {"content-length": "1"}}', (400, "bad_request")),
    ("POST", "speed", b'{"speed": -1}', (400, "bad_request")),
    ("POST", "streams/1/hold", b"{}", (404, "unknown_stream")),
]


@on_loop
async def test_what_control_does_not_know_is_refused(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        for method, path, body, answered in REFUSALS:
            assert await control.call(path, body, method) == answered, (method, path, body)
        assert (await control.done("next"))["next"] == []
        assert not control.replay.served


@on_loop
async def test_only_the_tokens_owner_controls(tape: Path) -> None:
    strangers: list[tuple[list[tuple[str, str]], int, str]] = [
        ([], 401, "wrong_token"),
        ([("authorization", "Bearer wrong")], 401, "wrong_token"),
        ([("authorization", f"Basic {TOKEN}")], 401, "wrong_token"),
        ([BEARER, ("origin", "http://127.0.0.1:5173")], 403, "refused"),
        ([BEARER, ("origin", "https://example.com")], 403, "refused"),
    ]
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control:
        for (headers, status, code), path in itertools.product(strangers, ("streams", "nothing")):
            got = await fetch(control.replay.base, post(f"/@control/{path}", b"", headers, "GET"), "GET")
            assert (got.status, json.loads(got.body)["error"]["code"]) == (status, code), (headers, path)


@on_loop
async def test_without_control_its_paths_are_unknown(tape: Path) -> None:
    async with serving(taped(tape, *exchange("a1", EVENTS))) as replay:
        got = await replay.ask("/@control/hold", headers=[BEARER])
        assert (got.status, json.loads(got.body)["error"]["code"]) == (404, "unknown_path")
    assert not replay.served


@on_loop
async def test_a_stream_of_http2_is_held(tape: Path) -> None:
    async with controlled(taped(tape, *exchange("a1", EVENTS))) as control, http2.connect(control.replay.base) as peer:
        await control.done("hold", {"at": "#2"})
        request = peer.request(http2.ask(CHAT), end=False)
        await request.send(REQUEST, end=True)
        await control.held()
        await until(lambda: len(request.body) == 30)
        await control.done("streams/1/step", {})
        await until(lambda: len(request.body) == 45)
        await control.done("streams/1/release", {})
        await request.over()
        assert bytes(request.body) == b"".join(EVENTS)


@on_loop
async def test_a_silent_recording_is_held_and_stepped(tape: Path) -> None:
    async with controlled(taped(tape, *broken("idle_timeout", EVENTS))) as control, reading(control.replay) as client:
        assert (await control.done("streams/1?until=stalled"))["event"] == 6
        await control.done("streams/1/hold", {})
        assert (await control.done("streams/1/step", {"events": 9}))["state"] in ("sending", "stalled")
        await client.head()
        await control.done("streams/1/cut", {})
        assert await client.body(90) == b"".join(EVENTS)


@on_loop
async def test_a_websocket_is_held_between_frames(tape: Path) -> None:
    received, sent = conversation(None)
    size = sum(len(data) for _, data in received)
    first = len(received[0][1] + received[1][1])
    async with controlled(test_websocket.taped(tape, received, sent)) as control:
        await control.done("hold", {"at": "1%"})
        async with calling(control.replay) as (_, caller):
            await caller.say(ASK)
            held = await control.held()
            assert 0 < held["size"] < first
            frames = await caller.take(held["size"])
            await caller.say(AGAIN)
            stepped = await control.done("streams/1/step", {})
            frames += await caller.take(stepped["size"] - held["size"])
            assert texts(frames) == [*response(1, "Hel", "lo")][: len(texts(frames))]
            await control.done("streams/1/release", {})
            frames += await caller.take(size - len(frames))
        assert texts(frames) == [*response(1, "Hel", "lo"), *response(2, "Well")]


@on_loop
async def test_a_websocket_is_held_before_its_head(tape: Path) -> None:
    async with controlled(test_websocket.taped(tape, *conversation(None))) as control:
        await control.done("hold", {})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one_call(control.replay, b"http/1.1 101 "))
            await control.held()
            await control.done("streams/1/release", {})
        await control.done("hold", {})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one_call(control.replay, b"http/1.1 503 "))
            await control.held("2")
            await control.done("streams/2/fail", {"status": 503})


@on_loop
async def test_a_held_websockets_client_leaves_by_a_close_frame(tape: Path) -> None:
    async with controlled(test_websocket.taped(tape, *conversation(None))) as control:
        await control.done("hold", {"at": "#2"})
        async with calling(control.replay) as (_, caller):
            await caller.say(ASK)
            size = (await control.held())["size"]
            await caller.take(size)
            caller.writer.write(bytes(caller.side.close(1000, "bye")))
            (closing,) = await caller.remainder()
            assert closing[0] == "close"
        assert (await control.done("streams/1?until=left"))["ended"] == "client"


async def one_call(replay: Serving, status: bytes) -> None:
    async with calling(replay) as (answered, _):
        assert answered.startswith(status)


def texts(frames: bytes) -> list[str]:
    return [message.data.decode() for message in messages(frames, from_client=False, extensions=None)]
