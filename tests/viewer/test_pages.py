"""Pages about one exchange: what they say of it."""

from collections.abc import Iterable

from rich.text import Text
from sqlalchemy import Connection

from viewer import pages, queries, rows

from .conftest import COMPLETE, TOOLS


def plain(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def detail(connection: Connection, id: str) -> rows.Row:
    return queries.detail(connection, queries.find(connection, id))


def test_a_page_says_what_happened(connection: Connection) -> None:
    text = plain(pages.page(detail(connection, COMPLETE)))
    for said in (
        "POST https://api.example.com/v1/chat/completions",
        "gpt-x-mini (asked for gpt-x), answer r1",
        "complete: [DONE], or",
        "ttft 110.0",
        "icl p50 10.0",
        "tpot 20.0 ms, 50.0 tokens a second",
        "prompt 5, completion 4, reasoning –, total 9",
        "run=a7",
        "12 characters: Hello, world",
    ):
        assert said in text


def test_a_page_names_errors_flags_and_tool_calls(connection: Connection) -> None:
    failed = plain(pages.page(detail(connection, "d000")))
    assert "server_overloaded: overloaded" in failed
    assert "no_done: the stream has no [DONE]" in failed
    assert 'get_weather({"city":"Oslo"})' in plain(pages.page(detail(connection, TOOLS)))


def test_an_answer_shows_reasoning_before_content_and_dimmed(connection: Connection) -> None:
    row = detail(connection, TOOLS) | {"content": "Cold.", "refusal": "No."}
    lines = list(pages.answer(row))
    assert [line.plain for line in lines] == [
        "reasoning:", "Think. ", "Cold.", "refusal:", "No.", 'tool call: get_weather({"city":"Oslo"})',
    ]  # fmt: skip
    assert str(lines[1].style) == "dim"


def test_an_answer_keeps_its_lines_and_expands_its_tabs(connection: Connection) -> None:
    row = detail(connection, COMPLETE) | {"content": "a\n\tb"}
    assert plain(pages.answer(row)) == "a\n    b"


def test_a_request_shows_redacted_headers_and_says_when_its_body_is_not_whole(connection: Connection) -> None:
    row, _ = queries.request(connection, queries.find(connection, "c000"))
    text = plain(pages.request(row))
    assert "authorization: REDACTED" in text
    assert "12 bytes, not all of them shown" in text
