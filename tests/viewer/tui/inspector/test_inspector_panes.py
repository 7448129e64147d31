"""The panes of the inspector: times, the bytes as the socket gave them, and content as Markdown."""

import asyncio
import contextlib
import json
import sqlite3
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rich.style import Style
from textual.pilot import Pilot
from textual.strip import Strip

from tests.support import turns
from tests.support.growing_tape import recorder
from tests.support.sample_tape import DONE, HOSTILE, MS, begin, end, event, recorded, response
from tests.support.screens import Stage, journey, press, resized, seen, shows, staged, strips, typed, wait_for
from wiretape.recorder.tape import digits, packing
from wiretape.viewer.source import decoder
from wiretape.viewer.text import markdown, sparkline
from wiretape.viewer.tui.base import theme as themes
from wiretape.viewer.tui.base.host import Superseded
from wiretape.viewer.tui.dialogs.offers import Later
from wiretape.viewer.tui.inspector.panes import InspectorPanes
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.playing.loader import KeyQueue

ID = "abcd000000000001"
CONTROLS = {*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2066"} - {"\n"}
WORDS = [
    "# Two ",
    "queues\n\n",
    "One for **prefill** ",
    "and one ",
    "for `decode`.\n\n",
    "- a queue\n",
    "- [x](http://y)",
]


def tape_of(path: Path, parts: list[tuple[int, bytes]]) -> Path:
    with recorder(path / "tape.db") as tape:
        tape.record(ID, parts)
    return path / "tape.db"


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with an answer in Markdown: the first read brings two events, the last one ends with half of another."""
    words = [event({"content": word}) for word in WORDS]
    parts = [(100, words[0] + words[1]), (120, words[2]), (2_345, words[3] + words[4][:20]), (2_350, words[4][20:])]
    parts += [(2_400, words[5]), (2_500, words[6] + event({}, "stop") + DONE)]
    return tape_of(tmp_path_factory.mktemp("marked"), parts)


@contextlib.asynccontextmanager
async def inspected(
    tape: Path, at: str | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Stage, Pilot[Any], InspectorScreen]]:
    screen = InspectorScreen(1, at)
    async with staged(tape, lambda: screen, size) as (app, pilot):
        await wait_for(pilot, lambda: screen.is_open)
        yield app, pilot, screen


def listing(app: Any) -> dict[str, str]:
    """Return the time of each listed event, by its number."""
    lines = [line.partition("│")[2] or line for line in seen(app).splitlines()]
    rows = [line.replace(">", " ").split() for line in lines if " content " in line or " finish " in line]
    return {row[0]: row[1] for row in rows if row[0].isdigit()}


def test_t_cycles_the_clocks_and_the_heading_names_them(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (app, pilot, _):
            await pilot.press("2")
            readings = []
            for name in ("since request", "Δ previous event", "wall clock, UTC"):
                await shows(pilot, name)
                readings.append([listing(app)[number] for number in ("0", "1", "2", "3")])
                await pilot.press("T")
            await shows(pilot, "T: since request")
            assert readings == [
                ["0.100", "0.100", "0.120", "2.345"],
                ["–", "same", "20", "2,225"],
                ["12:00:00.100", "12:00:00.100", "12:00:00.120", "12:00:02.345"],
            ]

    journey(steps())


def test_filtered_events_keep_time_since_their_predecessor(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "100%") as (app, pilot, screen):
            await pilot.press("slash")
            await typed(pilot, "queue")
            await pilot.press("enter")
            await wait_for(pilot, lambda: screen.panes.events.row_count == 2)
            await pilot.press("T")
            await shows(pilot, "Δ previous event")
            assert listing(app) == {"1": "same", "5": "50"}
            await pilot.press("2")
            name, page = screen.pages()
            assert (name, [line.split()[:2] for line in page.splitlines()[1:]]) == (
                "events.txt",
                [["1", "same"], ["5", "50"]],
            )

    journey(steps())


def test_playhead_axis_and_input_follow_the_events_clock(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (app, pilot, screen):
            screen_text = []
            for format in ("request", "event", "wall"):
                await wait_for(pilot, lambda format=format: screen.panes.times.format == format)
                lines = seen(app).splitlines()
                at, end = lines[-2].split("%")[0].split("  ")[2].split(" / ")
                second = lines[-3].find("╷12:00:01.000" if format == "wall" else "╷1 s")
                screen_text.append((at.strip(), end.strip(), second))
                await pilot.press("T")
            assert screen_text == [
                ("0.120", "2.502 s", 52),
                ("0.120", "2.502 s", 52),
                ("12:00:00.120", "12:00:02.501", 52),
            ]

    journey(steps())


def test_a_typed_time_finds_the_event_displayed_there(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (app, pilot, screen):

            async def gone_to(text: str) -> int:
                await pilot.press("colon")
                await typed(pilot, text)
                await pilot.press("enter")
                await wait_for(pilot, lambda: app.screen is screen)
                return screen.playback.position - 1

            for time, presses in (("2.345s", 2), ("12:00:02.345", 1)):
                assert listing(app)[str(await gone_to(time))] == time.removesuffix("s")
                assert await gone_to("#2") == 2
                await pilot.press(*["T"] * presses)

    journey(steps())


def test_reads_have_the_clock_of_the_events(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (_, pilot, _):
            await pilot.press("3")
            await shows(pilot, "B ─ +0.120 s ─")
            await pilot.press("T", "T")
            await shows(pilot, "B ─ 12:00:00.120 ─")
            await pilot.press("5")
            await shows(pilot, "from 12:00:00.120")

    journey(steps())


def test_the_playhead_is_behind_what_stands_in_its_cell(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#3") as (_, pilot, screen):
            timeline, looks = screen.panes.timeline, screen.panes.by_name
            await wait_for(pilot, lambda: len(timeline.strips.marks) == timeline.cells)
            rows = [list(timeline.render_line(y)) for y in range(8)]
            column = len(rows[7][0].text + rows[7][1].text)
            assert rows[7][2].text == "▲"
            at = [next(iter(Strip(row).crop(column, column + 1))) for row in rows[:7]]
            assert [segment.text for segment in at[1:]] == ["⣀", "⠇", " ", "c", "▆", "S"]
            crossed = [segment.style.bgcolor == looks["playhead"].bgcolor for segment in at if segment.style]
            assert crossed == [True, True, True, False, True, True, True], "where the curve is"
            assert at[5].style is not None
            assert (at[5].style.reverse, at[5].style.color) == (None, looks["error"].color)
            await pilot.press("end")
            moved = [next(iter(timeline.render_line(y).crop(column, column + 1))) for y in range(7)]
            assert [segment.text for segment in moved] == [segment.text for segment in at]
            styles = {one.text: one.style for one in timeline.render_line(6) if one.text in tuple("CSD")}
            assert list(styles) == ["C", "S", "D"]
            assert all(style is not None and style.reverse and style.bold for style in styles.values())

    journey(steps())


def test_a_wait_is_shaded_and_shows_its_length(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#3") as (_, pilot, screen):
            await shows(pilot, "╱╱ 2.2 s ╱╱")
            looks, row = screen.panes.by_name, screen.panes.timeline.render_line(5)
            behind = "".join(
                segment.text for segment in row if segment.style and segment.style.bgcolor == looks["stalled"].bgcolor
            )
            assert behind.strip("╱") == " 2.2 s "
            await pilot.press("i")
            await shows(pilot, "╱╱ ┆2.2 s┆ ╱╱")

    journey(steps())


def test_the_timeline_uses_the_height_of_a_terminal(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#3") as (_, pilot, screen):
            await wait_for(pilot, lambda: len(screen.panes.timeline.strips.marks) == screen.panes.timeline.cells)
            sizes = (20, 4, 1), (24, 6, 1), (40, 8, 1), (44, 11, 2), (52, 17, 4), (60, 17, 4), (80, 23, 8)
            for rows, height, for_gaps in sizes:
                lines = (await resized(pilot, (120, rows))).splitlines()[-2 - height : -2]
                assert [line[:9].strip() for line in lines[-2:]] == ["markers", ""]
                bounds = [f"≥{bound}".rjust(8) for bound in sparkline.bounds(for_gaps)[:-1]]
                assert [line[:8] for line in lines if "≥" in line] == bounds

    journey(steps())


def test_a_low_terminal_keeps_a_row_of_time(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#3") as (_, pilot, screen):
            await resized(pilot, (60, 16))
            await wait_for(pilot, lambda: screen.panes.timeline.strips.cells == screen.panes.timeline.cells == 50)
            text = await shows(pilot, " gap     ", "╱╱ 2.2 s ╱╱")
            assert "timeline" not in text
            column = screen.panes.timeline.span()[0] + 46
            at = next(iter(screen.panes.timeline.render_line(0).crop(column, column + 1)))
            assert at.style is not None
            assert at.style.bgcolor == screen.panes.by_name["playhead"].bgcolor
            await pilot.click("#timeline", (9, 0))
            assert screen.playback.media_ns <= screen.playback.end_ns // 50
            assert "2.2 s" not in await resized(pilot, (60, 12))

    journey(steps())


def test_the_wire_separates_an_events_bytes_from_its_neighbours(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#4") as (_, pilot, screen):
            await pilot.press("3", "v", "v", "v")
            screen_text = await shows(
                pilot, "bytes · wire", "read 1 ─", "read 2 ─", "read 3 ─", "read 4 ─", "relayed after"
            )
            own_bytes = [line.partition("┃ ")[2].rstrip() for line in screen_text.splitlines() if "┃ " in line]
            sent = event({"content": WORDS[4]}).decode().replace("\n", "␊")
            assert "".join(own_bytes) == sent
            assert own_bytes[0] == sent[:20]
            assert "prefill" in screen_text
            assert "a queue" in screen_text
            await pilot.resize_terminal(80, 40)
            await shows(pilot, "read 2 ─ 1", "B ─ +2.345 s → 0.1 ms ─")
            await pilot.press("v")
            await shows(pilot, "bytes · hex")
            assert screen.panes.bytes.view == "hex"

    journey(steps())


def test_long_lines_stay_whole_and_start_at_the_first(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2", (80, 24)) as (_, pilot, screen):
            await pilot.press("3", "v")
            screen_text = await shows(pilot, "bytes · lines", "─ event #2 ─")
            sent = event({"content": WORDS[2]}).decode().replace("\n", "␊")
            lines = [line.partition("│ ")[2].rstrip() for line in screen_text.splitlines()]
            first_line = next(number for number, line in enumerate(lines) if line.startswith("data: "))
            assert "".join(lines[first_line:]).replace(" ", "").startswith(sent.replace(" ", ""))
            await pilot.press("home")
            assert "event #0 (read 0" in await shows(pilot, "─ event #0 ─", "#–/#8")
            screen.panes.bytes.highlight(5, 5)

    journey(steps())


def test_the_texts_title_says_how_it_is_shown(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (_, pilot, _screen):
            assert "·" not in (await shows(pilot, "─ text @ #2 ─")).partition("text @ #2")[2].partition("│")[0]
            for view in ("gaps as heat", "gaps in figures", "Markdown", "nothing ahead"):
                await pilot.press("v")
                await shows(pilot, f"text @ #2 · {view} ─")
            await pilot.press("v")
            await shows(pilot, "─ text @ #2 ─")

    journey(steps())


def test_a_compressed_bodys_wire_shows_decoded_reads(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    parts = [(100, packer.compress(event({"content": "one"})) + packer.flush(zlib.Z_SYNC_FLUSH))]
    parts += [(200, packer.compress(event({"content": "two"}) + DONE) + packer.flush())]
    tape = tmp_path / "tape.db"
    with recorder(tape) as recording:
        coded = [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")]
        recording.begin(ID, parts, headers=coded)
        recording.end(ID, parts)

    async def steps() -> None:
        async with inspected(tape, "#1") as (_, pilot, _screen):
            await pilot.press("3", "v", "v", "v")
            screen_text = await shows(
                pilot, "the body came as gzip", "┃ data: ", "read 0 ─", f"read 1 ─ {len(parts[1][1])} B"
            )
            assert "two" in screen_text
            assert '"one"' not in screen_text

    journey(steps())


def without_second_and_third(connection: sqlite3.Connection) -> bytes:
    """Return the packed times of the only body without those of its second and third read."""
    differences = packing.numbers_of(connection.execute("SELECT at_ns FROM bodies").fetchone()[0])
    assert differences is not None
    return digits.packed([differences[0], None, None, 3_000_000, *differences[4:]])


@pytest.mark.damages
def test_bytes_without_a_read_have_their_own_rule(tmp_path: Path) -> None:
    tape = tape_of(tmp_path, [(100 + at, event({"content": f"word {at} "})) for at in range(5)])
    size = len(event({"content": "word 0 "}))
    with contextlib.closing(sqlite3.connect(tape)) as connection, connection:
        connection.execute("UPDATE bodies SET at_ns = ?", (without_second_and_third(connection),))
        connection.execute("UPDATE exchanges SET gap_bytes = 77")

    async def steps() -> None:
        async with inspected(tape, "#1") as (_, pilot, screen):
            rule = f"─ no read on the tape brought these {2 * size} B ───"
            await pilot.press("3")
            assert rule in (await shows(pilot, "bytes · hex", "no read "))
            await pilot.press("full_stop", "full_stop")
            hexed = await shows(pilot, f"read 3 ─ {size} B ─ +0.103 s ─")
            assert "no read" not in hexed
            await pilot.press("comma", "v", "v", "v")
            screen_text = await shows(pilot, rule, f"read 3 ─ {size} B ─ +0.103 s ─ relayed after")
            above, below = (part.splitlines() for part in screen_text.split(rule))
            assert any("word 1" in line for line in below)
            assert not any("word 1" in line.partition("│")[2] for line in above)
            assert "are missing" not in screen_text.partition("│")[2]
            await pilot.press("end")
            lost = await shows(pilot, "77 B more are missing from the tape ───")
            assert lost.index("77 B more") > lost.index("word 4")
            await pilot.press("v")
            await shows(pilot, "bytes · hex", "77 B more are missing")
            await pilot.press("T")
            await resized(pilot, (60, 24))
            await pilot.press("home", *["full_stop"] * 2)
            await shows(pilot, f"no read: {2 * size} B ───")
            assert screen.panes.bytes.view == "hex"

    journey(steps())


def test_hostile_bytes_and_hostile_markdown_go_no_further(tmp_path: Path) -> None:
    code = "```\n\x1b]52;c;QQ==\x07\n\x9b2J\n```\n"
    text = f"# {HOSTILE}\n[{HOSTILE}](http://{HOSTILE})\n{code}[/ [@click=app.bell()] &#x1b;"
    tape = tape_of(tmp_path, [(100, event({"content": text}) + b"\x1b]0;t\x07\xff\r\r\n\n" + DONE)])

    async def steps() -> None:
        async with inspected(tape, None, (80, 24)) as (app, pilot, screen):
            await pilot.press("v", "v", "v")
            await shows(pilot, "Markdown")
            await wait_for(pilot, lambda: screen.panes.replay.rendered)
            views = [seen(app)]
            for keys in (["3", "v", "v", "v"], ["comma"], ["comma"]):
                await pilot.press(*keys)
                views.append(await shows(pilot, "wire"))
            assert not CONTROLS & set("".join(views))
            styles = [segment.style or Style() for strip in strips(app) for segment in strip]
            assert not [style for style in styles if style.link]

    journey(steps())


def test_content_is_shown_as_markdown_and_back(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "100%") as (app, pilot, screen):
            await shows(pilot, "**prefill**", "[x](http://y)")
            await pilot.press("v", "v", "v")
            screen_text = await shows(
                pilot, "· Markdown", "One for prefill and one for decode.", " • a queue", "x (http://y)▏"
            )
            assert "**" not in screen_text.partition("timeline")[0].replace("'One for **prefill** '", "")
            await pilot.press("home")
            await shows(pilot, "text @ #– · Markdown")
            await wait_for(pilot, lambda: " • a queue" not in seen(app))
            await pilot.press("full_stop", "full_stop", "full_stop")
            await shows(pilot, "One for prefill▏")
            await pilot.press("v", "v")
            await shows(pilot, "One for **prefill** ▏")
            assert screen.panes.replay.view == "text"

    journey(steps())


def test_markdown_is_rendered_during_play_and_after_resizing(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked) as (app, pilot, screen):
            await pilot.press("v", "v", "v", "home", "space")
            app.watch.ns += 2_400 * MS
            await shows(pilot, "One for prefill and one for decode.", " • a queue▏")
            await pilot.press("z")
            await wait_for(pilot, lambda: screen.panes.replay.size.width == 120)
            await shows(pilot, " • a queue▏")

    journey(steps())


def test_only_a_huge_answers_end_is_rendered(tmp_path: Path) -> None:
    tape = tape_of(
        tmp_path, [(100, event({"content": "*word* " * 100_000})), (200, event({"content": "**end**"}) + DONE)]
    )

    async def steps() -> None:
        async with inspected(tape, "100%") as (_, pilot, screen):
            await pilot.press("v", "v", "v")
            await shows(pilot, "word end▏")
            lines = screen.panes.replay.rendered[0]
            assert lines is not None
            assert len(lines) * screen.panes.replay.size.width < 2 * markdown.MOST
            await pilot.press(*["pageup"] * 12)
            await shows(pilot, "characters before this are left out")

    journey(steps())


def test_words_looked_for_are_found_again_and_before(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#0") as (app, pilot, screen):
            await pilot.press("n")
            await wait_for(pilot, lambda: app.toasts)
            assert app.toasts == ["nothing looked for yet: : and words, or / and a filter for events"]
            await pilot.press("colon")
            await typed(pilot, "QUEUE")
            await pilot.press("enter")
            await wait_for(pilot, lambda: app.screen is screen and screen.playback.position == 2)
            places = []
            for key in ("n", "n", "n", "N", "N", "N"):
                await pilot.press(key)
                places.append(screen.playback.position)
            assert places == [6, 2, 6, 2, 6, 2]
            await pilot.press("colon")
            await typed(pilot, "#4")
            await pilot.press("enter")
            await wait_for(pilot, lambda: app.screen is screen and screen.playback.position == 5)
            await pilot.press("N")
            assert screen.playback.position == 2

    journey(steps())


def test_a_filter_newer_than_words_steps_through_events(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#0") as (app, pilot, screen):

            async def ask_for(key: str, text: str) -> None:
                await pilot.press(key)
                await typed(pilot, text)
                await pilot.press("enter")
                await wait_for(pilot, lambda: app.screen is screen)

            async def places(keys: str) -> list[int]:
                readings = []
                for key in keys:
                    await pilot.press(key)
                    readings.append(screen.playback.position)
                return readings

            await ask_for("slash", "for")
            await wait_for(pilot, lambda: screen.panes.events.row_count == 2)
            assert await places("nnnNN") == [3, 5, 3, 5, 3]
            await ask_for("colon", "queue")
            assert screen.playback.position == 6
            assert await places("nN") == [2, 6]  # of the words, though the filter stands
            await ask_for("slash", "gap>60s")
            await wait_for(pilot, lambda: screen.panes.events.row_count == 0)
            assert await places("n") == [6]
            assert app.toasts == ["no event fits gap>60s"]
            await ask_for("slash", "")
            await wait_for(pilot, lambda: screen.panes.events.matches is None)
            assert await places("nn") == [2, 6]

    journey(steps())


def test_a_filter_shows_events_on_small_terminals(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, size=(80, 24)) as (_, pilot, screen):
            await pilot.press("1", "slash")
            await typed(pilot, "queue")
            await pilot.press("enter")
            await shows(pilot, "events 2 /", "queue")
            assert screen.panes.tab.number == 1

    journey(steps())


def test_going_up_and_down_waits_for_the_events(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)

    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(marked, lambda: screen) as (app, pilot):
            await wait_for(pilot, lambda: app.screen is screen)
            await press(
                pilot, "2", "end", "up", "up", "comma", "down", "up", "enter"
            )  # whether it is open by now or not
            await wait_for(pilot, lambda: screen.panes.tab.number == 2 and screen.is_open)
            await wait_for(pilot, lambda: screen.playback.position == 6)

    journey(steps())


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A tape with a request of 30 messages: a needle in two of them."""
    questions = [f"Question {number}: " + "why is it slow? " * 20 for number in range(30)]
    questions[7] = f"The Needle of [/it]. {questions[7]}"
    questions[25] = f"Another NEEDLE. {questions[25]}"
    messages = [{"role": "user", "content": content} for content in questions]
    request = json.dumps({"model": "m", "stream": True, "messages": messages}).encode()
    parts = [(100, event({"content": "Hm"}, "stop") + DONE)]
    id = "a" * 16
    return recorded(tmp_path / "tape.db", [begin(id, 0, request), *response(id, parts), end(id, parts)])


async def looks_for(pilot: Pilot[Any], words: str) -> None:
    await press(pilot, "slash")
    await shows(pilot, "request: words to find")
    await typed(pilot, words)
    await press(pilot, "enter")


def test_words_are_looked_for_in_all_request_messages(talk: Path) -> None:
    async def steps() -> None:
        async with staged(talk, lambda: InspectorScreen(1)) as (_, pilot):
            await press(pilot, "4")
            assert "Needle" not in await shows(pilot, "request · messages", "Question 0", "/ search")
            await looks_for(pilot, "needle")
            screen_text = await shows(pilot, "request · messages (v: as sent) · needle: 1 / 2", "The Needle of [/it].")
            assert "Another NEEDLE" not in screen_text
            for key, place, text in (("n", 2, "Another NEEDLE."), ("n", 1, "The Needle"), ("N", 2, "Another NEEDLE.")):
                await press(pilot, key)
                await shows(pilot, f"needle: {place} / 2", text)
            await press(pilot, "v")
            assert "needle: " not in await shows(pilot, "request · as sent")
            await press(pilot, "2")
            await shows(pilot, "/ filter")

    journey(steps())


def test_words_are_looked_for_in_a_raw_request(talk: Path) -> None:
    async def steps() -> None:
        async with staged(talk, lambda: InspectorScreen(1)) as (app, pilot):
            await press(pilot, "4", "n")
            await wait_for(pilot, lambda: "nothing looked for yet: / and words" in app.toasts)
            await press(pilot, "v")
            await shows(pilot, "request · as sent")
            await looks_for(pilot, '"stream"')
            await shows(pilot, 'request · as sent · "stream": 1 / 1')
            await looks_for(pilot, "haystack")
            await wait_for(pilot, lambda: "not in the request: haystack" in app.toasts)
            assert "stream" not in (await shows(pilot, "request · as sent ─")).splitlines()[2]

    journey(steps())


def test_a_copy_during_decoding_is_waited_for(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)

    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(marked, lambda: screen) as (app, pilot):
            copies = dict(await wait_for(pilot, screen.copies))
            was_open, body = screen.is_open, copies["body"]
            assert isinstance(body, Later)
            assert "- a queue" in await body.read()
            assert screen.is_open
            assert was_open or "it is still being decoded, and copied as soon as that is done" in app.toasts

    journey(steps())


def test_a_waiting_copy_is_given_up_with_its_screen(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)

    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(marked, lambda: screen) as (app, pilot):
            copies = dict(await wait_for(pilot, screen.copies))
            body = copies["body"]
            assert isinstance(body, Later)
            copied = asyncio.ensure_future(body.read())
            app.pop_screen()
            with contextlib.suppress(Superseded):  # unless it was decoded before
                assert "- a queue" in await copied

    journey(steps())


def test_before_it_is_shown_nothing_has_a_colour() -> None:
    panes = InspectorPanes(KeyQueue(lambda _: True), lambda _: None)
    assert panes.by_name["error"] == Style()
    assert not [style for style in panes.by_name.values() if style.color or style.bgcolor]


def test_upcoming_text_and_timelines_are_legible_in_both_themes(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#3") as (app, pilot, screen):
            await shows(pilot, "╱╱ 2.2 s ╱╱")
            panes = screen.panes
            for theme in themes.THEMES:
                app.theme, ground = theme.name, str(theme.background).lower()
                await wait_for(pilot, lambda ground=ground: panes.by_name["ground"].bgcolor.name == ground)
                ratios: dict[str, float] = {}
                for widget, rows in ((panes.replay, range(8)), (panes.events, range(3, 8)), (panes.timeline, range(8))):
                    for piece in (piece for row in rows for piece in widget.render_line(row) if piece.text.strip()):
                        colors = piece.style.color.get_truecolor().hex, piece.style.bgcolor.get_truecolor().hex
                        ratios[piece.text] = min(themes.contrast(*colors), ratios.get(piece.text, 21.0))
                assert {"- a queue", "▲"} <= ratios.keys()
                assert {text: ratio for text, ratio in ratios.items() if ratio < 4.5} == {}

    journey(steps())


def test_playing_shows_nothing_ahead_of_the_playhead(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (_, pilot, _):
            await shows(pilot, "a queue", "'- a queue␊'")
            await pilot.press("space")
            screen_text = await shows(pilot, "▶ playing", "prefill")
            assert "'queues␊␊'" in screen_text
            assert "a queue" not in screen_text
            assert "2.345" not in screen_text
            await pilot.press("space")
            await shows(pilot, "‖ paused", "a queue", "2.345")

    journey(steps())


def test_keys_that_do_not_apply_are_named_nowhere(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (app, pilot, screen):
            names = []
            for pane in range(5):
                await pilot.press(str(pane + 1))
                await wait_for(pilot, lambda pane=pane: screen.panes.tab.number == pane)
                active = {
                    active.binding.id.rpartition(".")[2]
                    for active in screen.active_bindings.values()
                    if active.binding.id
                }
                names.append({"view", "filter", "open", "fold", "choice"} & active)
                line = seen(app).splitlines()[-1]
                assert ("filter" in line, "search" in line) == (pane in (0, 1), pane == 3)
                assert {"play", "goto", "help"} <= active
            assert names == [{"view", "filter", "open"}, {"filter", "open"}, {"view"}, {"view", "filter"}, set()]

    journey(steps())


def test_the_heading_has_the_verdict_and_not_its_flag(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked, "#2") as (_, pilot, _):
            screen_text = await shows(pilot, "stall 2.2 s by upstream")
            assert "stall  " not in screen_text.splitlines()[0].replace("stall 2.2 s", "")

    journey(steps())


def test_requests_show_in_short_in_full_and_raw(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "tape.db", list(turns.frames()))

    async def steps() -> None:
        async with staged(tape, lambda: InspectorScreen(2)) as (_, pilot):
            await pilot.press("4")
            screen_text = await shows(
                pilot, "request · messages (v: as sent)", "── new since 11110000 ─", "Yes: ␛[31msnow."
            )
            assert "Rule 1." not in screen_text
            assert "2 assistant  I look. call get_weather" in screen_text
            await pilot.press("r")
            await shows(pilot, "Rule 9.")
            await pilot.press("v")
            assert "Rule 9." not in (await shows(pilot, "request · as sent", "authorization: ")).partition("body")[0]
            await press(pilot, "v", "r")
            await shows(pilot, "answer · complete, finish reason stop")

    journey(steps())


def test_a_request_without_messages_is_shown_raw(marked: Path) -> None:
    async def steps() -> None:
        async with inspected(marked) as (_, pilot, screen):
            await pilot.press("4")
            await shows(pilot, "request · as sent")
            assert screen.panes.request.turn is None
            await pilot.press("v")
            await shows(pilot, "request · messages", "answer · complete")

    journey(steps())
