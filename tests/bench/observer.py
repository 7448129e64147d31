"""What recording does to what is recorded: the same load direct, through proxies and through wiretape, in one run.

    python tests/bench/observer.py [--full] [--ways direct,nginx,wiretape] [--loads streams-100,…] [--rounds 3]
                                   [--way NAME=COMMAND]… [--mitmproxy DIR] [--patience S] [--retries N] [--nice N]
                                   [--json FILE] [--unpinned]

A load is `KIND-N[-tls][-kept|-new|-h2][@GAP_MS]`:

    streams-N     N streams at once, 4 s long; all together send 5,000 chunks a second, each at most 50, unless @GAP_MS
    burst-N       N short requests at once, 5 times
    sequential-N  one client's N short requests, one after the other; its connection is kept
    exchanges-N   N short requests by 10 clients, as fast as they can

TLS is between the proxy and the upstream, or with `direct` between the client and the upstream. But for `sequential`,
each request has a new client connection. With `-h2`, all are streams of one connection, HTTP/2 from the client to the
upstream; nginx's way is `grpc_pass`, which has an upstream connection for each stream.
`--way before='/path/to/wiretape record --workers 2'` measures another version, or other options, in the same run; there
may be several. `--full` has all loads, all ways, and 5 rounds.

All is on loopback, in processes of their own; the ways take turns, so that all see the same machine. nginx and HAProxy
keep upstream connections where the clients keep theirs. Figures are medians of the rounds; ratios and differences are
medians of those within a round. CPU is counted to the load's end, and until all is settled: written, decoded and
measured. The ways run on one core, the upstream and the clients on another one: `--unpinned`, nginx takes 24 or 36 µs
a chunk, as the scheduler places it, and the ratio says more of that than of wiretape.

`others` is the share of the machine that processes which are not of the benchmark took, and `stolen` what its host
took: with more than a few percent, latencies are theirs. `late` is how late the upstream sent, which is no part of the
latencies; `steady` are those once all streams run. At the end each tape is compared with what was sent.
"""

import argparse
import contextlib
import dataclasses
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import rig
from tests.bench.clients import Plan

SECONDS, RATE, LEAST_GAP_US = 4, 5000, 20_000
QUICK = "sequential-40,sequential-40-tls,burst-100,burst-500,exchanges-400,exchanges-400-kept,streams-100"
FULL = (
    f"{QUICK},sequential-40-new,sequential-40-tls-new,exchanges-400-tls,burst-1000,"
    "streams-1,streams-20,streams-100-tls,streams-100-kept,streams-500,streams-1000,streams-2000"
)
SETTLE_S = 60
MOST_OTHERS = 0.1
Row = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """What the clients do; `plan` lacks the port and the authorities."""

    name: str
    plan: Plan
    is_tls: bool


