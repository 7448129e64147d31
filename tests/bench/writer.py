"""CPU time that a writer process takes for each recorded chunk: this checkout, or several side by side.

    python tests/bench/writer.py [CHECKOUT ...] [--streams 40] [--chunks 250] [--rate 2500] [--rounds 3]
    python tests/bench/writer.py --full-speed SECONDS

Sends the same journal frames, at the same pace, to the writer of each checkout in turn, so that all see the same
machine. Counted is the time from the writer's being ready until the last stream is stored and measured, divided by the
chunks. Needs Linux. Nothing is asserted.

`--full-speed` has 10 clients ask this checkout's recorder for short answers as fast as they can, stops it at once at
the end, and prints the rates of the first and the last 10 s, how long the stop took, and what is not on the tape or not
measured.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench import rig  # noqa: E402
from tests.bench.clients import Plan  # noqa: E402
from tests.bench.core import chat, timed  # noqa: E402
from wiretape.recorder.relay import link  # noqa: E402
from wiretape.recorder.tape import journal, lock  # noqa: E402

GATHERED = 20
"""Chunks that come while a relay gathers frames."""
AT = "2026-03-01T12:00:00.000000Z"
SESSION = journal.Session("bench", "0", os.getpid(), None, "http://127.0.0.1:8377", [("", "https://api.test")], AT)
BODY = b'{"model":"gpt-test","stream":true,"messages":[{"role":"user","content":"Say a long sentence."}]}'
REQUEST = [
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer sk-0123456789abcdef"),
    (b"accept", b"*/*"),
]
RESPONSE = [(b"content-type", b"text/event-stream"), (b"x-request-id", b"req_0123456789"), (b"server", b"bench")]


def frames(streams: int, chunks: int) -> Iterator[journal.Frame]:
    """Yield the frames of streams that all run at the same time."""
    reads, body = timed(chat(chunks))
    pieces = [body[read.start : read.start + read.size] for read in reads]
    ids = [f"{number:016x}" for number in range(streams)]
    sha256 = hashlib.sha256(BODY).hexdigest()
    for id in ids:
        yield journal.Begin(
            id=id,
            started_at=AT,
            method="POST",
            path="/v1/chat/completions",
            upstream="https://api.test",
            headers=REQUEST,
            body=BODY,
            body_size=len(BODY),
            body_sha256=sha256,
            labels={"run": "a"},
        )
        yield journal.Head(
            id=id,
            status=200,
            headers=RESPONSE,
            framing="chunked",
            connected_ns=1_000_000,
            sent_ns=2_000_000,
            headers_ns=200_000_000,
        )
    for part, piece in zip(reads, pieces, strict=True):
        columns = [part.at_ns], [part.at_ns + 40_000], [part.size]
        for few in (ids[start : start + GATHERED] for start in range(0, streams, GATHERED)):
            yield journal.SocketReads([journal.ReadRun(id, part.seq, *columns) for id in few], piece * len(few))
    for id in ids:
        end_ns = reads[-1].at_ns + 1_000_000
        yield journal.End(
            id=id, ended_by="end", end_ns=end_ns, connected_ns=1_000_000, sent_ns=2_000_000, bytes=len(body)
        )


def cpu_ns(process: subprocess.Popen[bytes]) -> int:
    """Return the CPU time that the threads of a process have taken so far, in ns, as Linux counts it."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))


def started(tape: Path, environment: dict[str, str]) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """Start a writer, and return its process and a connection to it."""
    claimed = lock.claim(tape)
    assert isinstance(claimed, lock.Claim)
    with contextlib.closing(claimed), link.listen(tape) as listener, socket.socket(socket.AF_UNIX) as connection:
        claimed.name("a benchmark (pid 0)", Path(listener.getsockname()))
        descriptors = claimed.descriptor, listener.fileno()
        command = [
            sys.executable,
            "-P",
            "-m",
            "wiretape.recorder.tape.writer",
            *map(str, descriptors),
            str(tape),
            "a benchmark",
        ]
        process = subprocess.Popen(command, pass_fds=descriptors, env=environment)
        connection.connect(listener.getsockname())
        return process, connection.dup()


