"""Latency of other clients beside an attack over HTTP/2, and the relay's CPU and memory.

    python tests/bench/attacks.py [--attacks ping,tiny-data,…] [--streams 10] [--chunks 150] [--rounds 1]

A recorder and its upstream run as processes; clients take streams on one connection, a chunk every 20 ms, while another
process attacks the recorder on its own connection, and connects again when that is closed. Prints the latency of the
clients' chunks without an attack and beside each one, the relay's share of a core, and its growth in memory.
"""

import argparse
import contextlib
import json
import select
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hpack

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import http2, rig
from tests.bench.clients import Plan

GAP_US = 20_000
_PATH = b"/0/100000/1000000/v1/chat"
_BLOCK = b"\x83\x86" + http2.literal(1, b"127.0.0.1") + http2.literal(4, _PATH)
_PRIORITY, _CONTINUATION = 2, 9


def repeated(data: bytes) -> Iterator[bytes]:
    """Yield the same frames for ever."""
    many = data * (1 + 65_536 // len(data))
    while True:
        yield many


def opened(payload: bytes | None, count: int = 0) -> Iterator[bytes]:
    """Yield streams that are opened, get this payload in many frames of data, and are reset."""
    for id in range(1, 1 << 30, 2):
        yield http2.frame(http2.HEADERS, http2.END_HEADERS, id, _BLOCK)
        if payload is not None:
            yield http2.frame(http2.DATA, 0, id, payload) * count
        yield http2.frame(http2.RST_STREAM, 0, id, struct.pack(">I", 8))


def headless() -> Iterator[bytes]:
    """Yield a head that never ends."""
    yield http2.frame(http2.HEADERS, 0, 1, _BLOCK)
    yield from repeated(http2.frame(_CONTINUATION, 0, 1, bytes(1000)))


def bombs() -> Iterator[bytes]:
    """Yield heads of HPACK that stand for 50 MB each."""
    block = hpack.Encoder().encode([(b":method", b"POST"), (b"x", b"A" * 4000)]) + b"\xbe" * 12_000
    for id in range(1, 1 << 30, 2):
        yield http2.frame(http2.HEADERS, http2.END_HEADERS, id, block)


ATTACKS: dict[str, Callable[[], Iterator[bytes]]] = {
    "ping": lambda: repeated(http2.frame(http2.PING, 0, 0, bytes(8))),
    "settings": lambda: repeated(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 1, 4096))),
    "priority": lambda: repeated(http2.frame(_PRIORITY, 0, 1001, struct.pack(">IB", 0, 1))),
    "reset": lambda: opened(None),
    "empty-data": lambda: opened(b"", 20_000),
    "tiny-data": lambda: opened(b"?", 200_000),
    "continuation": headless,
    "hpack-bomb": bombs,
}


def attack(name: str, port: int) -> None:
    """Attack until standard input ends."""
    sent = connections = 0
    print("attacking", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as sock:
            connections += 1
            sock.setblocking(False)
            unsent = http2.PREFACE + http2.SETTINGS_SENT
            frames = ATTACKS[name]()
            while not select.select([sys.stdin], [], [], 0)[0]:
                readable, writable, _ = select.select([sock], [sock], [], 0.1)
                if readable and not sock.recv(1 << 20):
                    break
                if writable:
                    count = sock.send(unsent)
                    sent, unsent = sent + count, unsent[count:] or next(frames)
    print(json.dumps({"sent": sent, "connections": connections}), flush=True)


@contextlib.contextmanager
def attacked(name: str | None, port: int) -> Iterator[dict[str, Any]]:
    """Attack the recorder from another process during a block; yield the counts, complete after it."""
    result: dict[str, Any] = {}
    if name is None:
        yield result
        return
    with rig.start("attacks", "--attack", name, port) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield result
        process.stdin.close()
        result |= json.loads(process.stdout.readline())


def measure(name: str | None, way: rig.Running, plan: Plan) -> dict[str, Any]:
    """Return the figures of clients beside an attack."""
    relay = way.groups()["relay"]
    with attacked(name, way.port) as result:
        cpu_before, began, resident = rig.cpu_s(relay), time.monotonic(), rig.resident(relay)
        row = rig.run_clients(plan, lambda: None, lambda: None, lambda: None)
        row["cpu"] = (rig.cpu_s(relay) - cpu_before) / (time.monotonic() - began)
        row["mib"] = (rig.resident(relay) - resident) / (1 << 20)
    return row | result


def report(name: str | None, rows: list[dict[str, Any]]) -> None:
    """Print the medians of one attack."""
    latency = [statistics.median(row[f"latency_{key}_ms"] for row in rows) for key in ("p50", "p99", "max")]
    cpu, mib = (statistics.median(row[key] for row in rows) for key in ("cpu", "mib"))
    sent = statistics.median(row.get("sent", 0) for row in rows) / (1 << 20)
    connections = statistics.median(row.get("connections", 0) for row in rows)
    lost = sum(row["lost"] + row["failed"] for row in rows)
    print(f"{name or 'none':<14}", *(f"{ms:9.3f}" for ms in latency), f"{cpu:9.1%} {mib:9.1f} {sent:9.1f}",
          f"{connections:12.0f} {lost:6}", flush=True)  # fmt: skip


def main() -> None:
    """Measure each attack, or attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--attack", nargs=2, metavar=("NAME", "PORT"), help=argparse.SUPPRESS)
    for name, default in (("--streams", 10), ("--chunks", 150), ("--rounds", 1)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    if options.attack:
        attack(options.attack[0], int(options.attack[1]))
        return
    with rig.rigged() as (_, upstream), tempfile.TemporaryDirectory() as directory:
        program = rig.wiretape()(rig.Site(Path(directory), upstream.port(is_http2=True), is_http2=True))
        plan = Plan(port=program.port, first=0, clients=options.streams, requests=1, repeat=1, chunks=options.chunks,
                    gap_us=GAP_US, pause_ms=0, is_kept=False, is_http2=True)  # fmt: skip
        try:
            measure(None, program, plan)  # to warm up
            print("attack         p50 [ms]       p99       max       CPU       MiB  MiB sent  connections   lost")
            for name in (None, *options.attacks.split(",")):
                report(name, [measure(name, program, plan) for _ in range(options.rounds)])
        finally:
            program.stop()


if __name__ == "__main__":
    main()
