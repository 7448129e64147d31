"""What the benchmarks of the relay share: the processes on loopback, what they cost, and whether a tape is right.

A *way* is how a client reaches the upstream: `direct`, or through a proxy. Each runs as processes of its own.
"""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.clients import Plan
from tests.bench.upstream import pieces
from tests.support.relay import make_authority

ROOT = Path(__file__).parents[2]
WIRETAPE = f"{sys.executable} -m wiretape.viewer.cli"
_WRITER = re.compile(rb"recorder\.(tape\.)?writer\0")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PAGES = ("page_count", "freelist_count", "page_size")
_TICK = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1
_ADDON = """
def requestheaders(flow):
    flow.request.stream = True
def responseheaders(flow):
    flow.response.stream = True
"""


# Processes


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a script of this folder as a process of its own, with pipes."""
    command = [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool], seconds: float = 30, step: float = 0.02) -> None:
    """Wait until a condition holds. Raises `TimeoutError`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so after {seconds:g} s")
        time.sleep(step)


def tree(pid: int) -> list[int]:
    """Return a process and all below it."""
    with contextlib.suppress(OSError):
        below = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _children(task)]
        return [pid, *(pid for child in below for pid in tree(child))]
    return []


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time that processes have taken so far, user and system, in s, by the kernel's clock of each."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)  # as clock_getcpuclockid(3) makes it


def resident(pids: Sequence[int]) -> int:
    """Return the resident bytes of processes."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * _PAGE


def machine_cpu_s() -> tuple[float, float]:
    """Return the CPU time that all cores have spent on anything, and what the host kept from them, in s."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, stolen, *_ = (int(field) / _TICK for field in fields)
    return user + nice + system + irq + softirq, stolen


def prioritize(nice: int, pids: Sequence[int] = ()) -> None:
    """Give this process, those that it will start and `pids` a niceness, and their sessions, which Linux weighs too."""
    if not nice:
        return
    if os.getsid(0) != os.getpid():
        raise SystemExit("--nice is for a session of its own: setsid -w python …")
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    for pid in (os.getpid(), *pids):
        with contextlib.suppress(FileNotFoundError):
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))


RELAYS, LOAD = {0}, {1}
"""The cores of what is measured, and of its upstream and clients."""


@contextlib.contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """Start processes on these cores, where the system can do so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, affinity)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def is_listening(port: int) -> bool:
    """Return whether something accepts connections on a port."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


# The upstream and the clients


class Upstream:
    """The scripted upstream's process, and its certificates."""

    def __init__(self, directory: Path) -> None:
        make_authority(directory)
        self.ca, self._log = directory / "ca.pem", directory / "upstream.json"
        self.process = start("upstream", directory / "good.pem", directory / "good.key")
        assert self.process.stdout is not None
        self.ports = list(map(int, self.process.stdout.readline().split()))

    def port(self, *, is_tls: bool = False, is_http2: bool = False) -> int:
        """Return the port for clients that speak so."""
        return self.ports[2 * is_http2 + is_tls]

    def log(self) -> dict[str, Any]:
        """Return what was accepted and sent since the last call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self._log}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return dict(json.loads(self._log.read_text()))

    def stop(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def run_clients(
    plan: Plan, begin: Callable[[], None], sample: Callable[[], None], end: Callable[[], None]
) -> dict[str, Any]:
    """Run clients; return their figures. `sample` is called now and then between their beginning and their end."""
    with start("clients", json.dumps(plan.__dict__)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        begin()
        process.stdin.write("\n")
        process.stdin.flush()
        while not select.select([process.stdout], [], [], 0.1)[0]:
            sample()
        process.stdout.readline()
        end()
        line = process.stdout.readline()
    if process.returncode:
        raise SystemExit("the clients failed")
    return dict(json.loads(line))


# The ways


@dataclass(kw_only=True)
class Running:
    """A way in service: where clients connect, its process and, if it is wiretape, its tape and command."""

    port: int
    process: subprocess.Popen[Any] | None = None
    tape: Path | None = None
    command: Sequence[str] = ()

    def groups(self) -> dict[str, list[int]]:
        """Return its processes by what they do: of wiretape, `relay` and `writer`, else `relay` alone."""
        pids: dict[str, list[int]] = {"relay": []}
        for pid in tree(self.process.pid) if self.process else []:
            with contextlib.suppress(OSError):
                is_writer = _WRITER.search(Path(f"/proc/{pid}/cmdline").read_bytes())
                pids.setdefault("writer" if is_writer else "relay", []).append(pid)
        return pids

    def pids(self) -> list[int]:
        """Return all its processes."""
        return [pid for group in self.groups().values() for pid in group]

    def stop(self) -> None:
        """End it, and see that it ends well."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


