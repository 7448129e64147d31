"""The time account of sessions, against the definition, instant by instant."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import permutations

import pytest

from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.sessions.account import PARTS, Account, Span, account, stretches

MS = 1_000_000


def in_ms(times: Account) -> dict[str, float]:
    return {name: took_ns / MS for name, took_ns in times.parts.items() if took_ns}


def span(
    no: int, start: float, end: float, first_s: float | None = None, last_s: float | None = None, **more: object
) -> Span:
    """Return a span with times in ms on the session's axis."""
    stalls = [(round(a * MS), round(b * MS)) for a, b in more.pop("stalls", ())]  # type: ignore[attr-defined]
    times = (None if at is None else round(at * MS) for at in (start, end, first_s, last_s))
    return Span(no, *times, stalls=stalls, **more)  # type: ignore[arg-type]


def test_stalls_and_rate_limits_between_turns_are_told_apart() -> None:
    turns = [
        span(1, 0, 1450, 400, 1400, calls_tool=True, begins=True),
        span(2, 3450, 3500, failed=True, continues=1, answers_tool=True),
        span(3, 4500, 8400, 5000, 8400, stalls=[(5200, 8200)], continues=2, answers_tool=True),
    ]
    times = account(turns)
    assert in_ms(times) == {
        "streaming": 1400, "stalled": 3000, "waiting": 900, "closing": 50, "failed": 50, "backoff": 1000, "tools": 2000,
    }  # fmt: skip
    assert (times.wall_ns, times.parallel_ns, times.ttft_p50_ns) == (8400 * MS, 0, 450 * MS)
    assert (times.exchanges, times.turns, times.failed, times.open, times.exchanges_max) == (
        3,
        2,
        1,
        0,
        1,
    )


def test_a_trailing_stall_is_neither_closing_nor_failing() -> None:
    given_up = span(1, 0, 5000, 400, 1400, stalls=[(1400, 4900)], client_closed=True)
    assert in_ms(account([given_up])) == {"waiting": 400, "streaming": 1000, "stalled": 3500, "closing": 100}
    cut = span(1, 0, 5000, 400, 1400, stalls=[(1400, 5000)], failed=True)
    assert in_ms(account([cut])) == {"failed": 400, "streaming": 1000, "stalled": 3600}
    tool = span(1, 0, 6000, 400, 1400, stalls=[(3000, 6000)])
    assert in_ms(account([tool])) == {"waiting": 400, "streaming": 1000, "closing": 1600, "stalled": 3000}


def test_the_median_ttft_leaves_out_client_closed_turns() -> None:
    turns = [span(1, 0, 10, 4), span(2, 20, 30, 26), span(3, 40, 140, 130, client_closed=True)]
    assert (account(turns).turns, account(turns).ttft_p50_ns) == (3, 5 * MS)
    assert account(turns[2:]).ttft_p50_ns is None


def test_a_retry_of_an_abandoned_stream_follows_a_backoff() -> None:
    given_up = span(1, 0, 10, client_closed=True, given_up=True)
    assert account([given_up, span(2, 30, 40, continues=1, repeats=True)]).backoff_ns == 20 * MS
    assert account([given_up, span(2, 30, 40, continues=1)]).idle_ns == 20 * MS


def test_without_times_the_parts_of_a_session_are_unknown() -> None:
    times = account([span(1, 0, 10), span(2, 20, 30, is_timed=False)])
    assert (times.is_known, times.parts, times.wall_ns) == (False, {}, 30 * MS)
    row = times.row()
    assert {row[f"{part}_ms"] for part in PARTS} == {None}
    assert row["wall_ms"] == 30


def test_a_session_without_exchanges_takes_no_time() -> None:
    assert account([]) == Account()


def test_of_simultaneous_exchanges_the_first_fitting_part_counts() -> None:
    main = span(1, 0, 100, 10, 90)
    side_span = span(2, 50, 200, 150, 160, begins=True)
    times = account([main, side_span])
    assert in_ms(times) == {"waiting": 10 + 60, "streaming": 80 + 10, "closing": 40}
    assert times.exchanges_max == 2
    assert times.parallel_ns == 50 * MS


