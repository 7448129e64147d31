"""The inspector while a stream still runs, and where it has something to say that is no figure."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE_READS, DONE, LIVE, MS, event
from tests.support.screens import journey, press, resized, shows, staged, typed, wait_for
from wiretape.viewer.tui.inspector.screen import InspectorScreen


def test_a_silent_stream_shows_its_silence_until_orphaned(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (app, pilot):
                assert "silent" not in await shows(pilot, "● following", "0.110 / 0.110+ s")
                app.watch.ns += 1_500 * MS
                await shows(pilot, "● following", "1.500 / 1.500+ s", "silent for 1.4 s")
                app.watch.ns += 1_000 * MS
                await shows(pilot, "2.500+ s", "silent for 2.4 s", "gaps × 5 ms · 2.500 s", "╷2 s")
                await press(pilot, "comma")
                screen_text = await shows(pilot, "0.100 / 2.500+ s")
                assert "following" not in screen_text
                assert "silent for" not in screen_text
                await press(pilot, "colon")
                await shows(pilot, "go to:")
                await typed(pilot, "1.31s")
                await press(pilot, "enter")
                await shows(pilot, "1.310 / 2.500+ s", "silent for 1.2 s")
                await press(pilot, "end")
                await shows(pilot, "● following")
                app.watch.ns += 60_000 * MS
                screen_text = await shows(pilot, "? orphan", "‖ paused", "0.110 / 0.110 s")
                assert "following" not in screen_text
                assert "silent for" not in screen_text
                await press(pilot, "home", "end")
                assert "following" not in await shows(pilot, "0.110 / 0.110 s")

    journey(steps())


def test_the_last_events_before_a_kill_are_shown(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (app, pilot):
                await shows(pilot, "● following", "0.110 / 0.110+ s")
                app.watch.ns += 3_600_000 * MS
                tape.go_on(LIVE, COMPLETE_READS, 2, 5)
                screen_text = await shows(pilot, "? orphan", "‖ paused", "0.170 / 0.170 s", "100 %")
                assert "Hello, world" in screen_text
                assert "following" not in screen_text

    journey(steps())


def test_a_followed_tape_that_disappears_is_called_gone(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (_, pilot):
                await shows(pilot, "● following", "Hel")
                (tmp_path / "tape.db").rename(tmp_path / "moved.db")
                await shows(pilot, "the tape was deleted or moved while it was viewed: /", "Hel")

    journey(steps())


def test_space_freezes_and_resumes_a_followed_stream(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (app, pilot):
                playback = screen.playback
                app.watch.ns += 1_000 * MS
                await shows(pilot, "● following", "1.000 / 1.000+ s", "silent for 0.9 s")
                await press(pilot, "space")
                await shows(pilot, "‖ paused", "1.000 / 1.000+ s", "silent for 0.9 s")
                await press(pilot, "space")
                await shows(pilot, "● following", "1.000 / 1.000+ s")
                await press(pilot, "space")
                await shows(pilot, "‖ paused", "1.000 / 1.000+ s")
                app.watch.ns += 2_000 * MS
                await shows(pilot, "‖ paused", "1.000 / 3.000+ s", "silent for 0.9 s")
                await press(pilot, "space")
                await shows(pilot, "▶ playing", "1.000 / 3.000+ s")
                app.watch.ns += 500 * MS
                await shows(pilot, "▶ playing", "1.500 / 3.500+ s", "silent for 1.4 s")
                await press(pilot, *["greater_than_sign"] * 5)
                await wait_for(pilot, lambda: playback.speed == float("inf"))
                await shows(pilot, "● following", "3.500 / 3.500+ s", "silent for 3.4 s")

    journey(steps())


def test_a_replay_counts_the_silence_that_it_is_in(tmp_path: Path) -> None:
    async def steps() -> None:
        parts = [
            (700, event({"content": "a"})),
            (800, event({"content": "b"})),
            (3_800, event({"content": "c"}, "stop") + DONE),
        ]
        with recorder(tmp_path / "tape.db") as tape:
            tape.record(LIVE, parts)
        screen = InspectorScreen(1)
        async with staged(tmp_path / "tape.db", lambda: screen) as (app, pilot):
            await wait_for(pilot, lambda: screen.is_open)
            await press(pilot, "home", "space")
            await shows(pilot, "▶ playing")
            readings = []
            for ms in (600, 750, 1_400, 3_100, 3_800):
                app.watch.ns = ms * MS
                screen_text = await shows(pilot, f" {ms / 1000:.3f} / ")
                readings.append(screen_text.splitlines()[-2].partition("1×")[2].strip())
            assert readings == ["waiting for 0.6 s", "", "silent for 0.6 s", "silent for 2.3 s", ""]
            await press(pilot, "colon")
            await shows(pilot, "go to:")
            await typed(pilot, "3s")
            await press(pilot, "enter")
            for size in ((80, 24), (60, 16)):
                await resized(pilot, size)
                await shows(pilot, " 3.000 / 3.801 s", "1×  silent for 2.2 s")

    journey(steps())


def test_a_stream_that_has_ended_is_followed_no_longer(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (_, pilot):
                await shows(pilot, "● following")
                tape.end(LIVE, COMPLETE_READS[:2])
                assert "following" not in await shows(pilot, "truncated", "‖ paused", "0.112 / 0.112 s")

    journey(steps())


def _more(events: Sequence[int] | None, count: int) -> Sequence[int] | None:
    return events if events is not None and len(events) > count else None


def test_events_that_come_later_fit_the_filter_too(tmp_path: Path) -> None:
    async def steps() -> None:
        with recorder(tmp_path / "tape.db") as tape:
            tape.begin(LIVE, COMPLETE_READS[:2])
            screen = InspectorScreen(1)
            async with staged(tmp_path / "tape.db", lambda: screen) as (_, pilot):
                await shows(pilot, "● following")
                await press(pilot, "slash")
                await typed(pilot, "kind:content")
                await press(pilot, "enter")
                matches_before = list(await wait_for(pilot, lambda: screen.panes.events.matches))
                tape.go_on(LIVE, COMPLETE_READS, 2, len(COMPLETE_READS))
                matches_after = list(
                    await wait_for(pilot, lambda: _more(screen.panes.events.matches, len(matches_before)))
                )
                assert matches_after[: len(matches_before)] == matches_before
                tape.end(LIVE, COMPLETE_READS)
                await press(pilot, "home", "n", "N")
                await wait_for(pilot, lambda: screen.playback.position == matches_after[-1] + 1)

    journey(steps())


@pytest.fixture(scope="module")
def choices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with an answer of three choices by turns, and an event that is no JSON."""

    def choice_event(index: int, text: str) -> bytes:
        chunk = {"index": index, "delta": {"content": text}, "finish_reason": None}
        data = {"id": "r1", "object": "chat.completion.chunk", "model": "m", "choices": [chunk]}
        return f"data: {json.dumps(data)}\n\n".encode()

    parts = [(100 + 10 * at, choice_event(at % 3, f"c{at % 3}w{at // 3} ")) for at in range(9)]
    parts += [(300, b"data: {not json \x1b]0;x\x07 [/]\n\n"), (310, event({}, "stop") + DONE)]
    path = tmp_path_factory.mktemp("choices") / "tape.db"
    with recorder(path) as tape:
        tape.record(LIVE, parts)
    return path


