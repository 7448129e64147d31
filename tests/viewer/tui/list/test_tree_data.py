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
        yield lambda known, wanted: read(source, "", clock, DEFAULT, known, wanted)


def test_only_near_and_opened_conversations_have_bars(reading: Reading) -> None:
    known = reading(ConversationsData(), NOTHING)
    assert [*known.rows] == [OTHER, KEY]
    assert not known.times
    assert NOTHING.is_in(known)
    newest = TreeQuery(near=frozenset({OTHER}))
    assert not newest.is_in(known)
    known = reading(known, newest)
    assert known.times.keys() == {OTHER}
    known = reading(known, TreeQuery(frozenset({KEY}), frozenset({OTHER})))
    assert known.times.keys() == {OTHER, KEY}
    assert known.bars(of_context=False).wall_ns[KEY] == 8400 * MS


def test_what_is_known_is_not_read_again(reading: Reading) -> None:
    known = reading(ConversationsData(), ALL)
    assert reading(known, ALL) is known


def test_only_changed_conversations_are_accounted_again(tape: Path, reading: Reading) -> None:
    known = reading(ConversationsData(), ALL)
    with opened(tape) as store:
        record(store, turn("more", ASKED, metadata={"session_id": OTHER}))
    changed = reading(known, ALL)
    assert changed.version != known.version
    assert changed.times[KEY].bars is known.times[KEY].bars
    assert changed.times[OTHER].bars is not known.times[OTHER].bars


def test_a_running_conversation_grows(tape: Path, reading: Reading) -> None:
    *begun, last, _ = turn("live", ASKED, metadata={"session_id": "live"})
    with opened(tape) as store:
        store.append(begun)
    known = reading(ConversationsData(), ALL)
    before = known.times["live"].bars.length
    with opened(tape) as store:
        store.append([last])
    assert reading(known, ALL).times["live"].bars.length > before


def test_verdicts_follow_the_turns_that_they_are_about(reading: Reading) -> None:
    wanted = TreeQuery(frozenset({KEY}), ALL.near)
    known = reading(ConversationsData(), wanted)
    assert {one.cache_verdict for one in known.turns[KEY]} == {None}
    judged = reading(known, wanted)
    assert {one.cache_verdict for one in judged.turns[KEY]} == {"unreported", "unknown", None}
    assert reading(judged, wanted) is judged


def test_contexts_are_read_near_the_cursor_on_request(reading: Reading) -> None:
    known = reading(ConversationsData(), ALL)
    assert not known.contexts
    wanted = TreeQuery(near=ALL.near, of_context=True)
    assert not wanted.is_in(known)
    known = reading(known, wanted)
    assert wanted.is_in(known)
    bars = known.bars(of_context=True)
    assert (bars.title, bars.sessions.keys(), bars.wall_ns[KEY]) == ("CONTEXT", {KEY, OTHER}, 8400 * MS)
    (first,) = (one for one in known.turns[KEY] if one.id == FIRST)
    assert first.sources["user"] > 0
    assert sum(first.sources.values()) == bars.turns[first.no].phases[-1].end


def test_an_opened_conversation_that_vanished_is_not_sought(reading: Reading) -> None:
    wanted = TreeQuery(frozenset({KEY, "gone"}), ALL.near)
    known = reading(reading(ConversationsData(), wanted), wanted)
    assert wanted.is_in(known)
    assert reading(known, wanted) is known
