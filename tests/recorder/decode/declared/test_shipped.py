"""The declared dialects of the package, on whole, cut and failed streams, and on random cuts of the bytes."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declared_wires import AI_SDK_UI, DECLARED_WIRES, DONE, LANGGRAPH, MCP, DeclaredWire, event
from tests.support.decoding import derived, said
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Headers
from wiretape.recorder.decode.metrics import Measures

REPEATING = ("ai-sdk-ui", "ag-ui", "a2a", "a2a-http", "a2a-0.3", "transcription", "tgi", "llamacpp")
each_wire = pytest.mark.parametrize("wire", DECLARED_WIRES.values(), ids=DECLARED_WIRES.keys())


def measured(wire: DeclaredWire, *events: bytes, **facts: Any) -> Measures:
    asked = {"path": wire.path, "request": wire.request, "headers": wire.headers, "framing": "chunked"}
    return derived(b"".join(events), **asked | facts)


def told(found: Measures) -> dict[str, Any]:
    calls = [(call["id"], call["name"], call["arguments"]) for call in found.tool_calls or ()]
    return {name: getattr(found, name) for name in Measures.__dataclass_fields__} | {"calls": calls}


@each_wire
def test_a_whole_stream_is_complete_with_its_texts_and_its_tokens(wire: DeclaredWire) -> None:
    found = measured(wire, *wire.events, *wire.ending)
    assert (found.api, found.outcome) == (wire.api, "complete")
    assert {name: told(found)[name] for name in wire.expected} == wire.expected
    assert found.ttft_ns is not None
    assert not {"unknown_payload", "malformed", "empty", "no_done", "object_mismatch"} & set(found.flags)


@each_wire
def test_a_stream_that_a_clean_end_cut_is_truncated(wire: DeclaredWire) -> None:
    found = measured(wire, *wire.events[: wire.cut])
    assert (found.api, found.outcome, found.outcome_detail) == (wire.api, "truncated", "eof")
    assert (found.content, found.operation) == (wire.said, wire.expected["operation"])


@each_wire
def test_a_stream_with_the_error_of_its_wire_has_failed(wire: DeclaredWire) -> None:
    failure, code, message = wire.failure
    found = measured(wire, *wire.events[: wire.cut], failure, *wire.ending)
    assert (found.api, found.outcome, found.error_code, found.error_message) == (wire.api, "error_event", code, message)


@each_wire
@given(cuts=st.data())
def test_the_cuts_of_the_bytes_make_no_difference(wire: DeclaredWire, cuts: st.DataObject) -> None:
    body = b"".join((*wire.events, *wire.ending))
    places = sorted(cuts.draw(st.sets(st.integers(1, len(body) - 1), max_size=20)))
    asked = {"path": wire.path, "request": wire.request, "headers": wire.headers}
    assert said(derived(body, *places, **asked)) == said(derived(body, **asked))


@pytest.mark.parametrize(
    "name", ["ai-sdk-ui", "ag-ui", "a2a", "a2a-http", "a2a-0.3", "transcription", "tgi", "llamacpp"]
)
def test_a_long_stream_has_the_text_of_each_event(name: str) -> None:
    """Events in a row that differ in one text only are not parsed one by one."""
    wire = DECLARED_WIRES[name]
    at = next(at for at, one in enumerate(wire.events) if b"see." in one)
    words = [f"word {number}. " for number in range(40)]
    many = [wire.events[at].replace(b"see.", word.encode()) for word in words]
    found = measured(wire, *wire.events[:at], *many, *wire.events[at + 1 :], *wire.ending)
    assert found.content == "Let me " + "".join(words)


def test_an_abort_is_no_end_of_the_ai_sdks_stream() -> None:
    for more in ((), (event({"type": "finish"}),)):
        found = measured(AI_SDK_UI, *AI_SDK_UI.events[:9], event({"type": "abort", "reason": "stop"}), *more, DONE)
        assert (found.outcome, found.content) == ("truncated", "Let me see.")


def test_the_ai_sdks_stream_without_its_header_is_known_by_its_first_event() -> None:
    assert measured(AI_SDK_UI, *AI_SDK_UI.events, DONE, headers=Headers()).api == "ai-sdk-ui"
    chat = b'data: {"type":"start","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    assert derived(chat).api == "openai.chat"


def test_a_whole_answer_by_json_is_read_as_the_stream_is() -> None:
    answer = MCP.events[-1].partition(b"data: ")[2].strip()
    found = measured(MCP, answer, content_type="application/json")
    assert (found.api, found.operation, found.content, found.outcome) == ("mcp", "mcp", "Lamp is lit.", "complete")
    accepted = measured(MCP, b"", content_type=None, status=202)
    assert (accepted.api, accepted.operation, accepted.outcome) == ("mcp", "mcp", "complete")


def test_a_refused_call_by_mcp_is_one_by_its_request() -> None:
    found = measured(MCP, b'{"error": "no such session"}', content_type="application/json", status=404)
    assert (found.api, found.operation, found.outcome) == ("mcp", "mcp", "http_error")
    assert (found.attributes or {})["gen_ai.tool.name"] == "lamp"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_stream_that_no_request_by_mcp_waits_for_has_no_end_of_its_own(method: str) -> None:
    asked = (
        None if method == "GET" else json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}).encode()
    )
    found = measured(MCP, MCP.events[1], method=method, request=asked)
    assert (found.outcome, found.api) == ("complete", "mcp")
    assert measured(MCP, b"", method=method, request=asked).outcome == "complete"
    assert measured(MCP, MCP.events[1], method=method, request=asked, ended_by="reset").outcome == "truncated"


def test_a_finish_reason_and_a_clean_close_end_a_run_of_langgraph() -> None:
    assert measured(LANGGRAPH, *LANGGRAPH.events[:-1]).outcome == "complete"


def test_a_path_that_other_wires_use_names_no_dialect_by_itself() -> None:
    foreign = event({"kind": "part", "value": "Hi"})
    for path in ("/generate", "/completion", "/runs/stream"):
        found = derived(foreign, path=path, framing="chunked")
        assert (found.api, found.dialect_version, "unknown_payload" in found.flags) == ("unknown", None, True)


def test_every_declaration_of_the_package_is_read_whole_and_has_a_stream_here() -> None:
    assert {wire.api for wire in DECLARED_WIRES.values()} == {dialect.api for dialect in registry.shipped()}
    assert [dialect.ignored for dialect in registry.shipped()] == [()] * len(registry.shipped())
    for name, text in registry.shipped_texts().items():
        assert [table["name"] for table in tomllib.loads(text)["dialects"]] == [name]
