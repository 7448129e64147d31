"""The input of tools: lines and blocks with their timestamps, the rest of a body, and the JSON that they can read."""

import dataclasses
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.tools import CHUNK, request
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.decode.runs import ItemRun
from wiretape.viewer.stats.tools import request as seen
from wiretape.viewer.stats.tools.request import ToolError
from wiretape.viewer.stats.tools.summary import measure
from wiretape.viewer.stats.tools.tools import TOOLS

STREAMS = sorted((Path(__file__).parents[3] / "data" / "streams").glob("*.sse"))


def test_events_and_comments_have_their_last_bytes_timestamp():
    frames = request(b": c\n\n" + CHUNK[:9], CHUNK[9:], b"data: [DONE]\n\n").frames
    assert [(*frame.at_ns, frame.comment) for frame in frames] == [(10, True), (20, False), (30, False)]
    assert [frame.data for frame in frames[1:]] == [CHUNK[6:-2].decode(), "[DONE]"]


def test_a_frame_has_the_lines_of_the_wire():
    previous_frame, frame = request(b": a\n" + b"event: message\r\n: b\r\n" + CHUNK).frames
    assert previous_frame.lines() == [b": a"]
    assert frame.lines() == [b"event: message", b": b", CHUNK.strip()]


def test_a_bodys_remainder_is_an_incomplete_frame():
    first, remainder = request(CHUNK, CHUNK.strip()).frames
    assert (first.is_terminated, remainder.is_terminated, remainder.at_ns, remainder.data) == (
        True,
        False,
        [20],
        first.data,
    )
    cut = request(CHUNK, CHUNK[:20]).frames[-1]
    assert (cut.is_terminated, cut.at_ns, cut.lines()) == (False, [99], [CHUNK[:20]])


def test_a_failed_requests_answer_is_not_read():
    assert request(b'{"error":{"message":"slow down"}}', status=429).frames == ()


def test_lines_of_blocks_without_data_are_frames_too():
    first, error_frame, final_frame = request(CHUNK, b"event: error\nretry: 3\n\n", CHUNK).frames
    assert (error_frame.at_ns, error_frame.lines(), error_frame.data) == ([20], [b"event: error", b"retry: 3"], "")
    assert (first.at_ns, final_frame.at_ns) == ([10], [30])


def test_only_whole_lines_of_abandoned_answers_are_read():
    assert [frame.lines() for frame in request(CHUNK, b"data: {\ndata: {", ended_by="client").frames[1:]] == [
        [b"data: {"]
    ]
    assert len(request(CHUNK, CHUNK[:20], ended_by="client").frames) == 1


def test_usage_is_the_last_chunks_that_has_it():
    usage = b'data: {"choices":[],"usage":{"completion_tokens":%d}}\n\n'
    question = request(usage % 3, CHUNK, usage % 5, b'data: {"choices":[],"usage":{"completion_tokens":null}}\n\n')
    assert question.reported_tokens() == 5
    assert request(CHUNK).reported_tokens() is None


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"status": None, "ended_by": "refused"}, r"no answer \(refused\)"),
        ({"status": 503}, "HTTP 503"),
        ({"ended_by": "reset"}, r"connection broke \(reset\)"),
    ],
)
def test_a_client_raises_on_errors_and_broken_connections(facts, reason):
    question = request(CHUNK, b"data: [DONE]\n\n", **facts)
    checks = question.check_end if question.exchange.status == 200 else question.check_status
    with pytest.raises(ToolError, match=reason):
        checks()


def test_json_is_read_as_the_standard_library_reads_it():
    assert seen.load(b'{"a":NaN,"b":"\\ud800"}', "data line")["b"] == "\ud800"
    with pytest.raises(ToolError, match="JSONDecodeError on data line"):
        seen.load("{", "data line")
    with pytest.raises(ToolError, match="TypeError on data line that is no object"):
        seen.load("[1]", "data line")


@each_case(
    ("line", "name"),
    [
        (b": keep-alive", "SSE comment line"),
        (b"data: {", "data line"),
        (b"data:{}", "'data:' without a space"),
        (b"event: message", "SSE field line"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line, name):
    assert seen.place(line) == name


def test_any_payload_has_choice_delta_and_count_or_none():
    odd = [{}, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": [{"delta": 1}]}]
    assert [seen.first_choice(payload) for payload in odd] == [None, None, None, {}, {"delta": 1}]
    assert seen.part({"delta": 1}, "delta") == {}
    assert [seen.completion_tokens({"usage": usage}) for usage in (None, [], {}, {"completion_tokens": True})] == [
        None
    ] * 4


def test_gaps_and_rates_need_two_tokens():
    assert seen.gaps([1_000_000, 3_500_000, 3_500_000]) == [2.5, 0.0]
    assert seen.per_token(10_000_000, 5) == 2.5
    assert seen.per_token(10_000_000, 1) is seen.per_token(10_000_000, None) is None


def test_data_without_timestamp_is_not_wholly_recorded():
    exchange = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=99)
    decoded = decode(exchange, [Read(0, 10, None, 0, len(CHUNK))], 2 * CHUNK)
    assert seen.request(exchange, decoded, derive(exchange, [], 2 * CHUNK)) == "not wholly on the tape"


def assert_measured_alike(body, size):
    """Measure a body as it is decoded, and with each of its chunks in a run of its own."""
    reads = [
        Read(seq, (seq + 1) * 10, None, start, min(size, len(body) - start))
        for seq, start in enumerate(range(0, len(body), size))
    ]
    exchange = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=10**6)
    decoded, judged = decode(exchange, reads, body), derive(exchange, reads, body)
    alone = [
        ItemRun(chunk, None, [""], item) for run in decoded.runs for item, chunk in enumerate(run.chunks(), run.item)
    ]
    for tool in TOOLS:
        measured = measure(tool, exchange, decoded, judged)
        assert measured == measure(tool, exchange, dataclasses.replace(decoded, runs=alone), judged), tool


WORDS = [" ", "a", " ", "b", "\\n", "\u2028", "—", "x"]


def answer(line_end="\n", blank=2, words=WORDS, lead="data: "):
    payload = '{{"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"{}":"{}"}}}}]}}'
    names = ["reasoning_content", "content", "refusal"]
    events = [payload.format(name, word) for name in names for word in 3 * words]
    return "".join(f"{lead}{event}{blank * line_end}" for event in [*events, "[DONE]"]).encode()


@each_case("size", [1, 7, 90, 1_000_000])
def test_simultaneous_events_are_measured_separately(size):
    bodies = [path.read_bytes() for path in STREAMS]
    for body in bodies + [body.replace(b"\r", b"").replace(b"\n", b"\r\n") for body in bodies]:
        assert_measured_alike(body, size)


@pytest.mark.parametrize(
    "body",
    [
        answer(),
        answer("\r\n"),
        answer(blank=3),
        answer(lead="data:"),
        answer(words=[" "]),
        answer(words=["a"]) + CHUNK.strip(),
        b": ping\n" + answer(words=["a"]) + b": ping\n\n" + answer(words=["b"]),
        answer(words=["a", "\xff"]).replace("\xff".encode(), b"\xff"),
        answer() + b'data: {"choices":[],"usage":{"completion_tokens":7}}\n\n' + answer(),
    ],
)
def test_events_are_measured_alike_however_they_are_cut(body):
    for size in [*range(60, 131, 5), 999, 10**6]:
        assert_measured_alike(body, size)
    event = len(answer(words=["a"]).split(b"\n\n")[0])
    for size in (event, event + 1, event + 2):
        assert_measured_alike(answer(words=["a"]), size)
