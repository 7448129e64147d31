import dataclasses
import hashlib
import struct
from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.decoding import of_chunks
from wiretape.recorder.decode import metrics
from wiretape.recorder.decode.dialect import Chunk, ReportedError
from wiretape.recorder.decode.exchange import Exchange, Read, Reads
from wiretape.recorder.decode.metrics import DECODER_VERSION, DIGESTS, Measures
from wiretape.recorder.decode.stalls import AwaitedAnswer, Silence, StreamSilences
from wiretape.recorder.facts import kinds

MS = 1_000_000
ENDED = Exchange(status=200, ended_by="end", connected_ns=5, headers_ns=10, end_ns=900 * MS)
KINDS = {
    "c": Chunk("openai.chat", content=True),
    "r": Chunk("openai.chat", reasoning=True),
    "t": Chunk("openai.chat", tool=True),
    "b": Chunk("openai.chat", content=True, reasoning=True),
    ".": Chunk("openai.chat"),
    "!": Chunk("openai.chat", fault=ReportedError(None, None)),
}


def stream(kinds, at_ms, reads=None):
    chunks = [KINDS[kind] for kind in kinds]
    return of_chunks(chunks, [None if at is None else at * MS for at in at_ms], reads or range(len(at_ms)))


def measure(kinds, at_ms, reads=None, done_ms=None, tokens=None):
    decoded = stream(kinds, at_ms, reads)
    if done_ms is not None:
        decoded = dataclasses.replace(decoded, at_ns=[*decoded.at_ns, done_ms * MS], done_item=len(at_ms))
    return metrics.measured(metrics.Timeline(ENDED, Reads.of([]), decoded, tokens))


def flags_of(kinds, at_ms, reads=None):
    return metrics.Timeline(ENDED, Reads.of([]), stream(kinds, at_ms, reads)).flags()


@each_case(
    ("kinds", "at_ms", "expected"),
    [
        (".c.", [1, 2, 3], {"ttfc": 1, "ttft": 2, "ttfo": 2, "ttf_content": 2, "thinking": None, "latency": 2}),
        ("rrc", [1, 2, 5], {"ttft": 1, "ttfo": 5, "ttf_content": 5, "thinking": 4, "ttst": 1}),
        ("rtc", [1, 2, 5], {"ttft": 1, "ttfo": 2, "ttf_content": 5, "thinking": 1}),
        ("cr", [1, 2], {"thinking": None, "latency": 2}),
        ("b", [1], {"thinking": None, "ttst": None}),
        ("rr", [1, 2], {"ttft": 1, "ttfo": None, "thinking": None}),
        ("..", [1, 2], {"ttfc": 1, "ttft": None, "latency": None, "tail": None, "duration": 900}),
        ("!.c", [1, 2, 3], {"ttfc": 2, "ttft": 3}),
        ("", [], {"ttfc": None, "ttft": None, "duration": 900}),
        ("c.c", [None, None, 7], {"ttfc": 7, "ttft": 7, "latency": 7}),
    ],
)
def test_timestamps_are_those_of_the_first_and_last_chunks(kinds, at_ms, expected):
    timing = measure(kinds, at_ms)
    assert {name: timing[f"{name}_ns"] for name in expected} == {
        name: None if value is None else value * MS for name, value in expected.items()
    }


@each_case(
    ("at_ms", "done_ms", "duration"), [([1, 5], 7, 7), ([1, 5], None, 900), ([1, 5], 3, 900), ([1, 999], None, 999)]
)
def test_the_answer_ends_with_done_unless_output_follows(at_ms, done_ms, duration):
    timing = measure("cc", at_ms, done_ms=done_ms)
    assert timing["duration_ns"] == duration * MS
    assert timing["tail_ns"] == timing["duration_ns"] - timing["latency_ns"]


def test_two_chunks_in_one_read_have_no_gap():
    timing = measure("ccc", [1, 1, 4], [0, 0, 1])
    assert struct.unpack("<2q", timing["icl"]) == (0, 3 * MS)
    assert timing["max_gap_ns"] == 3 * MS
    assert timing["coalesced_fraction"] == pytest.approx(1 / 3)


