"""Drilling: the filter of a group or a failure selects just the exchanges that it counts."""

from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.clock import Clock
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing import drilling
from wiretape.viewer.query.parser import FilterError, parse
from wiretape.viewer.source.tape import conditions, overview, queries
from wiretape.viewer.stats.metrics import GROUPS

NOON = Clock(lambda: 0, lambda: 1_772_366_400 * 10**9)


def selected(connection: Connection, text: str) -> int:
    return queries.count(connection, conditions.condition(parse(text)))


@each_case("name", [*GROUPS, "label.run", "label.k"])
def test_filter_of_a_group_selects_its_exchanges(name: str, connection: Connection) -> None:
    rows = overview.figures(connection, name)[0]
    keys = [row[name] for row in rows]
    rows_by_group = {}
    for row in rows:
        others = [key for key in keys if key is not row[name]]
        rows_by_group[str(row[name])] = selected(connection, drilling.group(name, row[name], others))
    assert rows_by_group == {str(row[name]): row["n"] for row in rows}


def test_filter_of_a_failure_selects_its_exchanges(connection: Connection) -> None:
    for failure in overview.failures(connection):
        text = drilling.failure(failure.outcome, failure.detail, failure.code, failure.status)
        assert selected(connection, text) == failure.count


@each_case(
    ("base", "together"),
    [
        ("", "model:gpt"),
        ("  ", "model:gpt"),
        ("ttft>1s", "ttft>1s model:gpt"),
        ("a or b", "(a or b) model:gpt"),
        ("(a or b)", "(a or b) model:gpt"),
    ],
)
def test_terms_are_added_to_a_filter(base: str, together: str) -> None:
    assert drilling.joined(base, "model:gpt") == together
    parse(together)


def test_joining_no_terms_changes_nothing() -> None:
    assert drilling.joined("a or b") == drilling.joined("a or b", "") == "a or b"


def test_a_filter_in_parentheses_gets_no_more_of_them() -> None:
    for base in ("(a or b)", "(a or b) c"):
        assert drilling.joined(base, "c") == f"{base} c"
    assert drilling.joined("(a) or (b)", "c") == "((a) or (b)) c"


@each_case(
    ("base", "with_term"),
    [
        ("", "is:failed"),
        ("since:-2h  model:a", "since:-2h  model:a is:failed"),
        ("model:a or is:failed", "(model:a or is:failed) is:failed"),
        ("(model:a or b) or c", "((model:a or b) or c) is:failed"),
        ("not is:failed", "not is:failed is:failed"),
        ("-(a is:failed)", "-(a is:failed) is:failed"),
        ('"a is:failed"', '"a is:failed" is:failed'),
        ("is:failed,ok", "is:failed,ok is:failed"),
    ],
)
def test_an_optional_term_is_added_and_removed_again(base: str, with_term: str) -> None:
    assert drilling.toggled(base, "is:failed", ("flag:stall",)) == with_term
    assert drilling.toggled(with_term, "is:failed", ("flag:stall",)).split() == base.split()


@each_case(
    ("base", "without_term"),
    [
        ("a is:failed b", "a b"),
        ("is:failed and since:-2h", "since:-2h"),
        ("IS : failed", ""),
        ("(is:failed) (a or b)", "a or b"),
        ("(a (is:failed and -b))", "a -b"),
        ("at:2026-03-01 is:failed", "at:2026-03-01"),
        ("at:2026-03-01,2026-03-02 is:failed", "at:2026-03-01,2026-03-02"),
    ],
)
def test_a_demanded_term_is_removed_wherever_it_stands(base: str, without_term: str) -> None:
    assert drilling.toggled(base, "is:failed", ("flag:stall",)) == without_term


def test_a_term_takes_the_place_of_its_alternative() -> None:
    assert drilling.toggled("(a or b) flag:stall", "is:failed", ("flag:stall",)) == "(a or b) is:failed"
    assert drilling.toggled("flag:stall or a", "is:failed", ("flag:stall",)) == "(flag:stall or a) is:failed"


def test_path_excludes_queries_where_others_have_one() -> None:
    assert drilling.group("path", "/v1/x", ["/v1/y?a=1"]) == "path:/v1/x"
    assert drilling.group("path", "/v1/x", ["/v1/x?a=1"]) == 'path:/v1/x -path~"[?]"'


@each_case("value", [HOSTILE.replace("\0", ""), 'a"b\\c*', "or", "", "-x", "a,b", "a:b"])
def test_any_group_name_becomes_a_valid_filter(value: str) -> None:
    assert parse(drilling.group("model", value)) == parse(str(parse(drilling.group("model", value))))


def test_unprintable_names_become_an_expression(connection: Connection) -> None:
    text = drilling.group("model", HOSTILE)
    assert text.isprintable()
    assert r"\\x1b\\[2J" in text
    assert selected(connection, text) == 1
    assert len(str(parse(drilling.group("error_code", "\x1b" * 500)))) < 500


@pytest.mark.parametrize(("name", "text"), [
    ("model", '-model:*'), ("status", "-status>=0"), ("label.run", "-label:run"),
])  # fmt: skip
def test_unknown_is_a_group_of_its_own(name: str, text: str) -> None:
    assert drilling.group(name, None) == text


@pytest.mark.parametrize(("name", "value", "text"), [
    ("day", "2026-03-01", "at:2026-03-01"),
    ("hour", "2026-03-01T23", "at:2026-03-01T23"),
])  # fmt: skip
def test_days_and_hours_are_spans_of_time(name: str, value: Any, text: str) -> None:
    assert drilling.group(name, value) == text


def test_filter_without_relative_times_stays_as_typed() -> None:
    assert drilling.settled("  ttft>1s model:gpt-* ", NOON) == "ttft>1s model:gpt-*"
    assert drilling.settled("", NOON) == ""


def test_relative_time_becomes_a_timestamp() -> None:
    assert drilling.settled("since:-1h", NOON) == "started_at>=2026-03-01T11:00:00.000000Z"


def test_invalid_filter_is_refused() -> None:
    with pytest.raises(FilterError):
        drilling.settled("ttft>fast", NOON)
    with pytest.raises(FilterError):
        drilling.check("ttft>fast")
    drilling.check(" ")
