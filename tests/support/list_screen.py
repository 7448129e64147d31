"""The list of exchanges in the viewer's application: its rows, cursor and filter."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from textual.events import Key
from textual.pilot import Pilot

from tests.support.screens import Watch, seen, wait_for
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.list.filter import FilterInput
from wiretape.viewer.tui.list.rows import StreamRows
from wiretape.viewer.tui.list.screen import StreamsScreen


@contextlib.asynccontextmanager
async def viewed(tape: Path, size: tuple[int, int] = (120, 40), **more: Any) -> AsyncIterator[Pilot[Any]]:
    async with ViewerApp(tape, Watch().clock, **more).run_test(size=size, notifications=True) as pilot:
        yield pilot


def rows(pilot: Pilot[Any]) -> StreamRows:
    (screen,) = [screen for screen in pilot.app.screen_stack if isinstance(screen, StreamsScreen)]
    return screen.query_one(StreamRows)


def cursor(pilot: Pilot[Any]) -> str:
    """Return the line of the cursor."""
    return next((line for line in seen(pilot.app).splitlines() if line.startswith("▌")), "")


def press(pilot: Pilot[Any], *keys: str) -> None:
    """Send key events as a terminal does, without waiting for their effect."""
    for key in keys:
        pilot.app.post_message(Key(key, key if len(key) == 1 else None))


async def type_filter(pilot: Pilot[Any], text: str) -> FilterInput:
    """Replace the text of the filter, and return its input box."""
    press(pilot, "slash")
    box = pilot.app.screen.query_one(FilterInput)
    await wait_for(pilot, lambda: box.has_focus)
    box.clear()
    press(pilot, *text)
    return box


async def at_cursor(pilot: Pilot[Any], id: str) -> None:
    await wait_for(pilot, lambda: id[:8] in cursor(pilot))
