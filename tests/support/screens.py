"""A single screen in the viewer's application, with a stopped clock, and its contents as text.

A journey is a coroutine that presses keys and waits for their effects, never for time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseEvent
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from wiretape.recorder.clock import Clock
from wiretape.viewer.tui.app import ViewerApp

GOLDEN = Path(__file__).parent.parent / "data" / "screens"
SIZES = [(80, 24), (120, 40)]
NOON_NS = 1_772_366_400 * 10**9
_PATIENCE_S = 60.0


class Watch:
    """A clock that is moved by hand, in ns."""

    def __init__(self) -> None:
        self.ns = 0

    @property
    def clock(self) -> Clock:
        """The clock: its wall says noon of the day on which the small tape was recorded."""
        return Clock(lambda: self.ns, lambda: NOON_NS + self.ns)


class Stage(ViewerApp):
    """The viewer with one screen over its list; `filtering.sql` are the filters that the screen applied."""

    def __init__(self, tape: Path, screen: Callable[[], Screen[Any]], watch: Watch, *, ascii: bool = False) -> None:
        super().__init__(tape, watch.clock, first_screen=screen, ascii=ascii)
        self.watch = watch
        self.filters: list[str] = []
        self.toasts: list[str] = []

    def show_streams(self, filter_text: str) -> None:
        self.filters.append(filter_text)
        super().show_streams(filter_text)

    def notify(self, message: str, **kwargs: Any) -> None:
        assert kwargs.get("markup") is False
        self.toasts.append(message)
        super().notify(message, **kwargs)


@contextlib.asynccontextmanager
async def staged(
    tape: Path, screen: Callable[[], Screen[Any]], size: tuple[int, int] = (120, 40), *, ascii: bool = False
) -> AsyncIterator[tuple[Stage, Pilot[Any]]]:
    app = Stage(tape, screen, Watch(), ascii=ascii)
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def wait_for(pilot: Pilot[Any], predicate: Callable[[], Any]) -> Any:
    """Wait until something holds, and give it; it is checked less and less often, as most checks draw the screen."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + _PATIENCE_S, 0.01
    while not (result := predicate()):
        assert loop.time() < deadline, f"waited in vain:\n{seen(pilot.app)}"
        await pilot.pause(pause)
        pause = min(pause * 1.2, 0.1)
    return result


def strips(app: Any) -> list[Strip]:
    """Return the lines of the screen; Textual has no public way to them, but as SVG."""
    return list(app.screen._compositor.render_strips(app.size))  # noqa: SLF001


async def point(
    pilot: Pilot[Any], kind: type[MouseEvent], target: str | type[Widget], place: tuple[int, int], button: int = 0
) -> None:
    """Move or turn the mouse over a widget; a pilot's public ways are those of clicks."""
    await pilot._post_mouse_events([kind], target, place, button)  # noqa: SLF001


def seen(app: Any) -> str:
    """Return the screen's text, line by line."""
    lines, filters, background = [], app.get_line_filters(), app.screen.background_colors[1]
    for strip in strips(app):
        for line_filter in filters:
            strip = strip.apply_filter(line_filter, background)
        lines.append(strip.text.rstrip())
    return "\n".join(lines) + "\n"


async def shows(pilot: Pilot[Any], *texts: str) -> str:
    """Wait until texts are on the screen, and give all of it."""

    def found() -> str:
        screen = seen(pilot.app)
        return screen if all(text in screen for text in texts) else ""

    return str(await wait_for(pilot, found))


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after the other; the caller waits for their effects."""
    for key in keys:
        pilot.app.simulate_key(key)
        await pilot.pause(0)


async def resized(pilot: Pilot[Any], size: tuple[int, int]) -> str:
    """Resize the terminal, and return the screen's text when it has settled."""
    await pilot.resize_terminal(*size)
    previous = ""
    while (text := seen(pilot.app)) != previous or text.count("\n") != size[1]:
        previous = text
        await pilot.pause(0.05)
    return text


async def typed(pilot: Pilot[Any], text: str) -> None:
    """Type a text into the line that has the focus, all at once."""
    line = await wait_for(pilot, lambda: pilot.app.focused)
    assert isinstance(line, Input)
    line.value = text


def journey(steps: Awaitable[None]) -> None:
    """Run a journey."""

    async def whole() -> None:
        await steps

    asyncio.run(whole())


def assert_golden(name: str, text: str) -> None:
    """Compare with the stored text; delete its file to renew it."""
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        pytest.fail(f"{path} was not there and has been written: look at it")
    assert text == path.read_text("utf-8")
