"""How true the recorded timestamps are: the tape's, compared with a packet capture of the same segments.

    python tests/bench/instants.py [--streams 50] [--chunks 200] [--gap 20] [--rounds 1] [--wiretape COMMAND]
                                   [--patience S] [--nice N] [--json FILE]

A scripted upstream sends, wiretape records, and a packet socket has the kernel note when each of the upstream's
segments goes through the loopback interface. That is 3 to 10 µs before the segment is in the receiver's socket; what a
packet socket notes of the arrival itself is up to 150 µs later than that, and would hide as much. A read's capture time
is that of the segment which holds its last byte. Printed is by how much the tape's timestamp is later, on an idle
machine and next to a busy loop on each core, with a plain upstream and with TLS, for each clock that the tape names.

The tape has one wall time for an exchange, `started_at`, to the microsecond. An error of that one shifts all its reads:
it shows as figures below 0. `in itself` leaves it out: a read's lateness beyond that of the exchange's promptest read.
Linux only; needs root or CAP_NET_RAW.
"""

import argparse
import contextlib
import ctypes
import json
import socket
import sqlite3
import struct
import subprocess
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import rig
from tests.bench.clients import Plan
from tests.bench.observer import wait_quiet
from tests.bench.upstream import pieces

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ETH_P_ALL, _SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 0x0003, 26, 33, 35
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_BUFFER = 1 << 29
_HEADERS = 120
_IP_TCP = struct.Struct(">2xH16xHHIxxxxBB")  # total length; ports, sequence number, data offset, flags
_SYN = 0x02


class Capture:
    """The segments that come from a port on loopback; their headers wait in the kernel until they are asked for."""

    def __init__(self, port: int) -> None:
        try:
            self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        except PermissionError:
            raise SystemExit("a packet capture needs root or CAP_NET_RAW") from None
        self._sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self._sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        steps = [
            (0x30, 0, 0, 0), (0x15, 0, 7, 0x45),  # IPv4, with a header of 20 bytes
            (0x30, 0, 0, 9), (0x15, 0, 5, 6),  # the protocol is TCP
            (0x28, 0, 0, 20), (0x15, 0, 3, port),  # the source port
            (0x30, 0, 0, 0xFFFFF004), (0x15, 0, 1, 4),  # of the two that loopback shows, the outgoing one
            (0x06, 0, 0, _HEADERS), (0x06, 0, 0, 0),
        ]  # fmt: skip
        program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
        attached = struct.pack("@HP", len(steps), ctypes.addressof(program))
        self._sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
        self._sock.bind(("lo", _ETH_P_ALL))

    def segments(self) -> dict[int, tuple[list[int], list[int]]]:
        """Return of each connection, by the client's port, where its segments end in bytes, and when they came in ns.

        The times are those of the wall clock.
        """
        first_seen: dict[int, int] = {}
        ends, times = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for packet, at_ns in self._packets():
            length, _, port, seq, offset, flags = _IP_TCP.unpack_from(packet)
            size = length - 20 - (offset >> 4) * 4
            if flags & _SYN:
                first_seen[port] = seq + 1
            elif size and port in first_seen:
                end = (seq - first_seen[port] & 0xFFFFFFFF) + size
                if not ends[port] or end > ends[port][-1]:  # not sent again
                    ends[port].append(end)
                    times[port].append(at_ns)
        return {port: (ends[port], times[port]) for port in ends}

    def _packets(self) -> Iterator[tuple[bytes, int]]:
        self._sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, ancillary, _, _ = self._sock.recvmsg(_HEADERS, 64)
                seconds, ns = next(struct.unpack("@ll", data) for _, kind, data in ancillary if kind == _SO_TIMESTAMPNS)
                yield packet, seconds * 10**9 + ns

    def close(self) -> None:
        """End the capture. Raises `SystemExit` if it missed something."""
        statistics = self._sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self._sock.close()
        _, dropped = struct.unpack("@II", statistics)
        if dropped:
            raise SystemExit(f"the capture missed {dropped} segments")


@dataclass
class Compared:
    """What was found under one condition: by how much the tape is later than the capture, in ns, by clock."""

    later_ns: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    in_itself_ns: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    unmatched: int = 0
    """Reads that do not end where something sent ends, or whose segment was not seen."""

    def add(self, clock: str, began_ns: int, reads: Sequence[tuple[int, int]], arrived: dict[int, int]) -> None:
        """Compare the reads of an exchange: (end in the body, timestamp); `arrived` is by the end in the body."""
        later = [began_ns + at_ns - arrived[end] for end, at_ns in reads if end in arrived]
        self.unmatched += len(reads) - len(later)
        self.later_ns[clock] += later
        self.in_itself_ns[clock] += [ns - min(later) for ns in later]


