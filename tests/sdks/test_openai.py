"""OpenAI's SDK: responses, chats with custom calls, completions, embeddings; errors."""

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.relay import DONE, Relay, on_loop
from tests.support.sdks import calls, events, measured, plain
from wiretape.recorder.demo.upstream import Scene, answer

TOKENS = {"input_tokens": 75, "input_tokens_details": {"cached_tokens": 32, "cache_write_tokens": 4},
          "output_tokens": 40, "output_tokens_details": {"reasoning_tokens": 24}, "total_tokens": 115}  # fmt: skip
OUTPUT: list[dict[str, Any]] = [
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Where is it?"}]},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Let me see…", "annotations": []}]},
    {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"at": "Rome"}',
     "status": "completed"},
    {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": '"x"'},
    {"id": "msg_2", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": " Wait.", "annotations": []}]},
]  # fmt: skip


def answered(status: str, output: Sequence[Any] = OUTPUT, **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt", "status": status, "error": None,
            "incomplete_details": None, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True,
            "output": list(output), "usage": None} | more  # fmt: skip


def numbered(*payloads: dict[str, Any], **more: Any) -> Scene:
    return events(*({**one, "sequence_number": number} for number, one in enumerate(payloads)), **more)


def said(place: int, kind: str, key: str, *deltas: str, **more: Any) -> list[dict[str, Any]]:
    """Return the events of one text of the output item at this place, which is in its deltas and in its end."""
    of = {"item_id": OUTPUT[place]["id"], "output_index": place, **more}
    return [
        *({"type": f"response.{kind}.delta", **of, "delta": delta} for delta in deltas),
        {"type": f"response.{kind}.done", **of, key: "".join(deltas)},
    ]


def item(place: int, empty: dict[str, Any], *inside: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "response.output_item.added", "output_index": place, "item": OUTPUT[place] | empty},
        *inside,
        {"type": "response.output_item.done", "output_index": place, "item": OUTPUT[place]},
    ]


def message(place: int, *deltas: str) -> list[dict[str, Any]]:
    of = {"item_id": OUTPUT[place]["id"], "output_index": place, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    return item(
        place,
        {"content": []},
        {"type": "response.content_part.added", **of, "part": part},
        *said(place, "output_text", "text", *deltas, content_index=0, logprobs=[]),
        {"type": "response.content_part.done", **of, "part": part | {"text": "".join(deltas)}},
    )


ITEMS = [
    *item(0, {"summary": []}, *said(0, "reasoning_summary_text", "text", "Where ", "is it?", summary_index=0)),
    *message(1, "Let me ", "see…"),
    *item(2, {"arguments": ""}, *said(2, "function_call_arguments", "arguments", '{"at": "Ro', 'me"}')),
    *item(3, {"input": ""}, *said(3, "custom_tool_call_input", "input", '"x', '"')),
    *message(4, " Wait."),
]
CREATED = {"type": "response.created", "response": answered("in_progress", ())}
COMPLETED = {"type": "response.completed", "response": answered("completed", usage=TOKENS)}
PARTIAL = answered("incomplete", OUTPUT[:2], usage=TOKENS, incomplete_details={"reason": "max_output_tokens"})
FAILED = answered("failed", OUTPUT[:2], error={"code": "server_error", "message": "It broke."})
BROKEN = {"type": "server_error", "code": "server_error", "message": "It broke.", "param": None}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": '"x"'}}
LEGACY = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt"}
SPENT = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def unnamed(*payloads: dict[str, Any]) -> Scene:
    return answer([(0.001, f"data: {json.dumps(one)}\n\n".encode()) for one in payloads] + [(0.0, DONE)])


SCENES: dict[str, Scene] = {
    "responses-stream": numbered(CREATED, *ITEMS, COMPLETED),
    "responses-last": numbered(CREATED, COMPLETED),
    "responses-whole": plain(COMPLETED["response"]),
    "responses-incomplete": numbered(
        CREATED, *ITEMS[:9], {"type": "response.incomplete", "response": PARTIAL}
    ),
    "responses-failed": numbered(CREATED, *ITEMS[:9], {"type": "response.failed", "response": FAILED}),
    "responses-error": numbered(CREATED, *ITEMS[:9], {"type": "error", "error": BROKEN}),
    "responses-flat": numbered(CREATED, *ITEMS[:9], {**BROKEN, "type": "error"}),
    "responses-cut": numbered(CREATED, *ITEMS[:9], end="fin"),
    "responses-short": numbered(CREATED, *ITEMS[:9], framing="close"),
    "chat-custom": plain(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt", "usage": SPENT, "choices": [
            {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [CUSTOM]}}]}
    ),
    "legacy-stream": unnamed(
        {**LEGACY, "choices": [{"index": 0, "text": "Once", "logprobs": None, "finish_reason": None}]},
        {**LEGACY, "choices": [{"index": 0, "text": " upon", "logprobs": None, "finish_reason": "length"}]},
        {**LEGACY, "choices": [], "usage": SPENT},
    ),
    "legacy-whole": plain(
        {**LEGACY, "choices": [{"index": 0, "text": "Once upon", "finish_reason": "length"}], "usage": SPENT}
    ),
    "embeddings": plain(
        {"object": "list", "model": "ada", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
         "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    ),
    "models": plain({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "me"}]}),
}  # fmt: skip


