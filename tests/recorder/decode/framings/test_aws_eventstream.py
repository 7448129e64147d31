import struct
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.eventstream import event, header, message, string
from wiretape.recorder.decode.framings import Record
from wiretape.recorder.decode.framings.aws_eventstream import fields, looks_like, records

FIRST = event("messageStart", {"role": "assistant"})
SECOND = event("contentBlockDelta", {"delta": {"text": "é"}, "contentBlockIndex": 0})
THIRD = event("messageStop", {"stopReason": "end_turn"})
STREAM = FIRST + SECOND + THIRD
EVERY_KIND = b"".join(
    [
        header("true", 0, b""), header("false", 1, b""), header("byte", 2, b"\xff"), header("short", 3, b"\x00\x01"),
        header("int", 4, bytes(4)), header("long", 5, bytes(8)), header("bytes", 6, b"\x00\x03abc"),
        header("time", 8, bytes(8)), header("uuid", 9, bytes(16)), string(":event-type", "chunk"),
    ]
)  # fmt: skip


def brief(data):
    return [(record.type, record.data, record.broken) for record in records(data)]


def prelude(total, length):
    lengths = struct.pack(">II", total, length)
    return lengths + struct.pack(">I", crc32(lengths))


def test_messages_are_cut_where_their_lengths_say():
    first, second, third = records(STREAM)
    assert first == Record(0, len(FIRST), "messageStart", '{"role":"assistant"}')
    assert second == Record(first.end, first.end + len(SECOND), "contentBlockDelta", brief(SECOND)[0][1])
    assert (third.type, third.end) == ("messageStop", len(STREAM))
    assert all(fields(STREAM[record.start : record.end]) == (record.type, record.data) for record in (first, second))


def test_headers_of_every_type_are_passed_over():
    assert brief(message(EVERY_KIND, "ü".encode()) + THIRD)[:1] == [("chunk", "ü", False)]


@each_case(
    ("headers", "payload", "type", "data"),
    [
        (b"", b"{}", "message", "{}"),
        (b"", b"", "message", ""),
        (string(":event-type", ""), b"{}", "message", "{}"),
        (header(":event-type", 6, b"\x00\x01a"), b"{}", "message", "{}"),
        (string(":event-type", "é" * 300), b"{}", "é" * 300, "{}"),
        (string("pad", "x" * 600) + string(":event-type", "e"), b"{}", "e", "{}"),
        (string(":event-type", "e"), b"\xff{}", "e", "\ufffd{}"),
        (string(":message-type", "event") + string(":exception-type", "x"), b"{}", "message", "{}"),
        (string(":message-type", "exception") + string(":exception-type", "t"), b'{"a":1}', "exception:t", '{"a":1}'),
        (string(":message-type", "exception"), b"", "exception:", "{}"),
        (string(":message-type", "error") + string(":error-code", "500"), b"", "error:500", "{}"),
        (
            string(":message-type", "error") + string(":error-code", "Bad") + string(":error-message", 'a "é"'),
            b"", "error:Bad", '{"message": "a \\"é\\""}',
        ),
        (string(":message-type", "error") + string(":error-message", "a"), b'{"b":1}', "error:", '{"b":1}'),
    ],
)  # fmt: skip
def test_the_type_tells_events_from_exceptions_and_errors(headers, payload, type, data):
    raw = message(headers, payload)
    assert brief(raw) == [(type, data, False)]
    assert fields(raw) == (type, data)


def spoilt(place):
    place += len(FIRST)
    return STREAM[:place] + bytes((STREAM[place] ^ 0x20,)) + STREAM[place + 1 :]


def test_a_wrong_byte_breaks_only_its_own_message():
    first, second, third = records(STREAM)
    for place in range(12, len(SECOND)):
        data = spoilt(place)
        good, wrong, following = records(data)
        assert (good, wrong.start, wrong.end, wrong.broken, following) == (first, second.start, second.end, True, third)
        assert fields(data[wrong.start : wrong.end]) == (wrong.type, wrong.data)


def test_nothing_is_read_behind_a_wrong_prelude():
    for place in range(12):
        data = spoilt(place)
        first, remainder = records(data)
        assert (first.broken, remainder.broken, remainder.start, remainder.end) == (
            False,
            True,
            len(FIRST),
            len(STREAM),
        )
        assert fields(data[remainder.start :]) == (remainder.type, remainder.data)
        assert remainder.type == "message"


@each_case(
    ("total", "length"),
    [(0, 0), (15, 0), (16, 1), (100, 85), (1 << 31, 0), (0xFFFFFFFF, 0xFFFFFFFF), (25 << 20, 8), (1 << 20, 1 << 18)],
)
def test_impossible_lengths_are_refused_despite_a_checksum(total, length):
    wrong = prelude(total, length) + bytes(200)
    assert not looks_like(wrong)
    assert [(record.end, record.broken) for record in records(FIRST + wrong)] == [
        (len(FIRST), False),
        (len(FIRST + wrong), True),
    ]


@each_case(
    "headers",
    [
        b"\x05ab",
        b"\x01a",
        b"\x01a\x0a",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x05abc",
        b"\x01a\x09abc",
        b"\x00",
        b"\x01a\xff",
    ],
)
def test_a_message_whose_headers_cannot_be_read_is_broken(headers):
    raw = message(headers, b"{}")
    assert brief(raw + THIRD) == [("message", "{}", True), *brief(THIRD)]
    assert fields(raw) == ("message", "{}")


def test_a_message_cut_off_at_the_end_is_ignored():
    messages = list(records(STREAM))
    for size in range(len(STREAM)):
        assert list(records(STREAM[:size])) == [record for record in messages if record.end <= size]


@each_case(
    ("data", "answer"),
    [
        (STREAM, True), (FIRST[:12], True), (FIRST[:11], False), (b"", False), (b'{"a": 1}' * 4, False),
        (b"data: {}\n\n" * 3, False), (bytes(64), False), (prelude(16, 0), True),
    ],
)  # fmt: skip
def test_a_body_is_known_by_its_first_prelude(data, answer):
    assert looks_like(data) is answer


@given(st.lists(st.binary(max_size=40) | st.sampled_from([FIRST, SECOND, THIRD, prelude(40, 8)]), max_size=6))
def test_any_bytes_decode_to_consecutive_records(parts):
    data, end = b"".join(parts), 0
    for record in records(data):
        assert record.start == end < record.end <= len(data)
        assert fields(data[record.start : record.end]) == (record.type, record.data)
        end = record.end
    assert looks_like(data) is (
        len(data) >= 12 and not any(record.broken and not record.start for record in records(data[:12]))
    )


@given(st.integers(0, len(STREAM) * 8 - 1), st.integers(0, len(STREAM)), st.booleans())
def test_botocore_reads_the_same_messages(bit, size, is_whole):
    from botocore.eventstream import EventStreamBuffer, ParserError  # heavy

    data = bytearray(STREAM)
    if not is_whole:
        data[bit // 8] ^= 1 << bit % 8
    buffer, messages, refused = EventStreamBuffer(), [], False
    buffer.add_data(bytes(data[:size]))
    try:
        for message in buffer:
            messages.append((message.headers[":event-type"], message.payload.decode()))
    except ParserError:  # at which it stops
        refused = True
    summary = brief(bytes(data[:size]))
    intact = [(type, text) for type, text, broken in summary if not broken]
    assert intact[: len(messages)] == messages
    assert refused == any(broken for _, _, broken in summary)
