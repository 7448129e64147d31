"""Silences of output and the stalls among them: whatever ended a stream, and on whatever wire it came."""

import dataclasses
import json
from collections.abc import Sequence

from tests.support import eventstream
from tests.support.cases import each_case
from tests.support.sample_tape import event
from tests.support.timed_exchanges import COMMENT, MS, Part, facts, word
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Headers, Reads
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.decode.stalls import AwaitedAnswer, Thresholds, stalls_among

DONE = b"data: [DONE]\n\n"
STREAMED = RecordedRequest([], b'{"model": "m", "stream": true}')
WHOLE = RecordedRequest([], b'{"model": "m"}')


def measured(*parts: Part, request: RecordedRequest | None = None, **other: object) -> Measures:
    return derive(*facts(*parts, **other), request=request)  # type: ignore[arg-type]


def unanswered(by: str, end: int | None = 5000, request: RecordedRequest = STREAMED, **facts: object) -> Measures:
    unconnected = {
        "status": None,
        "content_type": None,
        "content_encoding": None,
        "connected_ns": MS,
        "headers_ns": None,
        "sent_ns": MS,
    }
    request_facts = {"path": "/v1/chat/completions", "ended_by": by, "end_ns": None if end is None else end * MS}
    exchange = Exchange(**{**unconnected, **request_facts, **facts})  # type: ignore[arg-type]
    return derive(exchange, Reads.of([]), b"", request=request)


def silences(measures: Measures) -> tuple[float | None, float | None]:
    first_silence, longest = measures.first_output_silence_ns, measures.max_output_silence_ns
    return None if first_silence is None else first_silence / MS, None if longest is None else longest / MS


def is_stalled(measures: Measures) -> tuple[bool, bool]:
    return "stall" in measures.flags, "given_up" in measures.flags


def anthropic(kind: str, **data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


TEXT = anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": "a"})
PING = anthropic("ping")
STOP = anthropic("message_stop")
MESSAGES = {"path": "/v1/messages"}


@each_case(
    ("by", "stalled"),
    [
        ("client", (True, True)),
        ("client_stalled", (True, True)),
        ("eof", (True, False)),
        ("reset", (True, False)),
        ("length", (True, False)),
        ("framing", (True, False)),
        ("idle_timeout", (True, False)),
        ("shutdown", (True, False)),
        ("local", (True, False)),
        ("died", (False, False)),
    ],
)
def test_a_silence_that_never_ended_is_a_stall(by: str, stalled: tuple[bool, bool]) -> None:
    for meanwhile in ([], [(900, COMMENT)], [(900, event({"content": ""}))]):
        measures = measured((100, word()), (200, word()), *meanwhile, by=by, end=3200)
        assert silences(measures) == (100, 3000)
        assert is_stalled(measures) == stalled
        short = measured((100, word()), (200, word()), *meanwhile, by=by, end=2200)
        assert (silences(short), is_stalled(short)) == ((100, 2000), (False, False))


def test_a_stream_without_output_stalled_since_its_request() -> None:
    for parts in ([(5, COMMENT)], [(5, event({"content": ""})), (900, COMMENT)]):
        measures = measured(*parts, by="client", end=3000)
        assert (silences(measures), is_stalled(measures)) == ((3000, None), (True, True))
    complete = measured((2500, DONE), request=STREAMED)
    assert (silences(complete), is_stalled(complete)) == ((2500, None), (True, False))


@each_case(
    ("by", "silence", "stalled"),
    [
        ("client", 5000, (True, True)),
        ("headers_timeout", 5000, (True, False)),
        ("reset", 5000, (True, False)),
        ("eof", 5000, (True, False)),
        ("shutdown", 5000, (True, False)),
        ("protocol", 5000, (True, False)),
        ("died", 5000, (False, False)),
        ("dns", None, (False, False)),
        ("refused", None, (False, False)),
        ("tls", None, (False, False)),
        ("connect_timeout", None, (False, False)),
        ("local", None, (False, False)),
    ],
)
def test_a_sent_request_is_waited_for_before_its_head(by: str, silence: int | None, stalled: tuple[bool, bool]) -> None:
    measures = unanswered(by)
    assert (silences(measures), is_stalled(measures)) == ((silence, None), stalled)
    reused = unanswered(by, connected_ns=None, connection_reused=True)
    assert (silences(reused), is_stalled(reused)) == ((silence, None), stalled)
    assert silences(unanswered(by, sent_ns=None)) == (None, None)
    assert silences(unanswered(by, request=WHOLE)) == (None, None)


@each_case(
    ("path", "headers", "body", "is_stream"),
    [
        ("/v1/messages", (), b'{"stream": true}', True),
        ("/v1/messages", (("accept", "text/event-stream"),), b"{}", True),
        ("/v1/messages", (), b'{"stream": false}', False),
        ("/v1/responses", (), b'{"stream": true}', True),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", (), b"{}", True),
        ("/v1beta/models/g:streamGenerateContent", (), b"{}", True),
        ("/v1beta/models/g:generateContent", (), b"{}", False),
        ("/model/anthropic.claude/converse-stream", (), b"{}", True),
        ("/model/anthropic.claude/converse", (), b"{}", False),
        ("/model/anthropic.claude/invoke-with-response-stream", (), b"{}", True),
        ("/api/chat", (), b'{"model": "m"}', True),
        ("/api/chat", (), b'{"stream": false}', False),
        ("/v1/embeddings", (), b'{"stream": true}', False),
        ("/v1/chat/completions", (), b"no JSON", False),
    ],
)
def test_what_a_request_asks_for_decides_where_nothing_answered(
    path: str, headers: Sequence[tuple[str, str]], body: bytes, is_stream: bool
) -> None:
    measures = unanswered(
        "client", request=RecordedRequest(headers, body), path=path, headers=Headers(request=tuple(headers))
    )
    assert silences(measures) == ((5000, None) if is_stream else (None, None))


def test_an_error_status_at_last_is_no_stall() -> None:
    for status in (429, 500):
        body = (4000, b'{"error": {"message": "no"}}')
        measures = measured(body, status=status, content_type="application/json", request=STREAMED, end=4001)
        assert (silences(measures), is_stalled(measures)) == ((4001, None), (False, False))


def test_whole_answers_and_running_streams_have_no_silences() -> None:
    body = json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "a"}}]}).encode()
    for request in (STREAMED, WHOLE):
        measures = measured((9000, body), content_type="application/json", request=request)
        assert (silences(measures), is_stalled(measures)) == ((None, None), (False, False))
    running_measures = measured((100, word()), (200, word()), by=None)
    assert (silences(running_measures), is_stalled(running_measures)) == ((None, None), (False, False))


