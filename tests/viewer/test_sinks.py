"""The promises of each kind of sink of the built-in wings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sinks import PLACES, Place, opened, ship
from wiretape.viewer import contracts
from wiretape.viewer.ship.acknowledged import Progress, destinations, locked
from wiretape.viewer.source import settled

PREFIXES = [address.prefix for wing in contracts.built_in().values() for address in wing.sinks]


@pytest.fixture(params=PREFIXES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with PLACES[request.param](tmp_path) as place:
        yield place


@pytest.fixture
def own_tape(tape: Path, tmp_path: Path) -> Path:
    """A copy of the tape: progress is kept beside it."""
    copy = tmp_path / "tape.db"
    copy.write_bytes(tape.read_bytes())
    return copy


def test_each_exchange_is_shipped_once_after_acknowledgement(own_tape: Path, place: Place) -> None:
    address, count = place
    shipped = ship(own_tape, address)
    count_before = count()
    assert 0 < count_before <= shipped  # a collector gets generations only
    assert ship(own_tape, address) == 0
    with settled.opened(own_tape, decodes=True) as exchanges:
        ((name, until),) = destinations(own_tape, exchanges.identity())
    assert (name, until > 0) == (contracts.destination(address).name, True)
    next(own_tape.parent.glob("*.shipped-*[!k]")).unlink()
    assert ship(own_tape, address) == shipped
    assert count() == count_before


def test_a_batch_that_is_taken_again_is_the_same(own_tape: Path, place: Place) -> None:
    address, count = place
    with (
        opened(address) as sink,
        locked(own_tape, "a name") as progress,
        settled.opened(own_tape, decodes=True) as exchanges,
    ):
        sink.begin(exchanges, progress, lambda _: None)
        sink.prepare()
        lane = sink.lanes[0]
        batch = sink.take(lane, Progress())
        assert batch is not None
        assert (batch.lane, batch.since) == (lane, 0)
        repeated = sink.take(lane, Progress(0, batch.until))
        assert repeated == batch
        for batch_ in (batch, repeated):
            sink.send(batch_)
        progress.put(lane, Progress(batch.until))
        assert sink.take(lane, Progress(batch.until)) is None
    assert 0 < count() <= batch.count


def test_an_address_has_a_name_without_credentials(place: Place) -> None:
    destination = contracts.destination(place[0])
    assert destination.name
    assert [*destination.arguments({"tenant": "a", "run": "b"}, 7)][:1] == ["--to"]
    assert destination.line.startswith(("ship ", "otlp "))
    destination.check()
    if "//" in place[0]:
        with pytest.raises(ValueError, match="set ") as error:
            contracts.destination(place[0].replace("//", "//ann:sesame@"))
        assert "sesame" not in str(error.value)


def test_an_unknown_address_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=re.escape(" or clickhouse://HOST")):
        contracts.destination("elsewhere://host")
