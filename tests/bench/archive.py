"""What shipping to an archive costs: exchanges per second of CPU time, and memory.

    python tests/bench/archive.py [--exchanges 20000] [--chunks 470]

A synthetic tape is archived by a process of its own: what the same process takes that finds nothing to do (Python,
wiretape and pyarrow, which it loads) is apart. All exchanges are of past days, so that their files are also merged.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench.ship import MEMORY_MIB, RATE, cost  # noqa: E402
from wiretape.recorder.demo import synthetic  # noqa: E402
from wiretape.recorder.tape import file  # noqa: E402


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("exchanges", 20_000), ("chunks", 470)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        tape = Path(name, "tape.db")
        with file.writing(tape, "a benchmark") as connection:
            for _ in synthetic.fill(connection, given.exchanges, given.chunks, seed=1):
                pass
        for what, more in (("", ()), (" with --bodies", ("--bodies",))):
            to = f"parquet:{name}/archive{len(more)}"
            busy, memory = cost(tape, to, *more)
            idle, least = cost(tape, to, *more)
            print(
                f"{given.exchanges:,} exchanges of up to {given.chunks} chunks{what}: "
                f"{given.exchanges / (busy - idle):,.0f} a second of CPU, {memory / 1024:.0f} MiB, "
                f"{least / 1024:.0f} with nothing to do (to be {RATE:,} and {MEMORY_MIB} without bodies)"
            )


if __name__ == "__main__":
    main()
