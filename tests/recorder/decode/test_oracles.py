"""The six worked examples with every figure that this layer can give, and what holds for any stream."""

import json
import struct
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode import metrics
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import FLAGS, Exchange, Read
from wiretape.recorder.decode.stalls import output_gaps

ORACLES = json.loads((Path(__file__).parents[2] / "data" / "oracles.json").read_text("utf-8"))
MS = 1_000_000
NAMES = {"n_out_chunks": "output_chunks"}
POPULATION = ORACLES["ex5_population"]


def facts(example, end_ms, status=200, ended_by="end"):
    reads, body = [], b""
    for seq, row in enumerate(example["reads"]):
        data = row["text"].encode()
        reads.append(Read(seq, row["t_ms"] * MS, None, len(body), len(data)))
        body += data
    return Exchange(status=status, content_type="text/event-stream", ended_by=ended_by, end_ns=end_ms * MS), reads, body


def in_ms(measures, name):
    if name.endswith("_ms"):
        value = getattr(measures, name.removesuffix("_ms") + "_ns")
        return None if value is None else value / MS
    return getattr(measures, NAMES.get(name, name))


def itl_tokens(outputs):
    """Return one gap per token, in ns, if every output chunk reports the running count of tokens; else None.

    A gap that brought k tokens counts k times at 1/k of its length; one that brought none is added to the next.
    """
    totals = [output.chunk.usage and output.chunk.usage.get("completion_tokens") for output in outputs]
    if None in totals or len(outputs) < 2:
        return None
    gaps, waited = [], 0
    for (earlier, total_before), (later, total_after) in pairwise(zip(outputs, totals, strict=True)):
        waited += later.at_ns - earlier.at_ns
        if total_after > total_before:
            gaps += [waited / (total_after - total_before)] * (total_after - total_before)
            waited = 0
    return gaps


@each_case("example", [name for name in ORACLES if name != "ex5_population"])
def test_an_example_has_every_figure(example):
    example_input, ours = ORACLES[example]["input"], dict(ORACLES[example]["expected"]["ours"])
    exchange, reads, body = facts(example_input, example_input["t_eof_ms"])
    measures = derive(exchange, reads, body)
    outputs = [timed for timed in decode(exchange, reads, body).chunks() if timed.chunk.output]
    assert [gap / MS for gap in struct.unpack(f"<{len(measures.icl) // 8}q", measures.icl)] == ours.pop("icl_ms")
    assert [
        gap / MS for _, gap in output_gaps([item.at_ns for item in outputs], [item.read for item in outputs])
    ] == ours.pop("burst_gap_ms")
    per_token = itl_tokens(outputs)
    assert (per_token and [gap / MS for gap in per_token]) == ours.pop("itl_token_ms")
    assert list(measures.flags) == ours.pop("flags")
    for name, expected in ours.items():
        assert in_ms(measures, name) == (
            pytest.approx(expected, abs=5e-5) if isinstance(expected, float) else expected
        ), name


def test_gaps_per_token_have_the_expected_statistics():
    example = ORACLES["ex6_continuous_usage_multi_token"]
    outputs = [timed for timed in decode(*facts(example["input"], 302)).chunks() if timed.chunk.output]
    gaps = [int(gap) for gap in itl_tokens(outputs)]
    expected = example["itl_token_stats"] if "itl_token_stats" in example else example["expected"]["itl_token_stats"]
    assert fmean(gaps) / MS == pytest.approx(expected["mean"], abs=5e-5)
    assert metrics.percentile(sorted(gaps), 0.5) / MS == expected["p50"]
    assert metrics.percentile(sorted(gaps), 0.99) / MS == pytest.approx(expected["p99"])


def population():
    for row in POPULATION["input"]:
        status = row.get("status", 200)
        ended_by = {"client": "client"}.get(row.get("end"), "end" if status else "refused")
        end_ms = row.get("t_eof") or row["reads"][-1]["t_ms"] + 1
        yield row["id"], derive(*facts(row, end_ms, status, ended_by))


def test_the_population_has_the_expected_rows():
    rows = [
        {"id": name, "outcome": row.outcome, "ttft_ms": in_ms(row, "ttft_ms"), "flags": list(row.flags)}
        for name, row in population()
    ]
    assert rows == POPULATION["rows"]


