"""An archive has every exchange exactly once, after any failure, for readers that use the published views."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.support.frames import (
    AT,
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
    record,
)
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape.store import Store
from wiretape.viewer.export.parquet import pyarrow
from wiretape.viewer.ship.acknowledged import held
from wiretape.viewer.ship.parquet import layout as archive_sql
from wiretape.viewer.ship.parquet import sink as archiving
from wiretape.viewer.ship.parquet.files import Files
from wiretape.viewer.ship.parquet.sink import ArchiveSink
from wiretape.viewer.ship.shipper import Shipper
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.tape import queries

LATER = Clock(wall_ns=lambda: 1_800_000_000 * 10**9)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "MOST_ROWS", {"exchanges": 1, "streams": 1})
    monkeypatch.setattr(archiving, "ROWS_AT_ONCE", {"exchanges": 1, "streams": 1})


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.db"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "an archive"


def files(root: Path) -> Files:
    arrow = pyarrow()
    return Files(arrow, arrow.fs.LocalFileSystem(), str(root), is_local=True)


@contextmanager
def archiver(tape: Path, root: Path, **more: Any) -> Iterator[Shipper]:
    origin = more.pop("origin", ShippedLabels("a-host", {"tenant": "acme"}))
    sink = ArchiveSink(files(root), origin, more.pop("bodies", False), more.get("clock", SYSTEM))
    with held(tape, "an archive") as known:
        yield Shipper(sink, known, **more)


def ship(tape: Path, root: Path, **more: Any) -> int:
    with queries.opened(tape) as connection, archiver(tape, root, **more) as one:
        one.run(connection, once=True)
        assert one.last is not None
        assert one.last.waiting == 0
        return one.shipped


def found(root: Path, query: str) -> list[tuple[Any, ...]]:
    with pytest.importorskip("duckdb").connect() as connection:
        for statement in archive_sql.view_statements("DuckDB"):
            if "/streams/" not in statement or (root / "streams").exists():
                connection.execute(statement.replace("DIR", str(root)))
        return connection.execute(query).fetchall()


def names(root: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in (root / "exchanges").rglob("*") if path.is_file())


@contextmanager
def recorded(tape: Path, *ids: str) -> Iterator[Store]:
    with opened(tape) as store:
        record(store, [frame for id in ids for frame in exchange(id)])
        yield store


def test_duckdb_reads_each_exchange_once_in_its_newest_version_before_and_after_files_are_merged(
    tape: Path, root: Path
) -> None:
    query = (
        "SELECT id, outcome, date::VARCHAR, host, tenant, labels::JSON->>'run', ttft_ns, icl FROM exchanges ORDER BY id"
    )
    with recorded(tape, "e1", "e2", "e3") as store:
        clock = Clock(wall_ns=lambda: 1_772_366_400 * 10**9)  # of the day when they started
        assert ship(tape, root, clock=clock) == 3
        assert ship(tape, root, clock=clock) == 0
        assert names(root) == ["part"] * 3
        damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 2")
        assert list(store.rebuild()) == [False, True, False]
        assert ship(tape, root, clock=clock) == 1
    rows = found(root, query)
    assert [row[:6] for row in rows] == [
        (id, "complete", "2026-03-01", "a-host", "acme", "a") for id in ("e1", "e2", "e3")
    ]
    assert [type(rows[0][6]), rows[0][7]] == [int, [2_000_000]]
    assert ship(tape, root, clock=LATER) == 0
    assert names(root) == ["merged"]
    assert found(root, query) == rows
    assert {oct(path.stat().st_mode)[-3:] for path in root.rglob("*.parquet")} == {"600"}
    with pytest.importorskip("duckdb").connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{root}/exchanges/*/*/*.parquet'").fetchone() == (3,)


def test_who_reads_while_files_are_merged_or_after_that_was_killed_counts_nothing_twice(
    tape: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def kill(self: Files, path: str) -> None:
        seen.append(found(root, "SELECT count(*) FROM exchanges"))
        raise KeyboardInterrupt

    with recorded(tape, "e1", "e2"):
        monkeypatch.setattr(Files, "remove", kill)
        with pytest.raises(KeyboardInterrupt):
            ship(tape, root, clock=LATER)
        assert (names(root), seen) == (["merged", "part", "part"], [[(2,)]])
        monkeypatch.undo()
        assert ship(tape, root, clock=LATER) == 0
    assert names(root) == ["merged"]
    assert found(root, "SELECT count(*) FROM exchanges") == [(2,)]


def test_a_batch_whose_writing_was_killed_is_written_again_under_its_names(
    tape: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Files.put

    def kill(self: Files, path: str, write: Any) -> None:
        put(self, path, write)
        if path.startswith("exchanges/"):
            raise KeyboardInterrupt

    with recorded(tape, "e1") as store:
        monkeypatch.setattr(Files, "put", kill)
        with pytest.raises(KeyboardInterrupt):
            ship(tape, root)
        (path,) = (root / "exchanges").rglob("*.parquet")
        before = path.read_bytes()
        monkeypatch.undo()
        record(store, exchange("e2"))
        clock = Clock(wall_ns=lambda: 1_772_366_400 * 10**9)
        assert ship(tape, root, clock=clock) == 2
    assert path.read_bytes() == before
    assert names(root) == ["part", "part"]
    assert found(root, "SELECT count(*) FROM exchanges") == [(2,)]


def test_a_batch_that_is_fixed_is_written_as_a_whole_where_batches_have_become_smaller(
    tape: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(self: Files, path: str, write: Any) -> None:
        if path.startswith("exchanges/"):
            raise KeyboardInterrupt

    with recorded(tape, "e1", "e2", "e3"):
        with monkeypatch.context() as patched:
            patched.setitem(archiving.MOST_ROWS, "exchanges", 3)
            patched.setattr(Files, "put", kill)
            with pytest.raises(KeyboardInterrupt):
                ship(tape, root)
        assert ship(tape, root) == 3
    assert found(root, "SELECT count(*) FROM exchanges") == [(3,)]


def test_hosts_that_ship_at_once_have_their_exchanges_on_the_days_when_they_started(tape: Path, root: Path) -> None:
    hosts = {"höst": "2026-03-01T23:59:59.999999Z", "..": "2026-03-02T00:00:00.000000Z"}
    with ExitStack() as opened_tapes:
        for number, (host, started_at) in enumerate(hosts.items()):
            own = tape.with_name(f"{number}.db")
            store = opened_tapes.enter_context(opened(own, other_session(host)))
            for id in (f"a{number}", f"b{number}"):
                record(store, [begin(id, started_at=started_at), *exchange(id)[1:]])
            assert ship(own, root, origin=ShippedLabels(host), clock=LATER) == 2
    query = "SELECT id, exchanges.date::VARCHAR, exchanges.host, s.host FROM exchanges JOIN sessions s"
    assert found(root, f"{query} USING (tenant, session) ORDER BY id") == [
        ("a0", "2026-03-01", "höst", "höst"), ("a1", "2026-03-02", "..", ".."),
        ("b0", "2026-03-01", "höst", "höst"), ("b1", "2026-03-02", "..", ".."),
    ]  # fmt: skip


def test_runs_of_recorders_are_a_file_a_day_which_is_written_again_when_they_change(tape: Path, root: Path) -> None:
    def files() -> list[str]:
        return [path.parent.parent.name for path in sorted((root / "sessions").rglob("*.parquet"))]

    runs = "SELECT date::VARCHAR, host, tenant, waiting, version FROM sessions ORDER BY started_at"
    of_exchanges = f"{archive_sql.JOIN} ORDER BY id"
    with recorded(tape, "e1") as store:
        ship(tape, root)
        assert found(root, runs) == [(AT[:10], "a-host", "acme", 0, SESSION.version)]
        assert found(root, of_exchanges) == [("e1", "a-host", SESSION.pid)]
        (before,) = root.glob("sessions/*/*/*")
        ship(tape, root)
        assert before.exists()
        store.begin_session(structs.replace(other_session("later"), started_at="2026-03-02T00:30:00.000000+01:00"))
        store.begin_session(structs.replace(other_session("last"), started_at="2026-03-02T00:00:00.000000Z"))
        record(store, exchange("e2"))
    ship(tape, root)
    assert not before.exists()
    assert files() == ["date=2026-03-01", "date=2026-03-02"]
    assert [row[0] for row in found(root, runs)] == ["2026-03-01", "2026-03-01", "2026-03-02"]
    assert found(root, of_exchanges) == [(id, "a-host", SESSION.pid) for id in ("e1", "e2")]


def test_a_file_that_cannot_be_merged_is_named_and_keeps_nothing_else_from_it(tape: Path, root: Path) -> None:
    said: list[str] = []
    with recorded(tape, "e1", "e2") as store:
        ship(tape, root, clock=Clock(wall_ns=lambda: 1_772_366_400 * 10**9))
        broken = root / "exchanges" / "date=2026-02-28" / "host=a-host"
        broken.mkdir(parents=True)
        for name in ("part-a", "part-b"):
            (broken / f"{name}.parquet").write_bytes(b"not of Parquet")
        unfinished = broken / ".part-c.parquet.part"
        unfinished.touch()
        record(store, exchange("e3"))
        assert ship(tape, root, clock=LATER, warn=said.append) == 1
    (message,) = said
    assert message.startswith("small files of the archive are not merged (exchanges/date=2026-02-28/host=a-host: ")
    assert names(root) == ["merged", "part", "part"]
    assert not unfinished.exists()


def test_an_archive_that_cannot_be_written_loses_nothing(tape: Path, root: Path) -> None:
    root.write_text("not a directory")
    said: list[str] = []
    waits: list[float] = []

    def repair(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            root.unlink()

    with recorded(tape, "e1"), queries.opened(tape) as connection:
        with pytest.raises(WiretapeError, match=r"the archive cannot be written .*: the rest stays on the"):
            ship(tape, root)
        with archiver(tape, root, warn=said.append, wait=repair, is_over=lambda: one.shipped == 1) as one:
            one.run(connection)
            assert one.last is not None
            assert (one.shipped, one.last.waiting) == (1, 0)
    assert said[0].endswith("trying again")
    assert said[1:] == [""]  # one report for all attempts
    assert all(least <= wait <= 2 * least for wait, least in zip(waits, (0.25, 0.5, 1), strict=False))


def test_with_bodies_texts_are_archived_and_hostile_texts_arrive_as_they_are(tape: Path, root: Path) -> None:
    labels = {"k'": HOSTILE}
    host = "../a b=1/'%"
    with opened(tape) as store:
        frames = [begin("e1", labels=labels), head("e1"), *body("e1", STREAM), end("e1", STREAM)]
        record(store, frames)
        assert ship(tape, root, bodies=True, origin=ShippedLabels(host)) == 1
    assert found(root, "SELECT host, labels::JSON->>'k''' FROM exchanges") == [(host, HOSTILE)]
    (path,) = (root / "streams").rglob("*.parquet")
    assert path.parent.name == "host=..%2Fa%20b%3D1%2F%27%25"
    with pytest.importorskip("duckdb").connect() as connection:
        query = f"SELECT content, octet_length(body) > 0, len(at_ns), date::VARCHAR FROM '{root}/streams/*/*/*.parquet'"
        assert connection.execute(query).fetchone() == ("Hello", True, len(STREAM), "2026-03-01")


def test_an_archive_is_written_without_what_takes_much_memory(tape: Path, root: Path) -> None:
    with recorded(tape, "e1"):
        pass
    command = (
        f"import sys; from wiretape.viewer.cli import main; sys.argv[1:] = ['ship', '--once', '--to', 'parquet:{root}']"
    )
    loaded = "'pandas' in sys.modules or 'pyarrow.compute' in sys.modules"
    code = f"{command}\ntry: main()\nexcept SystemExit: sys.exit({loaded})"
    environment = os.environ | {"WIRETAPE_DB": str(tape)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert found(root, "SELECT count(*) FROM exchanges") == [(1,)]


@pytest.mark.damages
def test_damaged_cells_are_archived_as_unknown(tape: Path, root: Path) -> None:
    with recorded(tape, "e1"):
        pass
    damage(
        tape,
        "UPDATE measures SET ttft_ns = 'x', icl = 'y', gap_hist = 7, tpot_ns = 9e999",
        "UPDATE exchanges SET status = 1 << 40, labels = '[', started_at = 'soon'",
    )
    ship(tape, root)
    columns = "ttft_ns, icl, gap_hist, tpot_ns, status, labels, date::VARCHAR"
    assert found(root, f"SELECT {columns} FROM exchanges") == [
        (None, None, None, None, None, '{"tenant": "acme"}', "1970-01-01")
    ]
