"""The table of keys: one meaning a key, few actions a screen, each of them in help, and esc undoing one step."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from tests.support.screens import Stage, journey, press, seen, shows, staged, typed, wait_for
from wiretape.viewer import tui
from wiretape.viewer.listing.query import Query
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.bindings import APPLICATION, FILTER_LINE, MENU, SCREENS, TERMINAL
from wiretape.viewer.tui.compare.race import CompareScreen
from wiretape.viewer.tui.compare.table import CompareManyScreen
from wiretape.viewer.tui.dialogs.help import entries
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.list.conversations import ConversationsScreen
from wiretape.viewer.tui.list.lanes import LanesScreen
from wiretape.viewer.tui.list.screen import DrilledScreen
from wiretape.viewer.tui.stats.screen import StatsScreen

MOST_ACTIONS = 42
SHOWN: dict[str, Callable[[], Screen[Any]]] = {
    "list": lambda: DrilledScreen(""),
    "lanes": lambda: LanesScreen(Query(), None, lambda _: None),
    "conversations": lambda: ConversationsScreen(""),
    "stats": lambda: StatsScreen(""),
    "inspector": lambda: InspectorScreen(1),
    "race": lambda: CompareScreen(1, 5),
    "table": lambda: CompareManyScreen([1, 2, 3]),
}


def test_every_screen_of_the_table_is_tested() -> None:
    assert SHOWN.keys() == SCREENS.keys()


@pytest.mark.parametrize("screen", SCREENS)
def test_no_screen_has_more_actions_than_one_learns(screen: str) -> None:
    assert len({action.name for action in (*SCREENS[screen], *APPLICATION)}) <= MOST_ACTIONS


def test_a_key_has_one_meaning_on_all_screens() -> None:
    meanings: dict[str, set[str]] = {}
    for actions in (*SCREENS.values(), APPLICATION, TERMINAL, MENU):
        for action in actions:
            for key in action.keys.split(","):
                meanings.setdefault(key, set()).add(action.name)
    assert not {key: names for key, names in meanings.items() if len(names) > 1}
    # A line to type in has keys of its own: it takes all letters.
    assert {key for action in FILTER_LINE for key in action.keys.split(",")} == {"tab", "down", "up", "enter", "escape"}


def test_keys_are_bound_in_the_table_only() -> None:
    modules = [path for folder in tui.__path__ for path in Path(folder).rglob("*.py")]
    binding = [path.name for path in modules if re.search(r"\bBinding\(", path.read_text("utf-8"))]
    assert binding == ["bindings.py"]


@pytest.mark.parametrize("screen", SCREENS)
def test_every_action_that_applies_can_be_run_from_help(screen: str, tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, SHOWN[screen]) as (app, pilot):
            expected = {action.name for action in (*SCREENS[screen], *APPLICATION)}

            def names_listed() -> set[str | None]:
                return {entry.bound.binding.id for entry in entries(app, app.screen.active_bindings)}

            await wait_for(pilot, lambda: names_listed() >= expected - IDLE[screen])
            assert names_listed() <= expected
            await press(pilot, "f1")
            await shows(pilot, "type to search the actions", "everywhere")
            await press(pilot, "escape")
            await shows(pilot, "? help")

    journey(steps())


IDLE = {
    "list": {"compare", "toggle_filter"},
    "lanes": {"group"},
    "conversations": {"open", "all", "trees"},
    "stats": {"open", "left", "right"},
    "inspector": {"fold", "all", "filter", "open"},
    "race": set[str](),
    "table": set[str](),
}
"""Actions that do not apply to the first state of a screen."""


async def _marks(app: Stage, pilot: Any) -> tuple[str, str]:
    await shows(pilot, "7 exchanges")
    await press(pilot, "m")
    return "1 marked", "7 exchanges"


async def _zoomed(app: Stage, pilot: Any) -> tuple[str, str]:
    await shows(pilot, "timeline", "events 9 / 9")
    await press(pilot, "z")
    return "text @", "timeline"


async def _opened_event(app: Stage, pilot: Any) -> tuple[str, str]:
    await shows(pilot, "timeline", "events 9 / 9")
    await press(pilot, "enter")
    return "bytes · hex", "text @"


async def _filtered_events(app: Stage, pilot: Any) -> tuple[str, str]:
    await shows(pilot, "events 9 / 9")
    await press(pilot, "slash")
    await typed(pilot, "kind:content")
    await press(pilot, "enter")
    return "events 4 / 9", "events 9 / 9"


async def _window(app: Stage, pilot: Any) -> tuple[str, str]:
    await shows(pilot, "7 exchanges", "window all")
    await press(pilot, "z")
    return "window ", "window all"


async def _parting(app: Stage, pilot: Any) -> tuple[str, str]:
    await shows(pilot, "race ·", "of 0.181 s")
    await press(pilot, "d")
    return "the same up to", "complete"


@pytest.mark.parametrize(
    ("screen", "step"),
    [
        (SHOWN["list"], _marks), (SHOWN["inspector"], _zoomed), (SHOWN["inspector"], _opened_event),
        (SHOWN["inspector"], _filtered_events), (SHOWN["stats"], _window),
        (lambda: CompareScreen(1, 5), _parting),
    ],
)  # fmt: skip
def test_escape_undoes_one_step_and_then_goes_back(
    screen: Callable[[], Screen[Any]], step: Callable[[Stage, Any], Any], tape: Path
) -> None:
    async def steps() -> None:
        async with staged(tape, screen) as (app, pilot):
            await wait_for(pilot, lambda: len(app.screen_stack) == 3)
            below = app.screen_stack[1]
            done, undone = await step(app, pilot)
            changed = await shows(pilot, done)
            await press(pilot, "escape")
            await wait_for(pilot, lambda: undone in seen(app) and seen(app) != changed)
            assert app.screen is not below
            await press(pilot, "escape")
            await wait_for(pilot, lambda: len(app.screen_stack) == 2)

    journey(steps())


@pytest.mark.parametrize("screen", ["conversations", "lanes", "table", "race"])
def test_escape_goes_back_where_there_is_nothing_to_undo(screen: str, tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, SHOWN[screen]) as (app, pilot):
            await shows(pilot, "q back")
            await press(pilot, "escape")
            await wait_for(pilot, lambda: len(app.screen_stack) == 2)

    journey(steps())


def test_a_name_is_that_of_one_action() -> None:
    assert all(bindings.by_name()[action.name].keys == action.keys for action in (*APPLICATION, *TERMINAL))
