"""Asking a tape in its thread: the newest of a key wins, errors are in our words, and closing waits for nobody."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from textual.app import App
from textual.screen import ModalScreen, Screen

from wiretape.recorder.errors import NotFound
from wiretape.viewer.source.tape_source import TapeSource
from wiretape.viewer.tui.base.host import Superseded, TapeReader, is_seen

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def endless(source: TapeSource) -> int:
    return int(source.connection.exec_driver_sql(ENDLESS).scalar_one())


def test_a_question_is_answered_in_the_tapes_thread(tape: Path) -> None:
    async def steps() -> None:
        reader = TapeReader(tape)
        count, name = await reader.read(lambda source: (source.count(), threading.current_thread().name))
        assert (count, name) == (7, "tape")
        reader.close()

    asyncio.run(steps())


def test_a_newer_question_ends_an_older_of_its_key(tape: Path) -> None:
    async def steps() -> None:
        reader = TapeReader(tape)
        questions, started = [], threading.Event()

        def long(source: TapeSource) -> int:
            started.set()
            return endless(source)

        questions = [asyncio.create_task(reader.read(long, "list"))]
        await asyncio.to_thread(started.wait)
        questions += [asyncio.create_task(reader.read(TapeSource.count, "list"))]
        first, second = await asyncio.gather(*questions, return_exceptions=True)
        assert isinstance(first, Superseded)
        assert second == 7
        assert await reader.read(TapeSource.count) == 7
        reader.close()

    asyncio.run(steps())


def test_a_question_ends_when_nobody_waits_for_it(tape: Path) -> None:
    async def steps() -> None:
        reader, started = TapeReader(tape), threading.Event()

        def long(source: TapeSource) -> int:
            started.set()
            return endless(source)

        questions = asyncio.create_task(reader.read(long))
        await asyncio.to_thread(started.wait)
        questions.cancel()
        assert await asyncio.wait_for(reader.read(TapeSource.count), 60) == 7
        reader.close()

    asyncio.run(steps())


def test_a_failure_is_raised_where_the_question_was_asked(tmp_path: Path, tape: Path) -> None:
    async def steps() -> None:
        reader = TapeReader(tmp_path / "none.db")
        with pytest.raises(NotFound):
            await reader.read(TapeSource.count)
        reader.close()
        reader = TapeReader(tape)
        with pytest.raises(ZeroDivisionError):
            await reader.read(lambda _: 1 // 0)
        reader.close()
        with pytest.raises(Superseded):
            await reader.read(TapeSource.count)

    asyncio.run(steps())


@pytest.mark.parametrize("is_endless", [True, False])
def test_closing_ends_questions_without_waiting_for_them(is_endless: bool, tape: Path) -> None:
    release, begun = threading.Event(), threading.Event()

    def long(source: TapeSource) -> object:
        begun.set()
        return endless(source) if is_endless else release.wait(60)

    async def steps() -> None:
        reader = TapeReader(tape)
        questions = asyncio.create_task(reader.read(long))
        await asyncio.to_thread(begun.wait)
        started = time.perf_counter()
        reader.close()
        assert time.perf_counter() - started < 50  # it would wait 60 s
        release.set()
        questions.cancel()

    asyncio.run(steps())


def test_a_screen_is_seen_on_top_and_under_menus() -> None:
    async def steps() -> None:
        app = App[None]()
        async with app.run_test():
            below, above, menu = Screen[None](), Screen[None](), ModalScreen[None]()
            assert not is_seen_in(app, below)
            for one, seen in ((below, [below]), (above, [above]), (menu, [above, menu])):
                await app.push_screen(one)
                assert [screen for screen in (below, above, menu) if is_seen_in(app, screen)] == seen

    asyncio.run(steps())


def is_seen_in(app: App[None], screen: Screen[None]) -> bool:
    return screen in app.screen_stack and is_seen(screen)