def measure(checkout: Path, sent: Sequence[bytes], streams: int, rate: float) -> int:
    """Return the CPU time, in ns, of a checkout's writer from its being ready until all streams are measured."""
    with tempfile.TemporaryDirectory() as directory:
        process, connection = started(
            Path(directory) / "tape.db", os.environ | {"PYTHONPATH": str(checkout / ".package")}
        )
        with process, connection, connection.makefile("rb") as answers:
            connection.sendall(journal.encode(0, SESSION))
            answers.readline()
            cpu_before = cpu_ns(process)
            sender = threading.Thread(target=send, args=(connection, sent, rate / GATHERED))
            sender.start()
            finished = 0
            while finished < streams:
                # As JSON: of another checkout, the records may have other fields.
                finished += len(json.loads(answers.readline()).get("finished", ()))
            cpu_used = cpu_ns(process) - cpu_before
            sender.join()
            connection.shutdown(socket.SHUT_WR)
    return cpu_used


def send(connection: socket.socket, sent: Sequence[bytes], rate: float) -> None:
    """Write frames at a pace, those of 10 ms at a time."""
    started = time.monotonic()
    step = max(int(rate / 100), 1)
    for start in range(0, len(sent), step):
        time.sleep(max(started + start / rate - time.monotonic(), 0))
        connection.sendall(b"".join(sent[start : start + step]))


def run_at_full_speed(seconds: int) -> None:
    """Print what a recorder does with short requests at full speed, and with a stop at their end."""
    with rig.rigged() as (directory, upstream):
        program = rig.wiretape()(rig.Site(directory, upstream.port(), None, True))
        assert program.process is not None
        assert program.tape is not None
        tried = _asked(program.port, 0, 500)
        count = tried + _asked(program.port, tried, int(500 * seconds / _tried_seconds(program.tape)))
        started = time.monotonic()
        program.process.send_signal(signal.SIGINT)
        code = program.process.wait(600)
        took_s = time.monotonic() - started
        print((directory / "log").read_text().splitlines()[-4:])
        with sqlite3.connect(program.tape) as tape:
            (stored,), (measured,) = (
                tape.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("exchanges", "measures")
            )
            by_second = tape.execute(
                "SELECT count(*) FROM exchanges WHERE no > ? GROUP BY substr(started_at, 1, 19) ORDER BY started_at",
                (tried,),
            ).fetchall()
    rates = [rate for (rate,) in by_second[1:-1]]  # the first and the last second are not whole
    early, late = statistics.mean(rates[:10]), statistics.mean(rates[-10:])
    print(f"{count:,} requests in {len(rates)} s: {early:.0f}/s at first, {late:.0f}/s at last ({late / early:.2f})")
    print(f"stopped after {took_s:.1f} s with {code}: {count - stored} not stored, {stored - measured} not measured")


def _asked(port: int, first: int, requests: int) -> int:
    """Have 10 clients ask so often each; return how many answers came."""
    plan = Plan(
        port=port, first=first, clients=10, requests=requests, repeat=1, chunks=0, gap_us=0, pause_ms=0, is_kept=True
    )
    return int(rig.run_clients(plan, lambda: None, lambda: None, lambda: None)["payloads"])


def _tried_seconds(path: Path) -> float:
    """Return the time from the first to the last exchange on a tape, once all are stored."""
    time.sleep(1)
    with sqlite3.connect(path) as tape:
        days = "(max(julianday(started_at)) - min(julianday(started_at)))"
        return float(tape.execute(f"SELECT {days} * 86400 FROM exchanges").fetchone()[0])


def main() -> None:
    """Print the CPU time per chunk for each checkout: the median of the rounds, and the least."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--chunks", type=int, default=250)
    parser.add_argument("--rate", type=float, default=2500, help="chunks a second, of all streams together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full-speed", type=int, metavar="SECONDS", help="short requests for so long, then a stop")
    options = parser.parse_args()
    if options.full_speed:
        run_at_full_speed(options.full_speed)
        return
    sent = [journal.encode(seq, frame) for seq, frame in enumerate(frames(options.streams, options.chunks), 1)]
    count = options.streams * options.chunks
    times_by_checkout: dict[Path, list[float]] = {checkout: [] for checkout in options.checkouts}
    for _ in range(options.rounds):
        for checkout, figures in times_by_checkout.items():
            figures.append(measure(checkout, sent, options.streams, options.rate) / count / 1000)
    base = statistics.median(times_by_checkout[options.checkouts[0]])
    for checkout, figures in times_by_checkout.items():
        median = statistics.median(figures)
        print(f"{checkout}: {median:.1f} µs a chunk ({min(figures):.1f} at least), {median / base:.2f} of the first")


if __name__ == "__main__":
    main()