@dataclass(frozen=True)
class Site:
    """Where a way is to run: its directory, the upstream's port, and the authorities if that one speaks TLS.

    `is_kept`: clients keep their connections, and so is the way to keep those to the upstream. `is_http2`: clients and
    upstream speak HTTP/2.
    """

    directory: Path
    upstream: int
    ca: Path | None = None
    is_kept: bool = True
    is_http2: bool = False


Start = Callable[[Site], Running]


def direct(site: Site) -> Running:
    """Return the way without anything in between."""
    return Running(port=site.upstream)


def _served(command: Sequence[object], directory: Path, port: int) -> Running:
    with (directory / "log").open("w") as log:
        process = subprocess.Popen([str(word) for word in command], cwd=directory, stdout=log, stderr=log)
    try:
        wait_for(lambda: process.poll() is not None or is_listening(port))
    finally:
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended: {(directory / 'log').read_text()}")
    return Running(port=port, process=process)


def nginx(site: Site) -> Running:
    """Start nginx with one worker, unbuffered."""
    port, scheme = free_port(), "https" if site.ca else "http"
    module = "grpc" if site.is_http2 else "proxy"
    tls = f"{module}_ssl_verify on; {module}_ssl_trusted_certificate {site.ca}; {module}_ssl_name localhost;"
    passing = f"""proxy_pass {scheme}://api; proxy_http_version 1.1; proxy_set_header Connection "";
                proxy_buffering off; proxy_request_buffering off;"""
    if site.is_http2:
        passing = f"grpc_pass {'grpcs' if site.ca else 'grpc'}://api; grpc_read_timeout 300s;"
    keep = "keepalive 4096;" if site.is_kept else ""
    temporary = "".join(f"{name}_temp_path {site.directory}/{name};" for name in ("fastcgi", "uwsgi", "scgi", "proxy"))
    (site.directory / "nginx.conf").write_text(f"""
        daemon off; worker_processes 1; worker_rlimit_nofile 16384;
        pid {site.directory}/pid; error_log {site.directory}/error.log;
        events {{ worker_connections 8192; }}
        http {{
            access_log off; client_body_temp_path {site.directory}/body; {temporary}
            upstream api {{ server 127.0.0.1:{site.upstream}; {keep} }}
            server {{ listen 127.0.0.1:{port} {"http2" if site.is_http2 else ""} backlog=4096;
                keepalive_requests 1000000; http2_max_concurrent_streams 10000;
                location / {{ {passing} {tls if site.ca else ""} }} }}
        }}""")
    return _served(
        ("nginx", "-c", site.directory / "nginx.conf", "-p", site.directory, "-e", site.directory / "log"),
        site.directory,
        port,
    )


def haproxy(site: Site) -> Running:
    """Start HAProxy with one thread."""
    port = free_port()
    tls = f"ssl verify required ca-file {site.ca}{' alpn h2' if site.is_http2 else ''}" if site.ca else ""
    proto = "proto h2" if site.is_http2 else ""
    (site.directory / "haproxy.cfg").write_text(f"""
global
    maxconn 8000
    nbthread 1
defaults
    mode http
    retries 0
    option http-no-delay
    http-reuse {"safe" if site.is_kept else "never"}
    timeout connect 10s
    timeout client 300s
    timeout server 300s
frontend clients
    bind 127.0.0.1:{port} backlog 4096 {proto}
    default_backend api
backend api
    server one 127.0.0.1:{site.upstream} {tls or proto}
""")
    return _served(("haproxy", "-db", "-f", site.directory / "haproxy.cfg"), site.directory, port)


def mitmproxy(venv: Path) -> Start:
    """Return what starts mitmproxy, streaming, out of a virtual environment, which is made unless it exists."""
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", "mitmproxy"], check=True)

    def begin(site: Site) -> Running:
        (site.directory / "stream.py").write_text(_ADDON)
        port, scheme = free_port(), "https" if site.ca else "http"
        options = ["--set", f"confdir={site.directory}", "--mode", f"reverse:{scheme}://127.0.0.1:{site.upstream}"]
        options += ["--set", f"ssl_verify_upstream_trusted_ca={site.ca}"] if site.ca else []
        listen = ("--listen-host", "127.0.0.1", "--listen-port", port)
        return _served((venv / "bin/mitmdump", "-q", "-s", "stream.py", *options, *listen), site.directory, port)

    return begin


