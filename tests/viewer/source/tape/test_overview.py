"""The overview of a tape: figures as the command gives them, maps, failures, labels."""

import json
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sqlalchemy import Connection

from tests.support.commands import run
from tests.support.sample_tape import COMPLETE_READS, begin, end, recorded, response
from wiretape.recorder.tape import journal
from wiretape.viewer.listing import drilling
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.base import Failures
from wiretape.viewer.source.tape import conditions, overview, queries
from wiretape.viewer.source.tape.conditions import unpacked
from wiretape.viewer.stats import heatmap
from wiretape.viewer.stats.metrics import objective


def test_figures_are_those_of_the_command(connection: Connection, tape: Path) -> None:
    said = run(tape, "stats", "--by", "outcome", "--slo", "ttft<100ms", "--format", "json").output
    assert overview.figures(connection, "outcome", bounds=objective("ttft<100ms"))[0] == json.loads(said)


def test_the_total_is_that_of_the_command_without_groups(connection: Connection, tape: Path) -> None:
    rows, total = overview.figures(connection, "model")
    assert rows == overview.figures(connection, "model")[0]
    assert [total] == json.loads(run(tape, "stats", "--format", "json").output)
    nobody = conditions.condition(parse("model:nobody"))
    assert overview.figures(connection, "model", nobody) == ([], None)


def test_without_gaps_all_but_their_figures_are_the_same(connection: Connection) -> None:
    whole = overview.figures(connection, "model")[0]
    quick = overview.figures(connection, "model", gaps=False)[0]
    for a, b in zip(whole, quick, strict=True):
        differing = {name for name in a if a[name] != b[name]}
        assert all(name.startswith(("icl_", "gap_", "coalesced", "warnings")) for name in differing)


def test_pooled_gaps_are_counted_before_they_are_held(connection: Connection) -> None:
    assert overview.pooled(connection) == 13
    assert overview.pooled(connection, conditions.condition(parse("model:nobody"))) == 0


def test_a_trend_of_one_interval_has_the_figures_of_all(connection: Connection) -> None:
    found = overview.trend(connection, 1)
    _, total = overview.figures(connection, "model")
    assert found is not None
    assert total is not None
    assert (*found.n, *found.failed) == (total["n"], total["error_rate_n"] - total["n_complete"])
    times = [*found.ttft_p50, *found.ttft_p95, *found.longest_gap]
    assert times == pytest.approx([total["ttft_p50_ms"], total["ttft_p95_ms"], total["gap_max_ms"]])


def test_a_trend_covers_every_exchange_in_equal_intervals(connection: Connection) -> None:
    found = overview.trend(connection, 1000)
    assert found is not None
    assert sum(found.n) == queries.count(connection)
    assert len(found.n) == len(found.failed) == len(found.ttft_p50) == len(found.longest_gap) > 1
    assert overview.trend(connection, 1000, conditions.condition(parse("model:nobody"))) is None


def test_failures_are_counted_by_how_they_failed(connection: Connection) -> None:
    found = overview.failures(connection)
    assert {(one.outcome, one.code, one.status, one.count) for one in found} >= {
        ("http_error", "rate_limit_exceeded", 429, 1),
        ("error_event", "server_overloaded", 200, 1),
    }
    assert sum(one.count for one in found) == 4
    assert overview.failures(connection, conditions.condition(parse("is:ok"))) == []
    assert overview.failures(connection, conditions.condition(parse("status:429")))[0] == Failures(
        "http_error", "rate_limited", "rate_limit_exceeded", 429, 1
    )


def test_labels_are_named(connection: Connection) -> None:
    assert overview.label_keys(connection) == ["k", "run"]
    assert overview.label_keys(connection, conditions.condition(parse("status:429"))) == []


def test_a_map_of_gaps_counts_every_gap_once(connection: Connection) -> None:
    found = overview.heat(connection, "gap", (20, 40))
    assert found is not None
    drawn = np.array(found.counts)
    gaps = [gap for row in overview.figures(connection, "model")[0] for gap in [row["icl_n"]] if gap]
    assert drawn.sum() + found.same_read >= sum(gaps)
    assert found.same_read > 0


def test_a_cell_of_gaps_counts_the_exchanges_that_have_such_a_gap_once_each(connection: Connection) -> None:
    found = overview.heat(connection, "gap", (1, 2))
    assert found is not None
    gaps = [unpacked(packed) for _, packed in queries.packed_gaps(connection)]
    for row, (told,) in enumerate(found.exchanges):
        low, high = found.limits(row)
        assert told == sum(any((low or 1) <= gap < high for gap in one) for one in gaps)
    assert sum(map(sum, found.counts)) > sum(map(sum, found.exchanges))


def test_a_map_of_times_counts_exchanges(connection: Connection) -> None:
    found = overview.heat(connection, "ttft", (20, 40))
    assert found is not None
    assert found.counts == found.exchanges
    assert sum(map(sum, found.counts)) == 5


@pytest.mark.parametrize("metric", ["gap", "ttft", "tps"])
def test_where_there_is_nothing_there_is_no_map(metric: str, connection: Connection) -> None:
    assert overview.heat(connection, metric, (20, 10), conditions.condition(parse("model:nobody"))) is None
    assert overview.heat(connection, metric, (20, 10), conditions.condition(parse("status:429"))) is None


def test_a_map_fits_the_room_that_it_is_given(connection: Connection) -> None:
    found = overview.heat(connection, "gap", (3, 4))
    assert found is not None
    assert found.columns <= 3
    assert len(found.bands) <= 4
    assert {len(line) for line in found.counts} == {found.columns}


def test_columns_of_10_ms_have_the_exchanges_that_their_filter_selects(tmp_path: Path) -> None:
    written: list[journal.Frame] = []
    for number in range(40):
        id = f"{number:016x}"
        began = msgspec.structs.replace(
            begin(id, 0, b"{}"), started_at=f"2026-03-01T12:00:{58.8 + number * 0.007:09.6f}Z"
        )
        written += [began, *response(id, COMPLETE_READS), end(id, COMPLETE_READS)]
    with queries.opened(recorded(tmp_path / "tape.db", written)) as connection:
        for metric in heatmap.METRICS:
            found = overview.heat(connection, metric, (60, 20))
            assert found is not None
            assert (found.step_ms, found.columns) == (10, 28)
            for row, column in product(range(len(found.bands)), range(found.columns)):
                where = conditions.condition(parse(drilling.cell(found, row, column)))
                assert queries.count(connection, where) == found.cell(row, column).exchanges
