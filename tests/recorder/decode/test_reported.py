"""The times and quotas that servers report in headers and bodies, and the trace of a request."""

import json

import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Headers, Read, Reads, Sent
from wiretape.recorder.decode.reported import BODY, HEADERS, QUOTAS

MS = 1_000_000
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
TIMES = ("server_queue_ns", "server_prefill_ns", "server_decode_ns", "server_total_ns", "server_times_from")
QUOTA_FIELDS = (*QUOTAS, "quota_5h_percent", "quota_7d_percent")
REQUEST = RecordedRequest([], b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}')


def measured(last=None, response=(), request=(), path="/v1/chat/completions", **facts):
    """Measure a stream of chat whose head came after 50 ms and whose end after 400 ms; `last` is in its last chunk."""
    choices = [{"index": 0, "delta": {"content": "Hi"}}], [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    chunks = [{"id": "c", "model": "m", "choices": choice} for choice in choices]
    chunks[1] |= {"usage": USAGE} | (last or {})
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"
    headers = Headers(tuple(request), tuple(response))
    known = {"status": 200, "content_type": "text/event-stream", "ended_by": "end", "framing": "chunked", "path": path}
    known |= {"headers_ns": 50 * MS, "end_ns": 400 * MS, "headers": headers, "method": "POST"}
    return derive(Exchange(**known | facts), [Read(0, 400 * MS, None, 0, len(body))], body)


def values(measures, names=TIMES):
    return tuple(getattr(measures, name) for name in names)


@each_case(
    ("last", "times", "network_ms"),
    [
        ({"timings": {"prompt_ms": 40.5, "predicted_ms": 200}}, (None, 40.5, 200, 240.5, "timings"), 159.5),
        (
            {"metrics": {"queue_time_ms": 10, "time_to_first_token_ms": 30, "generation_time_ms": 60}},
            (10, 30, 60, 100, "metrics"), 300,
        ),
        (
            {"time_info": {"queue_time": 0.01, "prompt_time": 0.02, "completion_time": 0.05, "total_time": 0.1}},
            (10, 20, 50, 100, "time_info"), 300,
        ),
        (
            {"x_groq": {"usage": USAGE | {"queue_time": 0.1, "prompt_time": 0.02, "completion_time": 0.03,
                                          "total_time": 0.05}}},
            (100, 20, 30, 50, "x_groq.usage"), 250,
        ),
        (
            {"perf_metrics": {"prefill-duration": "0.05", "server-processing-time": "0.3"}},
            (None, 50, None, 300, "perf_metrics"), 100,
        ),
        (
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop",
                          "meta_info": {"queue_time": 0.01, "e2e_latency": 0.35}}]},
            (10, None, None, 350, "choices[0].meta_info"), 50,
        ),
    ],
)  # fmt: skip
def test_times_of_bodies_are_those_of_the_server(last, times, network_ms):
    *expected, source = times
    measures = measured(last)
    assert values(measures) == (*(None if time is None else time * MS for time in expected), source)
    assert measures.network_ns == network_ms * MS


def test_whole_answers_of_no_known_api_report_times_too():
    body = json.dumps({"text": "Hi", "meta_info": {"queue_time": 0.01, "e2e_latency": 0.3}}).encode()
    facts = {"status": 200, "content_type": "application/json", "ended_by": "end", "path": "/generate"}
    measures = derive(Exchange(**facts, end_ns=400 * MS), [Read(0, 400 * MS, None, 0, len(body))], body)
    assert values(measures) == (10 * MS, None, None, 300 * MS, "meta_info")
    assert measures.network_ns == 100 * MS


def test_ollama_reports_nanoseconds_in_its_last_line():
    lines = [{"model": "m", "message": {"content": "Hi"}, "done": False}, {
        "model": "m", "message": {"content": ""}, "done": True, "total_duration": 900, "load_duration": 100,
        "prompt_eval_duration": 300, "eval_duration": 400, "eval_count": 1}]  # fmt: skip
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    facts = {"status": 200, "content_type": "application/x-ndjson", "ended_by": "end", "path": "/api/chat"}
    measures = derive(Exchange(**facts, end_ns=1000), [Read(0, 1000, None, 0, len(body))], body)
    assert values(measures) == (None, 300, 400, 900, ".")
    assert measures.network_ns == 100


@each_case("source", HEADERS)
def test_a_headers_total_ends_at_the_response_head(source):
    header, seconds = source.total, source.unit_ns > MS
    measures = measured(response=[(header, "0.02" if seconds else "20")])
    assert values(measures) == (None, None, None, 20 * MS, header)
    assert measures.network_ns == 30 * MS


def test_bodies_are_believed_before_headers_and_servers_before_proxies():
    headers = [("x-envoy-upstream-service-time", "30"), ("openai-processing-ms", "20")]
    assert measured(response=headers).server_times_from == "openai-processing-ms"
    assert measured({"timings": {"prompt_ms": 1}}, headers).server_times_from == "timings"


