"""The tape stores repeated bytes of requests once, and returns each request byte for byte."""

import gzip
import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.agent_session import turns
from tests.support.frames import (
    AT,
    STREAM,
    begin,
    body,
    damage,
    end,
    head,
    opened,
    other_session,
    outcomes_of,
    reading,
    record,
    until,
    upload,
)
from tests.support.writers import seeds, writer
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import TapeDamaged
from wiretape.recorder.tape import checks, cut, file, journal, merge, reader, retention
from wiretape.recorder.tape.reading import request_body, row_of
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.schema import exchanges
from wiretape.recorder.tape.store import Store

ROOT = Path(__file__).parents[3]


def without_zeros(data: bytes) -> bytes:
    return data.replace(b"\0", b"\1")


def exchange_of(id: str, request: bytes, **facts: Any) -> list[journal.Frame]:
    return [begin(id, body=request, **facts), head(id), *body(id, STREAM), end(id, STREAM)]


def store_all(store: Store, requests: Mapping[str, bytes]) -> None:
    for id, request in requests.items():
        record(store, exchange_of(id, request))


def numbered(requests: Sequence[bytes], prefix: str = "e") -> dict[str, bytes]:
    return {f"{prefix}{number:02d}": request for number, request in enumerate(requests)}


def requests_of(tape: Path) -> dict[str, bytes | None]:
    """Return the request of each exchange by id; a program and people with plain SQL read the same."""
    with reading(tape) as connection:
        numbers = connection.execute(select(exchanges.c.id, exchanges.c.no)).all()
        reader = file.reader_of(connection)
        bodies = {id: request_body(reader, no) for id, no in numbers}
        assert [row_of(reader, no).request_stored for _, no in numbers] == [
            len(body or b"") for body in bodies.values()
        ]
        assert list(checks.problems(connection)) == []
    with closing(sqlite3.connect(tape)) as connection:
        plain = connection.execute(
            "SELECT id, requests.request_body FROM exchanges JOIN requests ON exchange_no = no"
        ).fetchall()
    assert dict(plain) == bodies
    return bodies


