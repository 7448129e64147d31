"""The overview of a tape: figures as the command gives them, trends, failures, labels."""

import json
from pathlib import Path

import pytest

from tests.support.commands import run
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.base import Failures
from wiretape.viewer.source.tape import conditions, overview, queries
from wiretape.viewer.stats.metrics import objective


def test_figures_are_those_of_the_command(connection: Connection, tape: Path) -> None:
    output = run(tape, "stats", "--by", "outcome", "--slo", "ttft<100ms", "--format", "json").output
    assert overview.figures(connection, "outcome", bounds=objective("ttft<100ms"))[0] == json.loads(output)


def test_the_total_is_that_of_the_command_without_groups(connection: Connection, tape: Path) -> None:
    rows, total = overview.figures(connection, "model")
    assert rows == overview.figures(connection, "model")[0]
    assert [total] == json.loads(run(tape, "stats", "--format", "json").output)
    nobody = conditions.condition(parse("model:nobody"))
    assert overview.figures(connection, "model", nobody) == ([], None)


def test_without_gaps_all_but_their_figures_are_the_same(connection: Connection) -> None:
    total = overview.figures(connection, "model")[0]
    quick = overview.figures(connection, "model", gaps=False)[0]
    for a, b in zip(total, quick, strict=True):
        differing = {name for name in a if a[name] != b[name]}
        assert all(name.startswith(("icl_", "gap_", "coalesced", "warnings")) for name in differing)


def test_pooled_gaps_are_counted_before_they_are_held(connection: Connection) -> None:
    assert overview.pooled(connection) == 13
    assert overview.pooled(connection, conditions.condition(parse("model:nobody"))) == 0


def test_a_trend_of_one_interval_equals_all(connection: Connection) -> None:
    trend = overview.trend(connection, 1)
    _, total = overview.figures(connection, "model")
    assert trend is not None
    assert total is not None
    assert (*trend.n, *trend.failed) == (total["n"], total["error_rate_n"] - total["n_complete"])
    times = [*trend.ttft_p50, *trend.ttft_p95, *trend.longest_gap]
    assert times == pytest.approx([total["ttft_p50_ms"], total["ttft_p95_ms"], total["gap_max_ms"]])


def test_a_trend_covers_every_exchange_in_equal_intervals(connection: Connection) -> None:
    trend = overview.trend(connection, 1000)
    assert trend is not None
    assert sum(trend.n) == queries.count(connection)
    assert len(trend.n) == len(trend.failed) == len(trend.ttft_p50) == len(trend.longest_gap) > 1
    assert overview.trend(connection, 1000, conditions.condition(parse("model:nobody"))) is None


def test_failures_are_counted_by_how_they_failed(connection: Connection) -> None:
    failures = overview.failures(connection)
    assert {(failure.outcome, failure.code, failure.status, failure.count) for failure in failures} >= {
        ("http_error", "rate_limit_exceeded", 429, 1),
        ("error_event", "server_overloaded", 200, 1),
    }
    assert sum(failure.count for failure in failures) == 4
    assert overview.failures(connection, conditions.condition(parse("is:ok"))) == []
    assert overview.failures(connection, conditions.condition(parse("status:429")))[0] == Failures(
        "http_error", "rate_limited", "rate_limit_exceeded", 429, 1
    )


def test_labels_are_named(connection: Connection) -> None:
    assert overview.label_keys(connection) == ["k", "run"]
    assert overview.label_keys(connection, conditions.condition(parse("status:429"))) == []
