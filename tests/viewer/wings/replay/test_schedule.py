"""Schedules of writes: as recorded, at another pace, cut otherwise, and with faults."""

import math
from itertools import accumulate
from typing import Any

import pytest

from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Reads, RecordedExchange
from wiretape.viewer.wings.replay import faults, forms, schedule
from wiretape.viewer.wings.replay.positions import Places
from wiretape.viewer.wings.replay.schedule import Schedule

PIECES = [b'data: {"a":1}\n\ndata: {"b"', b":2}\n\n", b": note\n\n", b"data: [DONE]\n\n"]
AT = [100, 150, 400, 450]


def answer(**facts: Any) -> RecordedExchange:
    given = dict(status=200, content_type="text/event-stream", content_encoding=None, ended_by="end", connected_ns=1,
                 headers_ns=90, end_ns=450, framing="chunked") | facts  # fmt: skip
    sizes = [len(piece) for piece in PIECES]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return RecordedExchange(Exchange(**given), Reads(range(4), AT, [None] * 4, starts, sizes), b"".join(PIECES))


def writes(plan: Schedule) -> list[tuple[int, bytes]]:
    begins = [0, *plan.ends]
    return [(at, plan.body[start:end]) for at, start, end in zip(plan.at_ns, begins, plan.ends, strict=False)]


def test_each_read_is_a_write_at_its_time() -> None:
    plan = schedule.recorded(answer())
    assert writes(plan) == list(zip(AT, PIECES, strict=True))
    assert (plan.head_ns, plan.end_ns, plan.joins_head, plan.joins_end, plan.end) == (
        90,
        450,
        False,
        True,
        "end",
    )
    assert schedule.recorded(answer(headers_ns=100, end_ns=460)).joins_head


@pytest.mark.parametrize(
    ("ended_by", "end"),
    [("eof", "close"), ("reset", "reset"), ("length", "close"), ("framing", "garbage"), ("idle_timeout", "silence"),
     ("client", "close"), ("died", "close"), ("refused", "close")],
)  # fmt: skip
def test_an_answer_ends_as_the_recorded_one(ended_by: str, end: str) -> None:
    assert schedule.recorded(answer(ended_by=ended_by)).end == end


def test_a_pace_scales_waits_and_caps_cut_them() -> None:
    plan = schedule.recorded(answer())
    assert schedule.paced(plan, 2.0).at_ns == [50, 75, 200, 225]
    capped = schedule.paced(plan, 1.0, 60)
    assert (capped.head_ns, capped.at_ns, capped.end_ns) == (60, [70, 120, 180, 230], 230)
    at_once = schedule.paced(plan, math.inf)
    assert (at_once.head_ns, set(at_once.at_ns), at_once.ends) == (0, {0}, plan.ends)


def test_no_pace_is_too_slow_to_be_counted() -> None:
    assert schedule.paced(schedule.recorded(answer()), 1e-300).end_ns == 1 << 62


def test_an_incomplete_answer_never_ends_as_if_whole() -> None:
    assert schedule.recorded(answer(gap_bytes=5)).end == "close"
    assert schedule.recorded(answer(gap_bytes=5, framing="close")).end == "reset"


def test_no_write_exceeds_what_may_wait_for_clients() -> None:
    long = Schedule(bytes(1 << 20), 0, [5], [1 << 20], 9, "end")
    assert schedule.rechunked(long, [10, 1 << 20]).ends == [10, *range(10 + (256 << 10), 1 << 20, 256 << 10), 1 << 20]


def recut(plan: Schedule, cut: str) -> Schedule:
    return forms.recut(plan, cut, [end for _, end in schedule.events(answer())], iter(()))


def test_events_bytes_or_pieces_may_be_the_writes() -> None:
    plan = schedule.recorded(answer())
    events = recut(plan, "event")
    assert writes(events) == [
        (100, b'data: {"a":1}\n\n'), (150, b'data: {"b":2}\n\n'), (400, b": note\n"), (450, b"\ndata: [DONE]\n\n"),
    ]  # fmt: skip
    single = recut(plan, "byte")
    assert len(single.ends) == len(plan.body)
    assert sorted(set(single.at_ns)) == AT
    assert [len(data) for _, data in writes(recut(plan, "40"))] == [
        40,
        12,
    ]


