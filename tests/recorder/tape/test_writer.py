import base64
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from sqlalchemy import select

from tests.support.frames import (
    AT,
    SESSION,
    STREAM,
    begin,
    bodies_of,
    body,
    damage,
    end,
    exchange,
    head,
    opened,
    other_session,
    outcomes_of,
    read,
    reading,
    record,
    snapshot,
    until,
)  # fmt: skip
from tests.support.writers import PROGRAM, WriterProcess, loading, seeds, writer
from wiretape.recorder.tape import file as tapefile
from wiretape.recorder.tape import journal, lock, losses
from wiretape.recorder.tape.losses import Began, Relayed, Unstored
from wiretape.recorder.tape.schema import exchanges, sessions
from wiretape.recorder.tape.window import WINDOW_BYTES, WINDOW_FRAMES

FROZEN = f"""{PROGRAM}
with tapefile.writing(tape, sys.argv[4], claimed=claimed) as connection:
    writer.Writer(Store(connection), tape, relays, Clock(now=lambda: 0)).run()
"""
"""A writer for which no time passes: it commits for other reasons, or at the end of file."""

FULL_DISK = f"""{PROGRAM}
import signal
writer.RETRY_SECONDS = 0.02
with tapefile.writing(tape, sys.argv[4], claimed=claimed) as connection:
    driver = connection.connection.dbapi_connection
    limit = lambda pages: driver.execute(f"PRAGMA max_page_count={{pages}}")
    limit(driver.execute("PRAGMA page_count").fetchone()[0] + 8)
    signal.signal(signal.SIGUSR1, lambda *_: limit(1_000_000))
    writer.Writer(Store(connection), tape, relays).run()
"""
"""A writer whose disk is full after a few pages, until it gets SIGUSR1."""

LEAPING = f"""{PROGRAM}
import signal
ahead = []
signal.signal(signal.SIGUSR1, lambda *_: ahead.append(60_000_000_000))
with tapefile.writing(tape, sys.argv[4], claimed=claimed) as connection:
    writer.Writer(Store(connection), tape, relays, Clock(now=lambda: SYSTEM.now() + sum(ahead))).run()
"""
"""A writer whose clock leaps by a minute at SIGUSR1."""

HURRIED = f"""{PROGRAM}
import itertools
minutes = itertools.count(0, 60_000_000_000)
with tapefile.writing(tape, sys.argv[4], claimed=claimed) as connection:
    writer.Writer(Store(connection), tape, relays, Clock(now=lambda: next(minutes))).run()
"""
"""A writer for which a minute passes between any two looks at the clock, as if it was stopped meanwhile."""

RELAY = """
import asyncio, os, socket, sys
from pathlib import Path
from wiretape.recorder.relay import link
from wiretape.recorder.tape import journal
from tests.support.frames import SESSION, begin, head, read
async def main():
    writer = await link.reach(Path(sys.argv[1]), "wiretape record (pid 1)")
    first = b"".join(journal.encode(seq, frame) for seq, frame in enumerate([SESSION, begin("e1"), head("e1")]))
    writer.sink.write(first)
    while isinstance(answer := journal.decode_answer(await writer.answers.readline()), journal.Loading):
        pass
    assert isinstance(answer, journal.Ready)
    print(writer.pid, flush=True)
    connection = socket.socket(fileno=os.dup(writer.sink.get_extra_info("socket").fileno()))
    connection.setblocking(True)
    for seq in range(100_000):
        connection.sendall(journal.encode(3 + seq, read("e1", seq, 4_000_000 + seq, None, b"%08d" % seq)))
        os.write(1, b"%08d" % seq)
asyncio.run(main())
"""
"""A relay: starts a writer, and notes each read after it was sent."""


def test_frames_sent_while_the_writer_loads_outlive_their_relay(tape: Path, tmp_path: Path) -> None:
    pieces, loaded = [b"." * (1 << 20)] * 8, tmp_path / "loaded"  # more than any socket holds
    with writer(tape, code=loading(loaded), is_fresh=True) as started:
        started.connection.settimeout(60)
        started.send([begin("e1"), head("e1"), *body("e1", pieces)])
        started.leave()
        loaded.touch()
        assert started.process.wait(60) == 0
    assert bodies_of(tape) == {"e1": b"".join(pieces)}
    with opened(tape) as store:  # a slow machine leaves measuring to the next writer
        store.settle(store.settling.unsettled())
    assert outcomes_of(tape) == {"e1": "interrupted"}


