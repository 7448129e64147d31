"""The application around its screens: keys that work everywhere, too little room, and how it ends."""

from pathlib import Path

import pytest
from textual.events import Key
from textual.widgets import OptionList

from tests.support.sample_tape import LIVE, TOOLS
from tests.support.screens import Watch, journey, seen, shows, wait_for
from wiretape.viewer import config
from wiretape.viewer.config import Config
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.dialogs.help import HelpScreen
from wiretape.viewer.tui.dialogs.menus import ActionMenu
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.list.rows import StreamRows
from wiretape.viewer.tui.list.screen import StreamsScreen
from wiretape.viewer.tui.stats.screen import StatsScreen


def test_too_little_room_is_one_line_until_enough(tape: Path) -> None:
    async def steps() -> None:
        async with ViewerApp(tape, Watch().clock).run_test(size=(59, 30)) as pilot:
            text = await shows(pilot, "wiretape needs 60x16")
            assert len(text.split("\n\n")[0].splitlines()) == 1
            await pilot.press("escape")
            await pilot.resize_terminal(60, 16)
            await shows(pilot, LIVE[:8])
            await pilot.resize_terminal(100, 15)
            await shows(pilot, "wiretape needs 60x16")
            await pilot.press("q")
        assert pilot.app.return_value == 0

    journey(steps())


def test_the_keys_of_all_screens_open_their_menus(tape: Path) -> None:
    async def steps() -> None:
        async with ViewerApp(tape, Watch().clock).run_test(size=(120, 40), notifications=True) as pilot:
            await shows(pilot, LIVE[:8])
            for key, menu in (("question_mark", HelpScreen), ("y", ActionMenu), ("x", ActionMenu)):
                await pilot.press(key)
                await wait_for(pilot, lambda menu=menu: isinstance(pilot.app.screen, menu))
                await pilot.press("escape")
                await wait_for(pilot, lambda: len(pilot.app.screen_stack) == 2)
            theme = pilot.app.theme
            await pilot.press("f5")
            await wait_for(pilot, lambda: pilot.app.theme != theme and pilot.app.theme in seen(pilot.app))
            await pilot.press("ctrl+c")
        assert pilot.app.return_value == 130

    journey(steps())


def test_another_screen_opens_a_list_that_returns_there(tape: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock, first_screen=lambda: StatsScreen(""))
        async with app.run_test(size=(120, 40)) as pilot:
            below = await wait_for(pilot, lambda: isinstance(app.screen, StatsScreen) and app.screen)
            for key in ("escape", "q"):
                app.show_streams("flag:stall")
                text = await shows(pilot, "1 / 7", "flag:stall", "q back")
                assert TOOLS[:8] in text
                await pilot.press("m")
                await shows(pilot, "1 marked")
                await pilot.press("escape")
                await wait_for(pilot, lambda: "marked" not in seen(app))
                await pilot.press(key)
                await wait_for(pilot, lambda: app.screen is below)
            await pilot.press("escape")
            await shows(pilot, LIVE[:8], "q quit")
            app.show_streams("flag:stall")
            await shows(pilot, "1 / 7")
            await pilot.press("escape")
            await shows(pilot, "off: \\")

    journey(steps())


def post(app: ViewerApp, *keys: str) -> None:
    """Press keys as fast as can be: each is there before the one before it has done anything."""
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


def test_keys_typed_ahead_reach_their_intended_screens(tape: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock)
        async with app.run_test(size=(120, 40)) as pilot:
            post(app, "o", "g", "enter", "right_curly_bracket")
            screen = await wait_for(pilot, lambda: isinstance(app.screen, InspectorScreen) and app.screen)
            await shows(pilot, TOOLS[:8])  # the longest gap
            await wait_for(pilot, lambda: screen.is_open and screen.playback.media_ns < screen.playback.end_ns)
            post(app, "q", "slash", *"id:f0", "enter", "enter")
            await shows(pilot, LIVE[:8], "q back")
            post(app, "q", "o", "j", "k", "o", "escape", "C", "escape", "escape", "q", *"jjj")
            await wait_for(pilot, lambda: app.return_value == 0)

    journey(steps())


