"""Cassettes of vcrpy: the contents of exchanges, and files that are refused."""

import gzip
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cases import each_case
from wiretape.viewer.imported import ImportedExchange, ImportedFile, NotImportable, Unimportable, framing, header
from wiretape.viewer.wings.imports import formats, vcrpy

IMPORTS = Path(__file__).parents[3] / "data" / "imports"
CASSETTES = [(IMPORTS / f"vcrpy-9.{suffix}").read_bytes() for suffix in ("yaml", "json")]
"""Cassettes of vcrpy 9.4.2 with httpx: a stream, an answer that came as gzip, a refusal."""
SOURCE = ImportedFile("t", datetime(2026, 3, 2, tzinfo=UTC))
REQUEST = {"method": "POST", "uri": "https://api.test/v1/x?a=b", "headers": {"Accept": ["*/*"]}, "body": "{}"}
RESPONSE = {"status": {"code": 200, "message": "OK"}, "headers": {"X": ["1", "2"]}, "body": {"string": "é"}}


def exchanges_of(data: bytes) -> list[ImportedExchange | Unimportable]:
    assert formats.recognised(data) == "vcrpy"
    return [*formats.read("vcrpy", data, SOURCE)]


def only(request: Any = None, response: Any = None) -> ImportedExchange | Unimportable:
    interaction = {"request": REQUEST | (request or {}), "response": RESPONSE | (response or {})}
    results = [
        exchanges_of(yaml.dump({"interactions": [interaction], "version": 1}).encode()),
        exchanges_of(
            json.dumps(
                {"version": 1, "interactions": [interaction]}, default=lambda data: data.decode("latin-1")
            ).encode()
        ),
    ]
    (one,), (other,) = results
    if not isinstance(interaction["response"].get("body"), dict) or isinstance(
        interaction["response"]["body"].get("string"), str
    ):
        assert one == other
    return one


def exchange_of(**changes: Any) -> ImportedExchange:
    exchange = only(**changes)
    assert isinstance(exchange, ImportedExchange)
    return exchange


@pytest.mark.parametrize("data", CASSETTES, ids=["yaml", "json"])
def test_real_cassettes_have_bodies_and_each_answers_second(data: bytes) -> None:
    stream, answer, refused = (exchange for exchange in exchanges_of(data) if isinstance(exchange, ImportedExchange))
    assert stream.url == "http://127.0.0.1:18999/v1/chat/completions"
    assert json.loads(stream.request or b"")["messages"] == [{"role": "user", "content": "say hello"}]
    assert b'"content": "H\xc3\xa9"' in stream.body
    assert stream.body.endswith(b"data: [DONE]\n\n")
    assert {exchange.started for exchange in (stream, answer, refused)} == {datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)}
    coding = header(answer.response_headers, "content-encoding")
    assert json.loads(gzip.decompress(answer.body) if coding == "gzip" else answer.body)["usage"]["total_tokens"] == 7
    assert (refused.status, refused.body[:9]) == (429, b'{"error":')
    assert not any(exchange.is_timed for exchange in (stream, answer, refused))


def test_texts_come_without_their_content_coding_unlike_bytes() -> None:
    headers = {"Content-Encoding": ["br"], "Content-Length": ["9"], "Transfer-Encoding": ["chunked"]}
    text = exchange_of(response={"headers": headers})
    assert text.response_headers == [(b"Transfer-Encoding", b"chunked")]
    assert text.framing == framing("POST", 200, text.response_headers) == "chunked"
    assert text.is_rebuilt
    coded = exchange_of(response={"headers": headers, "body": {"string": b"\x8b\xff"}})
    assert (coded.body, header(coded.response_headers, "content-encoding")) == (b"\x8b\xff", "br")


def test_a_header_has_several_values_or_one() -> None:
    assert exchange_of().response_headers == [(b"X", b"1"), (b"X", b"2")]
    assert exchange_of(request={"headers": {"A": "1"}}).request_headers == [(b"A", b"1")]


@each_case(
    ("value", "body"),
    [
        ({"string": "é"}, b"\xc3\xa9"),
        ({"string": b"\xff"}, b"\xff"),
        ({"base64_string": "/w=="}, b"\xff"),
        ("x", b"x"),
        ({"string": ""}, b""),
    ],
)
def test_a_body_is_stored_in_several_ways(value: Any, body: bytes) -> None:
    assert exchange_of(response={"body": value}).body == body


