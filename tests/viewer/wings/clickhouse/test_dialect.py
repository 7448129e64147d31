"""Filters and lists as SQL of ClickHouse, without an engine; `test_servers` has one."""

import re
from datetime import date
from typing import Any

import pytest
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.query import QueryResult
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.errors import NotFound
from wiretape.recorder.tape.tables import exchanges
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.syntax import Labelled, Match, Or
from wiretape.viewer.record.fields import FIELDS
from wiretape.viewer.source.base import Measuring, Unsupported
from wiretape.viewer.source.tape import conditions, queries
from wiretape.viewer.stats.metrics import objective
from wiretape.viewer.stats.prices import UNITS, Prices, entry
from wiretape.viewer.stats.tools.tools import TOOLS
from wiretape.viewer.wings.clickhouse import figures, observed
from wiretape.viewer.wings.clickhouse.address import Credentials, Target
from wiretape.viewer.wings.clickhouse.client import Centre, MemoryExceeded, NotAtCentre
from wiretape.viewer.wings.clickhouse.dialect import literal
from wiretape.viewer.wings.clickhouse.source import connected

WHERE = {
    "model:gpt-*": "coalesce((lower(coalesce(request_model, response_model)) LIKE lower('gpt-%')), 0)",
    "latency>300ms": "coalesce((latency_ns > 300000000), 0)",
    "status:200..299": "coalesce(((status >= 200) AND (status <= 299)), 0)",
    "-flag:stall": "(NOT coalesce((lower((' ' || coalesce((nullif(flags, '') || ' '), ''))) LIKE "
    "lower('% stall %')), 0))",
    "label:run=a": "coalesce((lower(CASE WHEN (1 = 1) THEN if(indexOf(label_names, 'run') = 0, NULL, "
    "label_values[indexOf(label_names, 'run')]) END) LIKE lower('a')), 0)",
    "since:2026-11-21T10:00Z": "((started_at >= '2026-11-21T10:00:00.000000Z') AND started >= "
    "toDateTime('2026-11-21 10:00:00', 'UTC'))",
    "path~a|b": "coalesce(match(path, '(?i-s)a|b'), 0)",
    "tps>20": "coalesce((CASE WHEN ((position(((' ' || flags) || ' '), ' burst ') > 0) OR "
    "(position(((' ' || flags) || ' '), ' hidden_tokens ') > 0)) THEN NULL ELSE tps_user END > 20), 0)",
    "bytes>9": "coalesce((CASE WHEN (decoder_version IS NULL) THEN (NULL + NULL) WHEN (clock = 'none' AND bytes = 0 "
    "AND status IS NOT NULL AND coalesce(framing, '') != 'none' ) THEN NULL ELSE bytes END > 9), 0)",
}


def result(rows: list[list[Any]]) -> QueryResult:
    names = [f"c{place}" for place in range(len(rows[0]) if rows else 0)]
    return QueryResult(rows, None, names, [get_from_name("String")] * len(names))


class Engine(Centre):
    """A server that keeps its queries, and finds nothing."""

    def __init__(self) -> None:
        super().__init__(Target(("http://127.0.0.1:1",)), Credentials())
        self.asked: list[str] = []
        self.found: list[list[Any]] = []

    def query(self, statement: str, database: str | None = None) -> QueryResult:
        self.asked.append(statement)
        return result([[0]] if statement.startswith(("SELECT count(*)", "SELECT sum(arraySum(")) else self.found)

    def sql(self, text: str) -> str:
        """Return the condition that a filter becomes."""
        with connected(self) as connection:
            queries.count(connection, conditions.condition(parse(text)))
        head = "SELECT count(*) FROM exchanges FINAL WHERE "
        statement = " ".join(self.asked[-1].split())
        assert statement.startswith(head)
        return statement.removeprefix(head)


def unquoted(text: str) -> str:
    """Return the text of a literal as ClickHouse reads it; raise where it ends before its end."""
    assert text[0] == text[-1] == "'"
    found, remainder = "", text[1:-1]
    while remainder:
        sign, remainder = remainder[0], remainder[1:]
        assert sign != "'", "the literal ends within the text"
        if sign == "\\":
            sign, remainder = {"0": "\0"}.get(remainder[0], remainder[0]), remainder[1:]
        found += sign
    return found


@each_case("text, expected", WHERE.items())
def test_a_filter_becomes_a_condition_of_the_engine(text: str, expected: str) -> None:
    assert Engine().sql(text) == expected


@given(st.text())
def test_whatever_is_in_a_text_it_stays_one(text: str) -> None:
    assert unquoted(literal(text)) == text


def outside(statement: str) -> str:
    """Return a statement without the contents of its literals."""
    signs, text, is_inside = iter(statement), "", False
    for sign in signs:
        if is_inside and sign == "\\":
            next(signs)
        elif sign == "'":
            is_inside = not is_inside
        elif not is_inside:
            text += sign
    assert not is_inside
    return text


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_hostile_labels_and_models_stay_literals(key: str, value: str) -> None:
    engine = Engine()
    with connected(engine) as connection:
        for pair in ((key, value), ("k", "v")):
            filter_ = Or((Labelled(((pair[0], (pair[1],)),)), Match("model", ((pair[1],),))))
            queries.count(connection, conditions.condition(filter_))
    hostile, plain = engine.asked
    assert outside(hostile) == outside(plain)


