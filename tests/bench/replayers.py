"""What replayers lose of the same recorded streams: wiretape, aimock, mitmproxy, reel-vcr and vcrpy, side by side.

    python -m tests.bench.replayers [--seconds 30] [--environments DIR] [--only NAME,…] [--nice -15]

A scripted upstream sends good and broken streams with uneven reads. Each tool records them all, then answers the same
requests without the upstream; one client on a plain socket stamps its reads (vcrpy has no socket: what its client's
iterator yields is stamped). What came is compared with what the upstream sent while that tool recorded. The other tools
are installed by pip and npm into environments of their own, below DIR or a temporary directory; one that cannot be is
named and left out. Each is run with the options that keep the most. The machine should have nothing else to do.

Prints a table in Markdown, and what became of each broken stream.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httptools

from tests.bench.rig import free_port, is_listening, prioritize, wait_for
from tests.bench.roundtrip import running
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.demo.scenes import DONE, chunk, data
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer

MS = 1_000_000
PATH = "/v1/chat/completions"
WORD = "word "
HEAD_S = 0.3
STALL_S = 2.0
PATIENCE_S = 3.5
"""A client leaves when nothing came for so long; while a tool records, it waits for the whole of the longest stream."""


# The streams


def events(count: int, *last: bytes) -> list[bytes]:
    """Return the events of a chat completion, all contents equally long, with these at the end."""
    return [
        data(chunk("m", {"role": "assistant", "content": ""})),
        *(data(chunk("m", {"content": WORD})) for _ in range(count)),
        *(last or (data(chunk("m", {}, "stop")), DONE)),
    ]


def uneven(all_events: Sequence[bytes], seed: int) -> list[tuple[float, bytes]]:
    """Cut events into pieces 20 to 50 ms apart: some hold two events, some end in the middle of one."""
    draw, body = random.Random(seed), b"".join(all_events)
    cuts = set[int]()
    for start, end in pairwise(accumulate(map(len, all_events), initial=0)):
        kind = draw.random()
        if kind < 0.7:
            cuts.add(end)
        elif kind < 0.85:
            cuts |= {draw.randrange(start + 1, end), end}
    places = sorted(cuts | {0, len(body)})
    return [(draw.uniform(0.02, 0.05), body[start:end]) for start, end in pairwise(places)]


def stream(pieces: Sequence[tuple[float, bytes]], **more: Any) -> Scene:
    """Return an answer whose head comes after a wait."""
    return answer(pieces, delay=HEAD_S, **more)


def broken(pieces: Sequence[tuple[float, bytes]], end: Any) -> Scene:
    """Return a stream that ends so in the middle of an event, 50 ms after its last piece."""
    scene = stream(pieces, end=end)
    return Scene([*scene.pieces, (0.05, b"")], end)


def scenes(seconds: float) -> dict[str, Scene]:
    """Return the streams by name."""
    half = uneven(events(40), 3)[:20]
    half[-1] = (half[-1][0], half[-1][1][:-9] or b"data: ")
    stalled = uneven(events(40), 4)
    stalled[20] = (STALL_S, stalled[20][1])
    failed = data({"error": {"message": "overloaded", "type": "server_error", "code": "overloaded"}})
    limited = b'{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}'
    return {
        "steady": stream(uneven(events(80), 1)),
        "long": stream(uneven(events(int(seconds / 0.037)), 2)),
        "truncated": broken(half, "fin"),
        "reset": broken(half, "reset"),
        "error event": stream(uneven([*events(20, failed)], 5)),
        "429": stream([(0.0, limited)], status=429, content_type="application/json", framing="length"),
        "stall": stream(stalled),
        "hangs": broken(half, "stall"),
    }


BROKEN = ("truncated", "reset", "error event", "429", "stall", "hangs")


def request(name: str) -> bytes:
    """Return the body of the request for a stream."""
    return json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": name}]}).encode()


class Script:
    """The upstream, in a thread of its own; remembers when each request came."""

    def __init__(self, all_scenes: dict[str, Scene]) -> None:
        self._scenes, self._came = all_scenes, dict[str, tuple[int, ReceivedRequest]]()
        self.url = ""

    def _choose(self, came: ReceivedRequest) -> Scene:
        name = json.loads(came.body)["messages"][0]["content"]
        self._came[name] = SYSTEM.now(), came
        return self._scenes[name]

    @contextlib.contextmanager
    def running(self) -> Iterator["Script"]:
        """Serve."""
        ready, stop = threading.Event(), threading.Event()

        async def serve() -> None:
            async with ScriptedUpstream(self._choose) as upstream:
                self.url = upstream.url
                ready.set()
                while not stop.is_set():  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(0.1)

        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        ready.wait(10)
        try:
            yield self
        finally:
            stop.set()
            thread.join()

    def sent(self) -> dict[str, "Seen"]:
        """Return what was sent since the last call, timed from when each request came."""
        found = {name: parsed([(at - came, raw) for at, raw in log.sent], "") for name, (came, log) in
                 self._came.items()}  # fmt: skip
        self._came.clear()
        return found


# What a client sees


@dataclass
class Seen:
    """A response as it came: times are ns since the request; `ended` is how, in the client's eyes."""

    status: int | None = None
    head_ns: int | None = None
    reads: list[tuple[int, bytes]] = field(default_factory=list)
    ended: str = ""

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.reads)

    def payloads(self) -> list[Any]:
        """Return the JSON values that it brought."""
        return [_value(part) for part in self.body.split(b"\n\n") if part]

    def event_times(self) -> list[int]:
        """Return when each event was complete."""
        body, offsets, at = self.body, list[int](), 0
        ends = [*accumulate(len(piece) for _, piece in self.reads)]
        while (at := body.find(b"\n\n", at)) >= 0:
            at += 2
            offsets.append(self.reads[bisect_left(ends, at)][0])
        return offsets


