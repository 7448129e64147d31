"""Whole bodies in, measures out: one file of `tests/data/streams` per behaviour, and what must hold for any body."""

import gzip
import itertools
import json
import re
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.compressors import COMPRESS
from wiretape.recorder.decode import decoder, payloads
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read

STREAMS = Path(__file__).parents[2] / "data" / "streams"
MS = 1_000_000
BLOCK = re.compile(rb".*?(?:\r\n\r\n|\n\n)|.+\Z", re.DOTALL)
FIELDS = ("content", "reasoning", "refusal", "finish_reason", "output_tokens", "reasoning_tokens")
FIELDS += ("error_code", "error_message", "tool_calls", "choices")


def exchange(**changed):
    facts = {"status": 200, "content_type": "text/event-stream", "content_encoding": None, "ended_by": "end"}
    return Exchange(**{**facts, "connected_ns": None, "headers_ns": None, "end_ns": 1900 * MS, **changed})


def cut(body, sizes):
    reads, start = [], 0
    for seq, size in enumerate(sizes):
        reads.append(Read(seq, (100 + 10 * seq) * MS, None, start, size))
        start += size
    return reads


def by_event(body):
    return cut(body, (len(block[0]) for block in BLOCK.finditer(body)))


def measure(body, reads=None, **changed):
    body = body.encode() if isinstance(body, str) else body
    return derive(exchange(**changed), by_event(body) if reads is None else reads, body)


def chunk(content, reason=None, **top):
    payload = {"id": "c1", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": reason}], **top}
    return f"data: {json.dumps(payload)}\n\n"


def brief(measures):
    values = {name: getattr(measures, name) for name in FIELDS if getattr(measures, name) is not None}
    for name, keys in (("tool_calls", ("id", "name", "arguments")), ("choices", ("index", "content", "finish_reason"))):
        if name in values:
            values[name] = [[value[key] for key in keys] for value in values[name]]
    return " ".join(filter(None, (measures.outcome, measures.outcome_detail))), " ".join(measures.flags), values


EXPECTED = json.loads((STREAMS / "expected.json").read_text("utf-8"))


@each_case("name", EXPECTED)
def test_a_stream_is_read_as_it_was_meant(name):
    outcome, flags, values = brief(measure((STREAMS / f"{name}.sse").read_bytes()))
    assert {"outcome": outcome, "flags": flags, **values} == EXPECTED[name]


def test_every_stream_has_its_expectation():
    assert {path.stem for path in STREAMS.glob("*.sse")} == set(EXPECTED)


INTERACTION = {"id": "v1_b", "object": "interaction", "model": "m", "status": "in_progress"}
CONTINUED = "".join(
    f"data: {json.dumps(item)}\n\n"
    for item in (
        {"event_type": "interaction.created", "interaction": INTERACTION},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "of day"}},
        {"event_type": "interaction.completed", "interaction": {**INTERACTION, "status": "completed"}},
    )
).encode()


@each_case(
    ("facts", "question", "is_later_part"),
    [
        ({}, {"input": "Hi.", "model": "m"}, False),
        ({}, {"input": "Hi.", "previous_interaction_id": "v1_a", "model": "m"}, False),
        ({}, {"previous_interaction_id": "v1_a", "continuation_token": "t", "model": "m"}, True),
        ({}, {"input": "Hi.", "store": False, "continuation_token": "t", "model": "m"}, True),
        ({"status": 503}, {"previous_interaction_id": "v1_a", "continuation_token": "t", "model": "m"}, True),
        ({"method": "GET", "path": "/v1beta/interactions/v1_b?stream=true&last_event_id=e1"}, None, True),
        ({}, {"input": "Hi.", "continuation_token": None}, False),
    ],
)
def test_a_continued_answer_is_flagged_and_timed_itself(facts, question, is_later_part):
    recorded = RecordedRequest([], b"" if question is None else json.dumps(question).encode())
    facts = {"path": "/v1beta/interactions", **facts}
    measures = derive(exchange(**facts), by_event(CONTINUED), CONTINUED, request=recorded)
    assert ("continuation" in measures.flags) == is_later_part
    assert (measures.ttft_ns is not None) == ("status" not in facts)


NONSTREAM = {
    "id": "c1",
    "model": "m",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}


