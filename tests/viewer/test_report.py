"""Reports: what people see, and what can never reach their terminal."""

import io
import re
from collections.abc import Iterable
from typing import Any

import pytest
from rich.cells import cell_len
from rich.text import Text
from sqlalchemy import Connection

from viewer import pages, queries, report, rows

from .conftest import HOSTILE, LIVE, ODD

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def plain(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def listing(connection: Connection, width: int | None = None) -> list[Text]:
    found = queries.exchanges(connection, report.LISTED, newest_first=True)
    return list(report.listing(found, width))


def detail(connection: Connection, id: str) -> rows.Row:
    return queries.detail(connection, queries.find(connection, id))


def on_terminal(lines: Iterable[Text], monkeypatch: pytest.MonkeyPatch) -> str:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    report.emit(lines)
    return terminal.getvalue()


def test_a_list_has_one_line_for_each_exchange(connection: Connection) -> None:
    header, *lines = listing(connection)
    assert header.plain.split()[:3] == ["id", "started", "(UTC)"]
    assert [line.plain[:8] for line in lines][:2] == [LIVE[:8], ODD[:8]]
    assert lines[-1].plain.split() == [
        "aaaa0000", "2026-03-01", "12:00:01.000", "gpt-x-mini", "api.example.com", "200", "complete", "110.0", "10.0",
        "50.0", "4", "180.0", "comments", "▃", "▄",
    ]  # fmt: skip


def test_unknown_is_a_dash_and_never_zero(connection: Connection) -> None:
    live = listing(connection)[1].plain
    assert live.split()[5:] == ["200", "open", "–", "–", "–", "–", "–"]
    assert " 0.0" not in live


def test_a_list_on_a_pipe_is_aligned_and_not_cut(connection: Connection) -> None:
    header, *lines = [line.plain for line in listing(connection)]
    assert any("…" not in line and "[bold]x[/bold]" in line for line in lines)
    ends = header.index("ttft ms") + len("ttft ms")
    ascii_lines = [line for line in lines if line.isascii() or "[bold]" not in line]
    assert all(line[ends - 1] not in " " and line[ends] == " " for line in ascii_lines)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_a_list_fits_the_terminal_and_keeps_what_matters_most(connection: Connection, width: int) -> None:
    lines = listing(connection, width)
    assert all(cell_len(line.plain) <= width for line in lines)
    assert lines[0].plain.startswith("id")
    assert ("outcome" in lines[0].plain) == (width >= 60)


def test_columns_give_way_in_order(connection: Connection) -> None:
    titles = ("upstream", "gaps", "icl p50 ms", "status", "total ms")
    headers = [listing(connection, width)[0].plain for width in range(200, 30, -1)]
    gone = [next(i for i, header in enumerate(headers) if title not in header) for title in titles]
    assert gone == sorted(gone)


def test_an_outcome_is_coloured_but_also_said(connection: Connection) -> None:
    styles = [str(line.spans[0].style) for line in listing(connection)[1:]]
    assert styles == ["cyan", "red", "red", "red", "red", "green", "green"]


def test_a_grid_shows_every_field_and_every_row() -> None:
    found = [{"seq": 0, "at_ms": 10.5, "data": "a\nb"}, {"seq": 10, "at_ms": None, "data": "c"}]
    assert plain(report.grid(("seq", "at_ms", "data"), found)) == ("seq  at_ms  data\n  0   10.5  a␊b\n 10      –  c")


def test_a_grid_of_nothing_is_its_header() -> None:
    assert plain(report.grid(("seq", "data"), [])) == "seq  data"


def test_a_wide_cell_is_cut_to_the_terminal() -> None:
    lines = list(report.grid(("seq", "data", "end"), [{"seq": 1, "data": "\u4f60" * 500, "end": 9}], 60))
    assert all(cell_len(line.plain) <= 60 for line in lines)
    assert lines[1].plain.endswith("9")
    assert "…" in lines[1].plain


def everything(connection: Connection) -> list[Iterable[Text]]:
    row = detail(connection, ODD)
    request, _ = queries.request(connection, queries.find(connection, ODD))
    hostile: dict[str, Any] = {"headers": [[HOSTILE, HOSTILE]], "path": HOSTILE, "method": HOSTILE, "body": HOSTILE}
    events = list(rows.events(queries.decoded(connection, queries.find(connection, ODD)).items))
    return [
        listing(connection),
        listing(connection, 100),
        pages.page(row | {"path": HOSTILE, "method": HOSTILE, "id": HOSTILE, "flags": [HOSTILE]}),
        pages.answer(row | {"reasoning": HOSTILE, "refusal": HOSTILE}),
        pages.request(request | hostile),
        report.grid(rows.EVENT_FIELDS, events),
        report.grid(("a",), [{"a": HOSTILE}]),
    ]


def test_no_recorded_control_reaches_a_terminal_or_a_pipe(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lines in everything(connection):
        kept = list(lines)
        shown = on_terminal(kept, monkeypatch)
        out = io.BytesIO()
        report.emit(kept, out)
        for text in (STYLE.sub("", shown), out.getvalue().decode()):
            found = {sign for sign in text if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0} - {"\n"}
            assert found == set()
            assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\u2028\u2029\U000e0000-\U000e007f]", text)


def test_markup_in_recorded_text_is_shown_as_it_is(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = STYLE.sub("", on_terminal(pages.answer(detail(connection, ODD)), monkeypatch))
    assert "[/ [bold]x[/bold]" in shown


def test_colours_are_left_out_when_asked_for(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[32m" in on_terminal(listing(connection), monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", on_terminal(listing(connection), monkeypatch))


def test_a_long_line_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal([Text("x" * 500)], monkeypatch) == "x" * 500 + "\n"


def test_a_drawing_keeps_room_beside_long_names() -> None:
    row = {"id": "a" * 16, "model": "m" * 200, "outcome": "complete", "ttft_ms": 10.0, "duration_ms": 100.0}
    title, line, legend = report.sparked([row], [None], 80)
    assert (title.cell_len, line.cell_len) <= (80, 80)
    assert line.plain.split() == ["aaaaaaaa", "m" * 15 + "…", "complete", "100.0", "·", "│"]
    assert report.in_ascii(legend).plain.isascii()


def test_a_hostile_name_beside_a_drawing_is_shown_as_signs() -> None:
    row = {"id": HOSTILE, "model": HOSTILE, "outcome": HOSTILE, "ttft_ms": None, "duration_ms": None}
    for line in report.sparked([row], [b"odd"], 60):
        assert not {sign for sign in line.plain if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0}