def _value(event: bytes) -> Any:
    try:
        return json.loads(event.removeprefix(b"data: "))
    except ValueError:
        return event


class _Response:
    """httptools' callbacks."""

    def __init__(self) -> None:
        self.body, self.complete, self.headed = b"", False, False

    def on_headers_complete(self) -> None:
        self.headed = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


def parsed(raw: Sequence[tuple[int, bytes]], ended: str) -> Seen:
    """Read what came over a socket, read by read."""
    seen, response = Seen(ended=ended), _Response()
    parser = httptools.HttpResponseParser(response)
    for at, piece in raw:
        try:
            parser.feed_data(piece)
        except httptools.HttpParserError:
            seen.ended = "garbage"
            break
        if response.headed and seen.status is None:
            seen.status, seen.head_ns = parser.get_status_code(), at
        if response.body:
            seen.reads.append((at, response.body))
            response.body = b""
    seen.ended = "end" if response.complete and seen.ended != "garbage" else seen.ended
    return seen


def ask(base: str, name: str, patience: float) -> Seen:
    """Ask for a stream, and read until it has ended, or nothing comes any more."""
    host, _, port = base.removeprefix("http://").rstrip("/").rpartition(":")
    body = request(name)
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer sk-none\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    raw, ending = list[tuple[int, bytes]](), "closed"
    with socket.create_connection((host, int(port))) as sock:
        sock.settimeout(patience)
        began = SYSTEM.now()
        sock.sendall(head.encode() + body)
        try:
            while piece := sock.recv(1 << 18):
                raw.append((SYSTEM.now() - began, piece))
        except TimeoutError:
            ending = "silent"
        except ConnectionError:
            ending = "reset"
    return parsed(raw, ending)


def ask_all(base: str, names: Sequence[str], patience: float = PATIENCE_S) -> dict[str, Seen]:
    """Ask for all streams at once."""
    with ThreadPoolExecutor(len(names)) as threads:
        return dict(zip(names, threads.map(lambda name: ask(base, name, patience), names), strict=True))


# The tools


class Site(NamedTuple):
    """Where a tool runs: what is installed in `environment`, what it records in `folder`, how long it may be silent."""

    environment: Path
    folder: Path
    names: Sequence[str]
    patience: float


@dataclass(frozen=True)
class Tool:
    """A replayer: `install` returns its version, `record` asks an upstream, `replay` needs none."""

    install: Callable[[Path], str]
    record: Callable[[Site, str], dict[str, Seen]]
    replay: Callable[[Site], dict[str, Seen]]


