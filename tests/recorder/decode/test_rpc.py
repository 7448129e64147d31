import base64
import gzip
import itertools
import json
import struct

import brotli
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.compressors import zstd
from tests.support.decoding import MS, cut_everywhere, derived
from tests.support.rpc import end_stream, message, of_json, trailers
from wiretape.recorder.decode import decoder, rpc
from wiretape.recorder.decode.exchange import Exchange, Headers, Read

PROTO = message(b"\x0a\x05hello")
OK = trailers("grpc-status: 0\r\n")
GRPC = "application/grpc"
WEB = "application/grpc-web+proto"
CONNECT = "application/connect+proto"
CONNECT_JSON = "application/connect+json"


def answered(*trailers, head=()):
    return Headers((), tuple(head), trailers)


SUCCEEDED = answered(("grpc-status", "0"))


def verdict(body, content_type=GRPC, headers=SUCCEEDED, **facts):
    facts = {"framing": "h2", "path": "/a.B/C", **facts}
    return derived(body, content_type=content_type, headers=headers, **facts)


def ending(measures):
    return measures.outcome, measures.outcome_detail, measures.error_code, measures.error_message


@each_case(
    ("content_type", "framing", "is_json"),
    [
        ("application/grpc", "grpc", False),
        ("application/grpc+proto", "grpc", False),
        ("application/grpc+json", "grpc", True),
        ("Application/GRPC+JSON; charset=utf-8", "grpc", True),
        ("application/grpc-web", "grpc-web", False),
        ("application/grpc-web+json", "grpc-web", True),
        ("application/grpc-web-text", "grpc-web", False),
        ("application/grpc-web-text+proto", "grpc-web", False),
        ("application/connect+proto", "connect", False),
        ("application/connect+json", "connect", True),
    ],
)
def test_the_content_type_names_the_framing(content_type, framing, is_json):
    assert rpc.message_type(content_type) == (framing, is_json)


@each_case(
    "content_type",
    [None, "", "application/json", "application/proto", "application/connect", "application/grpc-status", "text/grpc"],
)
def test_unary_connect_calls_are_no_stream_of_messages(content_type):
    assert rpc.message_type(content_type) is None


@each_case(
    ("body", "content_type", "headers", "expected"),
    [
        (PROTO * 2, GRPC, SUCCEEDED, ("complete", None, None, None)),
        (b"", GRPC, SUCCEEDED, ("complete", None, None, None)),
        (b"", GRPC, answered(head=[("grpc-status", "0")]), ("complete", None, None, None)),
        (
            b"", GRPC, answered(head=[("grpc-status", "8"), ("grpc-message", "quota%20of%20%C3%A9t%C3%A9")]),
            ("error_event", "before_output", "resource_exhausted", "quota of été"),
        ),
        (
            b"", GRPC, answered(("grpc-status", "14"), ("grpc-message", "%zz%FF")),
            ("error_event", "before_output", "unavailable", "%zz\ufffd"),
        ),
        (PROTO, GRPC, answered(("grpc-status", "4")), ("error_event", "mid_stream", "deadline_exceeded", None)),
        (PROTO, GRPC, answered(("grpc-status", "1")), ("error_event", "mid_stream", "cancelled", None)),
        (PROTO, GRPC, answered(("grpc-status", "99")), ("error_event", "mid_stream", "99", None)),
        (PROTO, GRPC, answered(("grpc-status", "")), ("error_event", "mid_stream", "unknown", None)),
        (PROTO, GRPC, answered(), ("truncated", "no_status", None, None)),
        (b"", GRPC, answered(), ("truncated", "no_status", None, None)),
        (PROTO, GRPC, answered(head=[("grpc-status", "0")]), ("truncated", "no_status", None, None)),
        (PROTO[:-1], GRPC, SUCCEEDED, ("truncated", "framing", None, None)),
        (PROTO + OK, WEB, answered(), ("complete", None, None, None)),
        (PROTO + trailers("Grpc-Status:0"), WEB, answered(), ("complete", None, None, None)),
        (
            PROTO + trailers("grpc-status:5\r\ngrpc-message:no%20model\r\n"), WEB, answered(),
            ("error_event", "mid_stream", "not_found", "no model"),
        ),
        (trailers("grpc-status:5"), WEB, answered(), ("error_event", "before_output", "not_found", None)),
        (b"", WEB, answered(head=[("grpc-status", "16")]), ("error_event", "before_output", "unauthenticated", None)),
        (PROTO, WEB, answered(), ("truncated", "no_status", None, None)),
        (PROTO + trailers("x: y"), WEB, answered(), ("truncated", "no_status", None, None)),
        (PROTO + end_stream(), CONNECT, answered(), ("complete", None, None, None)),
        (PROTO + end_stream({"metadata": {"a": ["b"]}}), CONNECT, answered(), ("complete", None, None, None)),
        (
            PROTO + end_stream({"error": {"code": "unavailable", "message": "later", "details": []}}), CONNECT,
            answered(), ("error_event", "mid_stream", "unavailable", "later"),
        ),
        (
            end_stream({"error": {"code": "resource_exhausted"}}), CONNECT, answered(),
            ("error_event", "before_output", "resource_exhausted", None),
        ),
        (end_stream({"error": {}}), CONNECT, answered(), ("error_event", "before_output", "unknown", None)),
        (end_stream({"error": 7}), CONNECT, answered(), ("error_event", "before_output", "unknown", None)),
        (PROTO, CONNECT, answered(), ("truncated", "no_status", None, None)),
        (PROTO, CONNECT, SUCCEEDED, ("truncated", "no_status", None, None)),
        (PROTO + message("no json", 2), CONNECT, answered(), ("truncated", "no_status", None, None)),
        (PROTO + message("[]", 2), CONNECT, answered(), ("truncated", "no_status", None, None)),
        (b"", CONNECT, answered(), ("truncated", "no_status", None, None)),
    ],
)  # fmt: skip
def test_the_status_of_a_call_is_its_outcome(body, content_type, headers, expected):
    assert ending(verdict(body, content_type, headers)) == expected


