"""A real shipper that is killed, or whose disk is full, again and again: the archive has each exchange exactly once."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.frames import until
from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file
from wiretape.viewer.ship.parquet import layout as archive_sql

pytestmark = pytest.mark.nightly

COUNT = 1000
SHIP = """import sys; from wiretape.viewer.ship.parquet import sink as archive; from wiretape.viewer.cli import main
to, rows = sys.argv[1:]
archive.MOST_ROWS.update(exchanges=int(rows), streams=int(rows))
sys.argv[1:] = ["ship", "--once", "--bodies", "--to", to]
main()"""
"""Ships as the command does, in files of a given number of rows."""
KILLS = (("part-*", 1), ("part-*", 4), ("part-*", 9), ("part-*", 12), ("merged-*", 1), ("merged-*", 1))
"""The time at which a shipper is killed: as soon as the count of these files has grown by the given number."""
LARGEST = 40_000
"""The size in bytes that a file may have, as if the disk was full then; SQLite's own files have less."""


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    tape = tmp_path / "tape.db"
    with file.writing(tape, "a test") as connection:
        for _ in synthetic.fill(connection, COUNT, 20, seed=1):
            pass
        connection.exec_driver_sql("DELETE FROM settlements WHERE version % 100 = 0")  # some never settle
        connection.commit()
    return tape


def start(tape: Path, root: Path, rows: int = 50, preexec: Callable[[], None] | None = None) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SHIP, f"parquet:{root}", str(rows)]
    environment = os.environ | {"WIRETAPE_DB": str(tape)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=preexec)


def rows(root: Path, table: str) -> tuple[int, int]:
    """Return the numbers of rows and ids that the published statement finds."""
    with pytest.importorskip("duckdb").connect() as connection:
        (statement,) = (one for one in archive_sql.view_statements("DuckDB") if f"/{table}/" in one)
        connection.execute(statement.replace("DIR", str(root)))
        found = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {table}").fetchone()
        assert found is not None
        return found


def count(root: Path, pattern: str) -> int:
    return sum(1 for _ in root.glob(f"*/*/*/{pattern}.parquet"))


def settled(tape: Path) -> int:
    with file.reading(tape) as connection:
        found = connection.exec_driver_sql(
            "SELECT count(*) FROM settlements JOIN exchanges ON no = exchange_no"
        ).scalar()
        assert isinstance(found, int)
        return found


def test_who_is_killed_while_files_are_written_and_merged_leaves_each_exchange_once(tape: Path, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    killed = 0
    for pattern, more in (
        ("part-*", 1),
        ("part-*", 4),
        ("part-*", 9),
        ("part-*", 12),
        ("merged-*", 1),
        ("merged-*", 1),
    ):
        wanted = count(root, pattern) + more
        with start(tape, root) as process:
            until(lambda w=wanted, p=process, n=pattern: count(root, n) >= w or p.poll() is not None)  # type: ignore[misc]
            killed += process.poll() is None
            process.kill()
        for table in ("exchanges", "streams"):
            if any((root / table).rglob("*.parquet")):
                found, different = rows(root, table)
                assert found == different <= settled(tape)
    assert killed >= 5
    with start(tape, root) as process:
        assert process.wait(60) == 0
    assert [rows(root, table) for table in ("exchanges", "streams")] == [(settled(tape), settled(tape))] * 2


def test_a_disk_that_is_full_leaves_no_half_of_a_file_and_loses_nothing(tape: Path, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    limits = (resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    with start(tape, root, COUNT, lambda: resource.setrlimit(*limits)) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the archive cannot be written (File too large" in said
    assert [path.name for path in root.rglob("*") if path.is_file() and path.suffix != ".parquet"] == []
    assert all(path.stat().st_size < LARGEST for path in root.rglob("*.parquet"))
    with start(tape, root) as process:
        assert process.wait(60) == 0
    assert rows(root, "exchanges") == (settled(tape), settled(tape))