def test_a_running_stream_has_the_flag_of_its_stall() -> None:
    running_measures = measured((100, word()), (9000, word()), by=None)
    assert (silences(running_measures), is_stalled(running_measures)) == ((None, None), (True, False))


def test_without_times_all_is_unknown() -> None:
    measures = measured((100, word()), (9000, word()), clock="none")
    assert (silences(measures), is_stalled(measures), measures.stalled_answers) == ((None, None), (False, False), None)


def test_an_undecoded_stream_has_no_silence_of_output() -> None:
    parts = (100, b'data: {"x": 1}\n\n'), (9000, b'data: {"x": 2}\n\n')
    for path in ("/v1/chat/completions", "/other"):
        assert silences(measured(*parts, path=path)) == (None, None)


def test_only_silence_before_the_streams_own_end_counts() -> None:
    finish = event({}, "stop")
    late = measured((100, word()), (200, finish), (3300, DONE), end=9000)
    assert (silences(late), is_stalled(late), late.outcome) == ((100, 3200), (True, False), "complete")
    prompt = measured((100, word()), (200, finish + DONE), by="client", end=9000)
    assert (silences(prompt), is_stalled(prompt)) == ((100, 100), (False, False))
    unmarked = measured((100, word()), (200, finish), end=9000)
    assert (silences(unmarked), is_stalled(unmarked)) == ((100, 8900), (True, False))


def test_a_death_after_the_stream_keeps_its_stall() -> None:
    fault = b'data: {"error": {"message": "overloaded"}}\n\n'
    for end in (DONE, fault):
        measures = measured((100, word()), (3300, end), by="died", end=9000)
        assert (silences(measures), is_stalled(measures)) == ((100, 3200), (True, False))
        assert is_stalled(measured((3300, end), by="died", end=9000, request=STREAMED)) == (True, False)


def test_an_untyped_head_leaves_the_request_to_decide() -> None:
    kinds = ((STREAMED, None), (WHOLE, None), (STREAMED, "application/json"))
    heads = [
        unanswered("client", request=request, status=200, headers_ns=MS, content_type=kind) for request, kind in kinds
    ]
    assert [*map(silences, heads)] == [(5000, None), (None, None), (None, None)]
    assert [*map(is_stalled, heads)] == [(True, True), (False, False), (False, False)]


def test_an_error_event_ends_the_waiting_whatever_follows_it() -> None:
    fault = b'data: {"error": {"message": "overloaded"}}\n\n'
    early = measured((100, word()), (200, fault), (6000, DONE), end=9000)
    assert (silences(early), is_stalled(early)) == ((100, 100), (False, False))
    late = measured((100, word()), (3300, fault), (6000, word()), end=9000)
    assert (silences(late), is_stalled(late)) == ((100, 3200), (True, False))
    only = measured((3000, fault), end=9000)
    assert (silences(only), is_stalled(only)) == ((3000, None), (True, False))


