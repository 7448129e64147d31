"""The stats screen: the command's figures, and lists of the counted exchanges."""

import json
import shlex
from pathlib import Path

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from tests.support import operations
from tests.support.commands import run
from tests.support.sample_tape import recorded
from tests.support.screens import (
    SIZES,
    Stage,
    assert_golden,
    journey,
    press,
    seen,
    shows,
    staged,
    typed,
    wait_for,
)
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing.groups import GroupLayout, figure
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.tape import conditions, queries
from wiretape.viewer.tui.stats.groups import FailureList, GroupTable
from wiretape.viewer.tui.stats.screen import StatsScreen


async def settled(app: Stage, pilot: Pilot[None], *texts: str) -> StatsScreen:
    """Wait until everything is read, pooled gaps too."""
    screen = app.screen
    assert isinstance(screen, StatsScreen)
    await shows(pilot, "failures", *texts)
    await wait_for(pilot, lambda: screen.data.pooled and screen.data.failures is not None)
    return screen


def selected(connection: Connection, text: str) -> int:
    return queries.count(connection, conditions.condition(parse(text)))


def test_the_figures_of_a_tape_look_like_this(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), SIZES[0]) as (app, pilot):
            await settled(app, pilot)
            assert_golden("stats-80x24", seen(app))
            screen = StatsScreen("")
            await pilot.resize_terminal(*SIZES[1])
            app.push_screen(screen)
            await wait_for(pilot, lambda: app.screen is screen)
            await settled(app, pilot)
            assert_golden("stats-120x40", seen(app))

    journey(steps())


def test_the_figures_look_like_this_in_ascii(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), (80, 24), ascii=True) as (app, pilot):
            await settled(app, pilot)
            assert seen(app).isascii()
            assert_golden("stats-ascii", seen(app))

    journey(steps())


def test_the_figures_look_like_this_without_colours(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), (80, 24)) as (app, pilot):
            await settled(app, pilot)
            assert_golden("stats-no-color", seen(app))

    journey(steps())


def test_the_copied_command_gives_the_figures_of_the_screen(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("-model:nobody or is:ok")) as (app, pilot):
            screen = await settled(app, pilot)
            for _ in range(4):
                command = shlex.split(dict(screen.copies())["command"])
                assert command[0] == "wiretape"
                rows = json.loads(run(tape, *command[1:], "--format", "json").output)
                assert screen.data.rows == rows
                assert all(f" {figure(row['ttft_p50_ms'])} " in seen(app) for row in rows)
                by = screen.data.by
                await press(pilot, "b")
                await wait_for(pilot, lambda by=by: screen.data.by != by and screen.data.pooled)

    journey(steps())


def test_an_empty_result_leaves_no_line_of_another_filter(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("is:ok"), (180, 24)) as (app, pilot):
            await settled(app, pilot)
            await shows(pilot, "enter: 2 exchanges of model gpt-x-mini", " · too few values: p50 needs 2")
            await press(pilot, "slash")
            await wait_for(pilot, lambda: isinstance(app.focused, Input))
            await typed(pilot, "model:nothing")
            await press(pilot, "enter")
            await shows(pilot, "0 exchanges by model")
            await wait_for(pilot, lambda: "enter:" not in seen(app))
            assert "exchange of" not in seen(app)

    journey(steps())


@pytest.mark.parametrize("width", [60, 80])
def test_the_keys_in_a_narrow_footer_are_whole(tape: Path, width: int) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), (width, 16)) as (app, pilot):
            await settled(app, pilot)
            text = await shows(pilot, "? help", "q back")
            assert text.rstrip().endswith("q back")

    journey(steps())


def test_the_cursor_goes_through_table_and_failures(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), (80, 24)) as (app, pilot):
            screen = await settled(app, pilot)
            await shows(pilot, "enter: 1 exchange of model =cmd()")
            for identity in ("groups", "failures"):
                await wait_for(
                    pilot, lambda widget_id=identity: app.focused is not None and app.focused.id == widget_id
                )
                app.screen.query_one("#groups", GroupTable).cursor = len(screen.data.rows) - 1
                await press(pilot, "down")
            await shows(pilot, "enter: the exchanges of")
            await press(pilot, "up", "up")  # the failures stand in two lines
            await wait_for(pilot, lambda: app.focused is not None and app.focused.id == "groups")

    journey(steps())


class Grouped(Screen[None]):
    """A table of twelve groups with room for six lines, and failures with room for two."""

    def compose(self) -> ComposeResult:
        table, failed = GroupTable(), FailureList()
        table.styles.height, failed.styles.height = 6, 3
        yield table
        yield failed

    def on_mount(self) -> None:
        lines = [(f"group {number}", "1") for number in range(12)]
        self.query_one(GroupTable).show(GroupLayout(("model", "n"), lines, (20, 3), ("all", "12")))
        self.query_one(FailureList).show([f"{number} × truncated by something" for number in range(9)])


