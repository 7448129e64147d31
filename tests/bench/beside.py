"""That a reader cannot slow a recorder: how late reads are recorded, without one and with a viewer that follows.

    python tests/bench/beside.py [--streams 20] [--chunks 250] [--gap 0.02] [--rounds 3] [--ship]

A scripted upstream sends at instants that it writes down; a recorder in a process of its own relays and records; rounds
without and with `wiretape view -F` on the same tape, in a pseudo-terminal, take turns, so that both see the same
machine; with --ship it is `wiretape ship`, to chdb:DIR. Prints how long after its sending each piece was
recorded to have come. Both run on one machine: its wall clock is what the two have in common, to a microsecond. Nothing
is asserted.
"""

import argparse
import asyncio
import contextlib
import select
import sqlite3
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))


from tests.bench.rig import Site, wait_for, wiretape  # noqa: E402
from tests.bench.upstream import piece  # noqa: E402
from tests.support.terminal import Terminal  # noqa: E402
from wiretape.recorder.clock import SYSTEM  # noqa: E402
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer  # noqa: E402

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
TARGET_MS = 0.2


def body(stream: int, given: argparse.Namespace) -> list[tuple[float, bytes]]:
    """Give the pieces of a stream, each with the delay before it; streams begin at different moments."""
    first_gap = given.gap * (1 + stream / given.streams)
    pieces = [(given.gap if seq else first_gap, piece(stream, seq, 0)) for seq in range(given.chunks)]
    return [*pieces, (given.gap, b"data: [DONE]\n\n")]


async def client(port: int, stream: int) -> None:
    """Take one stream to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/{stream} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
    writer.write(head.encode())
    while await reader.read(65536):
        pass
    writer.close()


@contextlib.contextmanager
def watched(tape: Path) -> Iterator[None]:
    """Have a viewer follow the tape, in a terminal whose process is not the one that sends."""
    command = [sys.executable, __file__, "--watch", str(tape)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        yield
        process.stdin.close()
        assert process.wait(30) == 0, "the viewer ended"


@contextlib.contextmanager
def shipped(tape: Path, to: str) -> Iterator[None]:
    """Have a process ship the tape."""
    command = [sys.executable, "-m", "wiretape.viewer.cli", "ship", "--db", str(tape), "--to", to]
    with subprocess.Popen(command, cwd=ROOT) as process:
        yield
        process.terminate()


def watch(tape: str) -> None:
    """Be that terminal, one that draws nothing, until standard input is closed."""
    command = ["-m", "wiretape.viewer.cli", "view", "--db", tape, "-F"]
    with Terminal(command, 120, 40, is_fresh=True) as terminal:
        terminal.wait_for("exchange")
        print("watching", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            assert terminal.process.poll() is None, "the viewer ended"
            terminal.read(0.1, drawn=False)


def delays(
    tape: Path, asked: Sequence[ReceivedRequest], bodies: Sequence[list[tuple[float, bytes]]], after: int
) -> list[float]:
    """Give for each piece how long after its sending it was recorded to have come, in ms, after exchange `after`."""
    wall_less_now = SYSTEM.wall_ns() - SYSTEM.now()
    sent = {request.target.decode(): [at + wall_less_now for at, _ in request.sent[1:]] for request in asked}
    delays_ns = list[float]()
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT no, path, started_at FROM exchanges WHERE no > ?", (after,)).fetchall()
        for no, path, started_at in rows:
            since = datetime.fromisoformat(started_at) - EPOCH
            began_ns = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
            reads = connection.execute(
                "SELECT start + size, at_ns FROM reads WHERE exchange_no = ? ORDER BY seq", (no,)
            )
            ends, instants = zip(*reads, strict=True)
            stream = int(path.rsplit("/", 1)[1])
            for end, at in zip(accumulate(len(data) for _, data in bodies[stream]), sent[path], strict=False):
                read_number = bisect_right(ends, end - 1)
                delays_ns.append((began_ns + instants[read_number] - at) / 1e6)
    return delays_ns


def newest(tape: Path) -> tuple[int, int]:
    """Give the number of the newest exchange, and how many are not measured yet."""
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        top, count, measured = connection.execute(
            "SELECT coalesce(max(no), 0), count(*), (SELECT count(*) FROM measures) FROM exchanges"
        ).fetchone()
    return int(top), int(count - measured)


async def one_round(tape: Path, port: int, upstream: ScriptedUpstream, given: argparse.Namespace) -> list[float]:
    """Record all streams at once; give the delays of all pieces."""
    newest_before, request_count = newest(tape)[0], len(upstream.requests)
    await asyncio.gather(*(client(port, stream) for stream in range(given.streams)))
    await asyncio.to_thread(wait_for, lambda: newest(tape) == (newest_before + given.streams, 0))
    bodies = [body(stream, given) for stream in range(given.streams)]
    return delays(tape, upstream.requests[request_count:], bodies, newest_before)


async def compare(directory: Path, given: argparse.Namespace) -> None:
    """Start everything, alternate the rounds, print, stop everything."""

    def scene(asked: ReceivedRequest) -> Scene:
        return answer(body(int(asked.target.rsplit(b"/", 1)[1]), given))

    tape = directory / "bench.tape"
    alone, beside = list[float](), list[float]()
    async with ScriptedUpstream(scene) as upstream:
        to = f"chdb:{directory}/engine" if given.ship else None
        recorder = wiretape()(Site(directory, int(upstream.url.rsplit(":", 1)[1])))
        try:
            await one_round(tape, recorder.port, upstream, given)  # what is slow the first time is not what is asked
            for _ in range(given.rounds):
                alone += await one_round(tape, recorder.port, upstream, given)
                with watched(tape) if to is None else shipped(tape, to):
                    beside += await one_round(tape, recorder.port, upstream, given)
        finally:
            await asyncio.to_thread(recorder.stop)
    report(alone, beside, given)


def report(alone: Sequence[float], beside: Sequence[float], given: argparse.Namespace) -> None:
    """Print the figures: from sending to what was recorded, in ms."""
    print(
        f"{given.streams} streams × {given.chunks} chunks, {given.gap * 1000:g} ms apart, {given.rounds} rounds of each"
    )
    spreads = [percentiles(one) for one in (alone, beside)]
    for name, values, spread in zip(
        ("without a reader", "with one that follows"), (alone, beside), spreads, strict=True
    ):
        print(
            f"  {name:<22} p50 {spread[0]:.3f}  p99 {spread[1]:.3f}  max {spread[2]:.3f} ms  ({len(values):,} pieces)"
        )
    more = [later - earlier for earlier, later in zip(*spreads, strict=True)]
    print(f"  {'more with it':<22} p50 {more[0]:+.3f}  p99 {more[1]:+.3f} ms  (to be at most {TARGET_MS} at p99)")


def percentiles(found: Sequence[float]) -> tuple[float, float, float]:
    """Give the median, the 99th percentile and the longest."""
    ordered = sorted(found)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1]


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("--streams", 20), ("--chunks", 250), ("--rounds", 3)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--gap", type=float, default=0.02)
    parser.add_argument("--ship", action="store_true")
    parser.add_argument("--watch")
    options = parser.parse_args()
    if options.watch is not None:
        watch(options.watch)
        return
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(compare(Path(directory), options))


if __name__ == "__main__":
    main()
