"""The sessions on the page of a run: their figures are those of the list, their turns those of a session's page."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import agent_tape, page
from tests.support.commands import run
from tests.support.page import Read, undelta
from tests.support.session_tape import FIRST, KEY, OTHER, session_tape
from wiretape.viewer.record.rows import ConversationRow
from wiretape.viewer.sessions.account import PARTS, Account, Span, by_turn
from wiretape.viewer.source.base import Columns
from wiretape.viewer.wings.page import sessions
from wiretape.viewer.wings.page.sessions import CONTEXT, PageSession, PageSessions

ASKED = b"Fix it."


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session_tape(tmp_path_factory.mktemp("sessions") / "sessions.db")


@pytest.fixture(scope="module")
def read_page(tape: Path, tmp_path_factory: pytest.TempPathFactory) -> Read:
    return exported(tape, tmp_path_factory.mktemp("page"))


def exported(tape: Path, directory: Path, *options: str) -> Read:
    file = directory / "run.html"
    run(tape, "export", "--html", "-o", str(file), *options)
    return page.read(file.read_bytes())


def rows_of(tape: Path, *command: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run(tape, *command, "--format", "json").stdout)
    return rows


def in_us(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1000)


def test_a_session_has_the_figures_of_the_list(tape: Path, read_page: Read) -> None:
    (session,) = read_page.data["sessions"]["each"]
    (row,) = (row for row in rows_of(tape, "ls", "--by", "conversation") if row["conversation"] == KEY)
    assert session["key"] == KEY
    for name in ("wall", *PARTS, "parallel", "ttft_p50"):
        assert session[f"{name}_us"] == in_us(row[f"{name}_ms"]), name
    for name in ("exchanges", "failed", "open", "turns", "exchanges_max", "clock_step", "input_tokens",
                 "cache_read_input_tokens", "output_tokens"):  # fmt: skip
        assert session[name] == row[name], name
    assert session["said"].startswith("8,400 ms in 2 turns: 36 % stalled")


def test_a_lane_has_its_parts_in_order(read_page: Read) -> None:
    ((session,), names) = read_page.data["sessions"]["each"], list(read_page.data["sessions"]["parts"])
    lane = [(names[code], us // 1000) for code, us in zip(session["lane"]["part"], session["lane"]["us"], strict=True)]
    assert lane == [
        ("waiting", 400), ("streaming", 1000), ("closing", 50), ("tools", 2000), ("failed", 50), ("backoff", 1000),
        ("waiting", 500), ("streaming", 200), ("stalled", 3000), ("streaming", 200),
    ]  # fmt: skip
    assert sum(session["lane"]["us"]) == session["wall_us"]


def test_turns_are_those_of_the_page_of_a_session(tape: Path, read_page: Read) -> None:
    ((session,), names) = read_page.data["sessions"]["each"], list(read_page.data["sessions"]["parts"])
    turns, rows = session["by_turn"], rows_of(tape, "show", f"s:{KEY}", "--part", "time")
    page_rows = read_page.data["rows"]
    assert [page_rows["id"][row] for row in undelta(turns["row"])] == [row["id"] for row in rows]
    assert undelta(turns["start_us"]) == [in_us(row["start_ms"]) for row in rows]
    for name in ("ttft", "waiting", "streaming", "stalled", "closing", "failed"):
        assert turns[f"{name}_us"] == [in_us(row[f"{name}_ms"]) for row in rows], name
    waits = [names[code] for code in turns["before"]]
    assert turns["before_us"] == [in_us(row[f"{name}_ms"]) for name, row in zip(waits, rows, strict=True)]
    assert waits[1:] == ["tools", "backoff"]
    assert turns["is_turn"] == [1, 0, 1]
    assert page_rows["input_tokens"][undelta(turns["row"])[2]] == rows[2]["input_tokens"] == 900


def test_each_turn_has_its_cache_verdict_and_bytes(tape: Path, read_page: Read) -> None:
    (session,), page_rows = read_page.data["sessions"]["each"], read_page.data["rows"]
    names = ("cache_verdict", "cache_broken_at")
    rows = {row["id"]: row for row in rows_of(tape, "ls", "--columns", ",".join(("id", *names, *CONTEXT)))}
    turns = [(at, rows[page_rows["id"][at]]) for at in undelta(session["by_turn"]["row"])]
    for name in names:
        values, places = page_rows[name]["values"], page_rows[name]["places"]
        values_shown = [None if places[at] is None else values[places[at]] for at, _ in turns]
        assert values_shown == [row[name] for _, row in turns]
    assert session["verdicts"] == Counter(row["cache_verdict"] for _, row in turns if row["cache_verdict"])
    assert sum(session["verdicts"].values()) == 2
    assert session["by_turn"]["context"] == [[row[name] for _, row in turns] for name in CONTEXT]
    assert [f"context_{name}_bytes" for name in read_page.data["sessions"]["sources"]] == list(CONTEXT)
    assert all(sum(sizes) > 50 for sizes in zip(*session["by_turn"]["context"], strict=True))


def test_a_single_exchange_is_no_session_of_pages(read_page: Read) -> None:
    assert read_page.data["sessions"]["total"] == 1
    names = read_page.data["rows"]["conversation"]
    assert OTHER in names["values"]


def test_figures_are_of_the_exchanges_that_are_selected(tape: Path, tmp_path: Path) -> None:
    (session,) = exported(tape, tmp_path, "-f", f"id:{FIRST} or status:429").data["sessions"]["each"]
    assert (session["exchanges"], session["turns"], session["wall_us"]) == (2, 1, 3_500_000)
    none = exported(tape, tmp_path, "-f", f"id:{FIRST} or conversation:{OTHER}").data["sessions"]
    assert (none["total"], none["each"]) == (0, [])


def test_a_sessions_beginning_needs_text_in_the_page(tape: Path, read_page: Read, tmp_path: Path) -> None:
    assert not any(ASKED in block for block in read_page.blocks.values())
    assert "the prompts that sessions began with (--with-text)" in dict(read_page.data["banner"])["Left out:"]
    with_text = exported(tape, tmp_path, "--with-text").data
    assert with_text["sessions"]["each"][0]["asked"] == ASKED.decode()
    assert (
        "the prompts that sessions began with, in which what looks like a key is masked"
        in dict(with_text["banner"])["Included:"]
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of rows alone, with more sessions than a page has."""
    tape = tmp_path_factory.mktemp("many") / "many.db"
    agent_tape.write(tape, sessions.MOST + 3, 2)
    return tape