def pip(*packages: str) -> Callable[[Path], str]:
    """Return what installs packages; the version is that of the first one."""

    def install(environment: Path) -> str:
        if not environment.exists():
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            subprocess.run([environment / "bin/pip", "install", "-q", "--disable-pip-version-check", *packages],
                           check=True, capture_output=True)  # fmt: skip
        version = f"import importlib.metadata as m; print(m.version({packages[0]!r}))"
        return subprocess.check_output([environment / "bin/python", "-c", version], text=True).strip()

    return install


def npm(package: str) -> Callable[[Path], str]:
    """Return what installs a package of npm."""

    def install(environment: Path) -> str:
        if not environment.exists():
            environment.mkdir(parents=True)
            (environment / "package.json").write_text("{}")
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", package], cwd=environment,
                           check=True, capture_output=True)  # fmt: skip
        return str(json.loads((environment / "node_modules" / package / "package.json").read_text())["version"])

    return install


@contextlib.contextmanager
def serving(command: Sequence[object], folder: Path, port: int) -> Iterator[str]:
    """Run a server until it is no longer needed; give its base URL."""
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("a") as log:
        process = subprocess.Popen([*map(str, command)], cwd=folder, stdout=log, stderr=log)
        try:
            wait_for(lambda: process.poll() is not None or is_listening(port), 60)
            yield f"http://127.0.0.1:{port}"
        finally:
            time.sleep(1)  # some write their last recording after the client's connection is closed
            process.terminate()
            process.wait(30)


def server(record: Callable[[Site, int, str], Sequence[object]], replay: Callable[[Site, int], Sequence[object]],
           install: Callable[[Path], str]) -> Tool:  # fmt: skip
    """Return a tool that is a proxy while it records, and a server afterwards."""

    def asked(site: Site, patience: float, command: Callable[[int], Sequence[object]]) -> dict[str, Seen]:
        port = free_port()
        with serving(command(port), site.folder, port) as base:
            return ask_all(base, site.names, patience)

    return Tool(
        install,
        lambda site, url: asked(site, site.patience, lambda port: record(site, port, url)),
        lambda site: asked(site, PATIENCE_S, lambda port: replay(site, port)),
    )


def _reel(site: Site, mode: str, port: int) -> list[object]:
    return [site.environment / "bin/reel", mode, "-c", site.folder / "tape.jsonl", "-p", port]


def _aimock(site: Site, port: int) -> list[object]:
    fixtures = site.folder / "fixtures"
    fixtures.mkdir(exist_ok=True)
    return [site.environment / "node_modules/.bin/llmock", "-p", port, "-f", fixtures, "-c", len(WORD)]


_REPLAYING = ("server_replay_ignore_host=true", "server_replay_ignore_port=true", "server_replay_extra=404",
              "server_replay_refresh=false", "connection_strategy=lazy")  # fmt: skip


def _mitmdump(site: Site, port: int, upstream: str, more: Sequence[str] = ()) -> list[object]:
    options = [f"confdir={site.folder}", *more]
    command = [site.environment / "bin/mitmdump", "-q", "--mode", f"reverse:{upstream}"]
    command += ["--listen-host", "127.0.0.1", "--listen-port", port]
    return [*command, *(word for option in options for word in ("--set", option))]


def _wiretape_record(site: Site, url: str) -> dict[str, Seen]:
    tape = site.folder / "tape.db"
    options = ("--upstream", url, "--listen", ":0", "--idle-timeout", PATIENCE_S)
    with running("record", "--db", tape, *options) as base:
        return ask_all(base, site.names, site.patience)


def _wiretape_replay(site: Site) -> dict[str, Seen]:
    with running("serve", "--db", site.folder / "tape.db") as base:
        return ask_all(base, site.names)


