"""Reports: their lines, and texts made safe for terminals."""

import io
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from rich.cells import cell_len
from rich.text import Text

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE, LIVE, ODD
from tests.support.zones import local_time
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.commands import output
from wiretape.viewer.exchange import events as event_tables
from wiretape.viewer.exchange import facts, pages, report, story
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import EVENT_FIELDS
from wiretape.viewer.report import tables
from wiretape.viewer.source.tape import exchange as tape
from wiretape.viewer.source.tape import queries

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def plain(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def listing(connection: Connection, width: int | None = None) -> list[Text]:
    exchanges = list(queries.exchanges(connection, tables.needed(tables.LISTED), newest_first=True))
    return tables.listing(exchanges, width).lines


def detail(connection: Connection, id: str) -> rows.DetailRow:
    return queries.detail(connection, queries.find(connection, id))


def on_terminal(lines: Iterable[Text], monkeypatch: pytest.MonkeyPatch) -> str:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    output.show(lines)
    return terminal.getvalue()


def test_a_list_has_one_line_for_each_exchange(connection: Connection) -> None:
    header, *lines = listing(connection)
    assert re.split("  +", header.plain.strip())[:4] == ["id", "started UTC", "model", "upstream"]
    assert [line.plain[:10] for line in lines][:2] == [f"● {LIVE[:8]}", f"! {ODD[:8]}"]
    assert lines[-1].plain.split() == [
        "✓", "aaaa0000", "2026-03-01", "12:00:01.000", "gpt-x-mini", "api.example.com", "200", "complete", "110.0",
        "50.0", "10.0", "180.0", "▃", "▄", "4", "comments", "complete",
    ]  # fmt: skip


def test_unknown_is_a_dash_and_never_zero(connection: Connection) -> None:
    live = listing(connection)[1].plain
    assert live.split()[5:] == ["api.example.com", "200", "open", "–", "–", "–", "–", "–", "running"]
    assert " 0.0" not in live


def test_a_piped_list_is_aligned_and_uncut(connection: Connection) -> None:
    header, *lines = [line.plain for line in listing(connection)]
    assert any("…" not in line and "[bold]x[/bold]" in line for line in lines)
    ends = header.index("ttft ms") + len("ttft ms")
    ascii_lines = [line for line in lines if line.isascii() or "[bold]" not in line]
    assert all(line[ends - 1] not in " " and line[ends] == " " for line in ascii_lines)


@each_case("width", [20, 40, 60, 80, 100, 120, 200])
def test_a_list_fits_and_keeps_the_essential(connection: Connection, width: int) -> None:
    lines = listing(connection, width)
    assert all(cell_len(line.plain) <= width for line in lines)
    assert lines[0].plain.startswith("  id")
    assert ("what happened" in lines[0].plain) == (width >= 40)
    assert ("ttft ms" in lines[0].plain) >= (width >= 60)


def names_and_hidden(connection: Connection, width: int) -> tuple[str, tuple[str, ...]]:
    exchanges = list(queries.exchanges(connection, tables.needed(tables.LISTED), newest_first=True))
    table = tables.listing(exchanges, width)
    return table.lines[0].plain, table.hidden


def test_an_80_cell_list_names_its_hidden_headings(connection: Connection) -> None:
    header, hidden = names_and_hidden(connection, 80)
    assert re.split("  +", header.strip()) == ["id", "model", "ttft ms", "max gap ms", "tokens", "what happened"]
    assert {"started UTC", "upstream", "gaps", "icl p50 ms"} <= set(hidden)
    names_hidden = {tables.NAMED.get(title.removesuffix(" UTC"), title) for title in hidden}
    assert names_hidden <= set(tables.LISTED)
    assert names_and_hidden(connection, 400)[1] == ()


def test_narrow_lists_show_a_starts_year_only_if_ambiguous(
    connection: Connection,
) -> None:
    names = ("id", "started_at", "model", "ttft_ms")
    exchanges = list(queries.exchanges(connection, tables.needed(names), newest_first=True))
    exchanges[0]["started_at"] = "2025-03-02T00:00:00.000000Z"
    text_lines = [line.plain for line in tables.listing(exchanges, 60, names, date(2026, 3, 2)).lines]
    assert ("  2025-03-02 00:00:00  " in text_lines[1], "  03-01 12:00:01  " in text_lines[-1]) == (True, True)


def test_a_start_is_local_with_offsets_where_ambiguous(connection: Connection) -> None:
    names = ("id", "started_at")
    exchanges = list(queries.exchanges(connection, tables.needed(names)))[:3]
    with local_time("Asia/Kolkata"):
        text_lines = [line.plain.split("  ") for line in tables.listing(exchanges, None, names).lines]
    assert (text_lines[0][-1].strip(), text_lines[1][-1]) == ("started +05:30", "2026-03-01 17:30:01.000")
    times = ("2026-11-01T05:30:00.000000Z", "2026-11-01T06:30:00.000000Z", "2026-11-01T07:30:00.000000Z")
    for row, time in zip(exchanges, times, strict=True):
        row["started_at"] = time
    with local_time("America/New_York"):
        header, *lines = (
            line.plain.partition("  ")[2].strip() for line in tables.listing(exchanges, None, names).lines
        )
    assert header.endswith("started local")
    ends = (" 01:30:00.000 -04:00", " 01:30:00.000 -05:00", " 02:30:00.000")
    assert [line.endswith(end) for line, end in zip(lines, ends, strict=True)] == [True] * 3


def test_a_list_has_requested_columns_in_order(connection: Connection) -> None:
    names = ("ttft_ms", "outcome_detail", "outcome", "id", "bytes")
    exchanges = list(queries.exchanges(connection, tables.needed(names)))
    header, first_line, *_ = tables.listing(exchanges, None, names).lines
    assert header.plain.split() == ["ttft", "ms", "outcome_detail", "outcome", "id", "bytes"]
    assert first_line.plain.split() == ["110.0", "–", "complete", "aaaa0000", "1,141"]
    assert tables.listing(exchanges, 30, names).hidden == ("outcome", "id", "bytes")


def test_columns_give_way_in_order(connection: Connection) -> None:
    titles = ("upstream", "gaps", "icl p50 ms", "status", "duration ms", "tokens", "ttft ms")
    headers = [listing(connection, width)[0].plain for width in range(200, 30, -1)]
    dropped_at = [next(i for i, header in enumerate(headers) if title not in header) for title in titles]
    assert dropped_at == sorted(dropped_at)


def stalled(**fields: Any) -> str:
    row = {"outcome": "complete", "outcome_detail": None, "error_code": None, "status": 200}
    silences = {"max_output_silence_ms": 2400.7, "last_silence_ms": 10.0}
    end = {"silent_end_by": None, "silent_end_is_quiet": None}
    return tables.happened({**row, **silences, **end, "flags": ["burst", "stall"], **fields})


def test_a_list_says_how_long_answers_stalled_and_why() -> None:
    assert stalled() == "stall 2.4 s"
    assert stalled(stalled="2.4 s by upstream") == "stall 2.4 s by upstream"
    assert stalled(flags=["burst"]) == "buffered"
    assert stalled(outcome="truncated", outcome_detail="eof") == "cut by upstream"
    assert stalled(max_output_silence_ms=None) == "stall"


def test_a_list_says_how_long_broken_streams_were_silent() -> None:
    silent = {"last_silence_ms": 5040.0, "silent_end_by": "upstream", "silent_end_is_quiet": False}
    given_up = stalled(outcome="client_closed", **silent)
    assert given_up == "gave up after 5.0 s without output by upstream"
    assert stalled(outcome="truncated", outcome_detail="eof", **silent) == "cut by upstream after 5.0 s without output"
    quiet = silent | {"silent_end_is_quiet": True}
    assert stalled(outcome="truncated", outcome_detail="reset", **quiet) == "cut by upstream after 5.0 s of silence"
    assert stalled(outcome="timeout", outcome_detail="idle", **quiet) == "timed out after 5.0 s of silence by upstream"
    assert stalled(outcome="interrupted", **quiet) == "recorder stopped after 5.0 s of silence by upstream"
    assert stalled(outcome="client_closed", **quiet | {"silent_end_by": "client"}) == "cancelled by client"


@pytest.mark.parametrize("outcome", ["client_closed", "timeout", "truncated", "complete"])
def test_an_80_cell_list_names_a_stalls_party(connection: Connection, outcome: str) -> None:
    exchanges = list(queries.exchanges(connection, tables.needed(tables.LISTED)))[:1]
    exchanges[0] |= {
        "model": "demo-truncated",
        "outcome": outcome,
        "flags": ["stall"],
        "stalled": "304.0 s by upstream",
    }
    exchanges[0] |= {"last_silence_ms": 304_000.0, "ttft_ms": 1352.7, "max_gap_ms": 2401.1}
    exchanges[0] |= {"silent_end_by": None if outcome == "complete" else "upstream", "silent_end_is_quiet": False}
    header, line = (line.plain for line in tables.listing(exchanges, 80).lines)
    assert "upstream" in line[header.index("what happened") :]


def test_an_outcome_is_coloured_but_also_said(connection: Connection) -> None:
    styles = [str(line.spans[0].style) for line in listing(connection)[1:]]
    assert styles == ["cyan", "red", "red", "red", "red", "green", "green"]


def everything(connection: Connection) -> list[Iterable[Text]]:
    row = detail(connection, ODD)
    known = tape.known(connection, queries.find(connection, ODD))
    exchange = known.request.exchange
    headers = exchange.headers._replace(request=[(HOSTILE, HOSTILE)])
    exchange = replace(exchange, headers=headers, path=HOSTILE, method=HOSTILE)
    request = replace(known.request, body=HOSTILE.encode("utf-8", "replace"), exchange=exchange)
    altered = replace(known, request=request)
    decoded = queries.observed(connection, queries.find(connection, ODD))[2]
    transcript = Transcript(decoded)
    events = list(event_tables.table(transcript, decoded))
    return [
        listing(connection),
        listing(connection, 100),
        report.page(replace(row, path=HOSTILE, method=HOSTILE, id=HOSTILE, flags=[HOSTILE]), []),
        report.answer(replace(row, reasoning=HOSTILE, refusal=HOSTILE)),
        report.rendered(pages.request(altered)),
        tables.grid(EVENT_FIELDS, events).lines,
        map(Text, event_tables.lines(transcript, Times())),
        report.headers("response", [[HOSTILE, HOSTILE]]),
        story.lines(
            replace(row, path=HOSTILE, method=HOSTILE, id=HOSTILE, flags=[HOSTILE], labels={HOSTILE: HOSTILE}),
            Attribution(*queries.observed(connection, queries.find(connection, ODD))),
            [],
            [[f"{HOSTILE}-request-id", HOSTILE]],
        ),
        report.page(row, [], [[f"{HOSTILE}-request-id", HOSTILE]]),
        report.body(HOSTILE.encode()),
        report.body(HOSTILE.encode() + b"\xff\x00\x1b[2J"),
        [Text(facts.no_text(replace(row, tool_calls=None, content=None), report.HINT))],
        tables.grid(("a",), [{"a": HOSTILE}]).lines,
    ]


def test_no_recorded_control_reaches_a_terminal_or_a_pipe(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lines in everything(connection):
        line_list = list(lines)
        shown = on_terminal(line_list, monkeypatch)
        for text in (STYLE.sub("", shown), plain(line_list)):
            controls = {sign for sign in text if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0} - {"\n"}
            assert controls == set()
            assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\u2028\u2029\U000e0000-\U000e007f]", text)


def test_markup_in_recorded_text_is_shown_as_it_is(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = STYLE.sub("", on_terminal(report.answer(detail(connection, ODD)), monkeypatch))
    assert "[/ [bold]x[/bold]" in shown


def test_colours_are_left_out_when_asked_for(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[32m" in on_terminal(listing(connection), monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", on_terminal(listing(connection), monkeypatch))


def test_a_long_line_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal([Text("x" * 500)], monkeypatch) == "x" * 500 + "\n"


def test_a_drawing_keeps_room_beside_long_names() -> None:
    row = {"id": "a" * 16, "model": "m" * 200, "outcome": "complete", "ttft_ms": 10.0, "duration_ms": 100.0}
    title, line, legend = tables.sparked([row], [None], 80).lines
    assert (title.cell_len, line.cell_len) <= (80, 80)
    assert line.plain.split() == ["aaaaaaaa", "m" * 15 + "…", "complete", "100.0", "·", "│"]
    assert tables.in_ascii(legend).plain.isascii()


def test_a_hostile_name_beside_a_drawing_is_escaped() -> None:
    row = {"id": HOSTILE, "model": HOSTILE, "outcome": HOSTILE, "ttft_ms": None, "duration_ms": None}
    for line in tables.sparked([row], [b"odd"], 60).lines:
        assert not {sign for sign in line.plain if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0}