def gpt(relay: Relay, name: str) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=f"{relay.base}/{name}/v1", api_key="k", max_retries=0)


def reported(row: sqlite3.Row) -> tuple[int | None, ...]:
    names = ("input", "output", "total", "reasoning", "cache_read_input", "cache_write_input")
    return tuple(row[f"{name}_tokens"] for name in names)


@pytest.mark.parametrize("name", ["responses-stream", "responses-last", "responses-whole", "responses-incomplete"])
@on_loop
async def test_the_openai_sdk_assembles_what_the_tape_has(relay: Relay, name: str) -> None:
    async with gpt(relay, name) as client:
        if name == "responses-whole":
            got: Any = await client.responses.create(model="gpt", input="Hi.")
        else:
            async with client.responses.stream(model="gpt", input="Hi.") as stream:
                ends = [event.response async for event in stream if event.type.endswith((".completed", ".incomplete"))]
            (got,) = ends
    row = await measured(relay, name)
    thoughts = [part.text for one in got.output if one.type == "reasoning" for part in one.summary]
    called = [one for one in got.output if one.type.endswith("_call")]
    made = [(one.call_id, one.name, getattr(one, "arguments", None) or one.input) for one in called]
    usage = got.usage
    assert row["content"] == got.output_text
    assert row["content"].startswith("Let me see…")
    assert row["reasoning"] == "".join(thoughts) == "Where is it?"
    assert calls(row) == [(id, name, json.loads(text)) for id, name, text in made]
    assert (row["response_id"], row["response_model"]) == (got.id, got.model)
    reason = got.incomplete_details.reason if got.incomplete_details else got.status
    assert (row["finish_reason"], row["outcome"], row["api"]) == (reason, "complete", "openai.responses")
    assert reported(row) == (
        usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.output_tokens_details.reasoning_tokens,
        usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("responses-failed", ("error_event", "mid_stream"), ""),
        ("responses-error", ("error_event", "mid_stream"), "APIError"),
        ("responses-flat", ("error_event", "mid_stream"), ""),
        ("responses-cut", ("truncated", "eof"), "APIConnectionError"),
        ("responses-short", ("truncated", "eof"), ""),
    ],
)
@on_loop
async def test_the_openai_sdk_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str
) -> None:
    import openai

    got: list[Any] = []
    async with gpt(relay, name) as client:
        with pytest.raises(getattr(openai, raised)) if raised else contextlib.nullcontext() as caught:
            async for event in await client.responses.create(model="gpt", input="Hi.", stream=True):
                got.append(event)
    row = await measured(relay, name)
    text = "".join(event.delta for event in got if event.type == "response.output_text.delta")
    assert (row["outcome"], row["outcome_detail"], row["content"]) == (*outcome, text)
    if outcome[0] == "error_event":
        error = caught.value if raised else got[-1].response.error if name == "responses-failed" else got[-1]
        assert (row["error_code"], row["error_message"]) == (error.code, error.message)


@on_loop
async def test_the_openai_sdk_has_the_tapes_custom_calls(relay: Relay) -> None:
    async with gpt(relay, "chat-custom") as client:
        got = await client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "Hi."}])
    (call,) = got.choices[0].message.tool_calls or ()
    row = await measured(relay, "chat-custom")
    assert call.type == "custom"
    assert calls(row) == [(call.id, call.custom.name, json.loads(call.custom.input))]


@pytest.mark.parametrize("name", ["legacy-stream", "legacy-whole"])
@on_loop
async def test_the_openai_sdk_completes_as_the_tape_has_it(relay: Relay, name: str) -> None:
    async with gpt(relay, name) as client:
        if name == "legacy-stream":
            stream = await client.completions.create(model="gpt", prompt="A tale.", stream=True)
            parts = [part async for part in stream]
        else:
            parts = [await client.completions.create(model="gpt", prompt="A tale.")]
    row = await measured(relay, name)
    choices = [choice for part in parts for choice in part.choices]
    usage = parts[-1].usage
    assert usage is not None
    assert row["content"] == "".join(choice.text for choice in choices) == "Once upon"
    assert (row["finish_reason"], row["response_id"]) == (choices[-1].finish_reason, parts[0].id)
    assert reported(row)[:3] == (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    assert (row["outcome"], row["api"], row["operation"]) == ("complete", "openai.completions", "text_completion")


@on_loop
async def test_the_openai_sdk_embeds_and_lists(relay: Relay) -> None:
    async with gpt(relay, "embeddings") as client:
        embedded = await client.embeddings.create(model="ada", input="Hi.", encoding_format="float")
    async with gpt(relay, "models") as client:
        assert [model.id async for model in client.models.list()] == ["m"]
    row, listed = await measured(relay, "embeddings"), await measured(relay, "models")
    assert reported(row)[:3] == (embedded.usage.prompt_tokens, None, embedded.usage.total_tokens)
    assert (row["api"], row["operation"]) == ("openai.embeddings", "embeddings")
    assert (row["response_model"], row["outcome"], row["content"]) == (embedded.model, "complete", None)
    assert (listed["operation"], listed["outcome"], listed["content"]) == ("models", "complete", None)
