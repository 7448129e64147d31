"""Rows: names, units and the fields of a chunk; the contract is spelled out here once more, on purpose."""

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.decoding import of_chunks
from wiretape.recorder.decode import payloads
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Headers, Read
from wiretape.recorder.errors import TapeDamaged
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.record import cells, chunks, rows, units
from wiretape.viewer.record.fields import CHUNK_FIELDS, EVENT_FIELDS, FIELDS, READ_FIELDS

CONTRACT = (
    "id, started_at, model, request_model, response_model, upstream, labels, conversation, method, path, operation, "
    "api, protocol, rpc_method, tool_name, status, outcome, outcome_detail, connect_ms, ttfb_ms, ttfc_ms, ttft_ms, "
    "ttfo_ms, ttst_ms, max_gap_ms, max_silence_ms, max_output_silence_ms, first_output_silence_ms, icl_p50_ms, "
    "icl_p99_ms, icl_max_ms, tpot_ms, latency_ms, duration_ms, input_tokens, input_uncached_tokens, "
    "cache_read_input_tokens, cache_write_input_tokens, cache_write_1h_input_tokens, output_tokens, reasoning_tokens, "
    "total_tokens, tps_user, context_system_bytes, context_tools_bytes, context_user_bytes, context_assistant_bytes, "
    "context_tool_results_bytes, context_images_bytes, context_documents_bytes, context_other_bytes, output_chunks, "
    "events, reads, coalesced_fraction, bytes, finish_reason, error_code, error_message, flags, connection_reused, "
    "clock"
)


def chunk_rows(*objects: dict[str, Any], step_ns: int = 1_000_000) -> list[rows.TableRow]:
    payloads_ = [payloads.read(json.dumps(payload)) for payload in objects]
    return list(chunks.chunks("a1", of_chunks(payloads_, [seq * step_ns for seq in range(len(payloads_))])))


def choice(delta: dict[str, Any], index: int = 0, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def test_the_contract_is_kept_in_names_and_order() -> None:
    assert ", ".join(FIELDS).startswith(CONTRACT)  # a new field stands at the end
    assert ", ".join(EVENT_FIELDS) == "seq, kind, at_ms, gap_ms, read, type, id, data, start, end, delta, sender"
    assert ", ".join(READ_FIELDS) == "seq, at_ms, relayed_ms, start, size"


@each_case(
    ("ns", "expected"),
    [(None, None), (0, 0.0), (1, 0.000001), (100_050_000, 100.05), (86_400_000_000_001, 86_400_000.000001)],
)
def test_milliseconds_are_exact_to_the_nanosecond(ns: int | None, expected: float | None) -> None:
    assert units.ms(ns) == expected


def test_rows_with_a_read_first_keep_their_kind() -> None:
    numbers: list[int] = []

    def batches() -> Iterator[list[tuple[int, str]]]:
        for no in (1, 2):
            numbers.append(no)
            yield [(no, f"{no}")]

    first_batch = chunks.with_first_read(rows.Exchanges(("id",), batches()))
    assert (numbers, type(first_batch)) == ([1], rows.Exchanges)
    assert list(first_batch) == [{"id": "1"}, {"id": "2"}]
    facts = Exchange(status=200, content_type="text/event-stream")
    decoded = decode(facts, [Read(0, 1, None, 0, 14)], b"data: [DONE]\n\n")
    assert type(chunks.with_first_read(chunks.Chunks(iter([("a", decoded)])))) is chunks.Chunks
    assert list(chunks.with_first_read(iter([{"id": "a"}, {"id": "b"}]))) == [{"id": "a"}, {"id": "b"}]


def test_a_duration_that_is_no_number_is_damage() -> None:
    with pytest.raises(TapeDamaged, match="the tape is damaged"):
        rows.exchange(("ttft_ms",), ["soon"])


def test_an_unmeasured_exchange_has_unknown_times_without_flags() -> None:
    assert rows.exchange(("id", "ttft_ms", "flags"), ("a1", None, None)) == {"id": "a1", "ttft_ms": None, "flags": []}


def test_comments_are_items_and_the_first_has_no_gap() -> None:
    body = b"data: x\n\n: ping\n\ndata: y\n\n"
    reads = [Read(0, 5_000_000, None, 0, 9), Read(1, 7_500_000, None, 9, 8)]
    decoded = decode(Exchange(status=200, content_type="text/event-stream"), reads, body)
    table = list(events.table(Transcript(decoded), decoded))
    assert [row["gap_ms"] for row in table] == [None, 2.5, None]
    assert [row["kind"] for row in table] == ["other", "comment", "other"]


def test_each_choice_has_a_row_with_chunk_number() -> None:
    two_choices = {"choices": [choice({"content": "a"}), choice({"content": "b"}, 1)]}
    table = chunk_rows(two_choices, {"choices": [choice({"content": "c"})]})
    assert [(row["seq"], row["choice"], row["content"], row["gap_ms"]) for row in table] == [
        (0, 0, "a", None),
        (0, 1, "b", None),
        (1, 0, "c", 1.0),
    ]


@each_case(
    ("payload", "kinds"),
    [
        ({"choices": [choice({"role": "assistant", "content": ""})]}, "empty"),
        ({"choices": [choice({"content": "a", "reasoning": "b"}, finish="stop")]}, "content reasoning finish"),
        ({"choices": [choice({"refusal": "no"})]}, "refusal"),
        ({"choices": [choice({"audio": {"data": "UklG"}})]}, "content"),
        ({"choices": [choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "Zm9"}]})]}, "reasoning"),
        ({"choices": [], "usage": {"completion_tokens": 3}}, "usage"),
        ({"error": {"message": "x"}}, "error"),
        ({"choices": [choice({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]})]}, "tool"),
    ],
)
def test_a_chunk_is_named_by_what_it_carries(payload: dict[str, Any], kinds: str) -> None:
    assert [row["kinds"] for row in chunk_rows(payload)] == [kinds]


