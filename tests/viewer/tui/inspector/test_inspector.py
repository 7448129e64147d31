"""The inspector: one exchange, one playhead, every pane."""

import asyncio
import contextlib
import gc
import json
import threading
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Region
from textual.pilot import Pilot

from tests.support.growing_tape import recorder
from tests.support.sample_tape import (
    COMPLETE,
    COMPLETE_READS,
    DONE,
    FAILED,
    HOSTILE,
    LIMITED,
    LIVE,
    MS,
    ODD,
    TOOLS,
    event,
)
from tests.support.screens import (
    SIZES,
    Stage,
    assert_golden,
    journey,
    press,
    resized,
    seen,
    shows,
    staged,
    typed,
    wait_for,
)
from tests.support.wires import WIRES
from wiretape.viewer.exchange.opened import OpenedExchange
from wiretape.viewer.source import decoder
from wiretape.viewer.source.decoder import Decoder
from wiretape.viewer.source.tape import queries
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.dialogs.offers import Later
from wiretape.viewer.tui.inspector import pages
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.playing.loader import Loader

STALLED = "abcd000000000001"
CONTROLS = {*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2066"} - {"\n"}


def number(tape: Path, id: str) -> int:
    with queries.opened(tape) as connection:
        return queries.find(connection, id)


@contextlib.asynccontextmanager
async def inspected(
    tape: Path, id: str, size: tuple[int, int] = (120, 40), at: str | None = None, *, ascii: bool = False
) -> AsyncIterator[tuple[Stage, Pilot[Any], InspectorScreen]]:
    """Open an exchange, and wait until it is decoded."""
    screen = InspectorScreen(number(tape, id), at)
    async with staged(tape, lambda: screen, size, ascii=ascii) as (app, pilot):
        await wait_for(pilot, lambda: screen.is_open)
        await wait_for(pilot, lambda: len(screen.panes.timeline.strips.marks) == screen.panes.timeline.cells)
        yield app, pilot, screen


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with one answer that thinks, speaks, stalls, and calls a tool."""
    parts = [(388, event({"role": "assistant", "content": ""}) + event({"reasoning_content": "The user"}))]
    parts += [(399 + 11 * at, event({"reasoning_content": f" thought {at}"})) for at in range(12)]
    words = "The scheduler keeps two queues: one for prefill and one for decode. When a long prompt arrives the queue"
    parts += [(900 + 11 * at, event({"content": f"{word} "})) for at, word in enumerate(words.split())]
    remainder = "waits for the chunk to finish, which is what you see as a stall in the stream."
    at_ms = parts[-1][0] + 2914
    parts.append((at_ms, event({"content": "waits "}) + event({"content": "for "})))
    parts += [(at_ms + 11 * at, event({"content": f"{word} "})) for at, word in enumerate(remainder.split()[2:], 1)]
    last_ms = parts[-1][0]
    tool = {"index": 0, "id": "call_1", "function": {"name": "get_metrics", "arguments": '{"window":'}}
    parts.append((last_ms + 30, event({"tool_calls": [tool]})))
    parts.append((last_ms + 41, event({"tool_calls": [{"index": 0, "function": {"arguments": '"5m"}'}}]})))
    parts.append((last_ms + 60, event({}, "tool_calls") + DONE))
    path = tmp_path_factory.mktemp("stalled") / "tape.db"
    with recorder(path) as tape:
        tape.record(STALLED, parts, path="/v1/chat/completions")
    return path


def test_the_panes_look_as_they_did(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED, at="#34") as (_, pilot, screen):
            panes = ("1", "replay"), ("2", "events"), ("3", "raw"), ("5", "timing")
            for size in ((60, 16), *SIZES, (200, 60)):
                await resized(pilot, size)
                await wait_for(pilot, lambda: len(screen.panes.timeline.strips.marks) == screen.panes.timeline.cells)
                for key, pane in panes if size in SIZES else panes[:1]:
                    await pilot.press(key)
                    await pilot.pause()
                    assert_golden(f"inspector-{pane}-{size[0]}x{size[1]}", seen(pilot.app))

    journey(steps())


def test_open_play_step_seek_and_jump_to_a_stall(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (app, pilot, screen):
            playback = screen.playback
            await pilot.press("end")
            events = playback.position
            await pilot.press("home", "space")
            assert (playback.playing, playback.position) == (True, 0)
            app.watch.ns += 500 * MS
            await wait_for(pilot, lambda: playback.position == 12)
            await pilot.press("comma", "comma")
            assert (playback.playing, playback.position) == (False, 10)
            await pilot.press("colon")
            await typed(pilot, "50%")
            await pilot.press("enter")
            await wait_for(pilot, lambda: playback.media_ns == playback.end_ns // 2)
            await pilot.press("end", "right_curly_bracket")
            assert screen.panes.events.beside(0) == playback.position - 1
            await shows(pilot, "2,914", "STALL", "queue ▏")
            assert playback.media_ns == 1_098 * MS
            await pilot.press("end")
            assert playback.position == events

    journey(steps())


def test_a_finished_stream_opens_at_its_start_as_ghost(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED, (60, 16)) as (app, pilot, screen):
            playback = screen.playback
            assert (playback.position, playback.media_ns) == (0, 0)
            await shows(pilot, "text @ #–", "░ The scheduler keeps", "space play 4.2 s", "q back")
            await pilot.press("space")
            app.watch.ns += 500 * MS
            await wait_for(pilot, lambda: playback.position == 12)
            assert "play 4.2 s" not in seen(app)
            await pilot.press("end")
            assert "play 4.2 s" not in await shows(pilot, " space play ")

    journey(steps())


def test_a_one_piece_answer_opens_as_plain_text(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as tape:
        tape.record(STALLED, [(100, event({"content": "all at once"}))])

    async def steps() -> None:
        async with inspected(tmp_path / "tape.db", STALLED) as (_, pilot, screen):
            assert screen.playback.position == 1
            assert "░" not in await shows(pilot, "all at once▏")

    journey(steps())


def test_a_stall_is_played_with_seconds_around_it(tmp_path: Path) -> None:
    at_ms = (200, 4_000, 4_500, 5_000, 7_200, 7_500, 8_500, 9_000)
    with recorder(tmp_path / "tape.db") as tape:
        tape.record(STALLED, [*((at, event({"content": f"{at} "})) for at in at_ms), (9_500, DONE)])

    async def steps() -> None:
        async with inspected(tmp_path / "tape.db", STALLED) as (app, pilot, screen):
            playback = screen.playback
            await pilot.press("p")  # from the start the longest, which ends at 4 s
            assert (playback.playing, playback.media_ns) == (True, 0)
            app.watch.ns += 60_000 * MS
            await wait_for(pilot, lambda: not playback.playing)
            assert (playback.media_ns, playback.position) == (5_000 * MS, 4)
            await pilot.press("home", *["right_curly_bracket"] * 2)
            assert (playback.media_ns, playback.position) == (5_000 * MS, 4)
            await pilot.press("p")
            assert (playback.playing, playback.media_ns) == (True, 2_000 * MS)
            app.watch.ns += 5_900 * MS
            await wait_for(pilot, lambda: playback.position == 6)
            assert playback.playing
            app.watch.ns += 60_000 * MS
            await wait_for(pilot, lambda: not playback.playing)
            assert (playback.media_ns, playback.position) == (8_200 * MS, 6)
            await pilot.press("space")
            app.watch.ns += 60_000 * MS
            await wait_for(pilot, lambda: playback.at_end)
            assert app.toasts == []

    journey(steps())


def test_without_a_stall_there_is_none_to_play(tape: Path) -> None:
    async def steps() -> None:
        async with inspected(tape, COMPLETE) as (app, pilot, screen):
            await pilot.press("p", "right_curly_bracket")
            await wait_for(pilot, lambda: app.toasts == ["no stall here"] * 2)
            assert "} stall" not in seen(app)
            assert (screen.playback.playing, screen.playback.position) == (False, 0)

    journey(steps())


def test_every_key_of_the_transport_moves_the_playhead(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (app, pilot, screen):
            playback = screen.playback
            keys = "home . right left l h { e u . u , G g".replace(".", "full_stop").replace(",", "comma")
            places = []
            for key in keys.replace("{", "left_curly_bracket").split():
                await pilot.press(key)
                places.append(playback.position)
            assert places == [0, 1, 33, 2, 33, 2, 33, 33, 33, 34, 34, 33, 54, 0]
            assert "no error and no unreadable event here" in app.toasts
            await pilot.press("greater_than_sign", "greater_than_sign", "less_than_sign", "i")
            assert (playback.speed, playback.cap_ns) == (2.0, 2_000_000_000)
            await pilot.press("less_than_sign", "i", "i")
            assert (playback.speed, playback.cap_ns) == (1.0, None)

    journey(steps())


def test_one_can_seek_timestamps_events_and_words(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED, at="#4") as (app, pilot, screen):
            places = []
            for text in ("#6", "400ms", "prefill", "+11ms", "@content", "@tool"):
                await pilot.press("colon")
                await typed(pilot, text)
                await pilot.press("enter")
                await wait_for(pilot, lambda: app.screen is screen)
                places.append(screen.playback.position)
            assert places == [7, 3, 22, 23, 15, 51]
            assert app.toasts == []

    journey(steps())


def test_a_nonexistent_position_keeps_the_typed_text(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED, at="#5") as (app, pilot, screen):
            for text in ("never that", "#9999", "!"):
                await pilot.press("colon")
                await typed(pilot, text)
                await pilot.press("enter")
                await shows(pilot, f"│ {text} ", f"no such position: '{text}'; use 3.2s, 50%, +10%, #120")
                await pilot.press("escape")
                await wait_for(pilot, lambda: app.screen is screen)
            await pilot.press("colon")
            await typed(pilot, "scheduler kneels")
            await pilot.press("enter")
            await shows(pilot, "no such position")
            await typed(pilot, "scheduler keeps")
            await pilot.press("enter")
            await wait_for(pilot, lambda: app.screen is screen)
            assert screen.playback.position == 17
            assert app.toasts == []

    journey(steps())


def test_events_are_filtered_and_a_wrong_filter_is_reported(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (_, pilot, screen):
            await pilot.press("2", "slash")
            await typed(pilot, "kind:words")
            await pilot.press("enter")
            await shows(pilot, "words is no kind")
            assert screen.panes.events.matches is None
            await typed(pilot, "kind:tool")
            await pilot.press("enter")
            await wait_for(pilot, lambda: screen.panes.events.row_count == 2)
            await shows(pilot, "kind:tool")
            await pilot.press("home", "down")
            start = screen.playback.position
            await pilot.press("down", "enter")
            assert (screen.panes.tab.number, screen.playback.position) == (2, start + 1)
            await shows(pilot, "tool_calls : array", "read ")
            await pilot.press("down", "down", "v", "v")
            await shows(pilot, '"tool_calls": [')

    journey(steps())


def test_the_reasoning_folds_and_silences_are_shown(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (_, pilot, _screen):
            await shows(pilot, "▸ reasoning")
            await pilot.press("r", "v", "v")
            await shows(pilot, "▾ reasoning", "The user thought 0", "┊+2.914 s┊")
            await pilot.press("home", "v", "v")
            await wait_for(pilot, lambda: "thought 0" not in seen(pilot.app).partition("events")[0])

    journey(steps())


def test_panes_can_be_zoomed_to_the_whole_width(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (_, pilot, screen):
            await pilot.press("z")
            await wait_for(pilot, lambda: "timeline" not in seen(pilot.app))
            await pilot.press("z", "tab")
            assert screen.panes.active.id == "events"
            departures = []
            for _ in range(5):
                await pilot.press("tab")
                departures.append(screen.panes.active.id)
            assert departures == ["events", "tree", "bytes", "request", "timing"]
            await pilot.press("shift+tab")
            assert screen.panes.active.id == "request"
            await pilot.press("2")
            await wait_for(pilot, lambda: screen.panes.events.size.width > 110)
            assert "text @" not in seen(pilot.app)
            await pilot.press("1")
            await shows(pilot, "text @", "events 54 / 54")

    journey(steps())


def test_a_click_scrubs_selects_and_opens(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (_, pilot, screen):
            await pilot.click("#timeline", offset=(9, 2))
            assert screen.playback.position == 0
            await pilot.click("#events", offset=(10, 4))
            assert screen.playback.position == 5
            await pilot.click("#tabs", offset=(30, 0))
            assert screen.panes.tab.number == 3
            await pilot.resize_terminal(60, 16)
            await wait_for(pilot, lambda: "timeline" not in seen(pilot.app))

    journey(steps())


def test_before_it_is_decoded_its_text_is_there(stalled: Path) -> None:
    async def steps() -> None:
        screen = InspectorScreen(number(stalled, STALLED))
        async with staged(stalled, lambda: screen) as (_, pilot):
            screen_text = await shows(pilot, "the stream.")
            assert screen.is_open or "decoding …" in screen_text

    journey(steps())


def test_a_large_exchange_is_decoded_in_another_process(stalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)

    async def steps() -> None:
        async with inspected(stalled, STALLED) as (_, _pilot, screen):
            assert screen.panes.events.row_count == 54

    journey(steps())


def test_a_growing_stream_is_followed_until_somebody_looks_elsewhere(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (_, pilot):
                await shows(pilot, "● following", "Hel", "0.110+ s")
                tape.go_on(LIVE, COMPLETE_READS, 2, 3)
                await wait_for(pilot, lambda: screen.playback.position == 5)
                await shows(pilot, "Hello, ▏")
                await pilot.press("comma")
                tape.go_on(LIVE, COMPLETE_READS, 3, 4)
                tape.go_on(LIVE, COMPLETE_READS, 4, 5)
                await shows(pilot, "#3/#5")
                await pilot.press("end")
                await shows(pilot, "#5/#5", "following")
                tape.end(LIVE, COMPLETE_READS[:5])
                await wait_for(pilot, lambda: not screen.is_live)
                await shows(pilot, "truncated")

    journey(steps())


def test_a_recorder_that_died_is_reported(tape: Path) -> None:
    async def steps() -> None:
        async with inspected(tape, LIVE) as (app, pilot, _):
            app.watch.ns += 60 * 10**9
            await shows(pilot, "? orphan", "recorder pid 1 gone; last heard of 2026-03-01 12:00:00")

    journey(steps())


def test_failed_and_deleted_exchanges_say_why(tape: Path) -> None:
    async def steps() -> None:
        async with inspected(tape, FAILED) as (app, pilot, _screen):
            await shows(pilot, "overloaded", "error")
            app.push_screen(InspectorScreen(number(tape, LIMITED)))
            await shows(pilot, "slow down", "error")
            app.push_screen(InspectorScreen(999))
            await shows(pilot, "this exchange is not on the tape any more")

    journey(steps())


def _long(tmp_path: Path) -> Path:
    """Make a tape with a line of two megabytes, brackets, an unreadable event and bytes that are no UTF-8."""
    parts = [
        (100, event({"content": "x" * 1_100_000})),
        (110, event({"content": "[/ [bold] [@click=app.bell()] \x1b]0;t\x07" + HOSTILE})),
        (120, b'data: {"broken": \xff\n\n'),
        (130, DONE),
    ]
    with recorder(tmp_path / "tape.db") as tape:
        tape.record(ODD, parts)
    return tmp_path / "tape.db"


@pytest.mark.parametrize("ascii", [False, True], ids=["long", "ascii"])
def test_hostile_text_is_shown_and_goes_no_further(tape: Path, tmp_path: Path, ascii: bool) -> None:
    tape_path = tape if ascii else _long(tmp_path)

    async def steps() -> None:
        async with inspected(tape_path, ODD, (80, 24), ascii=ascii) as (_, pilot, screen):
            for keys in (
                "1",
                "b",
                "b",
                "2",
                "3",
                "v",
                "v",
                "4",
                "5",
                "6",
                "3",
                "up",
                "comma",
                "comma",
                "1",
                "home",
                "t",
            ):
                await pilot.press(keys)
                await pilot.pause()
                screen_text = seen(pilot.app)
                assert not CONTROLS & set(screen_text)
                assert not ascii or screen_text.isascii()
            assert screen.copies()

    journey(steps())


def test_what_can_be_copied_and_exported_names_the_exchange(tape: Path) -> None:
    async def steps() -> None:
        async with inspected(tape, COMPLETE, at="100%") as (_, _pilot, screen):
            copies = dict(screen.copies())
            assert copies["id"] == COMPLETE
            assert copies["command"] == f"wiretape show --db {tape} {COMPLETE}"
            assert copies["text"] == "Hello, world"
            assert json.loads(copies["request body"]) == {"model": "gpt-x-mini", "stream": True}
            assert copies["event #8"] == "data: [DONE]\n\n"
            assert all(arguments[:4] == ["export", "--db", str(tape), COMPLETE] for _, arguments in screen.exports())

    journey(steps())


def test_an_overlong_copy_is_offered_with_its_command(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LONGEST_COPY", 5)

    async def steps() -> None:
        async with inspected(tape, TOOLS, at="100%") as (_, _pilot, screen):
            copies = {label: text for label, text in screen.copies() if isinstance(text, Later)}
            on = f"--db {tape} {TOOLS}"
            assert {label: text.command for label, text in copies.items()} == {
                "reasoning": f"wiretape export {on} --table texts",
                "request body": f"wiretape show {on} --part request",
                "arguments of get_weather": f"wiretape export {on} --table texts",
                "curl": f"wiretape show {on} --part request",
                "body": f"wiretape show {on} --part raw",
                "event #4": f"wiretape show {on} --part raw",
            }
            assert copies["arguments of get_weather"].description == '{"city":"Oslo"}'
            assert await copies["arguments of get_weather"].read() == '{"city":"Oslo"}'

    journey(steps())


def test_there_is_nothing_to_copy_before_anything_is_known() -> None:
    screen = InspectorScreen(1)
    assert (screen.copies(), screen.exports()) == ([], [])


def test_nothing_is_missed_while_it_is_suspended(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (app, pilot, screen):
            playback = screen.playback
            await pilot.press("home", "space")
            app.watch.ns += 500 * MS
            await wait_for(pilot, lambda: playback.position == 12)
            app.app_suspend_signal.publish(app)
            app.watch.ns += 60_000 * MS
            app.app_resume_signal.publish(app)
            await shows(pilot, "‖ paused", "#11/#", "0.500 /")
            assert (playback.position, playback.media_ns) == (12, 500 * MS)
            await pilot.press("space")
            app.watch.ns += 20 * MS
            await wait_for(pilot, lambda: playback.position == 14)

    journey(steps())


def test_playing_stops_at_the_end_at_most_speed_too(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (app, pilot, screen):
            await pilot.press("home", "space")
            app.watch.ns += 4_238 * MS
            await wait_for(pilot, lambda: screen.playback.position == 54)
            app.watch.ns += 10_000 * MS
            await wait_for(pilot, lambda: not screen.playback.playing)
            await pilot.press("space")
            assert (screen.playback.playing, screen.playback.position) == (True, 0)
            await press(pilot, *["greater_than_sign"] * 6)
            await wait_for(pilot, lambda: not screen.playback.playing and screen.playback.position == 54)
            await shows(pilot, "max")

    journey(steps())


def test_keys_pressed_during_decoding_keep_their_order(stalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)
    pressed, answer = threading.Event(), Decoder.answer

    def answer_late(self: Decoder, on_start: Any = None) -> OpenedExchange:
        pressed.wait()
        return answer(self, on_start)

    monkeypatch.setattr(Decoder, "answer", answer_late)

    async def steps() -> None:
        screen = InspectorScreen(number(stalled, STALLED))
        async with staged(stalled, lambda: screen) as (app, pilot):
            await wait_for(pilot, lambda: app.screen is screen)
            await press(pilot, "right_curly_bracket", "full_stop")
            assert not screen.is_open
            pressed.set()
            await wait_for(pilot, lambda: screen.is_open and screen.playback.position == 34)

    journey(steps())


def test_jumping_into_folded_reasoning_unfolds_it_meanwhile(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (app, pilot, screen):
            await shows(pilot, "▸ reasoning")
            await pilot.press("colon")
            await typed(pilot, "#4")
            await pilot.press("enter")
            await wait_for(pilot, lambda: app.screen is screen)
            await shows(pilot, "▾ reasoning", "thought 2▏")
            await pilot.press("r", "full_stop")
            await shows(pilot, "▸ reasoning", "#5/#53")

    journey(steps())


def test_a_recorder_that_returns_is_not_gone(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            async with staged(tmp_path / "tape.db", lambda: InspectorScreen(1)) as (app, pilot):
                await shows(pilot, "● following")
                app.watch.ns += 60 * 10**9
                await shows(pilot, "? orphan")
                tape.beat("2026-03-01T12:00:58.000000Z")
                await shows(pilot, "● open")

    journey(steps())


@pytest.mark.parametrize("body", [b'{"error":{"code":"slow","message":"later"}}', b"<h1>Too many</h1>", b""])
def test_an_unstreamed_answer_shows_its_body(tmp_path: Path, body: bytes) -> None:
    parts = [(100, body)]
    with recorder(tmp_path / "tape.db") as tape:
        tape.record(LIMITED, parts)

    async def steps() -> None:
        async with inspected(tmp_path / "tape.db", LIMITED) as (_, pilot, _screen):
            await pilot.press("3")
            expected_by_start = {
                b"{": ('code : "slow"', "7b 22 65"),
                b"<": ("<h1>Too many", "3c 68 31"),
                b"": ("no body came",),
            }
            await shows(pilot, *expected_by_start[body[:1]])

    journey(steps())


def test_what_changes_behind_it_draws_nothing(stalled: Path) -> None:
    async def steps() -> None:
        async with inspected(stalled, STALLED) as (_, _pilot, screen):
            dirty = screen._compositor._dirty_regions.copy()  # noqa: SLF001 - the only record of pending drawing
            screen.refresh(Region(0, 0, 120, 40))
            assert screen._compositor._dirty_regions == dirty  # noqa: SLF001

    journey(steps())


def test_leaving_while_it_is_still_decoded_is_no_error(stalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)
    decoders, ask = [], Decoder.ask
    monkeypatch.setattr(Decoder, "ask", lambda self, no: (ask(self, no), decoders.append(no)))

    async def steps() -> None:
        screen = InspectorScreen(number(stalled, STALLED))
        async with staged(stalled, lambda: screen) as (app, pilot):
            await wait_for(pilot, lambda: decoders)
            app.action_leave()
            await wait_for(pilot, lambda: screen not in app.screen_stack)
            await asyncio.sleep(0)

    journey(steps())


def test_what_was_looked_at_is_let_go_of(stalled: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(stalled)
        gc.unfreeze()
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_for(pilot, gc.get_freeze_count)  # objects from the start are not collected, and need not be
            await app.push_screen(InspectorScreen(number(stalled, STALLED)))
            await wait_for(pilot, lambda: isinstance(app.screen, InspectorScreen) and app.screen.is_open)
            assert isinstance(app.screen, InspectorScreen)
            reference = weakref.ref(app.screen)
            app.action_leave()
            await wait_for(pilot, lambda: gc.collect() is not None and reference() is None)

    journey(steps())


def test_a_process_asked_while_leaving_is_ended(stalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 100)
    decoders: list[Decoder] = []

    async def steps() -> None:
        screen = InspectorScreen(number(stalled, STALLED))
        async with staged(stalled, lambda: screen) as (app, pilot):
            await wait_for(pilot, lambda: screen.is_open)
            loader, ask = Loader(app, number(stalled, STALLED), print, print, print), app.decoders.ask

            def ask_as_it_is_left(no: int) -> Decoder:
                decoders.append(ask(no))
                loader.close()
                return decoders[-1]

            monkeypatch.setattr(app.decoders, "ask", ask_as_it_is_left)
            await loader.load_facts()

    journey(steps())
    assert [one.process.poll() is not None for one in decoders] == [True]


def test_reasoning_is_folded_and_arguments_grow_whatever_the_api(wires: Path) -> None:
    async def steps() -> None:
        for name, at in (("messages", "#13"), ("bedrock", "#7"), ("dashscope", "#11")):
            async with inspected(wires, f"{list(WIRES).index(name):016x}", at=at) as (_, pilot, _screen):
                screen_text = await shows(
                    pilot, "▸ reasoning  12 chars", "get_weather  8/15 chars  incomplete", "Let me see."
                )
                assert "Look it up." not in screen_text
                await press(pilot, "r")
                await shows(pilot, "▾ reasoning", "Look it up.")

    journey(steps())


def test_a_binary_event_shows_its_type_and_data(wires: Path) -> None:
    async def steps() -> None:
        async with inspected(wires, f"{list(WIRES).index('bedrock'):016x}", at="#1") as (_, pilot, screen):
            await shows(
                pilot, "boundary     0 messageStart {", "finish      10 tool_use", "usage       11 12 in, 9 out"
            )
            await press(pilot, "3")
            await shows(pilot, "type : contentBlockDelta", 'text : "Look it "', "bytes · hex")
            await press(pilot, "v", "v")
            await shows(pilot, "bytes · JSON", '"text": "Look it "')
            name, text = screen.pages()
            assert (name, json.loads(text)["delta"]["reasoningContent"]["text"]) == ("event.json", "Look it ")

    journey(steps())
