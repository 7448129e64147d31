import gc
import hashlib
import os
import random
import tracemalloc
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from tests.support.compressors import zstd
from tests.support.frames import (
    AT,
    SESSION,
    STEP,
    STREAM,
    begin,
    bodies_of,
    body,
    damage,
    end,
    exchange,
    head,
    http2,
    opened,
    other_session,
    outcomes_of,
    reading,
    reads_of,
    record,
    upload,
    websocket,
)  # fmt: skip
from tests.support.rpc import message
from wiretape.recorder.clock import Clock
from wiretape.recorder.decode import allowance
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.metrics import DECODER_VERSION
from wiretape.recorder.tape import checks, column_types, file, journal, merge, retention
from wiretape.recorder.tape import settle as settling
from wiretape.recorder.tape.losses import Began, Relayed, Unstored
from wiretape.recorder.tape.recover import count_missing, recover
from wiretape.recorder.tape.rederive import finished_exchanges, rederive
from wiretape.recorder.tape.schema import (
    FROM_CLIENT,
    bodies,
    exchanges,
    measures,
    segments,
    sessions,
    settlements,
    uploads,
)
from wiretape.recorder.tape.settle import Unsettled, settle
from wiretape.recorder.tape.store import Store


def rows(tape: Path, table: Any) -> list[dict[str, Any]]:
    with reading(tape) as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def test_an_exchange_is_on_the_tape_as_it_was(tape: Path) -> None:
    with opened(tape) as store:
        (finished,) = record(store, exchange("e1"))
    (row,) = rows(tape, exchanges)
    assert row | {
        "id": "e1", "started_at": AT, "method": "POST", "path": "/v1/chat/completions", "upstream": "https://api.test",
        "request_model": "gpt-test", "request_headers": [["content-type", "application/json"]], "request_size": 34,
        "labels": {"run": "a"}, "status": 200, "response_headers": [["content-type", "text/event-stream"]],
        "connected_ns": STEP, "sent_ns": 2 * STEP, "headers_ns": 3 * STEP, "end_ns": 9 * STEP, "ended_by": "end",
        "framing": "chunked", "bytes": len(b"".join(STREAM)), "gap_bytes": 0, "paused": 0, "surplus": False,
    } == row  # fmt: skip
    assert reads_of(tape, "e1") == [
        (seq, (4 + seq) * STEP, (4 + seq) * STEP + 5000, len(b"".join(STREAM[:seq])), len(data))
        for seq, data in enumerate(STREAM)
    ]
    assert finished == journal.Finished(
        "e1", "POST", "/v1/chat/completions", "gpt-test", 200, "complete", None, 4 * STEP, 2 * STEP, 2 * STEP,
        7 * STEP, None, ["no_usage"], "chat",
    )  # fmt: skip


@pytest.mark.parametrize("is_reset", [False, True])
def test_facts_of_http2_are_alike_in_memory_and_stored(tape: Path, is_reset: bool) -> None:
    with opened(tape) as store:
        store.append(http2("e1", is_reset=is_reset))
        (kept,) = store.settling.take(deque([1]), 1, 0)
        (read,) = Store(store.connection).settling.take(deque([1]), 1, 0)
        store.settle([1])
        assert list(rederive(store)) == [False]
    assert kept.exchange == read.exchange
    assert (read.exchange.protocol, read.exchange.reset_code) == ("h2", "rst_cancel" if is_reset else None)


def test_trailers_are_on_the_tape_without_credentials(tape: Path) -> None:
    with opened(tape) as store:
        record(store, http2("e1"))
        (read,) = Store(store.connection).settling.take(deque([1]), 1, 0)
    (status, (name, value)) = read.exchange.headers.trailers
    assert (status, name) == (("grpc-status", "8"), "authorization")
    assert value.startswith("REDACTED:sha256:")
    assert b"c4n4ry" not in tape.read_bytes()


def test_a_calls_status_is_its_outcome_when_derived_again(tape: Path) -> None:
    _, answer, *others = http2("e1", [message(b"\x0a\x01x")])
    answer = msgspec.structs.replace(answer, headers=[(b"content-type", b"application/grpc")])
    with opened(tape) as store:
        record(store, [begin("e1", path="/a.B/C"), answer, *others])
        assert list(rederive(store)) == [False]
    (row,) = rows(tape, measures)
    assert (row["api"], row["outcome"], row["outcome_detail"]) == ("grpc", "error_event", "mid_stream")
    assert (row["error_code"], row["events"]) == ("resource_exhausted", 1)


