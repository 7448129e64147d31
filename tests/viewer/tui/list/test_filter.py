"""The filter above the list: typed, completed, recalled and saved."""

from pathlib import Path

import pytest

from tests.support.growing_tape import recorder
from tests.support.list_screen import at_cursor, press, rows, type_filter, viewed
from tests.support.sample_tape import COMPLETE, LIVE, TOOLS, event
from tests.support.screens import journey, seen, shows, wait_for
from wiretape.viewer.query import values
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.list import filter
from wiretape.viewer.tui.list.filter import FilterInput
from wiretape.viewer.tui.list.rows import StreamRows
from wiretape.viewer.tui.list.screen import StreamsScreen


def test_a_filter_applies_while_it_is_typed_and_counts(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, LIVE[:8])
            await type_filter(pilot, "is:live")
            await shows(pilot, "1 / 7 · ")
            press(pilot, "enter")
            await at_cursor(pilot, LIVE)
            press(pilot, "backslash")
            await shows(pilot, COMPLETE[:8], "off: \\ switches it on")
            press(pilot, "backslash")
            await shows(pilot, "1 / 7 · ")
            press(pilot, "escape")
            await shows(pilot, "off: \\")

    journey(steps())


def test_a_filter_being_typed_shows_no_other_count(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="is:live") as pilot:
            await shows(pilot, "1 / 7 · ")
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            screen.filter.box.value = "is:ok"
            await wait_for(pilot, lambda: screen.filter.is_typing)
            screen.show_state()
            await wait_for(pilot, lambda: "1 / 7" not in seen(pilot.app))
            await shows(pilot, "2 / 7 · ")

    journey(steps())


