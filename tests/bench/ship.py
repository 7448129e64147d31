"""Measure cost and lag of shipping to a directory of ClickHouse's engine (pip install chdb).

    python tests/bench/ship.py [--exchanges 20000] [--chunks 470] [--rate 200] [--seconds 20] [--kills 10]

First a process ships a synthetic tape: exchanges per second of its CPU time, the time of its start, its peak memory.
Then a process ships exchanges while they are recorded at a rate: the age of the oldest settled exchange without an
acknowledgement, sampled every 50 ms. Then that process is killed and started again meanwhile: the count of exchanges on
the tape, and in the engine with FINAL and without. Nothing is asserted. `beside.py --ship` measures the load on a
recorder.
"""

import argparse
import contextlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from tests.support.frames import exchange, opened, record  # noqa: E402
from wiretape.recorder.demo import synthetic  # noqa: E402
from wiretape.recorder.tape import file  # noqa: E402
from wiretape.viewer.ship.acknowledged import path_of  # noqa: E402
from wiretape.viewer.wings.clickhouse import address  # noqa: E402
from wiretape.viewer.wings.clickhouse.client import Centre  # noqa: E402

RATE, MEMORY_MIB, LAG_S = 15_000, 64, 2.0
WIRETAPE = [sys.executable, "-m", "wiretape.viewer.cli"]


def cost(tape: Path, to: str, *more: str) -> tuple[float, int]:
    """Ship a tape once; give the CPU seconds of the process, and its most memory in KiB."""
    command = [*WIRETAPE, "ship", "--once", "--db", str(tape), "--to", to, *more]
    done = subprocess.run([sys.executable, "-c", _COST, *command], cwd=ROOT, check=True, capture_output=True, text=True)
    busy, memory = done.stdout.split()
    return float(busy), int(memory)


_COST = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)"""
"""A small process starts it: what a process has before it becomes another program counts as its own."""


def measure_cost(directory: Path, to: str, given: argparse.Namespace) -> None:
    """Ship a synthetic tape, and print what that cost."""
    tape = directory / "cost.db"
    with file.writing(tape, "a benchmark") as connection:
        for _ in synthetic.fill(connection, given.exchanges, given.chunks, seed=1):
            pass
    for name, more in (("", ()), (" with --bodies", ("--bodies",))):
        path_of(tape, address.parse(to).name).unlink(missing_ok=True)
        busy, memory = cost(tape, to, *more)
        idle, _ = cost(tape, to, *more)
        rate = given.exchanges / (busy - idle)
        print(
            f"{given.exchanges:,} exchanges of up to {given.chunks} chunks{name}: {rate:,.0f} a second of CPU, "
            f"{memory / 1024:.0f} MiB (to be {RATE:,} and {MEMORY_MIB} without bodies)"
        )


def recording(tape: Path, rate: int, is_over: threading.Event) -> None:
    """Record exchanges at a rate, as a writer does, some at once."""
    number, due = 0, time.monotonic()
    with opened(tape) as store:
        while not is_over.is_set():
            some = max(rate // 20, 1)
            record(store, [frame for number_ in range(some) for frame in exchange(f"{number + number_:016x}")])
            number, due = number + some, due + some / rate
            time.sleep(max(due - time.monotonic(), 0))


@contextlib.contextmanager
def running(directory: Path, to: str, name: str, rate: int) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Record to a tape and ship it, each in a process of its own."""
    tape = directory / name
    with opened(tape):
        pass
    command = [sys.executable, __file__, "--record", str(tape), "--rate", str(rate)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as recorder,
        shipping(tape, to) as shipper,
    ):
        yield tape, shipper
        assert recorder.stdin is not None
        recorder.stdin.close()
        recorder.wait()
        shipper.send_signal(signal.SIGINT)


def shipping(tape: Path, to: str) -> subprocess.Popen[bytes]:
    """Start a process that ships a tape."""
    return subprocess.Popen([*WIRETAPE, "ship", "--db", str(tape), "--to", to], cwd=ROOT, stderr=subprocess.DEVNULL)


def lag_s(tape: Path, state: Path) -> float:
    """Give how long the oldest exchange has been settled that is not acknowledged."""
    until = msgspec.json.decode(state.read_bytes())["tables"]["exchanges"]["until"] if state.exists() else 0
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        (first_version,) = connection.execute(
            "SELECT min(version) FROM settlements WHERE version > ?", (until,)
        ).fetchone()
    return 0.0 if first_version is None else time.time() - first_version / 1e6


def measure_lag(directory: Path, to: str, given: argparse.Namespace) -> None:
    """Record at a rate and ship; print how late it is."""
    with running(directory, to, "lag.db", given.rate) as (tape, _):
        time.sleep(3)
        lags = []
        for _ in range(round(given.seconds / 0.05)):
            lags.append(lag_s(tape, path_of(tape, address.parse(to).name)))
            time.sleep(0.05)
    lags.sort()
    print(
        f"lag at {given.rate} exchanges/s: median {lags[len(lags) // 2]:.2f} s, p99 "
        f"{lags[len(lags) * 99 // 100]:.2f} s, most {lags[-1]:.2f} s (to be {LAG_S:g})"
    )


def measure_kills(directory: Path, to: str, given: argparse.Namespace) -> None:
    """Kill and start the shipping process again and again; print the count of the engine's exchanges at the end."""
    with running(directory, to, "kills.db", given.rate) as (tape, shipper):
        for _ in range(given.kills):
            time.sleep(1)
            shipper.kill()
            shipper.wait()
            shipper = shipping(tape, to)
        shipper.send_signal(signal.SIGINT)
        shipper.wait()
    cost(tape, to)
    with contextlib.closing(sqlite3.connect(tape)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM exchanges").fetchone()
    with Centre(address.parse(to), address.Credentials()) as centre:
        seen = centre.rows("SELECT count(), uniqExact(id) FROM exchanges FINAL")[0]
        row_count = centre.rows("SELECT count() FROM exchanges")[0]
    print(
        f"{given.kills} times killed: {count:,} exchanges on the tape; under FINAL {int(seen[0]):,}, of them different "
        f"{int(seen[1]):,}; rows {int(row_count[0]):,}"
    )


def main() -> None:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("exchanges", 20_000), ("chunks", 470), ("rate", 200), ("seconds", 20), ("kills", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--record")
    options = parser.parse_args()
    if options.record is not None:
        over = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
        recording(Path(options.record), options.rate, over)
        return
    for measure in (measure_cost, measure_lag, measure_kills):
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name), f"chdb:{name}/engine", options)


if __name__ == "__main__":
    main()