def test_a_json_answer_has_no_first_token():
    measures = measure(json.dumps(NONSTREAM, indent=1), content_type="application/json; charset=utf-8")
    assert brief(measures) == ("complete", "nonstream", {"content": "Hi", "finish_reason": "stop", "output_tokens": 2})
    assert (measures.api, measures.response_model, measures.total_tokens, measures.duration_ns) == (
        "openai.chat",
        "m",
        3,
        1900 * MS,
    )
    assert (measures.ttf_byte_ns, measures.ttfc_ns, measures.ttft_ns, measures.latency_ns, measures.chunks) == (
        100 * MS,
        None,
        None,
        None,
        0,
    )


@each_case(
    ("body", "content_type"),
    [
        (b"\0\1\2\xff", "audio/mpeg"),
        (b"<html>", "text/html"),
        (b"", None),
        (b'{"object": "list", "data": [], "usage": {"prompt_tokens": 1}}', "application/json"),
        (b"{" * 100_000, "application/json"),
    ],
)
def test_a_body_that_is_no_chat_is_just_bytes(body, content_type):
    measures = measure(body, content_type=content_type)
    assert brief(measures) == ("complete", "nonstream", {})
    assert (measures.api, measures.bytes, measures.events) == (None, len(body), 0)


def test_json_with_status_200_may_be_an_error():
    body = '{"base_resp": {"status_code": 1008, "status_msg": "no funds"}}'
    assert brief(measure(body, content_type="application/json")) == (
        "error_event before_output",
        "nonstream",
        {"error_code": "1008", "error_message": "no funds"},
    )


@each_case(
    ("body", "code", "message"),
    [
        ('{"error": {"code": "insufficient_credits", "message": "m"}}', "insufficient_credits", "m"),
        ('{"detail": "Not Found"}', None, "Not Found"),
        ('"no such route"', None, "no such route"),
        ('data: {"error": {"code": 400, "message": "m"}}\n\ndata: [DONE]\n\n', "400", "m"),
        ("<h1>Bad Gateway</h1>", None, "<h1>Bad Gateway</h1>"),
        ("x\0" * 3000, None, "x\ufffd" * 1000),
        ("", None, None),
    ],
)
@each_case("content_type", ["application/json", "text/event-stream"])
def test_an_http_error_says_why_and_has_no_flags(body, code, message, content_type):
    measures = measure(body, status=429, content_type=content_type)
    assert (measures.outcome, measures.outcome_detail, measures.error_code, measures.error_message) == (
        "http_error",
        "rate_limited",
        code,
        message,
    )
    assert (measures.api, measures.ttfc_ns, measures.content) == (None, None, None)
    assert measures.flags == (("sanitized",) if "\0" in body else ())


@each_case(
    "head", ["data:", "data: ", "event: x\n", "id: 1\n", "retry: 1\n", ": hi\n", "data\n", "\n\r\ndata:", "\ufeffdata:"]
)
def test_an_event_stream_is_known_by_its_beginning(head):
    assert decode(exchange(content_type="application/json"), [], head.encode()).stream


@each_case("head", ["", "{", "dat", "database: x", " data: x", "<data:"])
def test_other_beginnings_are_no_event_stream(head):
    assert not decode(exchange(content_type="text/plain"), [], head.encode()).stream