def test_choices_show_singly_and_settings_without_room_are_reported(choices: Path) -> None:
    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(choices, lambda: screen) as (app, pilot):
            await shows(
                pilot, "choices [all] 0 1 2 (a)", "choice 2 · content", "malformed    9 no JSON from byte 1: {not"
            )
            await press(pilot, "end")
            assert screen.pages()[1].startswith("─ choice 0 · content\nc0w0 c0w1 c0w2 \n\n─ choice 1")
            await press(pilot, "a", "a")
            screen_text = await shows(pilot, "choices all 0 [1] 2 (a)")
            assert "c1w0 c1w1 c1w2 ▏" in screen_text
            assert "c0w0" not in screen_text.replace("'c0w0 '", "")
            await press(pilot, "a", "a")
            await shows(pilot, "choices [all] 0 1 2 (a)", "! malformed")
            await press(pilot, "T")
            await shows(pilot, "T: Δ previous event")
            assert app.toasts == []
            await resized(pilot, (60, 24))
            await press(pilot, "T")
            await wait_for(pilot, lambda: app.toasts == ["T: wall clock, UTC"])

    journey(steps())


def test_text_without_json_has_no_tree(choices: Path) -> None:
    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(choices, lambda: screen, (80, 24)) as (_, pilot):
            await wait_for(pilot, lambda: screen.is_open)
            await press(pilot, "e", "3")
            tree = await shows(pilot, "no JSON from byte 1 : expect", "data : {not json ␛]0;x␇ [/]")
            assert "▾ data" not in tree
            pages = [screen.pages()]
            for key in "245":
                await press(pilot, key)
                await wait_for(pilot, lambda key=key: screen.panes.tab.number == int(key) - 1)
                pages.append(screen.pages())
            names = ["event.sse", "events.txt", "request.txt", "timing.txt"]
            assert [name for name, _ in pages] == names
            assert pages[0][1] == "data: {not json \x1b]0;x\x07 [/]\n\n"
            assert "malformed" in pages[1][1]
            assert pages[1][1].count("\n") == 13
            assert "who was slow?" in pages[3][1]

    journey(steps())
