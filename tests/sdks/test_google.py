"""Google's SDK: answers in events, in an array and whole; embeddings; errors."""

import contextlib
import json
import pkgutil
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.relay import Relay, on_loop
from tests.support.sdks import calls, measured, plain
from wiretape.recorder.demo.upstream import Scene, answer

if TYPE_CHECKING:
    from google import genai


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


SCENES: dict[str, Scene] = {
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
