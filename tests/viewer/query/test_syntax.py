"""Filters as text: a printed filter is parsed to the same tree."""

import pytest
from hypothesis import given

from tests.support.cases import each_case
from tests.support.random_filters import TREES
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.syntax import Filter, amount, is_starred


@given(filter=TREES)
def test_what_is_printed_parses_to_the_same(filter: Filter) -> None:
    assert parse(str(filter)) == filter


@each_case(
    ("text", "printed"),
    [
        ("model=gpt-* ttft > 0.8s", "model:gpt-* ttft>800ms"),
        ("dur:90s..2m tok.out>=2k gap<0.5us", "duration:90s..120s output_tokens>=2000 gap<0.0005ms"),
        ("not (a or b) AND c", "-(a or b) c"),
        ("a or b c", "a or b c"),
        ("(a or b) c", "(a or b) c"),
        ('text:"rate limit",x', 'text:"rate limit",x'),
        ("bytes>10k coalesced:10%..", "bytes>10000 coalesced_fraction:0.1.."),
        ("is:ok,cut", "outcome:complete,truncated"),
        ("label:run", "label:run"),
    ],
)
def test_a_filter_is_printed_with_contract_names(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


@pytest.mark.parametrize("text", ['a -(error:"*rate limit*" or b)', '"a b*"', 'label:k="*"'])
def test_a_star_in_quotes_is_seen(text: str) -> None:
    assert is_starred(parse(text))


def test_a_wildcard_is_no_star_in_quotes() -> None:
    assert not is_starred(parse('error:*rate*,"limit" text~"a*b" label:k label:k=x* ttft>1s a*'))


@each_case(
    ("field", "number", "text"),
    [("ttft_ms", 1, "0.000001ms"), ("ttft_ms", 800_000_000, "800ms"), ("bytes", 10, "10"), ("tps_user", 0.1, "0.1")],
)
def test_an_amount_is_exact(field: str, number: float, text: str) -> None:
    assert amount(field, number) == text
