"""`w`: the page of the screen's exchanges, in the browser."""

import contextlib
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.page import read as read_page
from tests.support.sample_tape import COMPLETE, LIVE, TOOLS, frames, recorded
from tests.support.screens import Stage, journey, press, shows, staged, wait_for
from wiretape.viewer.source import served
from wiretape.viewer.tui.compare.race import CompareScreen
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.list.screen import DrilledScreen

BROWSER = """#!/bin/sh
path=${1#file://}
cp -p "$path" "$0.page"
echo "$path" >>"$0.got"
"""


@pytest.fixture
def browser_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a browser that keeps the paths of the pages it gets, and the last page; return the paths' file."""
    browser = tmp_path / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "browser.got"


def paths(got: Path) -> list[Path]:
    return [Path(line) for line in got.read_text().splitlines()] if got.exists() else []


async def browse(app: Stage, pilot: Pilot[Any]) -> None:
    """Press the key, and wait until the browser has the page and its process is over."""
    toast_count = len(app.toasts)
    await press(pilot, "w")
    await wait_for(
        pilot, lambda: [toast for toast in app.toasts[toast_count:] if "page is opened in the browser" in toast]
    )


def data(page: Path) -> str:
    return read_page(page.read_bytes()).blocks["data"].decode()


def test_an_exchanges_page_is_private_and_removed_at_exit(tape: Path, browser_log: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: InspectorScreen(2)) as (app, pilot):
            screen = app.screen
            assert isinstance(screen, InspectorScreen)
            await wait_for(pilot, lambda: screen.is_open)
            await browse(app, pilot)
            (page,) = paths(browser_log)
            assert stat.S_IMODE(page.stat().st_mode) == 0o600
            assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
            text = data(page)
            assert TOOLS in text
            assert "Think. " in text
            assert COMPLETE not in text
        await wait_for(pilot, lambda: not page.parent.exists())

    journey(steps())


def test_the_lists_page_has_marked_or_all_exchanges(tape: Path, browser_log: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: DrilledScreen("-id:f0")) as (app, pilot):
            await shows(pilot, "6 / 7")
            await browse(app, pilot)
            text = data(paths(browser_log)[0])
            assert COMPLETE in text
            assert LIVE not in text
            await press(pilot, "m", "m")
            await shows(pilot, "2 marked")
            await browse(app, pilot)
            assert COMPLETE not in data(paths(browser_log)[1])

    journey(steps())


def test_a_filter_like_a_format_changes_no_page(browser_log: Path) -> None:
    path = recorded(browser_log.parent / "own.db", list(frames()))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE exchanges SET request_model = 'html' WHERE id IN (?, ?)", (COMPLETE, TOOLS))

    async def steps() -> None:
        async with staged(path, lambda: DrilledScreen("html")) as (app, pilot):
            await shows(pilot, "2 / 7")
            await press(pilot, "m")
            await shows(pilot, "1 marked")
            await browse(app, pilot)
            assert COMPLETE not in data(paths(browser_log)[0])

    journey(steps())


def test_the_page_of_a_race_has_both(tape: Path, browser_log: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(1, 2)) as (app, pilot):
            screen = app.screen
            assert isinstance(screen, CompareScreen)
            await wait_for(pilot, screen.exports)
            await browse(app, pilot)
            text = data(paths(browser_log)[0])
            assert COMPLETE in text
            assert TOOLS in text

    journey(steps())


def test_without_a_browser_the_path_is_shown(tape: Path, browser_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    async def steps() -> None:
        async with staged(tape, lambda: InspectorScreen(2)) as (app, pilot):
            screen = app.screen
            assert isinstance(screen, InspectorScreen)
            await wait_for(pilot, screen.exports)
            await press(pilot, "w")
            toast = await wait_for(pilot, lambda: [one for one in app.toasts if "no browser here" in one])
            (page,) = browser_log.parent.glob("wiretape-page-*/page.html")
            assert str(page) in toast[0]

    journey(steps())


def test_served_live_pages_open_without_a_visible_address(
    tape: Path, browser_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(browser_log.parent))
    url = "http://127.0.0.1:1/secret/"

    async def steps() -> None:
        async with staged(tape, lambda: DrilledScreen("")) as (app, pilot):
            await shows(pilot, LIVE[:8])
            await browse(app, pilot)
            await press(pilot, "enter")
            screen = await wait_for(pilot, lambda: isinstance(app.screen, InspectorScreen) and app.screen)
            await wait_for(pilot, screen.exports)
            await browse(app, pilot)
            for page, to in zip(paths(browser_log), (url, f"{url}{LIVE}/"), strict=True):
                assert page.read_text() == f'<meta http-equiv="refresh" content="0; url={to}">'

    with served.announced(tape, url):
        journey(steps())


def test_a_selection_without_live_page_gets_its_own(
    tape: Path, browser_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(browser_log.parent))

    async def steps() -> None:
        async with staged(tape, lambda: DrilledScreen("-id:f0")) as (app, pilot):
            await shows(pilot, "6 / 7")
            await browse(app, pilot)
            assert COMPLETE in data(paths(browser_log)[0])

    with served.announced(tape, "http://127.0.0.1:1/secret/"):
        journey(steps())
