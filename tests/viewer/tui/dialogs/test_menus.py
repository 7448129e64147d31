"""The menus: copying to where a paste finds it, and exporting beside the viewer."""

import shlex
from pathlib import Path

import pytest
from textual.screen import Screen

from tests.support.sample_tape import COMPLETE, HOSTILE, TOOLS_READS
from tests.support.screens import journey, press, seen, shows, staged, typed, wait_for
from wiretape.recorder.errors import NotFound
from wiretape.viewer.tui.dialogs import menus
from wiretape.viewer.tui.dialogs.menus import AskScreen, copy_menu, export_menu
from wiretape.viewer.tui.dialogs.offers import Later
from wiretape.viewer.tui.inspector.screen import InspectorScreen

COPIES = [("id", COMPLETE), ("text", HOSTILE)]


def test_nothing_to_copy_is_reported(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            app.push_screen(copy_menu(app, []))
            await shows(pilot, "copy: there is nothing here")
            await press(pilot, "escape")
            await wait_for(pilot, lambda: not app.screen.is_modal)

    journey(steps())


def test_an_export_is_written_beside_the_viewer_and_reported(tape: Path, tmp_path: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            for name, words in [("out.csv", "out.csv"), ("nowhere/x.csv", "nowhere")]:
                toast_count = len(app.toasts)
                app.push_screen(export_menu(app, [("one [/ exchange", ["export", COMPLETE])]))
                await shows(pilot, f"wiretape export {COMPLETE}")
                await press(pilot, "enter")
                await shows(pilot, "one [/ exchange: write to", "one-exchange.csv")
                await typed(pilot, str(tmp_path))
                await shows(pilot, "that is there already: another name, please")
                asking = app.screen
                assert isinstance(asking, AskScreen)
                asking.dismiss(str(tmp_path / name))
                await wait_for(pilot, lambda before=toast_count: len(app.toasts) > before)
                assert words in app.toasts[-1] or app.toasts[-1].startswith("1 row")
            assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith(COMPLETE)

    journey(steps())


def test_commands_are_shown_whole_and_other_texts_begun(tape: Path) -> None:
    arguments = ["export", "-f", "model:gpt-*", *(f"is:word{number}" for number in range(40)), "--last=[/]"]

    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            app.push_screen(export_menu(app, [("all", arguments)]))
            screen_text = await shows(pilot, "all ", "screenshot  this screen")
            lines = [line.strip("│ ▏").removeprefix("all").strip() for line in screen_text.splitlines() if "│" in line]
            assert shlex.join(["wiretape", *arguments]).replace(" ", "") in "".join(lines).replace(" ", "")
            await press(pilot, "escape")
            app.push_screen(copy_menu(app, [("text", "word " * 100), ("id", COMPLETE)]))
            await shows(pilot, f"id    {COMPLETE}", "…")

    journey(steps())


def test_a_name_is_proposed_that_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert menus.file_name("summary by label.x/../é", []) == "summary-by-label-x.csv"
    (tmp_path / "reads.csv").touch()
    assert menus.file_name("reads", []) == "reads-1.csv"
    assert menus.file_name("HAR", ["export", "--format", "har"]) == "HAR.har"
    assert menus.file_name("…", ["export", "--format", "asciicast"]) == "export.cast"


def test_a_line_with_a_mistake_is_not_taken(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            choices: list[str | None] = []
            app.push_screen(AskScreen("name [/", "", lambda text: None if text else "say something [/"), choices.append)
            await shows(pilot, "name [/")
            await press(pilot, "a", "backspace")
            await shows(pilot, "say something [/")
            await press(pilot, "enter", "b", "enter")
            await wait_for(pilot, lambda: choices == ["b"])
            app.push_screen(AskScreen("name", HOSTILE.replace("\n", " ")), choices.append)
            assert "\x1b" not in await shows(pilot, "name")
            await press(pilot, "escape")
            await wait_for(pilot, lambda: choices == ["b", None])
            assert "name" not in seen(app)

    journey(steps())


def test_a_second_key_before_the_first_does_nothing(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            below, depth = app.screen, len(app.screen_stack)
            menu = copy_menu(app, COPIES)
            app.push_screen(menu)
            await shows(pilot, COMPLETE)
            menu.choose(0)
            menu.choose(0)
            menu.action_cancel()
            choices: list[str | None] = []
            asking = AskScreen("name", "x")
            await wait_for(pilot, lambda: app.screen is below)
            app.push_screen(asking, choices.append)
            await shows(pilot, "name")
            asking.action_cancel()
            asking.action_cancel()
            await wait_for(pilot, lambda: choices == [None])
            assert app.screen is below
            assert len(app.screen_stack) == depth
            assert len(app.toasts) == 1

    journey(steps())


def test_a_lazily_made_text_is_described_until_chosen(tape: Path) -> None:
    async def text_given() -> str:
        return "made"

    async def failing() -> str:
        raise NotFound("it is gone")

    offered = [("now", "there"), ("later", Later("when chosen", text_given)), ("never", Later("not at all", failing))]

    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            for down, message in ((1, "later: 4 characters"), (2, "it is gone")):
                app.push_screen(copy_menu(app, offered))
                await shows(pilot, "when chosen", "not at all")
                await press(pilot, *["j"] * down, "enter")
                await wait_for(pilot, lambda told=message: [toast for toast in app.toasts if told in toast])
            assert app.clipboard == "made"

    journey(steps())


def test_the_inspector_offers_request_answer_and_tool_arguments(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: InspectorScreen(2)) as (app, pilot):
            screen = app.screen
            assert isinstance(screen, InspectorScreen)
            await wait_for(pilot, lambda: screen.is_open)
            copies = dict(screen.copies())
            assert copies["arguments of get_weather"] == '{"city":"Oslo"}'
            curl, answer = copies["curl"], copies["body"]
            assert isinstance(curl, Later)
            assert isinstance(answer, Later)
            assert "\ncurl -N" in await curl.read()
            assert (await answer.read()).encode() == b"".join(data for _, data in TOOLS_READS)

    journey(steps())
