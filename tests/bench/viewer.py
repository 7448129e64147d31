"""How quick the viewer is: `view` in a pseudo-terminal, on a large synthetic tape, with a person's keys.

    python tests/bench/viewer.py [--exchanges 100000] [--chunks 20] [--tape FILE] [--rounds 5] [--presses 200]

Makes the tape unless FILE exists; new exchanges are written to it. Prints, from outside, what a person would wait for:
from exec to the first rows, from a key to the lines that it changes, from a commit to the exchange on the screen, from
`q` to the end; and the peak memory of the process. Nothing is asserted.
"""

import argparse
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.sample_tape import COMPLETE_READS, begin, end, response  # noqa: E402
from tests.support.terminal import Screen, Terminal  # noqa: E402
from wiretape.recorder.tape import file, journal  # noqa: E402
from wiretape.recorder.tape.store import Store  # noqa: E402

COLUMNS, ROWS = 120, 40
FILTERS = ("status>=400", "ttft>800ms", "model:gpt-*")


def viewer(tape: Path, *more: str) -> Terminal:
    """Start the viewer on a tape."""
    return Terminal(["-m", "wiretape.viewer.cli", "view", "--db", str(tape), *more], COLUMNS, ROWS, is_fresh=True)


def report(name: str, seconds: Sequence[float]) -> None:
    """Print the spread of some waits."""
    ordered = sorted(seconds)
    middle, high = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    print(f"{name:<36} p50 {middle * 1e3:8.1f}  p95 {high * 1e3:8.1f}  max {ordered[-1] * 1e3:8.1f} ms", flush=True)


def newest(tape: Path) -> str:
    """Give the beginning of the newest exchange's id."""
    connection = sqlite3.connect(tape)
    (id,) = connection.execute("SELECT id FROM exchanges ORDER BY no DESC LIMIT 1").fetchone()
    connection.close()
    return str(id)[:8]


def settled(terminal: Terminal, seconds: float = 0.3) -> None:
    """Read until nothing has come for a while."""
    while terminal.read(seconds):
        pass


def started(tape: Path, rounds: int) -> Iterator[float]:
    """Time from exec to the first rows."""
    first = newest(tape)
    for _ in range(rounds):
        began = time.perf_counter()
        with viewer(tape) as terminal:
            terminal.wait_for(first)
            yield time.perf_counter() - began


def cursor(screen: Screen) -> str:
    """Give the line of the cursor."""
    return next((line for line in screen.lines if line.startswith("▌")), "")


def pressed(terminal: Terminal, keys: Sequence[str]) -> Iterator[float]:
    """Time from each key to the cursor on another line, with its row."""
    for key in keys:
        before = cursor(terminal.screen)
        terminal.press(key)
        yield terminal.wait_for(
            lambda screen, before=before: cursor(screen) not in ("", before) and cursor(screen)[4:5] != "…"
        )
        settled(terminal, 0.08)  # the preview comes after it


def tailed(terminal: Terminal, tape: Path, count: int) -> Iterator[float]:
    """Time from a commit to the exchange on the screen."""
    session = journal.Session("bench", "0", 1, None, "http://127.0.0.1:8377", [], "2026-03-01T12:00:00.000000Z")
    run = secrets.token_hex(7)  # in each run another: else an id may stand on the screen before it is written
    with file.writing(tape, "a benchmark") as connection:
        store = Store(connection)
        store.begin_session(session)
        for number in range(count):
            first = begin(f"{run[:5]}{number % 4096:03x}{run[5:]}"[:16], number % 60, b"{}")
            time.sleep(0.037)  # so that the poll is met at all of its phases
            store.append([first, *response(first.id, COMPLETE_READS), end(first.id, COMPLETE_READS)])
            yield terminal.wait_for(first.id[:8])


def filtered(terminal: Terminal, text: str) -> float:
    """Time from the last key of a filter to its count."""
    terminal.press("/")
    settled(terminal)
    terminal.press(text)
    taken = terminal.wait_for(lambda screen: " / " in screen.lines[1][40:])
    terminal.press("\x15\r")
    settled(terminal)
    return taken


def peak(terminal: Terminal) -> float:
    """Give the peak memory of the viewer, in MiB."""
    status = Path(f"/proc/{terminal.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def measure(tape: Path, rounds: int, presses: int) -> None:
    """Measure everything and print it."""
    report("exec to first rows", list(started(tape, rounds)))
    with viewer(tape) as terminal:
        terminal.wait_for(newest(tape))
        settled(terminal)
        for name, keys in (("a line down", "j"), ("a page down", "\x1b[6~"), ("end and home", "Gg")):
            report(
                f"key to lines, {name}",
                list(pressed(terminal, [*keys] * presses if keys == "Gg" else [keys] * presses)),
            )
        terminal.press("g")
        settled(terminal)
        for text in FILTERS:
            report(f"filter {text}", [filtered(terminal, text)])
        terminal.press("gf")  # to the newest, and stay there
        settled(terminal)
        report("commit to painted", list(tailed(terminal, tape, presses // 4)))
        print(f"{'peak memory':<36} {peak(terminal):8.0f} MiB")
        terminal.press("q")
        report("q to end", [_timed(terminal.ended)])


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main() -> None:
    """Read the options, make the tape and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=100_000)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--tape", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--presses", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        tape = given.tape or Path(directory) / "bench.db"
        if not tape.exists():
            size = ["--exchanges", str(given.exchanges), "--chunks", str(given.chunks)]
            subprocess.run(
                [sys.executable, "-m", "wiretape.viewer.cli", "db", "fixture", "--db", str(tape), *size], check=True
            )
        measure(tape, given.rounds, given.presses)


if __name__ == "__main__":
    main()