def wiretape(command: str = WIRETAPE) -> Start:
    """Return what starts a recorder; what follows `record` in its command are more options."""

    def begin(site: Site) -> Running:
        words = shlex.split(command)
        at = words.index("record") if "record" in words else len(words)
        tape, cli = site.directory / "bench.tape", words[:at]
        options = ["--listen", ":0", "--db", str(tape), *words[at + 1 :]]
        options += ["--ca-file", str(site.ca)] if site.ca else []
        options += ["--upstream", f"http{'s' if site.ca else ''}://127.0.0.1:{site.upstream}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WIRETAPE_")}
        with (site.directory / "log").open("w") as log:
            process = subprocess.Popen(
                [*cli, "record", *options],
                cwd=site.directory,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"wiretape ended: {(site.directory / 'log').read_text()}")
        return Running(port=int(line.rsplit(":", 1)[1]), process=process, tape=tape, command=cli)

    return begin


def available(venv: Path | None) -> dict[str, Start]:
    """Return the ways that this machine has, and say on standard error what is missing."""
    programs: dict[str, Start] = {"direct": direct}
    for name, begin in (("nginx", nginx), ("haproxy", haproxy)):
        if shutil.which(name) or Path(f"/usr/sbin/{name}").exists():
            programs[name] = begin
        else:
            print(f"{name} is left out: it is not installed (Debian: apt-get install {name})", file=sys.stderr)
    if venv is None:
        print("mitmproxy is left out: --mitmproxy DIR installs it there", file=sys.stderr)
    else:
        with contextlib.suppress(subprocess.CalledProcessError):
            programs["mitmproxy"] = mitmproxy(venv)
        if "mitmproxy" not in programs:
            print("mitmproxy is left out: it could not be installed", file=sys.stderr)
    return programs


# The tape


def is_measured(tape: Path, count: int) -> bool:
    """Return whether so many exchanges are on a tape, and all measured."""
    counts = "SELECT (SELECT count(*) FROM exchanges), (SELECT count(*) FROM measures)"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
            return bool(connection.execute(counts).fetchone() == (count, count))
    except sqlite3.OperationalError:  # its writer is still loading
        return False


def bodies(way: Running) -> dict[int, bytes]:
    """Return the bodies on a stopped recorder's tape by the number in the path, as its own export gives them.

    So it takes the tape of any version, however that stores them.
    """
    assert way.tape is not None
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "bench.har"
        command = [*way.command, "export", "--format", "har", "--db", str(way.tape), "-o", str(out)]
        subprocess.run(command, cwd=directory, check=True, capture_output=True)
        entries = json.loads(out.read_text())["log"]["entries"]
    return {
        int(entry["request"]["url"].split("/")[3]): entry["response"]["content"].get("text", "").encode()
        for entry in entries
    }


@dataclass(frozen=True)
class Verdict:
    """What came of comparing a tape with what was sent, and how large it is."""

    exchanges: int
    payloads: int
    alone: int
    """Payloads that are a read each."""
    differences: list[str]
    raw_bytes: int
    tape_bytes: int
    used_bytes: int
    """Without the pages that are free."""


def verify(way: Running, responses: Sequence[dict[str, Any]]) -> Verdict:
    """Compare a stopped recorder's tape, byte for byte and read for read, with what the upstream sent."""
    assert way.tape is not None
    recorded = bodies(way)
    payloads = alone = 0
    differences = [] if len(recorded) == len(responses) else [f"{len(recorded)} of {len(responses)} exchanges"]
    with contextlib.closing(sqlite3.connect(f"file:{way.tape}?mode=ro", uri=True)) as connection:
        numbers = {int(path.split("/")[1]): no for no, path in connection.execute("SELECT no, path FROM exchanges")}
        for response in responses:
            number = response["number"]
            sent = pieces(number, response["chunks"], response["sent_ns"])
            payloads += len(sent)
            query = "SELECT start, size FROM reads WHERE exchange_no = ? ORDER BY seq"
            reads = connection.execute(query, (numbers.get(number),)).fetchall()
            body = recorded.get(number, b"")
            came = [body[start : start + size] for start, size in reads]
            if body != b"".join(sent) or b"".join(came) != body:
                differences.append(f"response {number}: not as it was sent")
            alone += len(set(sent) & set(came))
        pages, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _PAGES)
    raw = sum(map(len, recorded.values()))
    return Verdict(len(recorded), payloads, alone, differences, raw, pages * size, (pages - free) * size)


# A whole rig


@contextlib.contextmanager
def rigged() -> Iterator[tuple[Path, Upstream]]:
    """Start an upstream in a temporary directory, and stop it."""
    with tempfile.TemporaryDirectory() as name:
        upstream = Upstream(Path(name))
        try:
            yield Path(name), upstream
        finally:
            upstream.stop()
