"""The compare screen: a race on one clock, its figures, and where two texts part."""

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.viewer.commanding import run
from tests.viewer.conftest import COMPLETE, MS, TOOLS
from tests.viewer.tui.staging import SIZES, Stage, assert_golden, journey, press, resized, seen, shows, staged, wait_for
from viewer.tui.screens.compare import CompareScreen
from viewer.tui.widgets.lane import LanePane

A, B, TRUNCATED, LIMITED, FAILED_NO, ODD, LIVE = range(1, 8)
_PARTS = "differ at"


async def mid_race(app: Stage, pilot: Pilot[None], ms: int = 130) -> str:
    await shows(pilot, "text diff", _PARTS)
    await press(pilot, "space")
    await shows(pilot, "racing")
    app.watch.ns = ms * MS
    await shows(pilot, f" {ms / 1000:.3f} of")
    await press(pilot, "space")
    return await shows(pilot, "paused")


def test_a_race_half_way_looks_like_this(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (app, pilot):
            await mid_race(app, pilot)
            for size in SIZES:
                assert_golden(f"compare-{size[0]}x{size[1]}", await resized(pilot, size))

    journey(steps())


def test_in_ascii_everything_is_still_told(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO), (80, 24), ascii=True) as (app, pilot):
            text = await mid_race(app, pilot)
            assert text.isascii()
            assert_golden("compare-ascii", text)

    journey(steps())


def test_without_colours_everything_is_still_told(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO), (80, 24)) as (app, pilot):
            assert app.no_color
            text = await mid_race(app, pilot)
            assert "40.0<" in text
            assert_golden("compare-80x24", text)

    journey(steps())


def test_both_lanes_grow_on_one_clock(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (app, pilot):
            text = await mid_race(app, pilot, 110)
            assert "Hel▏" in text
            assert "Half an ans" in text
            lines = app.screen.query_one("#lane-b", LanePane)._lines
            await press(pilot, "full_stop", "full_stop")
            await shows(pilot, "Hello▏")
            assert app.screen.query_one("#lane-b", LanePane)._lines is lines  # it said nothing more: nothing is wrapped
            await press(pilot, "comma")
            await wait_for(pilot, lambda: "Hello" not in seen(app))
            await press(pilot, "end")
            text = await shows(pilot, "Hello, world", "9/9")
            assert "complete" in text

    journey(steps())


def test_aligning_swapping_speed_and_idle_are_told(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (_, pilot):
            before = await shows(pilot, _PARTS)
            await press(pilot, "A")
            await shows(pilot, "align: first byte")
            await press(pilot, "A", "A")
            await shows(pilot, "align: content offset")
            await press(pilot, "A", "greater_than_sign", "i", "X")
            text = await shows(pilot, "align: request sent", "2×", "idle 2 s", "─ A d0000000")
            assert _line(before, "A   ").split()[1] == _line(text, "B   ").split()[1] == "110.0"
            await press(pilot, "less_than_sign", "less_than_sign", "equals_sign")
            await shows(pilot, "· 1× ·")

    journey(steps())


def _line(text: str, start: str) -> str:
    return [line for line in text.splitlines() if line.startswith(start)][-1]


def test_hostile_failed_and_open_exchanges_can_be_compared(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(ODD, LIMITED), (60, 16)) as (app, pilot):
            for numbers in ((ODD, LIMITED), (LIVE, ODD), (TRUNCATED, LIVE)):
                screen = CompareScreen(*numbers)
                app.push_screen(screen)
                await wait_for(pilot, screen.copies)
                await press(pilot, "end", "d", "A", "X", "d")
                text = await shows(pilot, "TTFT")
                assert not any(sign in text for sign in "\x1b\x07\x9b\u202e\u2066")

    journey(steps())


def test_an_exchange_that_is_not_there_is_told_of(tape: Path) -> None:
    async def steps() -> None:
        missing = tape.parent / "nothing.db"
        async with staged(missing, lambda: CompareScreen(A, B)) as (app, pilot):
            await wait_for(pilot, lambda: "nothing.db" in seen(app))
            assert app.screen.copies() == []  # type: ignore[attr-defined]

    journey(steps())


def test_where_the_texts_part_is_shown_and_hidden_again_and_equal_ones_are_said_to_be_the_same(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (app, pilot):
            await shows(pilot, _PARTS)
            await press(pilot, "d")
            text = await shows(pilot, "the same up to character 1 (line 1, column 2)")
            assert "H▶ello, world" in text
            assert "H▶alf an ans" in text
            await press(pilot, "d")
            await wait_for(pilot, lambda: "▶" not in seen(app))
            screen = CompareScreen(A, A)
            app.push_screen(screen)
            await wait_for(pilot, screen.copies)
            await press(pilot, "d")
            await wait_for(pilot, lambda: app.toasts == ["both texts are the same"])

    journey(steps())


def test_the_figures_are_those_of_the_command_that_can_be_copied(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, B)) as (app, pilot):
            text = await shows(pilot, _PARTS)
            screen = app.screen
            assert isinstance(screen, CompareScreen)
            copies = dict(screen.copies())
            assert copies["command"] == f"wiretape compare --db {tape} {COMPLETE} {TOOLS}"
            said = json.loads(run(tape, *copies["command"].split()[1:], "--format", "json").output)
            rows = {row["metric"]: row for row in said}
            for name in ("ttft_ms", "duration_ms"):
                assert f"{rows[name]['a']:,.1f}" in _line(text, "A   ")
                assert f"{rows[name]['b']:,.1f}" in _line(text, "B   ")
            assert copies["text of A"] == "Hello, world"
            exported = ["export", "--db", str(tape), COMPLETE, TOOLS]
            assert exported in [given for _, given in screen.exports()]

    journey(steps())
