"""The tree of conversations reads only sessions near the cursor, and again only those that changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.frames import opened, record
from tests.support.session_tape import FIRST, KEY, OTHER, session_tape
from tests.support.turns import ASKED, turn
from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.tui.list.tree_data import ConversationsData, TreeQuery, read

MS = 1_000_000
NOTHING = TreeQuery()
ALL = TreeQuery(near=frozenset({KEY, OTHER, "live"}))

Reading = Callable[[ConversationsData, TreeQuery], ConversationsData]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return session_tape(tmp_path / "sessions.db")


@pytest.fixture
def reading(tape: Path) -> Reading:
    """Read the tape over one connection, as the viewer does."""
    clock = Clock(lambda: 0, lambda: 0, boot_ns=lambda: 0)
    with TapePlace(tape).opened() as source:
        yield lambda data, query: read(source, "", clock, DEFAULT, data, query)


def test_only_near_and_opened_conversations_have_bars(reading: Reading) -> None:
    data = reading(ConversationsData(), NOTHING)
    assert [*data.rows] == [OTHER, KEY]
    assert not data.times
    assert NOTHING.is_in(data)
    newest = TreeQuery(near=frozenset({OTHER}))
    assert not newest.is_in(data)
    data = reading(data, newest)
    assert data.times.keys() == {OTHER}
    data = reading(data, TreeQuery(frozenset({KEY}), frozenset({OTHER})))
    assert data.times.keys() == {OTHER, KEY}
    assert data.bars(of_context=False).wall_ns[KEY] == 8400 * MS


def test_what_is_known_is_not_read_again(reading: Reading) -> None:
    data = reading(ConversationsData(), ALL)
    assert reading(data, ALL) is data


def test_only_changed_conversations_are_accounted_again(tape: Path, reading: Reading) -> None:
    data = reading(ConversationsData(), ALL)
    with opened(tape) as store:
        record(store, turn("more", ASKED, metadata={"session_id": OTHER}))
    changed = reading(data, ALL)
    assert changed.version != data.version
    assert changed.times[KEY].bars is data.times[KEY].bars
    assert changed.times[OTHER].bars is not data.times[OTHER].bars


def test_a_running_conversation_grows(tape: Path, reading: Reading) -> None:
    *opening, final, _ = turn("live", ASKED, metadata={"session_id": "live"})
    with opened(tape) as store:
        store.append(opening)
    data = reading(ConversationsData(), ALL)
    length_before = data.times["live"].bars.length
    with opened(tape) as store:
        store.append([final])
    assert reading(data, ALL).times["live"].bars.length > length_before


def test_verdicts_follow_the_turns_that_they_are_about(reading: Reading) -> None:
    query = TreeQuery(frozenset({KEY}), ALL.near)
    data = reading(ConversationsData(), query)
    assert {part.cache_verdict for part in data.turns[KEY]} == {None}
    judged = reading(data, query)
    assert {part.cache_verdict for part in judged.turns[KEY]} == {"unreported", "unknown", None}
    assert reading(judged, query) is judged


def test_contexts_are_read_near_the_cursor_on_request(reading: Reading) -> None:
    data = reading(ConversationsData(), ALL)
    assert not data.contexts
    query = TreeQuery(near=ALL.near, of_context=True)
    assert not query.is_in(data)
    data = reading(data, query)
    assert query.is_in(data)
    bars = data.bars(of_context=True)
    assert (bars.title, bars.sessions.keys(), bars.wall_ns[KEY]) == ("CONTEXT", {KEY, OTHER}, 8400 * MS)
    (part,) = (one for one in data.turns[KEY] if one.id == FIRST)
    assert part.sources["user"] > 0
    assert sum(part.sources.values()) == bars.turns[part.no].phases[-1].end


def test_an_opened_conversation_that_vanished_is_not_sought(reading: Reading) -> None:
    query = TreeQuery(frozenset({KEY, "gone"}), ALL.near)
    data = reading(reading(ConversationsData(), query), query)
    assert query.is_in(data)
    assert reading(data, query) is data
