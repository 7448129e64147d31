"""Hosted sessions on a tape: turns are linked whatever is settled first, and again when a request comes late."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosted_sessions import (
    CLAUDE,
    CLAUDE_STREAM,
    Sent,
    claude,
    idle,
    message,
    posted,
    running,
    said,
    session_tape,
    stream,
    worked_example,
)
from tests.support.relay import select
from wiretape.recorder.tape import file
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.store import Store

LINKS = "SELECT exchange_id, turn, begun_by_id, continued_in, ttft_ms, session FROM turns ORDER BY exchange_no, turn"
FIGURES = "SELECT id, ttft_ms, duration_ms, outcome, operation FROM exchange_metrics ORDER BY id"


def rows(tape: Path, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in select(tape, statement)]


def in_order(tape: Path, exchanges: tuple[Sent, ...]) -> Path:
    """Make a tape on which exchanges are settled in this order."""
    return session_tape(tape, *exchanges, settled=[exchange.id for exchange in exchanges])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
def test_turns_are_linked_in_any_order_of_settling(tmp_path: Path, order: tuple[int, ...]) -> None:
    exchanges = worked_example()
    tape = in_order(tmp_path / "t.db", tuple(exchanges[index] for index in order))
    assert rows(tape, LINKS) == [
        ("aaaa00000000000a", 1, "bbbb00000000000b", None, 190.0, "sesn_1"),
        ("aaaa00000000000a", 2, "cccc00000000000c", "dddd00000000000d", 192.0, "sesn_1"),
    ]
    assert rows(tape, FIGURES)[::3] == [
        ("aaaa00000000000a", 190.0, 920.0, "truncated", "agent_session"),
        ("dddd00000000000d", None, None, "complete", "agent_session"),
    ]


def test_deriving_again_changes_no_link(tmp_path: Path) -> None:
    tape = session_tape(tmp_path / "t.db", *worked_example())
    with file.writing(tape, "a test") as connection:
        assert list(rederive(Store(connection))) == [False] * 4


def test_a_late_request_numbers_its_stream_anew(tmp_path: Path) -> None:
    told = [(20, running("r1")), (40, message("m1", "ok")), (50, idle("i1"))]
    exchanges = stream("aaaa00000000000a", 0, told, CLAUDE_STREAM), posted("bbbb00000000000b", 5, said("Hi"), took=200)
    tape = in_order(tmp_path / "t.db", exchanges)
    versions = rows(tape, "SELECT exchange_no FROM settlements ORDER BY version")
    assert (versions, rows(tape, LINKS)[0][2]) == ([(2,), (1,)], "bbbb00000000000b")


def test_two_sessions_share_no_request(tmp_path: Path) -> None:
    told = [(20, running("r1")), (40, message("m1", "ok")), (50, idle("i1"))]
    exchanges = [
        [stream(f"{letter * 4}00000000000a", 0, told, CLAUDE_STREAM.replace("sesn_1", f"sesn_{letter}")),
         posted(f"{letter * 4}00000000000b", 5, said("Hi"), path=f"/v1/sessions/sesn_{letter}/events")]
        for letter in "ab"
    ]  # fmt: skip
    tape = session_tape(tmp_path / "t.db", *itertools.chain(*exchanges))
    assert [(link[0], link[2], link[5]) for link in rows(tape, LINKS)] == [
        ("aaaa00000000000a", "aaaa00000000000b", "sesn_a"), ("bbbb00000000000a", "bbbb00000000000b", "sesn_b")
    ]  # fmt: skip


def test_a_resumed_turn_ends_behind_a_sub_agents_stream(tmp_path: Path) -> None:
    first, *requests, second = worked_example()
    end = claude("session.thread_status_idle", "x2", stop_reason={"type": "end_turn"})
    thread = stream("eeee00000000000e", 60, [(70, message("n1", "sub")), (75, end)], f"{CLAUDE}/threads/th_1/stream")
    tape = session_tape(tmp_path / "t.db", first, thread, *requests, second)
    (link,) = (link for link in rows(tape, LINKS) if link[1] == 2)
    assert link[:4] == ("aaaa00000000000a", 2, "cccc00000000000c", "dddd00000000000d")
