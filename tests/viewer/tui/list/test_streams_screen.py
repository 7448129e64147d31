"""The list of exchanges: what it shows, what its keys do, and what it says where it has nothing to show."""

import contextlib
import gc
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key, MouseScrollDown
from textual.pilot import Pilot
from textual.widgets import SelectionList

from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, HOSTILE, LIVE, TOOLS, TOOLS_READS, event
from tests.support.screens import SIZES, Watch, assert_golden, journey, point, resized, seen, shows, wait_for
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.tape import file as tapefile
from wiretape.recorder.tape import retention
from wiretape.recorder.tape.schema import APPLICATION_ID
from wiretape.viewer.listing.layout import COLUMNS
from wiretape.viewer.query import values
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.place import TapePlace
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.dialogs.help import entries
from wiretape.viewer.tui.list import filter
from wiretape.viewer.tui.list import offers as list_offers
from wiretape.viewer.tui.list.filter import FilterInput
from wiretape.viewer.tui.list.rows import StreamRows
from wiretape.viewer.tui.list.screen import StreamsScreen


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


SLOW, SLOWER = ([(at + late * (at > 120), data) for at, data in COMPLETE_READS] for late in (3000, 9000))


@contextlib.asynccontextmanager
async def viewed(tape: Path, size: tuple[int, int] = (120, 40), **more: Any) -> AsyncIterator[Pilot[Any]]:
    async with ViewerApp(tape, Watch().clock, **more).run_test(size=size, notifications=True) as pilot:
        yield pilot


def rows(pilot: Pilot[Any]) -> StreamRows:
    (screen,) = [screen for screen in pilot.app.screen_stack if isinstance(screen, StreamsScreen)]
    return screen.query_one(StreamRows)


def cursor(pilot: Pilot[Any]) -> str:
    """Give the line of the cursor."""
    return next((line for line in seen(pilot.app).splitlines() if line.startswith("▌")), "")


