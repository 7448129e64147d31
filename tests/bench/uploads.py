"""Peak memory of the relay and the writer while large requests are uploaded at the same time.

    python tests/bench/uploads.py [--uploads 10] [--mib 60]

Wiretape, its upstream (which takes a request whole and answers with its SHA-256) and the clients are processes of their
own on loopback. The peaks are the kernel's (`VmHWM`). At the end the tape is compared with what was sent. Linux only.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PIECE = 1 << 20


async def upstream() -> None:
    """Serve on a free port: take a request without keeping it, and answer with the SHA-256 of its body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        digest = hashlib.sha256()
        while size:
            data = await reader.read(min(size, PIECE))
            digest.update(data)
            size -= len(data)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 64\r\n\r\n" + digest.hexdigest().encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def clients(port: int, uploads: int, mib: int) -> None:
    """Upload at the same time; each must be answered with the SHA-256 of what it sent."""

    async def one(number: int) -> bool:
        piece = number.to_bytes(4, "big") * (PIECE // 4)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/{number} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {mib * PIECE}\r\nconnection: close"
        writer.write(head.encode() + b"\r\n\r\n")
        digest = hashlib.sha256()
        for _ in range(mib):
            writer.write(piece)
            digest.update(piece)
            await writer.drain()
        answer = await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return answer.endswith(digest.hexdigest().encode())

    print(sum(await asyncio.gather(*(one(number) for number in range(uploads)))), flush=True)


def peak_mib(pid: int) -> float:
    """Return the largest resident size that a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:", 1)[1].split(None, 1)[0]) / 1024


def start(*command: object) -> tuple[subprocess.Popen[str], str]:
    """Start a process and return it with the first line that it prints."""
    process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def measure(directory: Path, uploads: int, mib: int) -> None:
    """Run everything once and print the peaks."""
    tape = directory / "uploads.tape"
    source, port = start(__file__, "--role", "upstream")
    listen = ("--listen", ":0", "--upstream", f"http://127.0.0.1:{port}")
    recorder, base = start("-m", "wiretape.viewer.cli", "record", "--db", tape, *listen)
    writer = int(Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()[0])
    try:
        idle = {"relay": peak_mib(recorder.pid), "writer": peak_mib(writer)}
        began = time.monotonic()
        command = ("--role", "clients", "--port", base.rsplit(":", 1)[1], "--uploads", uploads, "--mib", mib)
        client, answered = start(__file__, *command)
        seconds = time.monotonic() - began
        client.wait()
        time.sleep(1)  # the writer has its peak when it stores
        peaks = {"relay": peak_mib(recorder.pid), "writer": peak_mib(writer)}
        recorder.send_signal(signal.SIGINT)
        code = recorder.wait(60)
    finally:
        source.kill()
        recorder.kill()
    print(f"{uploads} uploads of {mib} MiB at the same time: {answered} answered right, {seconds:.1f} s, exit {code}")
    for name, peak in peaks.items():
        print(f"{name:8} {idle[name]:8.0f} MiB idle {peak:8.0f} MiB at the peak")
    print(f"together {sum(idle.values()):8.0f} MiB idle {sum(peaks.values()):8.0f} MiB at the peak")
    verify(tape, uploads, mib)


def verify(tape: Path, uploads: int, mib: int) -> None:
    """Check the size and hash of every request on the tape, and count the bodies that it has."""
    columns = "path, request_size, request_sha256, length(requests.request_body)"
    select = f"SELECT {columns} FROM exchanges JOIN requests ON exchange_no = no"
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        rows = connection.execute(select).fetchall()
    for path, size, sha256, _ in rows:
        sent = int(path.rsplit("/", 1)[1]).to_bytes(4, "big") * (PIECE // 4) * mib
        assert (size, sha256) == (len(sent), hashlib.sha256(sent).hexdigest()), path
    lengths = [length for *_, length in rows if length is not None]
    print(f"tape: {len(rows)} of {uploads} exchanges, {len(lengths)} bodies stored, {sum(lengths) >> 20} MiB")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--uploads", type=int, default=10)
    parser.add_argument("--mib", type=int, default=60)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "upstream":
        asyncio.run(upstream())
    elif options.role == "clients":
        asyncio.run(clients(options.port, options.uploads, options.mib))
    else:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
            measure(Path(directory), options.uploads, options.mib)


if __name__ == "__main__":
    main()