@each_case(
    ("at_ms", "reads", "tokens", "tpot", "estimate", "per_user", "per_answer"),
    [
        ([100, 120, 140], [0, 1, 2], 3, 20 * MS, 20 * MS, 50, 3 / 0.14),
        ([100, 120, 140], [0, 1, 2], None, None, 20 * MS, None, None),
        ([100, 120, 140], [0, 1, 2], 1, None, 20 * MS, None, 1 / 0.14),
        ([100, 120, 140], [0, 1, 2], 0, None, 20 * MS, None, 0),
        ([100, 100, 100], [0, 0, 0], 3, None, None, None, 30),
        ([0, 0, 0], [0, 0, 0], 3, None, None, None, None),
    ],
)
def test_rates_are_unknown_without_tokens_or_time(at_ms, reads, tokens, tpot, estimate, per_user, per_answer):
    timing = measure("ccc", at_ms, reads, tokens=tokens)
    assert timing["tpot_ns"] == tpot
    assert timing["tpot_est_ns"] == estimate
    assert (timing["tps_user"], timing["e2e_tps"]) == (
        per_user,
        pytest.approx(per_answer) if per_answer else per_answer,
    )


def test_one_chunk_has_no_gaps():
    timing = measure("c", [1], tokens=5)
    assert [timing[name] for name in ("icl", "gap_hist", "sparkline", "icl_p50_ns")] == [b"", b"", "", None]
    assert (timing["max_gap_ns"], timing["tpot_ns"], timing["tokens_per_chunk"]) == (None, None, 5)


def test_the_histogram_counts_gaps_by_their_bits():
    counts = struct.unpack("<64I", measure("ccccc", [0, 0, 1, 2, 4])["gap_hist"])
    assert {bits: times for bits, times in enumerate(counts) if times} == {0: 1, 20: 2, 21: 1}


def test_percentiles_interpolate():
    assert [metrics.percentile([100, 110, 115, 120, 400], p) for p in (0, 0.5, 0.9, 0.99, 1)] == [
        100,
        115,
        pytest.approx(288),
        pytest.approx(388.8),
        400,
    ]
    assert metrics.percentile([7], 0.99) == 7


@each_case(
    ("at_ms", "line"),
    [
        ([], ""),
        ([5], ""),
        ([5, 5, 5], "▁"),
        ([0, 2, 4, 6], "▁▁▁"),
        ([0, 5], "▂"),
        ([0, 10, 40, 140, 440, 1440, 4440], "▆▇   █"),
        ([0, 4000, 4001, 4002, 8002], " █▁█"),
    ],
)
def test_a_sparkline_shows_gaps_on_an_absolute_scale(at_ms, line):
    assert metrics.sparkline([at * MS for at in at_ms]) == line


def test_a_sparkline_fits_its_width():
    assert len(metrics.sparkline(range(0, 10**12, 10**9))) == 24
    assert len(metrics.sparkline(range(0, 10**12, 10**9), 60)) == 60


