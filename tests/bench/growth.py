"""Compare the size of agents' requests on a tape, and the writer's CPU time for each exchange.

    python tests/bench/growth.py [CHECKOUT ...] [--turns 60] [--sessions 4] [--new 1400] [--rounds 5]

Each turn of a session repeats the whole conversation. The writer of each checkout is sent the same frames in turn, so
that all see the same machine. The size of requests is the difference to a tape of the same exchanges with requests of
two bytes, in pages in use: keys, indexes and unused room count, too. The new bytes are those of each session's
last request: all of them were new once. Needs Linux. Nothing is asserted.
"""

import argparse
import hashlib
import json
import os
import socket
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench.core import chat, timed  # noqa: E402
from tests.bench.writer import AT, REQUEST, RESPONSE, SESSION, cpu_ns, started  # noqa: E402
from tests.support.agent_session import turns  # noqa: E402
from wiretape.recorder.tape import journal  # noqa: E402

CHUNKS = 60
"""Chunks of each answer."""
TOGETHER = 10
"""Chunks that a frame has."""


def exchange(id: str, body: bytes) -> Iterator[journal.Frame]:
    """Yield the frames of one exchange."""
    sha256 = hashlib.sha256(body).hexdigest()
    yield journal.Begin(
        id=id,
        started_at=AT,
        method="POST",
        path="/v1/chat/completions",
        upstream="https://api.test",
        headers=REQUEST,
        body=body,
        body_size=len(body),
        body_sha256=sha256,
        labels={},
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
    reads, answer = timed(chat(CHUNKS))
    for start in range(0, len(reads), TOGETHER):
        some = reads[start : start + TOGETHER]
        at_ns, sizes = [read.at_ns for read in some], [read.size for read in some]
        run = journal.ReadRun(id, start, at_ns, [at + 40_000 for at in at_ns], sizes)
        yield journal.SocketReads([run], answer[some[0].start : some[-1].start + sizes[-1]])
    end_ns = reads[-1].at_ns + 1_000_000
    yield journal.End(
        id=id, ended_by="end", end_ns=end_ns, connected_ns=1_000_000, sent_ns=2_000_000, bytes=len(answer)
    )


def measure(checkout: Path, bodies: Sequence[bytes]) -> tuple[float, int]:
    """Return the writer's CPU time for each exchange, in µs, and the bytes of the tape's pages in use."""
    with tempfile.TemporaryDirectory() as directory:
        tape = Path(directory) / "tape.db"
        process, connection = started(tape, os.environ | {"PYTHONPATH": str(checkout / ".package")})
        with process, connection, connection.makefile("rb") as answers:
            connection.sendall(journal.encode(0, SESSION))
            answers.readline()
            cpu_before, seq = cpu_ns(process), 1
            for number, body in enumerate(bodies):
                frames = list(exchange(f"{number:016x}", body))
                connection.sendall(b"".join(journal.encode(seq + place, frame) for place, frame in enumerate(frames)))
                seq += len(frames)
                while not json.loads(answers.readline()).get("finished"):
                    pass
            took_us = (cpu_ns(process) - cpu_before) / len(bodies) / 1000
            connection.shutdown(socket.SHUT_WR)
        with closing(sqlite3.connect(tape)) as recording:
            pages, free, size = (
                recording.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
    return took_us, (pages - free) * size


def main() -> None:
    """Print the size of sessions on the tape, without and with marks of caches, and the CPU time for each exchange."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--new", type=int, default=1400, help="bytes that each turn adds")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    count = options.turns * options.sessions
    workloads = {"requests of 2 bytes": [b"{}"] * count}
    for name, marks in (("sessions", False), ("sessions with marks of caches", True)):
        sessions = [turns(options.turns, seed=seed, marks=marks, new=options.new) for seed in range(options.sessions)]
        workloads[name] = [body for together in zip(*sessions, strict=True) for body in together]
    empty: dict[Path, int] = {}
    for name, bodies in workloads.items():
        times_by_checkout: dict[Path, list[tuple[float, int]]] = {checkout: [] for checkout in options.checkouts}
        for _ in range(options.rounds):
            for checkout, times in times_by_checkout.items():
                times.append(measure(checkout, bodies))
        new = sum(map(len, bodies[-options.sessions :]))
        print(f"{name}: {count} requests of {sum(map(len, bodies)):,} bytes, of which {new:,} are new")
        base = statistics.median(time_us for time_us, _ in times_by_checkout[options.checkouts[0]])
        for checkout, times in times_by_checkout.items():
            median = statistics.median(time_us for time_us, _ in times)
            line = f"  {checkout}: {median:.0f} µs an exchange ({median / base:.2f} of the first)"
            if size := times[0][1] - empty.setdefault(checkout, times[0][1]):
                line += f", requests take {size:,} bytes ({size / new:.2f} of the new ones)"
            print(line)


if __name__ == "__main__":
    main()
