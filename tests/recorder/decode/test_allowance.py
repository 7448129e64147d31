"""Bodies made to cost as much as possible are decoded up to a limit, and say so."""

import itertools
import time
from typing import Any

import pytest

from tests.support.websockets import ASK, MS, response, side, websocket
from wiretape.recorder.clock import Clock
from wiretape.recorder.decode import allowance
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.decode.framings.websocket import frame_ends
from wiretape.recorder.decode.metrics import Measures

CHUNK = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}\n\n'
WHOLE = CHUNK % 1 + CHUNK % 2 + END + b"data: [DONE]\n\n"
OLLAMA = b'{"model":"m","message":{"role":"assistant","content":"Hi"},"done":false}\n'
SSE, NDJSON = "text/event-stream", "application/x-ndjson"


def exchange(content_type: str = SSE, **more: Any) -> Exchange:
    return Exchange(status=200, content_type=content_type, ended_by="end", headers_ns=1, end_ns=900 * MS, **more)


def measure(body: bytes, content_type: str = SSE) -> Measures:
    return derive(exchange(content_type), [Read(0, 100 * MS, None, 0, len(body))], body)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a hundred lines, or 25 frames."""
    monkeypatch.setattr(allowance, "MAX_LINES", 100)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("line", [b"x\n", b"id\r\n", b"data\r", b"retry: 1\n", b"error:\n"])
def test_lines_that_are_no_event_count(line: bytes) -> None:
    measures = measure(WHOLE.replace(b"data: [DONE]\n\n", b"") + line * 200 + b"\n" + WHOLE)
    assert (measures.content, measures.bytes, measures.reads) == ("12", len(WHOLE) * 2 - 14 + 200 * len(line) + 1, 1)
    assert "decode_limit" in measures.flags


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        *((WHOLE[:-14] + blank * 200 + WHOLE[-14:], SSE) for blank in (b"\n", b"\r", b"\r\n")),
        *((OLLAMA + blank * 200 + OLLAMA.replace(b"false", b"true"), NDJSON) for blank in (b"\n", b" \t\r\n")),
    ],
)
def test_blank_lines_cost_nothing(body: bytes, content_type: str) -> None:
    assert "decode_limit" not in measure(body, content_type).flags
    assert measure(body, content_type).content in ("12", "HiHi")


def test_many_blank_lines_take_no_time() -> None:
    began = time.thread_time()
    measure(WHOLE[:-14] + b"\n" * (16 << 20) + WHOLE[-14:])
    measure(OLLAMA + b"\r\n" * (8 << 20), NDJSON)
    assert time.thread_time() - began < 2


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("frame", [b"\x00\x00", b"\x00\x01x", b"\x89\x00", b"\x82\x00"])
def test_frames_count_and_what_came_before_them_is_kept(frame: bytes) -> None:
    upstream, client = side(), side(client=True)
    frames = [(110, b"".join(bytes(upstream.send_data(message)) for message in response(1, "Hel", "lo")))]
    frames.append((200, (b"\x01\x00" if frame[0] == 0 else b"") + frame * 100))
    facts = websocket(frames, [(100, bytes(client.send_data(ASK)))])
    measures = derive(*facts)
    assert (measures.content, measures.ttft_ns, measures.bytes) == ("Hello", 10 * MS, len(facts[2]))
    assert "decode_limit" in measures.flags


def test_the_ends_of_unnumbered_frames_are_limited() -> None:
    assert len(frame_ends(b"\x00\x00" * 600_000)) == allowance.MAX_LINES // allowance.FRAME


@pytest.mark.usefixtures("few")
def test_payloads_that_must_be_repaired_count_by_their_size() -> None:
    broken = b'data: {"choices":[' + b"[]," * 100 + b"\n\n"
    measures = measure(WHOLE.replace(b"data: [DONE]\n\n", b"") + broken * 9)
    assert measures.content == "12"
    assert {"decode_limit", "malformed"} <= set(measures.flags)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"a":[' + b"[]," * 60 + b"1]}", "application/json"),
        (b"[" + b"{}," * 60 + b"{}]", "application/json"),
        (b'data: {"a":[' + b"[]," * 60 + b"1]}\n\n", SSE),
        (b'data: {"a":1}\n\n{"a":[' + b"[]," * 60 + b"1]}\n", SSE),
        (OLLAMA + b'{"a":[' + b"[]," * 60 + b"1]}\n" + OLLAMA, NDJSON),
    ],
)
def test_values_without_number_are_not_parsed(body: bytes, content_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "MAX_VALUES", 100)
    measures = measure(body, content_type)
    assert (measures.outcome, measures.bytes) == ("complete", len(body))
    assert "decode_limit" in measures.flags


def test_an_error_of_values_without_number_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "MAX_VALUES", 100)
    body = b'{"error":[' + b"[]," * 60 + b"1]}"
    measures = derive(
        Exchange(status=500, content_type="application/json", ended_by="end", headers_ns=1, end_ns=9), [], body
    )
    assert (measures.outcome, measures.error_code) == ("http_error", None)
    assert "decode_limit" in measures.flags


def test_cpu_time_is_the_last_resort() -> None:
    body = b"".join(b'data: {"object":"chat.completion.chunk","id":"%d"}\n\n' % number for number in range(9_000))
    standing, fast_clock = Clock(lambda: 0), Clock(itertools.count(0, 1_000_000_000).__next__)
    assert "decode_limit" not in decode(exchange(), [], body, standing).flags
    measures = decode(exchange(), [], body, fast_clock)
    assert (measures.flags, measures.whole, measures.ends[-1] < len(body)) == ({"decode_limit"}, False, True)


def test_cpu_time_of_frames_is_limited() -> None:
    frames = [(110, b"\x89\x00" * 9_000)]
    fast_clock = Clock(itertools.count(0, 1_000_000_000).__next__)
    assert "decode_limit" not in decode(*websocket(frames, []), Clock(lambda: 0)).flags
    assert "decode_limit" in decode(*websocket(frames, []), fast_clock).flags


def test_values_of_the_end_are_unknown_behind_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"".join(CHUNK % number for number in range(9))
    monkeypatch.setattr(allowance, "MAX_VALUES", 10)
    used = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    measures = measure(used + body + b"data: {" + b"," * 11 + b"}\n\n" + WHOLE)
    assert (measures.content, measures.ttft_ns, measures.input_tokens) == ("012345678", 100 * MS, 3)
    assert (measures.output_tokens, measures.total_tokens, measures.latency_ns, measures.tail_ns) == (
        None,
        None,
        None,
        None,
    )
    assert (measures.max_gap_ns, measures.icl_p50_ns, measures.e2e_tps, measures.coalesced_fraction) == (
        None,
        None,
        None,
        None,
    )
    reference = measure(WHOLE + b"data: {" + b"," * 11 + b"}\n\n")
    assert (reference.outcome, reference.output_tokens, reference.latency_ns) == ("complete", 2, 100 * MS)
    assert "decode_limit" in reference.flags


def test_one_carriage_return_keeps_decoding_linear() -> None:
    began = time.thread_time()
    measures = measure(b"\r" + b"".join(CHUNK % (number % 10) for number in range(60_000)))
    assert (measures.chunks, time.thread_time() - began < 5) == (60_000, True)