def in_parts(tape: Path) -> tuple[int, int]:
    """Return the number of requests in parts, and the bytes of these."""
    with closing(sqlite3.connect(tape)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM request_versions").fetchone()
        (size,) = connection.execute("SELECT coalesce(sum(length(data)), 0) FROM request_parts").fetchone()
        return count, size


@pytest.mark.parametrize("marks", [False, True])
def test_a_session_takes_little_more_than_its_last_request(tape: Path, marks: bool) -> None:
    requests = numbered(turns(30, marks=marks))
    with opened(tape) as store:
        store_all(store, requests)
    assert requests_of(tape) == requests
    count, size = in_parts(tape)
    assert count == 30
    assert size < 1.1 * len(requests["e29"])


def test_sessions_at_the_same_time_are_kept_apart(tape: Path) -> None:
    sessions = [numbered(turns(12, seed=seed, marks=True), f"s{seed}-") for seed in range(4)]
    with opened(tape) as store:
        for together in zip(*(session.items() for session in sessions), strict=True):
            store_all(store, dict(together))
    assert requests_of(tape) == {id: request for session in sessions for id, request in session.items()}
    assert in_parts(tape)[1] < 1.1 * sum(len(session.popitem()[1]) for session in sessions)


def test_exchanges_of_one_batch_share_what_they_repeat(tape: Path) -> None:
    requests = numbered(turns(10))
    with opened(tape) as store:
        record(store, [frame for id, request in requests.items() for frame in exchange_of(id, request)])
    assert requests_of(tape) == requests
    assert in_parts(tape)[0] == 10


def test_a_request_in_pieces_shares_with_a_whole_one(tape: Path) -> None:
    requests = numbered(turns(6))
    with opened(tape) as store:
        for id, request in requests.items():
            frames = upload(id, [request[:3000], request[3000:4000], request[4000:]])
            for part in (frames[:2], frames[2:3], frames[3:], [head(id), end(id, [])]):
                record(store, part)
    assert requests_of(tape) == requests
    assert in_parts(tape)[0] == 6


@pytest.mark.parametrize("deleted_places", [[0], [5], [9], [0, 1, 2, 3], [3, 7, 8, 9], list(range(10))])
def test_deleting_turns_leaves_exactly_the_other_turns(tape: Path, deleted_places: list[int]) -> None:
    requests = numbered([request[:-1] + b',"user":"only in %d"}' % turn for turn, request in enumerate(turns(10))])
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(other_session("session-1"))
        store_all(store, requests)
        deleted = [f"e{turn:02d}" for turn in deleted_places]
        assert sum(retention.erase(connection, deleted)) == len(deleted_places)
    remaining = {id: request for id, request in requests.items() if id not in deleted}
    assert requests_of(tape) == remaining
    with closing(sqlite3.connect(tape)) as plain:
        parts = b"\n".join(data for (data,) in plain.execute("SELECT data FROM request_parts"))
    assert [turn for turn in deleted_places if b"only in %d" % turn in parts] == []
    assert bool(parts) == bool(remaining)


@pytest.mark.parametrize("deleted_places", [slice(0, 5), slice(3, 7), slice(6, 7), slice(0, 7)])
def test_a_session_goes_on_after_turns_were_deleted(tape: Path, deleted_places: slice) -> None:
    requests = numbered(turns(12, marks=True))
    first, later = dict(list(requests.items())[:7]), dict(list(requests.items())[7:])
    with opened(tape) as store:
        store_all(store, first)
        deleted = list(first)[deleted_places]
        list(retention.erase(store.connection, deleted))
        store_all(store, later)
    assert requests_of(tape) == {id: request for id, request in requests.items() if id not in deleted}


def test_a_recorder_that_starts_again_stores_a_session_on(tape: Path) -> None:
    requests = numbered(turns(12))
    for start in range(0, 12, 3):
        with opened(tape, other_session(f"session-{start}")) as store:
            store_all(store, dict(list(requests.items())[start : start + 3]))
    assert requests_of(tape) == requests


def test_a_failed_batch_leaves_requests_unchanged(tape: Path) -> None:
    requests = numbered(turns(4))
    with opened(tape) as store:
        store_all(store, dict(list(requests.items())[:2]))
        store.append([begin("open")])
        broken = journal.Head(
            id="open", status=object(), headers=[], framing="chunked", connected_ns=1, sent_ns=2, headers_ns=3
        )  # type: ignore[arg-type]
        with pytest.raises(sqlite3.Error):
            store.append([*exchange_of("e02", requests["e02"]), broken])
        store_all(store, dict(list(requests.items())[2:]))
        store.append([end("open", [])])
    assert {id: request for id, request in requests_of(tape).items() if id != "open"} == requests


def test_incomplete_requests_stay_as_they_are(tape: Path) -> None:
    complete = turns(3)
    with opened(tape) as store:
        record(store, [*upload("e1", [complete[0]], truncated=True), end("e1", [])])
        record(store, [*upload("e2", [complete[1][:9000]], whole=complete[1]), end("e2", [])])
        store.append(upload("e3", [complete[2]])[:2])
    with opened(tape, other_session("session-2")):
        pass
    assert in_parts(tape) == (0, 0)
    assert requests_of(tape) == {"e1": complete[0], "e2": complete[1][:9000], "e3": complete[2]}


def test_compressed_and_short_requests_stay_as_they_are(tape: Path) -> None:
    compressed = {f"gz{number}": gzip.compress(request, 9) for number, request in enumerate(turns(4))}
    with opened(tape) as store:
        store_all(store, compressed | {"a": b"{}", "b": b"{}", "none": b""})
    assert in_parts(tape) == (0, 0)
    assert requests_of(tape) == compressed | {"a": b"{}", "b": b"{}", "none": b""}


def test_binary_requests_are_shared_byte_for_byte(tape: Path) -> None:
    noise = without_zeros(random.Random(1).randbytes(40_000)) + bytes(range(1, 256)) + b"\xff\xfe" * 50
    requests = {"e1": noise, "e2": noise[:500] + b"new\xff" + noise[500:], "e3": b"\xc3" * 100 + noise, "e4": noise}
    with opened(tape) as store:
        store_all(store, requests)
    assert requests_of(tape) == requests
    assert in_parts(tape)[1] < len(noise) + 1000


def test_requests_with_zero_bytes_are_not_cut_into_parts(tape: Path) -> None:
    request = b"a" * 5000 + b"\0" + b"b" * 5000
    requests = {"e1": request, "e2": request + b"more" * 30, "e3": request.replace(b"\0", b"") + b"more"}
    with opened(tape) as store:
        store_all(store, requests)
    assert requests_of(tape) == requests
    assert in_parts(tape) == (0, 0)


def test_requests_of_16_mb_are_shared(tape: Path) -> None:
    image = without_zeros(random.Random(2).randbytes((16 << 20) - 100))
    requests = {"e1": image, "e2": image + b"more" * 25}
    with opened(tape) as store:
        store_all(store, requests)
    assert requests_of(tape) == requests
    assert in_parts(tape) == (2, 16 << 20)


def merged(tape: Path, sources: Sequence[Path], selected: Sequence[int] | None = None) -> merge.MergePlan:
    with file.writing(tape, "a test") as connection:
        plan = merge.plan(connection, sources, selected)
        assert sum(merge.copy(connection, sources, plan)) == len(plan.exchanges)
        return plan


def dated(tape: Path, requests: Mapping[str, bytes], uuid: str) -> Path:
    with opened(tape, other_session(uuid)) as store:
        for number, (id, request) in enumerate(requests.items()):
            record(store, exchange_of(id, request, started_at=f"2026-03-01T12:{number:02d}:00.000000Z"))
    return tape


def test_merged_tapes_share_as_before(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_BATCH", 7)
    first_requests, second_requests = numbered(turns(12, marks=True), "a"), numbered(turns(12, seed=5), "b")
    sources = [dated(tmp_path / "a.db", first_requests, "a"), dated(tmp_path / "b.db", second_requests, "b")]
    dated(tape, numbered(turns(3, seed=9), "own"), "own")
    merged(tape, sources)
    merged(tape, sources)
    assert requests_of(tape) == first_requests | second_requests | numbered(turns(3, seed=9), "own")
    assert in_parts(tape)[1] < 1.1 * sum(len(turns(count, seed=seed)[-1]) for count, seed in ((12, 0), (12, 5), (3, 9)))


@pytest.mark.parametrize("selected", [[1], [6], [12], [2, 11], [3, 4, 5]])
def test_only_parts_of_the_exchanges_that_are_copied_are(tape: Path, tmp_path: Path, selected: list[int]) -> None:
    requests = numbered([request[:-1] + b',"user":"only in %d"}' % turn for turn, request in enumerate(turns(12), 1)])
    source = dated(tmp_path / "a.db", requests, "a")
    merged(tape, [source], selected)
    assert requests_of(tape) == {f"e{no - 1:02d}": requests[f"e{no - 1:02d}"] for no in selected}
    merged(tape, [source])
    assert requests_of(tape) == requests


def test_a_cut_has_requests_as_they_were(tape: Path, tmp_path: Path) -> None:
    requests = numbered(turns(8, marks=True))
    with opened(tape) as store:
        store_all(store, requests)
    with reader.opened(tape) as connection:
        lines = list(cut.lines(connection, range(1, 9)))
    cut.make_temporary_tape(lines, tmp_path / "again.db", "a test")
    assert requests_of(tmp_path / "again.db") == requests


DAMAGE = {
    "DELETE FROM request_parts WHERE no = 3": "not",
    "UPDATE request_parts SET data = CAST(upper(data) AS BLOB) WHERE no = 3": "sha256",
    "UPDATE request_parts SET data = CAST(replace(data, '1', char(0)) AS BLOB) WHERE no = 3": "are damaged",
    "UPDATE request_parts SET data = CAST(data AS TEXT) WHERE no = 3": "parts of its request are damaged",
    "UPDATE request_parts SET until = 'last' WHERE no = 3": "are damaged",
    "UPDATE request_parts SET position = (SELECT position FROM request_parts WHERE no = 1) WHERE no = 3": "are damaged",
    "UPDATE exchanges SET request_body = 'x' WHERE no > 3": "are damaged",
    "DELETE FROM request_versions WHERE exchange_no > 3": "parts of request bodies that no exchange has",
}


@pytest.mark.damages
@pytest.mark.parametrize("statement", DAMAGE)
def test_damaged_parts_are_found(tape: Path, statement: str) -> None:
    with opened(tape) as store:
        store_all(store, numbered(turns(8)))
    damage(tape, statement)
    with reading(tape) as connection:
        problems = list(checks.problems(connection))
    assert [problem for problem in problems if DAMAGE[statement] in problem]


@pytest.mark.damages
def test_a_request_without_a_part_is_unknown(tape: Path, tmp_path: Path) -> None:
    requests = numbered(turns(8))
    with opened(tape) as store:
        store_all(store, requests)
    damage(tape, "DELETE FROM request_parts WHERE no = (SELECT max(no) FROM request_parts)")
    with reader.opened(tape) as connection:
        bodies = [request_body(connection, no) for no in range(1, 9)]
        assert bodies == [*list(requests.values())[:7], None]
    with closing(sqlite3.connect(tape)) as plain:
        assert [body for (body,) in plain.execute("SELECT request_body FROM requests ORDER BY exchange_no")] == bodies
    with reader.opened(tape) as connection, pytest.raises(TapeDamaged):
        list(cut.lines(connection, [8]))
    assert len(merged(tmp_path / "other.db", [tape]).damaged) == 1
    assert requests_of(tmp_path / "other.db") == dict(list(requests.items())[:7])
    with file.writing(tape, "a test") as connection:
        assert list(rederive(Store(connection))) == [False] * 8


@pytest.mark.parametrize("seed", seeds(6))
def test_a_double_kill_leaves_requests_whole_or_absent(tape: Path, seed: int) -> None:
    chance = random.Random(seed)
    requests = numbered(turns(40, marks=True, seed=seed))
    frames = [frame for id, request in requests.items() for frame in (begin(id, body=request), head(id), end(id, []))]
    kept_count = chance.randrange(len(frames))
    with writer(tape, is_fresh=True) as process:
        process.send(frames[:kept_count])
        process.acknowledged()
        process.send(frames[kept_count:])
        if chance.randrange(2):
            process.answer()
        process.kill()
    with writer(tape, session=other_session("session-2"), is_fresh=True) as process:
        process.send([journal.Heartbeat(AT), *exchange_of("after", list(requests.values())[-1])])
        process.acknowledged()
        until(lambda: None not in outcomes_of(tape).values())
        process.end()
    stored = requests_of(tape)
    assert stored.pop("after") == list(requests.values())[-1]
    assert stored.items() <= requests.items()
    assert len(stored) >= kept_count // 3


def test_a_full_tape_deletes_its_oldest_turns(tape: Path) -> None:
    requests = numbered(turns(40, new=6000))
    with opened(tape) as store:
        store_all(store, requests)
        with store.connection.begin():
            limit = retention.size(store.connection).used * 2 // 3
        limits = retention.TapeLimits(size=limit)
        assert sum(retention.enforce(store.connection, limits, SYSTEM)) > 0
        with store.connection.begin():
            assert retention.size(store.connection).used <= limit
    remaining = requests_of(tape)
    assert remaining.items() <= requests.items()