def test_an_unreadable_filter_leaves_the_last_in_force(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await type_filter(pilot, "is:live")
            await shows(pilot, "1 / 7 · ")
            pilot.app.screen.query_one(FilterInput).value += " ttft>fast"
            await shows(pilot, "'fast' (character 14): expected a duration", LIVE[:8])
            await wait_for(pilot, lambda: "1 / 7" not in seen(pilot.app))  # no count of another filter
            pilot.app.screen.query_one(FilterInput).value = "is:live ttft>1h"
            text = await shows(pilot, "0 of 7 match.", "1  outcome:open  alone")
            assert "expected" not in text

    journey(steps())


def test_titles_stay_below_an_unreadable_filter(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            box = await type_filter(pilot, "ttft>fast")
            await shows(pilot, "'fast' (character 6): expected a duration", "START▼")
            press(pilot, "enter")
            await wait_for(pilot, lambda: not box.has_focus)
            lines = (await shows(pilot, "'fast' (character 6): expected a duration", "START▼")).splitlines()
            assert ["START▼" in line for line in lines[:4]] == [False, False, False, True]
            press(pilot, "slash", "escape")
            await wait_for(pilot, lambda: "expected" not in seen(pilot.app) and not box.value)

    journey(steps())


def test_escape_leaves_the_filter_as_it_was(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, filter_text="flag:stall") as pilot:
            await shows(pilot, "1 / 7", TOOLS[:8])
            for typed in ("is:", "ttft>fast", "is:live", "model:nobody"):
                box = await type_filter(pilot, typed)
                await shows(pilot, typed, "esc cancel")
                press(pilot, "escape")
                await wait_for(pilot, lambda box=box: not box.has_focus)
                await shows(pilot, "/ flag:stall", "1 / 7", TOOLS[:8])
            press(pilot, "escape")
            await shows(pilot, "off: \\ switches it on")
            press(pilot, "slash")
            await wait_for(pilot, lambda: box.has_focus)
            press(pilot, "x", "escape")
            await wait_for(pilot, lambda: not box.has_focus)
            await shows(pilot, "off: \\ switches it on", LIVE[:8])
            press(pilot, "backslash")
            await shows(pilot, "/ flag:stall", "1 / 7")

    journey(steps())


def test_escape_drops_an_invalid_filter_that_was_applied(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (80, 24)) as pilot:
            await shows(pilot, LIVE[:8])
            box = await type_filter(pilot, "m:gpt")
            press(pilot, "enter")
            await shows(pilot, "there is no such field", "/ filter")
            press(pilot, "escape")
            await wait_for(pilot, lambda: not box.value and "no such field" not in seen(pilot.app))

    journey(steps())


def test_escape_first_drops_the_chosen_completion(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            box = await type_filter(pilot, "is:")
            await wait_for(pilot, lambda: screen.streams.listing.vocabulary.values)  # new completions drop the choice
            await shows(pilot, "aborted")
            press(pilot, "down")
            await wait_for(pilot, lambda: box.completions.chosen == 0)
            press(pilot, "escape")
            await wait_for(pilot, lambda: box.completions.chosen is None)
            assert (box.has_focus, box.value) == (True, "is:")
            press(pilot, "escape")
            await wait_for(pilot, lambda: (box.has_focus, box.value) == (False, ""))

    journey(steps())


def test_a_filter_is_completed_and_remembered(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            box = await type_filter(pilot, "")
            await wait_for(pilot, lambda: screen.streams.listing.vocabulary.values)
            press(pilot, *"mod")
            await shows(pilot, "   model:  the model asked for")
            press(pilot, "tab")
            await wait_for(pilot, lambda: box.value == "model:")
            press(pilot, *"gpt-x-")
            await shows(pilot, "   gpt-x-mini")
            press(pilot, "tab")
            await wait_for(pilot, lambda: box.value == "model:gpt-x-mini")
            press(pilot, "enter")
            await wait_for(pilot, lambda: rows(pilot).has_focus)
            await type_filter(pilot, "is:ok")
            press(pilot, "enter")
            await wait_for(pilot, lambda: rows(pilot).has_focus)
            press(pilot, "slash")
            await wait_for(pilot, lambda: box.has_focus)
            press(pilot, "up", "up")
            await wait_for(pilot, lambda: box.value == "model:gpt-x-mini")
            press(pilot, "down", "down")
            await wait_for(pilot, lambda: not box.value)

    journey(steps())


def test_completions_chosen_with_arrows_cover_no_rows(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape, (80, 24)) as pilot:
            text_before = await shows(pilot, LIVE[:8], "Hel")
            box = await type_filter(pilot, "is:")
            lines = (await shows(pilot, "at the end: expected a value", "   aborted", "HAPPENED")).splitlines()
            assert lines[2].startswith("   at the end")
            assert "HAPPENED" in lines[9]
            assert LIVE[:8] in lines[10]
            assert "tab complete" in lines[-1]
            assert "/ filter" not in lines[-1]
            press(pilot, "down", "down", "down", "up", "enter")
            await wait_for(pilot, lambda: box.value == "is:client_closed")
            await shows(pilot, "0 of 7 match.")
            box.value = ""
            press(pilot, "escape")
            await wait_for(pilot, lambda: seen(pilot.app) == text_before)

    journey(steps())


def test_completions_are_clicked_and_clicking_rows_closes_them(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            box = await type_filter(pilot, "is:l")
            await shows(pilot, "   live")
            await pilot.click("Completions", offset=(4, 1))
            await wait_for(pilot, lambda: box.value == "is:live" and box.has_focus)
            await shows(pilot, "1 / 7 · ")
            await pilot.click(StreamRows, offset=(10, 0))
            await wait_for(pilot, lambda: rows(pilot).has_focus and "tab complete" not in seen(pilot.app))

    journey(steps())


UNFINISHED = {
    " m": "unfinished", " ttf": "unfinished", " model:gpt": "unfinished", " ttft>": "expected", " is:e": "unfinished",
    " is:zz": "no such outcome",
}  # fmt: skip


def test_an_unfinished_filter_waits_for_enter(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            screen = pilot.app.screen
            assert isinstance(screen, StreamsScreen)
            box = await type_filter(pilot, "is:live")
            await wait_for(pilot, lambda: screen.streams.listing.vocabulary.values)
            for more, message in UNFINISHED.items():
                await shows(pilot, "1 / 7 · ")
                press(pilot, *more)
                await shows(pilot, f"is:live{more}", message, LIVE[:8])
                assert screen.filter.text.strip() == "is:live"
                assert len(screen.streams.listing.catalog) == 1
                box.value = "is:live"
            box.value = "mod"
            await shows(pilot, "unfinished: enter applies it as it stands", LIVE[:8])
            press(pilot, "enter")
            await shows(pilot, "0 of 7 match.")

    journey(steps())


def test_a_filter_of_an_earlier_run_is_recalled(tape: Path, tmp_path: Path) -> None:
    async def first_list() -> None:
        async with viewed(tape) as pilot:
            await type_filter(pilot, "is:live")
            press(pilot, "enter")
            await wait_for(pilot, lambda: filter.history_file().exists())
            assert filter.read_history(filter.history_file()) == ["is:live"]

    async def second() -> None:
        filter.add_filters(filter.history_file(), "\x1b]0;t\x07")
        async with viewed(tape) as pilot:
            box = await type_filter(pilot, "dra")
            await wait_for(pilot, lambda: len(box.history) == 2)
            press(pilot, "up")
            await wait_for(pilot, lambda: box.value == "␛]0;t␇")
            press(pilot, "up")
            await wait_for(pilot, lambda: box.value == "is:live")
            press(pilot, "down", "down")
            await wait_for(pilot, lambda: box.value == "dra")

    assert filter.history_file().is_relative_to(tmp_path)
    journey(first_list())
    journey(second())


def test_a_broken_history_is_reported_once(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filter.history_file().mkdir(parents=True)
    toasts: list[str] = []
    monkeypatch.setattr(ViewerApp, "notify", lambda app, message, **more: toasts.append(message))

    async def steps() -> None:
        async with viewed(tape) as pilot:
            await wait_for(pilot, lambda: toasts)
            await type_filter(pilot, "is:live")
            press(pilot, "enter")
            await shows(pilot, "1 / 7")
            reading = [worker for worker in pilot.app.workers if worker.group == "history"]
            await wait_for(pilot, lambda: all(worker.is_finished for worker in reading))
            (message,) = toasts
            assert message.startswith("The filters of earlier runs cannot be read: Is a directory (")

    journey(steps())


def test_a_saved_view_is_chosen_by_its_name(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".wiretape.toml").write_text(
        '[views]\nslow = "ttft>800s"\n"good \\u001b" = "is:ok"\nlive = "is:live"\n'
    )

    async def steps() -> None:
        async with viewed(tape) as pilot:
            press(pilot, "apostrophe")
            text = await shows(pilot, "saved views", "good ␛          2  is:ok", "slow            0  ttft>800s")
            assert "\x1b" not in text
            press(pilot, *"iv")
            await wait_for(pilot, lambda: "good" not in seen(pilot.app))
            press(pilot, "enter")
            await shows(pilot, "1 / 7 · ", "/ is:live")
            press(pilot, "backslash")
            await shows(pilot, "off: \\ switches it on")
            press(pilot, "apostrophe")
            await shows(pilot, "saved views", "good ␛          2")
            press(pilot, "up", "enter")
            await shows(pilot, "1 / 7 · ", "/ is:live")
            press(pilot, "apostrophe")
            await shows(pilot, "saved views")
            press(pilot, *"zz")
            await shows(pilot, "no view for 'zz'")
            press(pilot, "enter", "escape")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))

    journey(steps())


def test_without_saved_views_their_syntax_is_explained(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    async def steps() -> None:
        async with viewed(tape) as pilot:
            press(pilot, "apostrophe")
            await shows(pilot, "No view is saved yet.", ".wiretape.toml", "[views]", 'slow = "ttft>800ms"')
            press(pilot, "enter", "escape")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))

    journey(steps())


def test_a_configuration_mistake_replaces_the_saved_views(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps() -> None:
        async with viewed(tape) as pilot:
            (tmp_path / ".wiretape.toml").write_text('[views]\nslow = "("\n')
            press(pilot, "apostrophe")
            await shows(pilot, ".wiretape.toml, line 2, column 1: slow under [views] is no filter")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, StreamsScreen))
            press(pilot, "S")
            await shows(pilot, "stats · .wiretape.toml, line 2, column 1: ")

    journey(steps())


def test_an_endless_expression_is_taken_for_a_slip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SEARCH_SECONDS", 0.02)
    with recorder(tmp_path / "tape.db") as writing:
        parts = [(10, event({"content": "a" * 60_000 + "b"})), (20, event({}) + b"data: [DONE]\n\n")]
        writing.record("a" * 16, parts)

    async def steps() -> None:
        async with viewed(tmp_path / "tape.db") as pilot:
            await shows(pilot, "aaaaaaaa")
            await type_filter(pilot, 'text~"(a+)+$"')
            await shows(pilot, "'~' (character 5): a regular expression of the filter takes too long", "aaaaaaaa")

    journey(steps())