def arrivals(response: dict[str, Any], seen: dict[int, tuple[list[int], list[int]]]) -> dict[int, int]:
    """Return when each piece of a response had come whole, by where it ends in the body."""
    ends, times = seen.get(response["peer"], ([], []))
    sent = pieces(response["number"], response["chunks"], response["sent_ns"])
    results = {}
    for body_end, wire_end in zip(accumulate(map(len, sent)), response["wire_ends"], strict=True):
        place = bisect_left(ends, wire_end)
        if place < len(ends):
            results[body_end] = times[place]
    return results


def compare(
    tape: Path, batches: Sequence[tuple[str, list[dict[str, Any]], dict[int, tuple[list[int], list[int]]]]]
) -> dict[str, Compared]:
    """Compare a tape with what was captured under each condition."""
    compared: dict[str, Compared] = defaultdict(Compared)
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(exchanges)")}
        clock = "clock" if "clock" in columns else "NULL"
        rows = connection.execute(f"SELECT no, path, started_at, {clock} FROM exchanges")
        exchanges = {int(path.split("/")[1]): (no, started_at, clock) for no, path, started_at, clock in rows}
        query = "SELECT start + size, at_ns FROM reads WHERE exchange_no = ? ORDER BY seq"
        for condition, responses, seen in batches:
            for response in responses:
                no, started_at, exchange_name = exchanges[response["number"]]
                began_ns = (datetime.fromisoformat(started_at) - EPOCH) // timedelta(microseconds=1) * 1000
                reads = connection.execute(query, (no,)).fetchall()
                compared[condition].add(exchange_name or "not named", began_ns, reads, arrivals(response, seen))
    return compared


@contextlib.contextmanager
def busy(is_busy: bool) -> Iterator[None]:
    """Keep each core busy meanwhile, or not."""
    command = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(command) for _ in range(rig.CORES)] if is_busy else []
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def measure(directory: Path, upstream: rig.Upstream, is_tls: bool, given: argparse.Namespace) -> dict[str, Compared]:
    """Record under each condition; return what was found."""
    place = directory / ("tls" if is_tls else "plain")
    place.mkdir()
    port = upstream.port(is_tls=is_tls)
    recorder = rig.wiretape(given.wiretape)(rig.Site(place, port, upstream.ca if is_tls else None))
    rig.prioritize(given.nice, recorder.pids())
    batches = []
    start = 0
    try:
        for condition in ("idle", "busy") * given.rounds:
            wait_quiet(given.patience)
            capture = Capture(port)
            plan = Plan(
                port=recorder.port, first=start, clients=given.streams, requests=1, repeat=1, chunks=given.chunks,
                gap_us=given.gap * 1000, pause_ms=0, is_kept=False,
            )  # fmt: skip
            start += given.streams
            with busy(condition == "busy"):
                row = rig.run_clients(plan, lambda: None, lambda: None, lambda: None)
            if row["lost"]:
                print(f"{row['lost']} chunks were lost", file=sys.stderr)
            seen = capture.segments()
            capture.close()
            name = f"{'TLS' if is_tls else 'plain'}, {condition}"
            batches.append((name, upstream.log()["responses"], seen))
    finally:
        recorder.stop()
    assert recorder.tape is not None
    return compare(recorder.tape, batches)


def report(found: dict[str, Compared]) -> None:
    """Print the figures."""
    titles = "".join(f"{title:>9}" for title in ("min", "p50", "p99", "max", "p50", "p99", "max"))
    print(f"{'':<32}{'ms later than the capture':>36}{'in itself':>27}\n{'':<14}{'clock':<10}{'reads':>8}{titles}")
    for condition, compared in found.items():
        for clock, later in compared.later_ns.items():
            cells = spread(later) + spread(compared.in_itself_ns[clock])[1:]
            print(f"{condition:<14}{clock:<10}{len(later):8,}" + "".join(f"{cell:9.3f}" for cell in cells))
        if compared.unmatched:
            print(f"{condition:<14}{compared.unmatched:,} reads could not be matched with a segment")


def spread(values: Sequence[int]) -> list[float]:
    """Return the least, the median, the 99th percentile and the most, in ms."""
    ordered = sorted(values)
    return [ordered[round((len(ordered) - 1) * share)] / 1e6 for share in (0, 0.5, 0.99, 1)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--streams", 50), ("--chunks", 200), ("--gap", 20), ("--rounds", 1)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--wiretape", default=rig.WIRETAPE, metavar="COMMAND")
    parser.add_argument("--patience", type=float, default=0, metavar="S", help="wait so long for a quiet machine")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="niceness of all its processes, needs setsid")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rig.prioritize(options.nice)
    with rig.rigged() as (directory, upstream):
        results = measure(directory, upstream, False, options) | measure(directory, upstream, True, options)
    report(results)
    if options.json:
        options.json.write_text(json.dumps({name: vars(compared) for name, compared in results.items()}))


if __name__ == "__main__":
    main()
