"""Costs of exchanges: exact amounts by the first entry that fits, and none that is unknown."""

import re
import tomllib
from decimal import Decimal

import pytest

from tests.support import shapes
from tests.support.cases import each_case
from tests.support.decoding import derived
from wiretape.viewer.commands import topics
from wiretape.viewer.stats import prices
from wiretape.viewer.stats.prices import UNITS, Names, Prices, Usage

FULL = {"input": 3, "cached_input": 0.3, "cache_write": 3.75, "output": 15}
LONG = FULL | {"cache_write_1h": 6}
PLAIN = {"input": 2.5, "output": 10.0}
DAY = "2026-06-01T12:00:00.000000Z"


ASKED = Names("gpt-4o", "gpt-4o-2024", "https://api.openai.com/v1", "openai.chat")


def cost(entries, used, names=ASKED, at=DAY):
    """Return the cost in the currency, exactly."""
    result = Prices([prices.entry(one) for one in entries]).cost(names, at, used)
    return None if result is None else Decimal(result) / UNITS


@each_case(
    ("entry", "counts", "expected"),
    [
        (PLAIN, (1000, 100), "0.0035"),
        (PLAIN, (400, 100, 600), "0.0035"),  # cached tokens without a price cost what input does
        (FULL | {"cache_write": 3}, (400, 100, 600), "0.00288"),
        (FULL | {"cache_write": 3}, (1000, 100), "0.0045"),
        (FULL, (400, 100, 600), "0.00288"),
        (FULL, (200, 100, 600, 200), "0.00303"),
        (FULL, (None, 100, 900, 200), None),
        (PLAIN, (1000, None), None),
        (PLAIN, (None, 100), None),
        (PLAIN | {"output": 0}, (1000, None), "0.0025"),  # embeddings have no output
        (FULL, (1000, 100, 600, 200), "0.00543"),
        (FULL, (1000, 100), "0.0045"),
        (PLAIN, (1000, 100, 600, 200), "0.0055"),
        ({"input": 0.1, "output": 0.4}, (3, 3), "0.0000015"),
        (PLAIN, (0, 0), "0"),
        (FULL, (1000, 100, 600, 200, 0), "0.00543"),
        (FULL, (1000, 100, 600, 200, 50), None),  # they have no price
        (PLAIN, (1000, 100, 600, 200, 50), None),
        (LONG, (1000, 100, 600, 200, 50), "0.0055425"),
        (LONG, (1000, 100, 600, 200, 200), "0.00588"),
        (LONG, (1000, 100, 600, 200, None), None),  # they may be kept for an hour
        (LONG, (1000, 100, 600, 0, None), "0.00468"),
        (LONG, (1000, 100, 600, None, None), "0.00468"),
        (LONG, (1000, 100, 600, 200, 201), None),  # they cannot be among 200
        (LONG | {"cache_write_1h": 3.75}, (1000, 100, 600, 200, None), "0.00543"),
    ],
)
def test_a_cost_is_exact_or_unknown(entry, counts, expected):
    amount = cost([entry], Usage(*counts))
    assert amount == (None if expected is None else Decimal(expected))


@each_case("name", shapes.SHAPES)
def test_usual_usage_costs_what_it_does_by_hand(name):
    shape = shapes.SHAPES[name]
    measures = derived(shape.body, content_type=shape.type, path=shape.path)
    cached = (measures.cache_read_input_tokens, measures.cache_write_input_tokens, measures.cache_write_1h_input_tokens)
    assert measures.outcome == "complete"
    assert cost([shapes.ENTRY], Usage(measures.input_uncached_tokens, measures.output_tokens, *cached)) == (
        shape.cost and Decimal(shape.cost) / 10**6
    )


@each_case(
    ("patterns", "fits"),
    [
        ({"model": "gpt-4o"}, True), ({"model": "GPT-*"}, True), ({"model": "gpt"}, False), ({"model": "*4*"}, True),
        ({"model": ["x", "g*o"]}, True), ({"model": "gpt-4o*", "api": "openai.*"}, True),
        ({"model": "gpt-4o*", "api": "gemini"}, False), ({"response_model": "*-2024"}, True),
        ({"upstream": "api.openai.com"}, True), ({"upstream": "https://api.openai.com/*"}, True),
        ({"upstream": "openai.com"}, False), ({"model": "gpt.4o"}, False),
        ({"since": tomllib.loads("d = 2026-06-01")["d"]}, True),
        ({"since": tomllib.loads("d = 2026-06-02")["d"]}, False),
        ({"since": tomllib.loads("d = 2026-06-01T14:30:00+02:00")["d"]}, False),
        ({"since": tomllib.loads("d = 2026-06-01T13:30:00+02:00")["d"]}, True),
    ],
)  # fmt: skip
def test_an_entry_fits_by_names_and_by_time(patterns, fits):
    assert (cost([PLAIN | patterns], Usage(1, 1)) is not None) is fits


def test_the_first_entry_that_fits_holds():
    newer, older = ({"input": price, "output": 0, "model": "gpt-*"} for price in (2, 1))
    used = Usage(1_000_000, 0)
    newer["since"] = tomllib.loads("d = 2026-06-01")["d"]
    assert (cost([newer, older], used), cost([newer, older], used, at="2026-05-31T23:59:59.999999Z")) == (2, 1)
    assert cost([older, newer], used) == 1


@each_case(
    ("entry", "message"),
    [
        ({"input": 1}, "output is missing"), ({"inptu": 1}, "inptu is not a key"), (PLAIN | {"input": -1}, "from 0 to"),
        (PLAIN | {"input": True}, "from 0 to"), (PLAIN | {"input": float("nan")}, "from 0 to"),
        (PLAIN | {"input": float("inf")}, "from 0 to"), (PLAIN | {"input": 1e-7}, "six decimals"),
        (PLAIN | {"model": []}, "model must be"), (PLAIN | {"model": 4}, "model must be"),
        (PLAIN | {"since": "2026"}, "since must be"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(entry, message):
    with pytest.raises(ValueError, match=message):
        prices.entry(entry)


def test_a_pattern_of_many_stars_is_fast():
    names = Names("a" * 1000, None, "", None)
    assert cost([PLAIN | {"model": "*a" * 200 + "*b"}], Usage(1, 1), names) is None


def test_the_prices_that_help_shows_can_be_read():
    (example,) = re.findall(r"```toml\n(.*?)```", topics.text("prices"), re.DOTALL)
    document = tomllib.loads(example)
    assert len([prices.entry(entry) for entry in document["prices"]]) == 2
    assert prices.currency(document["currency"]) == "USD"