@each_case(
    ("body", "content_type", "ended_by", "outcome", "flags", "ttfc_ms"),
    [
        ('data: {"candidates": []}\n\n', "text/event-stream", "end", "complete", ("unknown_payload",), 100),
        ('data: {"candidates": []}\n\n', "text/event-stream", "eof", "truncated", ("unknown_payload",), 100),
        (
            '{"message": {}, "done": false}\n{"done": true}\n',
            "application/x-ndjson",
            "end",
            "complete",
            ("unknown_payload",),
            100,
        ),
        ('{"a": 1}\n{"error": "busy"}\n', "application/x-ndjson", "end", "error_event", ("unknown_payload",), 100),
        ("event: output\ndata: Once\n\n", "text/event-stream", "end", "complete", ("unknown_payload",), None),
        ("event: output\ndata: Once\n\n", "text/event-stream", "reset", "truncated", ("unknown_payload",), None),
        (
            'event: messages\ndata: [{"content": "a"}, {"n": 1}]\n\n',
            "text/event-stream",
            "end",
            "complete",
            ("unknown_payload",),
            100,
        ),
        ('data: {"a": tru\n\n', "text/event-stream", "end", "complete", ("unknown_payload",), None),
        ("", "text/event-stream", "end", "truncated", (), None),
        (": ping\n\n", "text/event-stream", "end", "truncated", ("comments",), None),
        ("data: [DONE]\n\n", "text/event-stream", "end", "complete", ("empty", "no_finish", "no_usage"), None),
    ],
)
def test_an_unknown_stream_is_judged_by_its_framing(body, content_type, ended_by, outcome, flags, ttfc_ms):
    measures = measure(body, content_type=content_type, ended_by=ended_by)
    assert (measures.outcome, measures.flags) == (outcome, flags)
    assert measures.ttfc_ns == (ttfc_ms and ttfc_ms * MS)
    assert (measures.chunks, measures.output_chunks, measures.ttft_ns, measures.coalesced_fraction) == (
        0,
        0,
        None,
        None,
    )


@each_case(
    ("path", "body"),
    [
        ("/v1/chat/completions", "data: hello\n\n"),
        ("/v1/chat/completions", chunk("a") + "data: {\n\n" + chunk("", "stop")),
        ("/", chunk("a") + "data: {\n\n" + chunk("", "stop")),
    ],
)
def test_no_json_is_malformed_where_the_api_is_known(path, body):
    measures = measure(body, path=path)
    assert (measures.outcome, "malformed" in measures.flags) == ("malformed", True)


FOREIGN = 'data: {"kind": "part", "value": "Hi"}\n\n'


@each_case(
    ("framing", "ended_by", "outcome"),
    [
        ("chunked", "end", "complete"),
        ("length", "end", "complete"),
        (None, "end", "complete"),
        ("close", "end", "truncated unknown"),
        ("close", "reset", "truncated reset"),
        ("chunked", "eof", "truncated eof"),
        ("close", "client", "client_closed"),
    ],
)
def test_only_framing_completes_an_undecoded_stream(framing, ended_by, outcome):
    measures = measure(FOREIGN, framing=framing, ended_by=ended_by)
    assert (brief(measures)[0], "unknown_payload" in measures.flags) == (outcome, True)


@each_case(
    ("path", "body", "outcome", "operation"),
    [
        ("/v1/chat/completions", FOREIGN, "complete", "unknown"),
        ("/v1/chat/completions", chunk("a", "stop"), "complete", "chat"),
        ("/v1/chat/completions", FOREIGN + 'data: {"error": "full"}\n\n', "error_event", "chat"),
        ("/v1/chat/completions", 'data: {"error": "full"}\n\n', "error_event", "chat"),
        ("/v1/chat/completions", "data: {\n\n", "malformed", "chat"),
        ("/agent", FOREIGN, "complete", "unknown"),
        ("/agent", FOREIGN + 'data: {"type": "RUN_ERROR", "message": "m"}\n\n', "error_event", "unknown"),
        ("/v1/threads/t/runs", FOREIGN, "complete", "other"),
    ],
)
def test_an_undecoded_generation_neither_succeeds_nor_fails(path, body, outcome, operation):
    measures = measure(body, path=path, request_model="m")
    assert (measures.outcome, measures.operation) == (outcome, operation)


def test_arrays_beside_usage_are_neither_malformed_nor_chat():
    usage = {"total_tokens": 7, "prompt_tokens": 3}
    body = 'event: messages\ndata: [{"content": "a"}, {}]\n\n' + "event: end\ndata: null\n\n"
    body += f"data: {json.dumps({'event_type': 'unit.progress', 'usage': usage})}\n\n"
    body += f"data: {json.dumps({'messages': [{'content': 'a'}], 'usage': usage})}\n\n"
    measures = measure(body, request_model="m")
    assert (measures.api, measures.outcome, measures.flags) == ("unknown", "complete", ("unknown_payload",))


