import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode.framings.ndjson import fields, looks_like, records

BOM = b"\xef\xbb\xbf"


def brief(stream):
    return [(record.data, record.broken) for record in records(stream)]


TABLE = {
    "nothing": (b"", []),
    "one line": (b'{"a":1}\n', [('{"a":1}', False)]),
    "several": (b'{"a":1}\n{"b":2}\n', [('{"a":1}', False), ('{"b":2}', False)]),
    "CRLF": (b'{"a":1}\r\n{"b":2}\r\n', [('{"a":1}', False), ('{"b":2}', False)]),
    "mixed": (b'{"a":1}\r\n\n{"b":2}\n\r\n', [('{"a":1}', False), ('{"b":2}', False)]),
    "blank lines": (b'\n  \n\t\r\n{"a":1}\n\n', [('{"a":1}', False)]),
    "spaces around": (b'  {"a":1} \t\n', [('{"a":1}', False)]),
    "a BOM goes": (BOM + b'{"a":1}\n', [('{"a":1}', False)]),
    "two BOMs do not": (BOM + BOM + b'{"a":1}\n', [('\ufeff{"a":1}', False)]),
    "a CR by itself ends no line": (b'{"a":\r1}\n', [('{"a":\r1}', False)]),
    "nothing else ends a line": ('{"a":"\u2028\x85"}\n'.encode(), [('{"a":"\u2028\x85"}', False)]),
    "text": (b"Internal Server Error\n", [("Internal Server Error", False)]),
    "text between": (b'{"a":1}\nouch\n{"b":2}\n', [('{"a":1}', False), ("ouch", False), ('{"b":2}', False)]),
    "no object": (b'[1]\n"x"\nnull\n7\n', [("[1]", False), ('"x"', False), ("null", False), ("7", False)]),
    "half an object": (b'{"a":\n', [('{"a":', False)]),
    "invalid UTF-8": (b'{"a":"\xff"}\n', [('{"a":"\ufffd"}', False)]),
    "a last line that is whole": (b'{"a":1}\n{"b":2}', [('{"a":1}', False), ('{"b":2}', False)]),
    "a last line that is cut": (b'{"a":1}\n{"b":2', [('{"a":1}', False)]),
    "a last line that is cut behind a brace": (b'{"a":{}', []),
    "a last line that is no object": (b'{"a":1}\n[2]', [('{"a":1}', False)]),
    "a last line of a lone surrogate": (b'{"a":"\\ud800"}', [('{"a":"\\ud800"}', False)]),
    "a last line too deep to be read": (b'{"a":' * 100_000, []),
}


@each_case(("stream", "expected"), TABLE.values(), ids=TABLE.keys())
def test_each_line_that_is_not_blank_is_a_record(stream, expected):
    assert brief(stream) == expected


@each_case("stream", [stream for stream, _ in TABLE.values()], ids=TABLE.keys())
def test_ordered_ranges_have_the_fields_of_their_records(stream):
    rows = list(records(stream))
    borders = [border for record in rows for border in (record.start, record.end)]
    assert borders == sorted(borders)
    for record in rows:
        assert fields(stream[record.start : record.end]) == (record.type, record.data)


def test_a_range_is_the_line_with_its_end():
    stream = BOM + b'{"a":1}\r\n\n {"b":2}\n{"c":3}'
    assert [(record.start, record.end) for record in records(stream)] == [(3, 12), (13, 22), (22, 29)]


LINES = st.sampled_from([b'{"a":1}', '{"é":"{"}'.encode(), b"", b" ", b"ouch", b"[1]", b'{"a":'])


@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"]))), st.booleans(), st.data())
def test_a_beginning_has_the_first_records_of_the_stream(lines, bom, data):
    stream = BOM * bom + b"".join(line + end for line, end in lines)
    cut = data.draw(st.integers(0, len(stream)))
    early_records, all_records = list(records(stream[:cut])), list(records(stream))
    terminated = [record for record in all_records if record.end <= cut]
    assert early_records[: len(terminated)] == terminated
    # A line whose end is still to come is a record if it is whole.
    assert [record.data for record in early_records] == [record.data for record in all_records][: len(early_records)]
    assert len(early_records) <= len(terminated) + 1


@each_case(
    "body",
    [
        b'{"a":1}\n{"b":2}\n',
        b'{"a":1}\r\n{"b":',
        b'{"a":1}\n\n{',
        BOM + b'\n{"a":1}\n{"b":2}',
        b'{"model":"m","done":false}\n',
        b'{"model":"m","done":false}',
    ],
)
def test_objects_on_two_lines_look_like_a_stream(body):
    assert looks_like(body)


@each_case(
    "body",
    [
        b"",
        b"{",
        b'{"a":1}',
        b'{"a":1}\n',
        b'{\n  "a": {\n  }\n}\n',
        b'{"a":\n{"b":2}}',
        b'{"a":1}\nouch',
        b'{"a":1}\n[2]',
        b'[{"a":1},\n{"b":2}]',
        b'data: {"a":1}\n\n',
        b'{"model":"m","done":true}\n',
        b'{"name":"operations/1","done":false}\n',
        b'{"model":"m","done":0}',
        b"ouch\n{}\n{}",
        b'{"a":' * 100_000,
    ],
)
def test_a_single_document_does_not_look_like_a_stream(body):
    assert not looks_like(body)


@pytest.mark.parametrize("stream", [b"\n" * (1 << 20), b"{" * (8 << 20), b'{"a":"' + b"x" * (8 << 20) + b'"}\n'])
def test_8_mib_of_lines_are_cut_in_linear_time(stream):
    assert len(list(records(stream))) <= 1
    assert not looks_like(stream)
