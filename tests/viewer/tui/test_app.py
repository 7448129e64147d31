"""The application around its screens: keys that work everywhere, too little room, and how it ends."""

from pathlib import Path

from tests.viewer.conftest import LIVE, TOOLS
from tests.viewer.tui.staging import Watch, journey, seen, shows, wait_for
from viewer.settings import Settings
from viewer.tui.app import ViewerApp
from viewer.tui.screens.help import HelpScreen
from viewer.tui.screens.menus import CopyMenu, ExportMenu
from viewer.tui.screens.stats import StatsScreen


def test_too_little_room_is_said_in_one_line_until_there_is_enough(tape: Path) -> None:
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
            for key, menu in (("question_mark", HelpScreen), ("y", CopyMenu), ("x", ExportMenu)):
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


def test_other_screens_lead_back_to_the_list_filtered(tape: Path) -> None:
    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock, opened=lambda: StatsScreen(""))
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_for(pilot, lambda: isinstance(app.screen, StatsScreen))
            app.show_streams("flag:stall")
            text = await shows(pilot, "1 / 7", "flag:stall")
            assert TOOLS[:8] in text
            await pilot.press("escape")
            await shows(pilot, "off: \\")

    journey(steps())


def test_the_configuration_gives_keys_and_a_theme_and_is_told_of_its_slips(tape: Path) -> None:
    found = Settings(keys={"streams.mark": "f9", "streams.follow": "f9"}, theme="nord", wrong=["a slip [/x]"])

    async def steps() -> None:
        app = ViewerApp(tape, Watch().clock, settings=found)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await shows(pilot, "a slip [/x]", LIVE[:8])
            assert app.theme == "nord"
            await pilot.press("f9")
            await shows(pilot, "puts another action on the key of")

    journey(steps())
