"""Three recorders ship to a cluster that loses replicas: is the centre the sum of their tapes, and a stream the same?

    python tests/bench/fleet_demo.py [--seconds 20] [--clients 4] (apt-get install clickhouse-server zookeeper)

Two shards of two replicas on loopback. Each recorder relays scripted streams, good and broken, to its clients, and
ships what it records with what was said, while one replica of each shard is killed with -9 and started again, one after
the other. Then `wiretape stats --by model` of the three tapes, merged, and of the centre are compared figure by figure,
each replica is asked how many exchanges it has, and a stream with a stall is pulled and played: its bytes and the times
of its reads have to be those of the tape. Fails if anything differs.
"""

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from sqlite3 import connect

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402

from tests.support.clickhouse import servers  # noqa: E402
from tests.support.clickhouse.servers import Server  # noqa: E402
from wiretape.recorder import destinations  # noqa: E402
from wiretape.recorder.demo import scenes  # noqa: E402
from wiretape.recorder.demo.upstream import ScriptedUpstream  # noqa: E402

WIRETAPE = [sys.executable, "-m", "wiretape.viewer.cli"]
ACCOUNT = {destinations.USER: "default", destinations.PASSWORD: servers.PASSWORD}
SHOWN = ("n", "n_complete", "n_truncated", "n_http_error", "ttft_p50_ms", "ttft_p99_ms", "icl_n", "icl_p99_ms",
         "icl_max_ms", "output_tokens", "error_rate_pct")  # fmt: skip
"""The figures that are printed; all are compared."""


def wiretape(*arguments: object) -> bytes:
    """Run a command to its end, and give what it prints."""
    command = [*WIRETAPE, *map(str, arguments)]
    return subprocess.run(command, env=os.environ | ACCOUNT, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


async def ask(base: str, seconds: float, first: int) -> None:
    """Be a client that asks for one scene after the other, for some time."""
    end = asyncio.get_running_loop().time() + seconds
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        for name in itertools.islice(itertools.cycle(scenes.SCENES), first, None):
            if asyncio.get_running_loop().time() > end:
                return
            path, body = scenes.request(name)
            try:
                await client.post(base + path, json=body)
            except httpx.HTTPError:  # as the scene has it
                continue


async def fail(found: Sequence[Server], seconds: float) -> None:
    """Kill one replica of each shard, and start it again, one after the other."""
    for server in (found[1], found[2]):
        await asyncio.sleep(seconds / 6)
        server.kill()
        print(f"killed {server.place.name}")
        await asyncio.sleep(seconds / 6)
        await asyncio.to_thread(server.start)
        print(f"started {server.place.name} again")


async def record(tapes: Sequence[Path], to: str, found: Sequence[Server], given: argparse.Namespace) -> None:
    """Record to the tapes, each by a recorder of its own that ships, while replicas fail."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(scenes.choose))
        recorders, clients = list[asyncio.subprocess.Process](), list[asyncio.Task[None]]()
        for tape in tapes:
            command = [*WIRETAPE, "record", "--db", str(tape), "--listen", "127.0.0.1:0", "--upstream", upstream.url]
            with tape.with_suffix(".log").open("wb") as log:
                recorder = await asyncio.create_subprocess_exec(
                    *command, "--ship", to, "--ship-bodies", "--label", f"recorder={tape.stem}",
                    stdout=subprocess.PIPE, stderr=log, env=os.environ | ACCOUNT, cwd=ROOT,
                )  # fmt: skip
            recorders.append(recorder)
            assert recorder.stdout is not None
            base = (await recorder.stdout.readline()).decode().strip()
            clients += [asyncio.create_task(ask(base, given.seconds, 3 * one)) for one in range(given.clients)]
        await asyncio.gather(fail(found, given.seconds), *clients)
        for recorder in recorders:
            recorder.terminate()
        for recorder, tape in zip(recorders, tapes, strict=True):
            lines = (tape.with_suffix(".log")).read_text().splitlines() if await recorder.wait() == 0 else ["failed"]
            print(f"{tape.stem}: {lines[-1]}; {sum('wiretape: shipping:' in line for line in lines)} lines on shipping")


def compare(tape: Path, to: str) -> int:
    """Print figures of the tape and of the centre side by side; give how many of all differ."""
    sides = [json.loads(wiretape("stats", "--db", where, "--by", "model", "--format", "json")) for where in (tape, to)]
    rows = [{row["model"]: row for row in side} for side in sides]
    assert rows[0].keys() == rows[1].keys(), "other models"
    figures = [(model, name, row[name], rows[1][model].get(name)) for model, row in rows[0].items() for name in row]
    for model in rows[0]:
        print(f"{model}")
        for _, name, *both in [one for one in figures if one[0] == model and one[1] in SHOWN]:
            print(f"    {name:<16} {both[0]!s:>14} {both[1]!s:>14}")
    different = [one for one in figures if one[2] != one[3]]
    for model, name, *both in different:
        print(f"differs: {model} {name}: {both[0]} on the tapes, {both[1]} at the centre")
    print(f"{len(figures):,} figures of {len(rows[0])} models compared, {len(different)} differ")
    return len(different)


def pull(merged: Path, to: str, directory: Path) -> bool:
    """Pull a stream with a stall, and tell whether it plays as it does from the tape."""
    listed = wiretape("ls", "--db", to, "-f", "flag:stall", "--format", "json", "--limit", "1")
    (id,) = [row["id"] for row in json.loads(listed)]
    pulled = directory / "pulled.db"
    wiretape("pull", id, "--db", to, "-o", pulled)
    played = [wiretape("play", id, "--db", tape, "--as", "sse", "--no-wait") for tape in (merged, pulled)]
    reads = [wiretape("show", id, "--db", tape, "--part", "reads", "--format", "json") for tape in (merged, pulled)]
    count, is_same = len(json.loads(reads[0])), played[0] == played[1] and reads[0] == reads[1]
    print(
        f"pulled {id}: {len(played[0]):,} bytes, {count} reads, {'the same' if is_same else 'NOT the same'} as played"
    )
    return is_same and bool(played[0])


def held(found: Sequence[Server], count: int) -> bool:
    """Print how many exchanges each server finds, and has itself; tell whether none is missing, and none twice."""
    is_whole = True
    for server in found:
        ((rows, ids),) = server.query("SELECT count(), uniqExact(id) FROM wiretape.exchanges FINAL")
        own = server.query("SELECT count() FROM wiretape.exchanges_local FINAL")[0][0]
        print(f"{server.place.name}: {rows} exchanges, {ids} different, {own} of them in its shard")
        is_whole = is_whole and rows == ids == str(count)
    return is_whole


def main() -> None:
    """Record, ship, fail, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=4, help="of each recorder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, servers.cluster(Path(name)) as found:
        directory = Path(name)
        tapes = [directory / f"host-{number}.db" for number in range(3)]
        to = f"clickhouse://{','.join(f'127.0.0.1:{one.http}' for one in found)}/wiretape"
        print(wiretape("fleet", "init", "--to", to, "--cluster", "both").decode(), end="")
        asyncio.run(record(tapes, to, found, given))
        for tape in tapes:
            wiretape("ship", "--db", tape, "--to", to, "--once", "--bodies")
        merged = directory / "merged.db"
        wiretape("db", "merge", "--db", merged, *tapes)
        with closing(connect(merged)) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM exchanges").fetchall()
        is_good = [held(found, count), not compare(merged, to), pull(merged, to, directory)]
    if not all(is_good):
        raise SystemExit("the centre is not the sum of the tapes")


if __name__ == "__main__":
    main()