def test_an_ended_exchange_is_packed_and_measured(tape: Path) -> None:
    with opened(tape) as store:
        frames = exchange("e1", [b"x" * 10_000])
        record(store, frames[:-1])
        assert [len(row["data"]) for row in rows(tape, segments)] == [10_000]
        assert rows(tape, measures) == []
        record(store, frames[-1:])
    (packed,) = rows(tape, bodies)
    assert zlib.decompress(packed["data"]) == b"x" * 10_000
    assert len(packed["data"]) < 100
    assert rows(tape, segments) == []
    assert [row["decoder_version"] for row in rows(tape, measures)] == [DECODER_VERSION]


def test_a_key_in_an_error_stays_in_bodies(tape: Path) -> None:
    key = "sk-proj-c4n4ryc4n4ry"
    body = f'data: {{"error": {{"message": "Incorrect API key provided: {key}.", "code": "{key}"}}}}\n\n'.encode()
    with opened(tape) as store:
        record(store, exchange("e1", [body]))
        assert list(rederive(store)) == [False]
    (measured,) = rows(tape, measures)
    assert (measured["error_code"], measured["error_message"]) == ("REDACTED", "Incorrect API key provided: REDACTED")
    assert bodies_of(tape) == {"e1": body}
    assert key.encode() not in tape.read_bytes()


def test_a_read_sent_twice_is_stored_once(tape: Path) -> None:
    frames = exchange("e1")
    with opened(tape) as store:
        record(store, frames[:4])
        record(store, frames[2:5])
        record(store, frames[3:] + frames[3:])
    assert bodies_of(tape) == {"e1": b"".join(STREAM)}


def test_an_end_sent_again_is_answered_again(tape: Path) -> None:
    with opened(tape) as store:
        first = record(store, exchange("e1"))
    with opened(tape) as store:
        assert record(store, exchange("e1")) == first
    assert len(rows(tape, measures)) == 1


def test_frames_of_an_unknown_exchange_are_passed_over(tape: Path) -> None:
    with opened(tape) as store:
        assert record(store, exchange("e1")[1:]) == []
    assert rows(tape, exchanges) == []


def test_a_failed_batch_leaves_nothing_and_may_be_repeated(tape: Path) -> None:
    noise = random.Random(1).randbytes(200_000)
    with opened(tape) as store:
        record(store, exchange("e1"))
        driver = store.connection.connection
        (pages,) = driver.execute("PRAGMA page_count").fetchone()
        driver.execute(f"PRAGMA max_page_count={pages + 5}")
        frames = [begin("e2"), head("e2"), *body("e2", STREAM), *exchange("e3", [noise])]
        for _ in range(2):
            with pytest.raises(OperationalError, match="full"):
                record(store, frames)
            assert list(bodies_of(tape)) == ["e1"]
        driver.execute("PRAGMA max_page_count=1000000")
        record(store, frames)
        record(store, [end("e2", STREAM)])
    assert bodies_of(tape) == {"e1": b"".join(STREAM), "e2": b"".join(STREAM), "e3": noise}


def test_a_session_has_its_last_sign_and_its_end(tape: Path) -> None:
    with opened(tape) as store:
        record(store, [journal.Heartbeat("2026-03-01T12:00:05.000000Z")])
        (row,) = rows(tape, sessions)
        assert (row["heartbeat_at"], row["ended_at"]) == ("2026-03-01T12:00:05.000000Z", None)
        record(store, [journal.Close("2026-03-01T12:00:09.000000Z")])
    (row,) = rows(tape, sessions)
    assert (row["uuid"], row["pid"], row["started_at"]) == (SESSION.uuid, SESSION.pid, AT)
    assert row["ended_at"] == row["heartbeat_at"] == "2026-03-01T12:00:09.000000Z"


def test_a_returning_recorder_goes_on_and_another_ends_exchanges(tape: Path) -> None:
    frames = exchange("e1")
    with opened(tape) as store:
        record(store, frames[:-2])
    with opened(tape):
        assert outcomes_of(tape) == {"e1": None}
    with opened(tape, other_session("session-2")) as store:
        assert [one.outcome for one in store.settle(store.settling.unsettled())] == ["interrupted"]
        assert store.settling.unsettled() == []
    (row,) = rows(tape, exchanges)
    assert (row["ended_by"], row["bytes"], row["end_ns"]) == ("died", len(b"".join(STREAM[:-1])), 6 * STEP)
    assert len(rows(tape, sessions)) == 2


