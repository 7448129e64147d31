"""`wiretape record --metrics`: Prometheus reads the values of the tape, and only permitted clients may read them."""

import asyncio
import gzip
import json
import os
import re
import signal
from collections import defaultdict
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.forked import Process
from tests.support.relay import DONE, Answer, chunk, fetch, finish, on_loop, post, recording, select
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.recorder.sanitize import safe

STREAM = [
    (0.01, chunk("a")),
    (0.03, chunk("b", finish="stop", usage={"prompt_tokens": 5, "completion_tokens": 2})),
    (0.0, DONE),
]
CHAT = "/v1/chat/completions"
HOSTILE = 'm\\"}\\n\\u001b[2J{x=\\"1'
FIRST_CHUNK = "gen_ai_client_operation_time_to_first_chunk_seconds"
DURATION = "gen_ai_client_operation_duration_seconds"


def choose(request: ReceivedRequest) -> Scene:
    return answer([(0, b"{}")], status=429) if b"limited" in request.body else answer(STREAM)


async def started(process: Process) -> tuple[str, list[str]]:
    """Return the base URL of the metrics, and the output up to that line."""
    assert process.stderr is not None
    lines = []
    while not (line := (await process.stderr.readline()).decode()).startswith("metrics "):
        lines.append(line)
    return line.split()[1].removesuffix("/metrics"), lines


def get(target: str, host: str = "localhost") -> bytes:
    return f"GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()


async def scraped(base: str, ended_count: int) -> dict[str, float]:
    """Return the sums of all samples by name, once this number of exchanges is counted."""
    sums: dict[str, float] = {}
    async with asyncio.timeout(60):
        while sums.get("wiretape_exchanges_total", 0) < ended_count:
            sums = defaultdict(float)
            got: Answer = await fetch(base, get("/metrics"))
            for family in text_string_to_metric_families(got.body.decode()):
                for sample in family.samples:
                    sums[sample.name] += sample.value
            await asyncio.sleep(0.05)
    return sums


def server_of(pid: int) -> int:
    """Return the process that serves the metrics of a recorder."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (sample,) = [
        it
        for it in started
        if "wiretape.viewer.wings.prometheus.serve" in Path(f"/proc/{it}/cmdline").read_text().split("\0")
    ]
    return int(sample)


@on_loop
async def test_metrics_match_the_tape_after_a_kill(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, "--metrics", ":0") as (process, base),
    ):
        metrics, _ = await started(process)
        for model in ("m", HOSTILE, "limited"):
            await fetch(base, post(CHAT, b'{"model":"%s","stream":true}' % model.encode()))
        sums = await scraped(metrics, 3)
        got = await fetch(metrics, get("/metrics"))
        os.kill(server_of(process.pid), signal.SIGKILL)
        second_scrape = await scraped(metrics, 3)
        small = await fetch(metrics, get("/metrics", "localhost\r\naccept-encoding: gzip, deflate"))
        assert (dict(small.headers)["content-encoding"], "content-encoding" in dict(got.headers)) == ("gzip", False)
        assert b"gen_ai_client_token_usage_sum" in gzip.decompress(small.body)
        evil = await fetch(metrics, get("/metrics", "evil.test"))
        assert (evil.status, (await fetch(metrics, get("/"))).status) == (421, 404)
        code, _, err = await finish(process, signal.SIGINT)
        assert not {"tape.db-wal", "tape.db-shm"} & set(os.listdir(tmp_path)), (
            "somebody still read when the writer ended"
        )
    count, first_ns, whole_ns = select(tape, "SELECT count(ttfc_ns), sum(ttfc_ns), sum(duration_ns) FROM measures")[0]
    assert (sums[f"{FIRST_CHUNK}_count"], round(sums[f"{FIRST_CHUNK}_sum"] * 1e9)) == (count, first_ns)
    assert (sums[f"{DURATION}_count"], round(sums[f"{DURATION}_sum"] * 1e9)) == (3, whole_ns)
    assert round(sums["wiretape_exchange_time_seconds_total"] * 1e9) == whole_ns
    assert sums["gen_ai_client_token_usage_sum"] == 14
    every = [sample for family in text_string_to_metric_families(got.body.decode()) for sample in family.samples]
    models = {sample.labels["gen_ai_request_model"] for sample in every if sample.name == "wiretape_exchanges_total"}
    assert models == {"m", safe(json.loads(f'"{HOSTILE}"')), "limited"}
    assert sums["wiretape_unstored_bytes_total"] == 0
    shared = [name for name in sums if name.startswith("gen_ai") or ("exchange" in name and name.endswith("_total"))]
    assert {name: second_scrape[name] for name in shared} == {name: sums[name] for name in shared}
    assert code == 0
    assert re.findall("the process that serves metrics ended .*", err) == [
        "the process that serves metrics ended (exit code -9); starting another"
    ]


@on_loop
async def test_metrics_for_other_machines_need_allowed_hosts(tmp_path: Path) -> None:
    async with recording(tmp_path / "tape.db", "http://127.0.0.1:1", "--metrics", "0.0.0.0:0") as (process, base):
        code, _, err = await finish(process)
    assert (code, base) == (2, "")
    assert "--metrics: 0.0.0.0 can be reached from other machines" in err
