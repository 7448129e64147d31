"""Responses, Messages and completions as vLLM, AIPerf and guidellm measure them, and their omissions."""

import json

import pytest

from tests.support.cases import each_case
from tests.support.tools import (
    ARGUMENTS,
    CALL,
    COMPLETED,
    CREATED,
    DONE,
    RESPONSE,
    WORD,
    WORDS_DONE,
    measure_as,
    named,
    stream,
)
from wiretape.viewer.stats.tools.summary import measure
from wiretape.viewer.stats.tools.tools import AUTHORITIES, TOOLS


def test_responses_are_measured_from_other_events_by_each_tool():
    numbers = {tool: measure(tool, *stream(*RESPONSE)).numbers for tool in ("vllm", "aiperf", "guidellm")}
    assert numbers["vllm"] == {
        "ttft": 30, "itl": [10, 10], "e2el": 50, "output_tokens": 5, "tpot": pytest.approx(20 / 4)
    }  # fmt: skip
    assert numbers["aiperf"] == {
        "ttft": 30, "ttfo": 40, "ttst": 10, "icl": [10, 10, 10, 20], "request_latency": 80,
        "itl": pytest.approx(50 / 4), "itl_per_chunk_usage": None, "tps_user": pytest.approx(80), "output_tokens": 5,
    }  # fmt: skip
    assert numbers["guidellm"] == {
        "ttft": 20, "ttfot": 40, "itl": pytest.approx(60 / 4), "tpot": pytest.approx(80 / 5), "request_latency": 90,
        "output_tokens": 5,
    }  # fmt: skip


def test_a_text_in_its_end_answers_for_aiperf():
    numbers = measure("aiperf", *stream(CREATED, WORDS_DONE, COMPLETED)).numbers
    assert (numbers["ttft"], numbers["ttfo"], numbers["request_latency"]) == (20, 20, 20)


@each_case(
    ("tool", "events", "reason"),
    [
        ("vllm", (CREATED, CALL, ARGUMENTS, COMPLETED), "Never received a token delta to calculate TTFT."),
        ("vllm", (CREATED, WORD), "Stream ended without a terminal event."),
        ("vllm", (CREATED, WORD, named("response.failed", response={"error": {"message": "m"}})), "error event in the"),
        ("guidellm", (CREATED, WORD, named("response.failed", response={"error": {"message": "m"}})), "ValueError"),
        ("guidellm", (CREATED, CALL.replace('"output_index": 1, ', ""), COMPLETED), "KeyError: 'output_index'"),
        ("aiperf", (CREATED, WORD, named("error", code="c", message="m")), "SSEResponseError"),
        ("aiperf", (CREATED, COMPLETED), "no content response parsed"),
    ],
)
def test_a_broken_response_fails_in_the_tools_words(tool, events, reason):
    assert (measure(tool, *stream(*events)).failed or "").startswith(reason)


START = named("message_start", message={"id": "m", "type": "message", "model": "c", "usage": {"output_tokens": 1}})
THINKING = named("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "t"})
SIGNED = named("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "s"})
TEXT = named("content_block_delta", index=1, delta={"type": "text_delta", "text": "w"})
USE = named("content_block_start", index=2, content_block={"type": "tool_use", "id": "u", "name": "f", "input": {}})
INPUT = named("content_block_delta", index=2, delta={"type": "input_json_delta", "partial_json": "{}"})
STOP = named("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 6}) + named("message_stop")


def test_aiperf_measures_messages_without_tool_names():
    numbers = measure("aiperf", *stream(START, THINKING, SIGNED, TEXT, USE, INPUT, STOP)).numbers
    assert (numbers["ttft"], numbers["ttfo"], numbers["icl"], numbers["request_latency"]) == (20, 40, [20, 20], 60)
    assert (numbers["output_tokens"], numbers["itl"]) == (6, pytest.approx(40 / 5))


def completion(text, **more):
    choices = [{"index": 0, "text": text, "finish_reason": None}]
    return f"data: {json.dumps({'object': 'text_completion', 'choices': choices, **more})}\n\n"


USAGE = f"data: {json.dumps({'object': 'text_completion', 'choices': [], 'usage': {'completion_tokens': 3}})}\n\n"


@each_case("tool", ["vllm", "vllm-0.32"])
def test_a_completion_without_text_is_a_token_of_vllm(tool):
    numbers = measure(tool, *stream(completion(""), completion("a"), completion("b"), USAGE, DONE)).numbers
    assert numbers == {"ttft": 10, "itl": [10, 10], "e2el": 30, "output_tokens": 3, "tpot": pytest.approx(10)}


def test_a_textless_completion_does_not_count_for_tools():
    events = (completion(""), completion("a"), completion("b"), USAGE, DONE)
    numbers = measure("aiperf", *stream(*events)).numbers
    assert (numbers["ttft"], numbers["request_latency"], numbers["output_tokens"]) == (20, 30, 3)
    numbers = measure("guidellm", *stream(*events)).numbers
    assert (numbers["ttft"], numbers["ttfot"], numbers["request_latency"], numbers["itl"]) == (20, 20, 50, 5)


BY_API = {
    "openai.responses": RESPONSE,
    "anthropic.messages": (START, TEXT, STOP),
    "openai.completions": (completion("a"), USAGE, DONE),
    "gemini": (f"data: {json.dumps({'candidates': [{'finishReason': 'STOP'}], 'modelVersion': 'g'})}\n\n",),
}


@each_case("tool", TOOLS)
def test_a_tool_leaves_out_unmeasured_apis(tool):
    measured = {api for api, events in BY_API.items() if not measure_as(tool, [stream(*events)]).left_out}
    assert measured == {*AUTHORITIES[tool].apis} - {"openai.chat"}
