"""How exact a recording is served: recorded, served, recorded again, and compared read by read.

    python -m tests.bench.roundtrip [--streams 50] [--seconds 60] [--rate 20] [--speed0 200000] [--nice -15]

First all streams of the demo, the broken ones included; then as many streams at a time as asked for, each as long,
whose reads end anywhere and of which some come in quick succession; then the reads in a second that `serve --speed 0`
sends. Printed is what differs of the heads, the bytes, the reads and the ends, by how much each timestamp of the second
tape, counted from its request, differs from that of the first, and how that changes over the stream. The machine should
have nothing else to do; its load is printed. Where a recorder that is late finds two writes in one read, a read is
merged: how many writes there were is printed, too.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.rig import prioritize
from wiretape.recorder.decode.exchange import Reads
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.store import Store
from wiretape.viewer.record.rows import Headers
from wiretape.viewer.source.replayed import ReplaySource

MS = 1_000_000
WIRETAPE = (sys.executable, "-m", "wiretape.viewer.cli")
HEADERS = [(b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked")]
_OWN = ("x-wiretape-exchange", "x-wiretape-match", "connection")
"""Headers that are the server's own."""
SHOWN = 5
QUICK = 0.03
"""The share of the reads that come 0.5 to 2 ms after the one before."""


@dataclass(frozen=True)
class Recorded:
    """What a tape has of an exchange that is to be the same on another."""

    request: bytes
    path: str
    outcome: str
    ended_by: str | None
    status: int | None
    headers: Headers
    body: bytes
    reads: Reads
    headers_ns: int | None
    end_ns: int | None

    @property
    def sizes(self) -> list[int]:
        return list(self.reads.size)


COMPARED: dict[str, Callable[[Recorded], object]] = {
    "heads": lambda one: (one.status, one.headers),
    "bytes": lambda one: one.body,
    "reads": lambda one: one.sizes,
    "ends": lambda one: one.ended_by,
    "outcomes": lambda one: one.outcome,
}


def read(tape: Path) -> dict[bytes, Recorded]:
    """Read a tape's exchanges by the bodies of their requests, of which no two may be alike."""
    found = dict[bytes, Recorded]()
    with closing(ReplaySource(tape)) as source:
        heads = source.newer()
        for head, body in zip(heads, source.request_bodies(heads), strict=True):
            answer, request = source.answer(head), body or b""
            facts = answer.exchange
            headers = [(name, value) for name, value in facts.headers.response if name not in _OWN]
            assert request not in found, f"{tape}: two requests are {request[:60]!r}"
            found[request] = Recorded(
                request, head.path, head.outcome, facts.ended_by, head.status, headers, answer.body, answer.reads,
                facts.headers_ns, facts.end_ns,
            )  # fmt: skip
    return found


def write(path: Path, streams: int, seconds: float, rate: float) -> None:
    """Write a tape of streams with random gaps between their reads, which end anywhere in an event."""
    draw = random.Random(1)
    frames: list[journal.Frame] = []
    for number in range(streams):
        id, at_ns = f"{number:016x}", [int(draw.uniform(50, 150) * MS)]
        while at_ns[-1] < seconds * 1e9:
            is_quick = draw.random() < QUICK
            gap_ms = draw.uniform(0.5, 2) if is_quick else draw.lognormvariate(0, 0.8) * 1000 / rate / 1.377
            at_ns.append(at_ns[-1] + int(gap_ms * MS))
        chunk = (
            '{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"%d "}}]}'
        )
        body = b"".join(f"data: {chunk % seq}\n\n".encode() for seq in range(len(at_ns) - 1)) + b"data: [DONE]\n\n"
        cuts = sorted(draw.sample(range(1, len(body)), len(at_ns) - 1))
        sizes = [end - start for start, end in pairwise([0, *cuts, len(body)])]
        request = json.dumps({"model": "m", "number": number}).encode()
        digest = hashlib.sha256(request).hexdigest()
        frames += [
            journal.Begin(
                id=id,
                started_at="2026-01-01T00:00:00.000000Z",
                method="POST",
                path="/v1/chat/completions",
                upstream="http://a",
                headers=[],
                body=request,
                body_size=len(request),
                body_sha256=digest,
                labels={},
            ),
            journal.Head(
                id=id,
                status=200,
                headers=HEADERS,
                framing="chunked",
                connected_ns=0,
                sent_ns=0,
                headers_ns=at_ns[0] - MS,
            ),
            journal.SocketReads([journal.ReadRun(id, 0, at_ns, [at + 50_000 for at in at_ns], sizes)], body),
            journal.End(id=id, ended_by="end", end_ns=at_ns[-1] + MS, connected_ns=0, sent_ns=0, bytes=len(body)),
        ]
    session = journal.Session("s", "0", 1, None, "http://127.0.0.1", [("", "http://a")], "2026-01-01T00:00:00.000000Z")
    with file.writing(path, "a benchmark") as connection:
        store = Store(connection)
        store.begin_session(session)
        store.settle(store.append(frames))


