"""The tree of conversations: its lines, the screens opened from it, and arrivals while it is shown."""

from pathlib import Path

import pytest

from tests.support.frames import opened, record
from tests.support.screens import SIZES, assert_golden, journey, press, seen, shows, staged, wait_for
from tests.support.session_tape import session_tape
from tests.support.turns import ANSWERED, ASKED, MORE, turn
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.tui.list.conversations import ConversationsScreen
from wiretape.viewer.tui.list.screen import DrilledScreen

SUB_AGENT = {"x-claude-code-agent-id": "7"}


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """An agent of three turns, whose second started a sub-agent of two, and a chat of one turn."""
    tape = tmp_path / "tape.db"
    session = {"session_id": "build-7"}
    look, result_text = {"role": "user", "content": "Look around"}, {"role": "user", "content": "found"}
    with opened(tape) as store:
        for frames in (
            turn("a1", ASKED, metadata=session),
            turn("a2", ASKED, ANSWERED, MORE, metadata=session),
            turn("b1", look, headers=SUB_AGENT, metadata=session),
            turn("chat", {"role": "user", "content": "\x1b]2;x\x07 [/b]"}),
            turn("b2", look, ANSWERED, result_text, headers=SUB_AGENT, metadata=session),
            turn("a3", ASKED, ANSWERED, MORE, ANSWERED, MORE, metadata=session),
        ):
            record(store, frames)
    return tape


def test_a_conversation_opens_as_the_tree_of_its_turns(agents: Path) -> None:
    async def steps() -> None:
        async with staged(agents, lambda: ConversationsScreen(""), SIZES[1]) as (app, pilot):
            await shows(pilot, "2 conversations · 6 exchanges")
            await press(pilot, "enter")
            await shows(pilot, "✓ b2")
            assert_golden("conversations-120x40", seen(app))
            await press(pilot, "down", "down", "left", "left")
            await wait_for(pilot, lambda: "✓ b2" not in seen(app))
            await press(pilot, "a")
            await shows(pilot, "✓ b2")
            await press(pilot, "down", "enter")
            await wait_for(pilot, lambda: isinstance(app.screen, InspectorScreen))

    journey(steps())


def test_what_is_recorded_meanwhile_appears_below_its_conversation(agents: Path) -> None:
    async def steps() -> None:
        async with staged(agents, lambda: ConversationsScreen("-label:run=z"), SIZES[0]) as (app, pilot):
            await shows(pilot, "2 conversations · 6 exchanges")
            await press(pilot, "down", "right")
            await shows(pilot, "✓ chat")
            await press(pilot, "down")
            with opened(agents) as store:
                record(store, turn("new", MORE))
                store.append(turn("next", {"role": "user", "content": "\x1b]2;x\x07 [/b]"}, ANSWERED, MORE)[:-1])
            text = await shows(pilot, "3 conversations · 8 exchanges · 1 open", "● next", "new")
            (cursor,) = (line for line in text.splitlines() if line.startswith("▌"))
            assert "✓ chat" in cursor, "the cursor stays where it was"
            await press(pilot, "t")
            await wait_for(pilot, lambda: isinstance(app.screen, DrilledScreen))
            assert app.filters == ["-label:run=z conversation:chat"]

    journey(steps())


def test_a_key_toggles_time_and_content_of_requests(tmp_path: Path) -> None:
    tape = session_tape(tmp_path / "sessions.db")

    async def steps() -> None:
        async with staged(tape, lambda: ConversationsScreen("")) as (_, pilot):
            await shows(pilot, "TIME", "stalled 36 %", "╱ stalled")
            await press(pilot, "v")
            await shows(pilot, "CONTEXT", "· other", "◆ images")
            await press(pilot, "down")
            text = await shows(pilot, "largest tool results: read")
            assert "bytes from cccc0000" in text  # the rows above have its number among all exchanges
            await press(pilot, "v")
            text = await shows(pilot, "TIME", "╱ stalled 36 %")
            assert "largest tool results" not in text

    journey(steps())


def test_the_legend_is_of_the_conversation_under_the_cursor(tmp_path: Path) -> None:
    tape = session_tape(tmp_path / "sessions.db")

    async def steps() -> None:
        async with staged(tape, lambda: ConversationsScreen("")) as (_, pilot):
            await shows(pilot, " ░ waiting 50 %")
            await press(pilot, "down")
            await shows(pilot, " ╱ stalled 36 %")
            await press(pilot, "enter", "down", "down")
            await shows(pilot, " ╱ stalled 36 %", "failed 100 %")

    journey(steps())
