import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode.framings.sse import Comment, Event, EventCursor, fields

BOM = b"\xef\xbb\xbf"


def run(stream):
    cursor, items = EventCursor(stream), []
    while cursor.at < len(stream):
        items.append(cursor.step())
    return [item for item in items if item is not None], cursor.finish(), cursor.retry


def brief(items):
    return [item.text if isinstance(item, Comment) else (item.type, item.data, item.id) for item in items]


TABLE = {
    "typical": (b"data: x\n\n", [("message", "x", "")]),
    "no space": (b"data:x\n\n", [("message", "x", "")]),
    "only one space goes": (b"data:  x\n\n", [("message", " x", "")]),
    "only one space goes beside other lines": (b"id:  1\nevent:  e\ndata:  a\ndata:  b\n\n", [(" e", " a\n b", " 1")]),
    "a tab stays": (b"data:\tx\n\n", [("message", "\tx", "")]),
    "nbsp stays": ("data:\u00a0x\n\n".encode(), [("message", "\u00a0x", "")]),
    "two data lines": (b"data: a\ndata: b\n\n", [("message", "a\nb", "")]),
    "data alone": (b"data\n\n", [("message", "", "")]),
    "data twice alone": (b"data\ndata\n\n", [("message", "\n", "")]),
    "data colon": (b"data:\n\n", [("message", "", "")]),
    "type": (b"event: ping\ndata: x\n\n", [("ping", "x", "")]),
    "last type wins": (b"event: a\nevent: b\ndata: x\n\n", [("b", "x", "")]),
    "empty type is message": (b"event: a\nevent:\ndata: x\n\n", [("message", "x", "")]),
    "type is reset": (b"event: a\n\ndata: x\n\n", [("message", "x", "")]),
    "type without data fires nothing": (b"event: ping\n\n", []),
    "id is sticky": (b"id: 1\ndata: a\n\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "1")]),
    "id without data": (b"id: 1\n\ndata: b\n\n", [("message", "b", "1")]),
    "empty id resets": (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "")]),
    "id with NUL is ignored": (b"id: 1\nid: 2\0\ndata: a\n\n", [("message", "a", "1")]),
    "comment": (b": keep-alive\n\n", ["keep-alive"]),
    "empty comment": (b":\n", [""]),
    "comment inside an event": (b"data: a\n: c\ndata: b\n\n", ["c", ("message", "a\nb", "")]),
    "names are literal": (b"Data: a\n data: b\ndata : c\n\xef\xbb\xbfdata: d\n\n", []),
    "unknown fields": (b"error: x\n{json}\ndata: a\n\n", [("message", "a", "")]),
    "a line of spaces is not blank": (b"data: a\n \ndata: b\n\n", [("message", "a\nb", "")]),
    "one BOM goes": (BOM + b"data: a\n\n", [("message", "a", "")]),
    "two BOMs do not": (BOM + BOM + b"data: a\n\n", []),
    "CRLF": (b"data: a\r\ndata: b\r\n\r\n", [("message", "a\nb", "")]),
    "CR": (b"data: a\rdata: b\r\r", [("message", "a\nb", "")]),
    "mixed ends": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [("message", c, "") for c in "abc"]),
    "LF CR are two": (b"data: a\n\rdata: b\n\n", [("message", "a", ""), ("message", "b", "")]),
    "nothing else ends a line": (
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\x1c\n\n".encode(),
        [("message", "a\u2028b\u2029c\u0085d\x0be\x0cf\x1c", "")],
    ),
    "invalid UTF-8": (b"data: \xff\xe2\x82\n\n", [("message", "\ufffd\ufffd", "")]),
    "several": (b"data: a\n\ndata: b\n\n\n\ndata: c\n\n", [("message", c, "") for c in "abc"]),
    "the end discards": (b"data: a\n\ndata: b\n", [("message", "a", "")]),
    "split character": ("data: \u20ac\U0001f600\n\n".encode(), [("message", "\u20ac\U0001f600", "")]),
}


@each_case(("stream", "expected"), TABLE.values(), ids=TABLE.keys())
def test_items_follow_the_standard_with_ordered_ranges(stream, expected):
    items = run(stream)[0]
    assert brief(items) == expected
    assert [item.end for item in items] == sorted(item.end for item in items)
    for event in items:
        if isinstance(event, Event):
            assert fields(stream[event.start : event.end]) == (event.type, event.data)


LINES = st.sampled_from(
    [b"data: x", b"data:", b"data", b"", b"", b": c", b"id: 1", b"event: e", b"junk", b"\xe2\x82", "data: é".encode()]
)


@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))), st.booleans(), st.data())
def test_a_beginning_has_the_first_items_of_the_stream(lines, bom, data):
    stream = BOM * bom + b"".join(line + end for line, end in lines)
    end = data.draw(st.integers(0, len(stream)))
    early_records = run(stream[:end])[0]
    assert early_records == [item for item in run(stream)[0] if item.end <= end]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_do_not_change_the_items(end):
    stream = b"event: e\ndata: a\nid: 7\n\n: c\ndata: b\n\n"
    assert brief(run(stream.replace(b"\n", end))[0]) == brief(run(stream)[0])


def test_a_range_is_the_block_with_its_blank_line():
    items, *_ = run(b"\ndata: a\n\n: c\nx: 1\nid: 1\n\njunk\ndata: b\n\n")
    assert [(item.start, item.end) for item in items] == [(1, 10), (10, 14), (26, 40)]


def test_a_swallowed_lf_belongs_to_no_range():
    items, *_ = run(b"data: a\r\n\r\n: c\r\ndata: b\r\n\r\n")
    assert [(item.start, item.end) for item in items] == [(0, 10), (11, 15), (16, 26)]


def test_a_cr_dispatches_at_once():
    assert len(run(b"data: a\r\n\r")[0]) == 1
    assert [item.end for item in run(b"data: a\r\n\r\n")[0]] == [10]


@each_case(
    ("value", "retry"),
    [(b"10", 10), (b"007", 7), (b"+5", None), (b"5 ", None), (b"", None), ("\u0665".encode(), None), (b"9" * 99, None)],
)
def test_retry_takes_ascii_digits_only(value, retry):
    assert run(b"retry: " + value + b"\n")[2] == retry


def test_the_last_valid_retry_holds():
    assert run(b"retry: 1\nretry: 2\nretry: x\n")[2] == 2


@each_case(
    ("stream", "tail"),
    [
        (b"data: a\n\n", None),
        (b"data: a\n", Event("message", "a", "", 0, 8)),
        (b"data: a", Event("message", "a", "", 0, 7)),
        (b"data: a\r\n", Event("message", "a", "", 0, 9)),
        (b"id: 1\nevent: e\ndata: a\ndata: b", Event("e", "a\nb", "1", 0, 30)),
        (b"data: a\n\n: c\ndata: b\n: d", Event("message", "b", "", 13, 24)),
        (b"event: e", None),
        (b"\xef\xbb", None),
        (b"", None),
    ],
)
def test_finish_returns_what_the_end_discards(stream, tail):
    assert run(stream)[1] == tail


@pytest.mark.parametrize("line", [b"data: " + b"x" * (8 << 20), b"data: x\n" * (1 << 18)])
def test_an_8_mib_event_is_parsed_in_linear_time(line):
    (event,) = run(line + b"\n\n")[0]
    assert len(event.data) > 1 << 18
