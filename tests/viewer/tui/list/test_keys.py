"""Keys and the mouse in the list: the cursor, columns, orders, marks, and copies."""

from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseScrollDown
from textual.pilot import Pilot
from textual.widgets import SelectionList

from tests.support.growing_tape import recorder
from tests.support.list_screen import at_cursor, cursor, press, rows, type_filter, viewed
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, LIVE, TOOLS, TOOLS_READS
from tests.support.screens import SIZES, journey, point, seen, shows, wait_for
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.viewer.listing.layout import COLUMNS
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import queries, texts
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.dialogs.help import entries
from wiretape.viewer.tui.list.rows import StreamRows
from wiretape.viewer.tui.list.screen import StreamsScreen


def test_what_is_compared_is_looked_up_by_its_id(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        writing.record("a" * 16)
        writing.record("b" * 16)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await at_cursor(pilot, "b" * 16)
            press(pilot, "m")
            await shows(pilot, "1 marked")
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            screen.streams.marks.clear()
            screen.streams.marks.toggle(2, "another one")
            press(pilot, "c")
            await shows(pilot, "1 marked exchange is not on this tape")
            assert pilot.app.screen is screen

    journey(steps())


def test_every_entry_of_the_order_menu_is_whole(tape: Path) -> None:
    entries = [f"{column.letter} {column.title.lower()}" for column in COLUMNS if column.letter]

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
            moves |= {"end": 299, "home": 0, "ctrl+d": height - 1, "ctrl+u": 0}
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
        async with viewed(tape, (160, 40)) as pilot:
            await shows(pilot, "MAX GAP", "12:00:07")
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
            await wait_for(pilot, lambda: "max_gap" not in columns.selected)
            press(pilot, "escape")
            await wait_for(pilot, lambda: "MAX GAP" not in seen(pilot.app))
            words = ("still running", "nothing records it")
            await wait_for(pilot, lambda: any(word in seen(pilot.app) for word in words))
            press(pilot, "P")
            await wait_for(pilot, lambda: "the last read came" not in seen(pilot.app))

    journey(steps())


def test_a_stall_is_played_from_the_list(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="flag:stall") as pilot:
            await at_cursor(pilot, TOOLS)
            press(pilot, "p")
            await shows(pilot, "▶ playing", TOOLS[:8])

    journey(steps())


def test_keys_toggle_errors_and_stalls_within_the_filter(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="id:d or id:aaaa or id:f") as pilot:
            await shows(pilot, "4 / 7 · ")
            press(pilot, "e")
            await shows(pilot, "/ (id:d or id:aaaa or id:f) is:failed", "1 / 7 · ", "d0000000")
            press(pilot, "s")
            await shows(pilot, "/ (id:d or id:aaaa or id:f) flag:stall", "1 / 7 · ", "stall 3.0 s")
            press(pilot, "s")
            text = await shows(pilot, "/ id:d or id:aaaa or id:f", "4 / 7 · ")
            assert "flag:stall" not in text

    journey(steps())


def test_inapplicable_keys_are_not_in_footer_or_help(tape: Path) -> None:
    def names_listed(pilot: Pilot[Any]) -> set[str]:
        return {str(entry.bound.binding.id) for entry in entries(pilot.app, pilot.app.screen.active_bindings)}

    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, "S stats", LIVE[:8])
            idle = {"compare", "toggle_filter", "back"}
            await wait_for(pilot, lambda: not names_listed(pilot) & idle)  # none is hidden until the list has been read
            press(pilot, "m", "e")
            await shows(pilot, "c compare", "/ is:failed")
            await wait_for(pilot, lambda: names_listed(pilot) >= {"compare", "toggle_filter", "back"})
            press(pilot, "slash")
            await shows(pilot, "tab complete", "f1 help")
            await wait_for(pilot, lambda: not names_listed(pilot) & {"open", "mark", "order", "compare"})
            press(pilot, "escape", "e")
            await type_filter(pilot, "model:nobody")
            press(pilot, "enter")
            await shows(pilot, "0 of 7 match.")
            await wait_for(pilot, lambda: not names_listed(pilot) & {"open", "mark", "order", "stats"})
            await wait_for(
                pilot,
                lambda: names_listed(pilot) >= {"filter", "toggle_filter", "errors", "copy"},
            )

    journey(steps())


def test_marks_are_compared(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, LIVE[:8])
            await wait_for(pilot, lambda: "c compare" not in seen(pilot.app))
            press(pilot, "G", "m")
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
            press(pilot, "m")
            await shows(pilot, "1 marked")
            copies, exports = dict(pilot.app.screen.copies()), dict(pilot.app.screen.exports())
            assert copies["this list"] == f"wiretape ls --db {tape} -f -is:live -s -ttft_ms"
            assert copies["marked ids"] == TOOLS or len(copies["marked ids"]) == 16
            assert copies["show"] == f"wiretape show --db {tape} {copies['id']}"
            assert exports["6 exchanges"] == ["export", "--db", str(tape), "-f", "-is:live"]

    journey(steps())


def test_an_exchanges_texts_are_read_when_copied(tape: Path) -> None:
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


def test_texts_too_long_or_of_others_are_not_copied(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with queries.opened(tape) as connection:
        with pytest.raises(NotFound, match="is not on this tape any more"):
            texts.text_of(connection, 1, TOOLS, "text")
        monkeypatch.setattr(texts, "MOST_COPIED", 100)
        with pytest.raises(WiretapeError, match="too many to copy: use wiretape show aaaa0000 --part raw"):
            texts.text_of(connection, 1, COMPLETE, "body")


def test_commands_name_the_tape_unless_it_is_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my tape.db"
    assert offers.command(TapePlace(path), "show", "@-1") == f"wiretape show --db '{path}' @-1"
    assert offers.arguments(TapePlace(path), "export", "a b") == ["export", "--db", str(path), "a b"]
    monkeypatch.setenv("WIRETAPE_DB", str(path))
    assert offers.command(TapePlace(path), "view", "ab", "--at", "#3") == "wiretape view ab --at '#3'"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIRETAPE_DB", path.name)  # found from this directory only
    assert offers.arguments(TapePlace(path), "ls") == ["ls", "--db", str(path)]
