"""Many hosts with clocks that differ ship to a centre that fails: is every exchange there exactly once?

Run as `python -m tests.bench.fleet [--hosts 1000]`. Tapes, shipping and what is kept beside them are real, the centre
is that of the tests, in this process. It has too much to do, takes what is sent and its answer gets lost, and is away
for a round; shippers are killed before and after it has taken a batch. An exchange of each host is derived again after
the host's clock was set back: the newer row has to count.

With `--gaps 50000000`, a real server (`clickhouse-server`) is asked for statistics of so many gaps instead, beside the
statements that only read them and only sort them.
"""

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec

from tests.support.clickhouse import servers
from tests.support.clickhouse.engine import Engine, failed, ship
from tests.support.frames import damage, exchange, other_session, record
from wiretape.recorder.clock import Clock
from wiretape.recorder.destinations import Credentials, Target
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape import file
from wiretape.recorder.tape.store import Store
from wiretape.viewer.ship.clickhouse import setup
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.clickhouse import figures, tables
from wiretape.viewer.source.clickhouse.client import Centre
from wiretape.viewer.source.clickhouse.source import connected

NOW_NS = 1_800_000_000 * 10**9
DAY_NS = 86_400 * 10**9
HOUR_NS = 3600 * 10**9


class FailingEngine(Engine):
    """A centre of which a share of the answers fail, and all of them while it is away."""

    def __init__(self, share: float, chance: random.Random) -> None:
        super().__init__()
        self.share, self.chance, self.is_away = share, chance, False
        self.happened: Counter[str] = Counter()

    def handle(self, request: httpx.Request) -> httpx.Response:
        request.read()
        if self.is_away:
            self.happened["refused"] += 1
            raise httpx.ConnectError("refused")
        if self.chance.random() >= self.share:
            self.happened["answered"] += 1
            return self.answered(request)
        what = self.chance.choice(["too busy", "answer lost", "killed before", "killed after"])
        self.happened[what] += 1
        if what in ("answer lost", "killed after"):
            self.answered(request)
        if what.startswith("killed"):
            raise KeyboardInterrupt
        if what == "answer lost":
            raise httpx.ReadError("cut")
        return failed(500, 252, "Too many parts")


@contextmanager
def written(tape: Path, wall_ns: int) -> Iterator[Store]:
    with file.writing(tape, "a simulation") as connection:
        yield Store(connection, Clock(wall_ns=lambda: wall_ns))


def make(tape: Path, host: int, exchanges: int, wall_ns: int) -> None:
    """Record exchanges by a host's own clock, of which the first is measured wrongly."""
    started_at = Clock().wall(wall_ns)
    with written(tape, wall_ns) as store:
        store.begin_session(other_session(f"host-{host}"))
        for number in range(exchanges):
            begin, *rest = exchange(f"{host:08x}{number:08x}")
            record(store, [msgspec.structs.replace(begin, started_at=started_at), *rest])
    damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 1")


def shipped(tape: Path, engine: FailingEngine, host: int) -> bool:
    """Ship what a tape has; False if the shipper was killed, or gave up."""
    try:
        ship(tape, engine, origin=ShippedLabels(f"host-{host}"))
    except (KeyboardInterrupt, WiretapeError):
        return False
    return True


def ship_all(tapes: list[Path], engine: FailingEngine) -> int:
    """Ship all tapes in rounds, until each shipper has ended well; return how many rounds that took."""
    waiting, rounds = list(enumerate(tapes)), 0
    while waiting:
        engine.is_away = rounds == 1
        engine.chance.shuffle(waiting)
        waiting = [(host, tape) for host, tape in waiting if not shipped(tape, engine, host)]
        rounds += 1
    return rounds


def simulate(hosts: int, exchanges: int, engine: FailingEngine) -> tuple[int, float]:
    """Record and ship all; return how many rounds it took to ship, and the seconds of CPU of that."""
    with tempfile.TemporaryDirectory() as directory:
        empty, tapes = Path(directory, "empty.db"), [Path(directory, f"{n}.db") for n in range(hosts)]
        with written(empty, NOW_NS):
            pass
        clocks = [NOW_NS + engine.chance.randint(-DAY_NS, DAY_NS) for _ in tapes]
        for host, (tape, wall_ns) in enumerate(zip(tapes, clocks, strict=True)):
            shutil.copy(empty, tape)
            make(tape, host, exchanges, wall_ns)
        began = time.process_time()
        rounds = ship_all(tapes, engine)
        seconds = time.process_time() - began
        for tape, wall_ns in zip(tapes, clocks, strict=True):
            with written(tape, wall_ns - HOUR_NS) as store:
                list(store.rebuild())
        began = time.process_time()
        rounds += ship_all(tapes, engine)
    return rounds, seconds + time.process_time() - began


