from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode.framings.json_array import fields, looks_like, records

BOM = b"\xef\xbb\xbf"


def brief(stream):
    return [record.data if not record.broken else (record.data,) for record in records(stream)]


TABLE = {
    "nothing": (b"", []),
    "no array": (b'{"a":1}', []),
    "empty": (b"[]", []),
    "one": (b'[{"a":1}]', ['{"a":1}']),
    "several": (b'[{"a":1},{"b":2}]', ['{"a":1}', '{"b":2}']),
    "white space": (b'\r\n [ {"a":1}\r\n,\r\n\t{"b":2}\n] \n', ['{"a":1}', '{"b":2}']),
    "pretty-printed": (b'[{\n  "a": {\n  }\n}\n,\n{\n  "c": 2\n}\n]\n', ['{\n  "a": {\n  }\n}', '{\n  "c": 2\n}']),
    "a BOM": (BOM + b'[{"a":1}]', ['{"a":1}']),
    "nested": (b'[{"a":[{"b":{}}]},{}]', ['{"a":[{"b":{}}]}', "{}"]),
    "braces in strings": (b'[{"}":"{"},{"a":"]"}]', ['{"}":"{"}', '{"a":"]"}']),
    "escaped quotes": (
        b'[{"a":"\\"}"},{"b":"\\\\"},{"c":"\\\\\\""}]',
        ['{"a":"\\"}"}', '{"b":"\\\\"}', '{"c":"\\\\\\""}'],
    ),
    "a line end in a string": (b'[{"a":"\n"},{"b":"\\\n"}]', ['{"a":"\n"}', '{"b":"\\\n"}']),
    "invalid UTF-8": (b'[{"a":"\xff"}]', ['{"a":"\ufffd"}']),
    "no comma": (b'[{"a":1}{"b":2}]', ['{"a":1}', '{"b":2}']),
    "a comma too many": (b'[,{"a":1},,{"b":2},]', ['{"a":1}', '{"b":2}']),
    "what follows is ignored": (b'[{"a":1}],{"b":2}', ['{"a":1}']),
    "no JSON in an element": (b'[{a},{"b":2}]', ["{a}", '{"b":2}']),
    "no object": (b'[{"a":1},null,"x",{"b":2}]', ['{"a":1}', "null", '"x"', '{"b":2}']),
    "text": (b'[{"a":1},\nouch\n,{"b":2}]', ['{"a":1}', "ouch\n", '{"b":2}']),
    "no end": (b'[{"a":1}', ['{"a":1}']),
    "cut behind a comma": (b'[{"a":1},\r\n', ['{"a":1}']),
    "cut in an element": (b'[{"a":1},{"b":{}', ['{"a":1}']),
    "cut in a string": (b'[{"a":1},{"b":"}', ['{"a":1}']),
    "cut in an escape": (b'[{"a":1},{"b":"\\', ['{"a":1}']),
    "cut in text": (b'[{"a":1},nul', ['{"a":1}']),
}


@each_case(("stream", "expected"), TABLE.values(), ids=TABLE.keys())
def test_each_whole_element_is_a_record(stream, expected):
    assert brief(stream) == expected


@each_case("stream", [stream for stream, _ in TABLE.values()], ids=TABLE.keys())
def test_ordered_ranges_have_the_fields_of_their_records(stream):
    rows = list(records(stream))
    borders = [border for record in rows for border in (record.start, record.end)]
    assert borders == sorted(borders)
    for record in rows:
        assert fields(stream[record.start : record.end]) == (record.type, record.data)


def test_a_range_ends_at_the_closing_brace():
    assert [(record.start, record.end) for record in records(b'[{"a":1}\r\n,\r\n{"b":2}\r\n]')] == [(1, 8), (13, 20)]


ELEMENTS = st.sampled_from([b'{"a":1}', '{"é":"}{"}'.encode(), b'{"a":{"b":["\\"}",{}]}}', b"{a}", b'{"a":"\\\\"}'])
COMMAS = st.sampled_from([b",", b",\n", b"\r\n,\r\n", b" , "])


@given(st.lists(st.tuples(ELEMENTS, COMMAS)), st.booleans(), st.data())
def test_a_beginning_has_the_first_records_of_the_stream(elements, bom, data):
    stream = BOM * bom + b"[" + b"".join(element + comma for element, comma in elements) + b"]"
    rows = list(records(stream))
    assert [record.data for record in rows] == [element.decode() for element, _ in elements]
    cut = data.draw(st.integers(0, len(stream)))
    assert list(records(stream[:cut])) == [record for record in rows if record.end <= cut]


@each_case(
    ("body", "expected"),
    [
        (b'[{"a":1}]', True),
        (b"[{", True),
        (BOM + b"\r\n[\n {", True),
        (b"", False),
        (b"[", True),
        (b"[\r\n", True),
        (b"[]", False),
        (b"[1,{}]", False),
        (b"[[{}]]", False),
        (b'{"a":[{}]}', False),
        (b'data: [{"a":1}]\n\n', False),
    ],
)
def test_an_array_of_objects_looks_like_a_stream(body, expected):
    assert looks_like(body) is expected


@each_case(
    "body",
    [
        b"[" + b'{"a":' * (1 << 18),
        b"[" + b'{"a":' * (1 << 18) + b"1" + b"}" * (1 << 18) + b"]",
        b"[" + b" ," * (1 << 19) + b"x" * (1 << 20),
        b'[{"a":"' + b"x" * (8 << 20) + b'"}]',
        b'[{"a":"' + b"\\\\" * (1 << 20),
        b"[{" + b'"",' * (1 << 20),
        b"[{" + b'"}"' * (1 << 20) + b'"',
    ],
    ids=["open", "deep", "blank", "long", "escapes", "strings", "a quote too many"],
)
def test_a_hostile_array_is_cut_in_linear_time(body):
    assert len(list(records(body))) <= 1
