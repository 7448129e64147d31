"""From the programs that people use, through the real command, to the tape and what is made of it."""

import asyncio
import csv
import io
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import DONE, chunk, fetch, finish, kept, on_loop, post, recording, until, wiretape
from tests.support.sdks import plain
from wiretape.recorder.demo import scenes
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer

COMPLETION = {
    "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}  # fmt: skip
QUICK = [(0.0, chunk("a")), (0.02, chunk("b", finish="stop")), (0.0, DONE)]
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "me"}]}
MESSAGE: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
     "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
     "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)  # fmt: skip


def choose(asked: ReceivedRequest) -> Scene:
    if asked.target == b"/v1/models":
        return plain(MODELS)
    if asked.target == b"/v1/messages":
        events = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in MESSAGE)
        return answer([(0.01, event) for event in events])
    if asked.target.startswith(b"/quick"):
        return answer(QUICK)
    return scenes.choose(asked) if json.loads(asked.body).get("stream") else plain(COMPLETION)


@asynccontextmanager
async def recorded(tape: Path, labels: str = "") -> AsyncIterator[tuple[str, ScriptedUpstream]]:
    """Run `wiretape record` before a scripted upstream; it has to end well."""
    arguments = ("--label", labels) if labels else ()
    async with ScriptedUpstream(choose) as upstream, recording(tape, upstream.url, *arguments) as (process, base):
        yield base, upstream
        code, _, err = await finish(process, signal.SIGTERM)
        assert code == 0, err


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the machine's stands between the programs and loopback."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


# The SDKs


@on_loop
async def test_the_openai_sdk_streams_what_the_tape_has(tmp_path: Path) -> None:
    import openai  # heavy, and not every process of a test run comes to it

    tape = tmp_path / "tape.db"
    async with recorded(tape) as (base, upstream):
        async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="sk-canary-of-a-key", max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="demo-openai", stream=True, messages=[{"role": "user", "content": "A tale."}]
            )
            chunks = [chunk async for chunk in stream]
        asked = upstream.requests[0]
        tale = await until(lambda: kept(tape, "/v1/chat/completions"))
    assert dict(asked.headers)[b"authorization"] == b"Bearer sk-canary-of-a-key"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == tale.row["content"]
    assert text.startswith("Once upon a time")
    assert chunks[-1].usage is not None
    assert (tale.outcome, tale.row["request_model"], tale.row["request_body"]) == (
        ("complete", None),
        "demo-openai",
        asked.body,
    )
    assert all(b"canary" not in file.read_bytes() for file in (tape, tape.with_name("tape.db.lock")))


@on_loop
async def test_the_openai_sdk_does_its_other_things_too(tmp_path: Path) -> None:
    import openai  # heavy, and not every process of a test run comes to it

    tape = tmp_path / "tape.db"
    messages: Any = [{"role": "user", "content": "Hi."}]
    async with (
        recorded(tape) as (base, _),
        openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client,
    ):
        assert [model.id for model in (await client.models.list()).data] == ["m"]
        answered = await client.chat.completions.create(model="m", messages=messages)
        assert answered.choices[0].message.content == "Hello."
        arguments = ""
        async for part in await client.chat.completions.create(model="demo-tool", messages=messages, stream=True):
            for call in part.choices[0].delta.tool_calls or ():
                arguments += (call.function and call.function.arguments) or ""
        assert json.loads(arguments) == {"query": "stream replay"}
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="demo-limited", messages=messages, stream=True)
        assert caught.value.response.headers["retry-after"] == "20"
        with pytest.raises(openai.APIError):
            async for _ in await client.chat.completions.create(model="demo-truncated", messages=messages, stream=True):
                pass
    assert kept(tape, "/v1/models") is not None
    async with wiretape("export", "--db", tape) as process:
        code, out, _ = await finish(process)
    rows = list(csv.DictReader(io.StringIO(out)))
    outcomes = [(row["method"], row["outcome"], row["outcome_detail"]) for row in rows]
    assert code == 0
    assert outcomes == [
        ("GET", "complete", ""),
        ("POST", "complete", ""),
        ("POST", "complete", ""),
        ("POST", "http_error", "rate_limited"),
        ("POST", "truncated", "eof"),
    ]


@on_loop
async def test_the_anthropic_sdk_sees_all_its_events(tmp_path: Path) -> None:
    import anthropic  # heavy, and not every process of a test run comes to it

    tape = tmp_path / "tape.db"
    async with recorded(tape) as (base, upstream):
        async with anthropic.AsyncAnthropic(base_url=base, api_key="k", max_retries=0) as client:
            stream = await client.messages.create(
                model="m", max_tokens=9, stream=True, messages=[{"role": "user", "content": "Hi."}]
            )
            seen = [event.type async for event in stream]
        found = await until(lambda: kept(tape, "/v1/messages"))
        sent = [piece for _, piece in upstream.requests[0].sent]
    assert seen == [event["type"] for event in MESSAGE if event["type"] != "ping"]
    assert found.body == b"".join(piece.split(b"\r\n", 1)[1][:-2] for piece in sent[1:-1])
    assert found.row["content"] == "Hello."
    assert found.outcome == ("complete", None)


CURLS = {
    "plain": (),
    "compressed": ("--compressed",),
    "expect": ("-H", "Expect: 100-continue"),
    "chunked": ("-H", "Transfer-Encoding: chunked"),
}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@on_loop
async def test_curl_gets_every_byte(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    request = ("-sSN", "--noproxy", "*", "-d", "{}")
    async with recorded(tape) as (base, _):
        for name, options in CURLS.items():
            process = await asyncio.create_subprocess_exec(
                "curl", *request, *options, f"{base}/quick?{name}", stdout=subprocess.PIPE
            )
            out, _ = await process.communicate()
            found = await until(lambda: kept(tape, f"/quick?{name}"))  # noqa: B023 - called at once
            assert (process.returncode, found.outcome) == (0, ("complete", None))
            assert out == found.body == b"".join(piece for _, piece in QUICK)


@on_loop
async def test_a_recorder_that_slept_calls_its_timestamps_suspect(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    scene = answer([(0.02, chunk(str(number))) for number in range(20)] + [(0.0, DONE)])
    async with (
        ScriptedUpstream(lambda _: scene) as upstream,
        recording(tape, upstream.url, is_fresh=True) as (process, base),
    ):
        asked = asyncio.create_task(fetch(base, post("/held")))
        await until(lambda: upstream.requests and len(upstream.requests[0].sent) > 3)
        process.send_signal(signal.SIGSTOP)
        sent = len(upstream.requests[0].sent)
        await until(lambda: len(upstream.requests[0].sent) > sent + 4)
        process.send_signal(signal.SIGCONT)
        assert (await asked).complete
        row = (await until(lambda: kept(tape, "/held"))).row
        assert row["clock_error_ns"] > 50_000_000
        assert "clock_suspect" in row["flags"]
        await finish(process, signal.SIGTERM)
