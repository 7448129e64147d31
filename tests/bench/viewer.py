"""The viewer's speed: `view` in a pseudo-terminal of 120×40, with a person's keys, and beside a recorder of streams.

    python tests/bench/viewer.py [--exchanges 100000] [--chunks 20] [--tape FILE] [--rounds 5] [--presses 100]
                                 [--streams 50] [--gap-ms 50] [--seconds 20] [--parts start,keys,filter,tail,live]
                                 [--beside CHECKOUT]…

Makes the tape unless FILE exists, for each checkout its own; `tail` writes new exchanges to it. Measured from
outside, by part:

    start   from exec to the first rows, and the CPU time until then
    keys    from a key to the cursor's line, and to the last byte of the redraw; bytes and CPU time of a key
    filter  from the last key of a filter to its count
    tail    from a commit to the exchange on the screen
    live    CPU and bytes of the list, of its lanes, and of the inspector that follows a stream, while a recorder
            records streams

`--beside` measures another checkout in the same rounds, in turns, so that both see the same machine. Wall times are
those of the machine: `load` is its load average. Nothing is asserted.
"""

import argparse
import contextlib
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench.clients import Plan  # noqa: E402
from tests.bench.rig import WIRETAPE, Site, cpu_s, rigged, run_clients, wait_for, wiretape  # noqa: E402
from tests.support.sample_tape import COMPLETE_READS, begin, end, response  # noqa: E402
from tests.support.terminal import Screen, Terminal  # noqa: E402
from wiretape.recorder.tape import file, journal  # noqa: E402
from wiretape.recorder.tape.store import Store  # noqa: E402

COLUMNS, ROWS = 120, 40
FILTERS = ("status>=400", "ttft>800ms", "model:gpt-*")
KEYS = {"a line down": "j", "a page down": "\x1b[6~", "end and home": "Gg"}
PREVIEWED_S = 0.2
"""Time without output after which a redraw is complete: the preview comes 0.05 s after the cursor."""
SETTLING_S = 3
"""Time that a viewer has to start, in s."""
LIVE = (("list", "", ()), ("lanes", "v", ()), ("following", "", ("@",)))
"""The screens beside a recorder: name, the key that opens it, and arguments."""
PARTS = ("start", "keys", "filter", "tail", "live")


@dataclass(frozen=True)
class Checkout:
    """A version of wiretape, run by this interpreter with its bytecode, and its figures by their names."""

    path: Path
    tape: Path
    bytecode: Path
    figures: dict[str, list[float]] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The value of PYTHONPATH for this version."""
        return str(self.path / ".package")

    def make_tape(self, exchanges: int, chunks: int) -> None:
        """Make its tape unless that exists."""
        if not self.tape.exists():
            size = ["--exchanges", str(exchanges), "--chunks", str(chunks)]
            command = [sys.executable, "-m", "wiretape.viewer.cli", "db", "fixture", "--db", str(self.tape), *size]
            subprocess.run(command, env=os.environ | {"PYTHONPATH": self.package}, check=True)

    def view(self, *more: str, tape: Path | None = None) -> Terminal:
        """Start the viewer on a tape, by default its own."""
        command = ["-m", "wiretape.viewer.cli", "view", "--db", str(tape or self.tape), *more]
        environment = {"PYTHONPATH": self.package, "PYTHONPYCACHEPREFIX": str(self.bytecode)}
        environment |= {"PYTHONDONTWRITEBYTECODE": ""}  # an installed wiretape has its bytecode
        return Terminal(command, COLUMNS, ROWS, environment, self.path, is_fresh=True)

    def note(self, name: str, figure: float) -> None:
        """Add a figure."""
        self.figures.setdefault(name, []).append(figure)


def report(checkouts: Sequence[Checkout]) -> None:
    """Print the spreads of all figures, those of a name together."""
    for name in checkouts[0].figures:
        for checkout in checkouts:
            ordered = sorted(checkout.figures[name])
            places = {"least": 0, "p50": 50, "p95": 95, "p99": 99, "most": 100}
            spread = {label: ordered[(len(ordered) - 1) * share // 100] for label, share in places.items()}
            text = "".join(f"  {label} {value:8,.1f}" for label, value in spread.items())
            print(f"{name:<42}{text}  {checkout.path.name}")


def newest(tape: Path) -> str:
    """Return the beginning of the newest exchange's id."""
    with contextlib.closing(sqlite3.connect(tape)) as connection:
        (id,) = connection.execute("SELECT id FROM exchanges ORDER BY no DESC LIMIT 1").fetchone()
    return str(id)[:8]