def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys as a terminal sends them; what they bring about is to be waited for."""
    for key in keys:
        pilot.app.post_message(Key(key, key if len(key) == 1 else None))


async def type_filter(pilot: Pilot[Any], text: str) -> FilterInput:
    """Go into the filter, put a text in its place, and give the box."""
    press(pilot, "slash")
    box = pilot.app.screen.query_one(FilterInput)
    await wait_for(pilot, lambda: box.has_focus)
    box.clear()
    press(pilot, *text)
    return box


async def at_cursor(pilot: Pilot[Any], id: str) -> None:
    await wait_for(pilot, lambda: id[:8] in cursor(pilot))


def test_the_list_looks_like_this_and_a_wide_terminal_has_the_preview_at_its_right(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, LIVE[:8], "Hel")
            press(pilot, "j", "j")
            await at_cursor(pilot, "d000")
            press(pilot, "space")
            await at_cursor(pilot, "c000")
            await shows(pilot, "1 marked", "slow down")
            for size in SIZES:
                assert_golden(f"streams-{size[0]}x{size[1]}", await resized(pilot, size))
            await pilot.resize_terminal(200, 24)
            press(pilot, "G")
            text = await shows(pilot, "Hello, world")
            assert any(COMPLETE[:8] in line and "│" in line for line in text.splitlines())

    journey(steps())


def test_the_cursor_stands_out_and_signs_have_the_colours_of_their_tones(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await at_cursor(pilot, LIVE)

            def styles(line: int) -> dict[str, tuple[Any, Any]]:
                segments = [one for one in rows(pilot).render_line(line) if one.style is not None]
                return {one.text.strip(): (one.style.color, one.style.bgcolor) for one in segments}

            await wait_for(pilot, lambda: "c0000000" in styles(3))
            (cursor_ground,) = {ground for _, ground in styles(0).values()}
            (ground,) = {ground for _, ground in styles(3).values()}
            assert cursor_ground != ground
            assert styles(3)["✗"][0] == styles(3)["429"][0] != styles(3)["c0000000"][0]

    journey(steps())


def test_in_ascii_every_sign_is_ascii(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, ascii=True) as pilot:
            text = await shows(pilot, LIVE[:8], "Hel")
            assert text.isascii()

    journey(steps())


def test_an_empty_tape_says_how_to_record(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db"):
        pass

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db", (60, 16)) as pilot:
            await shows(pilot, "No exchanges recorded yet.", "Recorder: running", "q quit")
            await wait_for(pilot, lambda: "enter open" not in seen(pilot.app))  # there is nothing to open
            assert_golden("streams-empty", await resized(pilot, (80, 24)))

    journey(steps())


def test_a_tape_that_is_not_there_yet_is_shown_when_it_is(tmp_path: Path) -> None:
    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await shows(pilot, "There is no tape yet.", "wiretape record --upstream")
            with recorder(tmp_path / "tape.db") as writing:
                await shows(pilot, "No exchanges recorded yet.")
                writing.record("a" * 16)
                await shows(pilot, "aaaaaaaa", "1 exchange ", "REC 127.0.0.1:8377")

    journey(steps())


def test_a_tape_without_its_schema_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:  # as a recorder that begins leaves it for a moment
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "There is no tape yet.")
            with recorder(path) as writing:
                writing.record("a" * 16)
                await shows(pilot, "aaaaaaaa")
            assert pilot.app.failure is None

    journey(steps())


def take_away(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()


def test_a_tape_that_was_taken_away_is_said_to_be_gone(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "aaaaaaaa")
            take_away(tmp_path)
            await shows(pilot, "There is no tape yet.")
            with recorder(path) as writing:
                writing.record("b" * 16)
                await shows(pilot, "bbbbbbbb")

    journey(steps())


@pytest.mark.damages
def test_a_damaged_tape_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "The tape cannot be read.", "is damaged")

    journey(steps())


@pytest.mark.parametrize("newer", [True, False])
@pytest.mark.damages
def test_a_tape_of_another_schema_ends_the_viewer_with_its_error(tmp_path: Path, newer: bool) -> None:
    with tapefile.writing(tmp_path / "tape.db", "a test") as connection, connection.begin():
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{'9999' if newer else '0000'}'")

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            app = pilot.app
            await wait_for(pilot, lambda: app.failure)
            assert app.failure.exit_code == 5
        assert app.return_value == 5

    journey(steps())


@pytest.mark.damages
def test_a_file_that_is_no_tape_ends_the_viewer_without_another_word(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (tmp_path / "tape.db").write_text("not a tape " * 999)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            app = pilot.app
            await wait_for(pilot, lambda: app.failure)
            loaders = [worker for worker in app.workers if worker.group == "load"]
            # One that is cancelled as the application ends may never come to be finished.
            await wait_for(pilot, lambda: all(worker.is_finished or worker.is_cancelled for worker in loaders))
            assert not [worker for worker in app.workers if worker.group == "why"]
        assert app.return_value == 8

    journey(steps())
    gc.collect()
    assert not [str(one.message) for one in recwarn if "never awaited" in str(one.message)]


def test_marks_do_not_go_over_to_another_tape(tmp_path: Path) -> None:
    for name, ids in (("tape.db", "abc"), ("other.db", "xbz")):
        with recorder(tmp_path / name) as writing:
            for id in ids:
                writing.record(id * 16)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await at_cursor(pilot, "c" * 16)
            press(pilot, "space", "space", "space")
            await shows(pilot, "3 marked", "*✓ aaaaaaaa")
            (tmp_path / "other.db").rename(tmp_path / "tape.db")
            text = await shows(pilot, "zzzzzzzz", "2 marked exchanges are not on this tape", "1 marked")
            assert [line[2:13] for line in text.splitlines() if " *✓" in line[:5]] == [
                "✓ bbbbbbbb "
            ] or "*✓ bbbb" in text
            assert rows(pilot).cursor == 0

    journey(steps())


def test_what_is_compared_is_looked_up_by_its_id(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        writing.record("a" * 16)
        writing.record("b" * 16)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await at_cursor(pilot, "b" * 16)
            press(pilot, "space")
            await shows(pilot, "1 marked")
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            screen.marks.clear()
            screen.marks.toggle(2, "another one")
            press(pilot, "c")
            await shows(pilot, "1 marked exchange is not on this tape")
            assert pilot.app.screen is screen

    journey(steps())


def test_in_an_order_one_that_ends_is_said_to_stand_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16, SLOW)
        writing.begin("b" * 16, SLOWER)

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "bbbbbbbb")
            press(pilot, "o")
            await shows(pilot, "running exchanges stand last by measures of their end")
            press(pilot, "g")
            await wait_for(pilot, lambda: rows(pilot).catalog.by_time is False)
            assert [rows(pilot).catalog.number(place) for place in (0, 1)] == [1, 2]
            await shows(pilot, "9,050+")
            with recorder(path) as writing:
                writing.end("b" * 16, SLOWER, "end")
                text = await shows(pilot, "1 ended: R sorts them in", "✓ bbbbbbbb")
                assert "9,050+" not in text
                writing.record("c" * 16)
                await shows(pilot, "1 new · 1 ended: R sorts them in")
            press(pilot, "R")
            await wait_for(pilot, lambda: "sorts" not in seen(pilot.app))
            assert [rows(pilot).catalog.number(place) for place in (0, 1, 2)] == [2, 1, 3]

    journey(steps())


def test_one_that_ends_comes_into_a_filtered_list_or_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.begin("a" * 16, SLOWER)
        writing.begin("b" * 16, SLOWER)

    async def ended(filter_text: str, id: str, before: str, after: str) -> None:
        async with viewed(path, filter_text=filter_text) as pilot:
            await shows(pilot, before)
            with recorder(path) as writing:
                writing.end(id * 16, SLOWER, "end")
                await shows(pilot, after)

    journey(ended("gap.max>100ms", "a", "2 still run: what is measured counts when", "✓ aaaaaaaa"))
    journey(ended("is:live", "b", "● bbbbbbbb", "0 of 2 match"))


def test_one_that_ends_out_of_sight_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.begin("a" * 16, COMPLETE_READS)
        for number in range(30):
            writing.begin(f"{number:016x}", COMPLETE_READS[:1])

    async def steps() -> None:
        async with viewed(path, (80, 24)) as pilot:
            await wait_for(pilot, lambda: len(rows(pilot).catalog) == 31 and rows(pilot).catalog.row(30))
            assert "aaaaaaaa" not in seen(pilot.app)
            with recorder(path) as writing:
                writing.end("a" * 16, COMPLETE_READS, "end")
                await wait_for(
                    pilot, lambda: (row := rows(pilot).catalog.row(30)) is not None and row.outcome != "open"
                )
            press(pilot, "G")
            await shows(pilot, "✓ aaaaaaaa")

    journey(steps())


def test_a_new_exchange_appears_and_the_cursor_stays_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        for number in range(3):
            writing.record(f"{number:016x}")

    async def steps() -> None:
        async with viewed(path) as pilot:
            await at_cursor(pilot, f"{2:016x}")
            with recorder(path) as writing:
                writing.begin("b" * 16, COMPLETE_READS[:2])
                text = await shows(pilot, "bbbbbbbb", "4 exchanges · 1 open")
                assert next(line for line in text.splitlines() if "bbbbbbbb" in line).startswith("  ●")
                assert "00000000" in cursor(pilot)
                assert rows(pilot).cursor == 1
                writing.end("b" * 16, COMPLETE_READS[:2], "eof")
                await shows(pilot, "■ bbbbbbbb", " truncated")

    journey(steps())


def test_who_follows_is_on_the_newest_until_the_cursor_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
        writing.record("b" * 16)

    async def steps() -> None:
        async with viewed(path, follow=True) as pilot:
            await shows(pilot, "following")
            with recorder(path) as writing:
                writing.record("c" * 16)
                await at_cursor(pilot, "c" * 16)
                press(pilot, "j")
                await at_cursor(pilot, "b" * 16)
                await wait_for(pilot, lambda: "following" not in seen(pilot.app))
                writing.record("d" * 16)
                await shows(pilot, "dddddddd")
                await at_cursor(pilot, "b" * 16)
                press(pilot, "f")
                await at_cursor(pilot, "d" * 16)

    journey(steps())


def test_in_another_order_arrivals_are_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
        writing.record("b" * 16, [(at + 5000 * (at > 120), data) for at, data in COMPLETE_READS])

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "bbbbbbbb")
            press(pilot, "o")
            await shows(pilot, "order by")
            press(pilot, "g")
            await wait_for(pilot, lambda: rows(pilot).catalog.by_time is False)
            assert [rows(pilot).catalog.number(place) for place in (0, 1)] == [2, 1]
            with recorder(path) as writing:
                writing.record("c" * 16, [(at + 9000 * (at > 120), data) for at, data in COMPLETE_READS])
                text = await shows(pilot, "1 new: R sorts them in")
                assert "cccccccc" not in text
            press(pilot, "R")
            await shows(pilot, "cccccccc")
            press(pilot, "O")
            await wait_for(pilot, lambda: rows(pilot).catalog.number(0) == 1)

    journey(steps())


def test_a_filter_applies_while_it_is_typed_and_counts(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, LIVE[:8])
            await type_filter(pilot, "is:live")
            await shows(pilot, "1 / 7 · ")
            press(pilot, "enter")
            await at_cursor(pilot, LIVE)
            press(pilot, "backslash")
            await shows(pilot, COMPLETE[:8], "off: \\ switches it on")
            press(pilot, "backslash")
            await shows(pilot, "1 / 7 · ")
            press(pilot, "escape")
            await shows(pilot, "off: \\")

    journey(steps())


def test_while_a_filter_is_typed_no_count_of_another_stands_beside_it(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="is:live") as pilot:
            await shows(pilot, "1 / 7 · ")
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            screen.filter.box.value = "is:ok"
            await wait_for(pilot, lambda: screen.filter.is_typing)
            screen.show_state()
            await wait_for(pilot, lambda: "1 / 7" not in seen(pilot.app))
            await shows(pilot, "2 / 7 · ")

    journey(steps())


def test_in_another_order_nobody_follows_the_newest(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, "7 exchanges")
            press(pilot, "f")
            await shows(pilot, "following")
            press(pilot, "O")
            await wait_for(pilot, lambda: "following" not in seen(pilot.app))
            press(pilot, "f")
            await shows(pilot, "following", "START▼")

    journey(steps())


def test_one_whose_recorder_falls_silent_becomes_an_orphan_though_nothing_is_written(tape: Path) -> None:
    async def steps() -> None:
        watch = Watch()
        async with ViewerApp(tape, watch.clock, filter_text="is:live").run_test(size=(120, 40)) as pilot:
            await wait_for(pilot, lambda: cursor(pilot).startswith("▌ ●"))
            watch.ns += 16 * 10**9
            await wait_for(pilot, lambda: cursor(pilot).startswith("▌ ?"))
            await shows(pilot, "recorder silent since", "orphan")

    journey(steps())


def test_exchanges_that_are_deleted_leave_the_list(tmp_path: Path) -> None:
    async def steps() -> None:
        path = tmp_path / "tape.db"
        with recorder(path) as writing:
            for number in range(3):
                writing.record(f"{number}" * 16, at=number)
        async with viewed(path) as pilot:
            await shows(pilot, "3 exchanges", "00000000")
            with tapefile.writing(path, "a test") as connection:
                assert sum(retention.erase(connection, ["0" * 16, "2" * 16])) == 2
            await shows(pilot, "1 exchange", "11111111")
            await wait_for(pilot, lambda: not {"00000000", "22222222"} & set(seen(pilot.app).split()))

    journey(steps())


def test_the_keys_of_a_narrow_footer_are_whole_and_help_and_quit_are_among_them(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (60, 18)) as pilot:
            await shows(pilot, "? help", "q quit", LIVE[:8])
            # Until the list has been read, no key is hidden.
            await wait_for(pilot, lambda: "c compare" not in seen(pilot.app))
            for width in (60, 66, 80, 120):
                last = (await resized(pilot, (width, 18))).splitlines()[-1]
                assert last.strip().split("  ")[-1] == "q quit"
                assert set(last.strip().split("  ")) <= {
                    "? help", "/ filter", "enter open", "e errors", "s stalls", "space mark", "o order", "S stats",
                    "t conversations", "q quit",
                }  # fmt: skip
            await pilot.resize_terminal(120, 30)
            await shows(pilot, "S stats", "q quit", "first output 110 ms")  # which there is room for now

    journey(steps())


def test_a_filter_that_cannot_be_read_leaves_the_last_one_in_force(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await type_filter(pilot, "is:live")
            await shows(pilot, "1 / 7 · ")
            pilot.app.screen.query_one(FilterInput).value += " ttft>fast"
            await shows(pilot, "'fast' (character 14): expected a duration", LIVE[:8])
            await wait_for(pilot, lambda: "1 / 7" not in seen(pilot.app))  # no count of another filter
            pilot.app.screen.query_one(FilterInput).value = "is:live ttft>1h"
            text = await shows(pilot, "0 of 7 match.", "1  outcome:open  alone")
            assert "expected" not in text

    journey(steps())


def test_the_list_keeps_its_titles_below_a_filter_that_cannot_be_read(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            box = await type_filter(pilot, "ttft>fast")
            await shows(pilot, "'fast' (character 6): expected a duration", "START▼")
            press(pilot, "escape")
            await wait_for(pilot, lambda: not box.has_focus)
            lines = (await shows(pilot, "'fast' (character 6): expected a duration", "START▼")).splitlines()
            assert ["START▼" in line for line in lines[:4]] == [False, False, False, True]

    journey(steps())


def test_the_preview_parts_no_number_from_its_unit(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            (figures,) = re.findall("^ (first output.*)", await resized(pilot, (149, 40)), re.MULTILINE)
            widths = [unit.start() + 3 for unit in re.finditer(r"(?<=\d) [a-z]", figures) if unit.start() > 60]
            assert widths
            for width in widths:
                text = await resized(pilot, (width, 40))
                assert "first output" in text
                assert not re.search(r"^ (ms|s|events?|reads?|tokens?)\b", text, re.MULTILINE)

    journey(steps())


def test_a_filter_is_completed_and_remembered(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            box = await type_filter(pilot, "")
            await wait_for(pilot, lambda: screen.listing.vocabulary.values)
            press(pilot, *"mod")
            await shows(pilot, "   model:  the model asked for")
            press(pilot, "tab")
            await wait_for(pilot, lambda: box.value == "model:")
            press(pilot, *"gpt-x-")
            await shows(pilot, "   gpt-x-mini")
            press(pilot, "tab")
            await wait_for(pilot, lambda: box.value == "model:gpt-x-mini")
            press(pilot, "enter")
            await wait_for(pilot, lambda: rows(pilot).has_focus)
            await type_filter(pilot, "is:ok")
            press(pilot, "enter")
            await wait_for(pilot, lambda: rows(pilot).has_focus)
            press(pilot, "slash")
            await wait_for(pilot, lambda: box.has_focus)
            press(pilot, "up", "up")
            await wait_for(pilot, lambda: box.value == "model:gpt-x-mini")
            press(pilot, "down", "down")
            await wait_for(pilot, lambda: not box.value)

    journey(steps())


def test_a_completion_is_chosen_with_arrows_and_covers_neither_titles_nor_rows(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (80, 24)) as pilot:
            before = await shows(pilot, LIVE[:8], "Hel")
            box = await type_filter(pilot, "is:")
            lines = (await shows(pilot, "at the end: expected a value", "   aborted", "START▼")).splitlines()
            assert lines[2].startswith("   at the end")
            assert "START▼" in lines[9]
            assert LIVE[:8] in lines[10]
            assert "tab complete" in lines[-1]
            assert "/ filter" not in lines[-1]
            press(pilot, "down", "down", "down", "up", "enter")
            await wait_for(pilot, lambda: box.value == "is:client_closed")
            await shows(pilot, "0 of 7 match.")
            box.value = ""
            press(pilot, "escape")
            await wait_for(pilot, lambda: seen(pilot.app) == before)

    journey(steps())


def test_a_completion_is_taken_with_the_mouse_and_a_click_on_the_list_leaves_the_box(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            box = await type_filter(pilot, "is:l")
            await shows(pilot, "   live")
            await pilot.click("Completions", offset=(4, 1))
            await wait_for(pilot, lambda: box.value == "is:live" and box.has_focus)
            await shows(pilot, "1 / 7 · ")
            await pilot.click(StreamRows, offset=(10, 0))
            await wait_for(pilot, lambda: rows(pilot).has_focus and "tab complete" not in seen(pilot.app))

    journey(steps())


UNFINISHED = {
    " m": "unfinished", " ttf": "unfinished", " model:gpt": "unfinished", " ttft>": "expected", " is:e": "unfinished",
    " is:zz": "no such outcome",
}  # fmt: skip


def test_while_a_filter_is_unfinished_the_last_list_stays_until_enter_applies_it(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            box = await type_filter(pilot, "is:live")
            await wait_for(pilot, lambda: screen.listing.vocabulary.values)
            for more, told in UNFINISHED.items():
                await shows(pilot, "1 / 7 · ")
                press(pilot, *more)
                await shows(pilot, f"is:live{more}", told, LIVE[:8])
                assert screen.filter.text.strip() == "is:live"
                assert len(screen.listing.catalog) == 1
                box.value = "is:live"
            box.value = "mod"
            await shows(pilot, "unfinished: enter applies it as it stands", LIVE[:8])
            press(pilot, "enter")
            await shows(pilot, "0 of 7 match.")

    journey(steps())


def test_a_filter_of_an_earlier_run_is_recalled(tape: Path, tmp_path: Path) -> None:
    async def first() -> None:
        async with viewed(tape) as pilot:
            await type_filter(pilot, "is:live")
            press(pilot, "enter")
            await wait_for(pilot, lambda: filter.file().exists())
            assert filter.read(filter.file()) == ["is:live"]

    async def second() -> None:
        filter.add(filter.file(), "\x1b]0;t\x07")
        async with viewed(tape) as pilot:
            box = await type_filter(pilot, "dra")
            await wait_for(pilot, lambda: len(box.history) == 2)
            press(pilot, "up")
            await wait_for(pilot, lambda: box.value == "␛]0;t␇")
            press(pilot, "up")
            await wait_for(pilot, lambda: box.value == "is:live")
            press(pilot, "down", "down")
            await wait_for(pilot, lambda: box.value == "dra")

    assert filter.file().is_relative_to(tmp_path)
    journey(first())
    journey(second())


def test_a_history_that_is_broken_and_cannot_be_kept_is_told_of_once(
    tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filter.file().mkdir(parents=True)
    toasts: list[str] = []
    monkeypatch.setattr(ViewerApp, "notify", lambda app, message, **more: toasts.append(message))

    async def steps() -> None:
        async with viewed(tape) as pilot:
            await wait_for(pilot, lambda: toasts)
            await type_filter(pilot, "is:live")
            press(pilot, "enter")
            await shows(pilot, "1 / 7")
            reading = [worker for worker in pilot.app.workers if worker.group == "history"]
            await wait_for(pilot, lambda: all(worker.is_finished for worker in reading))
            (told,) = toasts
            assert told.startswith("The filters of earlier runs cannot be read: Is a directory (")

    journey(steps())


def test_a_saved_view_is_chosen_by_its_name(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".wiretape.toml").write_text(
        '[views]\nslow = "ttft>800s"\n"good \\u001b" = "is:ok"\nlive = "is:live"\n'
    )

    async def steps() -> None:
        async with viewed(tape) as pilot:
            press(pilot, "apostrophe")
            text = await shows(pilot, "saved views", "good ␛          2  is:ok", "slow            0  ttft>800s")
            assert "\x1b" not in text
            press(pilot, *"iv")
            await wait_for(pilot, lambda: "good" not in seen(pilot.app))
            press(pilot, "enter")
            await shows(pilot, "1 / 7 · ", "/ is:live")
            press(pilot, "backslash")
            await shows(pilot, "off: \\ switches it on")
            press(pilot, "apostrophe")
            await shows(pilot, "saved views", "good ␛          2")
            press(pilot, "up", "enter")
            await shows(pilot, "1 / 7 · ", "/ is:live")
            press(pilot, "apostrophe")
            await shows(pilot, "saved views")
            press(pilot, *"zz")
            await shows(pilot, "no view for 'zz'")
            press(pilot, "enter", "escape")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))

    journey(steps())


def test_without_saved_views_it_is_said_how_one_is_written(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    async def steps() -> None:
        async with viewed(tape) as pilot:
            press(pilot, "apostrophe")
            await shows(pilot, "No view is saved yet.", ".wiretape.toml", "[views]", 'slow = "ttft>800ms"')
            press(pilot, "enter", "escape")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))

    journey(steps())


def test_a_mistake_in_the_configuration_is_shown_instead_of_the_saved_views(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps() -> None:
        async with viewed(tape) as pilot:
            (tmp_path / ".wiretape.toml").write_text('[views]\nslow = "("\n')
            press(pilot, "apostrophe")
            await shows(pilot, ".wiretape.toml, line 2, column 1: slow under [views] is no filter")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))
            press(pilot, "S")
            await shows(pilot, "stats · .wiretape.toml, line 2, column 1: ")

    journey(steps())


def test_an_expression_that_would_go_on_for_ever_is_taken_for_a_slip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "LONGEST_SECONDS", 0.02)
    with recorder(tmp_path / "tape.db") as writing:
        parts = [(10, event({"content": "a" * 60_000 + "b"})), (20, event({}) + b"data: [DONE]\n\n")]
        writing.record("a" * 16, parts)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await shows(pilot, "aaaaaaaa")
            await type_filter(pilot, 'text~"(a+)+$"')
            await shows(pilot, "'~' (character 5): a regular expression of the filter takes too long", "aaaaaaaa")

    journey(steps())


def test_each_entry_of_the_order_menu_is_whole_however_wide_it_is(tape: Path) -> None:
    entries = [f"{one.letter} {one.title.removesuffix(' s').lower()}" for one in COLUMNS if one.letter]

    async def steps() -> None:
        async with viewed(tape, (60, 16)) as pilot:
            await shows(pilot, LIVE[:8])
            press(pilot, "o")
            await shows(pilot, "order by", *entries)
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await shows(pilot, "order by", *entries)

    journey(steps())


def test_the_keys_move_the_cursor(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        for number in range(300):
            writing.begin(f"{number:016x}", COMPLETE_READS[:1])

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db", (80, 24)) as pilot:
            await wait_for(pilot, lambda: len(rows(pilot).catalog) == 300)
            height = rows(pilot).size.height
            moves = {"G": 299, "k": 298, "up": 297, "g": 0, "j": 1, "down": 2, "pagedown": 1 + height, "pageup": 2}
            moves |= {"end": 299, "home": 0, "ctrl+d": round((height - 1) / 2), "ctrl+u": 0}
            for key, place in moves.items():
                press(pilot, key)
                await wait_for(pilot, lambda place=place: rows(pilot).cursor == place)
                await wait_for(pilot, lambda: len(cursor(pilot)) > 20)

    journey(steps())


def test_the_mouse_moves_the_cursor_scrolls_and_orders(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        for number in range(60):
            writing.begin(f"{number:016x}", COMPLETE_READS[:1])

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await wait_for(pilot, lambda: len(rows(pilot).catalog) == 60)
            await pilot.click(StreamRows, offset=(10, 3))
            await wait_for(pilot, lambda: rows(pilot).cursor == 3)
            await point(pilot, MouseScrollDown, StreamRows, (5, 5))
            await wait_for(pilot, lambda: rows(pilot).scroll_offset.y > 0)
            await pilot.click("Titles", offset=(16, 0))
            await wait_for(pilot, lambda: not rows(pilot).catalog.by_time)

    journey(steps())


def test_columns_times_and_the_preview_can_be_changed(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, "GAPMAX", "12:00:07")
            press(pilot, "T")
            await shows(pilot, "03-01 12:00:07")
            press(pilot, "T", "T")
            await shows(pilot, "AGO▼")
            press(pilot, "C")
            await shows(pilot, "space: on or off")
            await wait_for(pilot, lambda: getattr(pilot.app.focused, "highlighted", None) == 0)
            columns = pilot.app.screen.query_one(SelectionList)
            press(pilot, *["down"] * 11)
            await wait_for(pilot, lambda: columns.highlighted == 11)
            press(pilot, "space")
            await wait_for(pilot, lambda: "gapmax" not in columns.selected)
            press(pilot, "escape")
            await wait_for(pilot, lambda: "GAPMAX" not in seen(pilot.app) and "ICL50" in seen(pilot.app))
            words = ("still running", "nothing records it")
            await wait_for(pilot, lambda: any(one in seen(pilot.app) for one in words))
            press(pilot, "p")
            await wait_for(pilot, lambda: "the last read came" not in seen(pilot.app))

    journey(steps())


def test_where_a_list_spans_days_every_time_of_day_has_its_date(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16, at=1)
        writing.record("b" * 16, at=2)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE exchanges SET started_at = '2026-02-27T09:30:00.000000Z' WHERE no = 1")

    async def steps() -> None:
        async with viewed(path, (80, 24)) as pilot:
            await shows(pilot, "03-01 12:00:02", "02-27 09:30:00")
            press(pilot, "T")
            await shows(pilot, "UTC▼", "02-27 09:30:00")
            press(pilot, "T")
            await shows(pilot, "AGO▼")
            press(pilot, "T")
            await shows(pilot, "START▼", "02-27 09:30:00")
            await type_filter(pilot, "id:bbbb")
            await wait_for(pilot, lambda: "03-01" not in seen(pilot.app) and "12:00:02" in seen(pilot.app))
            with recorder(path) as writing:
                writing.record("b" * 15 + "c", at=3)
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE exchanges SET started_at = '2026-03-02T00:00:01.000000Z' WHERE no = 3")
            await shows(pilot, "03-02 00:00:01", "03-01 12:00:02")

    journey(steps())


def test_keys_list_errors_only_or_stalls_only_within_the_filter_and_all_again(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="id:d or id:aaaa or id:f") as pilot:
            await shows(pilot, "4 / 7 · ")
            press(pilot, "e")
            await shows(pilot, "/ (id:d or id:aaaa or id:f) is:failed", "1 / 7 · ", "d0000000")
            press(pilot, "s")
            await shows(pilot, "/ (id:d or id:aaaa or id:f) flag:stall", "1 / 7 · ", "12:00:02")
            press(pilot, "s")
            text = await shows(pilot, "/ (id:d or id:aaaa or id:f)", "4 / 7 · ")
            assert "flag:stall" not in text

    journey(steps())


def test_keys_that_do_not_apply_are_neither_in_the_footer_nor_in_help(tape: Path) -> None:
    def listed(pilot: Pilot[Any]) -> set[str]:
        return {entry.id for entry in entries(pilot.app, pilot.app.screen.active_bindings)}

    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, "S stats", LIVE[:8])
            idle = {"streams.compare", "streams.toggle", "streams.clear", "app.back"}
            await wait_for(pilot, lambda: not listed(pilot) & idle)  # none is hidden until the list has been read
            press(pilot, "space", "e")
            await shows(pilot, "c compare", "/ is:failed")
            await wait_for(pilot, lambda: listed(pilot) >= {"streams.compare", "streams.toggle", "streams.clear"})
            press(pilot, "slash")
            await shows(pilot, "tab complete", "f1 help")
            await wait_for(pilot, lambda: not [one for one in listed(pilot) if one.startswith("streams.")])
            press(pilot, "escape", "e")
            await type_filter(pilot, "model:nobody")
            press(pilot, "enter")
            await shows(pilot, "0 of 7 match.")
            await wait_for(
                pilot, lambda: not listed(pilot) & {"streams.open", "streams.mark", "streams.order", "streams.stats"}
            )
            await wait_for(
                pilot,
                lambda: listed(pilot) >= {"streams.filter", "streams.toggle", "streams.errors", "app.copy"},
            )

    journey(steps())


def test_marks_are_compared(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, LIVE[:8])
            await wait_for(pilot, lambda: "c compare" not in seen(pilot.app))
            press(pilot, "G", "space")
            await shows(pilot, "1 marked", "c compare")
            press(pilot, "k", "c")
            await wait_for(pilot, lambda: type(pilot.app.screen).__name__ == "CompareScreen")
            press(pilot, "q")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))
            press(pilot, "escape")
            await wait_for(pilot, lambda: "marked" not in seen(pilot.app))

    journey(steps())


def test_an_exchange_and_the_figures_are_opened_from_here(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await at_cursor(pilot, LIVE)
            for key, name in (("enter", "InspectorScreen"), ("S", "StatsScreen")):
                press(pilot, key)
                await wait_for(pilot, lambda name=name: type(pilot.app.screen).__name__ == name)
                press(pilot, "q")
                await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))

    journey(steps())


def test_what_can_be_copied_gives_the_screen_again(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="-is:live") as pilot:
            await shows(pilot, "6 / 7")
            press(pilot, "o")
            await shows(pilot, "order by")
            press(pilot, "t")
            await wait_for(pilot, lambda: not rows(pilot).catalog.by_time)
            press(pilot, "space")
            await shows(pilot, "1 marked")
            copies, exports = dict(pilot.app.screen.copies()), dict(pilot.app.screen.exports())
            assert copies["this list"] == f"wiretape ls --db {tape} -f -is:live -s -ttft_ms"
            assert copies["marked ids"] == TOOLS or len(copies["marked ids"]) == 16
            assert copies["show"] == f"wiretape show --db {tape} {copies['id']}"
            assert exports["6 exchanges"] == ["export", "--db", str(tape), "-f", "-is:live"]

    journey(steps())


def test_the_texts_of_an_exchange_are_read_when_they_are_copied(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text=f"id:{TOOLS}") as pilot:
            await at_cursor(pilot, TOOLS)
            copies = dict(pilot.app.screen.copies())
            laters = {label: text for label, text in copies.items() if isinstance(text, offers.Later)}
            found = {label: await text.read() for label, text in laters.items()}
            assert list(found) == ["curl", "text", "body", "tool arguments"]
            assert found["text"] == ""
            assert found["body"].encode() == b"".join(data for _, data in TOOLS_READS)
            assert found["tool arguments"] == '{"city":"Oslo"}'
            assert '-H "Authorization: Bearer $API_KEY"' in found["curl"]
            assert "--url 'https://api.example.com/v1/chat/completions'" in found["curl"]
            assert not [text for text in found.values() if "sk-secret" in text or "REDACTED" in text]
            press(pilot, "y")
            await shows(pilot, "its request, as a command")
            press(pilot, *"jjjj", "enter")
            await shows(pilot, "curl: ", "characters, to the terminal's clipboard")
            assert pilot.app.clipboard == found["curl"]
            press(pilot, "y")
            await shows(pilot, "its request, as a command")
            press(pilot, *"jjjjj", "enter")
            await shows(pilot, "copy: text: there is none")

    journey(steps())


def test_a_text_of_another_exchange_is_not_copied_and_too_long_a_one_neither(
    tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queries.opened(tape) as connection:
        with pytest.raises(NotFound, match="is not on this tape any more"):
            list_offers.text_of(connection, 1, TOOLS, "text")
        monkeypatch.setattr(list_offers, "MOST_COPIED", 100)
        with pytest.raises(WiretapeError, match="too many to copy: use wiretape show aaaa0000 --part raw"):
            list_offers.text_of(connection, 1, COMPLETE, "body")


def test_commands_name_the_tape_unless_they_find_it_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "my tape.db"
    assert offers.command(TapePlace(path), "show", "@-1") == f"wiretape show --db '{path}' @-1"
    assert offers.arguments(TapePlace(path), "export", "a b") == ["export", "--db", str(path), "a b"]
    monkeypatch.setenv("WIRETAPE_DB", str(path))
    assert offers.command(TapePlace(path), "view", "ab", "--at", "#3") == "wiretape view ab --at '#3'"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIRETAPE_DB", path.name)  # found from this directory only
    assert offers.arguments(TapePlace(path), "ls") == ["ls", "--db", str(path)]


def test_hostile_text_is_shown_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    odd = [
        HOSTILE,
        "[@click=app.leave]x[/]",
        "[/x=y]",
        "[",
        "\x1b]0;title\x07",
        "日本" * 50,
        "\U0001f468\u200d\U0001f469" * 9,
    ]
    with recorder(path) as writing:
        for number, text in enumerate([*odd, "x" * (2 << 20), "\n" * 50_000]):
            id, name = f"{number:x}" * 16, text[:100]
            parts = [(10, event({"content": text}, model=name)), (20, event({}, name) + b"data: [DONE]\n\n")]
            writing.record(id, parts, number, f"/v1/{name}")

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "88888888")
            for number in reversed(range(len(odd) + 2)):
                await at_cursor(pilot, f"{number:x}" * 16)
                await shows(pilot, f"✓ {f'{number:x}' * 8} complete")
                text = seen(pilot.app).replace("\n", "")
                assert not [sign for sign in text if ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0]
                press(pilot, "j")
            box = await type_filter(pilot, "text:")
            await wait_for(pilot, lambda: box.value == "text:")
            box.insert_text_at_cursor(HOSTILE)
            text = await shows(pilot, "␛[2J", "expected")
            assert "\x1b" not in text

    journey(steps())
