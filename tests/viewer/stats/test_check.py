"""Rules: how they are read, judged and reported."""

from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.cases import each_case
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.tables import exchanges
from wiretape.viewer.source.tape import overview
from wiretape.viewer.stats import check, summary
from wiretape.viewer.stats.metrics import objective


@pytest.fixture
def row(connection: Connection) -> Any:
    (sample,) = overview.samples(connection)
    return summary.row(sample, (), bounds=objective("ttft<100ms"))


def verdicts(row: Any, *texts: str) -> list[str]:
    rules = [check.rule(*text.split(" ", 1)) for text in texts]
    return [judgement["verdict"] for judgement in check.judge(rules, row)]


def test_a_rule_is_a_figure_with_its_limit() -> None:
    rule = check.rule("max", " ttft.p95 = 1.5s ")
    assert (rule.text, rule.field, rule.count, rule.limit, rule.is_highest) == (
        "max ttft.p95=1.5s", "ttft_p95_ms", "ttft_n", 1500, True,
    )  # fmt: skip
    assert check.rule("min", "tps_user.p50=20").field == "tps_user_p50"
    assert check.rule("min", "icl.n=5").field == "icl_n"
    assert check.rule("max", "error_rate=1%").limit == 1


@each_case(
    ("text", "expected"),
    [
        ("ttft.p95", "no rule"),
        ("ttft=1s", "no figure"),
        ("ttft.p98=1s", "no figure"),
        ("speed.p50=1s", "no figure"),
        ("=5", "no figure"),
        ("ttft.p95=5", "a duration with its unit"),
        ("error_rate=0.01", "a percentage"),
        ("n=5%", "a plain number"),
    ],
)
def test_what_is_no_rule_is_told_why(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check.rule("max", text)


def test_a_rule_is_one_line_for_xml(row: Any) -> None:
    rule = check.rule("max", "ttft.p95=1\x0b\x1f\n s")
    assert rule.text == "max ttft.p95=1 s"
    assert ElementTree.fromstring(check.junit(check.judge([rule], row))).tag == "testsuites"


def test_large_values_are_reported_in_full() -> None:
    row = {"value": 1234567.8914, "unit": "ms", "n": 1234567, "unknown": None}
    assert check.described(row) == "1,234,567.891 ms (n 1,234,567)"
    assert check.described(row | {"value": 1200000}) == "1,200,000 ms (n 1,234,567)"


def test_the_limit_itself_is_allowed(row: Any) -> None:
    assert verdicts(row, "max ttft.max=110ms", "min ttft.max=110ms", "min n=7", "max n=7") == ["holds"] * 4
    assert verdicts(row, "max ttft.max=109.9ms", "min ttft.max=110.1ms", "min n=8", "max n=6") == ["fails"] * 4


def test_rates_are_judged_in_percent(row: Any) -> None:
    rules = ("max error_rate=66%", "max error_rate=67%", "max cancel_rate=0%", "min goodput=17%", "min goodput=16%")
    assert verdicts(row, *rules) == ["fails", "holds", "holds", "fails", "holds"]


def test_a_rates_n_is_its_denominator(connection: Connection) -> None:
    (sample,) = overview.samples(connection)
    row = summary.row(sample, (), bounds=objective("tpot<50ms"))
    names = ("error_rate", "error_rate_all", "stream_error_rate", "cancel_rate", "goodput")
    judged = check.judge([check.rule("max", f"{name}=99%") for name in names], row)
    assert [judgement["n"] for judgement in judged] == [6, 6, 5, 6, 5]
    assert [judgement["unknown"] for judgement in judged] == [None, None, None, None, 1]
    assert check.described(judged[-1]) == "20 % (n 5, objective unknown of 1)"


def test_a_goodput_of_which_nothing_is_known_says_so() -> None:
    row = {"rule": "min goodput=1%", "value": None, "unit": "%", "n": 0, "unknown": 12, "verdict": check.NOTHING}
    assert check.described(row) == "no values among 0, objective unknown of 12"


def test_a_figure_without_values_does_not_keep_its_rule(connection: Connection) -> None:
    (empty,) = overview.samples(connection, where=exchanges.c.status == 500)
    row = summary.row(empty, ())
    assert verdicts(row, "max ttft.p95=1s", "max error_rate=1%", "min tps_user.p50=1") == ["nothing to judge"] * 3
    assert verdicts(row, "min n=1", "max n=0", "max ttft.n=0") == ["fails", "holds", "holds"]


@each_case(
    ("outcomes", "expected"),
    [
        ([], 0),
        (["holds"], 0),
        (["holds", "fails"], 3),
        (["nothing to judge", "holds"], 4),
        (["nothing to judge", "fails"], 3),
    ],
)
def test_a_failing_rule_is_worse_than_an_undecided(outcomes: list[str], expected: int) -> None:
    assert check.exit_code([{"verdict": verdict} for verdict in outcomes]) == expected


def test_a_junit_report_has_a_case_for_each_rule(row: Any) -> None:
    rules = [check.rule("max", text) for text in ("ttft.p50=1s", "ttft.p50=10ms", "ttfo.max=9s")]
    empty = [check.judge(rules[:1], row)[0] | {"value": None, "n": 0, "verdict": check.NOTHING}]
    (suite,) = ElementTree.fromstring(check.junit([*check.judge(rules, row), *empty]))
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert [case.get("name") for case in suite][1] == "max ttft.p50=10ms"
    messages = [case[0].get("message") if len(case) else None for case in suite]
    assert messages == [None, "fails: 80 ms (n 2)", None, "nothing to judge: no values among 0"]