_VCR = """
import asyncio, json, sys, time
import httpx, vcr
url, cassette, mode, patience, requests, out = sys.argv[1:]
async def ask(client, body):
    began = time.monotonic_ns()
    seen = {"status": None, "head_ns": None, "reads": [], "ended": "end"}
    try:
        async with client.stream("POST", url, content=body.encode()) as response:
            seen["status"], seen["head_ns"] = response.status_code, time.monotonic_ns() - began
            async for piece in response.aiter_raw():
                seen["reads"].append([time.monotonic_ns() - began, piece.decode("latin-1")])
    except Exception as error:
        seen["ended"] = type(error).__name__
    return seen
async def main():
    with vcr.use_cassette(cassette, record_mode=mode, match_on=["method", "path", "body"]):
        async with httpx.AsyncClient(timeout=float(patience)) as client:
            return await asyncio.gather(*(ask(client, body) for body in json.loads(requests)))
with open(out, "w") as file:
    json.dump(asyncio.run(main()), file)
"""


def _vcrpy(site: Site, url: str, mode: str, patience: float) -> dict[str, Seen]:
    out = site.folder / "seen.json"
    names_text = json.dumps([request(name).decode() for name in site.names])
    cassette = site.folder / "cassette.yaml"
    command = [site.environment / "bin/python", "-c", _VCR, url + PATH, cassette, mode, patience, names_text, out]
    subprocess.run([*map(str, command)], check=True)
    answers_seen = [
        Seen(
            item["status"],
            item["head_ns"],
            [(at, piece.encode("latin-1")) for at, piece in item["reads"]],
            item["ended"],
        )
        for item in json.loads(out.read_text())
    ]
    return dict(zip(site.names, answers_seen, strict=True))


_NOWHERE = "http://127.0.0.1:9"
TOOLS = {
    "wiretape": Tool(lambda _: "this one", _wiretape_record, _wiretape_replay),
    "reel-vcr": server(lambda site, port, url: [*_reel(site, "record", port), "--upstream", url],
                       lambda site, port: [*_reel(site, "replay", port), "--upstream", _NOWHERE], pip("reel-vcr")),
    "aimock": server(lambda site, port, url: [*_aimock(site, port), "--record", "--provider-openai", url],
                     lambda site, port: [*_aimock(site, port), "--strict"], npm("@copilotkit/aimock")),
    "mitmproxy": server(lambda site, port, url: [*_mitmdump(site, port, url), "-w", site.folder / "flows"],
                        lambda site, port: [*_mitmdump(site, port, _NOWHERE, _REPLAYING),
                                             "-S", site.folder / "flows"],
                        pip("mitmproxy")),
    "vcrpy": Tool(pip("vcrpy", "httpx"), lambda site, url: _vcrpy(site, url, "all", site.patience),
                  lambda site: _vcrpy(site, _NOWHERE, "none", PATIENCE_S)),
}  # fmt: skip


# The comparison


@dataclass(frozen=True)
class Compared:
    """What a tool's answers differ in from what was sent while it recorded; times in ns."""

    same_bytes: int
    same_values: int
    same_reads: str
    wait: int | None
    gaps: Sequence[int]
    drift: int | None
    fates: dict[str, str]


def compared(live: dict[str, Seen], sent: dict[str, Seen], seen: dict[str, Seen]) -> Compared:
    """Compare; `live` says how the broken streams ended when a client asked the upstream itself."""
    gaps = [gap for name in ("steady", "long") for gap in gap_errors(sent[name], seen[name])]
    steady, long = seen["steady"], seen["long"]
    return Compared(
        sum(seen.body == sent[name].body for name, seen in seen.items()),
        sum(seen.payloads() == sent[name].payloads() for name, seen in seen.items()),
        f"{len(steady.reads)} of {len(sent['steady'].reads)}" if not same_reads(sent["steady"], steady) else "all",
        steady.reads[0][0] - sent["steady"].reads[0][0] if steady.reads else None,
        gaps,
        drift(sent["long"], long),
        {name: fate(live[name], sent[name], seen[name]) for name in BROKEN},
    )


def same_reads(sent: Seen, seen: Seen) -> bool:
    """Return whether reads brought what writes sent."""
    return [piece for _, piece in sent.reads] == [piece for _, piece in seen.reads]


def gap_errors(sent: Seen, seen: Seen) -> list[int]:
    """Return by how much each wait for an event differs from the recorded one, without its sign."""
    mine, theirs = sent.event_times(), seen.event_times()
    return [
        abs((later - earlier) - (next - previous))
        for (previous, next), (earlier, later) in zip(pairwise(mine), pairwise(theirs), strict=False)
    ]


