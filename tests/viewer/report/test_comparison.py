"""Comparisons for people."""

from typing import Any

from tests.support.exchanges import detailed
from wiretape.viewer.report import comparison, sessions
from wiretape.viewer.stats import compare


def row(metric: str, verdict: str, base: float = 100.0, new: float = 130.0, **values: Any) -> dict[str, Any]:
    change = {"difference": new - base, "change_pct": 100 * (new - base) / base if base else None}
    sizes = {"base_n": 70, "new_n": 70}
    return {
        "metric": metric,
        **sizes,
        "base": base,
        "new": new,
        **change,
        "low": 9.0,
        "high": 50.0,
        "verdict": verdict,
    } | values


def test_a_headline_names_worse_metrics_before_better_ones() -> None:
    rows = [row("tps_user_p50", compare.BETTER), row("ttft_p50_ms", compare.WORSE)]
    assert comparison.headline(rows) == "new is slower: ttft +30 % [+9.0 %, +50 %]"
    assert comparison.headline(rows[:1]) == "new is faster: tps user +30 % [+9.0 %, +50 %]"


def test_an_unclear_headline_says_how_many_values_are_needed() -> None:
    unclear = row("ttft_p50_ms", compare.UNCLEAR, low=-20.0)
    assert comparison.headline([unclear]) == "no clear difference: ttft +30 % [−20 %, +50 %]"
    few = row("ttft_p95_ms", compare.TOO_FEW, low=None, high=None)
    assert comparison.headline([few]) == "undecided: needs n ≥ 100 to decide"


def test_a_rate_changes_by_points() -> None:
    rows = [row("error_rate_pct", compare.WORSE, 2.0, 5.0, low=0.5, high=6.0)]
    assert comparison.headline(rows) == "new is failing more: error rate +3.0 pp [+0.5, +6.0]"


def test_changes_from_0_are_in_the_metrics_unit() -> None:
    rows = [row("icl_p50_p50_ms", compare.UNCLEAR, 0.0, 5.0, low=-1.0, high=6.0)]
    assert comparison.headline(rows) == "no clear difference: icl p50 +5.0 ms [−1.0, +6.0]"


def test_a_comparison_keeps_both_groups_at_80_columns() -> None:
    metrics = ("ttft_p50_ms", "ttft_p95_ms", "icl_p50_p50_ms", "latency_p50_ms")
    numbers = {"base": 12_345.6, "new": 23_456.7, "low": 10_000.0, "high": 12_000.0}
    drawn = comparison.groups([row(metric, compare.TOO_FEW, **numbers) for metric in metrics], 80)
    assert drawn.hidden == ()
    assert {"12,345.6", "23,456.7"} < set(drawn.lines[2].plain.split())
    assert max(len(line.plain) for line in drawn.lines) <= 80


def test_a_sessions_turns_keep_cache_and_backoff_when_narrow() -> None:
    usual = dict.fromkeys(sessions.TURN_FIELDS, 1500.0) | {"turn": 2, "id": "f" * 16, "model": "gpt-x-mini"}
    drawn = sessions.turns([usual | {"outcome": "http_error", "cache_verdict": "prefix_changed"}], 80)
    assert {"backoff s", "cache"}.isdisjoint(drawn.hidden)
    assert drawn.lines[1].plain.startswith("✗ 2 ")
    assert max(len(line.plain) for line in drawn.lines) <= 80


def pair_headline(a: dict[str, Any], b: dict[str, Any]) -> str:
    usual = {"outcome": "complete", "flags": "", "latency_ns": 2_000_000_000}
    rows = compare.pair(*(detailed(**usual | side) for side in (a, b)))
    return comparison.pair(rows).lines[0].plain


def test_an_incomplete_answer_is_neither_slower_nor_faster() -> None:
    complete = {"latency_ns": 3_000_000_000}
    failed = {"outcome": "error_event", "outcome_detail": "mid_stream"}
    assert pair_headline({}, complete).startswith("b is slower: latency +50 %")
    assert pair_headline(failed, complete) == "a failed: error in mid-stream"
    assert pair_headline(complete, failed) == "b failed: error in mid-stream"
    assert (
        pair_headline(failed, {"outcome": "http_error", "status": 503})
        == "a failed: error in mid-stream; b failed: 503"
    )
    assert pair_headline({"outcome": "open"}, {}) == "a is not complete: running"
    assert pair_headline({}, {"outcome": "client_closed"}) == "b is not complete: cancelled by client"
