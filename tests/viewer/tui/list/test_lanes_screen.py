"""Lanes on the wall clock, opened from the list: the picture, the cursor, zoom, and streams that grow."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.growing_tape import Parts, recorder
from tests.support.list_screen import at_cursor, press, type_filter, viewed
from tests.support.sample_tape import DONE, FAILED_READS, LIMITED_READS, LIVE, event
from tests.support.screens import SIZES, Watch, assert_golden, journey, resized, seen, shows, wait_for
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.list.lanes import MOST, LanesScreen, LaneTable
from wiretape.viewer.tui.list.screen import StreamsScreen

S = 1_000_000_000


def answer(model: str, first_ms: int, *pieces: int) -> Parts:
    """Return the reads of a stream: its first output, which is reasoning, then content, each some ms later."""
    at, parts = first_ms, [(first_ms, event({"reasoning_content": "Hm. "}, model=model))]
    for piece in pieces:
        at += piece
        parts.append((at, event({"content": "word "}, model=model)))
    return [*parts, (at + 100, event({}, "stop", model=model) + DONE)]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A tape of two models, a failure, an idle time, and streams that run."""
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        for no, (at, parts) in enumerate(
            [
                (0, answer("large", 800, 900, 1500, 1200)),
                (1, answer("large", 1500, 700, 3000, 800)),
                (2, answer("small", 200, 300)),
                (2, [(at, piece.replace(b"gpt-x-2026", b"small")) for at, piece in FAILED_READS]),
                (3, answer("small", 600, 900, 400)),
                (5, answer("small", 300, 1400)),
            ]
        ):
            writing.record(f"{no + 1:x}" * 16, parts, at)
        writing.begin("a" * 16, answer("large", 1200, 500, 700)[:-1], 50)
        writing.begin("b" * 16, [], 52)
        writing.beat("2026-03-01T12:00:54.000000Z")
    return path


@contextlib.asynccontextmanager
async def laned(tape: Path, size: tuple[int, int]) -> AsyncIterator[tuple[Pilot[Any], Watch]]:
    """Open the lanes from the list, 55 s after noon."""
    watch = Watch()
    watch.ns = 55 * S
    async with ViewerApp(tape, watch.clock).run_test(size=size) as pilot:
        await at_cursor(pilot, "b" * 16)
        press(pilot, "v")
        await shows(pilot, "at once", "bbbbbbbb")
        yield pilot, watch


def table(pilot: Pilot[Any]) -> LaneTable:
    return pilot.app.screen.query_one(LaneTable)


def test_lanes_look_like_this(many: Path) -> None:
    async def steps() -> None:
        async with laned(many, (80, 24)) as (pilot, _):
            await shows(pilot, "8 exchanges, 2 open", "┆42.9 s", "at once, max 4")
            for size in (*SIZES, (200, 60)):
                assert_golden(f"lanes-{size[0]}x{size[1]}", await resized(pilot, size))

    journey(steps())


def test_the_cursor_moves_among_lanes_and_opens_exchanges(many: Path) -> None:
    async def steps() -> None:
        async with laned(many, (120, 40)) as (pilot, _):

            async def at(id: str) -> None:
                await wait_for(pilot, lambda: table(pilot).bar.row.id == id * 16)

            for step in ("k 4", "k 3", "k 2", "k 1", "l a", "j 2", "G b", "pageup a", "h 1"):
                key, id = step.split()
                press(pilot, key)
                await at(id)
            press(pilot, "home")
            text = await shows(pilot, "11111111")
            assert "TTFT 800 ms" in text
            press(pilot, "enter")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))
            await shows(pilot, "11111111")
            press(pilot, "q")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, LanesScreen))
            await at("1")
            press(pilot, "q")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))

    journey(steps())