def test_sessions_of_a_tape_share_one_salt(tape: Path) -> None:
    headers = [(b"authorization", b"Bearer secret"), (b"x-api-key", b"secret")]
    for session in ("session-1", "session-2"):
        with opened(tape, other_session(session)) as store:
            record(store, [begin(session, headers=headers)])
    with opened(tape.with_name("b.db")) as store:
        record(store, [begin("e1", headers=headers)])
    marks = {value for row in rows(tape, exchanges) for _, value in row["request_headers"]}
    assert len(marks) == 1
    ((_, other), _) = rows(tape.with_name("b.db"), exchanges)[0]["request_headers"]
    assert other not in marks


@pytest.mark.parametrize(
    ("request_body", "model"),
    [
        (b'{"model":"m"}', "m"), (b'{"model":"a\\u0000b"}', "a\ufffdb"), (b'{"model":7}', None), (b"[]", None),
        (b'{"model":"\\ud800"}', None), (b'{"model":"\xff"}', None), (b"[" * 100_000, None), (b"", None),
    ],
)  # fmt: skip
def test_the_requested_model_is_read_from_any_body(tape: Path, request_body: bytes, model: str | None) -> None:
    with opened(tape) as store:
        record(store, [begin("e1", body=request_body)])
    assert [(row["request_model"], row["request_body"]) for row in rows(tape, exchanges)] == [(model, request_body)]


def test_the_model_is_read_from_compressed_requests_and_pieces(tape: Path) -> None:
    packed, coding = zstd.compress(b'{"model":"m"}'), [(b"content-encoding", b"zstd")]
    start, *pieces = upload("e2", [packed[:9], packed[9:]])
    with opened(tape) as store:
        record(store, [begin("e1", body=packed, headers=coding), msgspec.structs.replace(start, headers=coding)])
        record(store, pieces)
    assert [(row["request_model"], row["request_body"]) for row in rows(tape, exchanges)] == [("m", packed)] * 2


def test_a_key_in_a_models_place_is_redacted(tape: Path) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"
    paths = [f"/openai/deployments/{name}/chat/completions" for name in (key, "gpt-4o")]
    with opened(tape) as store:
        record(store, [begin(f"e{no}", body=b"{}", path=path) for no, path in enumerate(paths)])
    hidden, plain = (row["request_model"] for row in rows(tape, exchanges))
    assert (hidden.startswith("REDACTED:"), plain) == (True, "gpt-4o")
    assert not any(key.encode() in file.read_bytes() for file in tape.parent.iterdir())


@pytest.mark.parametrize("fault", [ZeroDivisionError, OverflowError])
def test_a_bug_in_the_decoder_costs_no_facts(
    tape: Path, fault: type[Exception], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*facts: Any, **more: Any) -> Any:
        if fault is OverflowError:
            return replace(derive(*facts, **more), input_tokens=1 << 70)  # SQLite cannot hold it
        raise fault

    with opened(tape) as first_store, monkeypatch.context() as patch:
        patch.setattr(settling, "derive", broken)
        (finished,) = record(first_store, exchange("e1"))
    assert finished.outcome == "unmeasured"
    assert fault.__name__ in capfd.readouterr().err
    assert bodies_of(tape) == {"e1": b"".join(STREAM)}
    with reading(tape) as connection:
        assert list(checks.problems(connection)) == [
            "exchange e1: it has ended but has no measures: run 'wiretape db rebuild'"
        ]
    with opened(tape) as second_store:
        assert list(rederive(second_store)) == [True]
    assert outcomes_of(tape) == {"e1": "complete"}


HOSTILE = [
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"\\ud83d\\u0000"}}],',
    b'"usage":{"prompt_tokens":99999999999999999999999,"completion_tokens":1e400,"x\\ud800":{"y":NaN}}}\n\n\xff\xfe',
]


