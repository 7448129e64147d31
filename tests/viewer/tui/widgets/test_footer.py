"""The line of keys: each whole or not there, and a click on one presses it."""

import asyncio
from typing import Any, ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.pilot import Pilot
from textual.screen import Screen

from tests.support.screens import seen, wait_for
from wiretape.viewer.tui.widgets.footer import KeyLine, places_that_fit


class Keyed(Screen[None]):
    """A screen with three keys, one of them without use until `ready`."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("question_mark", "help", "help", key_display="?", tooltip="help with every key"),
        Binding("a", "first", "first"),
        Binding("b,c", "second", "second"),
        Binding("z", "hidden", "hidden", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.pressed: list[str] = []
        self.ready = False

    def compose(self) -> ComposeResult:
        yield KeyLine()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.ready or None if action == "second" else True

    def action_help(self) -> None:
        self.pressed.append("help")

    def action_first(self) -> None:
        self.pressed.append("first")

    def action_second(self) -> None:
        self.pressed.append("second")


class Around(App[None]):
    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__()
        self.bells = 0

    def on_mount(self) -> None:
        self.push_screen(Keyed())

    def bell(self) -> None:
        self.bells += 1


def staged(steps: Any, width: int = 60) -> None:
    async def run() -> None:
        app = Around()
        async with app.run_test(size=(width, 4)) as pilot:
            await wait_for(pilot, lambda: "? help" in seen(app))
            await steps(app, pilot, app.screen)

    asyncio.run(run())


def test_shown_keys_are_named_in_their_order() -> None:
    async def steps(app: Around, pilot: Pilot[None], screen: Keyed) -> None:
        assert seen(app).splitlines()[-1].rstrip() == " ? help  a first  b second"

    staged(steps)


def test_a_key_can_be_named_by_another_word() -> None:
    async def steps(app: Around, pilot: Pilot[None], screen: Keyed) -> None:
        line = screen.query_one(KeyLine)
        for word in ("first of 3", "first"):
            line.reword("first", word)
            await wait_for(pilot, lambda word=word: f" a {word}  b" in seen(app))

    staged(steps)


def test_a_click_on_a_key_presses_only_it() -> None:
    async def steps(app: Around, pilot: Pilot[None], screen: Keyed) -> None:
        for x in (1, 9, 40):
            await pilot.click(KeyLine, offset=(x, 0))
        await wait_for(pilot, lambda: screen.pressed == ["help", "first"])

    staged(steps)


def test_a_useless_key_rings_until_it_is_useful() -> None:
    async def steps(app: Around, pilot: Pilot[None], screen: Keyed) -> None:
        await pilot.click(KeyLine, offset=(18, 0))
        await wait_for(pilot, lambda: app.bells == 1)
        screen.ready = True
        screen.refresh_bindings()
        line = screen.query_one(KeyLine)
        await wait_for(pilot, lambda: line.visible_keys[-1].enabled)
        await pilot.click(KeyLine, offset=(18, 0))
        await wait_for(pilot, lambda: screen.pressed == ["second"])
        assert app.bells == 1

    staged(steps)


def test_the_mouse_shows_a_keys_full_meaning() -> None:
    async def steps(app: Around, pilot: Pilot[None], screen: Keyed) -> None:
        line = screen.query_one(KeyLine)
        for x, tip in ((2, "help with every key"), (10, "first"), (50, None)):
            await pilot.hover(KeyLine, offset=(x, 0))
            await wait_for(pilot, lambda told=tip: line.tooltip == told)
        await pilot.hover(KeyLine, offset=(2, 0))
        await pilot.hover(offset=(2, 0))
        await wait_for(pilot, lambda: line.tooltip is None)

    staged(steps)


def test_another_width_shows_other_keys_whole() -> None:
    async def steps(app: Around, pilot: Pilot[None], screen: Keyed) -> None:
        assert seen(app).splitlines()[-1].rstrip() == " ? help  a first"
        await pilot.resize_terminal(30, 4)
        await wait_for(pilot, lambda: "b second" in seen(app))

    staged(steps, 20)


@pytest.mark.parametrize(
    ("room", "always", "expected"),
    [(9, [2], [0, 2]), (12, [2], [0, 1, 2]), (3, [2], [2]), (0, [], []), (8, [], [0, 1])],
)
def test_those_that_always_come_have_their_room_first(room: int, always: list[int], expected: list[int]) -> None:
    assert places_that_fit([4, 4, 4], room, always) == expected
