"""vLLM and SGLang on the streams where they part from others: framing, broken ends, odd deltas."""

import json

import pytest

from viewer.authorities.engines import sglang, vllm
from viewer.authorities.seen import ToolError

from .test_seen import request


def chunk(delta, **more):
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}], **more}).encode()


TEXT, TOOL = chunk({"content": "a"}), chunk({"tool_calls": [{"index": 0, "function": {"name": "f"}}]})
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("tool", [vllm, sglang])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (TEXT.replace(b"data: ", b"data:"), "JSONDecodeError on 'data:' without a space"),
        (b"event: message\n" + TEXT, "JSONDecodeError on SSE field line"),
        (TEXT + b"data: {\n\n", "JSONDecodeError on data line"),
    ],
)
def test_what_the_standard_allows_can_break_a_tool(tool, body, reason):
    with pytest.raises(ToolError, match=reason):
        tool(request(body + DONE))


@pytest.mark.parametrize("tool", [vllm, sglang])
def test_an_error_in_the_stream_and_an_early_end_are_successes(tool):
    assert tool(request(TEXT, b'data: {"error":{"message":"boom"}}\n\n'))["ttft"] == 1e-5
    assert tool(request(TEXT))["itl"] == []


@pytest.mark.parametrize("tool", [vllm, sglang])
def test_a_connection_that_breaks_is_a_failure_even_after_done(tool):
    with pytest.raises(ToolError, match="connection broke"):
        tool(request(TEXT, DONE, ended_by="eof"))


def test_vllm_drops_a_cut_event_on_which_sglang_fails():
    assert vllm(request(TEXT, TEXT[:30]))["itl"] == []
    assert vllm(request(TEXT, TEXT.strip()))["itl"] == [1e-5]
    with pytest.raises(ToolError, match="JSONDecodeError on data line"):
        sglang(request(TEXT, TEXT[:30]))


def test_a_tool_call_is_a_token_for_vllm_and_nothing_for_sglang():
    assert vllm(request(TOOL, TEXT, TOOL))["itl"] == [1e-5, 1e-5]
    assert sglang(request(TOOL, TEXT, TOOL)) == {
        "ttft": 2e-5,
        "itl": [],
        "latency": 3e-5,
        "output_tokens": None,
        "tpot": None,
    }


def test_vllm_takes_tokens_from_a_chunk_without_choices_only():
    usage = {"usage": {"completion_tokens": 3}}
    alone = b"data: %b\n\n" % json.dumps({"choices": [], **usage}).encode()
    assert vllm(request(chunk({"content": "a"}, **usage)))["output_tokens"] is None
    assert vllm(request(TEXT, TEXT, alone))["tpot"] == 5e-6
    assert sglang(request(chunk({"content": "a"}, **usage)))["output_tokens"] == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'data: {"choices":[{"message":{"content":"a"}}]}\n\n', "KeyError: 'delta'"),
        (b'data: {"choices":[{"delta":null}]}\n\n', "AttributeError"),
        (DONE, "Never received a valid chunk to calculate TTFT"),
        (b": c\n\n", "Never received a valid chunk to calculate TTFT"),
    ],
)
def test_vllm_needs_a_delta(body, reason):
    with pytest.raises(ToolError, match=reason):
        vllm(request(body))


def test_sglang_needs_a_line():
    with pytest.raises(ToolError, match="UnboundLocalError"):
        sglang(request())
    assert sglang(request(DONE))["ttft"] == 0