@each_case(
    ("facts", "expected"),
    [
        ({"ended_by": "client"}, ("client_closed", None)),
        ({"ended_by": "client", "reset_code": "rst_cancel"}, ("client_closed", "rst_cancel")),
        ({"ended_by": "client_stalled"}, ("client_closed", "stalled")),
        ({"ended_by": "idle_timeout"}, ("timeout", "idle")),
        ({"ended_by": "reset", "reset_code": "rst_internal_error"}, ("truncated", "rst_internal_error")),
        ({"ended_by": "eof"}, ("truncated", "eof")),
        ({"ended_by": "died"}, ("interrupted", None)),
        ({"ended_by": "end", "status": 503}, ("http_error", "server_error")),
        ({"ended_by": "end", "clock": "imported"}, ("complete", None)),
        ({"ended_by": "end", "gap_bytes": 7}, ("complete", None)),
    ],
)
def test_a_missing_status_is_the_last_cause(facts, expected):
    measures = verdict(PROTO, headers=answered(), **facts)
    assert (measures.outcome, measures.outcome_detail) == expected


def test_an_http_error_reports_the_calls_status():
    measures = verdict(b"", headers=answered(head=[("grpc-status", "14"), ("grpc-message", "down")]), status=503)
    assert ending(measures) == ("http_error", "server_error", "unavailable", "down")


def test_a_unary_error_of_connect_keeps_its_http_outcome():
    body = json.dumps({"code": "resource_exhausted", "message": "no quota"})
    measures = verdict(body, "application/json", answered(), status=429)
    assert ending(measures) == ("http_error", "rate_limited", "resource_exhausted", "no quota")


def test_a_reset_after_the_status_is_an_unclean_end():
    measures = verdict(PROTO, ended_by="reset", reset_code="rst_no_error")
    assert (measures.outcome, "unclean_end" in measures.flags) == ("complete", True)


@each_case(
    ("content_type", "api"), [(GRPC, "grpc"), (WEB, "grpc-web"), (CONNECT, "connect"), (CONNECT_JSON, "connect")]
)
def test_the_api_of_an_unknown_call_is_its_framing(content_type, api):
    body = of_json({"a": 1}) * 2 if content_type == CONNECT_JSON else PROTO * 2
    ending = {"grpc": b"", "grpc-web": OK, "connect": end_stream()}[api]
    measures = verdict(body + ending, content_type)
    assert (measures.api, measures.operation, measures.outcome) == (api, "other", "complete")
    assert (measures.events, measures.chunks) == (2 + bool(ending), 0)
    assert "unknown_payload" in measures.flags


def test_an_opaque_call_has_no_time_to_first_token():
    measures = verdict(PROTO * 2, CONNECT, answered())
    assert (measures.ttft_ns, measures.ttfc_ns, measures.ttf_byte_ns) == (None, 100 * MS, 100 * MS)