@pytest.mark.parametrize(("first_facts", "second_facts", "part"), [
    ({}, {"continues": 1}, "idle"),
    ({}, {}, "idle"),
    ({"calls_tool": True}, {"continues": 1, "answers_tool": True}, "tools"),
    ({"calls_tool": True}, {"begins": True}, "tools"),
    ({"calls_tool": True}, {}, "idle"),
    ({"failed": True, "calls_tool": True}, {"continues": 1}, "backoff"),
    ({"failed": True, "calls_tool": True}, {"begins": True}, "idle"),
    ({"client_closed": True}, {"continues": 1}, "idle"),
    ({"client_closed": True, "calls_tool": True}, {"continues": 1, "answers_tool": False}, "idle"),
    ({"client_closed": True, "calls_tool": True}, {"continues": 1, "answers_tool": True}, "tools"),
    ({"client_closed": True, "calls_tool": True}, {"begins": True}, "idle"),
    ({"calls_tool": None}, {"continues": 1, "answers_tool": True}, "tools"),
    ({"calls_tool": None}, {"continues": 1, "answers_tool": False}, "idle"),
    ({"calls_tool": None}, {"continues": 1}, "idle"),
])  # fmt: skip
def test_the_next_start_says_what_a_pause_was(
    first_facts: dict[str, bool], second_facts: dict[str, bool], part: str
) -> None:
    times = account([span(1, 0, 10, **first_facts), span(2, 30, 40, **second_facts)])
    assert times.parts[part] == 20 * MS


def test_an_answered_tool_call_explains_no_later_branch() -> None:
    turns = [
        span(1, 0, 10, calls_tool=True, begins=True),
        span(2, 20, 30, begins=True),
        span(3, 40, 45, failed=True, continues=1, answers_tool=True),
        span(4, 50, 60, begins=True),
        span(5, 70, 80, continues=3, answers_tool=True),
        span(6, 90, 100, begins=True),
    ]
    assert in_ms(account(turns)) == {"waiting": 50, "failed": 5, "tools": 10 + 10 + 5, "backoff": 10, "idle": 10}


def test_an_open_exchange_waits_then_streams_then_is_stalled() -> None:
    limits = Thresholds(stall_ms=100)
    waiting, streaming, stalled = (span(1, 0, now, first_at, last_at, is_open=True) for now, first_at, last_at in (
        (300, None, None), (300, 50, 200), (301, 50, 200)
    ))  # fmt: skip
    assert in_ms(account([waiting], limits)) == {"waiting": 300}
    assert in_ms(account([streaming], limits)) == {"waiting": 50, "streaming": 250}
    times = account([stalled], limits)
    assert in_ms(times) == {"waiting": 50, "streaming": 150, "stalled": 101}
    assert (times.open, times.turns, times.ttft_p50_ns) == (1, 0, None)


def test_a_websocket_counts_by_its_turns() -> None:
    turns = [span(1, 0, 10, 2, 8, calls_tool=True), span(1, 30, 40, 32, 40, continues=1, answers_tool=True)]
    times = account(turns)
    assert in_ms(times) == {"waiting": 4, "streaming": 14, "closing": 2, "tools": 20}
    assert (times.exchanges, times.turns, times.parallel_ns) == (1, 2, 0)


def test_times_that_contradict_each_other_still_add_up() -> None:
    times = account([span(1, 100, 50, 200, 10, stalls=[(300, 20)]), span(2, 0, 120, 500, 30)])
    assert sum(times.parts.values()) == times.wall_ns == 120 * MS


def some_session(random: random.Random) -> list[Span]:
    """Return a random session on an axis of few ns, so that each instant can be looked at."""
    at, starts = 0, []
    for _ in range(random.randint(1, 6)):
        at = max(0, at + random.randint(-12, 30))
        starts.append(at)
    return [some_span(random, no, start) for no, start in enumerate(sorted(starts))]


