"""vLLM and SGLang on the streams where they part from others: framing, broken ends, odd deltas."""

import json

import pytest

from tests.support.cases import each_case
from tests.support.tools import request
from wiretape.viewer.stats.tools.request import ToolError
from wiretape.viewer.wings.tools.engines import sglang, vllm, vllm_0_32


def chunk(delta, **more):
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}], **more}).encode()


TEXT, TOOL = chunk({"content": "a"}), chunk({"tool_calls": [{"index": 0, "function": {"name": "f"}}]})
DONE = b"data: [DONE]\n\n"


@each_case("tool", [vllm, vllm_0_32, sglang])
@each_case(
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


@pytest.mark.parametrize("tool", [vllm, vllm_0_32, sglang])
def test_stream_errors_and_early_ends_are_successes(tool):
    assert tool(request(TEXT, b'data: {"error":{"message":"boom"}}\n\n'))["ttft"] == 1e-5
    assert tool(request(TEXT))["itl"] == []


@pytest.mark.parametrize("tool", [vllm, vllm_0_32, sglang])
def test_a_broken_connection_fails_even_after_done(tool):
    with pytest.raises(ToolError, match="connection broke"):
        tool(request(TEXT, DONE, ended_by="eof"))


def test_vllm_drops_a_cut_event_on_which_sglang_fails():
    assert vllm(request(TEXT, TEXT[:30]))["itl"] == []
    assert vllm(request(TEXT, TEXT.strip()))["itl"] == [1e-5]
    with pytest.raises(ToolError, match="JSONDecodeError on data line"):
        sglang(request(TEXT, TEXT[:30]))


def test_a_tool_call_is_a_token_only_for_vllm():
    assert vllm(request(TOOL, TEXT, TOOL))["itl"] == [1e-5, 1e-5]
    result = sglang(request(TOOL, TEXT, TOOL))
    assert (result["ttft"], result["itl"], result["latency"], result["tpot"]) == (2e-5, [], 3e-5, None)


USAGE = {"usage": {"completion_tokens": 3}}
ALONE = b"data: %b\n\n" % json.dumps({"choices": [], **USAGE}).encode()


def test_vllm_takes_tokens_from_a_chunk_without_output():
    assert vllm(request(chunk({"content": "a"}, **USAGE)))["output_tokens"] is None
    assert vllm(request(TEXT, TEXT, ALONE))["tpot"] == 5e-6
    assert vllm(request(TEXT, TEXT, chunk({}, **USAGE)))["output_tokens"] == 3
    assert vllm_0_32(request(TEXT, TEXT, chunk({}, **USAGE)))["output_tokens"] is None
    assert sglang(request(chunk({"content": "a"}, **USAGE)))["output_tokens"] == 3


ROLE, FINISH = chunk({"role": "assistant", "content": ""}), chunk({})


@each_case(
    ("delta", "counts"),
    [
        ({"content": "b"}, True),
        ({"reasoning": "b"}, True),
        ({"reasoning_content": "b"}, False),
        ({"tool_calls": [{"index": 0}]}, True),
        ({"function_call": {"name": "f"}}, True),
        ({"content": ""}, True),
        ({"content": "", "role": "assistant"}, False),
        ({"role": "assistant"}, False),
        ({"content": None}, False),
        ({}, False),
    ],
)
def test_vllm_0_33_counts_output_and_tokens_without_text(delta, counts):
    assert vllm(request(TEXT, chunk(delta)))["itl"] == ([1e-5] if counts else [])
    assert vllm_0_32(request(TEXT, chunk(delta)))["itl"] == [1e-5]


def test_vllm_0_32_measures_from_role_to_finish_chunk():
    body = (ROLE, TEXT, TEXT, FINISH, ALONE, DONE)
    assert [vllm(request(*body))[key] for key in ("ttft", "e2el", "tpot")] == [2e-5, 3e-5, 5e-6]
    assert [vllm_0_32(request(*body))[key] for key in ("ttft", "e2el", "tpot")] == [1e-5, 4e-5, 1.5e-5]


def test_vllm_before_0_33_loses_reads_behind_comments():
    body = (b": c\n\n", ROLE, TEXT, TEXT)
    assert vllm(request(*body))["itl"] == [1e-5]
    with pytest.raises(ToolError, match="Never received a valid chunk"):
        vllm_0_32(request(*body))
    assert vllm_0_32(request(b": c\n\n", ROLE + TEXT, TEXT))["itl"] == [1e-5]


def test_vllm_takes_an_event_when_its_json_is_whole():
    assert vllm(request(TEXT[:-1], b"\n"))["ttft"] == 1e-5
    # The rest of the read that ends the event waits for its own blank line.
    assert vllm(request(TEXT[:-1], b"\n" + TEXT[:-2], b"\n\n"))["itl"] == [2e-5]
    assert vllm(request(TEXT[:20], TEXT[20:]))["ttft"] == 2e-5


def test_vllm_reads_crlf_an_event_a_read():
    crlf = TEXT.replace(b"\n\n", b"\r\n\r\n")
    assert vllm(request(crlf, crlf))["itl"] == [1e-5]
    with pytest.raises(ToolError, match="Never received a valid chunk"):
        vllm(request(crlf + crlf))


@each_case(
    ("body", "reason"),
    [
        (b'data: {"choices":[{"message":{"content":"a"}}]}\n\n', "KeyError: 'delta'"),
        (b'data: {"choices":[{"delta":null}]}\n\n', "AttributeError"),
        (b'data: {"choices":[1],"usage":null}\n\n', "AttributeError"),
        (DONE, "Never received a valid chunk to calculate TTFT"),
        (b": c\n\n", "Never received a valid chunk to calculate TTFT"),
    ],
)
def test_vllm_needs_a_delta(body, reason):
    with pytest.raises(ToolError, match=reason):
        vllm_0_32(request(body))
    with pytest.raises(ToolError, match=r"Never received a valid chunk|AttributeError"):
        vllm(request(body))


def test_a_hostile_body_does_not_cost_vllms_square():
    reads = [b"data: {"] + [b'"a":{\n'] * 20_000
    with pytest.raises(ToolError, match="Never received a valid chunk"):
        vllm(request(*reads))


def test_sglang_needs_a_line():
    with pytest.raises(ToolError, match="UnboundLocalError"):
        sglang(request())
    assert sglang(request(DONE))["ttft"] == 0