def test_what_there_is_no_room_for_is_counted(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Grouped, (80, 24)) as (app, pilot):
            lines = (await shows(pilot, "failures")).splitlines()
            assert [line[2:].split("  ")[0] for line in lines[1:6]] == [
                "group 0",
                "group 1",
                "group 2",
                "↓ 9 more",
                "all",
            ]
            assert lines[6].startswith("─ failures · 5 more ─")
            assert [line.count("truncated") for line in lines[7:9]] == [2, 2]
            app.screen.query_one(GroupTable).focus()
            await press(pilot, *["down"] * 6)
            await shows(pilot, "group 6", "↑ 5 more · ↓ 4 more")
            app.screen.query_one(FailureList).focus()
            await press(pilot, *["right"] * 8)
            await shows(pilot, "8 × truncated", "failures · 6 more")

    journey(steps())


def test_window_and_filter_can_be_changed(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("")) as (app, pilot):
            await settled(app, pilot)
            await press(pilot, "z")
            await shows(pilot, "window 24 h", "started_at>=2026-02-28T12:00:00.000000Z")
            await press(pilot, "slash")
            await wait_for(pilot, lambda: isinstance(app.focused, Input))
            await typed(pilot, "ttft>fast")
            await shows(pilot, "expected a duration")
            await press(pilot, "enter")
            await typed(pilot, "ttft>1s")
            await press(pilot, "enter")
            await shows(pilot, "ttft>1s", "\n  none")

    journey(steps())


def test_a_missing_tape_and_a_wrong_filter_are_reported(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("ttft>fast"), (100, 24)) as (_, pilot):
            await shows(pilot, "expected a duration")
        async with staged(tape.parent / "nothing.db", lambda: StatsScreen(""), (200, 24)) as (_, pilot):
            await shows(pilot, "nothing.db")

    journey(steps())


def test_a_saved_view_can_be_taken_for_the_filter(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".wiretape.toml").write_text('[views]\nfine = "is:ok"\n')

    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("")) as (app, pilot):
            await settled(app, pilot)
            assert seen(app).splitlines()[-1].startswith(" ? help")
            await press(pilot, "apostrophe")
            await shows(pilot, "fine          2  is:ok")
            await press(pilot, "enter")
            await shows(pilot, "2 exchanges by model · window all · is:ok")

    journey(steps())


def test_the_objective_of_the_configuration_is_judged(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".wiretape.toml").write_text('slo = "ttft<100ms"\n')

    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), (120, 24)) as (app, pilot):
            screen = await settled(app, pilot, "SLO ttft<100ms", "GOODPUT")
            assert "--slo 'ttft<100ms'" in dict(screen.copies())["command"]

    journey(steps())


def test_what_can_be_exported_can_be_run(tape: Path, tmp_path: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("is:ok")) as (app, pilot):
            screen = await settled(app, pilot)
            for at, (_, arguments) in enumerate(screen.exports()):
                run(tape, *arguments, "-o", str(tmp_path / f"{at}.csv"))
            assert (tmp_path / "0.csv").read_text().startswith("model,n,")

    journey(steps())


def test_enter_lists_as_many_exchanges_as_are_counted(tape: Path, connection: Connection) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("is:ok or is:cut")) as (app, pilot):
            screen = await settled(app, pilot, "gpt-x-mini")
            await press(pilot, "enter")
            await wait_for(pilot, lambda: app.filters)
            assert app.filters == ["(is:ok or is:cut) model:gpt-x-mini"]
            assert selected(connection, app.filters[0]) == screen.data.rows[0]["n"] == 3

            app.push_screen(StatsScreen(""))
            await wait_for(pilot, lambda: isinstance(app.screen, StatsScreen))
            screen = await settled(app, pilot)
            await wait_for(pilot, lambda: screen.data.failures)
            app.screen.query_one("#failures").focus()
            await press(pilot, "right", "enter")
            await wait_for(pilot, lambda: len(app.filters) == 2)
            assert screen.data.failures is not None
            assert selected(connection, app.filters[1]) == screen.data.failures[1].count

    journey(steps())


def test_too_many_gaps_are_left_to_the_command(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wiretape.viewer.source.tape import overview

    monkeypatch.setattr(overview, "MOST_GAPS", 3)

    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen("")) as (_, pilot):
            text = await shows(pilot, "too many gaps to pool: y has the command that does")
            assert "…  " not in text.splitlines()[4]

    journey(steps())


def test_the_figures_cover_generations_and_name_the_rest(tmp_path: Path) -> None:
    path = recorded(tmp_path / "tape.db", list(operations.frames(failed=True)))

    async def steps() -> None:
        async with staged(path, lambda: StatsScreen("")) as (app, pilot):
            screen = await settled(app, pilot, "gpt-x-mini")
            assert [(row["model"], row["n"], row["error_rate_pct"]) for row in screen.data.rows] == [
                ("gpt-x-mini", 2, 50)
            ]
            await shows(pilot, "2 exchanges by model", "2 exchanges are not generations (1 models, 1 other), left out")
            await wait_for(pilot, lambda: [failure.count for failure in screen.data.failures or ()] == [1])
            await press(pilot, "enter")
            await wait_for(pilot, lambda: app.filters)
            with queries.opened(path) as connection:
                assert selected(connection, app.filters[0]) == 2

            app.push_screen(StatsScreen("operation:*"))
            await wait_for(pilot, lambda: isinstance(app.screen, StatsScreen) and app.screen.data.pooled)
            await shows(pilot, "4 exchanges by model")
            assert "generation" not in seen(app)

    journey(steps())
