"""The list of a server: read by key, page by page, and exchanges that are pulled when they are opened."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.support.clickhouse import engine as engines
from tests.support.clickhouse.engine import CUT_BEFORE, Engine, running
from tests.support.screens import Watch, journey, press, seen, shows, typed, wait_for
from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.wings.clickhouse import source
from wiretape.viewer.wings.clickhouse.source import ClickHouse


class Watched(ViewerApp):
    """The viewer, whose toasts are kept."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.toasts: list[str] = []

    def notify(self, message: str, **kwargs: Any) -> None:
        self.toasts.append(message)
        super().notify(message, **kwargs)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A server with 300 exchanges, which are read 130 at once."""
    monkeypatch.setattr(source, "AT_ONCE", 130)
    tape = tmp_path / "tape.db"
    with file.writing(tape, "a test") as connection:
        for _ in synthetic.fill(connection, 300, 4, seed=1):
            pass
    with running(tmp_path / "engine") as engine:
        engines.ship(tape, engine, bodies=True)
        yield engine


@asynccontextmanager
async def viewing(engine: Engine, directory: Path) -> AsyncIterator[tuple[Watched, Pilot[Any]]]:
    pulled = directory / "pulled.db"
    target = engine.target
    place = ClickHouse(target, lambda: engines.centre(engine))
    app = Watched(place.holding(lambda: pulled), Watch().clock, place=place)
    async with app.run_test(size=(120, 40)) as pilot:
        yield app, pilot


def ids(engine: Engine) -> list[str]:
    """Return the exchanges of the server, the newest first."""
    final = engine.final()
    return sorted(final, key=lambda id: final[id]["started_at"], reverse=True)


def pages(engine: Engine) -> int:
    """Count the queries of numbers."""
    return sum(b"LIMIT 130" in body for *_, body in engine.asked)


def test_no_more_is_read_than_is_looked_at(engine: Engine, tmp_path: Path) -> None:
    async def steps() -> None:
        async with viewing(engine, tmp_path) as (app, pilot):
            newest = ids(engine)
            await shows(pilot, newest[0][:8], f"{engine.target.name} · {len(newest)} exchanges")
            at_once = pages(engine)
            assert newest[-1][:8] not in seen(app)
            while newest[-1][:8] not in seen(app):
                await press(pilot, "end")
                await pilot.pause(0.01)
            assert pages(engine) > at_once

    journey(steps())


def test_an_opened_exchange_is_pulled_once_with_its_gaps(engine: Engine, tmp_path: Path) -> None:
    async def steps() -> None:
        async with viewing(engine, tmp_path) as (_, pilot):
            newest = ids(engine)
            await shows(pilot, newest[1][:8])
            await press(pilot, "enter")
            await shows(pilot, "1 Replay", newest[0][:8], "[DONE]")
            question_count = len(engine.asked)
            await press(pilot, "q")
            await shows(pilot, newest[1][:8])
            await press(pilot, "enter")
            await shows(pilot, "1 Replay", newest[0][:8], "[DONE]")
            assert not [body for *_, body in engine.asked[question_count:] if b"FROM streams" in body]
            engine.run(b"TRUNCATE TABLE streams")
            await press(pilot, "q", "j", "enter")
            await shows(pilot, "1 Replay", newest[1][:8], "its bytes were not shipped: facts, measures and gaps only")
            assert (tmp_path / "pulled.db").stat().st_mode & 0o077 == 0

    journey(steps())


def test_lanes_of_a_server_open_what_is_pulled(engine: Engine, tmp_path: Path) -> None:
    async def steps() -> None:
        async with viewing(engine, tmp_path) as (_, pilot):
            newest = ids(engine)
            await shows(pilot, newest[0][:8])
            await press(pilot, "v")
            await shows(pilot, "lanes · 130 exchanges", newest[0][:8], "at once")
            await press(pilot, "enter")
            await shows(pilot, "1 Replay", newest[0][:8], "[DONE]")
            await press(pilot, "q")
            await shows(pilot, "lanes · 130 exchanges", newest[0][:8])

    journey(steps())


def test_a_returning_server_is_read_from_where_it_stopped(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClickHouse, "retry_s", 0.05)

    async def steps() -> None:
        async with viewing(engine, tmp_path) as (app, pilot):
            newest = ids(engine)
            await shows(pilot, newest[0][:8], f"{len(newest)} exchanges")
            engine.answer = CUT_BEFORE
            await press(pilot, "end")
            await shows(pilot, "broke the connection")
            engine.answer = None
            await shows(pilot, newest[129][:8])
            await wait_for(pilot, lambda: "broke the connection" not in seen(app))
            assert newest[129][:8] in seen(app)

    journey(steps())


def test_a_failing_server_is_reported_beside_the_list(engine: Engine, tmp_path: Path) -> None:
    async def steps() -> None:
        async with viewing(engine, tmp_path) as (app, pilot):
            newest = ids(engine)
            await shows(pilot, newest[0][:8], f"{len(newest)} exchanges")
            engine.answer = CUT_BEFORE
            await press(pilot, "enter")
            await wait_for(pilot, lambda: any("broke the connection" in toast for toast in app.toasts))
            assert newest[0][:8] in seen(app)
            engine.answer = None
            await press(pilot, "slash")
            await wait_for(pilot, lambda: isinstance(app.focused, Input))
            await typed(pilot, "content~hello")
            await shows(pilot, "a server cannot search content")
            await wait_for(pilot, lambda: newest[0][:8] in seen(app))
            await typed(pilot, "model~(?=a)")
            await shows(pilot, "does not know such a regular expression")
            await wait_for(pilot, lambda: newest[0][:8] in seen(app))
            assert "t conversations" not in seen(app)

    journey(steps())
