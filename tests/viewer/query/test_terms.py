"""Terms: a field, an operator and values, as the node that they mean."""

from datetime import UTC, datetime

import pytest

from tests.support.cases import each_case
from wiretape.recorder.clock import Clock
from wiretape.viewer.query import parser
from wiretape.viewer.query.fields import FAILURES, FIELDS
from wiretape.viewer.query.parser import FilterError, parse
from wiretape.viewer.query.syntax import Among, And, Compare, Labelled, Match, Not, Or, Regex

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)
CLOCK = Clock(wall_ns=lambda: int(NOW.timestamp()) * 10**9)


def at(order: str, text: str) -> Compare:
    return Compare("started_at", order, f"2026-{text}.000000Z")  # type: ignore[arg-type]  # the tests' own words


DAY = And((at(">=", "03-01T00:00:00"), at("<", "03-01T00:01:00")))


@each_case(
    ("text", "node"),
    [
        ("status:200", Among("status", ((200, 200),))),
        ("status!=200,400..499", Among("status", ((200, 200), (400, 499)), True)),
        ("status:4xx,500", Among("status", ((400, 499), (500, 500)))),
        ("status!=5XX", Among("status", ((500, 599),), True)),
        ("has:gap.max", Match("has", (("max_gap_ms",),))),
        ("is:error,FAILED", Match("outcome", 2 * tuple((name,) for name in FAILURES))),
        ("since:now", at(">=", "03-05T12:00:00")),
        ("at:-2h..now", And((at(">=", "03-05T10:00:00"), at("<=", "03-05T12:00:00")))),
        ("events:5..", Among("events", ((5, None),))),
        ("events:..5", Among("events", ((None, 5),))),
        ("ttft_ms>800", Compare("ttft_ms", ">", 800_000_000)),
        ("is:err", Match("outcome", tuple((name,) for name in FAILURES))),
        ("outcome:TRUNC*", Match("outcome", (("TRUNC", ""),))),
        ("has!=tool", Match("has", (("tool",),), True)),
        ("flag:no_*", Match("flags", (("no_", ""),))),
        ("model~^gpt-(4|5)", Regex("model", "^gpt-(4|5)")),
        ('(text!~"a b")', Regex("text", "a b", True)),
        ('label:run="a 7",x', Labelled((("run", ("a 7",)), ("x", None)))),
        ("since:-2h", at(">=", "03-05T10:00:00")),
        ("until:2026-03-01T00:00Z", at("<", "03-01T00:00:00")),
        ("at:2026-03-01T00:00Z", DAY),
        ("at!=2026-03-01T00:00Z", Not(DAY)),
        ("at:2026-03-01T00:00Z,2026-03-01T00:00Z", Or((DAY, DAY))),
        ("at:-2h..-1h", And((at(">=", "03-05T10:00:00"), at("<=", "03-05T11:00:00")))),
        ("at>2026-03-01T00:00Z", at(">=", "03-01T00:01:00")),
        ("at<=2026-03-01T00:00:00Z", at("<", "03-01T00:00:01")),
    ],
)
def test_a_term(text: str, node: object) -> None:
    assert parse(text, CLOCK) == node


@each_case(
    ("text", "message"),
    [
        ("model:", "expected a value"),
        ("ttft>800", "'800' (character 6): expected a duration with its unit"),
        ("ttft>1s,2s", "'2s' (character 9): expected a single value after >"),
        ("events:..", "expected a number before or after the dots"),
        ("is:trunc", "no such outcome: did you mean truncated? 'wiretape help filters'"),
        ("has:cake", "no such word or field; 'wiretape help fields' lists all"),
        ("has:id", "no such word or field"),
        ("has:ttfx", "did you mean ttf"),
        ("status:6xx", "expected a number"),
        ("events:4xx", "expected a number"),
        ("at:NOW", "or write since:"),
        ("flag:stal", "no such flag: did you mean stall? "),
        ("label!=run", "write -label:run"),
        ("label:=", "expected a label"),
        ("at:-2h", "or write since:"),
        ("at:2h", "or write since:"),
        ("at:today..", "expected a time on both sides"),
        ("since>-2h", "expected one of : = after since"),
        ('error~"("', "expected a regular expression: missing )"),
        ("error~", "expected a regular expression"),
    ],
)
def test_what_a_term_cannot_be_is_reported(text: str, message: str) -> None:
    with pytest.raises(FilterError) as failure:
        parse(text, CLOCK)
    assert message in str(failure.value)


def test_every_field_takes_operators() -> None:
    assert all(":" in parser.operators(field) for field in FIELDS.values())
