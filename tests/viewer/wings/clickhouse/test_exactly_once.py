"""Recording, deriving again, shipping and breaking in random orders: every settled exchange is on the server once."""

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.clickhouse.engine import CUT, CUT_BEFORE, Engine, failed, running, ship
from tests.support.frames import damage, exchange, opened, other_session, record
from tests.support.writers import seeds
from wiretape.recorder.tape.journal import Frame
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.store import Store
from wiretape.viewer.ship.acknowledged import path_of
from wiretape.viewer.ship.sink import Batch, NotTaken
from wiretape.viewer.wings.clickhouse import sink as shipping
from wiretape.viewer.wings.clickhouse.sink import CentreSink

SETTLED = """SELECT id, outcome, version FROM exchanges JOIN measures m ON m.exchange_no = no
    JOIN settlements s ON s.exchange_no = no"""


class Life:
    """A tape and the server that it is shipped to, with the events that may happen to both."""

    def __init__(self, tape: Path, engine: Engine, seed: int) -> None:
        self.tape, self.engine, self.chosen = tape, engine, random.Random(seed)
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
        *frames, final_frame = self.next()
        record(store, frames)
        self.open.append(final_frame)

    def end(self, store: Store) -> None:
        record(store, [self.open.pop(0)] if self.open else [])

    def derive(self, store: Store) -> None:
        with closing(sqlite3.connect(self.tape)) as connection:
            numbers = [no for (no,) in connection.execute("SELECT exchange_no FROM settlements")]
        some = self.chosen.sample(numbers, self.chosen.randint(0, len(numbers)))
        damage(self.tape, *(f"UPDATE measures SET outcome = 'truncated' WHERE exchange_no = {no}" for no in some))
        assert all(rederive(store, some))

    def lose(self, _: Store) -> None:
        path_of(self.tape, self.engine.target.name).unlink(missing_ok=True)

    def ship_somehow(self) -> None:
        """Ship in batches of other sizes than before, with faults; it may be killed."""
        faults = (CUT, CUT_BEFORE, failed(500, 252, "Too many parts"), *[None] * 3)
        self.engine.faults = self.chosen.choices(faults, k=self.chosen.randint(0, 6))
        shipping.MOST_ROWS |= {"exchanges": self.chosen.choice((1, 2, 3, 50)), "streams": self.chosen.choice((1, 2))}
        RandomlyKilledSink.chosen = self.chosen
        with contextlib.suppress(KeyboardInterrupt, NotTaken):
            ship(self.tape, self.engine, RandomlyKilledSink, bodies=self.chosen.random() < 0.3)
        self.engine.faults = []


class RandomlyKilledSink(CentreSink):
    """A sink whose process is killed now and then, before or after a batch has arrived."""

    chosen: ClassVar[random.Random]

    def send(self, batch: Batch) -> None:
        if self.chosen.random() < 0.1:
            raise KeyboardInterrupt
        super().send(batch)
        if self.chosen.random() < 0.1:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.mark.parametrize("seed", seeds(5))
def test_whatever_happens_all_that_is_settled_is_there_once(
    engine: Engine, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "MOST_ROWS", dict(shipping.MOST_ROWS))
    monkeypatch.setattr(shipping, "ROWS_AT_ONCE", {"exchanges": 2, "streams": 2})
    engine.forget()
    life = Life(tmp_path / "tape.db", engine, seed)
    for run in range(4):
        with opened(life.tape, other_session(f"run {run}")) as store:
            for _ in range(4):
                life.happen(store)
        life.open.clear()  # the next run settles what this one left
    ship(life.tape, life.engine, bodies=True)
    with closing(sqlite3.connect(life.tape)) as connection:
        on_tape = {id: (outcome, version) for id, outcome, version in connection.execute(SETTLED)}
    rows = life.engine.final()
    assert {id: (row["outcome"], row["row_version"]) for id, row in rows.items()} == on_tape
    said = life.engine.final("streams")
    assert {id: row["row_version"] for id, row in said.items()} == {id: version for id, (_, version) in on_tape.items()}
