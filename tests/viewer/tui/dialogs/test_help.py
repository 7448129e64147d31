"""Help: made from the bindings, searched, and run."""

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import OptionList, Static

from tests.support.screens import (
    SIZES,
    Stage,
    assert_golden,
    journey,
    press,
    resized,
    shows,
    staged,
    typed,
    wait_for,
)
from wiretape.viewer.tui.base.keys import clash_warning
from wiretape.viewer.tui.bindings import GROUPS, Action, of
from wiretape.viewer.tui.compare.race import CompareScreen
from wiretape.viewer.tui.dialogs.help import HelpScreen, entries
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.list.screen import StreamsScreen


class Counter(Screen[None]):
    """A screen with something to do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *of(
            Action("add", "plus,a", "add one", call="add(1)"), Action("take", "minus", "take one away", call="add(-1)")
        ),
        Binding("z", "add(0)", show=False),
    ]
    count = 0

    def compose(self) -> ComposeResult:
        yield Static("counter")

    def action_add(self, number: int) -> None:
        self.count += number


def open_help(app: Stage) -> None:
    app.push_screen(HelpScreen(app.screen.active_bindings))


def test_help_looks_like_this(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Counter) as (app, pilot):
            open_help(app)
            await shows(pilot, "take one away", "everywhere", "quit")
            for size in SIZES:
                assert_golden(f"help-{size[0]}x{size[1]}", await resized(pilot, size))

    journey(steps())


def test_help_is_searched_and_runs_actions_below_it(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Counter) as (app, pilot):
            below = app.screen
            assert isinstance(below, Counter)
            open_help(app)
            await shows(pilot, "take one away")
            await typed(pilot, "take")
            await wait_for(pilot, lambda: app.screen.query_one(OptionList).option_count == 2)
            await press(pilot, "enter")
            await wait_for(pilot, lambda: below.count == -1)
            assert app.screen is below
            open_help(app)
            await shows(pilot, "take one away")
            await typed(pilot, "ONE  add")
            await press(pilot, "down", "up", "pagedown", "pageup", "enter")
            await wait_for(pilot, lambda: below.count == 0)
            open_help(app)
            await shows(pilot, "take one away")
            await typed(pilot, "zzz[/")
            await press(pilot, "enter")
            await shows(pilot, "no action for 'zzz[/' on this screen")
            await press(pilot, "escape")
            await wait_for(pilot, lambda: app.screen is below)

    journey(steps())


def test_a_second_key_before_the_first_does_nothing(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Counter) as (app, pilot):
            below = app.screen
            assert isinstance(below, Counter)
            open_help(app)
            await shows(pilot, "take one away")
            asking = app.screen
            assert isinstance(asking, HelpScreen)
            for _ in range(2):
                asking.on_input_submitted()
                asking.action_cancel()
            await wait_for(pilot, lambda: below.count == 1)
            assert app.screen is below

    journey(steps())


def test_keys_stand_in_groups_by_what_they_are_for(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(1, 2)) as (app, pilot):
            await shows(pilot, "text diff")
            groups = [entry.group for entry in entries(app, app.screen.active_bindings)]
            assert groups == sorted(groups, key=GROUPS.index)
            assert set(groups) == set(GROUPS)
            groups_by_meaning = {entry.meaning: entry.group for entry in entries(app, app.screen.active_bindings)}
            assert (
                groups_by_meaning["race or pause"],
                groups_by_meaning["the next event of both"],
                groups_by_meaning["swap A and B"],
            ) == (
                "playing",
                "the playhead",
                "on this screen",
            )
            assert (groups_by_meaning["dark or light theme (colours)"], groups_by_meaning["to the start"]) == (
                "everywhere",
                "moving about",
            )

    journey(steps())


def test_keys_are_found_by_common_words_and_names(tape: Path) -> None:
    def groups_of(app: Stage, text: str) -> list[str | None]:
        return [entry.bound.binding.id for entry in entries(app, app.screen.active_bindings) if entry.matches(text)]

    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(tape, lambda: screen) as (app, pilot):
            await wait_for(pilot, lambda: screen.is_open)
            assert groups_of(app, "Speed") == ["faster", "slower"]
            assert groups_of(app, "pause") == ["play"]
            await press(pilot, "q")
            await wait_for(pilot, lambda: isinstance(app.screen, StreamsScreen) and app.focused)
            assert groups_of(app, "sort") == ["order", "reverse"]
            assert groups_of(app, "search") == ["filter", "help"]
            assert "page_up" in groups_of(app, "^u")
            assert "page_up" in groups_of(app, "ctrl+u")
            assert groups_of(app, "scroll") == []  # which nothing here does

    journey(steps())


def test_remapped_keys_are_shown_as_they_are(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Counter) as (app, pilot):
            app.set_keymap({"take": "f9"})
            open_help(app)
            text = await shows(pilot, "take one away")
            (line,) = [line for line in text.splitlines() if "take one away" in line]
            assert line.split()[1] == "f9"
            await press(pilot, "escape", "f9", "f9")
            await wait_for(pilot, lambda: isinstance(app.screen, Counter) and app.screen.count == -2)

    journey(steps())


def test_a_clash_is_told_plainly() -> None:
    assert clash_warning({Binding("p", "align", id="compare.align"), Binding("p", "x[/b]")}) == (
        "[keys] puts another action on the key of compare.align (p), x[/b] (p): give one of them another key"
    )
    assert clash_warning([]) is None
