"""AIPerf and guidellm on the streams where they part from each other."""

import json

import pytest

from tests.support.cases import each_case
from tests.support.tools import request
from wiretape.viewer.stats.tools.request import ToolError
from wiretape.viewer.wings.tools.clients import aiperf, guidellm

DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"boom","code":502}}\n\n'
CLIENTS = [aiperf, guidellm]


def event(payload, name=""):
    return name.encode() + b"data: %b\n\n" % json.dumps(payload).encode()


def chunk(delta, **more):
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}], **more})


TEXT, THOUGHT = chunk({"content": "a"}), chunk({"reasoning": "r"})
TOOL = chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]})
BARE_TOOL = chunk({"tool_calls": [{"index": 0, "id": "x"}]})


def test_an_error_in_the_stream_fails_guidellm():
    with pytest.raises(ToolError):
        guidellm(request(TEXT, ERROR, DONE))


@pytest.mark.parametrize("event", [b"event: error\n" + ERROR, b"event:ERROR\ndata: x\n\n", b"event: error\n\n"])
def test_aiperf_fails_only_on_events_named_error(event):
    assert aiperf(request(TEXT, ERROR, TEXT, DONE))["icl"] == [2e-5]
    with pytest.raises(ToolError, match="SSEResponseError"):
        aiperf(request(TEXT, event, DONE))
    with pytest.raises(ToolError, match="no content response parsed"):
        aiperf(request(ERROR, DONE))


def test_aiperf_takes_any_2xx_for_a_success():
    assert aiperf(request(TEXT, status=202))["ttft"] == 1e-5
    with pytest.raises(ToolError, match="HTTP 404"):
        aiperf(request(TEXT, status=404))


@each_case("client", CLIENTS)
def test_an_early_end_succeeds_unless_connections_break(client):
    assert client(request(TEXT))["ttft"] == 1e-5
    with pytest.raises(ToolError, match="connection broke"):
        client(request(TEXT, ended_by="reset"))


def test_guidellm_reads_no_further_than_done():
    assert guidellm(request(TEXT, DONE, b"data: {\n\n", ended_by="reset"))["request_latency"] == 2e-5


@each_case(("client", "count"), [(aiperf, 3), (guidellm, 4)])
def test_clients_differ_in_what_output_is(client, count):
    result = client(request(THOUGHT, BARE_TOOL, TOOL, TEXT))
    assert result["ttft"] == 1e-5
    if client is aiperf:
        assert len(result["icl"]) + 1 == count
        assert result["ttfo"] == 3e-5
    if client is guidellm:
        assert (result["output_tokens"], result["ttfot"]) == (count, 2e-5)


def test_aiperf_skips_unreadable_data_where_guidellm_fails():
    assert aiperf(request(TEXT, b"data: {\n\n", DONE))["icl"] == []
    with pytest.raises(ToolError, match="JSONDecodeError on data line"):
        guidellm(request(TEXT, b"data: {\n\n", DONE))


def test_aiperf_reads_messages_and_deltas_by_the_object_only():
    message = event({"object": "chat.completion", "choices": [{"message": {"content": "a"}}]})
    assert aiperf(request(message))["ttft"] == 1e-5
    with pytest.raises(ToolError, match=r"no content response parsed$"):
        aiperf(request(event({"choices": [{"delta": {"content": "a"}}]})))
    with pytest.raises(ToolError, match="error event"):
        aiperf(request(TEXT, event({"message": "m"}, "event: error\n")))


def test_aiperf_has_no_rate_where_all_came_at_once():
    result = aiperf(request(TEXT + TEXT + event({"choices": [], "usage": {"completion_tokens": 2}})))
    assert (result["itl"], result["tps_user"], result["itl_per_chunk_usage"]) == (0, None, None)


def test_guidellm_reads_any_data_line_and_no_other():
    glued = b"event: message\n: c\ndata:" + TEXT[6:]
    assert guidellm(request(glued))["ttft"] == 1e-5
    assert guidellm(request(TEXT, b"data:[DONE]\n\n", TEXT))["request_latency"] == 2e-5
    assert guidellm(request(TEXT, b"data: null\n\n", b"data: {\n\n"))["request_latency"] == 2e-5
    with pytest.raises(ToolError, match="JSONDecodeError on 'data:' without a space"):
        guidellm(request(TEXT, b"data:{\n\n"))
    with pytest.raises(ToolError, match="JSONDecodeError on data line"):
        guidellm(request('data: {"choices":[{"delta":{"content":"a\u2028b"}}]}\n\n'.encode()))


def test_guidellm_needs_text_a_tool_call_or_tokens():
    for body in (DONE, THOUGHT, chunk({"content": " "})):
        with pytest.raises(ToolError, match="empty response payload"):
            guidellm(request(body))
    counted = guidellm(request(THOUGHT, THOUGHT, event({"choices": [], "usage": {"completion_tokens": 5}})))
    assert (counted["output_tokens"], counted["itl"], counted["ttfot"]) == (5, 2.5e-6, None)
    assert guidellm(request(event({"choices": [], "usage": {"completion_tokens": 5}})))["ttft"] is None
    with pytest.raises(ToolError, match="KeyError: 'index' of a tool call"):
        guidellm(request(chunk({"tool_calls": [{"function": {"name": "f"}}]})))
