"""Google's SDK with its Interactions API: steps in events, and answers that go on in a further request."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.relay import Relay, on_loop, select, until
from tests.support.sdks import calls, measured
from tests.support.wires import CONTENT, INTERACTIONS, REASONING
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer


def streamed(*payloads: dict[str, Any], **more: Any) -> Scene:
    """Return a stream of events, one read each, and the mark of its end."""
    events = [f"event: {one['event_type']}\ndata: {json.dumps(one)}\n\n".encode() for one in payloads]
    return answer([*((0.001, one) for one in events), (0.0, b"event: done\ndata: [DONE]\n\n")], **more)


def part(id: str, text: str, status: str, **more: Any) -> Scene:
    """Return a stream of one text that ends with a status."""
    head = {"id": id, "object": "interaction", "model": "gemini-x", "status": "in_progress"}
    return streamed(
        {"event_type": "interaction.created", "interaction": head},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": text}},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": {**head, "status": status, **more}},
    )


def in_parts(asked: ReceivedRequest) -> Scene:
    """Return the part of an answer that a request asks for."""
    if json.loads(asked.body).get("continuation_token") == "t1":
        return part("v1_b", "a time.", "completed")
    return part("v1_a", "Once upon ", "requires_continuation", continuation_token="t1")


SCENES = {
    "steps": streamed(*INTERACTIONS),
    "cut": streamed(*INTERACTIONS[:10]),
    "failed": part("v1_f", "Oh", "failed"),
    "stored": in_parts,
    "unstored": in_parts,
}


async def events(relay: Relay, name: str, **more: Any) -> AsyncIterator[Any]:
    """Yield the events that Google's SDK gets."""
    from google import genai

    options = genai.types.HttpOptions(base_url=f"{relay.base}/{name}")
    async with genai.Client(api_key="k", http_options=options).aio as client:
        stream: Any = await client.interactions.create(model="gemini-x", input="Rain?", stream=True, **more)
        async for one in stream:
            yield one


def said(got: list[Any]) -> tuple[str, str, str]:
    """Return the text, the thoughts and the arguments that an SDK's events have."""
    deltas = [one.delta for one in got if one.event_type == "step.delta"]
    return (
        "".join(one.text for one in deltas if one.type == "text"),
        "".join(one.content.text for one in deltas if one.type == "thought_summary"),
        "".join(one.arguments for one in deltas if one.type == "arguments_delta"),
    )


@on_loop
async def test_the_sdk_gets_the_steps_that_the_tape_has(relay: Relay) -> None:
    got = [one async for one in events(relay, "steps")]
    row = await measured(relay, "steps")
    ((id, name, arguments),) = calls(row)
    assert (row["content"], row["reasoning"], json.dumps(arguments, separators=(",", ":"))) == said(got)
    assert (row["content"], row["reasoning"]) == (CONTENT, REASONING)
    (begun,) = (one.step for one in got if one.event_type == "step.start" and one.step.type == "function_call")
    last = got[-1].interaction
    assert (id, name, row["response_id"], row["response_model"]) == (begun.id, begun.name, last.id, last.model)
    assert (row["outcome"], row["finish_reason"], row["operation"]) == ("complete", last.status, "generate_content")
    assert row["output_tokens"] == last.usage.total_output_tokens + last.usage.total_thought_tokens
    assert (row["input_tokens"], row["total_tokens"]) == (last.usage.total_input_tokens, last.usage.total_tokens)


@pytest.mark.parametrize(
    ("name", "outcome"), [("cut", ("truncated", "eof")), ("failed", ("error_event", "mid_stream"))]
)
@on_loop
async def test_the_sdk_cannot_tell_broken_answers_but_tapes_can(
    relay: Relay, name: str, outcome: tuple[str, str]
) -> None:
    got = [one async for one in events(relay, name)]
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"]) == outcome
    assert row["content"] == said(got)[0]


@pytest.mark.parametrize(("name", "more"), [("stored", {}), ("unstored", {"store": False})])
@on_loop
async def test_an_answer_that_the_sdk_continues_is_one_conversation(
    relay: Relay, name: str, more: dict[str, Any]
) -> None:
    assert said([one async for one in events(relay, name, **more)])[0] == "Once upon a time."
    statement = "SELECT m.* FROM measures m JOIN exchanges e ON e.no = m.exchange_no WHERE e.path LIKE ? ORDER BY e.no"
    rows: list[Any] = []

    def are_measured() -> bool:
        rows[:] = select(relay.tape, statement, f"/{name}/%")
        return len(rows) == 2

    await until(are_measured)
    first, second = rows
    assert (first["content"], first["finish_reason"]) == ("Once upon ", "requires_continuation")
    assert (second["content"], second["finish_reason"]) == ("a time.", "completed")
    assert ["continuation" in row["flags"].split() for row in (first, second)] == [False, True]
    is_named = second["previous_response_id"] == first["response_id"]
    assert is_named or second["continues_hash"] == first["messages_hash"]
