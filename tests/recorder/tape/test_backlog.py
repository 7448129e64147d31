"""The finished exchanges that wait to be measured."""

import pytest

from wiretape.recorder.clock import Clock
from wiretape.recorder.tape.backlog import Backlog, limit

SPACING_NS = 50_000_000


def test_exchanges_that_a_relay_waits_for_come_first() -> None:
    backlog = Backlog(Clock(now=lambda: 0), SPACING_NS)
    backlog.add_leftover([1, 2])
    backlog.add([8])
    pending_count = backlog.begin(is_busy=False, at_end=False)
    assert (pending_count and list(pending_count), backlog.is_reported) == ([8], True)
    assert backlog.begin(is_busy=False, at_end=True) is None  # one part at a time

    assert pending_count is not None
    pending_count.clear()
    backlog.end()
    pending_count = backlog.begin(is_busy=False, at_end=True)
    assert (pending_count and list(pending_count), backlog.is_reported) == ([1, 2], False)


def test_settling_waits_for_its_spacing_and_for_frames() -> None:
    now = 0
    backlog = Backlog(Clock(now=lambda: now), SPACING_NS)
    backlog.add([1])
    assert backlog.begin(is_busy=True, at_end=False) is None
    now = 200_000_000  # frames that never stop coming delay them no longer
    assert backlog.begin(is_busy=True, at_end=False) is not None
    assert backlog.due is None
    backlog.end()
    assert backlog.due == now + SPACING_NS
    assert backlog.begin(is_busy=False, at_end=False) is None
    now += SPACING_NS
    assert backlog.begin(is_busy=False, at_end=False) is not None


@pytest.mark.parametrize(
    ("pending_count", "is_full", "most"), [(1, False, 32), (400, False, 100), (400, True, 32), (9999, False, 512)]
)
def test_a_part_of_a_long_backlog_is_settled_together(pending_count: int, is_full: bool, most: int) -> None:
    assert limit(pending_count, is_full=is_full) == most