def test_a_line_end_of_two_bytes_is_whole() -> None:
    events = [b"data: {}\r\n\r\n", b": note\r\n", b"\r\ndata: {}\r\n\r\n", b"data: [DONE]\r\n\r\n"]
    body = b"".join(events)
    ended = answer()
    exchange = RecordedExchange(ended.exchange, Reads([0], [100], [None], [0], [len(body)]), body)
    assert [body[start:end] for start, end in schedule.events(exchange)] == events
    assert [item.end for item in decode(*exchange).items()] == [*accumulate(map(len, events))]


def test_what_no_read_covers_is_sent_too() -> None:
    complete = answer()
    lacking = RecordedExchange(complete.exchange, Reads.of(complete.reads[:1] + complete.reads[2:]), complete.body)
    assert writes(schedule.recorded(lacking))[1] == (100, PIECES[1])


def places() -> Places:
    return Places(sum(map(len, PIECES)), lambda: schedule.events(answer()), None)


def broken(text: str) -> Schedule:
    plan, done = faults.applied(schedule.recorded(answer()), [faults.parse(text)], places())
    assert [fault.text for fault in done] == [text]
    return plan


def test_a_cut_ends_the_stream_before_its_place() -> None:
    plan = broken("cut@#1")
    assert (writes(plan), plan.end, plan.end_ns) == ([(100, b'data: {"a":1}\n\n')], "close", 100)
    assert (broken("reset@#3").end, broken("reset@#3").body) == ("reset", b"".join(PIECES[:3])[:-1])
    assert len(broken("cut@50%").body) == len(b"".join(PIECES)) // 2


def test_a_stall_shifts_what_follows() -> None:
    assert writes(broken("stall:2ms@#1")) == [
        (100, b'data: {"a":1}\n\n'), (2_000_100, b'data: {"b"'), (2_000_150, PIECES[1]), (2_000_400, PIECES[2]),
        (2_000_450, PIECES[3]),
    ]  # fmt: skip


def test_a_final_stall_delays_only_the_end() -> None:
    plan, original = broken("stall:2ms@100%"), schedule.recorded(answer())
    assert (writes(plan), plan.end_ns, plan.joins_end) == (writes(original), 2_000_450, False)


def test_a_corrupt_event_is_no_json_and_as_long() -> None:
    plan = broken("corrupt@#1")
    assert plan.body == b"".join(PIECES).replace(b'{"b"', b'\xff"b"')


def test_a_slow_answer_takes_so_many_times_as_long() -> None:
    assert broken("slow:3x").at_ns == [300, 450, 1200, 1350]


def test_a_fault_beyond_the_last_event_reports_itself() -> None:
    plan = schedule.recorded(answer())
    for text in ("cut@#9", "corrupt@100%"):
        assert faults.applied(plan, [faults.parse(text)], places()) == (plan, []), text


def test_chance_depends_only_on_seed_exchange_and_turn() -> None:
    often = [faults.parse("status:429:0.5")]
    struck = [bool(faults.striking(often, 1, "aaaa", turn)) for turn in range(100)]
    assert struck == [bool(faults.striking(often, 1, "aaaa", turn)) for turn in range(100)]
    assert 30 < sum(struck) < 70
    assert struck != [bool(faults.striking(often, 2, "aaaa", turn)) for turn in range(100)]


@pytest.mark.parametrize("text", ["cut", "cut@5", "stall@#1", "stall:5@#1", "status:200", "status:429:2", "slow:3",
                                  "melt@#1", "cut@101%", "slow:2x@#3", "slow:0x", "slow:-1x", "stall:0s@#1",
                                  "status:999", "status:429:nan", "status:429:0.1:0.2"])  # fmt: skip
def test_what_is_no_fault_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"cut@50%|above 0|400 to 599|from 0 to 1|50% \(of the body\)"):
        faults.parse(text)


def test_a_stalls_place_is_behind_the_first_silence() -> None:
    plan = schedule.recorded(answer())
    assert [schedule.silence(plan, ns) for ns in (10, 50, 250, 251)] == [
        0,
        len(PIECES[0]),
        len(PIECES[0] + PIECES[1]),
        None,
    ]
    assert schedule.silence(schedule.recorded(answer(end_ns=900)), 300) == len(plan.body)


@pytest.mark.parametrize("kind", ["cut", "reset"])
def test_a_cut_at_the_head_leaves_no_head(kind: str) -> None:
    plan = broken(f"{kind}@head")
    assert (plan.head_ns, plan.body, plan.end_ns, plan.end) == (None, b"", 90, "close" if kind == "cut" else "reset")