@each_case("value", [-1, float("nan"), 1e300, 10**400, "5", True, None, [5], {"a": 5}, 86_400_001])
def test_hostile_times_are_unknown(value):
    measures = measured({"timings": {"prompt_ms": value, "predicted_ms": 2}})
    assert values(measures) == (None, None, 2 * MS, None, "timings")
    assert measures.network_ns is None


@each_case("value", ["-1", "nan", "inf", "1e3", "", "0x10", "9" * 30, "5 6", "٣"])
def test_hostile_headers_are_unknown(value):
    names = [*(source.place for source in HEADERS), *(name for names in QUOTAS.values() for name in names)]
    names += ["anthropic-ratelimit-unified-5h-utilization", "x-codex-primary-used-percent"]
    measures = measured(response=[(name, value) for name in names])
    assert {*values(measures), *values(measures, QUOTA_FIELDS), measures.network_ns} == {None}


def test_times_beyond_the_exchange_are_kept_without_a_network():
    measures = measured({"timings": {"prompt_ms": 500, "predicted_ms": 500}})
    assert (measures.server_total_ns, measures.network_ns) == (1000 * MS, None)


@each_case("key", [source.place for source in BODY if source.place not in (".", "usage")])
def test_a_place_with_anything_else_is_no_source(key):
    holder = {key.partition(".")[0].partition("[")[0]: [1, "x", None]}
    if "choices" not in holder:
        assert values(measured(holder)) == (None,) * 5


@each_case(
    ("headers", "quotas"),
    [
        ({"x-ratelimit-remaining-requests": "59", "x-ratelimit-remaining-tokens": "149984"}, (59, 149_984, None, None)),
        (
            {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-tokens-remaining": "80000"},
            (0, 80_000, None, None),
        ),
        (
            {
                "anthropic-ratelimit-unified-5h-utilization": "0.29",
                "anthropic-ratelimit-unified-7d-utilization": "1.02",
            },
            (None, None, 29, 102),
        ),
        ({"x-codex-primary-used-percent": "42.5", "x-codex-secondary-used-percent": "13"}, (None, None, 42.5, 13)),
        ({"x-codex-primary-used-percent": "7", "x-codex-primary-window-minutes": "10079"}, (None, None, None, 7)),
        ({"x-codex-primary-used-percent": "7", "x-codex-primary-window-minutes": "60"}, (None,) * 4),
    ],
)
def test_quotas_of_headers_are_fields(headers, quotas):
    assert values(measured(response=headers.items()), QUOTA_FIELDS) == quotas


def test_a_refusal_reports_quotas_too():
    measures = measured(response=[("x-ratelimit-remaining-requests", "0")], status=429)
    assert (measures.outcome, measures.quota_requests_left) == ("http_error", 0)


def test_an_event_of_codex_names_its_quotas():
    windows = {"primary": {"used_percent": 40, "window_minutes": 300}, "secondary": {"used_percent": 5.5}}
    event = {"type": "codex.rate_limits", "rate_limits": windows}
    delta = {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "Hi"}
    body = b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in (event, delta))
    exchange = Exchange(status=200, content_type="text/event-stream", ended_by="end", path="/responses")
    assert values(derive(exchange, [], body), QUOTA_FIELDS) == (None, None, 40, 5.5)


def test_times_of_a_handshake_are_not_those_of_answers():
    headers = Headers((), (("openai-processing-ms", "20"), ("x-codex-primary-used-percent", "4")))
    exchange = Exchange(status=101, framing="websocket", ended_by="end", headers_ns=50 * MS, headers=headers,
                        sent=Sent(Reads.of([]), b""))  # fmt: skip
    measures = derive(exchange, [], b"")
    assert (values(measures), measures.quota_5h_percent) == ((None,) * 5, 4)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_whole_answer_has_the_values_of_its_headers(is_plain):
    message = {"role": "assistant", "content": "Hi"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE,
              "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip
    body = json.dumps(answer if is_plain else answer | {"more": []}).encode()
    headers = Headers((("traceparent", f"00-{'a' * 32}-{'b' * 16}-01"),), (("openai-processing-ms", "20"),))
    exchange = Exchange(status=200, method="POST", path="/v1/chat/completions", content_type="application/json",
                        framing="length", ended_by="end", headers_ns=50 * MS, end_ns=60 * MS, headers=headers,
                        connection_reused=True)  # fmt: skip
    measures = derive(exchange, [Read(0, 55 * MS, None, 0, len(body))], body, request=REQUEST)
    assert (measures.server_total_ns, measures.network_ns, measures.trace_id) == (20 * MS, 30 * MS, "a" * 32)


@each_case(
    "parent",
    [
        f"00-{'0' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'0' * 16}-01", f"00-{'A' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'b' * 16}-01-x", f"ff-{'a' * 32}-{'b' * 16}-01", "", "00",
    ],
)  # fmt: skip
def test_an_invalid_traceparent_names_no_trace(parent):
    assert measured(request=[("traceparent", parent)]).trace_id is None


def test_two_traceparents_name_no_trace():
    assert measured(request=[("traceparent", f"00-{letter * 32}-{'b' * 16}-01") for letter in "ab"]).trace_id is None
