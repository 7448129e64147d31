"""CPU per chunk: recorded by wiretape, and relayed unrecorded by nginx, in one run.

    python tests/bench/relay.py [--streams 100] [--chunks 200] [--gap 0.02] [--rounds 3]

A scripted upstream, the clients, wiretape (relay and writer) and nginx are processes of their own on loopback. Rounds
alternate, so that both see the same machine. At the end the tape is compared with what was sent, byte for byte and read
for read. Needs nginx (Debian: `apt-get install nginx-light`).
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def piece(stream: int, seq: int) -> bytes:
    """Give the event that stream `stream` sends as its `seq`-th: the size of a typical chunk, and unlike any other."""
    choice = {"index": 0, "delta": {"content": f" s{stream}c{seq}"}, "logprobs": None, "finish_reason": None}
    chunk = {"id": f"chatcmpl-{stream:012d}", "object": "chat.completion.chunk", "created": 1773042793}
    chunk |= {"model": "bench-model-2026-01-01", "service_tier": "default", "system_fingerprint": "fp_0123456789"}
    return b"data: " + json.dumps({**chunk, "choices": [choice], "usage": None}).encode() + b"\n\n"


async def upstream(chunks: int, gap: float) -> None:
    """Serve one stream per connection, paced on absolute deadlines; the path names the stream."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        stream = int(head.split(b" ", 2)[1].rsplit(b"/", 1)[1])
        writer.write(HEAD)
        loop = asyncio.get_running_loop()
        start = loop.time()
        for seq in range(chunks):
            await asyncio.sleep(start + (seq + 1) * gap - loop.time())
            data = piece(stream, seq)
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await asyncio.sleep(gap)
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def clients(port: int, streams: int) -> None:
    """Run all streams at once; each must have its whole body."""

    async def one(stream: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"POST /v1/{stream} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
        writer.write(request.encode())
        received = 0
        while data := await reader.read(65536):
            received += len(data)
        writer.close()
        return received

    sizes = await asyncio.gather(*(one(stream) for stream in range(streams)))
    print(min(sizes), flush=True)


def cpu(pids: list[int]) -> float:
    """Give the CPU seconds that the processes have used."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def role(name: str, *arguments: object) -> subprocess.Popen[str]:
    """Start this script in another role."""
    command = [sys.executable, __file__, "--role", name, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def children(pid: int) -> list[int]:
    """Give a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def start_nginx(directory: Path, port: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start nginx with one worker in front of the upstream, unbuffered and without a log."""
    listen = free_port()
    (directory / "nginx.conf").write_text(f"""
        daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log;
        events {{ worker_connections 4096; }}
        http {{
            access_log off; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p;
            fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
            server {{ listen 127.0.0.1:{listen}; location / {{
                proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_buffering off; }} }}
        }}""")
    process = subprocess.Popen(["nginx", "-c", str(directory / "nginx.conf"), "-p", str(directory)])
    wait_for(lambda: bool(children(process.pid)))
    return process, listen


def start_wiretape(directory: Path, port: int) -> tuple[subprocess.Popen[str], int]:
    """Start a recorder in front of the upstream."""
    command = [sys.executable, "-m", "viewer.cli", "record", "--listen", ":0", "--db", str(directory / "bench.tape")]
    with (directory / "record.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--upstream", f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    return process, int(process.stdout.readline().rsplit(":", 1)[1])


def free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise SystemExit("waited in vain")
        time.sleep(0.02)


def drive(port: int, given: argparse.Namespace, pids: dict[str, list[int]]) -> dict[str, float]:
    """Run the clients once; give the CPU seconds of each group of processes."""
    streams = given.streams
    whole = sum(len(piece(0, seq)) for seq in range(given.chunks))
    before = {name: cpu(group) for name, group in pids.items()}
    client = role("clients", "--port", port, "--streams", streams)
    assert client.stdout is not None
    smallest = int(client.stdout.readline())
    client.wait()
    if smallest < whole:
        raise SystemExit(f"a client got {smallest} bytes of a stream of more than {whole}")
    return {name: cpu(group) - before[name] for name, group in pids.items()}


def verify(tape: Path, streams: int, chunks: int, rounds: int) -> str:
    """Compare the tape with what was sent; raises SystemExit at the first difference."""
    with sqlite3.connect(f"file:{tape}?mode=ro", uri=True) as connection:
        rows = connection.execute(
            "SELECT e.no, e.path, b.data, m.outcome FROM exchanges e JOIN bodies b ON b.exchange_no = e.no"
            " JOIN measures m ON m.exchange_no = e.no"
        ).fetchall()
        if len(rows) != streams * rounds:
            raise SystemExit(f"{len(rows)} exchanges on the tape, {streams * rounds} were made")
        apart = total = 0
        for no, path, packed, outcome in rows:
            stream = int(path.rsplit("/", 1)[1])
            sent = [piece(stream, seq) for seq in range(chunks)] + [b"data: [DONE]\n\n"]
            body = zlib.decompress(packed)
            if body != b"".join(sent) or outcome != "complete":
                raise SystemExit(f"stream {stream}: the tape differs from what was sent ({outcome})")
            reads = connection.execute("SELECT start, size FROM reads WHERE exchange_no = ? ORDER BY seq", (no,))
            came = [body[start : start + size] for start, size in reads]
            if b"".join(came) != body:
                raise SystemExit(f"stream {stream}: the reads do not make up the body")
            apart += sum(one in came for one in sent)
            total += len(sent)
    connection.close()
    return f"{len(rows)} streams, every byte as sent and in order; {apart / total:.2%} of the sends are one read each"


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("--streams", 100), ("--chunks", 200), ("--rounds", 3), ("--port", 0)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--gap", type=float, default=0.02)
    parser.add_argument("--role")
    given = parser.parse_args()
    if given.role == "upstream":
        asyncio.run(upstream(given.chunks, given.gap))
    elif given.role == "clients":
        asyncio.run(clients(given.port, given.streams))
    elif shutil.which("nginx") is None:
        raise SystemExit("nginx is missing: apt-get install nginx-light")
    else:
        with tempfile.TemporaryDirectory() as directory:
            compare(Path(directory), given)


def compare(directory: Path, given: argparse.Namespace) -> None:
    """Start everything, alternate the rounds, print, stop everything."""
    source = role("upstream", "--chunks", given.chunks, "--gap", given.gap)
    assert source.stdout is not None
    port = int(source.stdout.readline())
    nginx, nginx_port = start_nginx(directory, port)
    recorder, recorder_port = start_wiretape(directory, port)
    groups = {"relay": [recorder.pid], "writer": children(recorder.pid)}
    rows = []
    try:
        for _ in range(given.rounds):
            row = drive(nginx_port, given, {"nginx": children(nginx.pid)})
            rows.append(row | drive(recorder_port, given, groups))
        recorder.send_signal(signal.SIGTERM)
        if recorder.wait(timeout=30) != 0:
            raise SystemExit((directory / "record.log").read_text())
    finally:
        for process in (recorder, nginx, source):
            process.terminate()
            process.wait()
    report(rows, given, verify(directory / "bench.tape", given.streams, given.chunks, given.rounds), directory)


def report(rows: list[dict[str, float]], given: argparse.Namespace, verdict: str, directory: Path) -> None:
    """Print the figures: medians over the rounds, in microseconds of CPU per chunk."""
    count = given.streams * given.chunks
    middle = {name: statistics.median(row[name] for row in rows) * 1e6 / count for name in rows[0]}
    ratios = [(row["relay"] + row["writer"]) / row["nginx"] for row in rows if row["nginx"]]
    print(f"{given.streams} streams × {given.chunks} chunks, {given.gap * 1000:g} ms apart, {given.rounds} rounds")
    for name, microseconds in middle.items():
        print(f"  {name:<8} {microseconds:7.1f} µs CPU per chunk")
    ratio = statistics.median(ratios) if ratios else float("nan")
    print(f"  relay + writer = {ratio:.2f} × nginx (median of the rounds)")
    print(f"  {verdict}")
    raw = sum(len(piece(0, seq)) for seq in range(given.chunks)) * given.streams * given.rounds
    print(f"  tape: {(directory / 'bench.tape').stat().st_size / raw:.2f} × the raw bytes")


if __name__ == "__main__":
    main()
