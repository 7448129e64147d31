"""Cohere's SDK: chats as streams and whole; errors."""

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.relay import Relay, on_loop
from tests.support.sdks import calls, events, measured, plain
from wiretape.recorder.demo.upstream import Scene

COUNTS = {"billed_units": {"input_tokens": 5, "output_tokens": 9}, "tokens": {"input_tokens": 71, "output_tokens": 10}}


def part(kind: str, message: dict[str, Any], index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}, **more}


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"tool_calls": {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}}


BEGUN = [
    part("message-start", {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}, id="c14c"),
    part("content-start", {"content": {"type": "thinking", "thinking": ""}}),
    part("content-delta", {"content": {"thinking": "Where "}}),
    part("content-delta", {"content": {"thinking": "is it?"}}),
    {"type": "content-end", "index": 0},
    part("content-start", {"content": {"type": "text", "text": ""}}, 1),
    part("content-delta", {"content": {"text": "Let me "}}, 1),
    part("content-delta", {"content": {"text": "see…"}}, 1),
    part("citation-start", {"citations": {"start": 0, "end": 3, "text": "Let", "sources": []}}),
    {"type": "citation-end", "index": 0},
    {"type": "content-end", "index": 1},
]
CALLED = [
    part("tool-plan-delta", {"tool_plan": " I will ask."}),
    part("tool-call-start", call("weather_1", "weather", "")),
    part("tool-call-delta", {"tool_calls": {"function": {"arguments": '{"at": "Ro'}}}),
    part("tool-call-delta", {"tool_calls": {"function": {"arguments": 'me"}'}}}),
    {"type": "tool-call-end", "index": 0},
    part("tool-call-start", call("now_1", "now", ""), 1),
    part("tool-call-delta", {"tool_calls": {"function": {"arguments": "{}"}}}, 1),
    {"type": "tool-call-end", "index": 1},
]
RESPONSE = {
    "id": "c14c",
    "finish_reason": "TOOL_CALL",
    "message": {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Where is it?"}, {"type": "text", "text": "Let me see…"}],
        "tool_plan": " I will ask.",
        "tool_calls": [call("weather_1", "weather", '{"at": "Rome"}')["tool_calls"]],
    },
    "usage": COUNTS,
}


def ended(reason: str, **more: Any) -> dict[str, Any]:
    return {"type": "message-end", "id": "c14c", "delta": {"finish_reason": reason, "usage": COUNTS, **more}}


SCENES: dict[str, Scene] = {
    "cohere-stream": events(*BEGUN, *CALLED, ended("TOOL_CALL")),
    "cohere-whole": plain(RESPONSE),
    "cohere-refused": plain({"id": "e1", "message": "too many requests"}, 429),
    "cohere-failed": events(*BEGUN, ended("ERROR", error="the model failed")),
    "cohere-cut": events(*BEGUN, end="fin"),
    "cohere-short": events(*BEGUN, framing="close"),
}
ASK: Any = {"model": "command", "messages": [{"role": "user", "content": "Hi."}], "request_options": {"max_retries": 0}}


def command(relay: Relay, name: str) -> Any:
    import cohere

    return cohere.AsyncClientV2(api_key="k", base_url=f"{relay.base}/{name}")


@dataclass(slots=True)
class Assembled:
    """The parts of an answer, assembled from the events of Cohere's SDK."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    end: Any = None

    def add(self, event: Any) -> None:
        message = getattr(getattr(event, "delta", None), "message", None)
        if event.type == "content-delta":
            self.content += message.content.text or ""
            self.reasoning += message.content.thinking or ""
        elif event.type == "tool-plan-delta":
            self.reasoning += message.tool_plan
        elif event.type == "tool-call-start":
            self.calls[event.index] = [message.tool_calls.id, message.tool_calls.function.name, ""]
        elif event.type == "tool-call-delta":
            self.calls[event.index][2] += message.tool_calls.function.arguments
        elif event.type == "message-end":
            self.end = event.delta


@on_loop
async def test_the_cohere_sdk_streams_what_the_tape_has(relay: Relay) -> None:
    got = Assembled()
    async with command(relay, "cohere-stream") as client:
        async for event in client.chat_stream(**ASK):
            got.add(event)
    row = await measured(relay, "cohere-stream")
    assert (row["content"], row["reasoning"]) == (got.content, got.reasoning)
    assert got.content == "Let me see…"
    assert calls(row) == [(id, name, json.loads(arguments)) for id, name, arguments in got.calls.values()]
    assert len(got.calls) == 2
    tokens = got.end.usage.tokens
    assert (row["finish_reason"], row["outcome"], row["api"]) == (got.end.finish_reason, "complete", "cohere.chat")
    assert (row["input_tokens"], row["output_tokens"]) == (tokens.input_tokens, tokens.output_tokens)


@on_loop
async def test_the_cohere_sdk_gets_the_tapes_whole_answer(relay: Relay) -> None:
    async with command(relay, "cohere-whole") as client:
        got = await client.chat(**ASK)
    row = await measured(relay, "cohere-whole")
    thought, text = got.message.content or ()
    assert (row["content"], row["reasoning"]) == (text.text, thought.thinking + got.message.tool_plan)
    made = [(one.id, one.function.name, json.loads(one.function.arguments)) for one in got.message.tool_calls]
    assert calls(row) == made
    assert (row["response_id"], row["finish_reason"], row["outcome"]) == (got.id, got.finish_reason, "complete")
    assert (row["input_tokens"], row["output_tokens"]) == (71, 10)


@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("cohere-refused", ("http_error", "rate_limited"), "TooManyRequestsError"),
        ("cohere-failed", ("error_event", "mid_stream"), ""),
        ("cohere-cut", ("truncated", "eof"), "Exception"),  # that of its transport
        ("cohere-short", ("truncated", "eof"), ""),
    ],
)
@on_loop
async def test_the_cohere_sdk_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str
) -> None:
    import cohere

    got = Assembled()
    async with command(relay, name) as client:
        with pytest.raises(getattr(cohere, raised, Exception)) if raised else contextlib.nullcontext() as caught:
            async for event in client.chat_stream(**ASK):
                got.add(event)
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"], row["content"] or "") == (*outcome, got.content)
    if name == "cohere-refused":
        assert caught.value.body["message"] == row["error_message"]
    elif name == "cohere-failed":
        assert (got.end.finish_reason, got.end.error) == (row["error_code"], row["error_message"])