def test_the_list_under_a_first_screen_loads_later(
    tape: Path,
) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock, first_screen=lambda: StatsScreen(""))
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_for(pilot, lambda: isinstance(app.screen, StatsScreen))
            assert not any(isinstance(screen, StreamsScreen) for screen in app.screen_stack)
            post(app, "q", "slash", *"id:f0", "enter")
            await shows(pilot, LIVE[:8], "1 / 7")
            assert isinstance(app.screen, StreamsScreen)
            post(app, "q")
            await wait_for(pilot, lambda: app.return_value == 0)

    journey(steps())


def test_lists_that_are_still_filling_can_be_paged(tape: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock)
        async with app.run_test(size=(120, 40)) as pilot:
            await shows(pilot, LIVE[:8])
            for key in ("y", "x"):
                post(app, key, "pageup", "pagedown", "pageup")
                await wait_for(pilot, lambda: app.screen.query(OptionList))
                post(app, "escape")
                await wait_for(pilot, lambda: isinstance(app.screen, StreamsScreen))


def test_an_exported_picture_replaces_no_file(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await shows(pilot, LIVE[:8])
            for name in ("wiretape.svg", "wiretape-1.svg"):
                await pilot.press("x")
                await shows(pilot, "this screen, as SVG")
                await wait_for(pilot, lambda: isinstance(app.focused, OptionList) and app.focused.highlighted == 0)
                await pilot.press("k", "enter")
                await shows(pilot, f"written to {name}")
            assert LIVE[:8] in (tmp_path / "wiretape.svg").read_text("utf-8")

    journey(steps())


def test_a_passing_message_is_one_and_is_soon_gone(tape: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock)
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            await shows(pilot, LIVE[:8])
            # At the head: neither over the transport nor over differences, which are at the foot.
            for message in ("one", "two [/x]"):
                app.notify(message, title="told", markup=False, timeout=60)
                await wait_for(pilot, lambda said=message: f"told: {said}" in seen(app).splitlines()[1])
            assert "one" not in seen(app)
            app.notify("three", title="told", markup=False, timeout=0.1)
            await wait_for(pilot, lambda: "told" not in seen(app))

    journey(steps())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('marc = "f9"', "marc under [keys] is no action: did you mean mark?"),
        ('mark = "ctrl+b,notakey"', "mark = ctrl+b,notakey: there is no such key; write x, X, f5, "),
    ],
)
def test_an_unknown_action_or_key_ends_the_viewer(
    line: str, message: str, tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".wiretape.toml").write_text(f'[keys]\nstep = "f8"\n{line}\n')

    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock, config=config.read())
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_for(pilot, lambda: app.failure is not None)
        assert str(app.failure).startswith(f".wiretape.toml, line 3, column 1: {message}")

    journey(steps())


def test_a_widget_that_was_taken_away_lays_nothing_out(tape: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock)
        async with app.run_test(size=(120, 40)) as pilot:
            await shows(pilot, LIVE[:8])
            rows = app.screen.query_one(StreamRows)
            app.call_after_refresh(rows.lay_out)
            await rows.remove()
            rows.lay_out()
            rows.on_blur()

    journey(steps())


def test_the_configuration_sets_keys_and_theme_and_reports_duplicates(tape: Path) -> None:
    config_ = Config(keys={"mark": "f9", "follow": "f9"}, theme="nord")

    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock, config=config_)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await shows(pilot, "puts another action on the key of", LIVE[:8])
            assert app.theme == "nord"
            for name in app.available_themes:
                app.use_theme(name)
                await pilot.pause()
            await shows(pilot, LIVE[:8])

    journey(steps())
