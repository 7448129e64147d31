import asyncio
import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import uvloop

from tests.support.frames import BODY, SESSION, STREAM, begin, bodies_of, reading, reads_of, upload
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.relay import recording
from wiretape.recorder.relay.frame_queue import FrameQueue
from wiretape.recorder.relay.recording import ExchangeFrames
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.tape.schema import FROM_CLIENT

HEADERS = [(b"content-type", b"text/event-stream")]


def record(tape: Path, scenario: Callable[[Tap, ExchangeFrames], None], queue_bytes: int = 1 << 20) -> dict[str, Any]:
    """Play a scenario at the times 1000, 1001, … and return the exchange as it is on the tape.

    The writer is stopped meanwhile, so that nothing is acknowledged and the tap's bound is met exactly.
    """
    instants = iter(range(1000, 10_000))

    async def main() -> None:
        tap = Tap(tape, SESSION, "a test", queue_bytes=queue_bytes)
        await tap.start()
        os.kill(tap.pid or 0, signal.SIGSTOP)
        scenario(tap, ExchangeFrames(tap, Clock(now=lambda: next(instants)), "e1"))
        os.kill(tap.pid or 0, signal.SIGCONT)
        assert await tap.close(grace=20) == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    query = "SELECT exchanges.*, outcome, flags FROM exchanges JOIN measures ON exchange_no = no"
    with reading(tape) as connection:
        return dict(connection.exec_driver_sql(query).mappings().one())