RUN = {"id": "run_1", "object": "thread.run", "model": "gpt-4o", "status": "queued", "usage": None}
COUNTED = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
ASSISTANT = (
    ("thread.run.created", RUN),
    ("thread.message.delta", {"id": "m", "object": "thread.message.delta", "delta": {"content": [{"text": "Hi"}]}}),
    ("thread.run.step.completed", {"id": "s", "object": "thread.run.step", "usage": COUNTED}),
    ("thread.run.completed", RUN | {"status": "completed", "usage": COUNTED}),
)


@each_case(
    ("path", "parts", "api"),
    [
        ("/v2/parts", b"", "unknown"),
        ("/v1/chat/completions", b"", "openai.chat"),
        # Payloads of no dialect are an answer of another wire, not one of chat without output.
        ("/v1/chat/completions", b'data: {"response": "Hi"}\n\n', "unknown"),
        ("/v2/parts", b'data: {"generated_text": "Hi"}\n\n', "unknown"),
    ],
)
def test_usage_alone_is_chat_only_at_an_apis_path(path, parts, api):
    body = parts + b'data: {"usage": {"total_tokens": 3}}\n\n'
    assert derive(exchange(path=path), cut(body, (len(body),)), body).api == api
    if parts:
        done = body + b"data: [DONE]\n\n"
        assert derive(exchange(path=path), cut(done, (len(done),)), done).api == api


@each_case("path", ["/v1/threads/thread_1/runs", "/v1/threads/runs", "/v1/threads/t/runs/run_1/submit_tool_outputs"])
def test_a_run_of_assistants_is_no_chat_without_output(path):
    body = "".join(f"event: {name}\ndata: {json.dumps(value)}\n\n" for name, value in ASSISTANT)
    measures = measure(body + "event: done\ndata: [DONE]\n\n", path=path, request_model="gpt-4o")
    assert (measures.api, measures.operation, measures.outcome) == ("unknown", "other", "complete")
    assert (measures.flags, measures.output_tokens, measures.chunks) == (("unknown_payload",), None, 0)


def test_an_assistants_runs_status_is_no_chat():
    measures = measure(json.dumps(RUN | {"usage": COUNTED}), content_type="application/json", path="/v1/threads/t/runs")
    assert (measures.api, measures.operation, measures.output_tokens) == (None, "other", None)


ANSWER = (chunk("a") + chunk("b") + chunk("", "stop") + "data: [DONE]\n\n").encode()


@each_case("coding", [*COMPRESS])
def test_a_compressed_stream_has_the_timestamps_of_its_reads(coding):
    *pieces, end = COMPRESS[coding]([block[0] for block in BLOCK.finditer(ANSWER)], True)
    pieces[-1] += end
    measures = measure(b"".join(pieces), cut(b"", map(len, pieces)), content_encoding=coding)
    assert (measures.content, measures.outcome, measures.bytes) == ("ab", "complete", sum(map(len, pieces)))
    assert (measures.ttft_ns, measures.latency_ns, measures.duration_ns) == (100 * MS, 110 * MS, 130 * MS)


def test_an_unknown_coding_leaves_bytes():
    measures = measure(b"\x1b\x03", content_encoding="dcb")
    assert (measures.outcome, measures.flags, measures.api, measures.events) == (
        "complete",
        ("undecoded",),
        "unknown",
        0,
    )


def test_a_bomb_is_cut_but_kept():
    bomb = gzip.compress(ANSWER[:-14] + b": " + bytes(8 << 20))
    measures = measure(bomb, cut(bomb, [len(bomb)]), content_encoding="gzip")
    assert (measures.outcome, measures.content) == ("complete", "ab")
    assert "decode_limit" in measures.flags


@each_case("ended_by", ["reset", "eof", "framing", "length", "idle_timeout", "shutdown", "client"])
def test_what_fails_after_the_end_is_a_flag(ended_by):
    measures = measure(ANSWER, ended_by=ended_by)
    assert measures.outcome == "complete"
    assert ("client_left" if ended_by == "client" else "unclean_end") in measures.flags


def test_an_open_exchange_is_measured_so_far():
    measures = measure(chunk("a"), ended_by=None, end_ns=None)
    assert (measures.outcome, measures.ttft_ns, measures.duration_ns) == ("open", 100 * MS, None)


