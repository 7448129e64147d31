"""A served tape, on which missing requests are recorded."""

import asyncio
import contextlib
import json
import math
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import Answer, chunk, dial, fetch, on_loop, post, raw, run, until
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.relay import providers
from wiretape.recorder.tape import journal
from wiretape.viewer.source.replayed import ReplaySource
from wiretape.viewer.wings.replay.cassette import Cassette, CassetteObserver, CassetteOptions
from wiretape.viewer.wings.replay.planning import ServingOptions
from wiretape.viewer.wings.replay.serve import Served

CHAT = "/v1/chat/completions"
KEY = [("authorization", "Bearer sk-test-0123456789")]


def asking(text: str) -> bytes:
    return json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}).encode()


@dataclass
class Api:
    """A scripted upstream that counts its answers; `scene` is what it plays instead, if any.

    It answers when `awaited` requests have come.
    """

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    scene: Scene | None = None
    awaited: int = 0

    def choose(self, request: ReceivedRequest) -> Scene:
        self.requests.append(request)
        count = chunk(f"answer {len(self.requests)}")
        scene = self.scene or answer([(0, count), (0, chunk("", finish="stop")), (0, b"data: [DONE]\n\n")])
        return Scene(self._waited_for(scene), scene.end)

    def _waited_for(self, scene: Scene) -> Iterator[tuple[float, bytes]]:
        while len(self.requests) < self.awaited:
            yield 0.005, b""
        yield from scene.pieces


@contextlib.asynccontextmanager
async def api() -> AsyncIterator[Api]:
    api_ = Api()
    async with ScriptedUpstream(api_.choose) as upstream:
        api_.url = upstream.url
        yield api_


@dataclass
class Session:
    """A running cassette, and its messages."""

    cassette: Cassette = field(init=False)
    recorded: list[tuple[journal.Finished, bool]] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    async def ask(self, text: str = "hi", target: str = CHAT) -> Answer:
        return await fetch(self.cassette.base, post(target, asking(text), KEY))


@contextlib.asynccontextmanager
async def session(
    tape: Path, record: Any, url: str = "", *, match: Any = "request", **more: Any
) -> AsyncIterator[Session]:
    events = Session()
    observer = CassetteObserver(
        events.served.append,
        trouble=events.troubles.append,
        recorded=lambda exchange, is_kept: events.recorded.append((exchange, is_kept)),
    )
    upstreams, answers = (
        [providers.parse(url)] if url else [],
        ServingOptions(mode=match, speed=math.inf, record=record),
    )
    events.cassette = Cassette(CassetteOptions(tape, answers, upstreams=upstreams, **more), observer)
    await events.cassette.start()
    try:
        yield events
    finally:
        await events.cassette.stop()


def text_of(got: Answer) -> str:
    """Return the number of the upstream's answer."""
    assert got.complete
    return got.body.partition(b"answer ")[2][:1].decode()


def text(cassette: Path) -> bytes:
    return cassette.read_bytes()


def taped(tape: Path) -> list[tuple[str, str]]:
    """Return the outcome and the id of each exchange of a database."""
    with closing(ReplaySource(tape)) as source:
        return [(head.outcome, head.id) for head in source.newer()]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """The path for a tape that does not exist yet."""
    return tmp_path / "tape.db"