@each_case("payload", [b"{", b"[DONE]", b"error: no", b"data: x\n\n", b'{"error":{"message":"no"}}', b"\xff\xfe"])
def test_opaque_payloads_are_not_guessed(payload):
    measures = verdict(message(payload) * 2)
    assert (measures.outcome, measures.api, measures.flags) == ("complete", "grpc", ("unknown_payload",))


def decoded_of(body, cuts, content_type, headers=SUCCEEDED, coding=None):
    bounds = [0, *cuts, len(body)]
    reads = [
        Read(seq, seq * MS, None, start, end - start) for seq, (start, end) in enumerate(itertools.pairwise(bounds))
    ]
    coded = {"content_type": content_type, "content_encoding": coding}
    return decoder.decode(Exchange(status=200, ended_by="end", headers=headers, **coded), reads, body), reads


STREAMS = [
    (PROTO * 3, GRPC),
    (PROTO + message(gzip.compress(b"x" * 99), 1) + OK, WEB),
    (of_json({"text": "é" * 9}) * 2 + end_stream(), CONNECT_JSON),
    (base64.b64encode(PROTO * 2) + base64.b64encode(OK), "application/grpc-web-text"),
]


@given(st.data())
def test_a_message_has_its_last_reads_time(data):
    body, content_type = data.draw(st.sampled_from(STREAMS))
    cuts = data.draw(st.sets(st.integers(1, len(body) - 1)).map(sorted))
    expected, _ = decoded_of(body, [], content_type)
    split, reads = decoded_of(body, cuts, content_type)
    assert (split.data, split.starts, split.ends, split.status) == (
        expected.data,
        expected.starts,
        expected.ends,
        expected.status,
    )
    if split.data == body:
        ends = [read.start + read.size for read in reads]
        assert split.reads == [next(seq for seq, at in enumerate(ends) if at >= end) for end in split.ends]
    assert [*split.at_ns] == sorted(split.at_ns)


def test_a_call_is_judged_alike_in_any_split():
    for body, content_type in STREAMS:
        outcomes = {(measures.outcome, measures.api, measures.events, measures.chunks) for measures in cut_everywhere(
            body, content_type=content_type, headers=SUCCEEDED)}  # fmt: skip
        assert len(outcomes) == 1


