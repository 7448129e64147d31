"""The list of exchanges: its contents, and its messages where it is empty."""

import contextlib
import gc
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.growing_tape import recorder
from tests.support.list_screen import at_cursor, press, rows, type_filter, viewed
from tests.support.sample_tape import COMPLETE, HOSTILE, LIVE, event
from tests.support.screens import SIZES, assert_golden, journey, resized, seen, shows, wait_for
from wiretape.recorder.tape import file as tapefile
from wiretape.recorder.tape.peek import APPLICATION_ID


def test_the_list_looks_so_with_a_preview_beside_it(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, LIVE[:8], "Hel")
            press(pilot, "j", "j")
            await at_cursor(pilot, "d000")
            press(pilot, "m")
            await at_cursor(pilot, "c000")
            await shows(pilot, "1 marked", "slow down")
            for size in SIZES:
                assert_golden(f"streams-{size[0]}x{size[1]}", await resized(pilot, size))
            await pilot.resize_terminal(200, 24)
            press(pilot, "G")
            text = await shows(pilot, "Hello, world")
            assert any(COMPLETE[:8] in line and "│" in line for line in text.splitlines())

    journey(steps())


def test_a_large_terminal_has_the_preview_below(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (200, 60)) as pilot:
            text = await shows(pilot, LIVE[:8], "Hel", "TIMELINE log", "3.5 s╷")
            (stalled,) = [line for line in text.splitlines() if "stall 3.0 s" in line]
            assert len(stalled[stalled.index("╱") - 1 :].rstrip()) > 20
            assert "│" not in text
            assert text.splitlines()[2].index("TIMELINE") <= 120

    journey(steps())


def test_timelines_share_an_axis_or_have_their_own(tape: Path) -> None:
    async def steps() -> None:
        def ends() -> list[int]:
            return [len(line.rstrip()) for line in seen(pilot.app).splitlines()[3:10]]

        async with viewed(tape, (120, 24)) as pilot:
            await shows(pilot, LIVE[:8], "TIMELINE log", "3.5 s╷")
            shared = ends()
            assert len(set(shared)) > 3
            press(pilot, "z")
            await shows(pilot, "TIMELINE: own scale")
            assert set(ends()) == {119}
            press(pilot, "z")
            await shows(pilot, "3.5 s╷")
            assert ends() == shared

    journey(steps())


def test_the_cursor_stands_out_and_signs_are_coloured(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await at_cursor(pilot, LIVE)

            def styles(line: int) -> dict[str, tuple[Any, Any]]:
                segments = [segment for segment in rows(pilot).render_line(line) if segment.style is not None]
                return {segment.text.strip(): (segment.style.color, segment.style.bgcolor) for segment in segments}

            await wait_for(pilot, lambda: "c0000000" in styles(3))
            (cursor_ground,) = {ground for _, ground in styles(0).values()}
            (ground,) = {ground for _, ground in styles(3).values()}
            assert cursor_ground != ground
            assert styles(3)["✗"][0] == styles(3)["429 rate_limited"][0] != styles(3)["c0000000"][0]

    journey(steps())


def test_in_ascii_every_sign_is_ascii(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, ascii=True) as pilot:
            text = await shows(pilot, LIVE[:8], "Hel")
            assert text.isascii()

    journey(steps())


def test_an_empty_tape_says_how_to_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with recorder(tmp_path / "tape.db"):
        pass

    async def steps() -> None:
        async with viewed(Path("tape.db"), (60, 16)) as pilot:
            await shows(pilot, "No exchanges recorded yet.", "Recorder: running", "q quit")
            await wait_for(pilot, lambda: "enter open" not in seen(pilot.app))  # there is nothing to open
            assert_golden("streams-empty", await resized(pilot, (80, 24)))

    journey(steps())


def test_a_tape_is_shown_once_it_exists(tmp_path: Path) -> None:
    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await shows(pilot, "There is no tape yet.", "wiretape record --db")
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


def test_a_removed_tape_is_called_gone_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
        writing.record("c" * 16, at=7)

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "aaaaaaaa")
            take_away(tmp_path)
            screen_text = await shows(
                pilot, "The tape is gone.", "tape.db was deleted or moved.", "It held 2 exchanges"
            )
            assert "begun 2026-03-01 12:00:00 – 2026-03-01 12:00:07 UTC" in screen_text
            assert "no tape yet" not in screen_text
            with recorder(path) as writing:
                writing.record("b" * 16)
                await shows(pilot, "bbbbbbbb")

    journey(steps())


@pytest.mark.damages
def test_a_damaged_tape_is_reported(tmp_path: Path) -> None:
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
def test_a_tape_of_another_schema_ends_the_viewer(tmp_path: Path, newer: bool) -> None:
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
def test_a_file_that_is_no_tape_ends_the_viewer(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
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
    assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]


def test_marks_do_not_go_over_to_another_tape(tmp_path: Path) -> None:
    for name, ids in (("tape.db", "abc"), ("other.db", "xbz")):
        with recorder(tmp_path / name) as writing:
            for id in ids:
                writing.record(id * 16)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await at_cursor(pilot, "c" * 16)
            press(pilot, "m", "m", "m")
            await shows(pilot, "3 marked", "*✓ aaaaaaaa")
            (tmp_path / "other.db").rename(tmp_path / "tape.db")
            text = await shows(pilot, "zzzzzzzz", "2 marked exchanges are not on this tape", "1 marked")
            assert [line[2:13] for line in text.splitlines() if " *✓" in line[:5]] == [
                "✓ bbbbbbbb "
            ] or "*✓ bbbb" in text
            assert rows(pilot).cursor == 0

    journey(steps())


def test_a_narrow_footer_keeps_whole_keys_help_and_quit(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (60, 18)) as pilot:
            await shows(pilot, "? help", "q quit", LIVE[:8])
            # Until the list has been read, no key is hidden.
            await wait_for(pilot, lambda: "c compare" not in seen(pilot.app))
            for width in (60, 66, 80, 120):
                last_line = (await resized(pilot, (width, 18))).splitlines()[-1]
                assert last_line.strip().split("  ")[-1] == "q quit"
                assert width < 80 or "v lanes" in last_line
                assert set(last_line.strip().split("  ")) <= {
                    "? help", "/ filter", "enter open", "e errors", "s stalls", "m mark", "v lanes", "o order",
                    "S stats", "t conversations", "q quit",
                }  # fmt: skip
            await pilot.resize_terminal(120, 30)
            await shows(pilot, "S stats", "q quit", "ttft 110 ms")  # which there is room for now

    journey(steps())


def test_the_preview_parts_no_number_from_its_unit(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            press(pilot, "G")
            await shows(pilot, "4 tokens")
            (figures,) = re.findall("^ (ttft.*)", await resized(pilot, (149, 40)), re.MULTILINE)
            widths = [unit.start() + 3 for unit in re.finditer(r"(?<=\d) [a-z]", figures) if unit.start() > 60]
            assert widths
            for width in widths:
                text = await resized(pilot, (width, 40))
                assert "ttft" in text
                assert not re.search(r"^ (ms|s|events?|reads?|tokens?)\b", text, re.MULTILINE)

    journey(steps())


def test_a_list_across_days_shows_dates(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16, at=1)
        writing.record("b" * 16, at=2)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE exchanges SET started_at = '2026-02-27T09:30:00.000000Z' WHERE no = 1")

    async def steps() -> None:
        async with viewed(path, (160, 40)) as pilot:
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
            await shows(pilot, "2026-03-02 00:00", "03-01 12:00:02")

    journey(steps())


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