def test_answers_of_httpx_before_version_7_are_read() -> None:
    old = {"status": None, "body": None, "status_code": 201, "http_version": "HTTP/1.1", "content": "x"}
    assert (exchange_of(response=old).status, exchange_of(response=old).body) == (201, b"x")


def test_a_request_without_a_body_has_an_empty_one() -> None:
    assert exchange_of(request={"body": None, "method": "GET"}).request == b""
    assert exchange_of(request={"body": ["a", "b"]}).request == b"ab"


QUESTION: dict[str, Any] = {"messages": [{"content": "é", "role": "user"}], "model": "m", "string": "not alone"}


def test_a_request_stored_as_a_value_becomes_json() -> None:
    for value in (QUESTION, [QUESTION], [1, "a"], {}):
        exchange = exchange_of(request={"body": value})
        assert json.loads(exchange.request or b"") == value
        assert exchange.is_rebuilt
    assert "é".encode() in (exchange_of(request={"body": QUESTION}).request or b"")
    typed = exchange_of(request={"body": ["a"], "headers": {"Content-Type": ["application/json"]}})
    assert typed.request == b'["a"]'
    form = exchange_of(request={"body": {"a": "b"}, "headers": {"content-type": "application/x-www-form-urlencoded"}})
    assert (form.request, form.request_size, form.is_rebuilt) == (None, None, False)


def test_a_parsed_body_is_json_on_both_sides() -> None:
    headers = {"content-type": ["application/json"], "content-length": ["233"], "content-encoding": ["gzip"]}
    exchange = only_without_body({"parsed_body": QUESTION}, {"parsed_body": QUESTION, "headers": headers})
    assert json.loads(exchange.request or b"") == json.loads(exchange.body) == QUESTION
    assert exchange.response_headers == [(b"content-type", b"application/json")]
    assert (exchange.is_rebuilt, exchange.is_lost) == (True, False)


def test_a_body_with_a_type_is_its_content() -> None:
    typed = {"content": QUESTION, "type": "json"}
    stream = {"type": "text", "content": "data: [DONE]\n\n"}
    exchange = exchange_of(request={"body": typed}, response={"status": 200, "body": stream})
    assert json.loads(exchange.request or b"") == QUESTION
    assert (exchange.status, exchange.body, exchange.is_rebuilt) == (200, b"data: [DONE]\n\n", True)
    unknown = exchange_of(request={"body": {"type": "other"}}, response={"status": 404, "body": typed})
    assert (unknown.request, json.loads(unknown.body)) == (None, QUESTION)
    assert isinstance(only(response={"status": 200, "body": {"type": "other", "content": "x"}}), Unimportable)
    assert json.loads(exchange_of(request={"body": typed}).request or b"") == typed


def test_a_body_of_another_length_is_flagged_rebuilt() -> None:
    for length, is_rebuilt in (("2", False), ("9", True)):
        assert exchange_of(response={"headers": {"Content-Length": [length]}}).is_rebuilt == is_rebuilt


def only_without_body(request: dict[str, Any], response: dict[str, Any]) -> ImportedExchange:
    """Return the exchange of an interaction whose sides have no `body` of their own."""
    sides = [{name: value for name, value in side.items() if name != "body"} for side in (REQUEST, RESPONSE)]
    interaction = {"request": sides[0] | request, "response": sides[1] | response}
    (exchange,) = exchanges_of(json.dumps({"version": 1, "interactions": [interaction]}).encode())
    assert isinstance(exchange, ImportedExchange), exchange
    return exchange


def test_a_body_missing_in_cassettes_is_unknown_not_empty() -> None:
    assert only_without_body({}, {"body": {"string": "x"}}).request is None
    assert exchange_of(request={"body": "", "headers": {"Content-Length": "9"}}).request is None
    failed = only_without_body({}, {"status": {"code": 429}})
    assert (failed.body, failed.is_lost) == (b"", True)
    for kind in ("application/json; charset=utf-8", "text/event-stream"):
        empty = {"headers": {"Content-Type": kind}, "body": {"string": ""}}
        assert isinstance(only(response=empty), Unimportable)
        assert exchange_of(response={**empty, "headers": {"Content-Length": "0", "Content-Type": kind}}).body == b""
    none = only_without_body({"method": "HEAD"}, {})
    assert (none.body, none.is_lost) == (b"", False)