@contextlib.contextmanager
def running(*arguments: object, report: bool = False) -> Iterator[str]:
    """Run a command that prints its base URL, which is given; stop it at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WIRETAPE_")}
    command = [*WIRETAPE, *map(str, arguments)]
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        base = process.stdout.readline().strip()
        if report:
            print(f"{arguments[0]} ready after {time.perf_counter() - began:.2f} s")
        try:
            yield base
        finally:
            process.terminate()
            _, err = process.communicate()
            if report:
                print(err.splitlines()[-1].removeprefix("wiretape: ") if err else "nothing reported", end="")
                print(f"; {sum(map(int, re.findall(r': ([0-9]+) write', err.replace(',', '')))):,} writes in all")


async def ask(base: str, path: str, request: bytes) -> int:
    """Be a client that reads to the end, however it ends; return how many bytes came."""
    parts, got = urlsplit(base), 0
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\ncontent-length: {len(request)}\r\n\r\n"
    )
    writer.write(head.encode() + request)
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 18):
            got += len(data)
    writer.close()
    return got


async def ask_all(base: str, asked: Sequence[Recorded]) -> None:
    """Ask for all at once."""
    await asyncio.gather(*(ask(base, one.path, one.request) for one in asked))


def compare(name: str, first: Path, folder: Path) -> None:
    """Serve a tape, record that on another, and print in what they differ."""
    second = folder / f"{name}.db"
    before = read(first)
    with (
        running("serve", "--db", first, report=True) as served,
        running("record", "--db", second, "--upstream", served, "--listen", ":0") as recorded,
    ):
        time.sleep(1)
        asyncio.run(ask_all(recorded, list(before.values())))
    after = read(second)
    print(f"{name}: {len(before)} exchanges, {sum(len(one.reads) for one in before.values()):,} reads;"
          f" load {os.getloadavg()[0]:.1f}")  # fmt: skip
    pairs = [(one, after[request]) for request, one in before.items() if request in after]
    print(f"  recorded again {len(pairs)}/{len(before)}", end="")
    for what, value in COMPARED.items():
        print(f", same {what} {sum(value(one) == value(other) for one, other in pairs)}/{len(before)}", end="")
    print()
    differing = [
        (pair, [what for what, value in COMPARED.items() if value(pair[0]) != value(pair[1])]) for pair in pairs
    ]
    for (one, other), fields in [found for found in differing if found[1]][:SHOWN]:
        print(f"  differs in {', '.join(fields)}: {one.request[:60]!r} {len(one.reads)} → {len(other.reads)} reads, "
              f"{one.outcome} {one.ended_by} → {other.outcome} {other.ended_by}")  # fmt: skip
    print(f"  merged with the read before: {sum(len(one.reads) - len(other.reads) for one, other in pairs)}")
    matched = [pair for pair in pairs if pair[0].body == pair[1].body]
    late = [differences(one, other) for one, other in matched]
    gaps = [later - before for found in late for before, later in pairwise(found)]
    heads = [(other.headers_ns or 0) - (one.headers_ns or 0) for one, other in matched if one.headers_ns is not None]
    ends = [(other.end_ns or 0) - (one.end_ns or 0) for one, other in matched]
    print(f"  since the request: heads {spread(heads)}")
    print(f"                     reads {spread([one for found in late for one in found])}")
    print(f"                     ends  {spread(ends)}\n  since the read before: {spread(gaps)}")
    print(f"  drift, first tenth to last: {drift(late) / MS:+.3f} ms; slope {slope(matched):+.4f} ms in a minute")


def differences(one: Recorded, other: Recorded) -> list[int]:
    """Return by how much later each read had come, to its last byte, the second time, ns."""
    ends = [*accumulate(other.sizes)]
    there = (other.reads.at_ns[bisect_left(ends, end)] for end in accumulate(one.sizes))
    return [later - at for at, later in zip(one.reads.at_ns, there, strict=True)]


def spread(values: Sequence[int]) -> str:
    """Return the percentiles of differences, without their sign, and their median."""
    found = sorted(map(abs, values))
    if not found:
        return "none"
    places = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
    shown = [f"{name} {found[int((len(found) - 1) * share)] / MS:.3f}" for name, share in places.items()]
    return f"{', '.join(shown)}, max {found[-1] / MS:.3f}, median {sorted(values)[len(values) // 2] / MS:+.3f} ms"


def drift(late: Sequence[Sequence[int]]) -> float:
    """Return the median difference in the last tenth of the streams less that in the first, ns."""
    first, last = list[int](), list[int]()
    for found in late:
        tenth = max(len(found) // 10, 1)
        first += found[:tenth]
        last += found[-tenth:]
    return sorted(last)[len(last) // 2] - sorted(first)[len(first) // 2] if first else 0


def slope(pairs: Sequence[tuple[Recorded, Recorded]]) -> float:
    """Return by how many ms in a minute reads come later and later: the least squares' slope over all of them."""
    at = [at / 60e9 for one, _ in pairs for at in one.reads.at_ns]
    late = [late / MS for one, other in pairs for late in differences(one, other)]
    return statistics.linear_regression(at, late).slope if len(set(at)) > 1 else 0


def fast(chunks: int, folder: Path) -> None:
    """Print how many reads in a second are served without waits."""
    tape = folder / "fast.db"
    write(tape, 1, chunks / 1000, 1000)
    (one,) = read(tape).values()
    with running("serve", "--db", tape, "--speed", 0) as base:
        time.sleep(1)
        for _ in range(3):
            began = time.perf_counter()
            got = asyncio.run(ask(base, one.path, one.request))
            took = time.perf_counter() - began
            reads = len(one.reads)
            print(f"speed 0: {reads:,} reads, {got:,} bytes in {took:.2f} s: {reads / took:,.0f} reads/s")


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--speed0", type=int, default=100_000)
    parser.add_argument("--nice", type=int, default=0, help="of all processes, against others of the machine")
    given = parser.parse_args()
    prioritize(given.nice)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([*WIRETAPE, "demo", "--db", folder / "demo.db"], check=True, capture_output=True)
        compare("demo streams", folder / "demo.db", folder)
        if given.streams:
            write(folder / "many.db", given.streams, given.seconds, given.rate)
            compare("many streams", folder / "many.db", folder)
        if given.speed0:
            fast(given.speed0, folder)


if __name__ == "__main__":
    main()
