"""What the official SDKs make of an answer through a recorder is what the tape has of it.

An SDK is imported by the tests that use it: each is heavy, and not every process of a test run comes to them.
"""

import asyncio
import base64
import contextlib
import json
import os
import pkgutil
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support import eventstream
from tests.support.relay import DONE, Relay, on_loop, select, until
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer

if TYPE_CHECKING:
    import ollama
    from google import genai

SCENES: dict[str, Scene] = {}
"""The scene for each first segment of a path, under which an SDK has its base URL."""


def choose(asked: ReceivedRequest) -> Scene:
    return SCENES[asked.target.decode().split("/")[1]]


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """One recorder for all SDKs, which no proxy of the machine stands before."""
    with pytest.MonkeyPatch.context() as patch, Relay(tmp_path_factory.mktemp("sdks"), choose=choose) as relay:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield relay
        assert relay.troubles == []


async def measured(relay: Relay, name: str) -> sqlite3.Row:
    """Wait for the measures of the exchange under this base URL."""
    statement = "SELECT m.* FROM measures m JOIN exchanges e ON e.no = m.exchange_no WHERE e.path LIKE ?"
    (row,) = await until(lambda: select(relay.tape, statement, f"/{name}/%"))
    return row


def calls(row: sqlite3.Row) -> list[tuple[str, str, Any]]:
    """Return the tool calls on the tape; arguments that never came are an empty object."""
    recorded = json.loads(row["tool_calls"] or "[]")
    return [(call["id"], call["name"], json.loads(call["arguments"] or "{}")) for call in recorded]


def events(*payloads: dict[str, Any], **more: Any) -> Scene:
    """Return a stream of events that bear the name of their type, one read each."""
    return answer([(0.001, f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode()) for one in payloads], **more)


def plain(payload: Any, status: int = 200) -> Scene:
    body = json.dumps(payload).encode()
    return answer([(0.0, body)], status=status, content_type="application/json", framing="length")


# google-genai


def generated(*parts: dict[str, Any], so_far: int = 0, **candidate: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 8, "candidatesTokenCount": so_far, "thoughtsTokenCount": 5,
             "totalTokenCount": 13 + so_far, "cachedContentTokenCount": 2}  # fmt: skip
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": 0, **candidate}], "usageMetadata": usage,
            "modelVersion": "gemini-3-pro", "responseId": "r1"}  # fmt: skip


ASKED = [{"functionCall": {"name": "weather", "args": {"at": city}}, "thoughtSignature": "CiQ="} for city in "RÖ"]
GENERATED = [
    generated({"text": "Where ", "thought": True}),
    generated({"text": "is it?", "thought": True}),
    generated({"text": "Let me "}, so_far=3),
    generated({"text": "see…"}, *ASKED, so_far=9),
    generated({"text": "", "thoughtSignature": "CiQ="}, so_far=9, finishReason="STOP"),
]
ALL_PARTS = [part for one in GENERATED for part in one["candidates"][0]["content"]["parts"]]
UNAVAILABLE = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}}


def with_crlf(*payloads: dict[str, Any], **more: Any) -> Scene:
    """Return a stream of events whose lines end as Google's do, one read each."""
    return answer([(0.001, f"data: {json.dumps(one)}\r\n\r\n".encode()) for one in payloads], **more)


def in_array(*payloads: dict[str, Any]) -> Scene:
    pieces = [("," if place else "[") + json.dumps(one, indent=2) + "\r\n" for place, one in enumerate(payloads)]
    return answer([(0.001, piece.encode()) for piece in [*pieces, "]"]], content_type="application/json")


SCENES |= {
    "gemini-stream": with_crlf(*GENERATED),
    "gemini-array": in_array(*GENERATED),
    "gemini-whole": plain(generated(*ALL_PARTS, so_far=9, finishReason="STOP")),
    "gemini-blocked": with_crlf(BLOCKED),
    "gemini-embed": plain({"embeddings": [{"values": [0.5]}]}),
    "gemini-count": plain({"totalTokens": 31}),
    "gemini-refused": plain(UNAVAILABLE, 503),
    "gemini-first": with_crlf(UNAVAILABLE),
    "gemini-mid": with_crlf(*GENERATED[:3], UNAVAILABLE),
    "gemini-cut": with_crlf(*GENERATED[:4], end="fin"),
    "gemini-short": with_crlf(*GENERATED[:4], framing="close"),
}


