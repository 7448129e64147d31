"""Langfuse, LiteLLM and OpenLLMetry: the role chunk as first token, and the kept part of a failed stream."""

import json

import pytest

from tests.support.cases import each_case
from tests.support.tools import DONE, RESPONSE, chunk, measure_as, named, stream, words
from wiretape.recorder.decode.exchange import Headers
from wiretape.viewer.stats.tools.summary import measure

TRACERS = ["langfuse", "litellm", "traceloop"]
FILTER = f"data: {json.dumps({'object': '', 'choices': [], 'prompt_filter_results': []})}\n\n"
ROLE, WORD = chunk({"role": "assistant", "content": ""}), chunk({"content": "w"})
USAGE = f"data: {json.dumps({'choices': [], 'usage': {'completion_tokens': 4}})}\n\n"
FINISH = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})}\n\n"
ERROR = f"data: {json.dumps({'error': {'message': 'm'}})}\n\n"
WHOLE = (ROLE, WORD, WORD, FINISH, USAGE, DONE)


def first_ms(tool, *events, **facts):
    numbers = measure(tool, *stream(*events, **facts)).numbers
    return numbers["ttft"] if tool == "langfuse" else numbers["ttft_s"] * 1000


@each_case("tool", TRACERS)
def test_the_role_chunk_is_the_first_token(tool):
    assert first_ms(tool, *WHOLE) == 10
    assert first_ms(tool, ": comment\n\n", *WHOLE) == 20
    assert first_ms(tool, FILTER, *WHOLE) == (20 if tool == "litellm" else 10)


def test_each_has_its_own_rate():
    assert measure("langfuse", *stream(*WHOLE)).numbers == {
        "ttft": 10, "latency": 60, "streaming": 50, "tps": pytest.approx(80), "output_tokens": 4
    }  # fmt: skip
    assert measure("litellm", *stream(*WHOLE)).numbers == {
        "ttft_s": 0.01, "latency_s": 0.06, "per_token_s": pytest.approx(0.05 / 4), "output_tokens": 4
    }  # fmt: skip
    assert measure("traceloop", *stream(*WHOLE)).numbers == {
        "ttft_s": 0.01, "duration_s": 0.06, "output_tokens": 4, "generate_s": pytest.approx(0.05)
    }  # fmt: skip


def test_langfuse_measures_responses_from_their_first_event():
    assert measure("langfuse", *stream(*RESPONSE)).numbers["ttft"] == 10


@each_case(
    ("tool", "events", "failed"),
    [
        ("langfuse", (ROLE, WORD, ERROR), None),
        ("litellm", (ROLE, WORD, ERROR), "APIError: error payload in the stream"),
        ("litellm", (ROLE, WORD), "RemoteProtocolError: stream ended before a finish_reason"),
        ("traceloop", (ROLE, WORD, ERROR), "APIError: error payload in the stream"),
        ("traceloop", (ROLE, WORD), None),
    ],
)
def test_what_breaks_a_stream_fails_where_the_sdk_raises(tool, events, failed):
    assert measure(tool, *stream(*events)).failed == failed


def test_openllmetry_times_failed_streams_and_first_chunks():
    rows = {row.metric: row for row in measure_as("traceloop", [stream(ROLE, WORD, ERROR)]).rows}
    assert rows["gen_ai.server.time_to_first_token"].p50 == 0.01
    assert rows["gen_ai.client.operation.duration"].n == 1
    assert rows["llm.chat_completions.streaming_time_to_generate"].n == 0


def test_litellm_has_bucket_percentiles_and_its_token_counts():
    report = measure_as("litellm", [stream(ROLE, WORD, FINISH, DONE)], words)
    rows = {row.metric: row for row in report.rows}
    assert rows["litellm_llm_api_latency_metric"].p50 == pytest.approx((0.025 + 0.05) / 2)
    assert rows["litellm_output_tokens_metric"].value == 1
    assert "litellm_output_tokens_metric" in measure_as("litellm", [stream(ROLE, WORD, FINISH, DONE)]).omitted


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "usage": {"input_tokens": 5}}
START = named("message_start", message=MESSAGE)
TEXT_BLOCK = named("content_block_start", index=0, content_block={"type": "text", "text": ""})
TEXT = named("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"})
STOP = named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 12})
MESSAGES = (START, TEXT_BLOCK, TEXT, TEXT, STOP, named("message_stop"))
FAULT = named("error", error={"type": "overloaded_error", "message": "m"})
PROXY = Headers(response=(("x-litellm-call-id", "1"),))


