"""Filters in Python: unknown values, and styles of texts."""

import struct

from tests.support.cases import each_case
from tests.support.reference_filter import matches, needed
from wiretape.viewer.query.parser import parse
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.source.tape.conditions import gap_percentile

ROW: TableRow = {
    "id": "b0f3", "model": "gpt-x", "upstream": "https://API.example.com:8443/v1", "path": "/chat?v=1",
    "labels": {"run": "a7"}, "flags": ["no_usage", "stall"], "ttft_ms": 0.000001, "status": None, "tool_calls": None,
    "content": None, "reasoning": None, "refusal": None, "request_body": b"caf\xc3\xa9 \xff 100%",
    "error_code": None, "error_message": "Slow down", "finish_reason": None,
}  # fmt: skip


@each_case(
    "text",
    [
        "id:B0", "host:api.example.com", "host:api.example.com:8443", "host:*.example.com", "path:/chat",
        "path:/chat?v=1", "flag:stall", "flag:no_*", "flag!=burst", "prompt:café", "prompt:100%", "error:slow",
        "ttft:1ns", "ttft<2ns", "-status>0", "-status<=0", "-has:tool", "has!=tool", "-label:other", "-finish!=stop",
        "A7", "SLOW", "-slower", "gpt b0", "b0", "api.example", "text:slow", "has:ttft", "-has:status",
    ],
)  # fmt: skip
def test_what_fits(text: str) -> None:
    assert matches(parse(text), ROW)


@each_case(
    "text",
    [
        "id:0f", "host:example.com", "host:https", "path:/cha", "flag:empty", "flag:n*k", "prompt:1000", "ttft>1ns",
        "status>0", "status!=0", "finish!=stop", "finish!~stop", "label!=other=x", "https", "0f3", "prompt:CAFÉ",
    ],
)  # fmt: skip
def test_what_does_not_fit(text: str) -> None:
    assert not matches(parse(text), ROW)


def test_the_fields_that_a_row_must_have_are_named() -> None:
    assert needed(parse("ttft>1s -(ttft<2s or error:x)")) == ("ttft_ms", "error_code", "error_message")
    assert needed(parse("has:tool,ttft or -has:error")) == ("tool_calls", "ttft_ms", "error_code", "error_message")
    assert set(needed(parse("word label:k"))) == {
        "model", "upstream", "path", "id", "labels", "content", "reasoning", "refusal", "error_message", "tool_calls",
    }  # fmt: skip


@each_case(("gaps", "median"), [([], None), ([0, 0], None), ([0, 10, 20, 0], 15), ([7], 7), ([3, 1, 2], 2)])
def test_percentiles_of_gaps_leave_out_chunks_of_one_read(gaps: list[int], median: int | None) -> None:
    assert gap_percentile(struct.pack(f"<{len(gaps)}q", *gaps), 0.5) == median