def test_more_sessions_than_a_page_has_are_counted(many: Path, tmp_path: Path) -> None:
    data = exported(many, tmp_path).data
    assert (len(data["sessions"]["each"]), data["sessions"]["total"]) == (sessions.MOST, sessions.MOST + 3)
    assert (
        f"3 of {sessions.MOST + 3} sessions: the newest {sessions.MOST} are here" in dict(data["banner"])["Left out:"]
    )


def some_session(key: str, size: int) -> PageSession:
    row = ConversationRow(key, key, "2026-03-01T12:00:00.000000Z", "2026-03-01T12:00:00.000000Z", size, 0, 0, [],
                          None, None, None, None, None, None)  # fmt: skip
    return PageSession(row, Account(), (), list(by_turn([Span(no, 10 * no, 10 * no + 5) for no in range(size)])), {})


def test_turns_beyond_their_limit_are_counted_with_figures() -> None:
    page_sessions = PageSessions(
        [some_session("a", 5), some_session("b", sessions.MOST_TURNS - 4), some_session("c", 2)], 3
    )
    data = sessions.data(page_sessions, Columns([], {}, []), text=False)
    assert [session["by_turn"] is None for session in data["each"]] == [False, True, True]
    assert [session["lane"] is None for session in data["each"]] == [False, True, True]
    assert list(sessions.left_out(page_sessions)) == [
        "the lanes and turns of 2 sessions: those of the newest 1 are here"
    ]


def test_a_hostile_key_is_cut() -> None:
    page_sessions = PageSessions([replace(some_session("a", 2), row=some_session("k" * 10_000, 2).row)], 1)
    (session,) = sessions.data(page_sessions, Columns([], {}, []), text=False)["each"]
    assert len(session["key"]) == 500