GEMINI_USAGE = {"promptTokenCount": 4, "candidatesTokenCount": 7, "totalTokenCount": 11}


def gemini(*parts, **more):
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    return (
        f"data: {json.dumps({'candidates': [candidate], 'modelVersion': 'g', 'usageMetadata': GEMINI_USAGE})}\r\n\r\n"
    )


GEMINI = (gemini(), gemini({"text": "Hm", "thought": True}), gemini({"text": "Hi"}, finishReason="STOP"))


@each_case(
    ("events", "facts", "first_s", "latency_s", "tokens"),
    [
        (MESSAGES, {}, 0.03, 0.05, 12),
        (MESSAGES, {"headers": PROXY}, 0.01, 0.06, 12),
        (GEMINI, {}, 0.02, 0.035, 7),
        (RESPONSE, {}, 0.01, 0.09, 5),
    ],
)
def test_litellm_measures_each_api_from_its_own_first_token(events, facts, first_s, latency_s, tokens):
    numbers = measure("litellm", *stream(*events, **facts)).numbers
    assert numbers == {
        "ttft_s": first_s, "latency_s": pytest.approx(latency_s), "output_tokens": tokens,
        "per_token_s": pytest.approx((latency_s - first_s) / tokens),
    }  # fmt: skip


@each_case(
    ("events", "facts", "failed"),
    [
        ((START, TEXT, FAULT), {}, "MidStreamFallbackError: error payload in the stream"),
        ((START, TEXT, FAULT), {"headers": PROXY}, None),
        ((START, TEXT), {}, "APIConnectionError: stream ended before a finish_reason"),
        ((START, TEXT), {"headers": PROXY}, None),
        (GEMINI[:2], {}, None),
        ((*GEMINI[:2], ERROR), {}, "MidStreamFallbackError: error payload in the stream"),
        (RESPONSE[:-1], {}, "APIConnectionError: the stream was closed before any terminal event"),
    ],
)
def test_litellm_fails_where_the_route_to_an_api_raises(events, facts, failed):
    assert measure("litellm", *stream(*events, **facts)).failed == failed


CHAT_ANSWER = {"object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}


@each_case(
    "answer",
    [
        CHAT_ANSWER | {"usage": {"completion_tokens": 4}},
        {
            **MESSAGE,
            "content": [{"type": "text", "text": "Hi"}],
            "stop_reason": "end_turn",
            "usage": {"output_tokens": 4},
        },
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"candidatesTokenCount": 4}},
        {"object": "response", "id": "r", "status": "completed", "output": [], "usage": {"output_tokens": 4}},
    ],
)
def test_only_litellm_lacks_a_whole_answers_first_token(answer):
    body = stream(json.dumps(answer), content_type="application/json")
    assert measure("litellm", *body).numbers == {
        "ttft_s": None, "latency_s": 0.015, "per_token_s": None, "output_tokens": 4
    }  # fmt: skip
    assert measure("langfuse", *body).left_out == "not streamed"


def test_whole_answers_of_other_requests_are_left_out():
    embeddings = {
        "object": "list",
        "data": [{"object": "embedding", "embedding": [0.1]}],
        "usage": {"prompt_tokens": 1},
    }
    body = stream(json.dumps(embeddings), content_type="application/json")
    assert measure("litellm", *body).left_out == "not streamed"


@each_case("tool", TRACERS)
def test_timings_of_llamacpp_are_no_usage_for_a_tool(tool):
    timings = f"data: {json.dumps({'choices': [], 'timings': {'prompt_n': 3, 'predicted_n': 9}})}\n\n"
    assert measure(tool, *stream(ROLE, WORD, FINISH, timings, DONE)).numbers["output_tokens"] is None