def test_rebuilding_changes_nothing(tape: Path) -> None:
    streams = {"good": STREAM, "cut": STREAM[:2], "nothing": [], "binary": [bytes(range(256))], "hostile": HOSTILE}
    with opened(tape) as store:
        for id, pieces in streams.items():
            record(store, exchange(id, pieces))
        record(store, exchange("open")[:-1])
        rows_before = rows(tape, measures)
        assert len(finished_exchanges(store.connection)) == len(streams)
        assert list(rederive(store)) == [False] * len(streams)
    assert rows(tape, measures) == rows_before


def test_partly_decoded_exchanges_are_derived_again_alike(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "MAX_LINES", 100)
    with opened(tape) as store:
        record(store, exchange("lines", [STREAM[0], b"x\n" * 200, *STREAM]))
        record(store, websocket("frames", [b"\x01\x00" + b"\x00\x00" * 200], [b"\x00\x80...." * 200]))
        rows_before = rows(tape, measures)
        assert ["decode_limit" in row["flags"] for row in rows_before] == [True, True]
        assert list(rederive(store)) == [False, False]
    assert rows(tape, measures) == rows_before


def test_rebuilding_restores_measures_that_were_altered_or_lost(tape: Path) -> None:
    with opened(tape) as store:
        for id in ("e1", "e2", "e3"):
            record(store, exchange(id))
    rows_before = rows(tape, measures)
    damage(
        tape,
        "UPDATE measures SET content = 'forged', ttft_ns = 1 WHERE exchange_no = 1",
        "DELETE FROM measures WHERE exchange_no = 3",
    )
    with opened(tape) as store:
        assert list(rederive(store)) == [True, False, True]
    assert rows(tape, measures) == rows_before


def test_settlements_increase_even_if_the_clock_goes_back(
    tape: Path,
) -> None:
    def numbered() -> list[tuple[str, int]]:
        with reading(tape) as connection:
            columns = (exchanges.c.id, settlements.c.version)
            return [tuple(row) for row in connection.execute(select(*columns).join(settlements).order_by(columns[1]))]

    wall = iter([2_000_000, 9_000_000, 5_000_000, 5_000_000])
    with file.writing(tape, "a test") as connection:
        store = Store(connection, Clock(wall_ns=lambda: next(wall)))
        store.begin_session(SESSION)
        record(store, [*exchange("late")[:-1], *exchange("e1"), *exchange("open")[:-1]])
        record(store, exchange("late")[-1:])
        assert numbered() == [("e1", 2000), ("late", 9000)]
        damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 2")
        assert list(rederive(store)) == [False, True]
        assert numbered() == [("late", 9000), ("e1", 9001)]
        for _ in retention.erase(connection, ["late"]):
            pass
    assert numbered() == [("e1", 9001)]


def test_rebuilding_settles_what_ended_and_was_not_settled(tape: Path) -> None:
    with opened(tape) as store:
        store.append(exchange("e1"))
        assert list(rederive(store)) == [True]
    assert bodies_of(tape) == {"e1": b"".join(STREAM)}
    assert outcomes_of(tape) == {"e1": "complete"}