def test_zoom_and_pan_keep_to_the_axis(many: Path) -> None:
    async def steps() -> None:
        async with laned(many, (120, 40)) as (pilot, _):
            full_screen = seen(pilot.app)
            press(pilot, "g", "plus", "plus")
            await shows(pilot, "12:00:02.000")
            press(pilot, "L")
            await shows(pilot, "12:00:03.000")
            press(pilot, "G")
            await wait_for(pilot, lambda: "12:00:03.000" not in seen(pilot.app))
            press(pilot, "minus", "minus")
            await wait_for(pilot, lambda: seen(pilot.app) == full_screen)

    journey(steps())


def test_a_running_stream_grows_and_new_ones_join(many: Path) -> None:
    async def steps() -> None:
        async with laned(many, (120, 40)) as (pilot, watch):
            screen_before = seen(pilot.app)
            (line,) = [line for line in screen_before.splitlines() if line.startswith("▌")]
            watch.ns += 2 * S
            await wait_for(
                pilot,
                lambda: any(
                    text_line.startswith("▌") and text_line.count("░") > line.count("░")
                    for text_line in seen(pilot.app).splitlines()
                ),
            )
            with recorder(many) as writing:
                writing.record("c" * 16, answer("other", 300, 500), 55)
            await shows(pilot, "9 exchanges", "other")

    journey(steps())


def test_running_streams_are_measured_however_much_they_have_sent(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        for no in range(5):
            long = [(100 + at, event({"content": "x" * 1000}, model=f"model-{no}")) for at in range(200)]
            writing.begin(f"{no + 1:016x}", long, no)
        writing.beat("2026-03-01T12:00:54.000000Z")

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db", (120, 40)) as pilot:
            await at_cursor(pilot, f"{5:016x}")
            press(pilot, "v")
            await shows(pilot, *(f"model-{no}" for no in range(5)))

    journey(steps())


def test_lanes_are_of_the_exchanges_that_the_list_shows(many: Path) -> None:
    async def steps() -> None:
        async with viewed(many, (120, 40)) as pilot:
            await at_cursor(pilot, "b" * 16)
            await type_filter(pilot, "model:small")
            press(pilot, "enter")
            await shows(pilot, "4 / 8")
            press(pilot, "v")
            text = await shows(pilot, "4 exchanges · model:small", "small")
            assert "large" not in text

    journey(steps())


def test_lanes_are_named_by_a_label_if_so_asked(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (120, 40)) as pilot:
            await at_cursor(pilot, LIVE)
            press(pilot, "v")
            await shows(pilot, "gpt-x-mini", "b by label")
            press(pilot, "b")
            await shows(pilot, "7 exchanges, 1 open · by k", "=cmd()")
            press(pilot, "b")
            await shows(pilot, "7 exchanges, 1 open · by run", "  a7  ")
            press(pilot, "b")
            await shows(pilot, "7 exchanges, 1 open  ", "gpt-x-mini")

    journey(steps())


def test_lanes_show_exchanges_around_the_lists_cursor(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        for no in range(MOST + 100):
            writing.begin(f"{no:016x}", [], no * 60 // (MOST + 100))

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db", (120, 40)) as pilot:
            await at_cursor(pilot, f"{MOST + 99:016x}")
            press(pilot, "G")
            await at_cursor(pilot, f"{0:016x}")
            press(pilot, "v")
            await shows(pilot, "500 exchanges of 600")
            assert table(pilot).bar.row.no == 1
            assert max(lane_bar.row.no for lane_bar in table(pilot).clock_lanes.bars) == MOST

    journey(steps())


def test_in_ascii_lanes_are_ascii(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, ascii=True) as pilot:
            await shows(pilot, LIVE[:8], "Hel")
            press(pilot, "v")
            text = await shows(pilot, "lanes", "at once")
            assert text.isascii()

    journey(steps())


def test_an_answer_that_is_no_stream_is_a_wait(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writing:
        writing.answer("a" * 16, LIMITED_READS[0][1], 500)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db", (120, 40)) as pilot:
            await at_cursor(pilot, "a" * 16)
            press(pilot, "v")
            await shows(pilot, "1 exchange", "at once, max 1")

    journey(steps())
