"""Time statistics of many gaps in ClickHouse's engine, beside statements that only read and only sort them.

Run as `python -m tests.bench.fleet [--gaps 50000000]`.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wiretape.viewer.wings.clickhouse import figures, setup, tables
from wiretape.viewer.wings.clickhouse.address import Credentials, parse
from wiretape.viewer.wings.clickhouse.client import Centre
from wiretape.viewer.wings.clickhouse.source import connected

FILL = """INSERT INTO exchanges (started, id, row_version, started_at, request_model, outcome, operation,
    ended_by, decoder_version, ttft_ns, duration_ns, output_tokens, gap_hist, icl)
    SELECT toDateTime(1767225600 + number * 20), toString(number), 1, '2026-01-01T00:00:00.000000Z',
    multiIf(number % 1000 = 0, 'rare', number % 10 < 6, 'many', number % 10 < 9, 'some', 'few'), 'complete', 'chat',
    'end', 1, intHash64(number) % 400000000, intHash64(number) % 900000000, 500,
    arrayResize([toUInt32(countEqual(gaps, 0)), toUInt32(length(gaps) - countEqual(gaps, 0))], 64),
    arrayMap(i -> if(intHash64(1000 * number + i) % 100 < 8, 0,
        toInt64(20e6 * exp((intHash64(1000 * number + i + 1) % 1000003) / 1e6 - 0.5))),
        range(470 + number % 13)) AS gaps FROM numbers({}, {})"""
READ = "SELECT request_model, sum(length(icl)) FROM exchanges FINAL GROUP BY request_model"
SORT = READ.replace("sum(length(icl))", "arraySort(groupArrayArray(icl))[1]")


def timed(work: Callable[[], object], times: int = 3) -> float:
    """Return the seconds of the fastest time."""
    latencies = list[float]()
    for _ in range(times):
        began = time.monotonic()
        work()
        latencies.append(time.monotonic() - began)
    return min(latencies)


def ask(gaps: int) -> None:
    """Fill an engine with gaps, and print how long statistics by model take there."""
    with tempfile.TemporaryDirectory() as directory:
        setup.make_directory(Path(directory))
        target = parse(f"chdb:{directory}")
        with Centre(target, Credentials(), seconds=0) as centre, connected(centre) as connection:
            setup.prepare(centre, (tables.EXCHANGES,), None, lambda _: None)
            for start in range(0, gaps // 476, 20_000):
                centre.execute(FILL.format(start, min(20_000, gaps // 476 - start)))
            read_s, sort = timed(lambda: centre.rows(READ)), timed(lambda: centre.rows(SORT), 1)
            memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            stats = timed(lambda: figures.groups(connection, ("model",)))
            (every,) = figures.groups(connection)
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{every.statistics['icl']['n']:,} gaps by model: stats {stats:.2f} s, {stats / read_s:.1f} times what reading"
    )
    print(f"them takes ({read_s:.2f} s); only to sort them takes {sort:.2f} s, {sort / read_s:.1f} times that")
    print(f"most memory: {memory_before / 1024:,.0f} MiB before, {most / 1024:,.0f} MiB with statistics")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gaps", type=int, default=50_000_000)
    ask(parser.parse_args().gaps)


if __name__ == "__main__":
    main()
