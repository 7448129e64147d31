"""Ollama's SDK: chats, continued prompts and embeddings; errors."""

import contextlib
import json
import pkgutil
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.relay import Relay, on_loop
from tests.support.sdks import calls, measured, plain
from wiretape.recorder.demo.upstream import Scene, answer

if TYPE_CHECKING:
    import ollama


def line(message: dict[str, Any], done: bool = False, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "", **message}
    return {"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done, **more}


COUNTERS = {"total_duration": 9, "load_duration": 1, "prompt_eval_count": 26, "eval_count": 9, "eval_duration": 7}
CALLED_AT = [{"function": {"name": "weather", "arguments": {"at": city}}} for city in ("Rome", "Oslo")]
LINES = [
    line({"thinking": "Where "}),
    line({"thinking": "is it?"}),
    line({"content": "Let me "}),
    line({"content": "see…"}),
    *(line({"tool_calls": [one]}) for one in CALLED_AT),
    line({}, done=True, done_reason="stop", **COUNTERS),
]
WHOLE_LINE = line(
    {"thinking": "Where is it?", "content": "Let me see…", "tool_calls": CALLED_AT},
    done=True,
    done_reason="stop",
    **COUNTERS,
)


def lines(*payloads: dict[str, Any], **more: Any) -> Scene:
    """Return a stream of lines of JSON, one read each."""
    pieces = [(0.001, json.dumps(one).encode() + b"\n") for one in payloads]
    return answer(pieces, content_type="application/x-ndjson", **more)


SCENES: dict[str, Scene] = {
    "ollama-stream": lines(*LINES),
    "ollama-whole": plain(WHOLE_LINE),
    "ollama-generate": lines(
        {"model": "qwen3", "response": "", "thinking": "Hm…", "done": False},
        {"model": "qwen3", "response": "Hi.", "done": False},
        {"model": "qwen3", "response": "", "done": True, "done_reason": "length", "context": [1, 2], **COUNTERS},
    ),
    "ollama-embed": plain({"model": "m", "embeddings": [[0.5]], "total_duration": 14, "prompt_eval_count": 8}),
    "ollama-refused": plain({"error": "model 'm' not found"}, 404),
    "ollama-first": lines({"error": "out of memory"}),
    "ollama-mid": lines(*LINES[:3], {"error": "out of memory"}),
    "ollama-cut": lines(*LINES[:4], end="fin"),
    "ollama-short": lines(*LINES[:4], framing="close"),
}


async def chatted(relay: Relay, name: str) -> "AsyncIterator[ollama.ChatResponse]":
    """Yield the answers that Ollama's SDK gets."""
    import ollama

    async with ollama.AsyncClient(host=f"{relay.base}/{name}") as client:
        messages = [{"role": "user", "content": "Hi."}]
        if name == "ollama-whole":
            yield await client.chat("qwen3", messages)
        else:
            async for one in await client.chat("qwen3", messages, stream=True):
                yield one


def said_by_ollama(answers: "Sequence[ollama.ChatResponse]") -> tuple[str, str, list[Any]]:
    messages = [one.message for one in answers]
    made = [call.function for message in messages for call in message.tool_calls or ()]
    return (
        "".join(message.content or "" for message in messages),
        "".join(message.thinking or "" for message in messages),
        [(None, call.name, call.arguments) for call in made],
    )


@pytest.mark.parametrize("name", ["ollama-stream", "ollama-whole"])
@on_loop
async def test_ollamas_sdk_assembles_what_the_tape_has(relay: Relay, name: str) -> None:
    answers = [one async for one in chatted(relay, name)]
    row, last = await measured(relay, name), answers[-1]
    assert (row["content"], row["reasoning"], calls(row)) == said_by_ollama(answers)
    assert (row["content"], row["reasoning"], len(calls(row))) == ("Let me see…", "Where is it?", 2)
    assert (row["finish_reason"], row["outcome"]) == (last.done_reason, "complete")
    assert (row["input_tokens"], row["output_tokens"]) == (last.prompt_eval_count, last.eval_count)
    assert json.loads(row["usage"]) == {name: last[name] for name in COUNTERS}
    assert (row["api"], row["operation"], row["response_model"]) == ("ollama", "chat", last.model)


@on_loop
async def test_ollamas_sdk_continues_a_prompt(relay: Relay) -> None:
    import ollama

    async with ollama.AsyncClient(host=f"{relay.base}/ollama-generate") as client:
        got = [one async for one in await client.generate("qwen3", "Say hi.", stream=True)]
    row = await measured(relay, "ollama-generate")
    assert (row["content"], row["reasoning"]) == ("".join(one.response or "" for one in got), got[0].thinking)
    assert (row["finish_reason"], row["outcome"]) == (got[-1].done_reason, "complete")
    assert (row["operation"], row["output_tokens"]) == ("text_completion", got[-1].eval_count)


@on_loop
async def test_ollamas_sdk_embeds(relay: Relay) -> None:
    import ollama

    async with ollama.AsyncClient(host=f"{relay.base}/ollama-embed") as client:
        got = await client.embed("m", "Hi.")
    row = await measured(relay, "ollama-embed")
    assert (row["operation"], row["outcome"], row["input_tokens"]) == ("embeddings", "complete", got.prompt_eval_count)


@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("ollama-refused", ("http_error", "client_error"), "ollama:ResponseError"),
        ("ollama-first", ("error_event", "before_output"), "ollama:ResponseError"),
        ("ollama-mid", ("error_event", "mid_stream"), "ollama:ResponseError"),
        ("ollama-cut", ("truncated", "eof"), "httpx:RemoteProtocolError"),
        ("ollama-short", ("truncated", "eof"), None),
    ],
)
@on_loop
async def test_ollamas_sdk_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str | None
) -> None:
    answers = []
    with pytest.raises(pkgutil.resolve_name(raised)) if raised else contextlib.nullcontext() as caught:
        async for one in chatted(relay, name):
            answers.append(one)
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"]) == outcome
    assert (row["content"] or "", row["reasoning"] or "", calls(row)) == said_by_ollama(answers)
    if caught and raised == "ollama:ResponseError":
        assert row["error_message"] == caught.value.error
