"""The cost of each tool of `wiretape mcp` on a large synthetic tape: bytes, seconds, and the server's seconds of CPU.

    python tests/bench/agents.py [--exchanges 100000] [--chunks 20] [--tape FILE] [--rounds 5]

Makes the tape unless FILE exists. Drives the server over its standard input and output with the SDK's client. Each call
of a round differs from the last one, so that no answer is a kept one. Nothing is asserted.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("find", {}),
    ("find", {"filter": "ttft>300ms or flag:stall"}),
    ("find", {"filter": "error_code~nothing-like-it"}),
    ("find", {"sort": "-ttft"}),
    ("find", {"offset": 10_000}),
    ("show", {"id": "@"}),
    ("show", {"id": "@stall"}),
    ("show", {"id": "@slow", "part": "facts"}),
    ("show", {"id": "@stall", "part": "timing"}),
    ("show", {"id": "@err", "part": "headers"}),
    ("show", {"id": "@", "part": "events"}),
    ("show", {"id": "@", "part": "reads"}),
    ("stats", {}),
    ("stats", {"by": "model"}),
    ("stats", {"by": "model", "columns": "n,error_rate_pct,ttft_p95_ms,latency_p50_ms"}),
    ("stats", {"filter": "is:err"}),
    ("stats", {"newest": 0}),
    ("compare", {"a": "@-1", "b": "@stall"}),
    ("compare", {"base": "model:local-*", "new": "model:gpt-*"}),
    ("compare", {"base": "model:local-*", "new": "model:gpt-*", "newest": 0}),
    ("compare", {"a": "@-1", "b": "@stall", "part": "request"}),
    ("sessions", {}),
    ("show", {"id": "@s"}),
    ("show", {"id": "@s", "part": "time"}),
    ("show", {"id": "@", "part": "context"}),
    ("find", {"columns": "id,cache_verdict,cache_broken_at"}),
    ("report", {"id": "@s"}),
    ("report", {"id": "@stall"}),
    ("report", {"filter": "is:err"}),
    ("schema", {}),
    ("schema", {"table": "exchange_metrics"}),
    ("schema", {"table": "fields"}),
    ("sql", {"query": "SELECT id, model, ttft_ms FROM exchange_metrics ORDER BY ttft_ms DESC LIMIT 100"}),
    ("sql", {"query": "SELECT outcome, count(*), avg(ttft_ns) / 1e6 FROM measures GROUP BY 1"}),
]
"""The calls of a round, in this order."""
SETTLING_S = 5
"""Time between the start of a session and its first call: the server reads the links of sessions meanwhile."""


def cpu() -> float:
    """Return the seconds of CPU that the children of this process have used, on Linux; else 0."""
    used, task = 0, Path(f"/proc/self/task/{os.getpid()}/children")
    for child in task.read_text().split() if task.exists() else []:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


async def measured(tape: Path, rounds: int) -> None:
    """Print the bytes and the seconds of each call."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "wiretape", "mcp", "--db", str(tape)])
    began = time.perf_counter()
    async with Client(stdio_client(server)) as client:
        tools = await client.list_tools()
        listing_size = sum(len(tool.model_dump_json(exclude_unset=True).encode()) for tool in tools.tools)
        print(f"start {time.perf_counter() - began:.2f} s, CPU {cpu():.2f} s")
        print(f"{len(tools.tools)} tools in {listing_size:,} bytes", flush=True)
        await asyncio.sleep(SETTLING_S)
        calls: dict[int, list[tuple[float, float, int]]] = {}
        for _ in range(rounds):
            for at, (name, arguments) in enumerate(CALLS):
                used, began = cpu(), time.perf_counter()
                answer = await client.call_tool(name, arguments)
                took = time.perf_counter() - began
                assert not answer.is_error, answer.content
                calls.setdefault(at, []).append((took, cpu() - used, len(answer.content[0].text.encode())))
    for at, (name, arguments) in enumerate(CALLS):
        seconds, used, sizes = zip(*calls[at], strict=True)
        query = ", ".join(f"{key}={value}" for key, value in arguments.items())
        print(f"{name}({query})"[:78].ljust(79), f"{max(sizes):5,} B  p50 {statistics.median(seconds):5.3f} s  "
              f"CPU {statistics.median(used):5.2f} s  first {seconds[0]:5.3f} s, CPU {used[0]:4.2f} s")  # fmt: skip


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=100_000)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--tape", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tape = options.tape or Path(folder) / "tape.db"
        if not tape.exists():
            command = [sys.executable, "-m", "wiretape", "db", "fixture", "--db", str(tape)]
            sizes = ["--exchanges", str(options.exchanges), "--chunks", str(options.chunks)]
            subprocess.run([*command, *sizes], check=True)
        asyncio.run(measured(tape, options.rounds))


if __name__ == "__main__":
    main()