def test_the_population_has_the_expected_rates():
    rows = [row for _, row in population()]
    cancelled = sum(row.outcome == "client_closed" for row in rows)
    complete = [row for row in rows if row.outcome == "complete"]
    errors = len(rows) - cancelled - len(complete)
    after_headers = errors - sum(row.outcome in ("http_error", "connect_error") for row in rows)
    assert (len(rows), cancelled, len(complete), errors) == (12, 1, 5, 6)
    assert 100 * errors / (len(rows) - cancelled) == pytest.approx(POPULATION["error_rate_pct"], abs=5e-5)
    assert 100 * after_headers / 9 == pytest.approx(POPULATION["stream_error_rate_pct"], abs=5e-5)
    ttft = sorted(row.ttft_ns // MS for row in complete)
    expected = POPULATION["ttft_complete"]
    assert (fmean(ttft), pstdev(ttft)) == pytest.approx((expected["mean"], expected["std_pop"]), abs=5e-5)
    for percent in (50, 90, 95, 99):
        assert metrics.percentile(ttft, percent / 100) == pytest.approx(expected[f"p{percent}"])


SEEN = settings(derandomize=True, deadline=None)
SSE = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=10_000 * MS)


def cut(sizes):
    reads, start = [], 0
    for seq, size in enumerate(sizes):
        reads.append(Read(seq, (100 + 10 * seq) * MS, None, start, size))
        start += size
    return reads


