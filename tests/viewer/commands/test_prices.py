"""Costs by the prices of a configuration: in lists, filters, exports, statistics and of one exchange."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support import page, shapes
from tests.support.commands import run
from tests.support.sample_tape import COMPLETE, TOOLS
from wiretape.recorder.errors import ConfigError
from wiretape.viewer import config
from wiretape.viewer.source.tape import exchange, queries

PRICES = '[[prices]]\nmodel = "gpt-x-mini"\ninput = 2\noutput = 0.5\n'
PAID = {"cost": 0.000012, "currency": "EUR", "cache_hit_rate": None}


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with prices, where the commands are run, and a user's configuration beside it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "wiretape").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / config.LOCAL_FILE).write_text(f'currency = "EUR"\n{PRICES}')
    return tmp_path


def test_costs_are_listed_filtered_sorted_exported_and_shown(configured: Path, tape: Path) -> None:
    columns = ("--columns", "id,cost,currency,cache_hit_rate")
    rows = json.loads(run(tape, "ls", "-f", "cost>0.00001", *columns, "--format", "json").stdout)
    assert rows == [{"id": COMPLETE} | PAID]
    assert (
        run(tape, "ls", "-s", "-cost", "-n", "2", "--columns", "id,cost").stdout.splitlines()[1]
        == f"{COMPLETE}\t1.2e-05"
    )
    assert "0.000012" in run(tape, "ls", "--columns", "id,cost", "--format", "table").stdout
    exported = run(tape, "export", "-f", "has:cost", *columns).stdout.splitlines()
    assert exported[1:] == [f"{COMPLETE},1.2e-05,EUR,"]
    facts = json.loads(run(tape, "show", COMPLETE, "--format", "json").stdout)
    assert {name: facts[name] for name in PAID} == PAID
    assert "cost       0.000012 EUR\n" in run(tape, "show", COMPLETE, "--format", "table").stdout
    assert json.loads(run(tape, "show", TOOLS, "--format", "json").stdout)["cost"] is None


def test_usual_usage_costs_on_tape_what_it_should(configured: Path) -> None:
    (configured / config.LOCAL_FILE).write_text(shapes.PRICES)
    tape = shapes.tape(configured / "tape.db")
    rows = json.loads(run(tape, "ls", "-n", "99", "--columns", "id,cost", "--format", "json").stdout)
    costs = {shapes.IDS[row["id"]]: row["cost"] for row in rows}
    expected = {name: shape.cost and float(Decimal(shape.cost) / 10**6) for name, shape in shapes.SHAPES.items()}
    assert costs == expected
    assert list(expected.values()).count(None) == 2
    (row,) = json.loads(run(tape, "stats", "--format", "json").stdout)
    assert (row["cost_n"], row["cost_unknown_n"]) == (len(expected) - 2, 2)
    assert row["cost"] == pytest.approx(sum(cost for cost in expected.values() if cost is not None))
    assert row["usage_missing_n"] == 1, "the stream without the last usage"


def test_conversations_have_what_their_exchanges_cost(configured: Path, tape: Path) -> None:
    by = ("ls", "--by", "conversation", "-f", "model:gpt-x-mini")
    costs = {row["id"]: (row["cost"], row["currency"]) for row in json.loads(run(tape, *by, "--format", "json").stdout)}
    assert costs.pop(COMPLETE) == (PAID["cost"], PAID["currency"])
    assert set(costs.values()) == {(None, None)}, "of no other exchange the cost is known"
    assert "0.000012" in run(tape, *by, "--format", "table").stdout
    (configured / config.LOCAL_FILE).unlink()
    assert " cost" not in run(tape, *by, "--format", "table").stdout


def test_recorded_costs_survive_wrong_prices(configured: Path, tape: Path) -> None:
    def recorded_facts() -> dict[str, object]:
        with queries.opened(tape) as connection:
            row = exchange.known(connection, queries.find(connection, COMPLETE)).row
            return {name: getattr(row, name) for name in PAID}

    assert recorded_facts() == PAID
    (configured / config.LOCAL_FILE).write_text(PRICES.replace("input", "inputs"))
    with pytest.raises(ConfigError, match=r"entry 1 of \[\[prices\]\]"):
        recorded_facts()


def test_statistics_add_known_costs_and_count_others(configured: Path, tape: Path) -> None:
    (row,) = json.loads(run(tape, "stats", "--format", "json").stdout)
    assert {name: row[name] for name in ("cost", "cost_mean", "cost_n", "currency")} == {
        "cost": 0.000012, "cost_mean": 0.000012, "cost_n": 1, "currency": "EUR",
    }  # fmt: skip
    assert row["cost_unknown_n"] == row["n_complete"] - 1 > 0
    file = configured / "run.html"
    run(tape, "export", "--html", "-o", str(file))
    (group,) = page.read(file.read_bytes()).data["groups"][""]
    assert {name: group[name] for name in ("cost", "cost_n", "cost_unknown_n")} == {
        name: row[name] for name in ("cost", "cost_n", "cost_unknown_n")
    }
    assert "0.000012 EUR of 1 exchange; unknown of " in run(tape, "stats", "--format", "table").stdout


def test_without_prices_a_cost_is_unknown(configured: Path, tape: Path) -> None:
    (configured / config.LOCAL_FILE).unlink()
    (row,) = json.loads(run(tape, "stats", "--format", "json").stdout)
    assert (row["cost"], row["currency"], row["cost_n"], row["cost_unknown_n"]) == (None, None, 0, row["n_complete"])
    assert json.loads(run(tape, "ls", "-f", "has:cost", "--format", "json").stdout) == []


def test_the_entries_of_the_directory_come_before_the_users(configured: Path, tape: Path) -> None:
    columns = ("--columns", "id,currency,cost", "--format", "json")
    facts = {"id": COMPLETE, "currency": "EUR", "cost": 0.000012}
    user_file = config.user_file()
    user_file.write_text('currency = "USD"\n' + PRICES.replace("input = 2", "input = 7"))
    assert json.loads(run(tape, "ls", "-f", "has:cost", *columns).stdout) == [facts]
    (configured / config.LOCAL_FILE).unlink()
    dearer = facts | {"currency": "USD", "cost": 0.000037}
    assert json.loads(run(tape, "ls", "-f", "has:cost", *columns).stdout) == [dearer]


def test_a_price_mistake_is_one_line_naming_its_place(configured: Path, tape: Path) -> None:
    (configured / config.LOCAL_FILE).write_text(f"{PRICES}{PRICES.replace('input', 'inputs')}")
    result = run(tape, "stats", code=1)
    assert str(result.exception) == (
        ".wiretape.toml, line 7, column 1: entry 2 of [[prices]]: inputs is not a key of a price: choose from "
        "model, response_model, upstream, api, input, output, cached_input, cache_write, cache_write_1h, since"
    )
    assert json.loads(run(tape, "ls", "--format", "json").stdout)
    (configured / config.LOCAL_FILE).write_text(PRICES * 1001)
    assert "there are 1,001 [[prices]], at most 1,000" in str(run(tape, "stats", code=1).exception)
