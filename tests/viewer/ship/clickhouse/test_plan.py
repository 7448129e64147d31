"""Plans: each number is the value of its formula."""

import json
import math
from pathlib import Path

import pytest

from tests.support.commands import run
from wiretape.viewer.ship.clickhouse.plan import RANKED_GAP_BYTES, Inputs, results, rows

NONE = Path("none.db")


def test_every_result_is_what_its_formula_says() -> None:
    of = Inputs(exchanges_per_day=4e6, stream_bytes=6500, server_cost=300, tb_cost=20)
    names = {row["name"]: row["value"] for row in rows(of) if row["kind"] == "input"}
    for result in results(of):
        said = eval(result.formula, {"ceil": math.ceil, "max": max, "__builtins__": {}}, names)
        assert (result.name, result.value) == (result.name, pytest.approx(said))
        names[result.name] = result.value


def test_a_hundred_million_exchanges_a_day_take_what_was_worked_out_from_the_measurements() -> None:
    found = {result.name: result.value for result in results(Inputs(exchanges_per_day=1e8))}
    assert found["bytes_per_day"] == pytest.approx(183e9, rel=0.01)
    assert (found["shards_for_queries"], found["servers"], found["cost"]) == (6, 14, None)


def test_a_plan_with_bodies_takes_the_inserts_that_were_measured_with_bodies() -> None:
    found = {
        size: {result.name: result.value for result in results(Inputs(exchanges_per_day=1e8, stream_bytes=size))}
        for size in (0, 6500)
    }
    assert [(one["inserts"], one["shards_for_inserts"]) for one in found.values()] == [(6600, 1), (2000, 3)]


def test_every_text_has_one_figure_for_the_memory_of_exact_percentiles() -> None:
    assert results(Inputs(exchanges_per_day=1e6, gaps_per_exchange=1000))[-3].value == 1e9 * RANKED_GAP_BYTES / 1e9
    assert f"up to {RANKED_GAP_BYTES} bytes of memory" in " ".join(run(NONE, "stats", "--help").stdout.split())
    shipping = " ".join(run(NONE, "help", "shipping").stdout.split())
    assert f"a billion take up to {RANKED_GAP_BYTES} GB" in shipping


def test_a_plan_is_printed_with_its_inputs_and_refuses_nonsense() -> None:
    arguments = ("fleet", "plan", "--exchanges-per-day", "1000000")
    found = {row["name"]: row for row in json.loads(run(NONE, *arguments, "--format", "json").stdout)}
    assert found["gaps_per_day"]["value"] == 473_000_000
    assert (found["cost"]["kind"], found["cost"]["value"]) == ("result", None)
    shown = run(NONE, *arguments, "--format", "table", "--server-cost", "100", "--tb-cost", "10").stdout
    assert "gaps_per_day" in shown
    assert "exchanges_per_day * gaps_per_exchange" in shown
    assert "–" not in shown
    assert "--cores" in run(NONE, *arguments, "--cores", "nan", code=2).stderr
    assert "Missing option '--exchanges-per-day'" in run(NONE, "fleet", "plan", code=2).stderr
