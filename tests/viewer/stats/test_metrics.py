"""Names, units and limits as people write them."""

import pytest

from tests.support.cases import each_case
from wiretape.recorder.tape.tables import measures
from wiretape.viewer.stats.metrics import BOUNDED, QUANTITIES, amount, group_value, groups, objective, token_buckets


def test_every_quantity_has_a_column_or_is_pooled() -> None:
    assert [name for name, quantity in QUANTITIES.items() if quantity.column is None] == ["icl", "gap"]
    assert all(quantity.column in measures.c for quantity in QUANTITIES.values() if quantity.column is not None)
    assert all(
        (quantity.column or "_ns").endswith("_ns") == (quantity.unit == "ms") for quantity in QUANTITIES.values()
    )


def test_short_durations_and_high_rates_are_better() -> None:
    assert [name for name, quantity in QUANTITIES.items() if not quantity.low_is_good] == ["tps_user"]
    assert (QUANTITIES["ttft"].suffix, QUANTITIES["tps_user"].suffix) == ("_ms", "")


@each_case(
    ("text", "unit", "expected"),
    [
        ("800ms", "ms", 800),
        ("1.5s", "ms", 1500),
        (" 250 us ", "ms", 0.25),
        ("250µs", "ms", 0.25),
        ("2m", "ms", 120_000),
        ("1%", "%", 1),
        (".5 %", "%", 0.5),
        ("20", "tokens/s", 20),
    ],
)
def test_amounts_have_units(text: str, unit: str, expected: float) -> None:
    assert amount(text, unit) == expected


@each_case(
    ("text", "unit", "expected"),
    [
        ("800", "ms", "a duration with its unit"),
        ("", "ms", "a duration"),
        ("-5ms", "ms", "a duration"),
        ("5%", "ms", "a duration"),
        ("1ms", "%", "a percentage"),
        ("0.01", "%", "a percentage"),
        ("20%", "tokens/s", "a plain number"),
        ("nan", "", "a plain number"),
    ],
)
def test_what_is_no_amount_is_told_what_is(text: str, unit: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        amount(text, unit)


def test_an_objective_is_bounds_on_each_exchange() -> None:
    first, second, third = objective("ttft<800ms, icl.p99 < 0.2s,tps>20")
    assert (first.quantity.name, first.is_highest, first.limit) == ("ttft", True, 800)
    assert (second.quantity.column, second.limit) == ("icl_p99_ns", 200)
    assert (third.quantity.name, third.is_highest, third.limit) == ("tps_user", False, 20)
    assert "icl" not in BOUNDED


@each_case(
    ("text", "expected"),
    [("ttft", "not a bound"), ("", "not a bound"), ("ttft<=8ms", "not a bound"), ("icl<9ms", "cannot be bounded"),
     ("ttft<8", "a duration with its unit"), ("ttft<8ms,", "not a bound")],
)  # fmt: skip
def test_what_is_no_objective_is_told_why(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        objective(text)


@each_case(
    ("key", "lowest", "label"),
    [
        ("input_tokens:10k", 0, "0–10k"),
        ("input_tokens:10k", 990_000, "990k–1,000k"),
        ("input_tokens:500", 2_000, "2,000–2,500"),
        ("input_tokens:1M", 1_000_000, "1M–2M"),
        ("input_tokens:10k", None, None),
        ("model", "m", "m"),
    ],
)
def test_a_bucket_of_tokens_is_named_by_its_range(key: str, lowest: object, label: object) -> None:
    assert groups(key) == (key,)
    assert group_value(key, lowest) == label


@each_case("width", ["0", "-5", "many", "", "1.5k", "10kk", "9999999999"])
def test_a_width_of_buckets_is_a_number_above_0(width: str) -> None:
    with pytest.raises(ValueError, match="has no width of buckets: give a number of tokens above 0"):
        token_buckets(f"input_tokens:{width}")


def test_tokens_without_a_width_are_no_group() -> None:
    with pytest.raises(ValueError, match="'input_tokens' is no group: did you mean input_tokens:10k"):
        groups("input_tokens")
