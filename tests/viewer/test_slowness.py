"""Who was slow: what the instants of reads tell, and what they do not."""

import pytest

from recorder import connection
from recorder.exchange import Read
from viewer import slowness
from viewer.slowness import FREE_BYTES, Spread, paused_ns, steps

MS = 1_000_000
LARGE = FREE_BYTES + 1


def reads(*given: tuple[int, int | None, int]) -> list[Read]:
    """Reads as (came, handed on, size), in ms and bytes."""
    found, start = list[Read](), 0
    for seq, (at, relayed, size) in enumerate(given):
        found.append(Read(seq, at * MS, None if relayed is None else relayed * MS, start, size))
        start += size
    return found


def held(*given: tuple[int, int | None, int], paused: int = 0) -> list[tuple[str | None, int | None]]:
    return [(step.who, None if step.ns is None else step.ns // MS) for step in steps(reads(*given), paused)]


def test_a_step_begins_when_the_one_before_it_has_ended() -> None:
    assert held((0, 100, 1), (10, 101, 1), (200, 201, 1)) == [("relay", 100), ("relay", 1), ("relay", 1)]


def test_no_client_can_hold_up_what_fits_into_the_servers_own_buffer() -> None:
    assert held((0, 1, 10), (5, 5000, 10), (6, 5001, 10), paused=1)[1] == ("relay", 4995)


def test_a_long_step_during_which_other_reads_came_was_the_clients() -> None:
    assert held((0, 1, LARGE), (5, 5000, 10), (6, 5001, 10))[1:] == [("client", 4995), ("relay", 1)]
    assert held((0, 1, LARGE), (5, 9, 10), (6, 10, 10))[1] == ("relay", 4)


def test_a_long_step_without_any_other_read_is_unclear_unless_reading_was_paused() -> None:
    assert held((0, 1, LARGE), (5, 5000, 10), (5000, 5001, 10))[1] == (None, 4995)
    assert held((0, 1, LARGE), (5, 5000, 10), paused=1)[1] == ("client", 4995)


def test_what_was_never_handed_on_has_a_step_without_an_end_and_nothing_follows_it() -> None:
    assert held((0, 1, LARGE), (5, None, 10), (6, None, 10)) == [("relay", 1), ("client", None)]
    assert held() == []


def test_coarse_instants_tell_nothing() -> None:
    assert [step.who for step in steps(reads((0, 1, 10)), 0, coarse=True)] == [None]


def test_a_sum_has_each_read_once_and_waits_of_nothing_where_nothing_waited() -> None:
    given = reads((0, 1, LARGE), (5, 5000, 10), (6, 5001, 10))
    found = slowness.slowness([3 * MS, MS, 2 * MS], given, steps(given, 0))
    assert found.upstream == Spread(3, 2 * MS, 2.98 * MS, 3 * MS)
    assert (found.relay, found.client) == (Spread(2, MS, MS, MS), Spread(3, 0, pytest.approx(4895.1 * MS), 4995 * MS))
    assert (found.unclear, found.delay) == (None, Spread(3, 4995 * MS, 4995 * MS, 4995 * MS))


def test_of_nothing_nothing_is_known() -> None:
    found = slowness.slowness([], [], [])
    assert {found.upstream, found.relay, found.client, found.unclear, found.delay} == {None}


def test_reading_is_paused_until_half_of_what_may_wait_is_left() -> None:
    assert connection.UNSENT_BYTES == slowness.UNSENT_BYTES
    piece = 50 << 10
    waiting = reads((0, 1000, piece), *((at, 1000 + 100 * at, piece) for at in range(1, 8)))
    # 350 KiB wait behind the first. When the fifth of the seven is taken, 100 KiB are left and reading goes on.
    assert paused_ns(waiting, 7) == (1400 - 7) * MS
    assert paused_ns(waiting, 4) == 0
    assert paused_ns(reads((0, 1, piece), (10, 11, piece)), 1) == 0
