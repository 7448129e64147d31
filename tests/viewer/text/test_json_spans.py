"""The values of a JSON text and their bytes."""

import json

from hypothesis import given
from hypothesis import strategies as st

from wiretape.viewer.text import json_spans

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def test_each_value_has_key_depth_and_bytes() -> None:
    data = b'x {"a": [1, "b\\"c"], "d": {"e": null}}'
    nodes = [(node.label, node.depth, data[node.start : node.end].decode()) for node in json_spans.scan(data, 2)]
    assert nodes == [
        ("", 0, '{"a": [1, "b\\"c"], "d": {"e": null}}'),
        ("a", 1, '[1, "b\\"c"]'),
        ("[0]", 2, "1"),
        ("[1]", 2, '"b\\"c"'),
        ("d", 1, '{"e": null}'),
        ("e", 2, "null"),
    ]


@given(VALUES.filter(lambda value: isinstance(value, list | dict)), st.booleans())
def test_the_bytes_of_a_value_are_that_value(value: object, plain: bool) -> None:
    data = json.dumps(value, ensure_ascii=plain).encode()
    nodes = json_spans.scan(data)
    assert json.loads(data[nodes[0].start : nodes[0].end]) == value
    assert all(json.loads(data[node.start : node.end]) is not ... for node in nodes)


def test_invalid_json_gives_the_values_that_could_be_read() -> None:
    nodes = json_spans.scan(b'{"a": 1, "b": [tru')
    assert [(node.label, node.text) for node in nodes] == [("", "object"), ("a", "1"), ("b", "array"), ("[0]", "tru")]
    assert json_spans.scan(b"") == []


def test_values_and_depth_are_bounded() -> None:
    assert len(json_spans.scan(b"[" + b"1," * 10_000 + b"1]")) == json_spans.MOST_VALUES
    assert len(json_spans.scan(b"[" * 100_000)) <= json_spans.DEEPEST + 1
    assert len(json_spans.scan(b'["' + b"\\" * 1_000_000)) == 1


def test_fault_names_the_reason_and_the_byte() -> None:
    assert [json_spans.fault(sound) for sound in (b' {"a": [1]} ', b"[1]", b"null")] == [None] * 3
    faults = (b'{"\xc3\xa9": }', b"{}x", b'{"\xff" 1}', b"", b"[" * 100_000, b"9" * 5_000)
    assert [str(json_spans.fault(data)) for data in faults] == [
        "no JSON from byte 7: expecting value",
        "no JSON from byte 2: extra data",
        "no JSON from byte 5: expecting ':' delimiter",
        "no JSON from byte 0: expecting value",
        *["no JSON that can be read: nested too deeply, or a number too long"] * 2,
    ]


def test_an_events_data_is_its_data_lines() -> None:
    assert json_spans.payload(b"event: x\ndata: {\ndata:}\n") == b"{\n}"
    assert json_spans.payload(b'{"a": 1}') == b'{"a": 1}'