def test_a_chunks_missing_values_are_unknown_not_empty() -> None:
    (row,) = chunk_rows({"choices": [], "usage": {"completion_tokens": 3}})
    absent = ("choice", "content", "reasoning", "refusal", "tool_name", "tool_arguments", "finish_reason")
    assert [row[field] for field in absent] == [None] * len(absent)
    assert (row["output_tokens"], row["output"]) == (3, False)
    assert tuple(row) == CHUNK_FIELDS


def test_several_tool_calls_in_one_delta_share_its_row() -> None:
    calls = [{"index": at, "function": {"name": name, "arguments": "{}"}} for at, name in enumerate("fg")]
    (row,) = chunk_rows({"choices": [choice({"tool_calls": calls})]})
    assert (row["tool_name"], row["tool_arguments"]) == ("f g", "{}\n{}")


@each_case(
    ("value", "cell"),
    [
        (None, None),
        (True, "true"),
        (1.5, 1.5),
        ([], ""),
        (["a", "b"], "a b"),
        ([{"name": "é"}], '[{"name":"é"}]'),
        ({}, "{}"),
    ],
)
def test_a_structure_becomes_one_cell(value: Any, cell: Any) -> None:
    assert cells.flat(value) == cell


@each_case(
    ("body", "text", "encoded"),
    [(b"", "", None), ("é".encode(), "é", None), (b"\xff", None, "/w=="), (None, None, None)],
)
def test_a_request_body_is_text_or_base64(body: bytes | None, text: str | None, encoded: str | None) -> None:
    row = rows.request(rows.RequestRow("", Exchange(), body, 1, "f", {}))
    assert (row["body"], row["body_base64"]) == (text, encoded)
    zipped = body and gzip.compress(body, mtime=0)
    coded = rows.request(
        rows.RequestRow("", Exchange(headers=Headers((("content-encoding", "gzip"),))), zipped, 1, "f", {})
    )
    assert coded["body"] == text
    assert base64.b64decode(coded["body_base64"] or "") == (zipped or b"")
    assert tuple(row) == (
        "id", "method", "path", "upstream", "headers", "body", "body_base64", "size", "sha256", "labels",
    )  # fmt: skip