@each_case("sizes", [[], [30], [10_000], [0, 30, 0, 10_000, 50]])
def test_reads_need_not_match_the_body(sizes):
    measures = measure(ANSWER, cut(ANSWER, sizes))
    assert (measures.content, measures.output_chunks, measures.reads) == ("ab", 2, len(sizes))


def test_an_item_without_a_read_has_no_timestamp():
    first_end = ANSWER.index(b"\n\n") + 2
    items = decode(exchange(), cut(ANSWER, [first_end]), ANSWER).items()
    assert [(item.read, item.at_ns) for item in items] == [(0, 100 * MS), (None, None), (None, None), (None, None)]


def test_items_and_chunks_are_ordered_and_name_reads():
    body = b": hi\n\n" + ANSWER
    decoded = decode(exchange(), cut(body, [3, 10, len(body)]), body)
    assert [(item.seq, item.kind, item.read) for item in decoded.items()] == [
        (0, "comment", 1),
        *((seq, "event", 2) for seq in (1, 2, 3, 4)),
    ]
    first_chunk, item = next(decoded.chunks()), decoded.item(1)
    assert (first_chunk.item, first_chunk.read, first_chunk.end) == (1, 2, item.end)
    assert body[item.start : item.end].startswith(b"data: {")


def test_an_unframed_payload_has_its_last_bytes_timestamp():
    body = chunk("a").encode() + '{"error": "é"}'.encode() + b"\n: later\n"
    end = body.index(b"\n: later")
    decoded = decode(exchange(), cut(body, [end - 1, 1, len(body)]), body)
    assert [(timed.read, timed.end) for timed in decoded.chunks()] == [(0, len(chunk("a"))), (1, end)]


def test_the_first_of_two_errors_is_reported():
    body = 'error: {"message": "one"}\n\n' + 'data: {"error": "two"}\n\n'
    assert measure(body).error_message == "one"
    assert measure('data: {"error": "two"}\n\n' + 'error: {"message": "one"}\n\n').error_message == "two"


def test_an_error_wins_even_if_a_complete_answer_came():
    measures = measure(ANSWER + b'data: {"error": {"message": "late"}}\n\n')
    assert (measures.outcome, measures.outcome_detail, measures.content) == ("error_event", "mid_stream", "ab")


def test_an_error_beside_output_keeps_the_output():
    measures = measure(chunk("a", error={"message": "m"}))
    assert (measures.outcome_detail, measures.content, measures.chunks) == ("mid_stream", "a", 1)


def test_an_error_after_unknown_payloads_is_mid_stream():
    body = 'data: {"kind": "first"}\n\n' + 'data: {"type": "error", "message": "m"}\n\n'
    assert measure(body).outcome_detail == "mid_stream"


def test_dropped_bytes_are_not_called_truncation():
    assert measure(chunk("a"), gap_bytes=100).outcome == "complete"
    assert "storage_gap" in measure(chunk("a"), gap_bytes=100).flags


def test_cuts_of_a_real_stream_never_gain_content():
    body = (STREAMS / "deepseek_reasoning_then_content.sse").read_bytes()
    lengths = [len(measure(body[:end], cut(body, [end])).content or "") for end in range(len(body) + 1)]
    assert all(later >= earlier for earlier, later in itertools.pairwise(lengths))


@pytest.mark.parametrize("item", [b":\n", b"data: {}\n\n", b"{}\n", b"error: x\n", b"data:\n\n"])
def test_small_items_are_decoded_up_to_a_limit(item, monkeypatch):
    monkeypatch.setattr(decoder, "MAX_ITEMS", 1000)
    monkeypatch.setattr(payloads, "MAX_SEQUENCE", 1000)
    decoded = decode(exchange(), [], item * 5000)
    assert len(decoded.items()) + len(list(decoded.chunks())) <= 1000


@each_case("path", sorted(STREAMS.glob("*.sse")), ids=lambda path: path.stem)
def test_chunks_are_in_items_numbered_by_bytes(path):
    body = path.read_bytes()
    decoded = decode(exchange(), by_event(body), body)
    assert [item.seq for item in decoded.items()] == list(range(len(decoded.kinds)))
    assert [item.end for item in decoded.items()] == sorted(item.end for item in decoded.items())
    for timed in decoded.chunks():
        item = decoded.item(timed.item)
        assert (item.at_ns, item.read) == (timed.at_ns, timed.read)
        assert item.start < timed.end <= item.end