@contextmanager
def connected(process: WriterProcess) -> Iterator[WriterProcess]:
    """Connect to a writer from this process."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(process.place))
        yield WriterProcess(process.process, connection)


def test_frames_are_committed_and_acknowledged_by_themselves(tape: Path) -> None:
    with writer(tape, is_fresh=True) as process:
        ready = process.answer()
        assert ready == journal.Ready(str(tape), [])
        process.send([begin("e1"), head("e1")])
        process.acknowledged()
        process.send(body("e1", STREAM))
        process.acknowledged()
        assert bodies_of(tape) == {"e1": b"".join(STREAM)}
        process.send([end("e1", STREAM)])
        process.acknowledged()
        ack = process.answer()
        assert isinstance(ack, journal.Ack)
        assert [(exchange.id, exchange.outcome) for exchange in ack.finished] == [("e1", "complete")]
        process.send([journal.Close(AT)])
        process.acknowledged()
        assert process.end() == 0
    assert {path.name for path in tape.parent.iterdir()} == {"tape.db", "tape.db.lock"}
    assert outcomes_of(tape) == {"e1": "complete"}


@pytest.mark.parametrize("size", [1, WINDOW_BYTES // 4 + 1])
def test_a_batch_is_committed_when_it_is_large(tape: Path, size: int) -> None:
    count = WINDOW_FRAMES - 1 if size == 1 else 4
    with writer(tape, code=FROZEN) as process:
        process.answer()
        process.send([begin("e1"), *body("e1", [b"x" * size] * count)])
        first_answer = process.answer()
        assert isinstance(first_answer, journal.Ack)
        assert first_answer.seq >= count  # the last read's bytes may be on their way yet
        process.send([begin("e2")])
        assert process.end() == 0
        assert process.answer() == journal.Ack(process.seq - 1, [])
    assert outcomes_of(tape) == dict.fromkeys(("e1", "e2"), "interrupted")


def test_a_relay_that_reconnects_early_keeps_its_exchanges(tape: Path) -> None:
    session = msgspec.structs.replace(SESSION, pid=os.getpid())
    hello = [journal.Relay("wiretape record (pid 1)", running_ids=["e1"]), session]
    with writer(tape, code=LEAPING) as process, connected(process) as old, connected(process) as new:
        process.answer()
        old.send([*hello, begin("e1")])
        old.acknowledged()
        new.send(hello)
        assert isinstance(new.answer(), journal.Ready)
        old.leave()
        while old.connection.recv(100):
            pass
        process.process.send_signal(signal.SIGUSR1)
        for _ in range(2):
            new.send([journal.Heartbeat(AT)])
            new.acknowledged()
        new.send(exchange("e1")[1:])
        new.acknowledged()
        new.leave()
        assert process.end() == 0
    assert outcomes_of(tape) == {"e1": "complete"}


def test_a_client_without_a_session_ends_no_writer(tape: Path) -> None:
    with writer(tape, has_guest=True) as process:
        assert isinstance(process.answer(), journal.Ready)
        process.send(exchange("e1"))
        process.acknowledged()
        assert process.end() == 0
    assert outcomes_of(tape) == {"e1": "complete"}


def test_a_connected_relay_is_served_though_all_others_leave(tape: Path) -> None:
    with writer(tape) as process, connected(process) as silent, connected(process) as final:
        process.answer()
        final.send([journal.Relay("wiretape record (pid 2)"), other_session("s2")])
        assert isinstance(final.answer(), journal.Ready)  # connections are taken in order: so is the silent one
        for leaving in (final, process):
            leaving.send([journal.Close(AT)])
            leaving.leave()
            while leaving.connection.recv(100):
                pass
        silent.send([journal.Relay("wiretape record (pid 3)"), SESSION])
        assert isinstance(silent.answer(), journal.Ready)
        silent.leave()
        assert process.end() == 0


def test_a_stopped_writer_still_serves_its_first_relay(tape: Path) -> None:
    with writer(tape, code=HURRIED, has_guest=True) as process:
        assert process.answer() == journal.Ready(str(tape), [])


def test_frames_are_committed_in_groups(tape: Path) -> None:
    with writer(tape) as process:
        process.answer()
        process.send([begin("e1"), *body("e1", [b"x"] * 1500)])
        assert process.acknowledged() < 50


def test_signals_end_no_writer_end_of_file_does(tape: Path) -> None:
    with writer(tape, is_fresh=True) as process:
        process.answer()
        for name in (signal.SIGINT, signal.SIGTERM):
            process.process.send_signal(name)
        process.send(exchange("e1"))
        process.acknowledged()
        assert process.end() == 0
    assert outcomes_of(tape) == {"e1": "complete"}


def test_an_end_without_a_close_interrupts_open_exchanges(tape: Path) -> None:
    with writer(tape, is_fresh=True) as process:
        process.send([*exchange("e1"), begin("e2"), head("e2"), *body("e2", STREAM[:2])])
        cut = journal.encode(99, next(iter(body("e2", STREAM))))[:-1]
        process.connection.sendall(cut)
        assert process.end() == 0
    assert outcomes_of(tape) == {"e1": "complete", "e2": "interrupted"}
    assert bodies_of(tape)["e2"] == b"".join(STREAM[:2])
    with reading(tape) as connection:
        assert connection.execute(select(sessions.c.ended_at)).scalar_one() is None


@pytest.mark.parametrize("seed", seeds(3))
def test_a_killed_relay_leaves_all_it_wrote_stored(tape: Path, seed: int) -> None:
    frame_count = random.Random(seed).randrange(1, 6000)
    with subprocess.Popen((sys.executable, "-c", RELAY, str(tape)), stdout=subprocess.PIPE) as relay:
        assert relay.stdout is not None
        int(relay.stdout.readline())
        noted = relay.stdout.read(8 * frame_count)
        relay.kill()
        noted += relay.stdout.read()
    until(lambda: not lock.holder(tape))  # the writer has ended by itself
    body = bodies_of(tape)["e1"]
    assert body == b"".join(b"%08d" % seq for seq in range(len(body) // 8))
    assert body.startswith(noted)
    assert len(body) <= len(noted) + 8
    assert outcomes_of(tape) == {"e1": "interrupted"}


@pytest.mark.parametrize("seed", seeds(3))
def test_after_a_double_kill_acknowledged_exchanges_are_interrupted(tape: Path, seed: int) -> None:
    chance = random.Random(seed)
    pieces = [chance.randbytes(chance.randrange(1, 2000)) for _ in range(chance.randrange(1, 3000))]
    with writer(tape, is_fresh=True) as process:
        process.answer()
        process.send([begin("e1"), head("e1")])
        process.acknowledged()
        process.send(body("e1", pieces))
        acknowledged = [process.answer() for _ in range(chance.randrange(2))]
        process.kill()
    for ack in acknowledged:
        assert isinstance(ack, journal.Ack)
        assert len(bodies_of(tape)["e1"]) >= len(b"".join(pieces[: ack.seq - 2]))
    assert outcomes_of(tape) == {"e1": None}
    with writer(tape, session=other_session("session-2"), is_fresh=True) as process:
        process.send([journal.Heartbeat(AT)])
        process.answer()
        process.acknowledged()
        until(lambda: outcomes_of(tape) == {"e1": "interrupted"})
        process.end()
    assert b"".join(pieces).startswith(bodies_of(tape)["e1"])


def test_new_ends_are_settled_before_leftovers(tape: Path) -> None:
    slow = [b"data:{}\n\n" * 120_000]
    with opened(tape) as store:
        for number in range(4):
            store.append(exchange(f"left{number}", slow))
    with writer(tape, session=other_session("session-2")) as process:
        process.send(exchange("e1"))
        ids = list[str]()
        while "e1" not in ids:
            answer = process.answer()
            ids += [exchange.id for exchange in answer.finished] if isinstance(answer, journal.Ack) else []
        assert None in outcomes_of(tape).values()


def test_nothing_is_lost_while_the_disk_is_full(tape: Path) -> None:
    noise = random.Random(7).randbytes(100_000)
    with writer(tape, code=FULL_DISK) as process:
        process.answer()
        process.send(exchange("e1", [noise]))
        assert process.answer() == journal.Trouble("database or disk is full")
        assert outcomes_of(tape) == {}
        process.process.send_signal(signal.SIGUSR1)
        assert process.answer() == journal.Trouble("")
        process.acknowledged()
        process.send(exchange("e2", [noise]))
        process.acknowledged()
        process.end()
    assert bodies_of(tape) == dict.fromkeys(("e1", "e2"), noise)


@pytest.mark.damages
@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("PRAGMA application_id=7", 8, "another application's database"),
        ("UPDATE alembic_version SET version_num='9999'", 5, "newer than this wiretape's"),
    ],
)
def test_a_writer_without_permission_fails_in_one_line(
    tape: Path, statement: str, code: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with tapefile.writing(tape, "a test"):
        pass
    with closing(sqlite3.connect(tape)) as connection:
        connection.execute(statement)
        connection.commit()
    files = snapshot(tape.parent)
    with writer(tape, is_fresh=True) as process:
        answer = process.answer()
        assert isinstance(answer, journal.Fatal)
        assert (answer.exit_code, process.end()) == (code, code)
    assert words in answer.message
    assert "\n" not in answer.message
    assert snapshot(tape.parent) == files
    assert capfd.readouterr().err == ""


def test_clients_of_a_written_tape_get_its_socket(tape: Path) -> None:
    with writer(tape) as first:
        assert lock.claim(tape) == first.place  # also before it has opened the tape
        assert isinstance(first.answer(), journal.Ready)
        assert lock.claim(tape) == first.place


@pytest.mark.parametrize("link_kind", ["a hard link", "a removed lock file"])
def test_a_hard_link_lets_no_second_writer_in(tape: Path, link_kind: str) -> None:
    with writer(tape, is_fresh=True) as first:
        assert isinstance(first.answer(), journal.Ready)
        first.send(exchange("e1"))
        first.acknowledged()
        name = tape
        if link_kind == "a hard link":
            name = tape.with_name("link.db")
            name.hardlink_to(tape)
        else:
            lock.lock_of(tape).unlink()
        with writer(name, session=other_session("s2")) as second:
            answer = second.answer()
            assert isinstance(answer, journal.Fatal)
            assert answer.exit_code == 6
            assert "is being written by wiretape record (pid 1)" in answer.message
        first.send(exchange("e2"))
        first.acknowledged()
        assert lock.lock_of(tape).read_text().split("\n")[:2] == ["wiretape record (pid 1)", str(first.process.pid)]
        assert first.end() == 0
    assert outcomes_of(tape) == {"e1": "complete", "e2": "complete"}


def test_a_tape_that_others_may_read_is_warned_of(tape: Path) -> None:
    tape.touch(0o644)
    tape.chmod(0o644)
    with writer(tape) as process:
        answer = process.answer()
        assert isinstance(answer, journal.Ready)
        assert answer.warnings == [f"{tape} may be read by others on this machine: chmod 600 {tape}"]


CANARY = "CANARY/p4ssw0rd+of=the&user"
ENCODED = quote(CANARY, safe="")
BASIC = base64.b64encode(f"user:{CANARY}".encode()).decode()
FORMS = [
    form.encode() for form in (CANARY, ENCODED, ENCODED.lower(), BASIC, base64.b64encode(CANARY.encode()).decode())
]


def assert_no_canary(directory: Path, *, files: set[str]) -> None:
    contents = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert set(contents) >= files
    for name, content in contents.items():
        for form in FORMS:
            assert form not in content, (name, form)


def test_no_credential_ever_reaches_the_disk(tape: Path) -> None:
    secret, basic = CANARY.encode(), b"Basic " + BASIC.encode()
    url = f"https://user:{ENCODED}@api.test/v1"
    sent = [
        (b"Authorization", b"Bearer " + secret), (b"authorization", basic), (b"Proxy-Authorization", basic),
        (b"X-API-Key", secret), (b"api-key", secret), (b"x-goog-api-key", secret), (b"Cookie", b"a=" + secret),
        (b"X-Acme-Token", secret), (b"x-acme-secret-name", secret), (b"referer", f"https://a/?key={ENCODED}".encode()),
    ]  # fmt: skip
    answered = [(b"Set-Cookie", secret), (b"set-cookie", b"b=" + secret), (b"Location", url.encode())]
    query = f"/v1/x?key={ENCODED}&API_KEY={ENCODED}&%74oken={ENCODED}&sig={ENCODED}&sig={ENCODED}&limit=2"
    session = msgspec.structs.replace(SESSION, upstreams=[("", url)])
    frames = [begin("e1", headers=sent, path=query, upstream=url), head("e1", answered), *body("e1", STREAM)]
    with writer(tape, session=session) as process:
        process.send(frames)
        process.answer()
        process.acknowledged()
        assert_no_canary(tape.parent, files={"tape.db", "tape.db-wal", "tape.db-shm", "tape.db.lock"})
        process.kill()
    assert_no_canary(tape.parent, files={"tape.db", "tape.db-wal", "tape.db-shm", "tape.db.lock"})
    with writer(tape, session=session) as process:
        process.send([*frames, end("e1", STREAM)])
        process.answer()
        process.acknowledged()
        assert process.end() == 0
    assert_no_canary(tape.parent, files={"tape.db", "tape.db.lock"})
    with reading(tape) as connection:
        (row,) = connection.execute(select(exchanges)).all()
    marks = dict(row.request_headers)
    assert marks["x-api-key"] == dict(reversed(row.request_headers))["authorization"]
    assert row.path.endswith("&limit=2")
    assert row.upstream.endswith("@api.test/v1")


def test_a_removed_tape_ends_the_writer_with_a_message(tape: Path) -> None:
    with writer(tape, is_fresh=True) as process:
        assert process.answer() == journal.Ready(str(tape), [])
        process.send([begin("e1")])
        process.acknowledged()
        tape.rename(tape.with_name("elsewhere.db"))
        process.send([head("e1")])
        answer = process.answer()
        assert isinstance(answer, journal.Fatal)
        assert answer.final
        assert "removed or replaced" in answer.message
    assert not tape.exists()


def test_a_moved_tape_has_its_rows_in_its_file(tape: Path) -> None:
    moved = tape.with_name("moved.db")
    with writer(tape) as process:
        assert process.answer() == journal.Ready(str(tape), [])
        process.send(exchange("e1"))
        process.acknowledged()
        tape.rename(moved)
        process.send([begin("e2")])
        while not isinstance(process.answer(), journal.Fatal):
            pass
        process.end()
    for log in ("-wal", "-shm"):
        tape.with_name(tape.name + log).unlink(missing_ok=True)
    assert bodies_of(moved)["e1"] == b"".join(STREAM)


def finished_before(process: WriterProcess, id: str) -> None:
    """Read answers until an exchange is reported as finished."""
    while not any(exchange.id == id for exchange in getattr(process.answer(), "finished", ())):
        pass


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_removed_logs_contents_are_saved_first(tape: Path, suffix: str) -> None:
    sent = [*exchange("e1"), begin("e2"), head("e2"), *body("e2", STREAM[:2])]
    with writer(tape) as process:
        process.answer()
        process.send(sent)
        process.acknowledged()
        finished_before(process, "e1")
        tape.with_name(tape.name + suffix).unlink()
        process.send(list(body("e2", STREAM))[2:3])
        answer = process.answer()
        assert isinstance(answer, journal.Fatal)
        assert not answer.final
        assert f"{suffix} was removed or replaced while it was recorded: its contents are in the tape" in answer.message
        assert process.end() == 1
    with writer(tape, running=["e2"]) as process:
        process.send([*list(body("e2", STREAM))[2:], end("e2", STREAM)])
        process.answer()
        process.acknowledged()
        assert process.lost == []
        process.end()
    assert bodies_of(tape) == dict.fromkeys(("e1", "e2"), b"".join(STREAM))


def test_frames_of_an_unknown_exchange_are_reported(tape: Path) -> None:
    with writer(tape) as process:
        process.answer()
        process.send([head("e1"), *body("e1", STREAM), *exchange("e2")])
        process.acknowledged()
        assert process.lost == [journal.Lost("e1", len(b"".join(STREAM)), is_whole=True)]
        process.send([end("e1", STREAM)])
        process.acknowledged()
        assert process.lost[1:] == [journal.Lost("e1", 0, is_whole=True)]
        process.end()
    assert bodies_of(tape) == {"e2": b"".join(STREAM)}


def test_reads_behind_a_missing_one_are_a_reported_gap(tape: Path) -> None:
    sent = list(body("e1", STREAM))
    with writer(tape) as process:
        process.answer()
        process.send([begin("e1"), head("e1"), sent[0], *sent[2:], end("e1", STREAM)])
        process.acknowledged()
        assert process.lost == [journal.Lost("e1", len(STREAM[2] + STREAM[3]), is_whole=False)]
        process.end()
    with reading(tape) as connection:
        (row,) = connection.execute(select(exchanges.c.bytes, exchanges.c.gap_bytes)).all()
    assert row == (len(b"".join(STREAM)), len(b"".join(STREAM[1:])))


def test_a_huge_model_name_makes_a_short_answer(tape: Path) -> None:
    name = '\0"m' * journal.ANSWER_BYTES  # as an answer, longer than any may be
    request = json.dumps({"model": name}).encode()
    answered = [b"data: " + json.dumps({"object": "chat.completion.chunk", "model": name, "choices": []}).encode()]
    with writer(tape) as process:
        process.answer()
        process.send([begin("e1", body=request), head("e1"), *body("e1", answered), end("e1", answered)])
        process.acknowledged()
        ack = process.answer()
        assert isinstance(ack, journal.Ack)
        assert len(journal.encode_answer(ack)) < 10_000
        assert ack.finished[0].model is not None
        assert ack.finished[0].model.endswith("…")
        process.end()


@pytest.mark.damages
@pytest.mark.parametrize("fault", ["truncated", "overwritten", "changed"])
def test_a_damaged_tape_is_refused_and_stays_unchanged(tape: Path, fault: str) -> None:
    with opened(tape) as store:
        for number in range(50):
            record(store, exchange(f"e{number}"))
    if fault == "truncated":
        os.truncate(tape, tape.stat().st_size - 8192)
    elif fault == "overwritten":
        with tape.open("r+b") as file:
            file.seek(tape.stat().st_size // 2 & ~4095)
            file.write(random.Random(1).randbytes(20_000))
    else:
        damage(tape, "UPDATE bodies SET data=zeroblob(10) WHERE exchange_no=50")
    content = tape.read_bytes()
    with writer(tape) as process:
        answer = process.answer()
        assert isinstance(answer, journal.Fatal)
        assert (answer.exit_code, answer.final) == (3, True)
        assert "is damaged" in answer.message
        assert process.end() == 3
    assert tape.read_bytes() == content


@pytest.mark.damages
def test_a_shortened_tape_ends_the_writer_with_a_message(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e0", [random.Random(1).randbytes(100_000)]))
    with writer(tape) as process:
        process.answer()
        process.send([begin("e1")])
        process.acknowledged()
        os.truncate(tape, 4096)
        process.send([head("e1")])
        answer = process.answer()
        assert isinstance(answer, journal.Fatal)
        assert answer.final
        assert "cut short" in answer.message


def test_the_end_reports_the_sessions_exchanges_on_tape(tape: Path) -> None:
    with opened(tape, other_session("before")) as store:
        record(store, exchange("e0"))
    with writer(tape) as process:
        process.answer()
        process.send([*exchange("e1"), *exchange("e2", [b"cut"]), journal.Close(AT)])
        process.acknowledged()
        process.end()
        while not isinstance(answer := process.answer(), journal.Verified):
            pass
    assert answer == journal.Verified(2, 1, len(b"".join(STREAM)) + 3, [])


def keep_beside(tape: Path, unstored: Unstored) -> None:
    keeper = losses.Keeper(tape)
    keeper.keep(unstored)
    keeper.close(10)


def test_the_next_writer_enters_a_killed_ones_losses(tape: Path) -> None:
    with writer(tape) as process:
        process.answer()
        process.send([begin("e1"), head("e1"), *body("e1", STREAM[:1])])
        process.acknowledged()
        size = len(b"".join(STREAM))
        late = Relayed(
            id="e3",
            bytes=7,
            ended_by="reset",
            began=Began(started_at=AT, method="POST", path="/v1/chat/completions", upstream="https://api.test"),
        )
        keep_beside(
            tape,
            Unstored(
                SESSION.uuid, [Relayed(id="e1", bytes=size, ended_by="end"), Relayed(id="e2", bytes=5), late], 1, 100
            ),
        )
        process.kill()
    with writer(tape, session=other_session("session-2")) as process:
        ready = process.answer()
        assert isinstance(ready, journal.Ready)
        assert ready.warnings == [
            "the recorder before could not store 1 exchange (7 bytes): the tape has their times and sizes only",
            "the recorder before could not store 2 exchanges (105 bytes): the tape lacks them",
        ]
        assert losses.read(tape) == Unstored("session-2")
        process.send([journal.Close(AT)])
        process.acknowledged()
        assert process.end() == 0
    assert not losses.path_of(tape).exists()
    with reading(tape) as connection:
        columns = (exchanges.c.id, exchanges.c.ended_by, exchanges.c.bytes, exchanges.c.gap_bytes)
        row_values = [tuple(row) for row in connection.execute(select(*columns).order_by(exchanges.c.id))]
    assert row_values == [("e1", "end", size, size - len(STREAM[0])), ("e3", "reset", 7, 7)]
    assert outcomes_of(tape)["e3"] == "connect_error"


def test_a_recorders_second_writer_leaves_its_losses_file(tape: Path) -> None:
    unstored = Unstored(SESSION.uuid, [Relayed(id="e1", bytes=500)])
    with writer(tape) as process:
        process.answer()
        process.send([begin("e1")])
        process.acknowledged()
        keep_beside(tape, unstored)
        process.kill()
    with writer(tape, running=["e1"]) as process:
        process.answer()
        assert losses.read(tape) == unstored
        assert outcomes_of(tape) == {"e1": None}
        assert process.end() == 0  # the relay was killed: only its stored data is known
    assert losses.read(tape) == unstored
    with reading(tape) as connection:
        assert connection.execute(select(exchanges.c.gap_bytes)).scalar_one() == 500


def test_a_writer_deletes_past_the_limits_and_reports_it(tape: Path) -> None:
    with opened(tape, other_session("older")) as store:
        record(store, exchange("old"))
    with writer(tape) as process:
        process.send([journal.Keep(age_seconds=60.0), *exchange("new"), begin("running")])
        deleted: list[journal.Answer] = []
        while len(deleted) < 2:
            answer = process.answer()
            deleted += [answer] if isinstance(answer, journal.Deleted) else []
        assert process.end() == 0
    size = sum(map(len, STREAM))
    assert deleted == [journal.Deleted(1, 0, 0, 0), journal.Deleted(1, 1, 0, size)]  # all of them began in March
    assert outcomes_of(tape) == {"running": "interrupted"}


def test_the_last_exchanges_leave_the_tape_within_its_limit(tape: Path) -> None:
    with writer(tape) as process:
        process.send([journal.Keep(size=1), *(frame for number in range(50) for frame in exchange(f"e{number}"))])
        process.send([journal.Close(AT)])
        assert process.end() == 0
    assert outcomes_of(tape) == {}


@pytest.mark.parametrize(("first_number", "is_reported"), [(7, True), (1, False)])
def test_an_announced_deletion_is_reported_if_it_was_committed(
    tape: Path, first_number: int, is_reported: bool
) -> None:
    with opened(tape, other_session("older")) as store:
        record(store, exchange("old"))
    announced = journal.Deleting(first_number, journal.Deleted(3, 2, 1, 50))
    with writer(tape) as process:
        process.send([journal.Keep(size=1 << 30, announced=announced), *exchange("new")])
        process.acknowledged()
        assert process.end() == 0
    assert (announced.deleted in process.answers) == is_reported


def test_an_unstorable_value_costs_its_own_exchange_only(tape: Path) -> None:
    too_late = read("e2", 1, 1 << 63, None, b"y" * 50)
    refused = [begin("e2"), head("e2"), *body("e2", [b"first"]), too_late, end("e2", [b"first", b"y" * 50])]
    with writer(tape, code=FROZEN) as process:
        process.answer()
        process.send([*exchange("e1"), *refused, *exchange("e3"), journal.Close(AT)])
        assert process.end() == 0
        process.acknowledged()
        assert process.lost == [journal.Lost("e2", 55, is_whole=True)]
        (trouble,) = (answer for answer in process.answers if isinstance(answer, journal.Trouble))
        assert trouble.message.startswith("a part of exchange e2 cannot be stored (")
    assert set(bodies_of(tape)) == {"e1", "e3"}


@pytest.mark.damages
def test_a_row_without_its_exchange_is_damage(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1"))
    damage(tape, "DELETE FROM exchanges")
    with writer(tape) as process:
        answer = process.answer()
        assert isinstance(answer, journal.Fatal)
        assert "refers to a row of exchanges that is not there" in answer.message


@pytest.mark.damages
def test_a_dropped_table_ends_the_writer_with_a_message(tape: Path) -> None:
    with writer(tape) as process:
        process.send(exchange("e1"))
        process.acknowledged()
        damage(tape, "DROP TABLE segments")
        process.send(exchange("e2")[:-1])
        while not isinstance(answer := process.answer(), journal.Fatal):
            pass
        assert "no such table: segments" in answer.message
        assert process.process.wait(60) == answer.exit_code
