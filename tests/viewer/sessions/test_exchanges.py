"""From facts on a tape to spans: the axis, stalls, retries, and the turns of a WebSocket."""

import struct
from typing import Any

from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.sessions.account import OWN_PARTS, account
from wiretape.viewer.sessions.exchanges import SessionExchange, before_each, own_time, spans

MS = 1_000_000
LIMITS = Thresholds(stall_ms=2000)


def call(
    no: int, at: float, end: float, first_s: float | None = None, last_s: float | None = None, **more: Any
) -> SessionExchange:
    """Return an exchange; times in ms, `at` since the boot."""
    times = (None if ms is None else round(ms * MS) for ms in (first_s, last_s, end, end))
    facts = {"continued": None, "clock": "kernel", "outcome": "complete", "operation": "chat"} | more
    values = [facts.pop(name) for name in ("continued", "clock", "outcome", "operation")]
    continued, clock, outcome, operation = values
    wall = "2026-03-01T12:00:00.000000Z"
    return SessionExchange(no, continued, wall, "boot", round(at * MS), clock, outcome, operation, *times, **facts)


def gaps(*ms: float) -> bytes:
    return struct.pack(f"<{len(ms)}q", *(round(gap * MS) for gap in ms))


def test_a_session_is_accounted_from_its_facts() -> None:
    """A stall in the last turn, a rate limit before it, a tool between the turns."""
    turns, is_stepped, _ = spans([
        call(1, 0, 1450, 400, 1400, calls_tool=True, request="a"),
        call(2, 3450, 50, outcome="http_error", continued=1, answers_tools=True, follows_answer=True, request="b"),
        call(3, 4500, 3900, 500, 3900, gaps=gaps(200, 3000, 200), continued=1, answers_tools=True, request="b"),
    ], LIMITS)  # fmt: skip
    assert {name: ns / MS for name, ns in account(turns, LIMITS).parts.items()} == {
        "streaming": 1400, "stalled": 3000, "waiting": 900, "closing": 50, "failed": 50, "backoff": 1000, "tools": 2000,
        "idle": 0,
    }  # fmt: skip
    assert not is_stepped


def test_a_request_repeats_only_a_failed_last_attempt() -> None:
    exchanges = [
        call(1, 0, 10, request="a", outcome="timeout"),
        call(2, 20, 10, request="a"),
        call(3, 40, 10, request="a"),
        call(4, 60, 10, outcome="http_error"),
        call(5, 80, 10),
    ]
    assert [span.continues for span in spans(exchanges).spans] == [None, 1, None, None, None]


def test_a_stream_that_died_silently_had_stalled() -> None:
    died = call(1, 0, 5000, 400, 1400, outcome="client_closed", last_silence_ns=3600 * MS, given_up=True, request="a")
    turns = spans([died, call(2, 7000, 10, request="a")], LIMITS).spans
    parts = {name: ns / MS for name, ns in account(turns, LIMITS).parts.items() if ns}
    assert parts == {"waiting": 400 + 10, "streaming": 1000, "stalled": 3600, "backoff": 2000}
    never_began = call(1, 0, 5000, outcome="client_closed", last_silence_ns=5000 * MS)
    assert own_time(never_began, LIMITS)["waiting"] == 5000 * MS


def test_without_times_an_exchange_has_no_own_time() -> None:
    assert own_time(call(1, 0, 10, clock="none")) == {}


def test_a_branch_begins_where_a_request_holds_no_answer() -> None:
    exchanges = [
        call(1, 0, 1),
        call(2, 2, 1, follows_answer=True),
        call(3, 4, 1, continued=1),
        call(4, 6, 1, operation="models"),
    ]
    assert [span.begins for span in spans(exchanges).spans] == [True, False, False, False]


def test_each_websocket_response_has_its_stalls_and_end() -> None:
    turns = [
        [10 * MS, 20 * MS, 3020 * MS, 3030 * MS, 2, True, False, None],
        [3040 * MS, None, None, 3041 * MS, 0, False, True, None],
        [4000 * MS, 4001 * MS, 7001 * MS, None, 3, False, False, None],
    ]
    exchange = call(1, 0, 8000, outcome="truncated", turn_spans=turns, gaps=gaps(3000, 1, 2999))
    parts = spans([exchange], LIMITS).spans
    assert [(span.start_ns // MS, span.end_ns // MS) for span in parts] == [(10, 3030), (3040, 3041), (4000, 8000)]
    assert [list(span.stalls) for span in parts] == [
        [(20 * MS, 3020 * MS)], [], [(4002 * MS, 7001 * MS)]
    ]  # fmt: skip
    assert [span.failed for span in parts] == [False, False, True]
    assert [span.continues for span in parts] == [None, 1, 1]
    running = spans([exchange._replace(outcome="open")], LIMITS).spans
    assert [span.is_open for span in running] == [False, False, True]


def test_an_end_that_nobody_knows_is_the_last_output() -> None:
    (span,) = spans([call(1, 0, 0, 5, 9)._replace(duration_ns=None, end_ns=None)]).spans
    assert span.end_ns == 9 * MS


def test_own_times_add_up_to_the_duration() -> None:
    stalled = call(3, 4500, 3900, 500, 3900, gaps=gaps(200, 3000, 200), continued=1, request="b")
    assert own_time(stalled, LIMITS) == {
        "streaming": 400 * MS, "stalled": 3000 * MS, "waiting": 500 * MS, "closing": 0, "failed": 0
    }  # fmt: skip
    limited = call(2, 3450, 50, outcome="http_error", continued=1)
    assert own_time(limited, LIMITS) == dict.fromkeys(OWN_PARTS, 0) | {"failed": 50 * MS}


def test_only_an_exchange_beginning_alone_has_time_before_it() -> None:
    turns = [[0, 1, 2, 10 * MS, 2, True, False, None], [500 * MS, 501 * MS, 510 * MS, None, 2, False, True, None]]
    exchanges = [
        call(1, 0, 600, turn_spans=turns),
        call(2, 700, 50, continued=1),
        call(3, 710, 10, continued=1),
        call(4, 800, 10, outcome="http_error"),
        call(5, 810, 10),
    ]
    assert before_each(exchanges) == {2: ("idle", 100 * MS), 4: ("idle", 50 * MS)}


def test_a_websockets_own_time_is_its_responses() -> None:
    turns = [
        [10 * MS, 20 * MS, 30 * MS, 40 * MS, 2, True, False, None],
        [500 * MS, 501 * MS, 510 * MS, None, 2, False, True, None],
    ]
    assert own_time(call(1, 0, 600, turn_spans=turns, gaps=gaps(10, 9)), LIMITS) == {
        "streaming": 19 * MS, "stalled": 0, "waiting": 11 * MS, "closing": 100 * MS, "failed": 0
    }  # fmt: skip
