"""Sessions of hosted agents by the official SDKs: the turns on the tape are those that the SDKs were told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.hosted_server import HostedServer, hosted_server
from tests.support.hosted_sessions import (
    Event,
    claude,
    delta,
    echo,
    idle,
    message,
    model_end,
    running,
    start_of,
)  # fmt: skip
from tests.support.relay import Relay, on_loop, select, until

pytestmark = pytest.mark.nightly
COLUMNS = "t.turn, t.begun_by, t.outcome, t.text, t.missing, t.continued_in IS NOT NULL"


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    with hosted_server() as hosted:
        yield hosted


@pytest.fixture(scope="module")
def relay(server: HostedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """A recorder before the server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        with Relay(tmp_path_factory.mktemp("hosted"), others=[f"hosted={server.url}"]) as relay:
            yield relay
            assert relay.troubles == []


class Reader:
    """The events that an SDK reads of a stream, until it leaves."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.types = stream, list[str]()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self._stream:
            self.types.append(event.type)

    async def reads(self, type: str, count: int = 1) -> None:
        await until(lambda: self.types.count(type) >= count)

    async def leave(self) -> None:
        self._task.cancel()
        await self._stream.close()


@asynccontextmanager
async def reading(stream: Any) -> AsyncIterator[Reader]:
    reader = Reader(stream)
    try:
        yield reader
    finally:
        await reader.leave()


async def turns(relay: Relay, session: str, streams: int = 1) -> list[tuple[Any, ...]]:
    """Wait until the streams of a session have been settled; return its turns."""
    done = "SELECT 1 FROM measures WHERE conversation_key = ? AND operation = 'agent_session'"
    await until(lambda: len(select(relay.tape, done, session)) == streams)
    rows = select(
        relay.tape, f"SELECT {COLUMNS} FROM turns t WHERE t.session = ? ORDER BY t.exchange_no, t.turn", session
    )
    return [tuple(row) for row in rows]


def said(text: str) -> Any:
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


@on_loop
async def test_claudes_sdk_resumes_interrupts_and_answers_tools(relay: Relay, server: HostedServer) -> None:
    import anthropic

    base = f"{relay.base}/hosted"
    async with anthropic.AsyncAnthropic(base_url=base, api_key="k", max_retries=0) as sdk:
        session = (await sdk.beta.sessions.create(agent="agent_1", environment_id="env_1")).id
        events = sdk.beta.sessions.events
        server.scripts[session] = [
            [running("r1"), start_of("m1"), delta("m1", "Let me "), message("m1", "Let me see."),
             claude("agent.custom_tool_use", "c1", name="look", input={"at": "Rome"}),
             model_end("e1", 7, 3), idle("i1", "requires_action", event_ids=["c1"])],
            [running("r2"), delta("m2", "It ")],
            [running("r3"), delta("m3", "Well")],
            [claude("user.interrupt", "x1"), idle("i3")],
        ]  # fmt: skip
        async with reading(await events.stream(session, event_deltas=["agent.message"])) as first:
            await events.send(session, events=[said("Where?")])
            await first.reads("session.status_idle")
            result: Any = {"type": "user.custom_tool_result", "custom_tool_use_id": "c1", "content": []}
            await events.send(session, events=[result])
            await first.reads("event_delta", 2)
        await until(lambda: not server.streams[session] or server.tell(session, echo("ping", "", processed=False)))
        async with reading(await events.stream(session, event_deltas=["agent.message"])) as second:
            server.tell(session, message("m2", "It rains."), idle("i2"))
            await second.reads("session.status_idle")
            await events.send(session, events=[said("And now?")])
            await second.reads("event_delta")
            await events.send(session, events=[{"type": "user.interrupt"}])
            await second.reads("session.status_idle", 2)
    assert await turns(relay, session, 2) == [
        (1, "text", "complete", "Let me see.", 0, 0),
        (2, "tool_result", "complete", "It rains.", 1, 1),
        (1, "text", "interrupted", "Well", 0, 0),
    ]


@on_loop
async def test_openais_sdk_steers_two_sessions_at_once(relay: Relay, server: HostedServer) -> None:
    import openai

    def told(type: str, number: str, **fields: Any) -> Event:
        kind = type if type.startswith("agent.") else f"agent.session.turn.{type}"
        turn = {"id": number, "status": "in_progress", "subagent_id": None}
        return {"type": kind, "event_id": f"{kind}{number}{fields}", "session_id": "s", "turn_id": number, "turn": turn,
                **fields}  # fmt: skip

    def user(number: str, item: str) -> Event:
        content = [{"type": "input_text", "text": "Hi"}]
        return told("item.added", number, item={"id": item, "type": "message", "role": "user", "content": content})

    def text(number: str, *texts: str) -> list[Event]:
        place = {"item_id": f"m{number}", "output_index": 0, "content_index": 0}
        return [told("output_text.delta", number, **place, delta=piece) for piece in texts]

    asked: Any = {"type": "agent.session.input.message", "input": [{"role": "user", "content": []}]}
    async with openai.AsyncOpenAI(base_url=f"{relay.base}/hosted/v1", api_key="k", max_retries=0) as sdk:

        async def talk() -> str:
            sessions = sdk.beta.agents.sessions
            session = (await sessions.create(agent={"model": "m"}, environment={"type": "none"})).id
            server.scripts[session] = [
                [told("created", "t1"), user("t1", "u1"), *text("t1", "a")],
                [user("t1", "u2"), *text("t1", "b"), told("completed", "t1")],
                [told("created", "t2"), user("t2", "u3"), *text("t2", "c"), told("cancelled", "t2")],
            ]
            async with reading(await sessions.events.stream(session)) as stream:
                for type in ("output_text.delta", "completed", "cancelled"):
                    await sessions.events.create(session, events=[asked])
                    await stream.reads(f"agent.session.turn.{type}")
            return session

        for session in await asyncio.gather(talk(), talk()):
            assert await turns(relay, session) == [
                (1, "text", "complete", "ab", 0, 0), (2, "text", "cancelled", "c", 0, 0)
            ]  # fmt: skip