def test_a_whole_body_is_one_item():
    body = b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    decoded = decode(exchange(content_type="application/json"), cut(body, (20, len(body) - 20)), body)
    assert [(item.kind, item.at_ns, item.read, item.start, item.end) for item in decoded.items()] == [
        ("body", 110 * MS, 1, 0, len(body))
    ]
    assert [(timed.item, timed.at_ns, timed.read) for timed in decoded.chunks()] == [(0, 110 * MS, 1)]
    assert measure(body, cut(body, (len(body),)), content_type="application/json").ttft_ns is None


def test_a_body_without_json_is_an_item_without_payload():
    for body, text in ((b"<h1>502</h1>", "<h1>502</h1>"), (b"\xff\xd8\x00", "")):
        decoded = decode(exchange(status=502, content_type="text/html"), cut(body, (len(body),)), body)
        assert [(item.kind, item.data, item.at_ns) for item in decoded.items()] == [("body", text, 100 * MS)]
        assert decoded.runs == []
    assert decode(exchange(content_type="text/html"), [], b"").items() == []


def test_an_error_line_is_an_item_where_it_stands():
    body = (chunk("a") + "error: gone\n\n" + chunk("b")).encode()
    decoded = decode(exchange(), by_event(body), body)
    assert [(item.kind, item.seq, item.at_ns) for item in decoded.items()] == [
        ("event", 0, 100 * MS), ("record", 1, 110 * MS), ("event", 2, 120 * MS)
    ]  # fmt: skip
    assert [timed.item for timed in decoded.chunks()] == [0, 1, 2]


def test_each_line_of_ndjson_is_an_item():
    body = b'{"a":1}\n{"error":{"message":"no"}}\n'
    decoded = decode(exchange(content_type="application/x-ndjson"), cut(body, (8, len(body) - 8)), body)
    assert [(item.kind, item.data, item.at_ns) for item in decoded.items()] == [
        ("event", '{"a":1}', 100 * MS), ("event", '{"error":{"message":"no"}}', 110 * MS)
    ]  # fmt: skip
    assert [timed.item for timed in decoded.chunks()] == [0, 1]


def used(completion, reasoning=None, **more):
    details = {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    counted = {"prompt_tokens": 5, "completion_tokens": completion, "total_tokens": 5 + completion, **details, **more}
    return f"data: {json.dumps({'choices': [], 'usage': counted})}\n\ndata: [DONE]\n\n"


@each_case(("texts", "usage", "is_hidden"), [
    (["Routed ", ", ", "then ", "answered ", ". "], used(84), True),
    (["Routed ", ", ", "then ", "answered ", ". "], used(41), False),  # 25 bytes, and 16 markers
    (["Routed ", ", ", "then ", "answered ", ". "], used(42), True),
    (["x" * 400, "y" * 400], used(300, 200), True),  # usage says that there was reasoning, and none came
    (["x" * 400, "y" * 400], used(300, 16), False),
    (["x" * 400, "y" * 400], used(300, 200, total_tokens=505), False),  # counted beside, not within
    (["é" * 20, "é" * 20], used(96), False),
    (["a", "b"], "data: [DONE]\n\n", False),
])  # fmt: skip
def test_usage_above_what_output_can_hold_is_flagged(texts, usage, is_hidden):
    measures = measure("".join(map(chunk, texts)) + chunk("", "stop") + usage)
    assert ("hidden_tokens" in measures.flags) is is_hidden
    assert (measures.tps_user is not None) is (measures.output_tokens is not None)


def test_reasoning_that_came_and_audio_hide_no_tokens():
    thought = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'reasoning_content': 'x' * 200}}]})}\n\n"
    assert "hidden_tokens" not in measure(thought + chunk("a" * 9) + used(200, 190)).flags
    sound = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'audio': {'data': 'AAAA'}}}]})}\n\n"
    assert "hidden_tokens" not in measure(sound + sound + used(200)).flags


def test_what_is_decoded_already_is_not_decoded_again(monkeypatch):
    body = (chunk("a") + chunk("b", "stop")).encode()
    decoded = decode(exchange(), by_event(body), body)
    expected = measure(body)
    monkeypatch.setattr("wiretape.recorder.decode.derive.decode", None)
    assert derive(exchange(), by_event(body), body, decoded) == expected


