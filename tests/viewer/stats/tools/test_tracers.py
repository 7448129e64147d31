"""Langfuse, LiteLLM and OpenLLMetry: the role chunk as first token, and the kept part of a failed stream."""

import json

import pytest

from tests.support.cases import each_case
from tests.support.tools import DONE, RESPONSE, chunk, measure_as, stream, words
from wiretape.viewer.stats.tools.summary import measure

TRACERS = ["langfuse", "litellm", "traceloop"]
FILTER = f"data: {json.dumps({'object': '', 'choices': [], 'prompt_filter_results': []})}\n\n"
ROLE, WORD = chunk({"role": "assistant", "content": ""}), chunk({"content": "w"})
USAGE = f"data: {json.dumps({'choices': [], 'usage': {'completion_tokens': 4}})}\n\n"
FINISH = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})}\n\n"
ERROR = f"data: {json.dumps({'error': {'message': 'm'}})}\n\n"
WHOLE = (ROLE, WORD, WORD, FINISH, USAGE, DONE)


def first_ms(tool, *events, **facts):
    found = measure(tool, *stream(*events, **facts)).numbers
    return found["ttft"] if tool == "langfuse" else found["ttft_s"] * 1000


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


def test_openllmetry_has_the_first_chunk_and_the_duration_of_a_failed_stream():
    rows = {row.metric: row for row in measure_as("traceloop", [stream(ROLE, WORD, ERROR)]).rows}
    assert rows["gen_ai.server.time_to_first_token"].p50 == 0.01
    assert rows["gen_ai.client.operation.duration"].n == 1
    assert rows["llm.chat_completions.streaming_time_to_generate"].n == 0


def test_litellm_has_percentiles_of_its_buckets_and_counts_tokens_itself():
    report = measure_as("litellm", [stream(ROLE, WORD, FINISH, DONE)], words)
    rows = {row.metric: row for row in report.rows}
    assert rows["litellm_llm_api_latency_metric"].p50 == pytest.approx((0.025 + 0.05) / 2)
    assert rows["litellm_output_tokens_metric"].value == 1
    assert "litellm_output_tokens_metric" in measure_as("litellm", [stream(ROLE, WORD, FINISH, DONE)]).omitted