def test_leaving_at_a_tool_call_is_no_stall() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    measures = measured((100, word()), (200, event({"tool_calls": [call]})), by="client", end=210)
    assert (silences(measures), is_stalled(measures)) == ((100, 100), (False, False))


BLOCKS = [
    anthropic("content_block_start", index=1, content_block={"type": "server_tool_use", "id": "t", "name": "search"}),
    anthropic("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"query": 1}'}),
    anthropic("content_block_start", index=2, content_block={"type": "web_search_tool_result", "content": []}),
]


def test_a_providers_tool_time_is_no_silence() -> None:
    run: list[Part] = [(100, TEXT), (200, BLOCKS[0]), (300, BLOCKS[1]), (900, PING), (9300, BLOCKS[2])]
    quick = measured(*run, (9400, TEXT), (9500, STOP), **MESSAGES)
    assert (silences(quick), is_stalled(quick)) == ((100, 100), (False, False))
    slow = measured(*run, (12_400, TEXT), (12_500, STOP), **MESSAGES)
    assert (silences(slow), is_stalled(slow), slow.tool_spans) == ((100, 3100), (True, False), [[300 * MS, 9300 * MS]])
    abandoned = measured(*run[:4], by="client", end=9000, **MESSAGES)
    assert (silences(abandoned), is_stalled(abandoned)) == ((100, 100), (False, False))


def test_time_of_built_in_tools_is_no_silence() -> None:
    def of_responses(kind: str, **data: object) -> bytes:
        return anthropic(f"response.{kind}", **data)

    item = {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "q"}}
    call = of_responses("output_item.added", output_index=0, item={"type": "web_search_call", "id": "w"})
    result = of_responses("output_item.done", output_index=0, item=item)
    text = of_responses("output_text.delta", output_index=1, delta="a")
    end = of_responses("completed", response={"status": "completed"})
    measures = measured((100, call), (9000, result), (9100, text), (9200, end), path="/v1/responses")
    assert (silences(measures), is_stalled(measures)) == ((100, 100), (False, False))

    def of_gemini(part: dict[str, object]) -> bytes:
        return b"data: " + json.dumps({"candidates": [{"content": {"parts": [part]}}]}).encode() + b"\r\n\r\n"

    parts = (100, of_gemini({"executableCode": {"code": "1"}})), (9000, of_gemini({"codeExecutionResult": {}}))
    gemini = measured(*parts, (9100, of_gemini({"text": "a"})), path="/v1beta/models/g:streamGenerateContent", end=9200)
    assert (silences(gemini), is_stalled(gemini)) == ((100, 100), (False, False))


def declared(kind: str, **data: object) -> bytes:
    return f"data: {json.dumps({'type': kind, **data})}\n\n".encode()


def of_graph(**message: object) -> bytes:
    return f"event: messages\ndata: {json.dumps([message, {}])}\n\n".encode()


DECLARED = {
    "AI SDK": (
        [
            declared("start", messageId="m"),
            declared("text-delta", id="0", delta="a"),
            declared("tool-input-available", toolCallId="c", toolName="f", input={}),
        ],
        [declared("tool-output-available", toolCallId="c", output={}), declared("text-delta", id="1", delta="b")],
        declared("finish"),
    ),
    "AG-UI": (
        [
            declared("RUN_STARTED", runId="r", threadId="t"),
            declared("TOOL_CALL_START", toolCallId="c", toolCallName="f"),
            declared("TOOL_CALL_END", toolCallId="c"),
        ],
        [
            declared("TOOL_CALL_RESULT", messageId="q", toolCallId="c", content="x"),
            declared("TEXT_MESSAGE_CONTENT", messageId="m", delta="a"),
        ],
        declared("RUN_FINISHED", runId="r", threadId="t"),
    ),
    "LangGraph": (
        [
            b'event: metadata\ndata: {"run_id": "r"}\n\n',
            of_graph(type="AIMessageChunk", id="1", tool_call_chunks=[{"index": 0, "id": "c", "name": "f"}]),
            of_graph(type="AIMessageChunk", id="1", response_metadata={"finish_reason": "tool_calls"}),
        ],
        [
            of_graph(type="tool", id="2", content="r"),
            of_graph(type="AIMessageChunk", id="3", content="a"),
        ],
        of_graph(type="AIMessageChunk", id="3", response_metadata={"finish_reason": "stop"}),
    ),
}


