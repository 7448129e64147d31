"""Attribution of waits: the evidence of the reads' timestamps, and its limits."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode import attribution
from wiretape.recorder.decode.attribution import FREE_BYTES, UNSENT_BYTES, Spread, came_at_once, pauses, steps
from wiretape.recorder.decode.exchange import Read
from wiretape.recorder.relay import proxy

MS = 1_000_000
LARGE = FREE_BYTES + 1


def reads(*timings: tuple[int, int | None, int]) -> list[Read]:
    """Reads as (came, handed on, size), in ms and bytes."""
    samples, start = list[Read](), 0
    for seq, (at, relayed, size) in enumerate(timings):
        samples.append(Read(seq, at * MS, None if relayed is None else relayed * MS, start, size))
        start += size
    return samples


def verdicts(*timings: tuple[int, int | None, int], paused: int = 0) -> list[tuple[str | None, int | None]]:
    return [(step.who, None if step.ns is None else step.ns // MS) for step in steps(reads(*timings), paused)]


def test_a_step_begins_when_its_predecessor_ends() -> None:
    assert verdicts((0, 100, 1), (10, 101, 1), (200, 201, 1)) == [("relay", 100), ("relay", 1), ("relay", 1)]


def test_what_fits_the_servers_buffer_waits_for_nobody() -> None:
    assert verdicts((0, 1, 10), (5, 5000, 10), (6, 5001, 10), paused=1)[1] == ("relay", 4995)


def test_a_long_step_beside_other_reads_is_the_clients() -> None:
    assert verdicts((0, 1, LARGE), (5, 5000, 10), (6, 5001, 10))[1:] == [("client", 4995), ("relay", 1)]
    assert verdicts((0, 1, LARGE), (5, 9, 10), (6, 10, 10))[1] == ("relay", 4)


def test_a_long_lone_step_is_unclear_unless_reading_paused() -> None:
    assert verdicts((0, 1, LARGE), (5, 5000, 10), (5000, 5001, 10))[1] == (None, 4995)
    assert verdicts((0, 1, LARGE), (5, 5000, 10), paused=1)[1] == ("client", 4995)


def test_a_read_never_handed_on_has_an_endless_step() -> None:
    assert verdicts((0, 1, LARGE), (5, None, 10), (6, None, 10)) == [("relay", 1), ("client", None)]
    assert verdicts() == []


def test_coarse_timestamps_tell_nothing() -> None:
    assert [step.who for step in steps(reads((0, 1, 10)), 0, coarse=True)] == [None]


def test_slowness_counts_each_read_once() -> None:
    timed = reads((0, 1, LARGE), (5, 5000, 10), (6, 5001, 10))
    slow_reads = attribution.slowness([3 * MS, MS, 2 * MS], timed, steps(timed, 0))
    assert slow_reads.upstream == Spread(3, 2 * MS, 2.98 * MS, 3 * MS)
    assert (slow_reads.relay, slow_reads.client) == (
        Spread(2, MS, MS, MS),
        Spread(3, 0, pytest.approx(4895.1 * MS), 4995 * MS),
    )
    assert (slow_reads.unclear, slow_reads.delay) == (None, Spread(3, 4995 * MS, 4995 * MS, 4995 * MS))


def test_of_nothing_nothing_is_known() -> None:
    slow_reads = attribution.slowness([], [], [])
    assert {slow_reads.upstream, slow_reads.relay, slow_reads.client, slow_reads.unclear, slow_reads.delay} == {None}


def test_reading_pauses_until_half_the_queue_is_left() -> None:
    assert proxy.UNSENT_BYTES == attribution.UNSENT_BYTES
    piece = 50 << 10
    queue = reads((0, 1000, piece), *((at, 1000 + 100 * at, piece) for at in range(1, 8)))
    # 350 KiB wait behind the first. When the fifth of the seven is taken, 100 KiB are left and reading goes on.
    assert pauses(queue)[7] == (1400 - 7) * MS
    assert pauses(queue)[4] == 0
    assert pauses(reads((0, 1, piece), (10, 11, piece))) == [0, 0]
    assert pauses([]) == []


def paused_ns(reads: Sequence[Read], place: int) -> int:
    """The row of `pauses` for one read, found by going back from it."""
    at, unsent, resumed = reads[place].at_ns, 0, 0
    for number in range(place, -1, -1):
        previous_ns = reads[number - 1].relayed_ns if number else 0
        if previous_ns is not None and max(reads[number].at_ns, previous_ns) <= at:
            break
        if previous_ns is not None and unsent < UNSENT_BYTES // 2:
            resumed = previous_ns
        unsent += reads[number].size
    return max(resumed - at, 0) if unsent > UNSENT_BYTES else 0


@st.composite
def backlogs(draw: st.DrawFn) -> list[Read]:
    """Reads of all sizes that come in their order and are handed on in it, some time later; the last ones maybe not."""
    at = handed = start = 0
    drawn_reads = list[Read]()
    sizes = st.sampled_from([0, 1, UNSENT_BYTES // 2, UNSENT_BYTES // 2 + 1, UNSENT_BYTES, UNSENT_BYTES + 1, 50_000])
    for seq in range(draw(st.integers(0, 12))):
        at += draw(st.integers(0, 3))
        handed = max(handed, at) + draw(st.integers(0, 9))
        size = draw(sizes)
        drawn_reads.append(Read(seq, at, handed, start, size))
        start += size
    read_count = draw(st.integers(0, len(drawn_reads)))
    return drawn_reads[:read_count] + [
        Read(read.seq, read.at_ns, None, read.start, read.size) for read in drawn_reads[read_count:]
    ]


@given(backlogs())
def test_pauses_are_what_going_back_from_each_read_finds(waiting: list[Read]) -> None:
    assert pauses(waiting) == [paused_ns(waiting, place) for place in range(len(waiting))]


def test_a_long_backlog_takes_no_longer_for_each_read() -> None:
    queue = reads(*((at, 20_000 + at, 100) for at in range(20_000)))
    began = time.process_time()
    assert max(pauses(queue)) > 0
    assert time.process_time() - began < 2  # what added up the backlog again for each read took a minute


def test_a_step_below_10_ms_is_the_relays_own() -> None:
    assert verdicts((0, 1, LARGE), (5, 14, 10), (6, 15, 10))[1] == ("relay", 9)
    assert verdicts((0, 1, LARGE), (5, 15, 10), (6, 16, 10))[1] == ("client", 10)


@each_case(
    ("brought", "expected"),
    [
        ([1, 1, 50, 1], True),
        ([1, 1, 2, 1], False),
        ([1, 1, 3], False),
        ([5, 6, 5, 6], False),
        ([1, 2, 5, 1, 2], False),
        ([1, 2, 5, 1, 1], True),
        ([9] * 10 + [1] * 8 + [5] + [1] * 8 + [9] * 10, True),
    ],
)
def test_what_usually_comes_one_by_one_came_at_once(brought: list[int], expected: bool) -> None:
    place = brought.index(5) if 5 in brought else brought.index(max(brought))
    assert came_at_once(brought, place) is expected
