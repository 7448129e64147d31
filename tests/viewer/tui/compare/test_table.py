"""More than two exchanges beside each other, in a table."""

from pathlib import Path

from tests.support.commands import run
from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, MS, TOOLS
from tests.support.screens import SIZES, assert_golden, journey, press, resized, seen, shows, staged, wait_for
from wiretape.viewer.tui.compare.race import CompareScreen
from wiretape.viewer.tui.compare.table import CompareManyScreen, comparison
from wiretape.viewer.tui.inspector.screen import InspectorScreen

ALL = range(1, 8)
RUNNING = "f00d000000000000"


def test_the_table_looks_like_this(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareManyScreen(ALL)) as (_, pilot):
            await shows(pilot, "compare · 7 exchanges")
            for size in SIZES:
                assert_golden(f"table-{size[0]}x{size[1]}", await resized(pilot, size))

    journey(steps())


def test_hostile_failed_and_running_ones_stand_in_any_size(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareManyScreen(ALL), (60, 16)) as (_, pilot):
            text = await shows(pilot, "compare · 7 exchanges", "f0000000")
            await press(pilot, "end", "home", "o", "O", "pagedown", "up")
            text += await resized(pilot, (200, 60))
            assert not any(sign in text for sign in "\x1b\x07\x9b\u202e\u2066")

    journey(steps())


def test_lines_go_by_the_figure_that_is_chosen(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareManyScreen([1, 2, 5])) as (app, pilot):
            await shows(pilot, "compare · 3 exchanges")
            await press(pilot, "o")
            await shows(pilot, "by TTFT ms", "TTFT ms▲")
            assert _ids(seen(app)) == ["d0000000", "aaaa0000", "aaaa0000"]
            await press(pilot, "O")
            await shows(pilot, "TTFT ms▼")
            assert _ids(seen(app)) == ["aaaa0000", "aaaa0000", "d0000000"]

    journey(steps())


def _ids(text: str) -> list[str]:
    return [line[4:12] for line in text.splitlines() if line[2:3] in tuple("✓!●■✗?⊘")]


def test_the_row_under_the_cursor_is_described_and_opened(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareManyScreen([1, 2, 5])) as (app, pilot):
            screen = app.screen
            assert isinstance(screen, CompareManyScreen)
            await shows(pilot, f"{COMPLETE} · gpt-x-mini · api.example.com · complete")
            await press(pilot, "down")
            await shows(pilot, f"{TOOLS} · gpt-x-mini")
            copies = dict(screen.copies())
            assert copies["id"] == TOOLS
            assert copies["all ids"].split()[:2] == [COMPLETE, TOOLS]
            output = run(tape, *copies["their list"].split()[1:]).output
            assert (output.count("gpt-x-mini"), "complete" in output) == (3, True)
            assert next(arguments[-3:] for _, arguments in screen.exports()) == copies["all ids"].split()
            await press(pilot, "enter")
            await wait_for(pilot, lambda: isinstance(app.screen, InspectorScreen))

    journey(steps())


def test_one_that_runs_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"

    async def steps() -> None:
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.record(TOOLS, COMPLETE_READS, at=1)
            tape.begin(RUNNING, COMPLETE_READS[:2], at=2)
            async with staged(path, lambda: CompareManyScreen([1, 2, 3])) as (_, pilot):
                await shows(pilot, "● f00d0000", "110.0+")
                tape.go_on(RUNNING, COMPLETE_READS, 2, 3)
                await shows(pilot, "120.0+")
                tape.end(RUNNING, COMPLETE_READS[:3])
                await shows(pilot, "■ f00d0000")

    journey(steps())


def test_an_exchange_that_left_the_tape_is_reported(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareManyScreen([1, 998, 999])) as (app, pilot):
            await shows(pilot, "compare · 1 exchange · all api.example.com · 2 more: not on the tape any more")
            app.push_screen(CompareManyScreen([997, 998, 999]))
            await shows(pilot, "compare · this exchange is not on the tape any more")
            await press(pilot, "enter", "down", "o", "O")
            assert app.screen.copies() == app.screen.exports() == []  # type: ignore[attr-defined]

    journey(steps())


def test_two_race_and_more_stand_in_a_table() -> None:
    assert isinstance(comparison([2, 1]), CompareScreen)
    assert isinstance(comparison([1, 2, 3]), CompareManyScreen)


def test_an_exchange_without_recorder_is_an_orphan(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"

    async def steps() -> None:
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.record(TOOLS, COMPLETE_READS, at=1)
            tape.begin(RUNNING, COMPLETE_READS[:2], at=2)
            async with staged(path, lambda: CompareManyScreen([1, 2, 3])) as (app, pilot):
                await shows(pilot, "● f00d0000", "110.0+")
                app.watch.ns = 4_000 * MS
                await shows(pilot, "● f00d0000", "2,000.0+")
                app.watch.ns = 60_000 * MS
                text = await shows(pilot, "? f00d0000", "orphan")
                assert "110.0+" not in text
                await press(pilot, "end")
                await shows(pilot, f"{RUNNING} · gpt-x-2026 · api.example.com · orphan")

    journey(steps())