def settled(terminal: Terminal, seconds: float = 0.3) -> float:
    """Read until nothing has come for a while; return the time of the last byte."""
    while terminal.read(seconds):
        pass
    return terminal.came


def started(checkout: Checkout) -> None:
    """Measure from exec to the first rows."""
    first_id = newest(checkout.tape)
    began = time.perf_counter()
    with checkout.view() as terminal:
        terminal.wait_for(first_id)
        checkout.note("exec to first rows, ms", (time.perf_counter() - began) * 1e3)
        checkout.note("exec to first rows, CPU ms", cpu_s([terminal.process.pid]) * 1e3)
        checkout.note("exec to the last byte, ms", (settled(terminal, 1.0) - began) * 1e3)
        checkout.note("exec to the last byte, CPU ms", cpu_s([terminal.process.pid]) * 1e3)
        terminal.press("q")
        checkout.note("q to end, ms", _timed(terminal.ended))


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3


def cursor(screen: Screen) -> str:
    """Return the line of the cursor."""
    return next((line for line in screen.lines if line.startswith("▌")), "")


def pressed(checkout: Checkout, presses: int) -> None:
    """Measure keys that move the cursor, each after the redraw of the one before; then a held key."""
    with checkout.view() as terminal:
        terminal.wait_for(newest(checkout.tape))
        settled(terminal, 1.0)
        for name, keys in KEYS.items():
            for key in [*keys] * (presses // 4) if keys == "Gg" else [keys] * presses:
                _press(checkout, terminal, name, key)
        _hold(checkout, terminal, presses)
        checkout.note("peak memory, MiB", peak(terminal))


def _press(checkout: Checkout, terminal: Terminal, name: str, key: str) -> None:
    cursor_before, size, cpu = cursor(terminal.screen), len(terminal.sent), cpu_s([terminal.process.pid])
    began = time.perf_counter()
    terminal.press(key)
    took_s = terminal.wait_for(lambda screen: cursor(screen) not in ("", cursor_before) and cursor(screen)[4:5] != "…")
    checkout.note(f"{name}: key to the cursor's line, ms", took_s * 1e3)
    checkout.note(f"{name}: key to the last byte, ms", (settled(terminal, PREVIEWED_S) - began) * 1e3)
    checkout.note(f"{name}: bytes", len(terminal.sent) - size)
    checkout.note(f"{name}: CPU ms", (cpu_s([terminal.process.pid]) - cpu) * 1e3)


def _hold(checkout: Checkout, terminal: Terminal, presses: int) -> None:
    size, cpu = len(terminal.sent), cpu_s([terminal.process.pid])
    for _ in range(presses):
        terminal.press("j")
        terminal.read(1 / 30)
        time.sleep(1 / 30)
    settled(terminal, PREVIEWED_S)
    checkout.note("a held key: bytes a line", (len(terminal.sent) - size) / presses)
    checkout.note("a held key: CPU ms a line", (cpu_s([terminal.process.pid]) - cpu) * 1e3 / presses)


def filtered(checkout: Checkout) -> None:
    """Measure from the last key of a filter to its count."""
    with checkout.view() as terminal:
        terminal.wait_for(newest(checkout.tape))
        settled(terminal)
        for text in FILTERS:
            terminal.press("/")
            settled(terminal)
            terminal.press(text)
            checkout.note(f"filter {text}, ms", terminal.wait_for(lambda screen: " / " in screen.lines[1][40:]) * 1e3)
            terminal.press("\x15\r")
            settled(terminal)


def tailed(checkout: Checkout, count: int) -> None:
    """Measure from a commit to the exchange on the screen."""
    session = journal.Session("bench", "0", 1, None, "http://127.0.0.1:8377", [], "2026-03-01T12:00:00.000000Z")
    run = secrets.token_hex(7)  # in each run another: else an id may stand on the screen before it is written
    with checkout.view("-F") as terminal, file.writing(checkout.tape, "a benchmark") as connection:
        terminal.wait_for(newest(checkout.tape))
        settled(terminal)
        store = Store(connection)
        store.begin_session(session)
        for number in range(count):
            opening = begin(f"{run[:5]}{number % 4096:03x}{run[5:]}"[:16], number % 60, b"{}")
            time.sleep(0.037)  # so that the poll is met at all of its phases
            store.append([opening, *response(opening.id, COMPLETE_READS), end(opening.id, COMPLETE_READS)])
            checkout.note("commit to painted, ms", terminal.wait_for(opening.id[:8]) * 1e3)


def lived(checkout: Checkout, streams: int, gap_ms: int, seconds: float) -> None:
    """Measure the viewer beside a recorder of live streams."""
    chunks = int((seconds + 3 * SETTLING_S) * 1000 / gap_ms)
    with rigged() as (directory, upstream):
        recorder = wiretape(f"env PYTHONPATH={checkout.package} {WIRETAPE}")(Site(directory, upstream.port()))
        assert recorder.tape is not None
        try:
            for number, (name, key, more) in enumerate(LIVE):
                plan = Plan(port=recorder.port, first=1000 * number, clients=streams, requests=1, repeat=1,
                            chunks=chunks, gap_us=gap_ms * 1000, pause_ms=0, is_kept=False, ca=None)  # fmt: skip
                _watch(checkout, recorder.tape, plan, f"{streams} live streams, {name}", seconds, key, *more)
        finally:
            recorder.stop()


def _watch(checkout: Checkout, tape: Path, plan: Plan, name: str, seconds: float, key: str, *more: str) -> None:
    clients = threading.Thread(target=run_clients, args=(plan, _nothing, _nothing, _nothing))
    clients.start()
    wait_for(lambda: running(tape) == plan.clients)
    with checkout.view(*more, tape=tape) as terminal:
        _read_for(terminal, SETTLING_S)
        terminal.press(key)
        _read_for(terminal, SETTLING_S)
        size, cpu, began = len(terminal.sent), cpu_s([terminal.process.pid]), time.perf_counter()
        _read_for(terminal, seconds)
        took_s = time.perf_counter() - began
        checkout.note(f"{name}, CPU %", (cpu_s([terminal.process.pid]) - cpu) / took_s * 100)
        checkout.note(f"{name}, kB/s", (len(terminal.sent) - size) / took_s / 1e3)
    clients.join()
    wait_for(lambda: running(tape) == 0)


def _nothing() -> None:
    pass


def _read_for(terminal: Terminal, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (remaining_s := until - time.perf_counter()) > 0:
        terminal.read(remaining_s, drawn=False)


def running(tape: Path) -> int:
    """Return the number of running exchanges on a tape."""
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        query = "SELECT (SELECT count(*) FROM exchanges) - (SELECT count(*) FROM measures)"
        return int(connection.execute(query).fetchone()[0])


def peak(terminal: Terminal) -> float:
    """Return the peak memory of the viewer, in MiB."""
    status = Path(f"/proc/{terminal.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def measure(checkouts: Sequence[Checkout], given: argparse.Namespace) -> None:
    """Measure the parts, the checkouts in turns."""
    presses = given.presses // given.rounds
    parts: dict[str, Callable[[Checkout], None]] = {
        "start": started,
        "keys": lambda checkout: pressed(checkout, presses),
        "filter": filtered,
        "tail": lambda checkout: tailed(checkout, presses),
        "live": lambda checkout: lived(checkout, given.streams, given.gap_ms, given.seconds),
    }
    for checkout in checkouts:
        checkout.make_tape(given.exchanges, given.chunks)
        started(replace(checkout, figures={}))  # which writes the bytecode
    for _ in range(given.rounds):
        for part in given.parts.split(","):
            for checkout in checkouts:
                parts[part](checkout)


def main() -> None:
    """Read the options, make the tape, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {"exchanges": 100_000, "chunks": 20, "rounds": 5, "presses": 100, "streams": 50, "gap-ms": 50}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tape", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--beside", type=Path, action="append", default=[], metavar="CHECKOUT")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        tape = options.tape or Path(directory) / "bench.db"
        other_checkouts = [
            Checkout(path, tape.with_suffix(f".{path.name}.db"), Path(directory) / "bytecode")
            for path in options.beside
        ]
        checkouts = [*other_checkouts, Checkout(ROOT, tape, Path(directory) / "bytecode")]
        measure(checkouts, options)
        report(checkouts)
    print(f"load before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
