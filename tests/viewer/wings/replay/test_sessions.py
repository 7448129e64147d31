"""Hosted sessions in a replay: the events of a turn wait for the request that began it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.hosted_sessions import CLAUDE_STREAM, idle, message, posted, running, said, session_tape, stream
from tests.support.relay import dial, fetch, on_loop, post
from tests.viewer.wings.replay.test_serve import serving

EVENTS = "/v1/sessions/sesn_1/events"


def body(text: str) -> bytes:
    return json.dumps({"events": [said(text)]}).encode()


def recorded(path: Path) -> Path:
    told = [
        (20, running("r1")), (40, message("m1", "one")), (50, idle("i1")),
        (920, running("r2")), (940, message("m2", "two")), (950, idle("i2")),
    ]  # fmt: skip
    sent = [posted("bbbb00000000000b", 10, said("A")), posted("cccc00000000000c", 900, said("B"))]
    return session_tape(path, stream("aaaa00000000000a", 0, told, CLAUDE_STREAM), *sent)


@contextlib.asynccontextmanager
async def opened(base: str) -> AsyncIterator[asyncio.StreamReader]:
    async with dial(base) as (reader, writer):
        writer.write(post(CLAUDE_STREAM, b"", method="GET"))
        await reader.readuntil(b"\r\n\r\n")
        yield reader


async def quiet(reader: asyncio.StreamReader) -> bytes:
    """Return what else is there, and comes in a moment; nothing should."""
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(reader.readuntil(b'"r2"'), 0.2)
    return b""


@on_loop
async def test_the_events_of_each_turn_follow_its_request(tmp_path: Path) -> None:
    async with serving(recorded(tmp_path / "t.db")) as api, opened(api.base) as reader:
        assert (await fetch(api.base, post(EVENTS, body("A")))).status == 200
        first = await reader.readuntil(b'"i1"')
        assert b'"m1"' in first
        assert b'"r2"' not in first + await quiet(reader)
        assert (await fetch(api.base, post(EVENTS, body("B")))).status == 200
        assert b'"m2"' in await reader.readuntil(b'"i2"')


@on_loop
async def test_a_request_before_the_stream_is_remembered(tmp_path: Path) -> None:
    async with serving(recorded(tmp_path / "t.db")) as api:
        assert (await fetch(api.base, post(EVENTS, body("A")))).status == 200
        async with opened(api.base) as reader:
            assert b'"m1"' in await reader.readuntil(b'"i1"')