def test_timestamps_count_from_just_before_the_request_is_sent(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        assert recording.t0 == 1001
        recording.connected_ns, recording.sent_ns, recording.headers_ns = 10, 20, 30
        recording.put_head(200, HEADERS, "chunked")
        for place, data in enumerate(STREAM):
            recording.put_read(1041 + place, 1051 + place, data)
        recording.end("end", None, 1061)

    row = record(tape, scenario)
    assert [row[name] for name in ("connected_ns", "sent_ns", "headers_ns", "end_ns")] == [10, 20, 30, 60]
    assert [piece[:3] for piece in reads_of(tape, "e1")] == [(seq, 40 + seq, 50 + seq) for seq in range(len(STREAM))]
    assert (row["outcome"], row["bytes"], row["gap_bytes"]) == ("complete", len(b"".join(STREAM)), 0)


def test_an_undelivered_read_has_no_relay_timestamp(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        recording.client_closed_ns = 7
        recording.put_read(1009, None, b"late")
        recording.end("client", "the client \ud800left", 1010, paused=3, surplus=True)

    row = record(tape, scenario)
    assert reads_of(tape, "e1") == [(0, 8, None, 0, 4)]
    assert (row["client_closed_ns"], row["ended_detail"]) == (7, "the client ?left")
    assert (row["paused"], row["surplus"], row["headers_ns"]) == (3, 1, None)


def test_dropped_reads_are_a_counted_gap_after_a_prefix(tape: Path) -> None:
    pieces = [b"%06d" % no * 100 for no in range(50)]
    dropped: list[int] = []

    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        for no, data in enumerate(pieces):
            recording.put_read(2000 + no, 2000 + no, data)
        tap.frames.limit += 100_000
        recording.put_read(3000, 3000, b"there is room again, but a hole would be before it")
        recording.end("end", None, 4000)
        dropped.append(tap.counts.dropped_bytes)

    row = record(tape, scenario, queue_bytes=10_000)
    body = b"".join(pieces) + b"there is room again, but a hole would be before it"
    stored = bodies_of(tape)["e1"]
    assert body.startswith(stored)
    assert 8000 < len(stored) < 10_000
    assert row["bytes"] == len(body)
    assert row["gap_bytes"] == len(body) - len(stored) == dropped[0]
    assert "storage_gap" in row["flags"].split()


def test_a_body_is_stored_up_to_a_bound(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "STORED_BYTES", 10)

    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        for data in (b"12345", b"67890", b"x"):
            recording.put_read(2000, 2000, data)
        recording.end("end", None, 3000)

    row = record(tape, scenario)
    assert bodies_of(tape) == {"e1": b"1234567890"}
    assert (row["bytes"], row["gap_bytes"]) == (11, 1)


def test_a_dropped_request_body_keeps_its_size_and_hash(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        recording.end("refused", None, 3000)

    row = record(tape, scenario, queue_bytes=10)
    assert (row["request_body"], row["request_size"]) == (None, len(BODY))
    assert row["request_sha256"] == hashlib.sha256(BODY).hexdigest()
    assert (row["outcome"], row["flags"]) == ("connect_error", "request_not_stored")


def begin_in_pieces(recording: ExchangeFrames) -> None:
    recording.begin(upload("e1", [])[0])  # type: ignore[arg-type]


def test_a_request_body_is_stored_up_to_a_bound(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "REQUEST_STORED_BYTES", 10)

    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        begin_in_pieces(recording)
        for piece in (b"123456", b"789012", b"345"):
            recording.upload(piece)
        recording.uploaded(is_whole=True)
        recording.end("end", None, 3000)
        assert tap.counts.dropped_bytes == 0

    row = record(tape, scenario)
    assert (row["request_body"], row["request_size"], row["request_truncated"]) == (b"1234567890", 15, 0)
    assert row["request_sha256"] == hashlib.sha256(b"123456789012345").hexdigest()


def test_request_pieces_after_a_dropped_one_are_not_stored(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        begin_in_pieces(recording)
        for piece in (b"1" * 1000, b"2" * 5000, b"3" * 10):
            recording.upload(piece)
        recording.end("client", None, 3000)
        assert tap.counts.dropped_bytes == 5010
        recording.upload(b"too late")
        recording.uploaded(is_whole=True)

    row = record(tape, scenario, queue_bytes=5000)
    assert (row["request_body"], row["request_size"], row["request_truncated"]) == (b"1" * 1000, None, 1)
    assert "request_not_stored" in row["flags"].split()


def test_the_connection_and_the_clock_are_noted(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        recording.sent_ns, recording.headers_ns, recording.connection_reused = 20, 30, True
        recording.clock, recording.clock_error_ns = "kernel", 50
        recording.put_head(200, HEADERS, "chunked")
        recording.end("end", None, 1061)
        fact = recording.relayed()
        assert (fact.connection_reused, fact.clock, fact.clock_error_ns) == (True, "kernel", 50)

    row = record(tape, scenario)
    assert (row["connection_reused"], row["clock"], row["clock_error_ns"], row["connected_ns"]) == (
        1,
        "kernel",
        50,
        None,
    )


def test_a_streams_protocol_trailers_and_error_are_noted(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        recording.sent_ns, recording.headers_ns, recording.protocol = 20, 30, "h2"
        recording.put_head(200, HEADERS, "length")
        trailers = [(b"grpc-status", b"8"), (b"x-api-key", b"sk-proj-c4n4ryc4n4ry")]
        recording.end("reset", None, 1061, trailers=trailers, reset_code="rst_cancel")
        fact = recording.relayed()
        assert (fact.protocol, fact.reset_code) == ("h2", "rst_cancel")

    row = record(tape, scenario)
    assert [row[name] for name in ("protocol", "reset_code", "outcome")] == ["h2", "rst_cancel", "truncated"]
    (status, key) = msgspec.json.decode(row["response_trailers"])
    assert status == ["grpc-status", "8"]
    assert key[0] == "x-api-key"
    assert key[1].startswith("REDACTED:sha256:")
    assert b"c4n4ry" not in tape.read_bytes()


def test_boot_clock_and_wall_clock_are_read_together() -> None:
    clock = Clock(now=lambda: 5, wall_ns=lambda: 0, boot_ns=lambda: 77)
    frames = ExchangeFrames(
        SimpleNamespace(put=lambda _: None, frames=FrameQueue(clock), unstored=SimpleNamespace(follow=lambda _: None)),
        clock,
        "e1",
    )  # type: ignore[arg-type]
    assert frames.boot_ns is None
    frames.start()
    assert (frames.boot_ns, frames.started_at) == (77, "1970-01-01T00:00:00.000000Z")
    frames.begin(msgspec.structs.replace(begin("e1"), boot_ns=frames.boot_ns))
    began = frames.relayed().began
    assert began is not None
    assert began.boot_ns == 77


def test_an_exchange_is_described_again_only_after_progress(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1"))
        first_relayed = recording.relayed()
        assert recording.relayed() is first_relayed
        recording.put_read(recording.t0 + 5, None, b"data")
        second = recording.relayed()
        assert (second.bytes, recording.relayed() is second) == (4, True)
        recording.end("end", None, recording.t0 + 9)
        assert recording.relayed().ended_by == "end"

    assert record(tape, scenario)["bytes"] == 4


def test_a_whole_dropped_exchange_is_counted_at_its_end() -> None:
    counts = SimpleNamespace(dropped_bytes=0, unrecorded=0)
    calls: list[str] = []
    full: Any = SimpleNamespace(
        counts=counts,
        frames=FrameQueue(SYSTEM, limit=-1),
        unstored=SimpleNamespace(
            follow=lambda recorded: calls.append("follow"),
            note_lack=lambda recorded: calls.append("lack"),
            forget=lambda recorded: calls.append("forget"),
        ),
        put=lambda frame: calls.append("put"),
    )
    unstored = ExchangeFrames(full, Clock(now=lambda: 7), "e1")
    unstored.begin(begin("e1"))
    unstored.end("end", None, 9)
    assert (counts.dropped_bytes, counts.unrecorded) == (len(BODY), 1)
    assert calls == ["follow", "lack", "forget"]


def test_client_data_beyond_the_bound_is_only_counted(tape: Path) -> None:
    def scenario(tap: Tap, recording: ExchangeFrames) -> None:
        recording.begin(begin("e1", method="GET", body=b""))
        recording.connected_ns, recording.sent_ns, recording.headers_ns = 10, 20, 30
        recording.put_head(101, [], "websocket")
        client = recording.switch()
        for place, size in enumerate((100, 1 << 20, 10)):
            client.put_read(1041 + place, 1051 + place, bytes(size))
        assert tap.share().lacking
        assert recording.relayed().all_bytes == 110 + (1 << 20)
        recording.end("client", None, 1061)

    row = record(tape, scenario)
    assert (row["client_bytes"], row["client_gap_bytes"], row["gap_bytes"]) == (110 + (1 << 20), 10 + (1 << 20), 0)
    assert "storage_gap" in row["flags"].split()
    assert bodies_of(tape, FROM_CLIENT) == {"e1": bytes(100)}