def chunk(content, reason=None, **top):
    payload = {"id": "c1", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": reason}], **top}
    return f"data: {json.dumps(payload)}\n\n"


PIECES = [chunk("", None), chunk("x"), chunk(" y", usage={"completion_tokens": 3}), chunk("z", "stop")]
PIECES += [
    'data: {"choices":[{"delta":{"reasoning":"r"}}]}\n\n',
    'data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"f"}}]}}]}\n\n',
]
PIECES += [
    "data: [DONE]\n\n",
    ": c\n\n",
    "data: {\n\n",
    'data: {\n"choices": []\n}\n\n',
    'error: {"message":"m"}\n\n',
    '{"error":"é"}\n',
]
BODIES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TIMELESS = ("outcome", "outcome_detail", "error_message", "content", "reasoning", "tool_calls", "finish_reason")
TIMELESS += ("events", "comments", "chunks", "output_chunks", "usage", "total_tokens", "api", "choices")
SHAPE = {"coalesced", "single_chunk", "stall", "burst"}


@SEEN
@given(BODIES, ENDS, st.lists(st.integers(1, 400), max_size=8))
def test_any_cutting_gives_the_same_answer(text, end, sizes):
    body = text.replace("\n", end).encode()
    whole_measures, pieces = derive(SSE, cut([len(body)]), body), derive(SSE, cut(sizes), body)
    for name in TIMELESS:
        assert getattr(pieces, name) == getattr(whole_measures, name), name
    assert set(pieces.flags) - SHAPE == set(whole_measures.flags) - SHAPE
    # A repaired payload ends with its block, for all line ends.
    assert [item.data.replace(end, "\n") for item in decode(SSE, [], body).items()] == [
        item.data for item in decode(SSE, [], text.encode()).items()
    ]


@SEEN
@given(BODIES, st.lists(st.integers(1, 60), max_size=40))
def test_timestamps_are_in_order_and_gaps_add_up(text, sizes):
    body = text.encode()
    measures = derive(SSE, cut([*sizes, len(body)]), body)
    order = [
        measures.ttf_byte_ns,
        measures.ttfc_ns,
        measures.ttft_ns,
        measures.ttfo_ns,
        measures.latency_ns,
        measures.duration_ns,
    ]
    if measures.ttfo_ns is not None:
        assert measures.ttft_ns <= measures.ttfo_ns <= measures.ttf_content_ns if measures.ttf_content_ns else True
    known_instants = [instant for instant in order if instant is not None]
    assert known_instants == sorted(known_instants)
    gaps = struct.unpack(f"<{len(measures.icl) // 8}q", measures.icl)
    assert sum(gaps) == (measures.latency_ns - measures.ttft_ns if gaps else 0)
    assert len(gaps) == max(measures.output_chunks - 1, 0)
    assert (measures.max_gap_ns or 0) <= sum(gaps)
    assert set(measures.flags) <= set(FLAGS)


@SEEN
@given(st.lists(st.sampled_from(PIECES[:7]), min_size=1, max_size=10), st.data())
def test_comments_change_only_first_bytes_and_silences(events, data):
    plain = derive(SSE, cut(map(len, events)), "".join(events).encode())
    commented, reads, start = "", [], 0
    for seq, event in enumerate(events):
        comment = ": c\n\n" * data.draw(st.integers(0, 2))
        for at, text in ((seq - 0.5, comment), (seq, event)):
            reads.append(Read(len(reads), int((100 + 10 * at) * MS), None, start, len(text)))
            start += len(text)
        commented += comment + event
    measures = derive(SSE, reads, commented.encode())
    ignored = {
        "comments", "ttf_byte_ns", "flags", "reads", "bytes", "max_silence_ns", "first_silence_ns", "silences",
        "ping_gaps", "event_runs",
    }  # fmt: skip
    assert {k: v for k, v in asdict(measures).items() if k not in ignored} == {
        k: v for k, v in asdict(plain).items() if k not in ignored
    }
    assert set(measures.flags) - {"comments"} == set(plain.flags)


WORDS = """choices delta content index finish_reason message text tool_calls function name arguments id model usage
error code type object reasoning reasoning_details completion_tokens x_groq base_resp status_code audio data"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | st.just("stop"),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(KEYS, value, max_size=4),
    max_leaves=12,
)
HOSTILE = st.builds(
    lambda choice, fields: {**fields, "choices": choice},
    JSON | st.lists(st.dictionaries(KEYS, JSON), max_size=3),
    st.dictionaries(KEYS, JSON),
)


@SEEN
@given(st.lists(HOSTILE | JSON, max_size=4), st.booleans(), st.sampled_from([200, 400]))
def test_no_json_is_an_error_of_ours(payloads, stream, status):
    texts = [json.dumps(payload) for payload in payloads]
    body = "".join(f"data: {text}\n\n" for text in texts) if stream else "".join(texts)
    facts = replace(SSE, status=status, content_type="text/event-stream" if stream else "application/json")
    measures = derive(facts, cut([len(body)]), body.encode())
    assert set(measures.flags) <= set(FLAGS)
    assert "\0" not in json.dumps(asdict(measures), default=str, allow_nan=False, ensure_ascii=False).encode().decode()


@SEEN
@given(
    st.binary(max_size=300),
    st.sampled_from(["", "data: ", "data: {", "error:", ": "]),
    st.sampled_from([None, "gzip", "deflate", "br", "zstd", "gzip, br"]),
)
def test_no_bytes_are_an_error_of_ours(noise, head, coding):
    body = head.encode() + noise
    measures = derive(replace(SSE, content_encoding=coding), cut([3, 7, 50]), body)
    assert set(measures.flags) <= set(FLAGS)


@each_case(
    "payload",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"choices":' * 50_000 + "1" + "}" * 50_000,
        '{"choices":[{"delta":{"content":"x"}}],"n":' + "9" * 10_000_000 + "}",
        '{"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":1e400,"total_tokens":NaN}}',
        '{"choices":[{"delta":{"content":"x"},"index":' + "9" * 4000 + "}]}",
        '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":' + "[" * 900 + "]" * 900 + "}}]}}]}",
        '{"choices":[],"usage":{"completion_tokens":5,"x":' + "[" * 900 + "]" * 900 + "}}",
        '{"error":' + "[" * 900 + "]" * 900 + "}",
    ],
)
@each_case("frame", ["data: {}\n\n", "{}", "data: {}", "error: {}\n\n", "event: error\ndata: {}\n\n"])
def test_extreme_json_is_survived(payload, frame):
    body = (frame.replace("{}", payload) + chunk("b")).encode()
    measures = derive(SSE, cut([len(body)]), body)
    json.dumps(measures.usage, allow_nan=False)
    assert measures.outcome in ("truncated", "malformed", "error_event", "complete")
