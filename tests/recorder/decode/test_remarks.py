"""Texts outside of events: the only explanation of many a failure."""

import json
import struct
import zlib
from zlib import crc32

import pytest

from tests.support.decoding import derived

CHAT = 'data: {"choices":[{"index":0,"delta":{"content":"Two swa"},"finish_reason":null}]}\n\n'
PAGE = "<html>\r\n<head><title>502 Bad&nbsp;Gateway</title></head>\r\n<body>\r\n\r\n<hr>nginx</body></html>\r\n"


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("upstream error: read ECONNRESET\n", "upstream error: read ECONNRESET"),
        ("upstream error: read ECONNRESET", "upstream error: read ECONNRESET"),
        ("data: error: engine ran out of memory\n\n", "error: engine ran out of memory"),
        ("data: error: engine ran out of memory", "error: engine ran out of memory"),
        (PAGE, "502 Bad Gateway"),
        ("Internal Server Error", "Internal Server Error"),
        ('data: {"choices":[{"de', None),
        (": keep-alive", None),
        ("event: x\nid: 7\nretry: 3\n", None),
        ("", None),
    ],
)
def test_text_outside_events_is_the_ends_reason(tail, reason):
    measures = derived(CHAT + tail, path="/v1/chat/completions")
    assert (measures.outcome, measures.outcome_detail) == ("truncated", "eof")
    assert measures.error_message == reason


def test_an_unknown_text_stream_has_no_reason():
    assert derived("data: Hello\n\ndata: wor", path="/v2/parts").error_message is None
    assert derived(CHAT + "rest of a line\n", path="/v2/parts", gap_bytes=9).error_message is None


def test_a_complete_stream_has_no_reason():
    end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    assert derived(CHAT + "proxy: bye\n\n" + end).error_message is None


def test_a_line_among_lines_of_json_is_the_reason():
    lines = '{"model":"q","message":{"content":"Hi"},"done":false}\nupstream error: timeout\n'
    measures = derived(lines, content_type="application/x-ndjson", path="/api/chat")
    assert (measures.outcome, measures.error_message) == ("truncated", "upstream error: timeout")


@pytest.mark.parametrize(
    ("tail", "outcome"),
    [
        ("", ("complete", None)),
        (": bye", ("complete", None)),
        ('data: {"part": 2}', ("complete", None)),
        ('data: {"part": ', ("truncated", "eof")),
        ("event: part\n", ("truncated", "eof")),
        ("gateway timeout\n", ("truncated", "eof")),
        ('data: {"error": {"message": "no"}}\n\n', ("error_event", "mid_stream")),
    ],
)
def test_an_unknown_stream_is_whole_between_events(tail, outcome):
    measures = derived('data: {"part": 1}\n\n' + tail, path="/v2/parts")
    assert (measures.outcome, measures.outcome_detail) == outcome


def frame(payload):
    headers = b"".join(
        bytes((len(name),)) + name + b"\x07" + struct.pack(">H", len(value)) + value
        for name, value in ((b":event-type", b"chunk"), (b":message-type", b"event"))
    )
    data = json.dumps(payload).encode()
    head = struct.pack(">II", 16 + len(headers) + len(data), len(headers))
    head += struct.pack(">I", crc32(head)) + headers + data
    return head + struct.pack(">I", crc32(head))


def test_an_unknown_aws_stream_is_whole_between_frames():
    body = frame({"bytes": "VHdv"}) + frame({"bytes": "IHN3YW5z"})
    facts = {"content_type": "application/vnd.amazon.eventstream", "path": "/agents/A/agentAliases/B/sessions/s/text"}
    for size, outcome in ((len(body), "complete"), (len(body) - 5, "truncated")):
        measures = derived(body[:size], **facts)
        assert (measures.api, measures.outcome, "malformed" in measures.flags) == ("unknown", outcome, False)


def test_a_stream_with_broken_compression_is_not_complete():
    packer = zlib.compressobj(wbits=31)
    part = packer.compress(CHAT.encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
    facts = {"content_encoding": "gzip", "path": "/v1/chat/completions"}
    for tail, flags in ((b"", set()), (b"upstream error\n" * 4, {"undecoded"})):
        measures = derived(part + tail, **facts)
        assert (measures.outcome, measures.content, flags <= {*measures.flags}) == ("truncated", "Two swa", True)
