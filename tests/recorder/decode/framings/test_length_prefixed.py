import gzip
import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.rpc import end_stream, message, trailers
from wiretape.recorder.decode.framings.length_prefixed import fields, messages

FIRST = message(b"\x0a\x05hello")
SECOND = message(b"", 0)
THIRD = message(gzip.compress(b"{}"), 1)
STREAM = FIRST + SECOND + THIRD


def spans(data, framing="grpc"):
    return [(message.start, message.end) for message in messages(data, framing)]


def test_messages_are_cut_where_their_lengths_say():
    first, second, third = messages(STREAM, "grpc")
    assert STREAM[first.payload] == b"\x0a\x05hello"
    assert STREAM[second.payload] == b""
    assert (first.flags, third.flags, third.end) == (0, 1, len(STREAM))


@given(st.integers(0, len(STREAM)))
def test_a_message_cut_off_at_the_end_is_ignored(size):
    assert spans(STREAM[:size]) == [span for span in spans(STREAM) if span[1] <= size]


@each_case(
    ("framing", "last", "count"),
    [
        ("connect", end_stream(), 2),
        ("connect", message("{}", 3), 2),
        ("grpc-web", trailers("grpc-status: 0\r\n"), 2),
        ("grpc-web", message("x", 0x81), 2),
        ("grpc", end_stream(), 3),
        ("grpc", trailers("grpc-status: 0\r\n"), 3),
        ("connect", trailers("grpc-status: 0\r\n"), 3),
        ("grpc-web", end_stream(), 3),
    ],
)
def test_only_its_own_framings_flag_ends_a_stream(framing, last, count):
    received = list(messages(FIRST + last + SECOND, framing))
    assert len(received) == count
    assert [message.is_last for message in received] == ([False, True] if count == 2 else [False] * 3)


@each_case("length", [8, 1 << 16, (1 << 31) - 1, (1 << 32) - 1])
def test_a_length_beyond_the_body_ends_the_messages(length):
    assert spans(FIRST + struct.pack(">BI", 0, length) + b"seven b") == [(0, len(FIRST))]


@given(st.binary(max_size=200), st.sampled_from(["grpc", "grpc-web", "connect"]))
def test_messages_of_any_bytes_follow_each_other(data, framing):
    at = 0
    for start, end in spans(data, framing):
        assert (start, end >= start + 5, end <= len(data)) == (at, True, True)
        at = end


@each_case(
    ("raw", "framing", "coding", "type", "text"),
    [
        (message('{"a":"é"}'), "connect", None, "message", '{"a":"é"}'),
        (message('{"a":"é"}')[:-3], "connect", None, "message", '{"a":"'),
        (message(b"\x0a\x05hello"), "grpc", None, "message", "0a0568656c6c6f"),
        (message(b"\n hello"), "grpc", None, "message", "0a2068656c6c6f"),
        (message(b"\xffhello"), "grpc", None, "message", "ff68656c6c6f"),
        (message(b""), "grpc", None, "message", ""),
        (message(gzip.compress(b'{"a":1}'), 1), "grpc", "gzip", "message", '{"a":1}'),
        (message(b"\x01\x02", 1), "grpc", "gzip", "message", "0102"),
        (message(b"\x01\x02", 1), "grpc", "snappy", "message", "0102"),
        (message(b"\x01\x02", 1), "grpc", None, "message", "0102"),
        (trailers("grpc-status: 0\r\n"), "grpc-web", None, "trailers", "grpc-status: 0\r\n"),
        (end_stream(), "connect", None, "end-stream", "{}"),
        (b"", "grpc", None, "message", ""),
        (b"\x01", "grpc", "gzip", "message", ""),
        (message(gzip.compress(b""), 1), "grpc", "gzip", "message", gzip.compress(b"").hex()),
    ],
)
def test_a_payload_is_shown_as_text_or_hex(raw, framing, coding, type, text):
    assert fields(raw, framing, coding) == (type, text)
