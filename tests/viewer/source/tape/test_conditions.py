"""Filters in SQL: they say what Python says, on random tapes; and the tape's values never become SQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.support.cases import each_case
from tests.support.random_filters import GAPS, LEAVES, TREES, Stored, cases, ended, fill
from tests.support.random_filters import memory as tape_in_memory
from tests.support.reference_filter import matches, needed
from tests.support.sample_tape import COMPLETE, FAILED, LIMITED, LIVE, ODD, TOOLS, TRUNCATED
from wiretape.recorder.errors import TapeError
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import select
from wiretape.viewer.query import values
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.query.values import TooSlow
from wiretape.viewer.source.tape import conditions, queries
from wiretape.viewer.source.tape.columns import JOINED

EVERY = [COMPLETE, TOOLS, TRUNCATED, LIMITED, FAILED, ODD, LIVE]


@pytest.fixture(scope="module")
def memory() -> Iterator[Connection]:
    with tape_in_memory() as connection:
        yield connection


def agree(memory: Connection, filter: Filter, tape: Stored) -> None:
    fill(memory, tape)
    fields = ("id", *needed(filter))
    in_python = [row["id"] for row in queries.exchanges(memory, fields) if matches(filter, row)]
    in_sql = [row["id"] for row in queries.exchanges(memory, ("id",), where=conditions.condition(filter))]
    assert in_sql == in_python


@given(case=cases(GAPS))
def test_gaps_are_the_same_in_sql_and_in_python(memory: Connection, case: tuple[Filter, Stored]) -> None:
    agree(memory, *case)


@given(case=cases(LEAVES))
def test_a_term_means_the_same_in_sql_and_python(memory: Connection, case: tuple[Filter, Stored]) -> None:
    agree(memory, *case)


@given(case=cases(TREES))
def test_a_filter_means_the_same_in_sql_and_python(memory: Connection, case: tuple[Filter, Stored]) -> None:
    agree(memory, *case)


@each_case(
    ("text", "facts"),
    [
        ("flag:*", {"flags": ""}),
        ("prompt:b", {"request_body": b"a\0b"}),
        ("prompt:a", {"request_body": b"\xff\xfeA"}),
        ("prompt~a", {"request_body": b"\xff\xfeA"}),
        ("text:é", {"content": "É"}),
        ("text:a_", {"content": "ab"}),
        ("error!=a", {"error_code": None, "error_message": "b"}),
        ('text:"f("', {"tool_calls": [{"index": 0, "name": "f", "arguments": '{"é":"\\\\"}'}]}),
        ('text~"é.*b"', {"tool_calls": [{"name": "f", "arguments": '{"é":1}'}, {"name": None, "arguments": "b"}]}),
        ("text!=name", {"tool_calls": [{"index": 0, "name": "f", "arguments": ""}]}),
        ("text!=name", {"tool_calls": []}),
    ],
)
def test_the_hard_cases_are_the_same_too(memory: Connection, text: str, facts: dict[str, Any]) -> None:
    agree(memory, parse(text), ended(**facts))


def test_an_endless_expression_is_its_authors_slip(memory: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SEARCH_SECONDS", 0.02)
    fill(memory, ended(content="a" * 40 + "b"))
    assert list(queries.exchanges(memory, ("id",), where=conditions.condition(parse('text~"(a+)+$"')))) == []
    fill(memory, ended(content="a" * 60_000 + "b"))
    with pytest.raises(TooSlow, match="takes too long"), queries.explained(Path("tape.db")):
        list(queries.exchanges(memory, ("id",), where=conditions.condition(parse('text~"(a+)+$"'))))


@pytest.mark.damages
@pytest.mark.parametrize("cell", ['["{"]', '["f"]', "[1, null]", '{"name": "f"}', '"f"', "{", b"\xff"])
def test_damaged_tool_calls_have_no_text(memory: Connection, cell: str | bytes) -> None:
    fill(memory, ended(content="ab"))
    memory.driver.execute("UPDATE measures SET tool_calls = ?", (cell,))
    for text, is_match in (("text:ab", True), ('text:"f("', False)):
        with memory.begin():
            assert bool(memory.fetch(select(conditions.condition(parse(text))).select_from(JOINED))[0][0]) is is_match


def test_only_a_search_that_failed_is_too_slow(memory: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "QUERY_SECONDS", -1)
    fill(memory, ended(content="ab"))
    with pytest.raises(TooSlow):
        list(queries.exchanges(memory, ("id",), where=conditions.condition(parse("text~a"))))
    memory.driver.create_function("gap_percentile", 2, lambda *_: 1 // 0)
    with pytest.raises(TapeError, match="cannot be used"), queries.explained(Path("tape.db")):
        list(queries.exchanges(memory, ("id",), where=conditions.condition(parse("gap.p50>1s"))))


def test_terms_before_an_expression_choose_what_it_searches(memory: Connection) -> None:
    fill(memory, ended(content="a" * 60_000 + "b", started_at="2026-03-01T12:00:00.000000Z"))
    filter_ = conditions.condition(parse('since:2026-03-02 text~"(a+)+$"'))
    assert list(queries.exchanges(memory, ("id",), where=filter_)) == []


def test_values_are_bound_parameters_and_never_sql() -> None:
    text = 'model:"\'; DROP TABLE reads" label:k="\'" word ttft>8765us error~"x\'y" at>2026-01-01'
    compiled, _ = select(conditions.condition(parse(text))).compiled
    assert not any(part in compiled for part in ("DROP", "x'y", "8765", "word", "2026", "'k'"))


@each_case(
    ("text", "ids"),
    [
        ("model:gpt-x-mini", [COMPLETE, TOOLS, TRUNCATED, FAILED]),
        ("model:gpt-*", [COMPLETE, TOOLS, TRUNCATED, FAILED, LIVE]),
        ("model:GPT-X", [LIVE]),
        ("id:aaaa", [COMPLETE, TOOLS]),
        ("ttft>100ms", [COMPLETE, TRUNCATED]),
        ("-ttft<=100ms", [COMPLETE, TRUNCATED, LIMITED, LIVE]),
        ("is:cut", [TRUNCATED]),
        ("is:live", [LIVE]),
        ("is:err", [TRUNCATED, LIMITED, FAILED, ODD]),
        ("flag:stall", [TOOLS]),
        ("flag!=no_usage is:ok", [COMPLETE]),
        ("stall>2s", [TOOLS]),
        ("gap:2s..3s", [TOOLS]),
        ("gap:2.5s..2.6s", []),
        ("gap>=2s", [TOOLS]),
        ("gap!=2s..", [COMPLETE, TRUNCATED, ODD]),
        ("gap.p50>1s", [TOOLS]),
        ("gap.p99<=1s", [COMPLETE, TRUNCATED, ODD]),
        ("status:400..499", [LIMITED]),
        ("label:run=a7", [COMPLETE]),
        ("label:run", [COMPLETE]),
        ("label:run=A*", [COMPLETE]),
        ("label!=run=b8", [COMPLETE]),
        ("has:tool", [TOOLS, ODD]),
        ("has:usage", [COMPLETE]),
        ("has:reasoning,usage", [COMPLETE, TOOLS]),
        ("text:world", [COMPLETE]),
        ("text:think", [TOOLS]),
        ("text:overloaded", [FAILED]),
        ('text:"slow down"', [LIMITED]),
        ('text:"get_weather("', [TOOLS]),
        ("text:oslo", [TOOLS]),
        ('text~"city.*oslo"', [TOOLS]),
        ("text:arguments", []),
        ("has:ttst", [COMPLETE, TOOLS, TRUNCATED, ODD]),
        ("-has:ttft", [LIMITED, LIVE]),
        ("has:tokens", [COMPLETE]),
        ("has:prompt -has:model", [LIMITED]),
        ("status:4xx", [LIMITED]),
        ("status:5XX", []),
        ("is:failed", [TRUNCATED, LIMITED, FAILED, ODD]),
        ("until:now id:b", [TRUNCATED]),
        ("since:now", []),
        ('text:"hello, w"', [COMPLETE]),
        ('prompt:"not utf"', [LIMITED]),
        ('prompt~"not utf"', [LIMITED]),
        ("error:overloaded", [FAILED]),
        ("error:rate_limit", [LIMITED]),
        ("path:*?api-version=1", [FAILED]),
        ("path:/v1/chat/completions", EVERY),
        ("host:api.example.com tok.out:4", [COMPLETE]),
        ("host:example.com", []),
        ("host:*.example.com id:b", [TRUNCATED]),
        ("mini a7", [COMPLETE]),
        ("b0000", [TRUNCATED]),
        ("https", []),
        ('text~"^hel+o"', [COMPLETE, TRUNCATED]),
        ("model!~mini", [ODD, LIVE]),
        ("since:2026-03-01T12:00:06Z", [ODD, LIVE]),
        ("at:2026-03-01T12:00:06Z", [ODD]),
        ("until:2026-03-01T12:00:02Z", [COMPLETE]),
        ("reads:2 is:live", [LIVE]),
        ("-(is:ok or is:err)", [LIVE]),
    ],
)
def test_a_filter_selects_what_it_says(connection: Connection, text: str, ids: list[str]) -> None:
    filter_ = conditions.condition(parse(text))
    assert [row["id"] for row in queries.exchanges(connection, ("id",), where=filter_)] == ids


def test_the_largest_parsable_filter_can_be_evaluated(connection: Connection) -> None:
    words = " or ".join(f"text:zq*{n}" for n in range(100))
    nested = "-(" * 18 + "ttft>100s" + ")" * 18
    for text in (words, nested, "host:" + ",".join(map(str, range(100)))):
        assert list(queries.exchanges(connection, where=conditions.condition(parse(text)))) == []
