"""How fast a tape is analysed: `stats`, `ls`, `show`, `export` and `db check` of a synthetic tape, each a new process.

    python tests/bench/analysis.py [--exchanges 20000] [--chunks 500] [--seed 1] [--tape FILE] [--rounds 3] [--pandas]

Makes the tape unless FILE exists. Prints the least CPU time of the rounds, user and system with all processes below
the command, the best wall time, the rate and the peak memory.
With `--pandas`, `stats` is compared with the same figures that pandas makes of one row per chunk, which `export`
decodes from the bodies: that takes minutes. Nothing is asserted but that the figures agree.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PERCENTS = (50, 90, 95, 99)


def measured(command: Sequence[str], out: Path | None = None) -> tuple[float, float, float]:
    """Run a command of wiretape; give its CPU time and its wall time in seconds, and its peak memory in MiB.

    Were there processes below it, the peak would be that of the largest.
    """
    with open(out or os.devnull, "wb") as file:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "wiretape.viewer.cli", *command], stdout=file, stderr=subprocess.PIPE
        )
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    assert process.returncode == 0, process.stderr.read()
    process.stderr.close()
    return usage.ru_utime + usage.ru_stime, took_s, usage.ru_maxrss / 1024


def report(name: str, command: Sequence[str], rounds: int, count: int = 0) -> None:
    """Print the best of some rounds; `count` rows in all give a rate."""
    results = [measured(command) for _ in range(rounds)]
    cpu, took_s, memory = (
        choose(column) for choose, column in zip((min, min, max), zip(*results, strict=True), strict=True)
    )
    rate = f"{count / took_s:>12,.0f} rows/s" if count else ""
    print(f"{name:<28} {cpu:8.2f} s of CPU {took_s:8.2f} s {memory:7.0f} MiB {rate}", flush=True)


def make(tape: Path, exchanges: int, chunks: int, seed: int) -> None:
    """Make the tape and print how fast that was."""
    arguments = ("--exchanges", str(exchanges), "--chunks", str(chunks), "--seed", str(seed))
    _, took_s, memory = measured(("db", "fixture", "--db", str(tape), *arguments))
    (count,) = sqlite3.connect(tape).execute("SELECT sum(chunks) FROM measures").fetchone()
    print(f"{'db fixture':<28} {took_s:8.2f} s {memory:7.0f} MiB {count / took_s:>12,.0f} chunks/s")


def commands(tape: Path, rounds: int) -> None:
    """Time the commands."""
    connection = sqlite3.connect(tape)
    exchanges, gaps, chunks = connection.execute(
        "SELECT count(*), sum(length(icl)) / 8, sum(chunks) FROM exchanges LEFT JOIN measures ON exchange_no = no"
    ).fetchone()
    connection.close()
    size = tape.stat().st_size / (1 << 20)
    print(f"{exchanges:,} exchanges, {chunks:,} chunks, {gaps:,} gaps between output chunks, {size:,.0f} MiB")
    at = ("--db", str(tape))
    report("stats", ("stats", *at), rounds)
    report("stats --by model", ("stats", "--by", "model", *at), rounds)
    report("stats --hist icl", ("stats", "--hist", "icl", *at), rounds)
    report("stats --as vllm", ("stats", "--as", "vllm", *at), rounds)
    report("--version", ("--version",), rounds)
    report("--help", ("--help",), rounds)
    report("ls -n 20", ("ls", "-n", "20", *at), rounds)
    report("ls --by conversation -n 20", ("ls", "--by", "conversation", "-n", "20", *at), rounds)
    report("show @", ("show", "@", *at), rounds)
    report("ls", ("ls", *at), rounds, exchanges)
    report("db check", ("db", "check", *at), rounds, exchanges)
    report("export -n 1", ("export", "-n", "1", *at), rounds)  # what starting takes, of any export
    report("export --table exchanges", ("export", *at), rounds, exchanges)
    report("export --table chunks", ("export", "--table", "chunks", *at), rounds, chunks)


def compared(tape: Path) -> None:
    """Compare the figures of `stats` with those of plain pandas over one row per chunk."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as directory:
        out, rows = Path(directory) / "stats.json", Path(directory) / "chunks.csv"
        measured(("stats", "--format", "json", "--db", str(tape)), out)
        measured(("export", "--table", "chunks", "-f", "outcome:complete", "--raw-csv", "--db", str(tape)), rows)
        (ours,) = json.loads(out.read_text())
        frame = pd.read_csv(rows, usecols=["id", "seq", "at_ms", "output"], dtype={"id": "category"})
    outputs = frame[frame["output"]].drop_duplicates(["id", "seq"])
    gaps = outputs.groupby("id", observed=True)["at_ms"].diff().dropna()
    first_at = outputs.groupby("id", observed=True)["at_ms"].first()
    for name, series in (("icl", gaps), ("gap", gaps[gaps > 0]), ("ttft", first_at)):
        theirs = {"n": len(series), "mean": series.mean(), "std": series.std(ddof=0), "max": series.max()}
        theirs |= {f"p{percent}": series.quantile(percent / 100) for percent in PERCENTS}
        for statistic, value in theirs.items():
            field = f"{name}_{statistic}" + ("" if statistic == "n" else "_ms")
            assert abs(ours[field] - value) <= 1e-5 * max(abs(value), 1), (field, ours[field], value)
        print(f"{name:<10} agrees with pandas: {', '.join(f'{key} {value:,.6g}' for key, value in theirs.items())}")


def main() -> None:
    """Read the options, make the tape and time the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tape", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pandas", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        tape = options.tape or Path(directory) / "bench.db"
        if not tape.exists():
            make(tape, options.exchanges, options.chunks, options.seed)
        commands(tape, options.rounds)
        if options.pandas:
            compared(tape)


if __name__ == "__main__":
    main()
