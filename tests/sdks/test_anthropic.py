"""Anthropic's SDK: messages as streams and whole, counted tokens; errors."""

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.relay import Relay, on_loop
from tests.support.sdks import BLOCKS, END, MESSAGE, START, STOP, calls, events, measured, plain
from wiretape.recorder.demo.upstream import Scene

WHOLE = {
    **MESSAGE,
    "content": [
        {"type": "thinking", "thinking": "Where is it?", "signature": "EqQB"},
        {"type": "text", "text": "Let me see…"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"at": "Rome"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ],
    "stop_reason": "tool_use",
}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
SCENES: dict[str, Scene] = {
    "anthropic-stream": events(START, {"type": "ping"}, *BLOCKS, END, STOP),
    "anthropic-twice": events(START, START, *BLOCKS, END, STOP),
    "anthropic-whole": plain(WHOLE),
    "anthropic-count": plain({"input_tokens": 43}),
    "anthropic-refused": plain(OVERLOADED, 529),
    "anthropic-first": events(OVERLOADED),
    "anthropic-mid": events(START, *BLOCKS[:10], OVERLOADED),
    "anthropic-cut": events(START, *BLOCKS[:10], end="fin"),
    "anthropic-short": events(START, *BLOCKS, END, framing="close"),
}
HI: Any = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}


def claude(relay: Relay, name: str) -> Any:
    import anthropic

    return anthropic.AsyncAnthropic(base_url=f"{relay.base}/{name}", api_key="k", max_retries=0)


@pytest.mark.parametrize("name", ["anthropic-stream", "anthropic-twice", "anthropic-whole"])
@on_loop
async def test_the_anthropic_sdk_assembles_what_the_tape_has(relay: Relay, name: str) -> None:
    async with claude(relay, name) as client:
        if name == "anthropic-whole":
            message = await client.messages.create(**HI)
        else:
            async with client.messages.stream(**HI) as stream:
                message = await stream.get_final_message()
    row = await measured(relay, name)
    blocks: Sequence[Any] = message.content
    used = [(one.id, one.name, one.input) for one in blocks if one.type in ("tool_use", "server_tool_use")]
    usage = message.usage
    assert row["content"] == "".join(one.text for one in blocks if one.type == "text") == "Let me see…"
    assert row["reasoning"] == "".join(one.thinking for one in blocks if one.type == "thinking") == "Where is it?"
    assert calls(row) == used
    assert len(used) >= 2
    assert (row["response_id"], row["response_model"]) == (message.id, message.model)
    assert (row["finish_reason"], row["outcome"]) == (message.stop_reason, "complete")
    assert (row["input_uncached_tokens"], row["output_tokens"]) == (usage.input_tokens, usage.output_tokens)
    cached = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    assert (row["cache_read_input_tokens"], row["cache_write_input_tokens"]) == cached
    assert row["input_tokens"] == usage.input_tokens + sum(one or 0 for one in cached)
    assert row["api"] == "anthropic.messages"


@on_loop
async def test_the_anthropic_sdk_counts_tokens(relay: Relay) -> None:
    async with claude(relay, "anthropic-count") as client:
        counted = await client.messages.count_tokens(model="claude", messages=HI["messages"])
    row = await measured(relay, "anthropic-count")
    assert (row["input_tokens"], row["output_tokens"], row["outcome"]) == (counted.input_tokens, None, "complete")


@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("anthropic-refused", ("http_error", "server_error"), "APIStatusError"),
        ("anthropic-first", ("error_event", "before_output"), "APIStatusError"),
        ("anthropic-mid", ("error_event", "mid_stream"), "APIStatusError"),
        ("anthropic-cut", ("truncated", "eof"), "Exception"),  # that of its transport
        ("anthropic-short", ("truncated", "eof"), ""),
    ],
)
@on_loop
async def test_the_anthropic_sdk_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str
) -> None:
    import anthropic

    text = ""
    async with claude(relay, name) as client:
        with pytest.raises(getattr(anthropic, raised, Exception)) if raised else contextlib.nullcontext() as caught:
            async with client.messages.stream(**HI) as stream:
                async for part in stream.text_stream:
                    text += part
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"], row["content"] or "") == (*outcome, text)
    assert bool(text) == (row["outcome_detail"] in ("mid_stream", "eof"))
    if raised == "APIStatusError":
        assert caught.value.body["error"] == {"type": row["error_code"], "message": row["error_message"]}