def drift(sent: Seen, seen: Seen) -> int | None:
    """Return by how much longer it is from the first event to the last one."""
    mine, theirs = sent.event_times(), seen.event_times()
    return (theirs[-1] - theirs[0]) - (mine[-1] - mine[0]) if mine and theirs else None


_SAME = "same"
_STALL_NS = 100 * MS


def fate(live: Seen, sent: Seen, seen: Seen) -> str:
    """Say what became of a broken stream."""
    if seen.status != live.status:
        return "not recorded" if seen.status in (None, 404, 502, 503) else f"status {seen.status}"
    lost = [] if seen.body or not sent.body else ["no body"]
    lost += ["error lost"] if b'"error"' in sent.body and b'"error"' not in seen.body else []
    lost += [] if seen.ended == live.ended else [{"end": "looks whole"}.get(seen.ended, seen.ended)]
    longest = max(gap_errors(sent, seen), default=0)
    lost += [f"a silence of {longest / MS:,.0f} ms lost"] if longest > _STALL_NS else []
    if lost:
        return ", ".join(lost)
    return _SAME if seen.body == sent.body else f"{_SAME}, written anew"


def table(rows: Sequence[tuple[str, str, Compared]], streams: int, seconds: float) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (f"| replayed by | same bytes | same reads | first byte | error of gaps, p50 / p99 |"
           f" drift over {seconds:g} s | broken streams that break alike |")  # fmt: skip
    yield "|---|---|---|---|---|---|---|"
    for name, version, replay in rows:
        gaps = sorted(replay.gaps)
        spread = f"{_ms(gaps[len(gaps) // 2])} / {_ms(gaps[int((len(gaps) - 1) * 0.99)])}" if gaps else "–"
        same = sum(fate.startswith(_SAME) for fate in replay.fates.values())
        values = f", {replay.same_values} as JSON" if replay.same_values > replay.same_bytes else ""
        yield (f"| {name} {version} | {replay.same_bytes} of {streams}{values} | {replay.same_reads} | "
               f"{_ms(replay.wait, '+')} | {spread} | {_ms(replay.drift, '+')} | {same} of {len(replay.fates)} |"
               )  # fmt: skip


def _ms(ns: int | None, sign: str = "") -> str:
    return "–" if ns is None else f"{ns / MS:{sign},.{1 if abs(ns) >= 10 * MS else 2}f} ms"


def main() -> None:
    """Measure all tools that are there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(TOOLS))
    parser.add_argument("--nice", type=int, default=0, help="of all processes, against others of the machine")
    options = parser.parse_args()
    prioritize(options.nice)
    all_scenes, rows = scenes(options.seconds), list[tuple[str, str, Compared]]()
    with tempfile.TemporaryDirectory() as temporary, Script(all_scenes).running() as script:
        live = ask_all(script.url, list(all_scenes))
        sent = script.sent()
        second_answers = ask_all(script.url, list(all_scenes))
        rows.append(("the upstream itself,", "asked again", compared(live, sent, second_answers)))
        script.sent()
        for name in options.only:
            folder = (options.environments or Path(temporary)).absolute() / name
            limit_s = max(options.seconds, STALL_S) + 5
            site = Site(folder, Path(temporary) / f"{name}-recorded", list(all_scenes), limit_s)
            site.folder.mkdir()
            try:
                version = TOOLS[name].install(site.environment)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{name} is left out: it could not be installed: {error}", file=sys.stderr)
                continue
            TOOLS[name].record(site, script.url)
            sent = script.sent()
            rows.append((name, version, compared(live, sent, TOOLS[name].replay(site))))
            print(f"{name} {version}: measured; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print("\n".join(table(rows, len(all_scenes), options.seconds)))
    print(f"\n| broken | live | {' | '.join(name for name, _, _ in rows[1:])} |\n|{'---|' * (len(rows) + 1)}")
    for name in BROKEN:
        print(f"| {name} | {live[name].status} {live[name].ended} | "
              f"{' | '.join(replay.fates[name] for _, _, replay in rows[1:])} |")  # fmt: skip


if __name__ == "__main__":
    main()