def test_what_only_a_tape_has_is_refused_by_name() -> None:
    engine = Engine()
    for text, missing in {"text:hello": "content", "error:rate": "error_message", "conversation:a": "conversations",
                          "cost>1": "costs", "prompt:x": "request_headers"}.items():  # fmt: skip
        with pytest.raises(NotAtCentre, match=missing):
            engine.sql(text)
    with connected(engine) as connection, pytest.raises(NotAtCentre, match="conversations"):
        figures.groups(connection, ("model", "conversation"))


def test_tools_that_need_chunks_are_refused_by_name() -> None:
    engine = Engine()
    with connected(engine) as connection:
        for tool in TOOLS:
            if tool in ("otel", "langfuse"):
                assert list(observed.measured(connection, tool)) == []
                assert " icl" not in engine.asked[-1]
            else:
                with pytest.raises(Unsupported, match=f"--as {tool} needs .* with 'wiretape pull'"):
                    list(observed.measured(connection, tool))


def test_an_exchange_is_found_by_its_ids_beginning() -> None:
    engine = Engine()
    rows = [["2026-03-01T12:00:00Z abcd1", "abcd1"], ["2026-03-01T12:00:01Z abcd2", "abcd2"]]
    with connected(engine) as connection:
        engine.found = rows[:1]
        assert queries.find(connection, "abcd") == "2026-03-01T12:00:00Z abcd1"
        engine.found = rows
        with pytest.raises(NotFound, match="fits several exchanges: abcd1, abcd2"):
            queries.find(connection, "abcd")


@each_case(
    ("reference", "expected"),
    [
        ("last", "ORDER BY concat(started_at, ' ', id) DESC"),
        ("@stall", "' stall ') > 0) ORDER BY concat(started_at, ' ', id) DESC"),
        ("@slow", "WHERE (first_output_silence_ns IS NOT NULL) ORDER BY first_output_silence_ns DESC"),
    ],
)
def test_an_exchange_is_found_by_what_happened_to_it(reference: str, expected: str) -> None:
    engine = Engine()
    engine.found = [["2026-03-01T12:00:00Z abcd1"]]
    with connected(engine) as connection:
        assert queries.find(connection, reference) == "2026-03-01T12:00:00Z abcd1"
    assert expected in engine.asked[-1]


def test_a_list_has_null_for_what_the_server_lacks() -> None:
    engine = Engine()
    with connected(engine) as connection:
        list(queries.exchanges(connection, (*FIELDS, "cost", "currency"), newest_first=True, limit=2))
    (statement,) = engine.asked
    assert 'NULL AS "_error_message"' in statement
    assert 'cache_write_1h_input_tokens) AS "_cost", tuple(outcome, flags, started_at,' in statement
    assert "ORDER BY concat(started_at, ' ', id) DESC" in statement
    assert statement.endswith("LIMIT 2")


def test_figures_take_one_statement_after_counting_gaps() -> None:
    engine = Engine()
    with connected(engine) as connection:
        figures.groups(connection, ("model",), None, Measuring(bounds=objective("latency<800ms")))
    counted, statement = engine.asked
    assert "sum(arraySum(gap_hist))" in counted
    assert "icl" not in counted
    assert "quantilesExactInclusiveArrayIf(0.5, 0.9, 0.95, 0.99)(icl, " in statement
    assert statement.count("SELECT") == statement.count("FINAL") == 1
    assert "GROUP BY coalesce(request_model, response_model)" in statement
    assert "(latency_ns / 1000000.0) >= 800.0" in statement


def test_costs_come_from_token_sums_at_equal_prices() -> None:
    engine, of = Engine(), ("m'", None, "http://h", "openai.chat")
    engine.found = [
        [*of, *[0] * 9, "2026-01-02T00:00:00Z", 3, 1000000, 100, 2000000, 0, 0],
        [*of, 0, 1, *[0] * 7, "2026-01-02T00:00:00Z", 5, 0, None, 1, 1, 0],
    ]
    entries = ({"model": "m*", "since": date(2026, 1, 2), "input": 1, "output": 0, "cached_input": 0.5},
               {"model": "m'", "input": 7, "output": 7})  # fmt: skip
    with connected(engine) as connection:
        spent, costs = figures.costs_by_group(connection, (), None, Prices(map(entry, entries)))
    assert (spent[()] / UNITS, costs[()]) == (2.0000015, 8)
    assert "started_at >= '2026-01-02'" in engine.asked[0]


class Small(Engine):
    """A server without memory to rank gaps in."""

    def query(self, statement: str, database: str | None = None) -> QueryResult:
        if "quantilesExactInclusiveArrayIf" in statement:
            raise MemoryExceeded("too little")
        return super().query(statement, database)


def test_gaps_are_estimated_when_ranking_exceeds_the_servers_memory() -> None:
    engine = Small()
    with connected(engine) as connection:
        assert figures.groups(connection, ("model",), most=9) == []
        assert "quantilesTDigestArrayIf" in engine.asked[-1]
        with pytest.raises(MemoryExceeded):
            figures.groups(connection, ("model",), None, Measuring(exact=True))


def test_named_exchanges_are_looked_for_in_their_seconds() -> None:
    engine, (first, last) = Engine(), ("2026-02-01T12:00:00.000000Z a", "2026-03-01T12:00:00.500000Z b")
    no = exchanges.c.no
    with connected(engine) as connection:
        for filter_ in (no == last, no.in_([last, first]), no > first, no != first):
            queries.count(connection, filter_)
    seconds = [
        re.findall(r"(?:started (>=|<=|IN) \(?|, )toDateTime\('([-0-9]+) ", statement) for statement in engine.asked
    ]
    february, march = "2026-02-01", "2026-03-01"
    assert seconds == [[(">=", march), ("<=", march)], [("IN", february), ("", march)], [(">=", february)], []]