@each_case("segments", [1, 2, 3, 50])
def test_base64_text_decodes_in_any_padded_parts(segments):
    plain = PROTO * 40 + OK
    size = -(-len(plain) // segments)
    text = b"".join(base64.b64encode(plain[at : at + size]) for at in range(0, len(plain), size))
    decoded, _ = decoded_of(text, range(7, len(text), 7), "application/grpc-web-text", answered())
    assert (decoded.data, len(decoded.kinds), decoded.ended) == (plain, 41, True)
    assert verdict(text, "application/grpc-web-text+proto", answered()).outcome == "complete"


def test_text_in_base64_is_compressed_over_it():
    text = gzip.compress(base64.b64encode(PROTO + OK))
    decoded, _ = decoded_of(text, [], "application/grpc-web-text", answered(), coding="gzip")
    assert (decoded.data, decoded.ended) == (PROTO + OK, True)


def test_text_that_is_no_base64_is_undecoded():
    measures = verdict(b"AAAA!!!!", "application/grpc-web-text", answered())
    assert "undecoded" in measures.flags


@each_case(("coding", "compress"), [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstd.compress)])
def test_compressed_json_is_read(coding, compress):
    chunk = {"id": "a", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    body = message(compress(json.dumps(chunk).encode()), 1) + message(compress(b"{}"), 3)
    headers = answered(head=[("connect-content-encoding", coding)])
    measures = verdict(body, CONNECT_JSON, headers)
    assert (measures.api, measures.content, measures.outcome, measures.ttft_ns) == (
        "openai.chat",
        "Hi",
        "complete",
        100 * MS,
    )


def test_a_json_answer_needs_its_calls_status():
    chunk = {"id": "a", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    body = of_json(chunk) + message("[DONE]")
    assert ending(verdict(body, "application/grpc+json", answered()))[:2] == ("truncated", "no_status")
    assert ending(verdict(body, "application/grpc+json"))[:2] == ("complete", None)
    failed = answered(("grpc-status", "13"), ("grpc-message", "crash"))
    assert ending(verdict(body, "application/grpc+json", failed)) == ("error_event", "mid_stream", "internal", "crash")


@each_case("coding", ["snappy", None, "identity", "gzip"])
def test_messages_that_cannot_be_decompressed_are_kept_as_events(coding):
    headers = answered(head=[("connect-content-encoding", coding)] if coding else [])
    measures = verdict(message(b"\x00\x01", 1) * 2 + end_stream(), CONNECT_JSON, headers)
    assert (measures.outcome, measures.events, "undecoded" in measures.flags) == ("complete", 3, True)


def test_an_undecodable_status_leaves_the_outcome_to_http():
    body = PROTO + message(b"\x00\x01", 3)
    measures = verdict(body, CONNECT, answered(head=[("connect-content-encoding", "snappy")]))
    assert (measures.outcome, "undecoded" in measures.flags) == ("complete", True)
    assert verdict(body, CONNECT, answered(), ended_by="eof").outcome == "truncated"


def test_a_bomb_of_messages_stops_at_the_limit():
    bomb = message(gzip.compress(b" " * (30 << 20)), 1)
    measures = verdict(bomb + end_stream(), CONNECT_JSON, answered(head=[("connect-content-encoding", "gzip")]))
    assert "decode_limit" in measures.flags


def test_endless_empty_messages_stop_but_keep_the_status():
    measures = verdict(message(b"") * 600_000)
    assert (measures.outcome, measures.events, "decode_limit" in measures.flags) == ("complete", 500_000, True)


@each_case(("framing", "last"), [(WEB, OK), (CONNECT, end_stream())])
def test_bytes_after_the_end_of_a_stream_are_surplus(framing, last):
    for garbage in (PROTO, b"\x00", last, b"\xff" * 20):
        measures = verdict(PROTO + last + garbage, framing, answered())
        assert (measures.outcome, measures.events, "surplus_bytes" in measures.flags) == ("complete", 2, True)


@given(st.binary(max_size=300), st.sampled_from([GRPC, "application/grpc+json", WEB, CONNECT, CONNECT_JSON]))
def test_no_bytes_are_an_error(body, content_type):
    for headers in (SUCCEEDED, answered()):
        measures = verdict(body, content_type, headers)
        assert measures.outcome in {"complete", "truncated", "error_event", "malformed"}


def test_a_length_of_4_gib_costs_nothing():
    measures = verdict(PROTO + struct.pack(">BI", 0, 0xFFFFFFFF) + b"x" * 100)
    assert (measures.outcome, measures.outcome_detail, measures.events) == ("truncated", "framing", 1)


OWN = {
    "name": "own-agent",
    "match": {"path": "/agent.v1.AgentService/Run"},
    "key": "kind",
    "text": {"on": "part", "at": "value"},
    "usage": {"on": "last", "input": "counts.in", "output": "counts.out"},
    "finish": {"on": "last", "at": "why"},
    "end": {"on": "last"},
}
PARTS = [{"kind": "part", "value": "Let me "}, {"kind": "part", "value": "see."}]
LAST = {"kind": "last", "why": "stop", "counts": {"in": 12, "out": 4}}


def run_of(*payloads, last_payload=None):
    """Return the measures of a call that a declaration knows by its path."""
    body = b"".join(map(of_json, payloads)) + (end_stream() if last_payload is None else last_payload)
    cuts = range(20, len(body), 20)
    facts = {"path": "/agent.v1.AgentService/Run", "dialects": json.dumps([OWN]), "headers": answered()}
    return derived(body, *cuts, content_type=CONNECT_JSON, **facts)


def test_a_declared_dialect_reads_the_payloads_of_connect():
    measures = run_of(*PARTS, LAST)
    assert (measures.api, measures.operation, measures.outcome) == ("own-agent", "chat", "complete")
    assert (measures.content, measures.output_tokens, measures.finish_reason) == ("Let me see.", 4, "stop")
    assert (measures.ttft_ns, measures.output_chunks) == (110 * MS, 2)


def test_a_dialects_end_is_no_status_of_calls():
    cut = run_of(*PARTS, LAST, last_payload=b"")
    assert (cut.api, cut.outcome, cut.outcome_detail) == ("own-agent", "truncated", "no_status")
    failed = run_of(*PARTS, last_payload=end_stream({"error": {"code": "internal", "message": "crash"}}))
    assert ending(failed) == ("error_event", "mid_stream", "internal", "crash")