@each_case("wire", DECLARED)
def test_an_agents_tool_time_is_no_silence(wire: str) -> None:
    (opening, *calls), (result, text), end = DECLARED[wire]
    began: list[Part] = [(0, opening), *((100, data) for data in calls)]
    path = {"path": "/runs/stream"}
    complete = measured(*began, (9000, result), (9100, text), (9200, end), end=9200, **path)
    assert (silences(complete), is_stalled(complete)) == ((100, 100), (False, False))
    abandoned = measured(*began, by="client", end=9000, **path)
    assert is_stalled(abandoned) == (False, False)
    silent = measured(*began, (9000, result), by="client", end=12_000, **path)
    assert (silences(silent), "stall" in silent.flags) == ((100, 3000), True)


def of_lines(path: str, *texts: str) -> tuple[str, str, list[bytes]]:
    return path, "application/x-ndjson", [text.encode() + b"\n" for text in texts]


WIRES = {
    "anthropic": ("/v1/messages", "text/event-stream", [TEXT, TEXT, STOP]),
    "responses": (
        "/v1/responses",
        "text/event-stream",
        [
            anthropic("response.output_text.delta", output_index=0, delta="a"),
            anthropic("response.output_text.delta", output_index=0, delta="b"),
            anthropic("response.completed", response={"status": "completed"}),
        ],
    ),
    "ollama": of_lines(
        "/api/chat",
        '{"model": "m", "message": {"content": "a"}, "done": false}',
        '{"model": "m", "message": {"content": "b"}, "done": false}',
        '{"model": "m", "message": {"content": ""}, "done": true, "done_reason": "stop"}',
    ),
    "bedrock": (
        "/model/m/converse-stream",
        "application/vnd.amazon.eventstream",
        [
            eventstream.event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}}),
            eventstream.event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "b"}}),
            eventstream.event("messageStop", {"stopReason": "end_turn"}),
        ],
    ),
}


@each_case("wire", WIRES)
def test_every_wire_is_judged_alike(wire: str) -> None:
    path, kind, (opening, second, end) = WIRES[wire]
    wire_facts = {"path": path, "content_type": kind}
    cut = measured((100, opening), (200, second), by="client", end=3300, **wire_facts)
    assert (silences(cut), is_stalled(cut)) == ((100, 3100), (True, True))
    late = measured((100, opening), (200, second), (3300, end), end=9000, **wire_facts)
    assert (silences(late), is_stalled(late)) == ((100, 3100), (True, False))


def test_a_wire_without_an_end_ends_with_the_body() -> None:
    text = b'data: {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}\r\n\r\n'
    measures = measured((100, text), path="/v1beta/models/g:streamGenerateContent?alt=sse", end=3300)
    assert (silences(measures), is_stalled(measures), measures.outcome) == ((100, 3200), (True, False), "complete")


def test_a_client_that_took_no_more_gave_nothing_up() -> None:
    large = word("x" * 100_000)
    measures = measured((0, large), (10, word(), None), (20, word(), None), by="client", end=9000)
    assert is_stalled(measures) == (True, False)
    assert measures.silent_end_by == "client"


def test_a_missing_end_leaves_the_last_silence_unknown() -> None:
    measures = measured((100, word()), (200, word()), by="eof", end=9000, gap_bytes=7)
    assert (silences(measures), is_stalled(measures)) == ((100, 100), (False, False))


def test_a_broken_stream_tells_a_quiet_last_silence() -> None:
    quiet = measured((100, word()), by="eof", end=5000)
    pinged = measured((100, word()), (3000, COMMENT), by="eof", end=5000)
    assert [(measures.silent_end_by, measures.silent_end_is_quiet) for measures in (quiet, pinged)] == [
        ("upstream", True), ("upstream", False),
    ]  # fmt: skip
    assert measured((100, word()), (5000, DONE)).silent_end_by is None


def test_stalls_among_gaps_are_those_of_an_answer() -> None:
    gaps = [10 * MS, 3000 * MS, 10 * MS]
    assert [*stalls_among(gaps, 5 * MS, 3025 * MS)] == [(15 * MS, 3015 * MS)]
    assert [*stalls_among((), 5 * MS, 3025 * MS, 2001 * MS)] == [(3025 * MS, 5026 * MS)]
    assert [*stalls_among((), None, None, 2001 * MS)] == [(0, 2001 * MS)]
    tools = [(15 * MS, 3000 * MS), (3025 * MS, 4000 * MS)]
    assert [*stalls_among(gaps, 5 * MS, 3025 * MS, 3000 * MS, tools)] == [(4000 * MS, 7000 * MS)]
    answer = AwaitedAnswer(0, 9000 * MS, [5 * MS, 3025 * MS], can_end_stalled=False)
    assert answer.stalls() == [(5 * MS, 3025 * MS)]
    assert answer.stalls(Thresholds(stall_ms=4000)) == []
    assert dataclasses.replace(answer, can_end_stalled=True).stalls(Thresholds(stall_ms=4000)) == [answer.last]