def drawing(at, cells, span):
    """Draw a sparkline as `sparkline` does, by a search for the cell of each gap."""
    start, end = span or (at[0], at[-1])
    if span is None:
        cells = min(cells, len(at) - 1) if end > start else 1
    longest = [-1] * cells
    for earlier, later in pairwise(at):
        cell = max(-((start - later) * cells // (end - start)) - 1, 0) if end > start else 0
        if cell < cells:
            longest[cell] = max(longest[cell], later - earlier)
    return "".join(map(metrics.spark, longest))


@given(
    st.lists(st.integers(0, 4000), min_size=2, max_size=40).map(sorted),
    st.integers(1, 30),
    st.none() | st.tuples(st.integers(0, 4000), st.integers(0, 9000)),
)
def test_a_sparklines_gap_is_where_it_ended(at_ms, cells, span_ms):
    at, span = [ms * MS for ms in at_ms], span_ms and tuple(ms * MS for ms in span_ms)
    assert metrics.sparkline(at, cells, span) == drawing(at, cells, span)


def test_a_sparkline_of_a_span_has_all_its_cells():
    assert metrics.sparkline([20 * MS, 50 * MS], 10, (0, 100 * MS)) == "    ▄     "
    assert metrics.sparkline([0, 5 * MS, 500 * MS], 4, (0, 20 * MS)) == "▂   "


@each_case(
    ("at_ms", "reads", "flags"),
    [
        ([], [], set()),
        ([1], [0], {"single_chunk"}),
        ([1, 1], [0, 0], {"single_chunk", "coalesced"}),
        ([1, 1, 2], [0, 0, 1], set()),
        ([1, 1, 2, 2], [0, 0, 1, 1], {"coalesced"}),
        ([1, 2001], [0, 1], set()),
        ([1, 2002], [0, 1], set()),
        (list(range(100, 119)), range(19), set()),
        (list(range(100, 120)), range(20), set()),
        (list(range(1000, 1020)), range(20), {"burst"}),
        ([1] * 8 + [500] * 8 + [900, 901, 902, 903], [0] * 8 + [1] * 8 + [2, 3, 4, 5], {"burst", "coalesced"}),
        ([1] * 7 + [500] * 8 + [9] * 5, [0] * 7 + [1] * 8 + [2, 3, 4, 5, 6], {"coalesced"}),
    ],
)
def test_the_shape_of_the_output_raises_flags(at_ms, reads, flags):
    assert flags_of("c" * len(at_ms), at_ms, reads) == flags


def test_output_without_a_timestamp_raises_few_flags():
    assert flags_of("c", [None]) == {"single_chunk"}
    assert flags_of("cc", [None, None]) == set()


def test_what_needs_no_decoding_comes_from_the_facts():
    reads = [Read(0, 7, None, 0, 0), Read(1, 8, 9, 0, 5), Read(2, 9, 9, 5, 6)]
    timing = metrics.measured(metrics.Timeline(ENDED, Reads.of(reads)))
    assert {name: timing[name] for name in timing if timing[name] not in (None, 0, b"", "")} == {
        "connect_ns": 5,
        "ttfb_ns": 10,
        "ttf_byte_ns": 8,
        "duration_ns": 900 * MS,
        "reads": 3,
        "bytes": 11,
    }


def test_every_measure_is_explained():
    assert all(field.metadata["doc"] for field in fields(Measures))


def silence(at_ms, end_ms=None, sizes=None, **facts):
    """Return the longest silence, in ms, of reads of 10 bytes each; `sizes` has other spans (start, size)."""
    spans = sizes or [(10 * seq, 10) for seq in range(len(at_ms))]
    its_reads = [Read(seq, at * MS, None, *span) for seq, (at, span) in enumerate(zip(at_ms, spans, strict=True))]
    exchange = Exchange(**{
        "status": 200, "content_type": None, "content_encoding": None, "ended_by": "end", "connected_ns": 5,
        "headers_ns": 20 * MS, "end_ns": None, "framing": "chunked", **facts,
    })  # fmt: skip
    silence = metrics.longest_silence(exchange, Reads.of(its_reads), None if end_ms is None else end_ms * MS)
    return None if silence is None else silence / MS


def test_the_longest_silence_is_between_reads_or_the_end():
    assert silence([100, 140, 160], 170) == 40
    assert silence([100, 140, 160], 360) == 200
    assert silence([100, 140, 160, 900], 170) == 40  # data after [DONE] does not belong to the answer
    assert silence([100, 100], 100) == 0
    assert silence([100], 100) is None


def test_a_body_that_never_came_is_a_silence():
    assert silence([5000, 5010], 5010) == 10
    assert silence([], 60_020, ended_by="idle_timeout") == 60_000
    assert silence([], 60_020, framing="none") is None
    assert silence([], 60_020, headers_ns=None) is None


def test_a_running_or_abandoned_exchange_has_no_known_end():
    assert silence([100, 140], None, ended_by=None) == 40
    assert silence([100], 100, ended_by="died") is None
    assert silence([100, 140], 140, ended_by="died") == 40
    assert silence([100], 900, ended_by="client") == 800


def test_missing_bytes_may_have_come_at_any_time():
    assert silence([100, 900], 910, sizes=[(0, 10), (30, 10)], gap_bytes=20) == 10
    assert silence([100, 110], 910, gap_bytes=5) == 10
    assert silence([100], 910, gap_bytes=5) is None
    assert silence([100, 110], 910, sizes=[(7, 10), (17, 10)], gap_bytes=7) == 800


@pytest.mark.parametrize("decoded", [None, stream("!", [40])], ids=["no stream", "an error alone"])
def test_all_formulas_agree_on_an_answer_without_chunks(decoded):
    reads = Reads.of([Read(0, 20 * MS, 21 * MS, 0, 5), Read(1, 60 * MS, None, 5, 7)])
    mute = Silence(0, 900 * MS, "upstream")
    silences = StreamSilences(AwaitedAnswer(0, 900 * MS), [mute, mute, None], [[], [mute], []], 900 * MS)
    timeline = metrics.Timeline(ENDED, reads, decoded, 7, [silences])
    assert timeline.chunks == 0
    assert metrics.measured(timeline) == {
        field_.name: field_.metadata["formula"](timeline) for field_ in fields(metrics.Timing)
    }


def test_changed_derived_values_need_a_higher_decoder_version():
    values = [(entry.name, *map(str, kinds(entry))) for entry in fields(Measures)]
    digest = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
    assert digest == DIGESTS[DECODER_VERSION], f"add to DIGESTS: {DECODER_VERSION + 1}: {digest!r}"
