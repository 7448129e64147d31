"""Decoding with what repeats found at once is decoding each payload, of ordinary bodies and of hostile ones."""

import dataclasses
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode import decoder, templates
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.decode.templates import Templates

STREAMS = sorted((Path(__file__).parents[2] / "data" / "streams").glob("*.sse"))


def exchange(content_type: str | None = "text/event-stream", coding: str | None = None, **more: Any) -> Exchange:
    return Exchange(status=200, content_type=content_type, content_encoding=coding, ended_by="end", **more)


def decode_one_by_one(facts: Exchange, reads: Sequence[Read], body: bytes) -> Decoded:
    """Decode with each payload parsed by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Templates, "find", lambda *_: None)
        return decode(facts, reads, body)


def assert_the_same(facts: Exchange, reads: Sequence[Read], body: bytes) -> Decoded:
    decoded, slow = decode(facts, reads, body), decode_one_by_one(facts, reads, body)
    assert (decoded.items(), list(decoded.chunks())) == (slow.items(), list(slow.chunks()))
    assert [decoded.chunk(no) for no in range(sum(map(len, decoded.runs)))] == [part.chunk for part in decoded.chunks()]
    assert dataclasses.replace(decoded, runs=[]) == dataclasses.replace(slow, runs=[])
    assert all(decoded.runs)
    return decoded


def cut(body: bytes, sizes: Sequence[int]) -> list[Read]:
    """Cut a body into reads of these sizes, the last one as long as it must be."""
    reads: list[Read] = []
    start = 0
    for seq, size in enumerate([*sizes, len(body)]):
        if start < len(body):
            reads.append(Read(seq, 1_000 * seq, None, start, min(size, len(body) - start)))
            start += size
    return reads


def payload(text: str, name: str, choice: int, ascii: bool, more: dict[str, Any]) -> str:
    delta = {"tool_calls": [{"function": {"arguments": text}}]} if name == "arguments" else {name: text}
    chunk = {"id": "r", "choices": [{"index": choice, "delta": delta, "finish_reason": None}], **more}
    return json.dumps(chunk, ensure_ascii=ascii)


TEXTS = st.one_of(
    st.sampled_from(["a", " word", " word", "", "\n", '"', "\\", "é—", "data: ", "error:", "\ufffd", "\x7f"]),
    st.text(max_size=4),
)
PADDED, NUMBERED = {"obfuscation": "xyz"}, {"sequence_number": 0}
SHAPES = st.tuples(
    st.sampled_from(["data: ", "data: ", "data: ", "data:", "data:  ", "event: x\ndata: ", "event: error\ndata: "]),
    st.sampled_from(["content", "content", "reasoning", "refusal", "arguments", "role"]),
    st.sampled_from([0, 0, 0, 1]),
    st.booleans(),
    st.sampled_from([{}, {}, {"usage": {"completion_tokens": 3}}, PADDED, NUMBERED, PADDED | NUMBERED, {"error": "x"}]),
)
ODD_DATA = st.sampled_from(
    ["[DONE]", "", "{", "{}", "[1]", "null", '{"choices":[', '{"object":"error","message":"no"}']
)
ODD_BLOCKS = st.one_of(
    st.sampled_from([": OPENROUTER PROCESSING", ":", ": a\n: b", "", "\n", "data", "id: 1", "error: no", "retry: 1"]),
    st.sampled_from(["event: error\ndata: {}", ": x\ndata: {}", "data: {}\nid: 7", "event: message\ndata: {}"]),
    st.builds("data: {}".format, ODD_DATA),
    ODD_DATA,
    TEXTS,
)


@st.composite
def events(draw: st.DrawFn) -> list[str]:
    """Events in a row of a few shapes that take turns, as the chunks of an answer do."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=2))
    seen = []
    for place, text in enumerate(draw(st.lists(TEXTS, min_size=1, max_size=12))):
        lead, name, choice, ascii, more = shapes[place % len(shapes)]
        fields = {"obfuscation": text * 2, "sequence_number": place}
        fields = {**more, **{key: value for key, value in fields.items() if key in more}}
        seen.append(lead + payload(text, name, choice, ascii, fields))
    return seen


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Bodies of events: most as APIs send them, some with arbitrary other data."""
    blocks = [block for some in draw(st.lists(events(), min_size=1, max_size=2)) for block in some]
    for odd in draw(st.lists(ODD_BLOCKS, max_size=2)):
        blocks.insert(draw(st.integers(0, len(blocks))), odd)
    line_end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"]))
    body = "".join(f"{block}\n\n" for block in blocks).replace("\n", line_end).encode("utf-8", "replace")
    match draw(st.integers(0, 9)):
        case 0:
            return body[: draw(st.integers(0, len(body)))]
        case 1:
            at = draw(st.integers(0, len(body)))
            return body[:at] + draw(st.sampled_from([b"\xff", b"\0", b'"', b"\\", b"}", b"\xe2\x80"])) + body[at:]
    return body


@given(
    bodies(), st.lists(st.integers(1, 200), max_size=30), st.sampled_from([None, "gzip", "deflate", "br"]), st.data()
)
def test_what_repeats_is_what_parsing_each_payload_gives(
    plain: bytes, sizes: Sequence[int], coding: str | None, data: st.DataObject
) -> None:
    window = {"gzip": 31, "deflate": 15}.get(coding or "")
    body = plain if window is None else zlib.compress(plain, wbits=window)
    reads = cut(body, sizes)
    if reads and data.draw(st.integers(0, 3)) == 0:  # one is missing on the tape
        del reads[data.draw(st.integers(0, len(reads) - 1))]
    kind = data.draw(st.sampled_from(["text/event-stream", None, "application/json", "application/x-ndjson"]))
    assert_the_same(exchange(kind, coding), reads, body)


@each_case("path", STREAMS, ids=lambda path: path.stem)
@each_case("size", [1, 7, 100, 1_000_000])
def test_real_streams_are_what_parsing_each_payload_gives(path: Path, size: int) -> None:
    body = path.read_bytes()
    assert_the_same(exchange(), cut(body, [size] * (len(body) // size)), body)


def stream(count: int, separator: str = "\n\n", **more: Any) -> bytes:
    payloads = [payload(f" word {place}", "content", 0, False, more) for place in range(count)]
    return "".join(f"data: {payload}{separator}" for payload in [*payloads, "[DONE]"]).encode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_events_that_are_named_and_numbered_are_one_run(line_end: str) -> None:
    payloads = [payload(f" word {place}", "content", 0, False, {"sequence_number": place}) for place in range(100)]
    body = "".join(f"event: x{line_end}data: {payload}{line_end}{line_end}" for payload in payloads).encode()
    decoded = assert_the_same(exchange(), cut(body, [100] * 99), body)
    assert [(run.part, len(run.texts)) for run in decoded.runs] == [(None, 1), ("content", 99)]


@each_case("separator", ["\n\n", "\r\n\r\n", "\n\n: ping\n\n", "\n\n: two\n: pings\n\n"])
def test_any_line_end_makes_a_long_answer_two_runs(separator: str) -> None:
    body = stream(100, separator)
    decoded = decode(exchange(), cut(body, [100] * 99), body).runs
    assert sum(len(run.texts) for run in decoded) == 100
    assert_the_same(exchange(), cut(body, [1] * len(body)), body)
    if "ping" not in separator:
        assert [(run.part, len(run.texts)) for run in decoded] == [(None, 1), ("content", 99)]
    assert_the_same(exchange(), cut(body, [100] * 99), body)


@pytest.mark.parametrize("window", [1, 150, 1000])
def test_the_window_does_not_change_a_run(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "WINDOW", window)
    odd = stream(20, "\n\n: ping\n\n") + stream(40).replace(b"word 7", b"\\n")
    body = stream(60) + stream(9, obfuscation="x") + odd
    assert_the_same(exchange(), cut(body, [100] * 99), body)
    assert len(decode(exchange(), cut(body, [100]), body).runs) < 45


def test_what_has_no_read_has_no_timestamp() -> None:
    body = stream(9)
    reads = [read for read in cut(body, [100] * 20) if read.seq not in (2, 3, 4, 9)]
    assert None in assert_the_same(exchange(), reads, body).at_ns


@each_case(
    "reads",
    [
        [(0, 1, 300, 300), (1, 2, 0, 300), (2, 3, 600, 9999)],
        [(0, 1, 0, 0), (1, 2, 0, 300), (2, 3, 300, 0), (3, 4, 300, 9999)],
        [(0, 1, 0, 400), (1, 2, 300, 300), (2, 3, 600, 9999)],
        [(0, 1, 0, 300), (1, 2, 300, -100), (2, 3, 200, 9999)],
        [],
    ],
)
def test_reads_need_not_follow_each_other(reads: list[tuple[int, int, int, int]]) -> None:
    body = stream(9)
    sizes = [len(body) - start if size == 9999 else size for _, _, start, size in reads]
    sized_reads = [
        Read(seq, at_ns, None, start, size) for (seq, at_ns, start, _), size in zip(reads, sizes, strict=True)
    ]
    assert_the_same(exchange(), sized_reads, body)


def test_absent_and_empty_bodies_have_no_chunks() -> None:
    assert decode(exchange(), [], b"").runs == []
    assert decode(exchange(framing="none"), [Read(0, 1, None, 0, 9)], b"data: {}\n\n").runs == []


def test_a_body_beyond_the_decoded_limit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    body = stream(9)
    for limit in range(1, 30):
        monkeypatch.setattr(decoder, "MAX_ITEMS", limit)
        decoded = assert_the_same(exchange(), cut(body, [100]), body)
        assert decoded.whole is (limit >= 20)


def test_an_item_is_read_from_its_bytes() -> None:
    body = b"id: 7\ndata: {}\n\n: ping\ndata: a\n\nevent: x\n: in\ndata: {}\n\nerror: no\ndata: {}"
    decoded = assert_the_same(exchange(), cut(body, []), body)
    assert [(item.kind, item.type, item.id, item.data) for item in decoded.items()] == [
        ("event", "message", "7", "{}"), ("comment", "", "", "ping"), ("event", "message", "7", "a"),
        ("comment", "", "", "in"), ("event", "x", "7", "{}"), ("record", "error", "", "no"),
        ("record", "message", "7", "{}"),
    ]  # fmt: skip


OLLAMA = b'{"model":"m","message":{"role":"assistant","content":"Hi"},"done":false}\n'
PRETTY = json.dumps(json.loads(OLLAMA), indent=2).encode()
GEMINI = b'{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"index":0}]}'
WHOLE = b'\n{"type":"message","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}\n'
FRAME = b"\0\0\0\x10\0\0\0\0\x05\xc2\x48\xeb\x7d\x98\xc8\xff"


@each_case(
    ("body", "content_type", "path", "framing"),
    [
        (b"data: x\n\n", "text/event-stream; charset=utf-8", "", "sse"),
        (b"", "text/event-stream", "", "sse"),
        (b"data: x\n\n", "application/json", "", "sse"),
        (b"event: x\r\ndata: y\r\n\r\n", "application/x-ndjson", "", "sse"),
        (b'{"error": "no"}', "text/event-stream", "", "sse"),
        (OLLAMA, "application/x-ndjson", "", "ndjson"),
        (OLLAMA, "application/json", "/api/chat", "ndjson"),
        (OLLAMA * 2, None, "", "ndjson"),
        (b'{"a": 1}', "application/x-ndjson", "", "ndjson"),
        (b'{"a": 1}', "application/json", "", "json"),
        (b'{\n  "a": 1\n}\n', "application/json", "", "json"),
        (b"[" + GEMINI, "application/json", "", "json-array"),
        (b'[{"a": 1}, {"a": 2}]', "application/json", "", "json"),
        (b'[{"a": 1}, {"a": 2}]', "application/json", "/v1beta/models/m:streamGenerateContent", "json-array"),
        (b'[{"error": {"code": 500}}]', "application/json", "/m:streamGenerateContent?key=k", "json-array"),
        (b"[1, 2]", "application/json", "/m:streamGenerateContent", "json"),
        (b"[", "application/json", "/m:streamGenerateContent", "json-array"),
        (b"", "application/json", "/m:streamGenerateContent", "json-array"),
        (b"", "text/event-stream", "/m:streamGenerateContent?alt=sse", "sse"),
        (b"[", "application/json", "", "json"),
        (WHOLE, "text/event-stream", "", "json"),
        (WHOLE + b"data: x", "text/event-stream", "", "sse"),
        (OLLAMA, "text/event-stream", "", "ndjson"),
        (FRAME, "application/vnd.amazon.eventstream", "", "aws-eventstream"),
        (FRAME, "application/octet-stream", "", "aws-eventstream"),
        (FRAME[:5], "application/vnd.amazon.eventstream", "", "aws-eventstream"),
        (b"data: x\n\n", "application/vnd.amazon.eventstream", "", "sse"),
        (b"", "application/json", "", "json"),
        (b"<html>", "text/html", "", "json"),
        (PRETTY, "application/x-ndjson", "/v1/models", "json"),
        (PRETTY[:40], "application/x-ndjson", "/v1/models", "json"),
        (b'{"a": 1,\n "b": 2}', "application/jsonl", "/v1/models", "json"),
        (b'{"a": 1,\n "b": 2', "application/jsonl", "/v1/models", "ndjson"),
        (OLLAMA[:1], "application/x-ndjson", "/api/chat", "ndjson"),
        (OLLAMA[:20], "application/x-ndjson", "/api/chat", "ndjson"),
        (OLLAMA, "application/x-ndjson", "/api/chat", "ndjson"),
    ],
)
def test_the_framing_follows_the_type_unless_bytes_disagree(body, content_type, path, framing):
    assert decode(exchange(content_type, path=path), [], body).framing == framing


def test_an_answer_that_has_no_body_is_no_stream():
    assert decode(exchange(framing="none"), [], b"").framing == "json"


def test_each_record_has_the_time_of_its_last_byte():
    body = OLLAMA * 2
    decoded = decode(exchange("application/x-ndjson"), cut(body, [10, len(OLLAMA) - 10, 5]), body)
    assert [(item.kind, item.at_ns, item.start, item.end) for item in decoded.items()] == [
        ("event", 1_000, 0, len(OLLAMA)),
        ("event", 3_000, len(OLLAMA), 2 * len(OLLAMA)),
    ]
    assert [(chunk.item, chunk.chunk.pieces[0].content) for chunk in decoded.chunks()] == [(0, "Hi"), (1, "Hi")]


def test_of_records_without_number_only_so_many_are_decoded(monkeypatch):
    monkeypatch.setattr(decoder, "MAX_ITEMS", 100)
    decoded = decode(exchange("application/x-ndjson"), [], OLLAMA * 200)
    assert (len(decoded.kinds) + len(decoded.runs), decoded.whole, decoded.flags) == (100, False, {"decode_limit"})