async def generate(relay: Relay, name: str) -> "AsyncIterator[genai.types.GenerateContentResponse]":
    """Yield the answers that Google's SDK, or a plain client, gets."""
    from google import genai

    path = "v1beta/models/gemini-3-pro:streamGenerateContent"
    if name == "gemini-array":
        async with httpx.AsyncClient() as plain_client:
            for one in (await plain_client.post(f"{relay.base}/{name}/{path}", json={})).json():
                yield genai.types.GenerateContentResponse.model_validate(one)
        return
    async with google(relay, name) as client:
        if name == "gemini-whole":
            yield await client.models.generate_content(model="gemini-3-pro", contents="Hi.")
        else:
            async for one in await client.models.generate_content_stream(model="gemini-3-pro", contents="Hi."):
                yield one


def google(relay: Relay, name: str) -> "genai.client.AsyncClient":
    from google import genai

    return genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=f"{relay.base}/{name}")).aio


def said_by_gemini(answers: "Sequence[genai.types.GenerateContentResponse]") -> tuple[str, str, list[Any]]:
    contents = [one.candidates[0].content for one in answers if one.candidates]
    parts = [part for content in contents if content for part in content.parts or ()]
    made = [part.function_call for part in parts if part.function_call]
    return (
        "".join(part.text or "" for part in parts if not part.thought),
        "".join(part.text or "" for part in parts if part.thought),
        [(call.id, call.name, call.args) for call in made],
    )


@pytest.mark.parametrize("name", ["gemini-stream", "gemini-array", "gemini-whole"])
@on_loop
async def test_googles_sdk_assembles_what_the_tape_has(relay: Relay, name: str) -> None:
    answers = [one async for one in generate(relay, name)]
    row = await measured(relay, name)
    assert (row["content"], row["reasoning"], calls(row)) == said_by_gemini(answers)
    assert (row["content"], row["reasoning"], len(calls(row))) == ("Let me see…", "Where is it?", 2)
    last, usage = answers[-1], answers[-1].usage_metadata
    assert last.candidates
    assert last.candidates[0].finish_reason
    assert usage
    assert (row["finish_reason"], row["outcome"]) == (last.candidates[0].finish_reason.value, "complete")
    assert (row["response_id"], row["response_model"]) == (last.response_id, last.model_version)
    assert row["output_tokens"] == (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    assert (row["input_tokens"], row["total_tokens"]) == (usage.prompt_token_count, usage.total_token_count)
    assert (row["reasoning_tokens"], row["cache_read_input_tokens"]) == (5, usage.cached_content_token_count)
    assert (row["api"], row["operation"]) == ("gemini", "generate_content")


@on_loop
async def test_googles_sdk_sees_why_a_prompt_is_blocked(relay: Relay) -> None:
    (got,) = [one async for one in generate(relay, "gemini-blocked")]
    row = await measured(relay, "gemini-blocked")
    assert got.prompt_feedback
    assert got.prompt_feedback.block_reason
    assert (row["finish_reason"], row["outcome"]) == (got.prompt_feedback.block_reason.value, "complete")


@on_loop
async def test_googles_sdk_embeds_and_counts(relay: Relay) -> None:
    async with google(relay, "gemini-embed") as client:
        await client.models.embed_content(model="gemini-embedding-001", contents="Hi.")
    async with google(relay, "gemini-count") as client:
        counted = await client.models.count_tokens(model="gemini-3-pro", contents="Hi.")
    embedded, row = await measured(relay, "gemini-embed"), await measured(relay, "gemini-count")
    assert (embedded["operation"], embedded["outcome"]) == ("embeddings", "complete")
    assert (row["operation"], row["total_tokens"]) == ("count_tokens", counted.total_tokens)


@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("gemini-refused", ("http_error", "server_error"), "google.genai.errors:ServerError"),
        ("gemini-first", ("error_event", "before_output"), "google.genai.errors:ServerError"),
        ("gemini-mid", ("error_event", "mid_stream"), "google.genai.errors:ServerError"),
        ("gemini-cut", ("truncated", "eof"), "httpx2:RemoteProtocolError"),
        ("gemini-short", ("truncated", "eof"), None),
    ],
)
@on_loop
async def test_googles_sdk_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str | None
) -> None:
    answers = []
    with pytest.raises(pkgutil.resolve_name(raised)) if raised else contextlib.nullcontext() as caught:
        async for one in generate(relay, name):
            answers.append(one)
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"]) == outcome
    assert (row["content"] or "", row["reasoning"] or "", calls(row)) == said_by_gemini(answers)
    if caught and raised == "google.genai.errors:ServerError":
        assert (row["error_code"], row["error_message"]) == (str(caught.value.code), caught.value.message)


