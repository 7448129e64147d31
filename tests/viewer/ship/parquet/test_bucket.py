"""An archive in a bucket: requests are signed, an object is there as a whole or not at all, and nothing is lost."""

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bucket import CUT, KEY, SECRET, Bucket, bucket
from tests.support.frames import damage, exchange, opened, record
from wiretape.recorder import destinations
from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.export.parquet import pyarrow
from wiretape.viewer.ship.acknowledged import held
from wiretape.viewer.ship.parquet.files import Files, in_bucket
from wiretape.viewer.ship.parquet.sink import ArchiveSink
from wiretape.viewer.ship.shipper import Shipper
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.tape import queries

ROOT = Path(__file__).parents[4]
PART = 10 << 20
"""Size of a part of an upload by pyarrow, in bytes."""
TODAY, LATER = (Clock(wall_ns=lambda at=at: at * 10**9) for at in (1_772_366_400, 1_800_000_000))
REFUSED = {
    (403, "AccessDenied"): "the account may not do that: it has to list, read, write and delete",
    (400, "Strange"): "UNKNOWN",
}
TRIED_AGAIN = {
    (503, "SlowDown"): "its service has too much to do",
    CUT: "its service cannot be reached, or cut the connection",
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET), ("EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def store() -> Iterator[Bucket]:
    with bucket() as served:
        yield served


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.db"


def files(store: Bucket, name: str = "archive") -> Files:
    where = destinations.parse_archive(store.url.replace("archive", name))
    return in_bucket(pyarrow(), where.prefix, where.settings)


def ship(tape: Path, files: Files, clock: Clock = TODAY) -> int:
    with queries.opened(tape) as connection, held(tape, "a bucket") as known:
        archiver = Shipper(ArchiveSink(files, ShippedLabels("a/host"), True, clock), known, clock=clock)
        archiver.run(connection, once=True)
        return archiver.shipped


def rows(store: Bucket, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table as a reader of the objects finds them."""
    found = [data for key, data in store.objects.items() if key.startswith(f"of wiretape/{table}/") and data]
    read = [pyarrow().parquet.ParquetFile(io.BytesIO(data)).read(columns).to_pylist() for data in found]
    return sorted(tuple(row.values()) for some in read for row in some)


def test_a_bucket_has_what_a_directory_would_have_before_and_after_files_are_merged(store: Bucket, tape: Path) -> None:
    with opened(tape) as one:
        record(one, [frame for id in ("e1", "e2") for frame in exchange(id)])
        assert ship(tape, files(store)) == 2
        damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 2")
        assert list(one.rebuild()) == [False, True]
        assert ship(tape, files(store)) == 1
    assert len(rows(store, "exchanges", "id")) == 3
    assert ship(tape, files(store), LATER) == 0
    assert rows(store, "exchanges", "id", "outcome") == [("e1", "complete"), ("e2", "complete")]
    assert rows(store, "streams", "id", "content") == [("e1", "Hello"), ("e2", "Hello")]
    assert rows(store, "sessions", "session", "waiting") == [("session-1", 0)]
    assert {key.split("/")[3] for key in store.objects if key.endswith(".parquet")} == {"host=a%2Fhost"}
    assert not [key for key in store.objects if key.endswith(".part")]


@pytest.mark.parametrize("answers", [REFUSED, pytest.param(TRIED_AGAIN, marks=pytest.mark.nightly)])
def test_what_a_bucket_refuses_is_reported_in_one_line_and_shipped_later_exactly_once(
    store: Bucket,
    tape: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[tuple[int, str], str],
) -> None:
    def said(name: str = "archive") -> str:
        with pytest.raises(WiretapeError) as caught:
            ship(tape, files(store, name))
        message = str(caught.value)
        assert "\n" not in message
        assert message.endswith(": the rest stays on the tape")
        return message.partition("(")[2].partition(")")[0]

    with opened(tape) as one:
        record(one, exchange("e1"))
    for answer, expected in answers.items():
        store.fault = lambda method, path, query, answer=answer: answer if method == "PUT" else None  # type: ignore[misc]
        assert said().startswith(expected)
    store.fault = lambda *_: None
    assert said("missing") == "there is no such bucket: make it first"
    with monkeypatch.context() as patched:
        patched.setenv("AWS_SECRET_ACCESS_KEY", "another")
        assert "AWS_SECRET_ACCESS_KEY" in said()
        patched.setenv("AWS_ACCESS_KEY_ID", "another")
        assert "AWS_ACCESS_KEY_ID" in said()
    assert not any(store.objects.values())
    assert ship(tape, files(store)) == 1
    assert rows(store, "exchanges", "id") == [("e1",)]
    kept = [path.read_bytes() for path in tmp_path.iterdir()]
    assert not [one for one in kept if SECRET.encode() in one or KEY.encode() in one]


def test_an_object_is_not_there_before_it_is_there_as_a_whole(store: Bucket) -> None:
    content = bytes(range(256)) * (PART // 256) * 2 + b"the end"
    where = files(store)

    def fail(out: Any) -> None:
        out.write(content)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        where.put("exchanges/a.parquet", fail)
    assert where.below("exchanges") == []
    store.fault = lambda method, path, query: (403, "AccessDenied") if query.get("partNumber") == "2" else None
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        where.put("exchanges/a.parquet", lambda out: out.write(content))
    assert not any(store.objects.values())
    store.fault = lambda *_: None
    where.put("exchanges/a.parquet", lambda out: out.write(content))
    assert store.objects["of wiretape/exchanges/a.parquet"] == content
    assert [file.path for file in where.below("exchanges")] == ["exchanges/a.parquet"]


@pytest.mark.nightly
def test_who_is_killed_at_any_request_leaves_whole_objects_and_each_exchange_once(store: Bucket, tape: Path) -> None:
    command = [sys.executable, "-m", "wiretape.viewer.cli", "ship", "--once", "--db", str(tape), "--to", store.url]
    codes = []
    with opened(tape) as one:
        for last in range(1, 18):
            record(one, exchange(f"e{last:02}"))
            asked = len(store.requests)
            with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:

                def kill(*_: Any, last: int = asked + last, process: Any = process) -> tuple[int, str] | None:
                    if len(store.requests) < last:
                        return None
                    process.kill()
                    return CUT

                store.fault = kill
                codes.append(process.wait(60))
            store.fault = lambda *_: None
            for table in ("exchanges", "sessions"):
                rows(store, table, "row_version")
    assert codes[:12] == [-signal.SIGKILL] * 12
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = set(rows(store, "exchanges", "id", "row_version"))
    assert [id for id, _ in sorted(found)] == [f"e{number:02}" for number in range(1, 18)]
    assert len(rows(store, "sessions", "session")) == 1