@each_case(
    ("path", "body", "api", "tokens"),
    [
        ("/v2/embed", {"embeddings": {}, "meta": {"billed_units": {"input_tokens": 3}}}, None, 3),
        ("/v2/rerank", {"results": [], "meta": {"billed_units": {"search_units": 1}}}, None, None),
        ("/model/amazon.titan-embed/invoke", {"embedding": [], "inputTextTokenCount": 3}, "bedrock.invoke", 3),
        ("/v1/responses/input_tokens", {"object": "response.input_tokens", "input_tokens": 3}, "openai.responses", 3),
    ],
)
def test_answers_that_are_no_generation_give_their_usage(path, body, api, tokens):
    measures = measure(json.dumps(body), content_type="application/json", path=path)
    assert (measures.api, measures.outcome, measures.input_tokens) == (api, "complete", tokens)
    assert measures.usage is not None


def test_an_embedding_is_complete_and_lacks_no_output():
    body = b'{"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3}}'
    measures = derive(exchange(content_type="application/json", path="/v1/embeddings"), cut(body, (len(body),)), body)
    assert (measures.outcome, measures.operation, measures.input_tokens) == ("complete", "embeddings", 3)
    assert "empty" not in measures.flags


@each_case(
    ("status", "path", "body", "api"),
    [
        (200, "/v1/chat/completions", b'data: {"choices": []}\n\n', "openai.chat"),
        (200, "/v1/messages", b'data: {"choices": []}\n\n', "openai.chat"),
        (200, "/v1/messages", b'data: {"kind": "other"}\n\n', "unknown"),
        (200, "/v1/responses", b'data: {"type": "error", "error": {"message": "no"}}\n\n', "openai.responses"),
        (500, "/v1/messages", b'{"error": {"message": "no"}}', "anthropic.messages"),
        (None, "/v1beta/models/m:streamGenerateContent", b"", "gemini"),
        (500, "/v1/threads/t_1/messages", b"", None),
        (500, "/model/arn:aws:bedrock:eu-west-1::profile/m/invoke", b"", "bedrock.invoke"),
        (500, "/chain/invoke", b"", None),
        (500, "/v2/chat", b"", "cohere.chat"),
        (500, "/api/v1/chat", b"", None),
        (500, "/anything", b"", None),
        (200, "/anything", b"", None),
    ],
)  # fmt: skip
def test_the_api_is_the_answers_or_the_paths(status, path, body, api):
    assert derive(exchange(status=status, path=path), cut(body, (len(body),)), body).api == api


@pytest.mark.parametrize(
    "first_event", [{"type": "message_metadata"}, {"model": "m", "done": False}, {"usage": {"x": 1}}]
)
def test_the_api_is_that_of_the_output(first_event):
    measures = measure(f"data: {json.dumps(first_event)}\n\n{chunk('Hi', 'stop')}data: [DONE]\n\n")
    assert (measures.api, measures.outcome, measures.content) == ("openai.chat", "complete", "Hi")


def test_the_last_finish_reason_holds():
    body = chunk("a", "stop") + chunk("b", "stop") + chunk("", "content_filter") + chunk("") + "data: [DONE]\n\n"
    assert measure(body).finish_reason == "content_filter"


@each_case(
    ("answer", "end"),
    [
        ({"type": "message", "content": [{"type": "text", "text": "Hi"}]}, {"stop_reason": "end_turn"}),
        ({"object": "response", "output": [{"type": "message", "content": []}]}, {"status": "completed"}),
        ({"message": {"content": "Hi"}, "finish_reason": None}, {"finish_reason": "COMPLETE"}),
        ({"object": "chat.completion", "choices": [{"message": {}}]}, {"choices": [{"finish_reason": "stop"}]}),
    ],
)
def test_a_whole_answer_in_one_event_ends_a_stream(answer, end):
    wholes = ({**answer, "model": "m"}, {**answer, "model": "m", **end})
    assert [measure(f"data: {json.dumps(whole)}\n\n").outcome for whole in wholes] == ["truncated", "complete"]