# ollama


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


SCENES |= {
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


# anthropic

USAGE = {"input_tokens": 43, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 5}
MESSAGE: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
                           "stop_reason": None, "stop_sequence": None, "usage": USAGE}  # fmt: skip


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def inputs(*texts: str) -> list[dict[str, str]]:
    return [{"type": "input_json_delta", "partial_json": text} for text in texts]


BLOCKS = [
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Where "},
        {"type": "thinking_delta", "thinking": "is it?"},
        {"type": "signature_delta", "signature": "EqQB"},
    ),
    *block(1, {"type": "redacted_thinking", "data": "EmwK"}),
    *block(
        2,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Let me "},
        {"type": "text_delta", "text": "see…"},
    ),
    *block(
        3, {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}, *inputs('{"query":', '"é"}')
    ),
    *block(4, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}),
    *block(5, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}, *inputs("", '{"at": "Ro', 'me"}')),
    *block(6, {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}, *inputs("")),
]
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
START = {"type": "message_start", "message": MESSAGE}
END = {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
       "usage": {"input_tokens": 61, "output_tokens": 9, "cache_read_input_tokens": 7}}  # fmt: skip
STOP = {"type": "message_stop"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
SCENES |= {
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
    assert (row["input_tokens"], row["output_tokens"]) == (usage.input_tokens, usage.output_tokens)
    cached = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    assert (row["cache_read_input_tokens"], row["cache_creation_input_tokens"]) == cached
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


# openai

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


SCENES |= {
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
    names = ("input", "output", "total", "reasoning", "cache_read_input", "cache_creation_input")
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
async def test_the_openai_sdk_has_the_custom_calls_of_the_tape(relay: Relay) -> None:
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


# cohere

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


SCENES |= {
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
    """What the events of Cohere's SDK say, which does not put them together itself."""

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
async def test_the_cohere_sdk_gets_a_whole_answer_as_the_tape_has_it(relay: Relay) -> None:
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


# bedrock

KEYS = {"aws_access_key_id": "AKIACANARYCANARY1234", "aws_secret_access_key": "canary/secret",
        "aws_session_token": "canary/token/of/a/session"}  # fmt: skip
QUESTION: Any = {"modelId": "us.amazon.nova-v1:0", "messages": [{"role": "user", "content": [{"text": "Hi."}]}]}
COUNTED = {"inputTokens": 43, "outputTokens": 9, "totalTokens": 57, "cacheReadInputTokens": 5}


def thrown(kind: str, message: str) -> tuple[float, bytes]:
    return 0.001, eventstream.event(kind, {"message": message}, "exception")


def framed(*pairs: tuple[str, dict[str, Any]], then: Sequence[tuple[float, bytes]] = (), **more: Any) -> Scene:
    """Return an AWS event stream, one read each."""
    pieces = [(0.001, eventstream.event(kind, payload)) for kind, payload in pairs]
    return answer([*pieces, *then], content_type="application/vnd.amazon.eventstream", **more)


def parts(index: int, start: dict[str, Any] | None, *deltas: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        *([("contentBlockStart", {"contentBlockIndex": index, "start": start})] if start else []),
        *(("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"}) for delta in deltas),
        ("contentBlockStop", {"contentBlockIndex": index}),
    ]


def use(id: str, name: str, **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, **more}}


TALK = [
    ("messageStart", {"role": "assistant"}),
    *parts(
        0,
        None,
        {"reasoningContent": {"text": "Where "}},
        {"reasoningContent": {"text": "is it?"}},
        {"reasoningContent": {"signature": "EtAC"}},
    ),
    *parts(1, None, {"text": "Let me "}, {"text": "see…"}, {"citation": {"title": "d", "source": "s"}}),
    *parts(2, use("t1", "weather"), {"toolUse": {"input": '{"at": "Ro'}}, {"toolUse": {"input": 'me"}'}}),
    *parts(3, use("t2", "now"), {"toolUse": {"input": ""}}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": COUNTED, "metrics": {"latencyMs": 12}}),
]
TOLD = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Where is it?", "signature": "EtAC"}}},
                {"text": "Let me see…"},
                use("t1", "weather", input={"at": "Rome"}),
                use("t2", "now", input={}),
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": COUNTED,
    "metrics": {"latencyMs": 12},
}


def wrapped(*inner: dict[str, Any], **more: Any) -> Scene:
    """Return the stream of a model's own objects."""
    packed = [base64.b64encode(json.dumps(one).encode()).decode() for one in inner]
    return framed(*[("chunk", {"bytes": one, "p": "abc"}) for one in packed], **more)


METRICS = {"inputTokenCount": 43, "outputTokenCount": 9, "invocationLatency": 1200, "firstByteLatency": 300}
INVOKED: dict[str, list[dict[str, Any]]] = {
    "bedrock-anthropic": [START, *BLOCKS, END, STOP | {"amazon-bedrock-invocationMetrics": METRICS}],
    "bedrock-nova": [{kind: payload} for kind, payload in TALK],
}
SCENES |= {
    "bedrock-stream": framed(*TALK),
    "bedrock-whole": plain(TOLD),
    **{name: wrapped(*objects) for name, objects in INVOKED.items()},
    "bedrock-signed": framed(*TALK),
    "bedrock-refused": answer(
        [(0.0, b'{"message":"Too many tokens"}')],
        status=429,
        content_type="application/json",
        framing="length",
        headers=[("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/")],
    ),
    "bedrock-first": framed(then=[thrown("throttlingException", "Too many tokens")]),
    "bedrock-mid": framed(*TALK[:8], then=[thrown("modelStreamErrorException", "The model failed")]),
    "bedrock-cut": framed(*TALK[:8], end="fin"),
    "bedrock-short": framed(*TALK[:8], framing="close"),
}


@dataclass(slots=True)
class Converse:
    """What boto3 gives of an answer, which it does not put together itself."""

    content: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)

    def event(self, event: dict[str, Any]) -> None:
        (value,) = event.values()
        match value.get("delta") or value.get("start"):
            case {"text": text}:
                self.content += text
            case {"reasoningContent": {"text": text}}:
                self.reasoning += text
            case {"toolUse": {"toolUseId": id, "name": name}}:
                self.calls.append([id, name, ""])
            case {"toolUse": {"input": text}}:
                self.calls[-1][2] += text
        self.reason = value.get("stopReason", self.reason)
        self.usage |= value.get("usage", {})

    def whole(self, answer: dict[str, Any]) -> None:
        self.reason, self.usage = answer["stopReason"], answer["usage"]
        for block in answer["output"]["message"]["content"]:
            match block:
                case {"text": text}:
                    self.content += text
                case {"reasoningContent": {"reasoningText": thought}}:
                    self.reasoning += thought["text"]
                case {"toolUse": call}:
                    self.calls.append([call["toolUseId"], call["name"], json.dumps(call["input"])])


def ask_bedrock(relay: Relay, name: str, got: Converse, host: str = "") -> None:
    """Let boto3 ask for an answer; with a host, it signs for that instead of for the recorder."""
    import boto3
    from botocore.config import Config

    def name_host(request: Any, **_: Any) -> None:
        if host:
            request.headers["host"] = host

    config = Config(retries={"total_max_attempts": 1}, proxies={})
    session = boto3.Session(region_name="us-east-1", **KEYS)
    client: Any = session.client("bedrock-runtime", endpoint_url=f"{relay.base}/{name}", config=config)
    client.meta.events.register("before-sign", name_host)
    with contextlib.closing(client):
        if name == "bedrock-whole":
            got.whole(client.converse(**QUESTION))
        elif name in INVOKED:
            model = {"modelId": QUESTION["modelId"], "body": b"{}"}
            with contextlib.closing(client.invoke_model_with_response_stream(**model)["body"]) as stream:
                got.objects = [json.loads(event["chunk"]["bytes"]) for event in stream]
        else:
            with contextlib.closing(client.converse_stream(**QUESTION)["stream"]) as stream:
                for event in stream:
                    got.event(event)


@pytest.fixture
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine knows of AWS is not looked at."""
    for variable in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, os.devnull)


@pytest.mark.usefixtures("no_profile")
@pytest.mark.parametrize("name", ["bedrock-stream", "bedrock-whole"])
@on_loop
async def test_boto3_gets_of_converse_what_the_tape_has(relay: Relay, name: str) -> None:
    got = Converse()
    await asyncio.to_thread(ask_bedrock, relay, name, got)
    row = await measured(relay, name)
    assert (row["content"], row["reasoning"]) == (got.content, got.reasoning) == ("Let me see…", "Where is it?")
    assert calls(row) == [(id, name, json.loads(arguments or "{}")) for id, name, arguments in got.calls]
    assert len(got.calls) == 2
    assert (row["finish_reason"], row["outcome"], row["api"]) == (got.reason, "complete", "bedrock.converse")
    counts = ("input", "output", "total", "cache_read_input")
    assert [row[f"{name}_tokens"] for name in counts] == list(got.usage.values()) == list(COUNTED.values())


@pytest.mark.usefixtures("no_profile")
@pytest.mark.parametrize("name", ["bedrock-anthropic", "bedrock-nova"])
@on_loop
async def test_boto3_gets_of_an_invoked_model_what_the_tape_has(relay: Relay, name: str) -> None:
    got = Converse()
    await asyncio.to_thread(ask_bedrock, relay, name, got)
    row = await measured(relay, name)
    assert got.objects == INVOKED[name]
    assert (row["content"], row["reasoning"]) == ("Let me see…", "Where is it?")
    used = [(name, arguments) for _, name, arguments in calls(row)]
    assert used[-2:] == [("weather", {"at": "Rome"}), ("now", {})]
    assert (row["finish_reason"], row["outcome"], row["api"]) == ("tool_use", "complete", "bedrock.invoke")
    assert (row["output_tokens"], row["operation"]) == (9, "chat")


@pytest.mark.usefixtures("no_profile")
@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("bedrock-refused", ("http_error", "rate_limited"), "botocore.exceptions:ClientError"),
        ("bedrock-first", ("error_event", "before_output"), "botocore.exceptions:EventStreamError"),
        ("bedrock-mid", ("error_event", "mid_stream"), "botocore.exceptions:EventStreamError"),
        ("bedrock-cut", ("truncated", "eof"), "urllib3.exceptions:ProtocolError"),
        ("bedrock-short", ("truncated", "eof"), None),
    ],
)
@on_loop
async def test_boto3_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str | None
) -> None:
    got = Converse()
    with pytest.raises(pkgutil.resolve_name(raised)) if raised else contextlib.nullcontext() as caught:
        await asyncio.to_thread(ask_bedrock, relay, name, got)
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"], row["content"] or "") == (*outcome, got.content)
    assert (row["reasoning"] or "") == got.reasoning
    if caught and raised != "urllib3.exceptions:ProtocolError":
        error = caught.value.response["Error"]
        assert row["error_message"] == error["Message"]
        # Of a refusal, the code stands in a header only.
        assert row["error_code"] == (error["Code"] if row["outcome"] == "error_event" else None)


@pytest.mark.usefixtures("no_profile")
@on_loop
async def test_a_signature_for_the_upstream_survives_and_no_key_is_on_the_tape(relay: Relay) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    host = relay.upstream.url.partition("://")[2]
    await asyncio.to_thread(ask_bedrock, relay, "bedrock-signed", Converse(), host)
    await measured(relay, "bedrock-signed")
    asked = next(one for one in relay.upstream.requests if one.target.startswith(b"/bedrock-signed/"))
    headers = {name.decode(): value.decode() for name, value in asked.headers}
    _, _, signed, signature = headers["authorization"].replace(",", "").split()
    names = signed.partition("=")[2].split(";")
    request = AWSRequest("POST", f"http://{host}{asked.target.decode()}", {n: headers[n] for n in names}, asked.body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(*KEYS.values()), "bedrock", "us-east-1")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert signature == f"Signature={signer.signature(text, request)}"
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
    assert all(b"canary" not in file.read_bytes().lower() for file in relay.tape.parent.iterdir() if file.is_file())