def test_values_that_are_endless_or_no_json_are_refused() -> None:
    bomb: Any = ["x"]
    for _ in range(40):
        bomb = {"a": bomb, "b": bomb}
    exchange = only_of_yaml({"body": bomb})
    assert isinstance(exchange, Unimportable)
    assert "too large as JSON" in exchange.reason
    recursive: dict[str, Any] = {}
    recursive["a"] = recursive
    assert isinstance(only_of_yaml({"body": recursive}), Unimportable)
    binary = only_of_yaml({"body": {"a": b"\xff"}})
    assert isinstance(binary, Unimportable)
    assert "cannot be written as JSON" in binary.reason


def only_of_yaml(request: dict[str, Any]) -> ImportedExchange | Unimportable:
    (exchange,) = exchanges_of(
        yaml.dump({"interactions": [{"request": REQUEST | request, "response": RESPONSE}]}).encode()
    )
    return exchange


def test_without_a_date_the_files_time_counts() -> None:
    assert exchange_of().started == SOURCE.modified
    for unusable in ("tomorrow", "Mon, 01 Jan 0001 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 +0530"):
        assert exchange_of(response={"headers": {"Date": [unusable]}}).started == SOURCE.modified


@each_case(
    ("changes", "reason"),
    [
        ({"response": {"status": None}}, "no status"),
        ({"response": {"body": {"string": 5}}}, "its body is a int"),
        ({"request": {"body": 5}}, "its body is a int"),
        ({"response": {"body": None}}, "does not have the body"),
        ({"response": {"body": {"string": None}}}, "does not have the body"),
        ({"response": {"body": {"other": "x"}}}, "does not have the body"),
        ({"response": {"body": {"string": ""}, "headers": {"Content-Length": ["233"]}}}, "does not have the body"),
        ({"request": {"headers": {"a": [["b"]]}}}, "a header or a body is a list"),
        ({"request": {"method": None}}, "method"),
    ],
)
def test_an_interaction_that_is_damaged_costs_no_other(changes: dict[str, Any], reason: str) -> None:
    exchange = only(**changes)
    assert isinstance(exchange, Unimportable)
    assert reason in exchange.reason


@each_case(
    ("data", "reason"),
    [
        (b"interactions:\n- !!python/object/apply:os.system [id]\n", "no cassette in YAML"),
        (b"interactions:\nversion: 1\n", "has no interactions"),
        (b"interactions:\n- !!bool maybe\n", "no cassette in YAML"),
        (b'interactions:\n- !!int ""\n', "no cassette in YAML"),
        (b"interactions:\n- !!timestamp soon\n", "no cassette in YAML"),
        (b'{"version": 1, "interactions": [{', "no cassette in JSON"),
        (b"interactions:\n" + b"[" * 100_000, "no cassette in YAML"),
        (b"- interactions\n", "has no interactions"),
    ],
)
def test_a_file_without_a_cassette_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(NotImportable, match=reason):
        list(vcrpy.read(data, SOURCE))


def test_tags_of_vcrpy_s_own_are_texts_and_bytes() -> None:
    text = yaml.dump({"interactions": [{"request": REQUEST, "response": RESPONSE}]})
    buffer = "!!python/object/new:_io.BytesIO\n      state: !!python/tuple [!!binary /w==, 0, null]"
    for body, bytes_of in (("!!python/unicode '{}'", b"{}"), (buffer, b"\xff")):
        (exchange,) = exchanges_of(text.replace("body: '{}'", f"body: {body}", 1).encode())
        assert isinstance(exchange, ImportedExchange)
        assert exchange.request == bytes_of


def test_without_pyyaml_json_is_read_and_extras_named(monkeypatch: pytest.MonkeyPatch) -> None:
    vcrpy.yaml_loader.cache_clear()
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(NotImportable, match=r"YAML needs PyYAML: .*\[vcr\]"):
        list(vcrpy.read(CASSETTES[0], SOURCE))
    assert len(exchanges_of(CASSETTES[1])) == 3
    monkeypatch.undo()
    assert len(exchanges_of(CASSETTES[0])) == 3
