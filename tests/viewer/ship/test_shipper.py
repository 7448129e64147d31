"""Shipping to any destination: a growing wait, one report of each failure, and an end without losses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wiretape.recorder.clock import Clock
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.ship.shipper import LONGEST_WAIT_SECONDS, Shipper
from wiretape.viewer.ship.sink import Batch, NotTaken, ShippingReport, Sink
from wiretape.viewer.source.settled import SettledTape

ALL = 10**18


class Destination(Sink):
    """Takes one batch, after it has failed to do so in these ways."""

    lanes = ("exchanges",)

    def __init__(self, *failures: NotTaken, nodes: int = 1) -> None:
        self.failures, self.nodes = [*failures], nodes
        self.sent: list[int] = []

    def take(self, lane: str, progress: Progress) -> Batch | None:
        return Batch(lane, progress.until, ALL, 1, None) if progress.until < ALL else None

    def send(self, batch: Batch) -> None:
        self.sent.append(batch.until)
        if self.failures:
            raise self.failures.pop(0)

    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Need nothing."""


Shipping = Callable[[Destination], Shipper]


@pytest.fixture
def shipping(tmp_path: Path) -> Shipping:
    """Make a shipper, whose waits and lines are at hand."""

    def shipper_to(sink: Destination) -> Shipper:
        return Shipper(sink, Acknowledged(tmp_path / "kept", "somewhere", None, {}))

    return shipper_to


def test_waits_double_up_to_a_limit_reported_once(connection: Connection, shipping: Shipping) -> None:
    shipper, waits, messages = shipping(Destination(*[NotTaken("away (x)")] * 9)), list[float](), list[str]()
    shipper.wait, shipper.warn = waits.append, messages.append
    shipper.is_over = lambda: shipper.shipped == 1
    shipper.run(SettledTape(connection))
    assert all(2**n / 4 <= wait <= 2**n / 2 for n, wait in enumerate(waits[:6]))
    assert all(LONGEST_WAIT_SECONDS / 2 <= wait <= LONGEST_WAIT_SECONDS for wait in waits[6:9])
    assert messages == ["away (x); trying again", ""]


def test_a_requested_wait_delays_following_and_fails_shipping_once(connection: Connection, shipping: Shipping) -> None:
    shipper, waits = shipping(Destination(NotTaken("no", 60.0))), list[float]()
    shipper.wait, shipper.is_over = waits.append, lambda: shipper.shipped == 1
    shipper.run(SettledTape(connection))
    assert waits[0] == 60
    once = shipping(Destination(NotTaken("no", 60.0)))
    with pytest.raises(NotTaken, match="no: the rest stays on the tape"):
        once.run(SettledTape(connection), once=True)


def test_other_nodes_are_asked_before_reporting_or_waiting(connection: Connection, shipping: Shipping) -> None:
    shipper = shipping(Destination(NotTaken("a"), NotTaken("b"), nodes=3))
    waits, messages = list[float](), list[str]()
    shipper.wait, shipper.warn = waits.append, messages.append
    shipper.run(SettledTape(connection), once=True)
    assert (waits, messages, shipper.shipped) == ([], [], 1)


def test_a_stopping_shipper_tries_without_longer_waits(connection: Connection, shipping: Shipping) -> None:
    now, sink = [0], Destination(*[NotTaken("away")] * 99)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += round(seconds * 1e9)

    shipper = shipping(sink)
    shipper.clock = Clock(now=lambda: now[0], sleep=sleep)
    shipper.is_over, shipper.last_seconds = lambda: True, 4.0
    with pytest.raises(NotTaken):
        shipper.run(SettledTape(connection), once=True)
    assert 1 < len(sink.sent) < 9
    assert sum(slept) <= 4
    assert shipper.acknowledged.of("exchanges") == Progress(0, ALL)  # so that the next process sends the same
