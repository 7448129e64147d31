"""The exchanges of conversations on a tape, as their trees show them."""

from pathlib import Path

import msgspec

from tests.support.agents import IDS, body, turn
from tests.support.sample_tape import begin, end, recorded, response
from tests.support.session_tape import FIRST, KEY, LIMITED, SECOND, session_tape
from wiretape.viewer.source.tape import conversations, queries
from wiretape.viewer.source.tape.conversations import results_of


def test_a_turn_knows_its_number_and_answered_tools(tmp_path: Path) -> None:
    with queries.opened(session_tape(tmp_path / "tape.db")) as connection:
        (turns,) = conversations.turns(connection, [KEY]).values()
    assert {turn.id: (turn.number, turn.tools, turn.results_of) for turn in turns} == {
        FIRST: (1, "read", None),
        LIMITED: (2, None, "read"),
        SECOND: (3, None, "read"),
    }


def test_a_conversation_is_named_by_its_first_tool_prompt(tmp_path: Path) -> None:
    title = body(1, tools=[], messages=[{"role": "user", "content": "Write a title."}])
    frames = [*turn(IDS[0], 0, title, 50), *turn(IDS[1], 1, body(1), 100), *turn(IDS[2], 2, body(5), 100)]
    with queries.opened(recorded(tmp_path / "tape.db", frames)) as connection:
        (row,) = conversations.listed(connection)
    assert (row.id, row.asked) == (IDS[0], "Fix it.")
    with queries.opened(recorded(tmp_path / "title.db", [*turn(IDS[0], 0, title, 50)])) as connection:
        (row,) = conversations.listed(connection)
    assert row.asked == "Write a title."


def test_a_refused_websocket_is_no_turn_of_its_session(tmp_path: Path) -> None:
    request = body(1)
    upgrade = [(b"upgrade", b"websocket"), (b"sec-websocket-version", b"13"), (b"session-id", b"run-1")]
    refused = msgspec.structs.replace(begin(IDS[0], 0, b"", "/v1/responses"), method="GET", headers=upgrade)
    frames = [refused, *response(IDS[0], [(5, b"no")], 426), end(IDS[0], [(5, b"no")]), *turn(IDS[1], 1, request, 100)]
    with queries.opened(recorded(tmp_path / "tape.db", frames)) as connection:
        (row,) = conversations.listed(connection)
    assert (row.id, row.exchanges, row.failed) == (IDS[1], 1, 0)


def test_failed_attempts_are_skipped_once_in_finding_tools() -> None:
    def row(above: int | None, tool: str | None, *, answers: bool = True) -> list[object]:
        return [above, False, 1, "asked", answers, *[None] * 8, tool]

    assert results_of({1: row(None, "read", answers=False), 2: row(1, None), 3: row(2, None)}, 3) == "read"
    assert results_of({1: row(None, "read", answers=False), 2: row(1, None, answers=False)}, 2) is None
    assert results_of({2: row(1, None)}, 2) is None
    assert results_of({1: row(2, None), 2: row(1, None)}, 2) is None
