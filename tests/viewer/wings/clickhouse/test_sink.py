"""A settled exchange of a tape is on the server exactly once, after any failure."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select

from tests.support.clickhouse.engine import CUT, Engine, failed, running, ship
from tests.support.frames import (
    SESSION,
    STREAM,
    begin,
    body,
    damage,
    end,
    exchange,
    head,
    opened,
    other_session,
    reading,
    record,
    websocket,
)
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.errors import TapeBusy, WiretapeError
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.schema import measures
from wiretape.recorder.tape.store import Store
from wiretape.viewer.ship.acknowledged import Progress, destinations, locked, path_of
from wiretape.viewer.ship.sink import Batch, NotTaken
from wiretape.viewer.source import settled
from wiretape.viewer.wings.clickhouse import sink as shipping
from wiretape.viewer.wings.clickhouse.client import UnusableServer
from wiretape.viewer.wings.clickhouse.sink import CentreSink, ShippedLabels, second


@pytest.fixture(scope="module")
def running_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture
def engine(running_engine: Engine) -> Engine:
    """The engine, without rows."""
    running_engine.forget()
    return running_engine


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "MOST_ROWS", {"exchanges": 2, "streams": 1})
    monkeypatch.setattr(shipping, "ROWS_AT_ONCE", {"exchanges": 1, "streams": 1})


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """The path for a tape that does not exist yet."""
    return tmp_path / "tape.db"


@contextmanager
def recorded(tape: Path, *ids: str) -> Iterator[Store]:
    with opened(tape) as store:
        record(store, [frame for id in ids for frame in exchange(id)])
        yield store


def test_late_and_rederived_exchanges_are_shipped_once_acknowledged(engine: Engine, tape: Path) -> None:
    with opened(tape) as store:
        record(store, [*exchange("late")[:-1], *exchange("e1"), *exchange("e2"), *exchange("e3")])
        assert ship(tape, engine) == (3, [])
        assert ship(tape, engine) == (0, [])
        record(store, exchange("late")[-1:])
        assert ship(tape, engine) == (1, [])
        assert len(engine.tokens["exchanges"]) == 3
        first_version = engine.final()["e2"]
        damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 3")
        assert list(rederive(store)) == [False, False, True, False]
        assert ship(tape, engine) == (1, [])
    assert engine.final().keys() == {"late", "e1", "e2", "e3"}
    second_version = engine.final()["e2"]
    assert second_version["row_version"] > first_version["row_version"]
    assert second_version | {"row_version": 0} == first_version | {"row_version": 0}


def test_a_row_has_facts_and_measures_but_no_bodies(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1"):
        ship(tape, engine, origin=ShippedLabels("a-host", {"tenant": "acme", "run": "z", "zone": "eu"}))
    row = engine.final()["e1"]
    with reading(tape) as connection:
        measured = connection.execute(select(measures)).mappings().one()
    assert (row["tenant"], row["host"], row["session"]) == ("acme", "a-host", SESSION.uuid)
    assert (row["started"], second(row["started_at"])) == ("2026-03-01 12:00:00", 1772366400)
    labels = dict(zip(row["label_names"], row["label_values"], strict=True))
    assert labels == {"tenant": "acme", "run": "a", "zone": "eu"}  # the exchange's own label stands
    assert (row["ttft_ns"], row["tpot_ns"], row["output_tokens"]) == (measured["ttft_ns"], None, None)
    assert row["icl"] == [gap for (gap,) in struct.iter_unpack("<q", measured["icl"])]
    assert sum(row["gap_hist"]) == len(row["icl"]) == 1
    assert b"Hello" not in b"".join(body for *_, body in engine.asked)
    assert engine.count("streams") == 0
    (session,) = engine.query("SELECT * FROM sessions WHERE waiting = 0")
    assert (session["session"], session["lag_ms"]) == (SESSION.uuid, None)


@pytest.mark.damages
def test_with_bodies_earlier_exchanges_get_their_texts_too(engine: Engine, tape: Path) -> None:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("untimed", [b"abc"])])
        record(store, websocket("ws", [b"\x81\x00"], [b"\x81\x80abcd"]))
        damage(tape, "UPDATE bodies SET at_ns = 'null', relayed_ns = 'null' WHERE exchange_no = 2")
        ship(tape, engine)
        lags: list[int] = []
        assert ship(tape, engine, bodies=True, tell=lambda report: lags.append(report.unshipped)) == (0, [])
    assert (lags[0], lags[-1]) == (3, 0)  # an exchange waits until all that is shipped of it is there
    rows = engine.final("streams")
    row = rows["e1"]
    assert (row["content"], row["size"], len(row["sizes"])) == ("Hello", sum(map(len, STREAM)), len(STREAM))
    (body,) = engine.query("SELECT hex(body) AS hex FROM streams WHERE id = 'e1'")
    assert zlib.decompress(bytes.fromhex(body["hex"])) == b"".join(STREAM)
    assert (rows["untimed"]["at_ns"], rows["untimed"]["sizes"]) == ([], [3])
    assert (rows["ws"]["client_size"], rows["e1"]["client_size"], rows["e1"]["client_sizes"]) == (6, None, [])


def test_a_failed_batch_keeps_its_token_for_another_node(engine: Engine, tape: Path) -> None:
    engine.faults = [CUT, CUT, failed(500, 243, "No space left")]  # the client itself tries again once
    with recorded(tape, "e1", "e2", "e3"):
        shipped, messages = ship(tape, engine)
    assert shipped == 3
    assert [line.partition(" (")[0] for line in messages] == [
        f"{engine.target.nodes[0]} broke the connection",
        f"the disk of {engine.target.nodes[1]} is full: free some space there; trying again",
        "",
    ]
    assert [engine.tokens["exchanges"].count(token) for token in dict.fromkeys(engine.tokens["exchanges"])] == [3, 1]
    assert engine.count() == 3


def test_a_nodes_failure_is_reported_once_if_others_fail(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1"):
        engine.faults = [failed(500, 286, "version: 7")]
        assert ship(tape, engine) == (1, [])
        path_of(tape, engine.target.name).unlink()
        engine.faults = [failed(500, 285, f"part {part}") for part in range(6)]
        shipped, messages = ship(tape, engine)
    assert (shipped, messages[-1]) == (1, "")
    assert [line.partition(" has too few replicas that work (")[0] for line in messages[:-1]] == [*engine.target.nodes]


class KilledSink(CentreSink):
    """A sink whose process is killed when a batch has arrived."""

    def send(self, batch: Batch) -> None:
        super().send(batch)
        raise KeyboardInterrupt


def test_a_killed_process_repeats_the_same_batch_first(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1") as store:
        with pytest.raises(KeyboardInterrupt):
            ship(tape, engine, KilledSink)
        record(store, exchange("e2"))
        assert ship(tape, engine) == (2, [])
        first, again, last = engine.tokens["exchanges"]
        assert (first == again, first == last, engine.count()) == (True, False, 2)
        record(store, exchange("e3"))
        with pytest.raises(KeyboardInterrupt):
            ship(tape, engine, KilledSink)
        damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 3")
        assert list(rederive(store))[-1]
        assert ship(tape, engine) == (1, [])
    assert {id: row["outcome"] for id, row in engine.final().items()} == dict.fromkeys(("e1", "e2", "e3"), "complete")


def test_what_is_shipped_again_after_its_deletion_arrives(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1"):
        ship(tape, engine)
        path_of(tape, engine.target.name).unlink()
        engine.run(b"ALTER TABLE exchanges DELETE WHERE 1 SETTINGS mutations_sync = 1")
        assert ship(tape, engine) == (1, [])
    assert [*engine.final()] == ["e1"]


def test_what_cannot_be_is_refused_before_anything_is_sent(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1"):
        for statement, back, message in (
            (
                "ALTER TABLE exchanges MODIFY COLUMN ttft_ns Nullable(Float64)",
                "ALTER TABLE exchanges MODIFY COLUMN ttft_ns Nullable(Int64)",
                "exchanges.ttft_ns of wiretape at 127.0.0.1:[0-9]+ is Nullable.Float64., not Nullable.Int64.: ",
            ),
            (
                "ALTER TABLE exchanges RENAME COLUMN ttft_ns TO t",
                "ALTER TABLE exchanges RENAME COLUMN t TO ttft_ns",
                "exchanges of wiretape at 127.0.0.1:[0-9]+ has an older schema, without ttft_ns: run 'wire",
            ),
            (
                "RENAME TABLE exchanges TO other",
                "RENAME TABLE other TO exchanges",
                "no such table .*: run 'wiretape fleet init",
            ),
        ):
            engine.run(statement.encode())
            with pytest.raises(UnusableServer, match=message):
                ship(tape, engine)
            engine.run(back.encode())
            assert engine.count("sessions") == 0
        engine.run(b"ALTER TABLE exchanges ADD COLUMN tomorrow Nullable(Int64)")
        shipped = ship(tape, engine)
        engine.run(b"ALTER TABLE exchanges DROP COLUMN tomorrow")
        remark = f"{engine.target.name} has 1 column of a newer version, which stay empty"
        assert shipped == (1, [remark])


def test_a_server_that_stays_away_loses_nothing(engine: Engine, tape: Path) -> None:
    engine.faults = [failed(500, 252, "Too many parts")] * 100
    with recorded(tape, "e1"):
        with pytest.raises(NotTaken, match=r"too much to do .*the rest stays on the tape"):
            ship(tape, engine)
        engine.faults = []
        assert ship(tape, engine) == (1, [])


def test_hostile_texts_arrive_as_they_are(engine: Engine, tape: Path) -> None:
    text = HOSTILE.replace("\n", " ")
    request = msgspec.json.encode({"model": text, "stream": True})
    with opened(tape) as store:
        record(
            store, [begin("e1", body=request, labels={"k'": text}), head("e1"), *body("e1", STREAM), end("e1", STREAM)]
        )
        ship(tape, engine, origin=ShippedLabels("h'; DROP TABLE exchanges --"))
    row = engine.final()["e1"]
    assert row["request_model"] == text
    assert row["label_values"][0] == text
    assert row["host"] == "h'; DROP TABLE exchanges --"


def test_a_replaced_tape_is_shipped_from_its_beginning(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1"):
        ship(tape, engine)
    tape.unlink()
    with opened(tape, other_session("another")) as store:
        record(store, exchange("e2"))
        damage(tape, "UPDATE settlements SET version = 1")
        assert ship(tape, engine) == (1, [])
    progress = path_of(tape, engine.target.name)
    assert oct(progress.stat().st_mode)[-3:] == "600"
    assert [*destinations(tape, "another")] == [(engine.target.name, 1)]
    assert [*destinations(tape, "session-1")] == [(engine.target.name, 0)]
    progress.write_text("{")  # cut short
    assert ship(tape, engine) == (1, [])
    assert engine.final().keys() == {"e1", "e2"}


def test_a_tape_is_shipped_for_one_tenant(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1") as store:
        ship(tape, engine, origin=ShippedLabels("h", {"tenant": "acme", "zone": "eu"}))
        record(store, exchange("e2"))
        for labels in ({}, {"tenant": "other"}):
            with pytest.raises(
                WiretapeError, match=r"with --label tenant=acme, not with (no label tenant|--label ten)"
            ):
                ship(tape, engine, origin=ShippedLabels("h", labels))
        record(store, [begin("e3", labels={"tenant": "other"}), head("e3"), *body("e3", STREAM), end("e3", STREAM)])
        assert ship(tape, engine, origin=ShippedLabels("h", {"tenant": "acme"})) == (2, [])
    rows = engine.final().values()
    assert {row["label_values"][row["label_names"].index("tenant")] for row in rows} == {"acme"}
    assert {row["tenant"] for row in rows} == {"acme"}


def test_of_bodies_only_a_part_is_read_at_once(tape: Path) -> None:
    size = sum(map(len, STREAM)) + len(begin("e").body)
    with recorded(tape, "e1", "e2", "e3"), settled.opened(tape, decodes=False) as exchanges:
        assert [exchanges.count_within(most, 0, 5) for most in (0, size, 2 * size, 2 * size + 1, 9 * size)] == [
            1,
            1,
            2,
            2,
            3,
        ]
        assert exchanges.count_within(9 * size, 0, 2) == 2


def test_shipping_lag_is_unknown_without_a_settling_time(tape: Path) -> None:
    with recorded(tape, "e1"), settled.opened(tape, decodes=False) as exchanges:
        damage(tape, "UPDATE settlements SET version = 7")
        assert exchanges.backlog(0).lag_ns(10**18) is None
        damage(tape, "UPDATE settlements SET version = 1790000000000000")
        assert exchanges.backlog(0).lag_ns(1_790_000_001 * 10**9) == 10**9


def test_servers_with_like_names_keep_separate_state(tape: Path) -> None:
    tape.touch()
    with locked(tape, "db at h:1") as progress:
        progress.identify(None)
        progress.put("exchanges", Progress(3))
        progress.identify("first session")  # which an empty tape had not yet
        assert progress.of("exchanges") == Progress(3)
        progress.identify("another")
        assert progress.of("exchanges") == Progress()
    with locked(tape, "db-at-h:1") as progress:
        assert progress.of("exchanges") == Progress()


def test_one_process_ships_a_tape_to_a_server(engine: Engine, tape: Path) -> None:
    with recorded(tape), locked(tape, engine.target.name), pytest.raises(TapeBusy, match="is being shipped to wire"):
        ship(tape, engine)


@pytest.mark.damages
def test_damaged_cells_are_shipped_as_unknown(engine: Engine, tape: Path) -> None:
    with recorded(tape, "e1", "e2"):
        pass
    damage(
        tape,
        "UPDATE measures SET ttft_ns = 'x', icl = 'y', gap_hist = 7, tpot_ns = 9e999 WHERE exchange_no = 1",
        "UPDATE exchanges SET status = 1 << 40, labels = '[', started_at = 'soon' WHERE no = 1",
    )
    ship(tape, engine)
    row = engine.final()["e1"]
    assert [row[name] for name in ("ttft_ns", "icl", "gap_hist", "tpot_ns", "status", "label_names", "started")] == [
        None, [], [], None, None, [], "1970-01-01 00:00:00"
    ]  # fmt: skip
    assert engine.final()["e2"]["status"] == 200
