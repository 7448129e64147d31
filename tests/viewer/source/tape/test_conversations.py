"""The exchanges of conversations on a tape, as their trees show them."""

from pathlib import Path

from tests.support.session_tape import FIRST, KEY, LIMITED, SECOND, session_tape
from wiretape.viewer.source.tape import conversations, queries
from wiretape.viewer.source.tape.conversations import results_of


def test_a_turn_knows_its_number_and_the_tools_whose_results_it_brings(tmp_path: Path) -> None:
    with queries.opened(session_tape(tmp_path / "tape.db")) as connection:
        (turns,) = conversations.turns(connection, [KEY]).values()
    assert {turn.id: (turn.number, turn.tools, turn.results_of) for turn in turns} == {
        FIRST: (1, "read", None),
        LIMITED: (2, None, "read"),
        SECOND: (3, None, "read"),
    }


def test_the_tools_that_ran_are_looked_for_behind_failed_attempts_once() -> None:
    def row(above: int | None, called: str | None, *, answers: bool = True) -> list[object]:
        return [above, False, 1, "asked", answers, *[None] * 8, called]

    assert results_of({1: row(None, "read", answers=False), 2: row(1, None), 3: row(2, None)}, 3) == "read"
    assert results_of({1: row(None, "read", answers=False), 2: row(1, None, answers=False)}, 2) is None
    assert results_of({2: row(1, None)}, 2) is None
    assert results_of({1: row(2, None), 2: row(1, None)}, 2) is None
