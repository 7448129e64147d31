"""The times of late writes."""

from wiretape.viewer.wings.replay.pacing import APART_NS, spaced
from wiretape.viewer.wings.replay.serve import Served

MS = 1_000_000


def test_timely_data_is_written_when_due() -> None:
    assert spaced(due=5 * MS, gap=MS, now=4 * MS) == 5 * MS


def test_writes_that_were_late_stay_apart_and_catch_up() -> None:
    gap, cost = MS, MS // 20
    now, gaps, late = 30 * MS, [], []
    for due in range(MS, 200 * MS, gap):
        at = max(now, spaced(due, gap, now))
        gaps.append(at - now)
        now = at + cost
        late.append(now - due)
    assert min(gaps[1:]) >= APART_NS
    assert late[0] > 29 * MS
    assert set(late[-100:]) == {cost}  # no drift


def test_writes_much_closer_than_recorded_are_counted() -> None:
    exchange = Served("POST", "/", 0)
    for at, gap in ((0, 0), (MS // 4, MS), (MS // 2, MS // 4), (3 * MS, 20 * MS), (3 * MS, 0), (4 * MS, MS)):
        exchange.wrote(at, 1, gap)
    assert (exchange.close_count, list(exchange.written_ns)[1:3]) == (1, [MS // 4, MS // 2])