@pytest.fixture(params=["tape.db", "tape.jsonl"])
def cassette(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


@on_loop
async def test_once_records_a_missing_tape_and_never_adds(cassette: Path) -> None:
    async with api() as upstream:
        async with session(cassette, "once", upstream.url, labels={"test": "a"}) as first_session:
            answers = [await first_session.ask("one"), await first_session.ask("one"), await first_session.ask("two")]
        assert [text_of(got) for got in answers] == ["1", "1", "2"]  # the second one waits for the first to settle
        assert ["x-wiretape-id" in got.headers for got in answers] == [True, False, True]
        assert stat.S_IMODE(os.stat(cassette).st_mode) == 0o600
        content = text(cassette)
        async with session(cassette, "once", upstream.url) as second:
            answers = [await second.ask("two"), await second.ask("one"), await second.ask("three")]
        assert [got.status for got in answers] == [200, 200, 404]
        assert [text_of(got) for got in answers[:2]] == ["2", "1"]
        assert b"--record new" in answers[2].body
        assert len(upstream.requests) == 2
        if cassette.suffix == ".jsonl":
            assert text(cassette) == content
            assert b'"test": "a"' in content
            assert b"sk-test" not in content
    async with session(cassette, "none") as third:
        assert text_of(await third.ask("two", "/openai/v1/chat/completions")) == "2"
    assert not [*first_session.troubles, *second.troubles, *third.troubles]


@on_loop
async def test_new_adds_missing_exchanges_and_keeps_the_text(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.jsonl"
    async with api() as upstream:
        async with session(cassette, "new", upstream.url) as first_session:
            await first_session.ask("one")
        edited = text(cassette).replace(b'{"read": 0, ', b'{"read":  0, ')  # as people write it
        cassette.write_bytes(edited)
        upstream.awaited = 4
        async with session(cassette, "new", upstream.url) as second:
            answers = await asyncio.gather(*(second.ask("two") for _ in range(3)), second.ask("one"))
            await until(lambda: len(second.recorded) == 3)
    assert sorted(text_of(got) for got in answers) == ["1", "2", "3", "4"]  # those at once are three requests
    assert text(cassette).startswith(edited)
    assert text(cassette).count(b'{"exchange"') == 4


@on_loop
async def test_all_records_again_and_a_failure_takes_nothing_away(cassette: Path) -> None:
    async with api() as upstream:
        async with session(cassette, "new", upstream.url) as dialogue:
            await dialogue.ask("one")
            await dialogue.ask("two")
        async with session(cassette, "all", upstream.url) as second_session:
            assert [text_of(await second_session.ask(text)) for text in ("one", "one")] == ["3", "4"]
            upstream.scene = answer([(0, b"{}")], status=429)
            assert (await second_session.ask("two")).status == 429
        assert [is_kept for _, is_kept in second_session.recorded] == [True, True, False]
    async with session(cassette, "none") as served:
        assert [text_of(await served.ask(text)) for text in ("one", "one", "one", "two", "two")] == list("34322")
        assert len(served.cassette.heads) == 3


@on_loop
async def test_what_has_no_answer_is_asked_for_again(tape: Path) -> None:
    async with session(tape, "once", "http://127.0.0.1:9") as dead:
        assert (await dead.ask()).status == 502
    assert [(exchange.outcome, is_kept) for exchange, is_kept in dead.recorded] == [("connect_error", True)]
    async with api() as upstream, session(tape, "once", upstream.url) as alive:
        assert text_of(await alive.ask()) == "1"
        assert text_of(await alive.ask()) == "1"
        assert len(upstream.requests) == 1


@on_loop
async def test_a_request_without_named_upstream_goes_nowhere(tape: Path) -> None:
    async with session(tape, "new") as well_known:
        got = await well_known.ask()
    assert got.status == 404
    assert b"--upstream URL" in got.body
    assert not well_known.recorded


def test_a_missing_tape_is_made_only_for_recording(cassette: Path) -> None:
    with pytest.raises(NotFound):
        run(Cassette(CassetteOptions(cassette)).start())
    assert not cassette.exists()


@on_loop
async def test_a_large_upload_is_relayed_until_its_client_leaves(tape: Path) -> None:
    large = asking("x" * 5_000_000)
    async with api() as upstream, session(tape, "new", upstream.url) as dialogue:
        packed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (large[:1000], large[1000:], b""))
        chunked = post(CHAT, b"", [("transfer-encoding", "chunked"), ("expect", "100-continue")]) + packed
        async with dial(dialogue.cassette.base) as (reader, writer):
            upstream.scene = answer([(0, chunk("begun"))], end="stall")
            writer.write(chunked)
            assert b"begun" in await reader.readuntil(b"begun")
        await until(lambda: dialogue.recorded)
        assert upstream.requests[0].body == large
        await until(lambda: upstream.requests[0].peer_left_ns)
        second_answer = await raw(dialogue.cassette.base, chunked)
    assert dialogue.recorded[0][0].outcome == "client_closed"
    assert b"x-wiretape-exchange" in second_answer
    assert b"begun" in second_answer


def test_where_a_text_cannot_be_written_nothing_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory.jsonl").mkdir()
    for name in ("file/tape.jsonl", "directory.jsonl"):
        options = CassetteOptions(tmp_path / name, ServingOptions(record="new"))
        with pytest.raises(WiretapeError, match="cannot be written"):
            run(Cassette(options).start())


@on_loop
async def test_a_sequence_is_recorded_in_its_order(tape: Path) -> None:
    async with api() as upstream:
        async with session(tape, "once", upstream.url, match="sequence") as first:
            assert [text_of(await first.ask()) for _ in range(3)] == ["1", "2", "3"]
        async with session(tape, "new", upstream.url, match="sequence") as second:
            assert [text_of(await second.ask()) for _ in range(4)] == ["1", "2", "3", "4"]


@on_loop
async def test_two_that_record_to_one_text_lose_nothing(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.jsonl"
    async with (
        api() as upstream,
        session(cassette, "new", upstream.url) as dialogue,
        session(cassette, "new", upstream.url) as second_client,
    ):
        await dialogue.ask("one")
        await second_client.ask("two")
    async with session(cassette, "none") as served:
        assert [text_of(await served.ask(text)) for text in ("one", "two")] == ["1", "2"]


@on_loop
async def test_what_cannot_be_written_is_kept_in_the_database(tmp_path: Path) -> None:
    cassette = tmp_path / "there" / "tape.jsonl"
    async with api() as upstream, session(cassette, "new", upstream.url) as dialogue:
        await dialogue.ask("one")
        await until(lambda: dialogue.recorded and cassette.exists())
        cassette.unlink()
        cassette.mkdir()
        await dialogue.ask("two")
        await until(lambda: len(dialogue.recorded) == 2)
    kept_tape = Path(dialogue.troubles[-1].partition("kept in ")[2])
    assert [outcome for outcome, _ in taped(kept_tape)] == ["complete", "complete"]
    assert "cannot be written" in dialogue.troubles[0]
    for file in sorted(kept_tape.parent.iterdir()):
        file.unlink()
    kept_tape.parent.rmdir()
