"""Recording, deriving again, shipping and breaking in random orders: every settled exchange is on the server once."""

import contextlib
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support.clickhouse.engine import TARGET, Engine, failed, ship
from tests.support.frames import damage, exchange, opened, other_session, record
from tests.support.writers import seeds
from wiretape.recorder.tape.journal import Frame
from wiretape.recorder.tape.store import Store
from wiretape.viewer.ship.acknowledged import path_of
from wiretape.viewer.ship.clickhouse import sink as shipping
from wiretape.viewer.ship.sink import NotTaken

SETTLED = """SELECT id, outcome, version FROM exchanges JOIN measures m ON m.exchange_no = no
    JOIN settlements s ON s.exchange_no = no"""


class Life:
    """A tape and the server that it is shipped to, with the events that may happen to both."""

    def __init__(self, tape: Path, seed: int) -> None:
        self.tape, self.engine, self.chosen = tape, Engine(), random.Random(seed)
        self.recorded, self.open = 0, list[Frame]()

    def happen(self, store: Store) -> None:
        """Apply one event."""
        happening = self.chosen.choice((*[self.record] * 5, self.begin, self.end, self.derive, self.lose))
        happening(store)
        if self.chosen.random() < 0.5:
            self.ship_somehow()

    def next(self) -> list[Frame]:
        self.recorded += 1
        return list(exchange(f"e{self.recorded}"))

    def record(self, store: Store) -> None:
        record(store, [frame for _ in range(self.chosen.randint(1, 5)) for frame in self.next()])

    def begin(self, store: Store) -> None:
        *frames, last = self.next()
        record(store, frames)
        self.open.append(last)

    def end(self, store: Store) -> None:
        record(store, [self.open.pop(0)] if self.open else [])

    def derive(self, store: Store) -> None:
        with closing(sqlite3.connect(self.tape)) as connection:
            numbers = [no for (no,) in connection.execute("SELECT exchange_no FROM settlements")]
        some = self.chosen.sample(numbers, self.chosen.randint(0, len(numbers)))
        damage(self.tape, *(f"UPDATE measures SET outcome = 'truncated' WHERE exchange_no = {no}" for no in some))
        assert all(store.rebuild(some))

    def lose(self, _: Store) -> None:
        path_of(self.tape, TARGET.name).unlink(missing_ok=True)

    def ship_somehow(self) -> None:
        """Ship in batches of other sizes than before, with faults; it may be killed."""
        faults = [self.cut, self.cut_before, self.kill, self.kill_before, self.fail, *[None] * 3]
        self.engine.faults = [None] * 3 + self.chosen.choices(
            faults, k=self.chosen.randint(0, 10)
        )  # it is all right at first
        shipping.MOST_ROWS |= {"exchanges": self.chosen.choice((1, 2, 3, 50)), "streams": self.chosen.choice((1, 2))}
        with contextlib.suppress(KeyboardInterrupt, NotTaken):
            ship(self.tape, self.engine, bodies=self.chosen.random() < 0.3)
        self.engine.faults = []

    def cut(self, request: httpx.Request) -> httpx.Response:
        self.engine.answered(request)
        raise httpx.RemoteProtocolError("cut")

    def cut_before(self, _: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("cut")

    def kill(self, request: httpx.Request) -> httpx.Response:
        self.engine.answered(request)
        raise KeyboardInterrupt

    def kill_before(self, _: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    def fail(self, _: httpx.Request) -> httpx.Response:
        return failed(500, 252, "Too many parts")


@pytest.mark.parametrize("seed", seeds(30))
def test_whatever_happens_all_that_is_settled_is_there_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "MOST_ROWS", dict(shipping.MOST_ROWS))
    monkeypatch.setattr(shipping, "ROWS_AT_ONCE", {"exchanges": 2, "streams": 2})
    life = Life(tmp_path / "tape.db", seed)
    for run in range(4):
        with opened(life.tape, other_session(f"run {run}")) as store:
            for _ in range(4):
                life.happen(store)
        life.open.clear()  # the next run settles what this one left
    ship(life.tape, life.engine, bodies=True)
    with closing(sqlite3.connect(life.tape)) as connection:
        on_tape = {id: (outcome.encode(), version) for id, outcome, version in connection.execute(SETTLED)}
    rows = life.engine.final()
    assert {id: (row["outcome"], row["row_version"]) for id, row in rows.items()} == on_tape
    said = life.engine.final("streams")
    assert {id: row["row_version"] for id, row in said.items()} == {id: version for id, (_, version) in on_tape.items()}
