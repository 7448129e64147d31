"""The bar of the transport line and the timeline, pressed and pulled."""

from pathlib import Path

import pytest
from textual.events import MouseMove

from tests.support.growing_tape import recorder
from tests.support.sample_tape import DONE, MS, event
from tests.support.screens import journey, point, shows, staged, wait_for
from wiretape.recorder.clock import SYSTEM
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.transport import PlaybackState
from wiretape.viewer.timing.playback import Playback
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.playing.timeline import TransportLine

COUNT = 120


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with an answer of a word each 100 ms."""
    path = tmp_path_factory.mktemp("steady") / "tape.db"
    parts = [(100 * at, event({"content": f"w{at} "})) for at in range(1, COUNT)]
    with recorder(path) as tape:
        tape.record("abcd000000000001", [*parts, (100 * COUNT, event({}, "stop") + DONE)])
    return path


@pytest.mark.parametrize(("name", "height"), [("transport", 18), ("timeline", 40)])
def test_presses_and_drags_move_the_playhead_anywhere(steady: Path, name: str, height: int) -> None:
    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(steady, lambda: screen, (120, height)) as (app, pilot):
            await wait_for(pilot, lambda: screen.is_open and screen.panes.timeline.axis_ns)
            playback = screen.playback
            widget = screen.panes.transport if name == "transport" else screen.panes.timeline
            end = playback.end_ns
            first, cells, lasts = widget.span()
            assert lasts == end

            async def pointed(x: int, y: int = 0, button: int = 1) -> float:
                await point(pilot, MouseMove, f"#{name}", (x, y), button)
                assert widget.span() == (first, cells, end)  # the bar has not slipped away
                return playback.media_ns / end

            await pilot.mouse_down(f"#{name}", (first + cells // 2 - 1, 0))
            assert playback.media_ns == pytest.approx(end / 2, rel=0.02)
            assert await pointed(first + cells // 4 - 1) == pytest.approx(0.25, rel=0.05)
            assert await pointed(0, -5) == 0
            assert await pointed(first + cells - 1, -5) == 1
            assert await pointed(119) == 1
            assert await pointed(first) == pytest.approx(1 / cells, rel=0.01)
            await pilot.mouse_up(f"#{name}", (first, -5))
            assert await pointed(first + cells // 2) == pytest.approx(1 / cells, rel=0.01)
            assert app.mouse_captured is None
            await pilot.mouse_down(f"#{name}", (first, 0))
            assert await pointed(first + cells // 2, button=0) == pytest.approx(1 / cells, rel=0.01)  # let go of unseen
            assert app.mouse_captured is None
            await pilot.mouse_down(f"#{name}", (2, 0))
            assert await pointed(first + 9) == pytest.approx(1 / cells, rel=0.01)  # it began elsewhere
            await pilot.mouse_up(f"#{name}", (first + 9, 0))

    journey(steps())


def test_where_it_is_pressed_the_bar_stands(steady: Path) -> None:
    async def steps() -> None:
        screen = InspectorScreen(1)
        async with staged(steady, lambda: screen, (80, 18)) as (_, pilot):
            await wait_for(pilot, lambda: screen.is_open)
            first, cells, _ = screen.panes.transport.span()
            for cell in (0, 1, cells // 2, cells - 2, cells - 1):
                await pilot.click("#transport", (first + cell, 0))
                assert screen.panes.transport.render_line(0).text[first + cell] == ">"
            await pilot.click("#transport", (first - 1, 0))
            assert screen.playback.media_ns == 0
            await pilot.click("#transport", (first + cells, 0))
            assert screen.playback.at_end
            await shows(pilot, f"#{screen.playback.position - 1}/#{screen.playback.position - 1}")

    journey(steps())


def test_a_bar_stands_where_no_axis_has_the_playhead() -> None:
    state = PlaybackState(Playback((), 5 * MS, lambda: 0), Pulse(SYSTEM), 3)
    lines = ["".join(text for text, _ in state.parts(80, has_bar=has_bar)[0]) for has_bar in (True, False)]
    assert ["[>" in line for line in lines] == [True, False]
    assert "0 %" in lines[1]


def test_without_a_bar_there_is_nothing_to_press() -> None:
    line = TransportLine()
    line.show(PlaybackState(Playback((), 5 * MS, lambda: 0), Pulse(SYSTEM), None))
    assert line.span()[1] == 0
