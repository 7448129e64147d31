"""How quick and how exact the inspector is: opening, seeking and stepping in 100,000 events, and playing for a minute.

Run as `python -m tests.bench.replay [SECONDS]`; nothing is asserted. Playing goes on in a pseudo-terminal that is read
by this program, everything else in Textual's headless one. The machine should have nothing else to do.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import pty
import random
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.store import Store
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.inspector.screen import InspectorScreen

EVENTS = 100_000
SECONDS = 60
ROUNDS = 100
MS = 1_000_000
ID = "beac000000000001"


def write(path: Path, at_ms: list[float]) -> None:
    """Write a tape with one stream, an event to a read at these ms."""
    chunk = '{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":%s}]}'
    words = ("the ", "scheduler ", "keeps ", "two ", "queues: ", "one ", "for ", "prefill ")
    bodies = [f"data: {chunk % json.dumps({'content': words[seq % 8]})}\n\n".encode() for seq in range(len(at_ms))]
    frames: list[journal.Frame] = [
        journal.Begin(
            id=ID,
            started_at="2026-01-01T00:00:00.000000Z",
            method="POST",
            path="/v1/chat/completions",
            upstream="http://a",
            headers=[],
            body=b"{}",
            body_size=2,
            body_sha256=hashlib.sha256(b"{}").hexdigest(),
            labels={},
        ),
        journal.Head(
            id=ID,
            status=200,
            headers=[(b"content-type", b"text/event-stream")],
            framing="chunked",
            connected_ns=0,
            sent_ns=0,
            headers_ns=MS,
        ),
    ]
    at_ns = [int(at * MS) for at in at_ms]
    run = journal.ReadRun(ID, 0, at_ns, [at + 50_000 for at in at_ns], [*map(len, bodies)])
    frames.append(journal.SocketReads([run], b"".join(bodies)))
    frames.append(
        journal.End(id=ID, ended_by="end", end_ns=at_ns[-1] + MS, connected_ns=0, sent_ns=0, bytes=sum(run.sizes))
    )
    session = journal.Session(
        "bench", "0", 1, None, "http://127.0.0.1", [("", "http://a")], "2026-01-01T00:00:00.000000Z"
    )
    with file.writing(path, "a benchmark") as connection:
        store = Store(connection)
        store.begin_session(session)
        store.settle(store.append(frames))


async def look(path: Path) -> None:
    """Print how long opening, seeking and stepping take, and what it costs in memory."""
    app = ViewerApp(path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(1.0)
        screen = InspectorScreen(1)
        lags: list[float] = []
        probe = asyncio.create_task(_probe(lags))
        began = time.perf_counter()
        await app.push_screen(screen)
        while screen.panes.replay.virtual_size.height < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        print(f"open: first screen {1000 * (time.perf_counter() - began):,.0f} ms", end=", ")
        while not screen.is_open:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        print(f"decoded {1000 * (time.perf_counter() - began):,.0f} ms, longest lag {1000 * max(lags):.0f} ms")
        probe.cancel()
        await pilot.pause(1.0)
        draw = random.Random(1)
        print("seek:", await _timed(app, lambda: screen.go_to(f"{draw.random():.2%}")))
        print("step:", await _timed(app, lambda: screen.action_step(1)))


async def _timed(app: ViewerApp, command: Callable[[], Any]) -> str:
    """Time a command and the drawing that follows from it."""
    took = []
    for _ in range(ROUNDS):
        await asyncio.sleep(0.02)
        began = time.perf_counter()
        command()
        await asyncio.sleep(0)
        app.screen._on_timer_update()  # noqa: SLF001 - what Textual does at the next tick
        took.append(1000 * (time.perf_counter() - began))
    took.sort()
    return f"p50 {took[ROUNDS // 2]:.1f} ms, p95 {took[ROUNDS * 95 // 100]:.1f} ms, max {took[-1]:.1f} ms"


async def _probe(lags: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append(time.perf_counter() - began - 0.005)


class TimedScreen(InspectorScreen):
    """Plays its stream from the start, writes how late its events came, and leaves."""

    result = Path()

    def on_mount(self) -> None:
        """Begin."""
        self.run_worker(self._watch())

    async def _watch(self) -> None:
        while not self.is_open:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)
        self.action_top()
        playback, advance = self.playback, self.playback.advance
        late: list[int] = []

        def timed(at_most: int | None = None) -> int:
            deadline = playback.deadline()
            came = advance(at_most)
            if came and deadline is not None:
                late.append(time.monotonic_ns() - deadline)
            return came

        playback.advance = timed  # type: ignore[method-assign]
        began = time.monotonic_ns()
        self.action_play()
        while self.playback.playing:  # noqa: ASYNC110
            await asyncio.sleep(0.0005)
        drift = time.monotonic_ns() - began - self.playback.end_ns
        memory = _memory()
        self.result.write_text(json.dumps({"late": late, "drift": drift, "memory": memory}))
        self.app.exit(0)


def _memory() -> float:
    """Give the memory of this process in MB."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def play(path: Path, result: Path) -> None:
    """Play the stream of a tape in this terminal."""
    TimedScreen.result = result
    ViewerApp(path, first_screen=lambda: TimedScreen(1)).run()


def replay(path: Path, result: Path) -> None:
    """Play a tape in a pseudo-terminal, and print how exact that was and how many bytes it drew."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    command = [sys.executable, "-m", "tests.bench.replay", "--play", str(path), str(result)]
    environment = os.environ | {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment)
    drawn = [0]

    def drain() -> None:
        while True:
            try:
                drawn[0] += len(os.read(outer, 1 << 16))
            except OSError:
                return

    threading.Thread(target=drain, daemon=True).start()
    process.wait()
    found = json.loads(result.read_text())
    late = sorted(found["late"])
    figures = (late[len(late) // 2], late[len(late) * 95 // 100], late[len(late) * 99 // 100], late[-1])
    print(
        "replay: late p50 {:.2f}, p95 {:.2f}, p99 {:.2f}, max {:.2f} ms".format(*(ns / MS for ns in figures)), end=", "
    )
    print(
        f"drift {found['drift'] / MS:.2f} ms, {drawn[0] / len(late):,.0f} bytes drawn an event ({len(late):,} moments)"
    )


def main() -> None:
    """Measure everything."""
    if sys.argv[1:2] == ["--play"]:  # the program in the terminal
        play(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        large, minute = Path(folder) / "large.db", Path(folder) / "minute.db"
        write(large, [400.0 + 5 * seq for seq in range(EVENTS)])
        asyncio.run(look(large))
        at = [100.0]
        while at[-1] < 1000 * seconds:
            at.append(at[-1] + draw.lognormvariate(3.0, 0.6))
        write(minute, at)
        replay(minute, Path(folder) / "late.json")


if __name__ == "__main__":
    main()