FILL = """INSERT INTO wiretape.exchanges (started, id, row_version, started_at, request_model, outcome, operation,
    ended_by, decoder_version, ttft_ns, duration_ns, output_tokens, gap_hist, icl)
    SELECT toDateTime(1767225600 + number * 20), toString(number), 1, '2026-01-01T00:00:00.000000Z',
    multiIf(number %% 1000 = 0, 'rare', number %% 10 < 6, 'many', number %% 10 < 9, 'some', 'few'), 'complete', 'chat',
    'end', 1, intHash64(number) %% 400000000, intHash64(number) %% 900000000, 500,
    arrayResize([toUInt32(countEqual(gaps, 0)), toUInt32(length(gaps) - countEqual(gaps, 0))], 64),
    arrayMap(i -> if(intHash64(1000 * number + i) %% 100 < 8, 0,
        toInt64(20e6 * exp((intHash64(1000 * number + i + 1) %% 1000003) / 1e6 - 0.5))),
        range(470 + number %% 13)) AS gaps FROM numbers(%d, %d)"""
READ = "SELECT request_model, sum(length(icl)) FROM wiretape.exchanges FINAL GROUP BY request_model"
SORT = READ.replace("sum(length(icl))", "arraySort(groupArrayArray(icl))[1]")


def timed(work: Callable[[], object], times: int = 3) -> float:
    """Return the seconds of the fastest time."""
    found = list[float]()
    for _ in range(times):
        began = time.monotonic()
        work()
        found.append(time.monotonic() - began)
    return min(found)


def ask(gaps: int) -> None:
    """Fill a server with gaps, and print how long statistics by model take there."""
    with tempfile.TemporaryDirectory() as directory, servers.one(Path(directory), 8_000_000_000) as server:
        target = Target((f"http://127.0.0.1:{server.http}",))
        with Centre(target, Credentials("default", servers.PASSWORD)) as centre, connected(centre) as connection:
            setup.prepare(centre, (tables.EXCHANGES,), None, lambda _: None)
            for start in range(0, gaps // 476, 20_000):
                server.query(FILL % (start, min(20_000, gaps // 476 - start)))
            read, sort = timed(lambda: server.query(READ)), timed(lambda: server.query(SORT), 1)
            stats = timed(lambda: figures.groups(connection, ("model",)))
            (every,) = figures.groups(connection)
    print(f"{every.statistics['icl']['n']:,} gaps by model: stats {stats:.2f} s, {stats / read:.1f} times what reading")
    print(f"them takes ({read:.2f} s); only to sort them takes {sort:.2f} s, {sort / read:.1f} times that")


def main() -> None:
    """Print what happened, and fail unless every exchange is there once, in its newest version."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--exchanges", type=int, default=5, help="of each host")
    parser.add_argument("--failing", type=float, default=0.2, help="the share of requests that fail")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gaps", type=int, help="so many gaps to make statistics of on a real server, instead")
    chosen = parser.parse_args()
    if chosen.gaps is not None:
        ask(chosen.gaps)
        return
    engine = FailingEngine(chosen.failing, random.Random(chosen.seed))
    rounds, seconds = simulate(chosen.hosts, chosen.exchanges, engine)
    expected, final = chosen.hosts * chosen.exchanges, engine.final()
    older = sum(row["outcome"] != b"complete" for row in final.values())
    print(f"{chosen.hosts:,} hosts, clocks up to two days apart; {rounds} rounds, {seconds:.0f} s of CPU")
    print(", ".join(f"{count:,} {what}" for what, count in engine.happened.most_common()))
    print(f"exchanges: {expected:,} on tapes, {len(final):,} at the centre, {older:,} of them in an older version")
    print(f"rows before FINAL: {len(engine.rows['exchanges']):,}, of which {expected + chosen.hosts:,} are versions")
    if len(final) != expected or older:
        raise SystemExit("not every exchange is there once, in its newest version")


if __name__ == "__main__":
    main()