def some_span(random: random.Random, no: int, start: int) -> Span:
    end = start + random.randint(0, 16)
    first_at = last_at = None
    stalls = list[tuple[int, int]]()
    if random.random() < 0.8:
        first_at = random.randint(start, end)
        last_at = random.randint(first_at, end)
        places = sorted(random.sample(range(first_at, last_at + 1), k=min(4, last_at - first_at + 1)))
        stalls = list(zip(places[::2], places[1::2], strict=False)) if random.random() < 0.5 else []
    is_open, failed, closed = random.choice([*[(False, False, False)] * 3, *permutations((True, False, False))])
    return Span(
        no, start, end, first_at, last_at, stalls, random.random() < 0.9, is_open, failed, closed,
        calls_tool=random.random() < 0.5, answers_tool=random.choice([None, True, False]),
        continues=random.choice([None, *range(no)]), begins=random.random() < 0.5,
    )  # fmt: skip


def phase_at(instant: int, turn: Span, limits: Thresholds) -> str:
    if turn.first_ns is None or turn.last_ns is None or instant < turn.first_ns:
        return "failed" if turn.failed else "waiting"
    if turn.is_open and instant >= turn.last_ns:
        return "stalled" if turn.end_ns - turn.last_ns > limits.stall_ns else "streaming"
    if instant >= turn.last_ns:
        return "failed" if turn.failed else "closing"
    return "stalled" if any(start <= instant < end for start, end in turn.stalls) else "streaming"


def answered_by(turn: Span, spans: Sequence[Span]) -> int | None:
    """Return the exchange whose tool call a request answers, if it does, behind the attempts that failed."""
    if turn.failed or turn.answers_tool is False:
        return None
    target = turn.continues
    while target is not None and spans[target].failed:
        target = spans[target].continues
    return target


def part_at(instant: int, spans: Sequence[Span], limits: Thresholds) -> str:
    """Return the part of [instant, instant + 1), as the definition has it."""
    phases = {phase_at(instant, turn, limits) for turn in spans if turn.start_ns <= instant < turn.end_ns}
    if phases:
        return next(part for part in PARTS if part in phases)
    following = next(turn for turn in spans if turn.start_ns > instant)
    earlier = spans[: following.no]
    if following.continues is not None:
        predecessor = spans[following.continues]
        is_left = predecessor.client_closed and following.answers_tool is False
        return "backoff" if predecessor.failed else "tools" if predecessor.calls_tool and not is_left else "idle"
    callers = {turn.no for turn in earlier if turn.calls_tool and not turn.failed and not turn.client_closed}
    return "tools" if following.begins and callers - {answered_by(turn, spans) for turn in earlier} else "idle"


def test_ten_thousand_sessions_agree_with_the_definition() -> None:
    limits, source = Thresholds(stall_ms=5 / MS), random.Random(7)
    for _ in range(10_000):
        spans = some_session(source)
        times = account(
            source.sample(spans, len(spans)) if len({turn[1] for turn in spans}) == len(spans) else spans, limits
        )
        start, end = min(turn.start_ns for turn in spans), max(turn.end_ns for turn in spans)
        each = [part_at(instant, spans, limits) for instant in range(start, end)]
        assert [part for part, took_ns in stretches(spans, limits) for _ in range(took_ns)] == each, spans
        parts = Counter(each)
        assert times.parts == {part: parts[part] for part in PARTS}, spans
        assert sum(times.parts.values()) == times.wall_ns == end - start
        counts = [sum(turn.start_ns <= at < turn.end_ns for turn in spans) for at in range(start, end)]
        assert times.parallel_ns == sum(max(count - 1, 0) for count in counts)
        starting = [
            sum(other_turn.start_ns < turn.start_ns < other_turn.end_ns for other_turn in spans) for turn in spans
        ]
        assert max([*counts, *(count + 1 for count in starting)]) <= times.exchanges_max <= len(spans)