def parse(name: str) -> Load:
    """Return a load by its name. Raises `argparse.ArgumentTypeError`."""
    match = re.fullmatch(r"(streams|burst|sequential|exchanges)-(\d+)(-tls)?(?:-(kept|new|h2))?(?:@(\d+))?", name)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a load: {name!r}")
    kind, count, tls, connections, gap = match.groups()
    is_http2 = connections == "h2"
    is_kept = connections == "kept" or (connections is None and kind == "sequential")
    n = int(count)
    plan = Plan(
        port=0, first=0, clients=n, requests=1, repeat=1, chunks=0, gap_us=0, pause_ms=0, is_kept=is_kept,
        is_http2=is_http2,
    )  # fmt: skip
    if kind == "streams":
        gap_us = int(gap) * 1000 if gap else max(LEAST_GAP_US, n * 1_000_000 // RATE)
        requests = 2 if is_kept else 1
        plan = replace(plan, requests=requests, gap_us=gap_us, chunks=SECONDS * 1_000_000 // gap_us // requests)
    elif kind == "burst":
        plan = replace(plan, repeat=5, requests=2 if is_kept else 1, pause_ms=200)
    elif kind == "sequential":
        plan = replace(plan, clients=1, requests=n, pause_ms=10)
    else:
        plan = replace(plan, clients=10, requests=n // 10)
    return Load(name, plan, tls is not None)


class Meter:
    """What the processes of a way take from the beginning of a load to its end, and until all is settled."""

    def __init__(self, way: rig.Running, upstream: int) -> None:
        self.groups = way.groups()
        self._pids = [pid for pids in self.groups.values() for pid in pids]
        self._ours = [*self._pids, upstream]
        self.peak = 0

    def _cpu_us(self) -> dict[str, float]:
        cpu_us = {group: rig.cpu_s(pids) * 1e6 for group, pids in self.groups.items()}
        return cpu_us | {"cpu": sum(cpu_us.values())}

    def _machine(self) -> tuple[float, float, float]:
        """Return the CPU time of what is not ours but for the clients, the time that was stolen, and the time, in s."""
        busy, stolen = rig.machine_cpu_s()
        return busy - rig.cpu_s(self._ours) - time.process_time(), stolen, time.monotonic()

    def begin(self) -> None:
        """Note the beginning of a load."""
        self._before, self._machine_before = self._cpu_us(), self._machine()

    def sample(self) -> None:
        """Look at the memory."""
        self.peak = max(self.peak, rig.resident(self._pids))

    def end(self) -> None:
        """Note the end of the load."""
        self._at_end, self._machine_at_end = self._cpu_us(), self._machine()
        self.sample()

    def disturbance(self, clients_cpu_s: float) -> Row:
        """Return the shares of the machine that others took during the load."""
        cpu, stolen, seconds = (b - a for a, b in zip(self._machine_before, self._machine_at_end, strict=True))
        all_s = seconds * rig.CORES
        return {"others": max((cpu - clients_cpu_s) / all_s, 0.0), "stolen": stolen / all_s}

    def costs(self, payloads: int, requests: int) -> Row:
        """Return the CPU times in µs per payload and per request, until the end and until now."""
        row: Row = {}
        for moment, cpu in (("end", self._at_end), ("settled", self._cpu_us())):
            for group, us in cpu.items():
                row[f"{group}_{moment}_us_per_chunk"] = (us - self._before[group]) / payloads
                row[f"{group}_{moment}_us_per_request"] = (us - self._before[group]) / requests
        return row


class Bench:
    """One load on all ways."""

    def __init__(
        self,
        load: Load,
        ways: dict[str, rig.Start],
        directory: Path,
        upstream: rig.Upstream,
        nice: int,
        *,
        is_pinned: bool = False,
    ) -> None:
        self.load, self.upstream = load, upstream
        self.rows: dict[str, list[Row]] = {name: [] for name in ways}
        self.responses: dict[str, list[Row]] = {name: [] for name in ways}
        self.idle: dict[str, int] = {}
        self.next = 0
        port = upstream.port(is_tls=load.is_tls, is_http2=load.plan.is_http2)
        self.ca = upstream.ca if load.is_tls else None
        self.ways: dict[str, rig.Running] = {}
        try:
            for name, start in ways.items():
                place = directory / f"{load.name}-{name}"
                place.mkdir()
                site = rig.Site(place, port, self.ca, load.plan.is_kept, load.plan.is_http2)
                with rig.pinned(rig.RELAYS) if is_pinned else contextlib.nullcontext():
                    self.ways[name] = start(site)
                rig.prioritize(nice, self.ways[name].pids())
                self._warm_up(name)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all ways."""
        for program in self.ways.values():
            program.stop()

    def run(self, rounds: int, patience_s: float, retries: int) -> None:
        """Let the ways take turns; in each round another one begins.

        What was measured while others were busy is measured again, `retries` times in all.
        """
        names = list(self.ways)
        for number in range(rounds):
            at = number % len(names)
            for name in names[at:] + names[:at]:
                wait_quiet(patience_s)
                row = self._measure(name)
                while row["others"] > MOST_OTHERS and retries:
                    retries -= 1
                    wait_quiet(patience_s)
                    row = self._measure(name)
                self.rows[name].append(row)

    def verdicts(self) -> dict[str, rig.Verdict]:
        """Return what the tapes are like, of stopped recorders."""
        return {name: rig.verify(program, self.responses[name]) for name, program in self.ways.items() if program.tape}

    def _drive(self, name: str, plan: Plan, meter: "Meter") -> Row:
        ca = str(self.ca) if self.ca and name == "direct" else None
        plan = replace(plan, port=self.ways[name].port, first=self.next, ca=ca)
        self.next += plan.clients * plan.requests * plan.repeat
        row = rig.run_clients(plan, meter.begin, meter.sample, meter.end)
        log = self.upstream.log()
        self.responses[name] += log["responses"]
        late = sorted(ns for response in log["responses"] for ns in response["late_ns"])
        late_ms = {"late_p99_ms": late[len(late) * 99 // 100] / 1e6} if late else {}
        return row | {"upstream_connections": log["accepted"]} | late_ms

    def _warm_up(self, name: str) -> None:
        """Have each path taken once; what is slow the first time is not what is asked."""
        for chunks in (0, 5):
            plan = replace(self.load.plan, clients=2, requests=2, repeat=1, chunks=chunks, gap_us=1000)
            self._drive(name, plan, Meter(self.ways[name], self.upstream.process.pid))
        self._settle(name)
        self.idle[name] = rig.resident(self.ways[name].pids())

    def _measure(self, name: str) -> Row:
        meter = Meter(self.ways[name], self.upstream.process.pid)
        row = self._drive(name, self.load.plan, meter)
        row |= meter.disturbance(row["client_cpu_s"])
        if meter.groups["relay"]:
            row["kib_per_stream"] = (meter.peak - self.idle[name]) / 1024 / self.load.plan.clients
        self._settle(name)
        return row | meter.costs(row["payloads"], row["requests"])

    def _settle(self, name: str) -> None:
        """Wait until a way has nothing left to do."""
        program = self.ways[name]
        tape, count = program.tape, len(self.responses[name])
        try:
            if tape is not None:
                rig.wait_for(lambda: rig.is_measured(tape, count), SETTLE_S, 0.1)
        except TimeoutError:
            print(f"{name}: not all of {count} exchanges are measured after {SETTLE_S} s", file=sys.stderr)
        pids, previous = program.pids(), -1.0
        while (now := rig.cpu_s(pids)) - previous > 0.002:
            previous = now
            time.sleep(0.2)


def wait_quiet(patience_s: float) -> None:
    """Wait, but not for ever, until the machine does little else."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        cpu_before, _ = rig.machine_cpu_s()
        time.sleep(0.5)
        if rig.machine_cpu_s()[0] - cpu_before < 0.05 * rig.CORES:
            return


# The report

COLUMNS = {
    "TTFB p50": "ttfb_p50_ms", "p99": "ttfb_p99_ms", "TTFT p50": "ttft_p50_ms", "latency p50": "latency_p50_ms",
    "p99 ": "latency_p99_ms", "steady p99": "steady_p99_ms", "ICL p99": "icl_p99_ms",
    "ICL error p99": "icl_error_p99_ms",
    "µs/chunk": "cpu_end_us_per_chunk", "settled": "cpu_settled_us_per_chunk",
    "writer": "writer_settled_us_per_chunk", "µs/request": "cpu_settled_us_per_request",
    "KiB/stream": "kib_per_stream", "connections": "upstream_connections", "lost": "lost", "failed": "failed",
    "late p99": "late_p99_ms", "others": "others", "stolen": "stolen",
}  # fmt: skip
STREAMS_ONLY = ("icl_", "kib_", "late_", "latency_", "steady_", "us_per_chunk")


def median(rows: Sequence[Row], key: str) -> float | None:
    """Return the median of a figure over the rounds."""
    values = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(values) if values else None


def table(load: Load, rows: dict[str, list[Row]]) -> None:
    """Print the medians of one load."""
    columns = {
        title: key for title, key in COLUMNS.items()
        if load.plan.chunks or not any(part in key for part in STREAMS_ONLY)
    }  # fmt: skip
    stream = f" of {load.plan.chunks} chunks, {load.plan.gap_us / 1000:g} ms apart" if load.plan.chunks else ""
    print(f"\n{load.name}: {load.plan.clients} × {load.plan.requests} requests{stream}; times in ms, CPU in µs")
    width = max(map(len, rows))
    print(" " * width, *(f"{title.strip():>{max(len(title), 8)}}" for title in columns))
    for name, rows_found in rows.items():
        cells = (median(rows_found, key) for key in columns.values())
        cells_shown = ("–" if cell is None else f"{cell:.4g}" if abs(cell) < 1000 else f"{cell:.0f}" for cell in cells)
        print(
            f"{name:<{width}}",
            *(f"{cell:>{max(len(title), 8)}}" for title, cell in zip(columns, cells_shown, strict=True)),
        )


@dataclass(frozen=True)
class Figure:
    """One figure to watch: of a load, alone, or as a ratio to another way, or as the difference from it."""

    label: str
    load: str
    key: str
    to: str = ""
    is_ratio: bool = True

    def of(self, rows: dict[str, list[Row]], way: str) -> float | None:
        """Return the median over the rounds; None if there is none."""
        mine = [row.get(self.key) for row in rows[way]]
        other_values: Sequence[Any] = [row.get(self.key) for row in rows.get(self.to, ())] if self.to else mine
        pairs = [(a, b) for a, b in zip(mine, other_values, strict=False) if a is not None and b is not None]
        if not pairs or (self.is_ratio and self.to and not all(b for _, b in pairs)):
            return None
        if not self.to:
            return statistics.median(a for a, _ in pairs)
        return statistics.median(a / b if self.is_ratio else a - b for a, b in pairs)


FIGURES = (
    Figure("upstream connections for 40 requests of one client", "sequential-40", "upstream_connections"),
    Figure("TTFB p50 more than direct, plain, kept [ms]", "sequential-40", "ttfb_p50_ms", "direct", False),
    Figure("TTFB p50 more than direct, TLS, kept [ms]", "sequential-40-tls", "ttfb_p50_ms", "direct", False),
    Figure("first byte of 100 new requests p50 [ms]", "burst-100", "ttfb_p50_ms"),
    Figure("the same ÷ nginx", "burst-100", "ttfb_p50_ms", "nginx"),
    Figure("first byte of 1,000 new streams p50 [ms]", "streams-1000", "ttfb_p50_ms"),
    Figure("the same ÷ nginx", "streams-1000", "ttfb_p50_ms", "nginx"),
    Figure("first byte of 500 new requests ÷ nginx", "burst-500", "ttfb_p50_ms", "nginx"),
    *(
        Figure(f"CPU per {unit} {comparison}, {moment}", load, f"cpu_{key}_us_per_{unit}", to, is_ratio)
        for unit, load in (("chunk", "streams-100"), ("request", "exchanges-400-kept"))
        for comparison, to, is_ratio in (
            ("[µs]", "", True),
            ("÷ nginx", "nginx", True),
            ("− nginx [µs]", "nginx", False),
        )
        for moment, key in (("at the load's end", "end"), ("settled", "settled"))
    ),
    Figure("CPU per chunk ÷ mitmproxy, settled", "streams-100", "cpu_settled_us_per_chunk", "mitmproxy"),
    Figure("CPU of the writer per chunk [µs], settled", "streams-100", "writer_settled_us_per_chunk"),
    Figure("CPU per exchange [µs], settled", "exchanges-400", "cpu_settled_us_per_request"),
    Figure("CPU per exchange ÷ nginx, settled", "exchanges-400", "cpu_settled_us_per_request", "nginx"),
    Figure("latency per chunk p50 [ms], 100 streams", "streams-100", "latency_p50_ms"),
    Figure("latency per chunk p50 ÷ nginx, 100 streams", "streams-100", "latency_p50_ms", "nginx"),
    Figure("latency per chunk p99 [ms], 100 streams", "streams-100", "latency_p99_ms"),
    Figure("latency per chunk p99 ÷ nginx, 100 streams", "streams-100", "latency_p99_ms", "nginx"),
    *(
        Figure(f"{label} {ending}, 100 HTTP/2 streams", "streams-100-h2", key, to)
        for label, unit, key in (
            ("latency per chunk p50", "[ms]", "latency_p50_ms"),
            ("latency per chunk p99", "[ms]", "latency_p99_ms"),
            ("latency per chunk p50, all running", "[ms]", "steady_p50_ms"),
            ("CPU per chunk, at the load's end", "[µs]", "cpu_end_us_per_chunk"),
            ("CPU per chunk, settled", "[µs]", "cpu_settled_us_per_chunk"),
        )
        for ending, to in ((unit, ""), ("÷ nginx", "nginx"))
    ),
    Figure("chunks lost, 2,000 streams", "streams-2000", "lost"),
    Figure("memory per stream [KiB], 2,000 streams", "streams-2000", "kib_per_stream"),
    Figure("latency per chunk p99 ÷ nginx, 2,000 streams", "streams-2000", "latency_p99_ms", "nginx"),
    Figure("latency per chunk p50, all running [ms]", "streams-2000", "steady_p50_ms"),
    Figure("latency per chunk p99, all running [ms]", "streams-2000", "steady_p99_ms"),
    Figure("latency per chunk p99 ÷ nginx, all running", "streams-2000", "steady_p99_ms", "nginx"),
)


def summary(results: dict[str, dict[str, list[Row]]], tapes: dict[str, dict[str, rig.Verdict]]) -> dict[str, Row]:
    """Print the figures to watch, a column for each way; return them."""
    names = list(dict.fromkeys(name for rows in results.values() for name in rows if name != "direct"))
    found = {
        f"{figure.label} ({figure.load})": {
            name: figure.of(results[figure.load], name) for name in names if name in results[figure.load]
        }
        for figure in FIGURES
        if figure.load in results
    }
    for load, verdicts in tapes.items():
        if load == "streams-100" and verdicts:
            found["tape bytes per raw byte, all rounds together"] = {
                name: verdict.tape_bytes / verdict.raw_bytes for name, verdict in verdicts.items()
            }
            used = {name: verdict.used_bytes / verdict.raw_bytes for name, verdict in verdicts.items()}
            found["the same without free pages"] = used
    width = max(map(len, found), default=0)
    print(f"\n{'':<{width}}", *(f"{name:>10}" for name in names))
    for label, row in found.items():
        cells = (row.get(name) for name in names)
        print(f"{label:<{width}}", *(f"{'–' if cell is None else f'{cell:.3g}':>10}" for cell in cells))
    return found


def verdict_line(load: str, name: str, one: rig.Verdict) -> str:
    """Return what is to be said of a tape."""
    if one.differences:
        return f"{load}, {name}: THE TAPE DIFFERS: {'; '.join(one.differences[:3])} ({len(one.differences)} in all)"
    alone = f"{one.alone / one.payloads:.2%} of the payloads are a read each" if one.payloads else "nothing"
    return f"{load}, {name}: {one.exchanges} exchanges on the tape, every byte as sent; {alone}"


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all loads, all ways, 5 rounds")
    parser.add_argument("--ways", help="comma-separated, of direct, nginx, haproxy, mitmproxy, wiretape")
    parser.add_argument("--way", action="append", default=[], metavar="NAME=COMMAND", help="another wiretape")
    parser.add_argument("--loads")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--mitmproxy", type=Path, metavar="DIR", help="a virtual environment; made unless it exists")
    parser.add_argument("--patience", type=float, default=0, metavar="S", help="wait so long for a quiet machine")
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="of a load, when others were busy")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="niceness of all its processes, needs setsid")
    parser.add_argument("--unpinned", action="store_true", help="let the scheduler place all processes")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def chosen(given: argparse.Namespace) -> dict[str, rig.Start]:
    """Return the ways asked for, as far as there are."""
    every = rig.available(given.mitmproxy.absolute() if given.mitmproxy else None) | {"wiretape": rig.wiretape()}
    default = ",".join(every) if given.full else "direct,nginx,wiretape"
    programs = {name: every[name] for name in (given.ways or default).split(",") if name in every}
    for text in given.way:
        name, _, command = text.partition("=")
        programs[name] = rig.wiretape(command)
    return programs


def main() -> None:
    """Measure and print."""
    args = options()
    rig.prioritize(args.nice)
    loads = [parse(name) for name in (args.loads or (FULL if args.full else QUICK)).split(",")]
    rounds = args.rounds or (5 if args.full else 3)
    programs = chosen(args)
    is_pinned = not args.unpinned and rig.CORES > 1
    print("relays on one core, load on another" if is_pinned else "processes are where the scheduler puts them")
    results: dict[str, dict[str, list[Row]]] = {}
    tapes: dict[str, dict[str, rig.Verdict]] = {}
    with rig.pinned(rig.LOAD) if is_pinned else contextlib.nullcontext(), rig.rigged() as (directory, upstream):
        for load in loads:
            bench = Bench(load, programs, directory, upstream, args.nice, is_pinned=is_pinned)
            try:
                bench.run(rounds, args.patience, args.retries)
            finally:
                bench.stop()
            results[load.name], tapes[load.name] = bench.rows, bench.verdicts()
            table(load, bench.rows)
            for name, verdict in tapes[load.name].items():
                print(verdict_line(load.name, name, verdict), flush=True)
    summary_ = summary(results, tapes)
    if args.json:
        verdicts = {
            load: {name: dataclasses.asdict(verdict) for name, verdict in ones.items()} for load, ones in tapes.items()
        }
        args.json.write_text(json.dumps({"loads": results, "tapes": verdicts, "figures": summary_}, indent=1))
    if any(verdict.differences for ones in tapes.values() for verdict in ones.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
