"""A row of statistics: its fields, its figures, and when it warns."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import begin, end, recorded, response
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import overview, queries
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.metrics import QUANTITIES, objective
from wiretape.viewer.stats.summary import Sample

MS = 1_000_000


def sample(complete: int = 100, gaps: list[int] | None = None, outcomes: Any = None, **columns: list[float]) -> Sample:
    """A sample of complete exchanges; values that are not given are unknown."""
    unknown = {name: np.full(complete, np.nan) for name in (*QUANTITIES, *summary.TOKENS)}
    arrays = {name: np.array(values, np.float64) for name, values in columns.items()}
    counted, every = Counter({"complete": complete}) + Counter(outcomes), np.ones(complete, bool)
    return Sample((), counted, counted, every, every, every, unknown | arrays, np.array(gaps or [], np.int64))


def test_a_row_has_the_fields_of_the_contract(connection: Connection) -> None:
    for pooled in overview.samples(connection, ("model", "label.run")):
        assert tuple(summary.row(pooled, ("model", "label.run"))) == summary.fields(("model", "label.run"))


def test_every_field_is_explained_and_says_its_unit() -> None:
    schema = summary.schema()
    assert all(schema.values())
    for name, quantity in QUANTITIES.items():
        suffix = "_ms" if quantity.unit == "ms" else ""
        assert {f"{name}_n", f"{name}_mean{suffix}", f"{name}_p99{suffix}"} <= schema.keys()
    assert len(schema) == len(set(summary.fields(())))


def test_a_tape_in_figures(connection: Connection) -> None:
    (pooled,) = overview.samples(connection)
    row = summary.row(pooled, ())
    assert (row["n"], row["n_complete"], row["n_open"], row["measured_n"]) == (7, 2, 1, 2)
    assert row["error_rate_pct"] == pytest.approx(100 * 4 / 6)
    assert row["stream_error_rate_pct"] == pytest.approx(100 * 3 / 5)
    assert (row["output_tokens"], row["reasoning_tokens"]) == (4, None)
    assert (row["usage_n"], row["usage_missing_n"]) == (1, 4), "also of three that broke off"
    assert (row["ttft_n"], row["ttft_p50_ms"], row["ttft_max_ms"]) == (2, 80, 110)
    assert (row["icl_n"], row["icl_min_ms"], row["icl_p50_ms"], row["icl_max_ms"]) == (5, 0, 10, 3000)
    assert (row["gap_n"], row["gap_min_ms"], row["gap_p50_ms"]) == (4, 10, 30)
    assert row["coalesced_pct"] == pytest.approx(100 / 7)
    assert (row["icl_max_min_ms"], row["tps_user_p50"], row["tpot_n"]) == (50, 50, 1)


def test_only_streams_cut_before_usage_lack_it(tmp_path: Path) -> None:
    started = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"output_tokens": 1}}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    parts = [
        (10 * at, f"data: {json.dumps(event)}\n\n".encode()) for at, event in enumerate([started, *[delta] * 13], 1)
    ]
    ends = [("eof", "closed mid-chunk"), ("client", None), ("reset", "by peer")]
    frames: list[journal.Frame] = []
    for number, (by, detail) in enumerate(ends, 1):
        first_frame = begin(f"{number:016x}", number, b"{}", "/v1/messages")
        frames += [first_frame, *response(first_frame.id, parts), end(first_frame.id, parts, by, detail)]
    refused, error = begin("f" * 16, 9, b"{}", "/v1/messages"), [(5, b'{"type":"error","error":{"type":"overloaded"}}')]
    frames += [refused, *response(refused.id, error, 529), end(refused.id, error)]
    with queries.opened(recorded(tmp_path / "tape.db", frames)) as connection:
        (pooled,) = overview.samples(connection)
        row = summary.row(pooled, ())
    assert (row["n"], row["output_tokens"], row["usage_n"], row["usage_missing_n"]) == (4, None, 0, 3)
    assert "usage_missing" in row["warnings"]


def test_a_mean_does_not_depend_on_the_order() -> None:
    values_pair = ([36.14504650000001], [36.14504649999999])
    assert {summary.row(sample(1, icl_p50=values), ())["icl_p50_mean_ms"] for values in values_pair} == {36.145046}


def test_a_pooled_stall_shows_in_its_exchanges_figures() -> None:
    gaps = [10 * MS] * 9999 + [5000 * MS]
    row = summary.row(sample(100, gaps, icl_max=[10.0] * 99 + [5000], ttft=[1.0] * 100), ())
    assert (row["icl_p99_ms"], row["icl_max_p99_ms"] > 50, row["icl_max_max_ms"]) == (10, True, 5000)


def test_each_rate_is_shown_with_its_count(connection: Connection) -> None:
    (pooled,) = overview.samples(connection)
    row = summary.row(pooled, (), bounds=objective("tpot<50ms"))
    assert [row[f"{name}_n"] for name in ("error_rate", "error_rate_all", "stream_error_rate", "cancel_rate")] == [
        6, 6, 5, 6,
    ]  # fmt: skip
    assert (row["goodput_n"], row["objective_unknown_n"]) == (5, 1)
    assert summary.row(pooled, ())["goodput_n"] is None
    row_left = summary.row(sample(3, outcomes={"truncated": 1, "client_closed": 4, "open": 9, "unmeasured": 5}), ())
    assert [row_left[f"{name}_n"] for name in ("error_rate", "error_rate_all", "stream_error_rate", "cancel_rate")] == [
        4, 8, 4, 8,
    ]  # fmt: skip


def test_rates_are_rounded_as_figures_are() -> None:
    pooled = sample(3, [MS, MS, 0], outcomes={"truncated": 4}, ttft=[1.0] * 3, latency=[2.0] * 3)
    row = summary.row(pooled, (), bounds=objective("ttft<1s"))
    assert (row["error_rate_pct"], row["goodput_pct"], row["coalesced_pct"]) == (57.142857, 42.857143, 16.666667)


def test_failed_exchanges_enter_figures_only_when_asked(connection: Connection) -> None:
    (all_of_them,) = overview.samples(connection, include_failed=True)
    row = summary.row(all_of_them, ())
    assert (row["measured_n"], row["ttft_n"], row["ttft_min_ms"]) == (7, 5, 30)
    assert row["error_rate_pct"] == pytest.approx(100 * 4 / 6)


def test_the_method_of_percentiles_holds_for_gaps_too(connection: Connection) -> None:
    (pooled,) = overview.samples(connection)
    row = summary.row(pooled, (), "inverse_cdf")
    assert (row["ttft_p50_ms"], row["icl_p90_ms"], row["gap_p50_ms"]) == (50, 3000, 10)


@each_case(
    ("slo", "expected"),
    [("ttft<100ms", 100 / 6), ("ttft<1s", 200 / 6), ("ttft<1s,icl.max<1s", 100 / 6), ("ttft<10ms", 0)],
)
def test_goodput_is_of_all_attempts(connection: Connection, slo: str, expected: float) -> None:
    (pooled,) = overview.samples(connection)
    assert summary.row(pooled, (), bounds=objective(slo))["goodput_pct"] == pytest.approx(expected)


def test_an_exchange_without_bounded_figures_is_not_judged(connection: Connection) -> None:
    (pooled,) = overview.samples(connection)
    row = summary.row(pooled, (), bounds=objective("tpot<50ms"))
    assert (row["goodput_pct"], row["objective_unknown_n"]) == (100 / 5, 1)
    assert "objective_unknown" in row["warnings"]


def test_without_an_objective_or_attempts_there_is_no_goodput() -> None:
    assert summary.row(sample(), ())["goodput_pct"] is None
    assert summary.row(sample(0), (), bounds=objective("ttft<1s"))["goodput_pct"] is None


@each_case(
    ("pooled", "expected"),
    [
        (sample(100, ttft=[1.0] * 100, output_tokens=[5.0] * 100), []),
        (sample(99, ttft=[1.0] * 99, output_tokens=[5.0] * 99), ["few:ttft"]),
        (sample(100, output_tokens=[5.0] * 99 + [np.nan]), ["usage_missing"]),
        (sample(0, outcomes={"unmeasured": 1}), ["unmeasured"]),
        (sample(100, [MS] * 90 + [0] * 10, ttft=[1.0] * 100, output_tokens=[1.0] * 100), ["few:gap"]),
        (
            sample(100, [MS] * 900 + [0] * 200, ttft=[1.0] * 100, output_tokens=[1.0] * 100),
            ["coalesced"],
        ),
    ],
)
def test_warnings(pooled: Sample, expected: list[str]) -> None:
    assert summary.row(pooled, ())["warnings"] == expected
    assert all(warning.partition(":")[0] in summary.WARNINGS for warning in expected)


def test_the_number_of_bursts_withheld_is_warned_of() -> None:
    pooled = sample(100, ttft=[1.0] * 100, output_tokens=[5.0] * 100)
    pooled.withheld = 7
    assert summary.row(pooled, ())["warnings"] == ["burst:7"]
    assert summary.WARNINGS["burst"].endswith("their tps is withheld")


def test_the_number_held_up_by_clients_is_warned_of() -> None:
    pooled = sample(100, ttft=[1.0] * 100, output_tokens=[5.0] * 100)
    pooled.held_up = 3
    assert summary.row(pooled, ())["warnings"] == ["backpressure:3"]
    assert "client held up" in summary.WARNINGS["backpressure"]


def test_exchanges_whose_timestamps_may_be_late_are_counted() -> None:
    pooled = sample(100)
    pooled.suspect = 3
    assert "clock_suspect:3" in summary.row(pooled, ())["warnings"]
    assert "late by more than 1 ms" in summary.WARNINGS["clock_suspect"]


def test_exchanges_without_measures_are_no_attempts() -> None:
    row = summary.row(sample(3, outcomes={"unmeasured": 5, "truncated": 1}), ())
    assert (row["error_rate_pct"], row["n_unmeasured"], row["n"]) == (25, 5, 3)


def test_nothing_at_all_has_no_figures() -> None:
    row = summary.row(sample(0), ())
    assert {row[f"{name}_n"] for name in QUANTITIES} == {0}
    assert (row["error_rate_pct"], row["output_tokens"], row["coalesced_pct"]) == (None, None, None)
    assert row["warnings"] == []
