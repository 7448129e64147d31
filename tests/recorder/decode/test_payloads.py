import json

import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.dialect import Chunk, ReportedError
from wiretape.recorder.decode.payloads import (
    DONE,
    EMPTY,
    MALFORMED,
    body_fault,
    error_field,
    error_type,
    fault,
    read,
    repair,
    unframed,
)

ERRORS = {
    "openai": ({"error": {"message": "m", "type": "server_error", "param": None, "code": None}}, "server_error", "m"),
    "integer code": ({"error": {"message": "m", "code": 502}}, "502", "m"),
    "float code": ({"error": {"message": "m", "code": 429.0}}, "429", "m"),
    "boolean code": ({"error": {"message": "m", "code": True, "type": "t"}}, "t", "m"),
    "string": ({"error": "m"}, None, "m"),
    "string with code": ({"error": "m", "code": 7}, "7", "m"),
    "tgi": ({"error": "m", "error_type": "overloaded"}, "overloaded", "m"),
    "gateway": ({"error_type": "t", "error_message": "m"}, "t", "m"),
    "vllm flat": ({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, "400", "m"),
    "responses flat": ({"type": "error", "code": "c", "message": "m", "param": None}, "c", "m"),
    "anthropic": ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "overloaded_error", "m"),
    "gemini": ({"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}, "503", "m"),
    "sansa": ({"error": {"code": "c", "message": "m"}, "choices": [{"finish_reason": "error"}]}, "c", "m"),
    "in a choice": ({"choices": [{"index": 0, "delta": {}, "error": {"code": 1, "message": "m"}}]}, "1", "m"),
    "top before choice": ({"error": "m", "choices": [{"error": "other"}]}, None, "m"),
    "minimax": ({"base_resp": {"status_code": 1008, "status_msg": "m"}}, "1008", "m"),
    "groq": ({"choices": [], "x_groq": {"error": "m"}}, None, "m"),
    "dashscope": ({"code": "InvalidApiKey", "message": "m", "request_id": "r"}, "InvalidApiKey", "m"),
    "no message": ({"error": {"code": 1, "x": [2]}}, "1", '{"code":1,"x":[2]}'),
    "just true": ({"error": True}, None, None),
    "a list": ({"error": ["a"]}, None, '["a"]'),
}


@each_case(("payload", "code", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_every_shape_of_error_is_found(payload, code, message):
    assert fault(payload) == ReportedError(code, message)
    assert read(json.dumps(payload)).fault == ReportedError(code, message)
    assert body_fault(json.dumps(payload)) == ReportedError(code, message)


@each_case(
    "payload",
    [
        {},
        {"error": None, "choices": []},
        {"error": "", "choices": []},
        {"error": {}, "choices": []},
        {"error": {"code": None, "message": None}},
        {"error": False},
        {"choices": [{"error": None}, None, "x"]},
        {"base_resp": {"status_code": 0, "status_msg": ""}, "choices": []},
        {"base_resp": "x", "x_groq": {"id": "r"}},
        {"code": "", "message": "", "output": {}},
        {"code": 0, "message": "ok"},
        {"code": "Success", "message": "done"},
        {"code": 7, "message": {"role": "assistant"}},
        {"code": 7, "message": "x", "choices": []},
    ],
)
def test_what_only_resembles_an_error_is_none(payload):
    assert fault(payload) is None


@each_case(
    ("body", "expected"),
    [
        ('{"detail": "Not Found"}', ReportedError(None, "Not Found")),
        ('{"detail": [{"loc": 1}]}', ReportedError(None, '[{"loc":1}]')),
        ('{"message": "m", "code": "c"}', ReportedError("c", "m")),
        ('{"statusCode": 404, "message": "m"}', ReportedError("404", "m")),
        ('[{"error": {"code": 400, "message": "m"}}]', ReportedError("400", "m")),
        ("<html>no</html>\n", ReportedError(None, "<html>no</html>")),
        ("", ReportedError(None, None)),
        ("x" * 5000, ReportedError(None, "x" * 2000)),
        ("[" * 100_000, ReportedError(None, "[" * 2000)),
        ("3", ReportedError(None, "3")),
    ],
)
def test_the_body_of_an_http_error_tells_why(body, expected):
    assert body_fault(body) == expected


@each_case(
    ("data", "marker"),
    [
        ("[DONE]", DONE),
        (" [DONE]\t", DONE),
        ("", EMPTY),
        ("  ", EMPTY),
        ("{", MALFORMED),
        ("hello", MALFORMED),
        ("[" * 100_000, MALFORMED),
        ('{"a": ' * 100_000, MALFORMED),
        ("9" * 100_000, MALFORMED),
        ('{"a": %s}' % ("9" * 5000), MALFORMED),
    ],
)
def test_what_is_no_json_is_marked(data, marker):
    assert read(data) is marker


@each_case("data", ["3", "null", "[]", '[{"a": 1}]', '"text"', " true "])
def test_json_without_an_object_belongs_to_no_dialect(data):
    assert read(data) == Chunk("")


@each_case(("data", "message"), [('"full"', "full"), ("null", None), ("[1]", "[1]")])
def test_an_event_named_error_reports_any_json(data, message):
    assert read(data, "error").fault == ReportedError(None, message)


@each_case("number", ["1e400", "NaN", "-Infinity", "1e-400", "9" * 400])
def test_numbers_beyond_strict_json_do_not_lose_events(number):
    assert read('{"choices": [{"delta": {"content": "x"}}], "n": ' + number + "}").content


def test_of_duplicate_keys_the_last_wins():
    assert read('{"choices": [], "id": "a", "id": "b"}').id == "b"


def test_an_object_that_no_dialect_claims_is_a_chunk():
    chunk = read('{"kind": "other"}')
    assert (chunk.api, chunk.counts, chunk.output) == ("", True, False)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"message": "m"}', ReportedError(None, "m")),
        ('{"whatever": 1}', ReportedError(None, '{"whatever":1}')),
        ("", ReportedError(None, None)),
    ],
)
def test_an_event_named_error_is_always_an_error(data, expected):
    assert read(data, "error").fault == expected


def test_an_error_list_is_an_error():
    assert read('[{"error": {"code": 400, "message": "m"}}]').fault == ReportedError("400", "m")


A, B = '{"choices": [], "id": "a"}', '{"choices": [],\n "id": "b"}'


@each_case(
    ("block", "ids", "flags"),
    [
        (f"data: {A}\ndata: [DONE]\n\n", ["a", "[DONE]"], ["glued"]),
        (f"data:{A}\ndata:{A}\n\n", ["a", "a"], ["glued"]),
        (f"data: {A}[DONE]\n\n", ["a", "[DONE]"], ["glued"]),
        (f"data: {B}\n\n", ["b"], ["pretty_printed"]),
        (f"data: {B}\r\rdata", ["b"], ["pretty_printed"]),
        (f"event: x\nid: 1\n: c\ndata: {B}\nretry: 1\n\n", ["b"], ["pretty_printed"]),
        (f"data: {B}\ndata: [DONE]\n\n", ["b", "[DONE]"], ["glued", "pretty_printed"]),
        (f"data:\n{A}\n\n", ["a"], ["pretty_printed"]),
        (f"{A}\ndata: [DONE]\n\n", ["a", "[DONE]"], ["glued", "unframed"]),
        (f"data: {A}\ndata: junk\n\n", ["a", "malformed"], ["glued"]),
        ("data: junk\n\n", ["malformed"], []),
        ('data: {"choices": [\n\n', ["malformed"], []),
    ],
)
def test_a_block_is_repaired(block, ids, flags):
    repaired, raised = repair(block)
    assert [chunk.id for chunk in repaired] == ids
    assert raised == flags


def test_the_text_of_an_error_event_is_its_message():
    (chunk,), flags = repair("event: error\ndata: too\ndata: busy\n\n", "error")
    assert chunk.fault == ReportedError(None, "too\nbusy")
    assert flags == []


def test_a_pretty_printed_error_event_is_read():
    (chunk,), _ = repair('event: error\ndata: {\n"message": "m"\n}\n\n', "error")
    assert chunk.fault == ReportedError(None, "m")


@each_case(
    ("region", "found"),
    [
        ("", []),
        ("id: 1\n\nevent: x\n", []),
        ("<html>\n", []),
        (f"\n{A}\n", [("a", 27)]),
        (f"\r{A}\r", [("a", 27)]),
        (f"id: 1\n{A}\n\n{A}\n[DONE]", [("a", 32), ("a", 60), ("[DONE]", 67)]),
        (f"{A}\njunk {A}", [("a", 26)]),
        ('{"choices": [', []),
    ],
)
def test_json_outside_of_events_is_found_with_its_end(region, found):
    assert [(chunk.id, end) for chunk, end in unframed(region)] == found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (' {"code": 500, "message": "m", "type": "server_error"}', ReportedError("500", "m")),
        (' {"error": {"message": "m"}}', ReportedError(None, "m")),
        (" slot died", ReportedError(None, "slot died")),
    ],
)
def test_an_error_line_is_json_or_text(value, expected):
    assert error_field(value) == expected


@each_case(
    "data, expected",
    [
        ('{"error":{"type":"requests","code":"rate_limit_exceeded"}}', "requests"),
        ('{"type":"error","error":{"type":"overloaded_error"}}', "overloaded_error"),
        ('[{"error":{"type":"x"}}]', "x"),
        ('{"type":"y","message":"m"}', "y"),
        ('{"error":"text","type":"z"}', None),
        ('{"error":{"type":7}}', None),
        ("[]", None),
        ("no JSON", None),
    ],
)
def test_the_type_of_an_error_stands_beside_its_code(data: str, expected: str | None) -> None:
    assert error_type(data) == expected