@pytest.mark.damages
def test_rebuilding_keeps_the_measures_of_a_damaged_body(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1"))
    rows_before = rows(tape, measures)
    damage(tape, "UPDATE bodies SET data = x'00'", "UPDATE measures SET decoder_version = 0")
    with opened(tape) as store:
        assert list(rederive(store)) == [False]
    assert rows(tape, measures) == [rows_before[0] | {"decoder_version": 0}]


REQUEST = [b"a request", b"in", b"pieces"]
PIECES = st.lists(st.binary(min_size=1, max_size=30), max_size=6)
MOVES = st.sampled_from(["next", "next", "next", "commit", "commit", "restart", "fail"])


@settings(max_examples=settings.default.max_examples // 5)  # each is a tape of its own
@given(data=st.data(), streams=st.lists(PIECES, min_size=1, max_size=3))
def test_a_tape_equals_its_model_with_repeated_frames(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, streams: list[list[bytes]]
) -> None:
    """The relay sends frames in any interleaving; after a failure or a restart, it sends all that was not committed."""
    tape = tmp_path_factory.mktemp("model") / "tape.db"
    pending = [[*upload(f"e{no}", REQUEST), *exchange(f"e{no}", pieces)[1:]] for no, pieces in enumerate(streams)]
    pending.append(websocket("ws", streams[0], streams[-1]))
    sent, committed = list[journal.Frame](), 0
    with ExitStack() as stack:
        store = stack.enter_context(opened(tape))
        while any(pending) or committed < len(sent):
            match data.draw(MOVES) if any(pending) else "commit":
                case "next":
                    sent.append(data.draw(st.sampled_from([frames for frames in pending if frames])).pop(0))
                case "commit":
                    start = data.draw(st.integers(0, committed))  # acknowledgements may have been lost
                    record(store, sent[start:])
                    committed = len(sent)
                    assert_model(tape, sent)
                case "fail":
                    store.connection.connection.execute("PRAGMA query_only=ON")
                    with pytest.raises((OperationalError, DBAPIError)):
                        record(store, [*sent[committed:], journal.Heartbeat(AT)])
                    store.connection.connection.execute("PRAGMA query_only=OFF")
                case "restart":
                    stack.pop_all().close()
                    store = stack.enter_context(opened(tape))
        assert list(rederive(store)) == [False] * len(pending)
    with reading(tape) as connection:
        assert list(checks.problems(connection)) == []
    bodies = {f"e{no}": b"".join(pieces) for no, pieces in enumerate(streams)} | {"ws": b"".join(streams[0])}
    assert (bodies_of(tape), bodies_of(tape, FROM_CLIENT)["ws"]) == (bodies, b"".join(streams[-1]))
    assert {row["request_body"] for row in rows(tape, exchanges)} <= {b"".join(REQUEST), b""}


def assert_model(tape: Path, sent: list[journal.Frame]) -> None:
    """The model: per exchange its reads in order and whether it ended."""
    ended_ids = {frame.id for frame in sent if isinstance(frame, journal.End)}
    begun_ids = {frame.id for frame in sent if isinstance(frame, journal.Begin)}
    assert bodies_of(tape) == {
        id: b"".join(
            frame.data
            for frame in sent
            if isinstance(frame, journal.SocketReads) and (frame.runs[0].id, frame.runs[0].is_client) == (id, False)
        )
        for id in begun_ids
    }
    assert {id for id, outcome in outcomes_of(tape).items() if outcome is not None} == ended_ids


def test_ended_exchanges_leave_nothing_in_memory(tape: Path) -> None:
    def grown(name: str) -> int:
        baseline, _ = tracemalloc.get_traced_memory()
        record(store, [frame for number in range(100) for frame in exchange(f"{name}-{number}", [])])
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - baseline

    with opened(tape) as store:
        tracemalloc.start()
        try:
            assert min(grown(name) for name in ("a", "b", "c", "d")) < 100 * 30  # the least to remember one by
        finally:
            tracemalloc.stop()


def read_back(store: Store, numbers: Sequence[int], most_bytes: int = 1 << 20) -> tuple[list[Unsettled], int]:
    """Read exchanges from the tape alone; also return the number of statements."""
    statements: list[str] = []
    second_store = Store(store.connection)
    driver = file.driver_of(store.connection)
    driver.set_trace_callback(statements.append)
    try:
        return second_store.settling.take(deque(numbers), len(numbers), most_bytes), len(statements)
    finally:
        driver.set_trace_callback(None)


def of_all_kinds(id: str) -> list[journal.Frame]:
    """Return frames of exchanges with a stream, an answer in one read, no answer, and one of DashScope."""
    dashscope = begin(f"{id}-aigc", path="/api/v1/services/aigc/text-generation/generation")
    return [
        *exchange(f"{id}-stream"),
        *exchange(f"{id}-whole", [b"{}"]),
        begin(f"{id}-refused"),
        end(f"{id}-refused", [], "connect"),
        *[dashscope, *exchange(dashscope.id)[1:]],
    ]


def test_exchanges_read_back_equal_those_in_memory(tape: Path) -> None:
    with opened(tape) as store:
        numbers = store.append(of_all_kinds("a"))
        frames = exchange("in-pieces")
        for frame in frames[:-1]:
            store.append([frame])
        numbers += store.append(frames[-1:])
        from_tape, _ = read_back(store, numbers)
        in_memory = store.settling.take(deque(numbers), len(numbers), 1 << 20)
    assert [[*exchange.reads] for exchange in from_tape] == [[*exchange.reads] for exchange in in_memory]
    assert [replace(exchange, reads=in_memory[0].reads) for exchange in from_tape] == [
        replace(exchange, reads=in_memory[0].reads) for exchange in in_memory
    ]
    assert len(from_tape) == 5


def test_reading_back_takes_the_same_statements_for_any_count(tape: Path) -> None:
    with opened(tape) as store:
        few = store.append(of_all_kinds("few"))
        many = store.append([frame for number in range(50) for frame in of_all_kinds(f"{number}")])
        assert read_back(store, many)[1] == read_back(store, few)[1]


def test_exchanges_are_taken_in_order_up_to_a_limit(tape: Path) -> None:
    sizes = [300, 500, 0, 400, 200]
    with opened(tape) as store:
        numbers = [no for number, size in enumerate(sizes) for no in store.append(exchange(f"{number}", [b"x" * size]))]
        numbers += store.append(websocket("ws", STREAM, [b"x" * 50]))
        numbers_by_size = {
            most: [exchange.no for exchange in read_back(store, numbers, most)[0]] for most in (0, 300, 301, 1201)
        }
        assert numbers_by_size == {0: numbers[:1], 300: numbers[:1], 301: numbers[:2], 1201: numbers[:5]}
        store.settle(numbers[1:2])  # of the others, the WebSocket alone is not in memory
        mixed = [numbers[5], *numbers[:5]]
        assert [exchange.no for exchange in store.settling.take(deque(mixed), 10, 1 << 20)] == mixed
        mixed_exchanges, _ = read_back(store, mixed)
        assert [(exchange.no, exchange.is_settled) for exchange in mixed_exchanges] == [
            (no, no == numbers[1]) for no in mixed
        ]
        assert [exchange.size for exchange in mixed_exchanges] == [len(b"".join(STREAM)) + 50, *sizes]


@pytest.mark.damages
def test_damage_to_one_exchange_harms_no_other(tape: Path) -> None:
    with opened(tape) as store:
        numbers = store.append([frame for id in ("good", "headers") for frame in exchange(id)])
        for frame in exchange("reads"):
            numbers += store.append([frame])
        store.connection.exec_driver_sql("UPDATE exchanges SET request_headers = '{', bytes = x'00' WHERE no = 2")
        store.connection.exec_driver_sql("UPDATE segments SET at_ns = '[1,' WHERE exchange_no = 3")
        store.connection.commit()
        (good, headers, reads), _ = read_back(store, numbers)
        damage = column_types.damage_of(store.connection)
    assert (damage.columns, damage.exchanges) == (
        {"exchanges.request_headers", "exchanges.bytes"},
        {3: "its reads are damaged"},
    )
    assert (len(good.reads), len(headers.reads), len(reads.reads)) == (4, 4, 0)
    assert (good.request.headers, headers.request.headers) == ([["content-type", "application/json"]], [])
    assert good.body == headers.body == reads.body == b"".join(STREAM)


BEGAN = Began(started_at=AT, method="POST", path="/v1/chat/completions", upstream="https://api.test", boot_ns=77)


def test_the_next_recorder_enters_unstored_exchanges(tape: Path) -> None:
    with opened(tape) as store:
        store.append([begin("e1"), head("e1"), *body("e1", STREAM[:1]), begin("e2"), *exchange("e3"), begin("e4")])
    size = len(b"".join(STREAM))
    relayed = [
        Relayed(
            id="e1",
            bytes=size,
            ended_by="end",
            status=500,
            framing="close",
            end_ns=9 * STEP,
            client_closed_ns=8 * STEP,
            paused=3,
            surplus=True,
        ),
        Relayed(id="e2", bytes=7, status=200, framing="chunked", headers_ns=5 * STEP),
        Relayed(id="e3", bytes=1, ended_by="reset"),
        Relayed(id="e5", bytes=100),
        Relayed(id="e6", bytes=10, ended_by="end"),
        Relayed(
            id="e7",
            bytes=9,
            ended_by="reset",
            status=200,
            framing="chunked",
            headers_ns=5 * STEP,
            end_ns=6 * STEP,
            began=BEGAN,
            protocol="h2",
            reset_code="goaway_internal_error",
        ),
        Relayed(id="e8", bytes=3, framing="websocket", client_bytes=2, began=BEGAN),
    ]
    unstored = Unstored(SESSION.uuid, relayed, unlisted=2, unlisted_bytes=1000)
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        recover(store.appending, [unstored])
        store.begin_session(other_session("session-2"))
        assert count_missing(store.connection, [unstored]) == (4, 1110)
        store.settle(store.settling.unsettled())
    columns = "id, ended_by, status, framing, bytes, gap_bytes, end_ns, client_closed_ns, headers_ns, paused, surplus"
    with reading(tape) as connection:
        rows = connection.exec_driver_sql(f"SELECT {columns} FROM exchanges ORDER BY id").all()
        flags = dict(
            connection.exec_driver_sql("SELECT id, flags FROM measures JOIN exchanges ON exchange_no=no").all()
        )
    assert [tuple(row) for row in rows] == [
        ("e1", "end", 200, "chunked", size, size - len(STREAM[0]), 9 * STEP, 8 * STEP, 3 * STEP, 3, 1),
        ("e2", "died", 200, "chunked", 7, 7, None, None, 5 * STEP, 0, 0),
        ("e3", "end", 200, "chunked", size, 0, (5 + len(STREAM)) * STEP, None, 3 * STEP, 0, 0),
        ("e4", "died", None, None, 0, 0, None, None, None, 0, 0),
        ("e7", "reset", 200, "chunked", 9, 9, 6 * STEP, None, 5 * STEP, 0, 0),
        ("e8", "died", None, "websocket", 3, 3, None, None, None, 0, 0),
    ]
    with reading(tape) as connection:
        columns = "protocol, reset_code, outcome_detail"
        joined = "exchanges JOIN measures ON exchange_no = no WHERE id = 'e7'"
        (relayed,) = connection.exec_driver_sql(f"SELECT {columns} FROM {joined}").all()
    assert tuple(relayed) == ("h2", "goaway_internal_error", "goaway_internal_error")
    assert [id for id, raised in sorted(flags.items()) if "storage_gap" in raised] == ["e1", "e2", "e7", "e8"]
    with reading(tape) as connection:
        assert list(checks.problems(connection)) == []


REQUEST = [b'{"stream":true,', b'"messages":[],', b'"model":"gpt-x"}']


def request_of(tape: Path) -> tuple[Any, ...]:
    (row,) = rows(tape, exchanges)
    assert rows(tape, uploads) == []
    names = ("request_body", "request_size", "request_truncated", "request_model")
    return (*(row[name] for name in names), row["request_sha256"])


def test_a_request_in_pieces_equals_a_whole_one(tape: Path) -> None:
    body = b"".join(REQUEST)
    with opened(tape) as store:
        for frame in upload("e1", REQUEST):
            store.append([frame])
        in_one = upload("e2", REQUEST)
        store.append(in_one)
        store.append([begin("e3", body=body)])
    row_values = [{k: v for k, v in row.items() if k not in ("no", "id")} for row in rows(tape, exchanges)]
    assert row_values[0] == row_values[1] == row_values[2]
    assert [row_values[0][name] for name in ("request_body", "request_size", "request_model")] == [
        body,
        len(body),
        "gpt-x",
    ]


def test_a_prefix_of_a_request_has_the_whole_size(tape: Path) -> None:
    with opened(tape) as store:
        record(store, [*upload("e1", REQUEST[:1], whole=b"".join(REQUEST)), end("e1", [])])
    size, sha256 = len(b"".join(REQUEST)), hashlib.sha256(b"".join(REQUEST)).hexdigest()
    assert request_of(tape) == (REQUEST[0], size, False, None, sha256)
    assert "request_not_stored" in rows(tape, measures)[0]["flags"]


def test_a_dead_recorders_upload_keeps_its_beginning(tape: Path) -> None:
    with opened(tape) as store:
        store.append(upload("e1", REQUEST)[:2])
        assert rows(tape, uploads) == [{"exchange_no": 1, "start": 0, "data": REQUEST[0]}]
        store.append(upload("e1", REQUEST)[:3])
    with opened(tape, other_session("session-2")):
        assert request_of(tape) == (b"".join(REQUEST[:2]), None, True, None, None)


def test_facts_of_connection_and_clock_are_stored(tape: Path) -> None:
    facts = {"connection_reused": True, "clock": "kernel"}
    with opened(tape) as store:
        first_frames = [begin("e1"), msgspec.structs.replace(head("e1"), **facts)]
        store.append(first_frames)
        assert {name: rows(tape, exchanges)[0][name] for name in facts} == facts
        store.append([msgspec.structs.replace(end("e1", []), **facts, clock_error_ns=7)])
    assert rows(tape, exchanges)[0] | facts | {"clock_error_ns": 7} == rows(tape, exchanges)[0]


def test_a_few_free_pages_are_returned_at_a_time(tape: Path) -> None:
    with opened(tape) as store:
        numbers = store.append([frame for k in range(60) for frame in exchange(f"e{k}", [os.urandom(8192)])])
        full = store.size()
        store.settle(numbers)
        with store.connection.begin():
            for table in ("measures", "bodies", "settlements", "exchanges"):
                store.connection.exec_driver_sql(f"DELETE FROM {table}")
        assert store.give_back(10)  # more are left
        assert full - 20 * 4096 <= store.size()
        while store.give_back(50):
            pass
        assert store.size() < full / 3


@pytest.mark.damages
def test_client_bytes_of_a_websocket_share_their_exchanges_fate(tape: Path, tmp_path: Path) -> None:
    sent = [b"\x81\x85mask-one", b"\x88\x80mask"]
    with opened(tape) as store:
        record(store, websocket("ws", STREAM, sent)[:-1])  # its recorder dies
    with opened(tape, other_session("another")) as store:
        store.settle(store.settling.unsettled())
    assert bodies_of(tape, FROM_CLIENT) == {"ws": b"".join(sent)}
    assert [(row["client_bytes"], row["client_gap_bytes"]) for row in rows(tape, exchanges)] == [
        (len(b"".join(sent)), 0)
    ]
    with opened(copy := tmp_path / "copy.db") as store:
        list(merge.copy(store.connection, [tape], merge.plan(store.connection, [tape])))
    assert bodies_of(copy, FROM_CLIENT) == {"ws": b"".join(sent)}
    damage(copy, "UPDATE client_bodies SET sha256 = 'another'")
    with reading(copy) as connection:
        assert [problem for problem in checks.problems(connection) if "what the client sent" in problem]
    with opened(tape) as store:
        assert list(retention.erase(store.connection, ["ws"])) == [1]
    assert rows(tape, FROM_CLIENT.bodies) == []


def test_an_exchange_that_is_queued_twice_is_settled_once(tape: Path) -> None:
    with opened(tape) as store:
        frames = exchange("e1")
        numbers = store.append([*frames, frames[-1]])
        queue = deque([*numbers, *store.append([*exchange("e2"), frames[-1]])])
        finished = store.settling.put([settle(facts) for facts in store.settling.take(queue, 10, 1 << 20)])
        assert [exchange.id for exchange in finished] == ["e1", "e2"]
        assert (list(queue), store.settling.unsettled()) == ([], [])


def test_a_small_body_is_packed_with_a_small_window(tape: Path) -> None:
    with opened(tape) as store:
        for id, pieces in (("e1", [b"a" * 100]), ("e2", [b"b" * 5000])):
            record(store, exchange(id, pieces))
        windows = store.connection.exec_driver_sql("SELECT hex(substr(data, 1, 1)) FROM bodies ORDER BY size")
        assert windows.scalars().all() == ["48", "78"]  # 4 and 32 KiB
    assert bodies_of(tape) == {"e1": b"a" * 100, "e2": b"b" * 5000}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_exchange_in_one_batch_is_stored_packed(tape: Path, is_restarted: bool) -> None:
    with opened(tape) as store:
        settled = store.append(exchange("e1"))
        with reading(tape) as connection:
            assert connection.execute(select(segments.c.exchange_no)).all() == []
            assert connection.execute(select(bodies.c.size)).scalars().all() == [sum(map(len, STREAM))]
        assert store.settling.unsettled() == settled
        for frame in exchange("e2"):
            settled += store.append([frame])
        with reading(tape) as connection:
            assert len(connection.execute(select(segments.c.exchange_no)).all()) == len(STREAM)
        if not is_restarted:
            store.settle(settled)
    with opened(tape) as store:
        assert store.settle(store.settling.unsettled() if is_restarted else []) or not is_restarted
        assert store.settling.unsettled() == []
    assert bodies_of(tape) == dict.fromkeys(("e1", "e2"), b"".join(STREAM))
    with reading(tape) as connection:
        assert connection.execute(select(segments.c.exchange_no)).all() == []
        first_row, second = connection.execute(select(measures).order_by(measures.c.exchange_no)).all()
        assert first_row[1:] == second[1:]
        assert checks.damage(connection, 10) == []
