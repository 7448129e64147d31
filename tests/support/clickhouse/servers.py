"""ClickHouse servers on loopback, as processes of a test: one alone, or a cluster with ZooKeeper."""

import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

PASSWORD = "sesame of a test"
_USERS = """<yandex><profiles><default><max_memory_usage>{memory}</max_memory_usage>
<max_threads>2</max_threads></default></profiles>
<users><default><password>{password}</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default></users><quotas><default/></quotas></yandex>"""
_CONFIG = """<yandex><logger><level>warning</level><console>1</console></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{inter}</interserver_http_port>
<interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>
<path>{place}/data/</path><tmp_path>{place}/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>5368709</mark_cache_size><max_concurrent_queries>100</max_concurrent_queries>{more}</yandex>"""
_ZOOKEEPER = "tickTime=500\ndataDir={place}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
_START_SECONDS = 30
_PORTS = iter(random.sample(range(15_000, 30_000), 15_000))
_REACHED_SECONDS = 10


def missing(*programs: str) -> str | None:
    """Return the programs to install for the tests that need them; None: all are installed."""
    packages = [name for name in programs if not (shutil.which(name) or Path(f"/usr/share/{name}").exists())]
    return f"apt-get install {' '.join(packages)}" if packages else None


def free_port() -> int:
    """Return a port nobody listens on, each once: not one that an outgoing connection may take meanwhile."""
    for port in _PORTS:
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@dataclass
class Server:
    """One server: it is started and killed as the test asks."""

    place: Path
    http: int = field(default_factory=free_port)
    tcp: int = field(default_factory=free_port)
    inter: int = field(default_factory=free_port)
    memory: int = 1_000_000_000
    process: subprocess.Popen[bytes] | None = None

    def write(self, more: str = "") -> None:
        self.place.mkdir()
        values = {"http": self.http, "tcp": self.tcp, "inter": self.inter, "place": self.place, "more": more}
        (self.place / "config.xml").write_text(_CONFIG.format(**values))
        (self.place / "users.xml").write_text(_USERS.format(password=PASSWORD, memory=self.memory))

    def start(self) -> None:
        with (self.place / "log").open("ab") as log:
            command = ["clickhouse-server", f"--config-file={self.place}/config.xml"]
            self.process = subprocess.Popen(command, cwd=self.place, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not self.answers():
            assert self.process.poll() is None, (self.place / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.http}/", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def query(self, statement: str) -> list[list[str]]:
        response = self.ask(statement)
        assert response.status_code == 200, response.text
        return [line.split("\t") for line in response.text.splitlines()]

    def ask(self, statement: str, **settings: str) -> httpx.Response:
        headers = {"X-ClickHouse-User": "default", "X-ClickHouse-Key": PASSWORD}
        url = f"http://127.0.0.1:{self.http}/"
        return httpx.post(url, params=settings, content=statement, headers=headers, timeout=60, trust_env=False)


@contextmanager
def one(place: Path, memory: int = Server.memory, more: str = "") -> Iterator[Server]:
    """Run a separate server with a memory limit for a query, in bytes, and `more` settings."""
    server = Server(place / "server", memory=memory)
    server.write(more)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def cluster(place: Path, shards: int = 2, replicas: int = 2) -> Iterator[list[Server]]:
    """Run a cluster `both` with these numbers of shards and replicas; yield its servers shard by shard."""
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(_zookeeper(place / "zookeeper", port))
        servers = [Server(place / f"s{shard}r{replica}") for shard in range(shards) for replica in range(replicas)]
        groups = [servers[start : start + replicas] for start in range(0, len(servers), replicas)]
        described = f"<remote_servers><both>{''.join(map(_shard, groups))}</both></remote_servers>"
        described += f"<zookeeper><node><host>127.0.0.1</host><port>{port}</port></node>"
        described += "<session_timeout_ms>10000</session_timeout_ms></zookeeper>"
        described += "<distributed_ddl><path>/clickhouse/ddl</path></distributed_ddl>"
        for place_of, server in enumerate(servers):
            macros = f"<macros><shard>{place_of // replicas}</shard><replica>r{place_of % replicas}</replica></macros>"
            server.write(described + macros)
            server.start()
            stack.callback(server.kill)
        _await_all(servers)
        yield servers


def _await_all(servers: Sequence[Server]) -> None:
    """Wait until each server has executed the cluster's statements; restart one that does not take part."""
    told = servers[0].ask("CREATE DATABASE reached ON CLUSTER both", distributed_ddl_task_timeout=f"{_REACHED_SECONDS}")
    deadline = time.monotonic() + _START_SECONDS
    for server in servers:
        if ["reached"] not in server.query("SHOW DATABASES"):
            server.kill()
            server.start()
        while ["reached"] not in server.query("SHOW DATABASES"):
            assert time.monotonic() < deadline, f"{told.text}\n{(server.place / 'log').read_text()[-4000:]}"
            time.sleep(0.05)


def _shard(servers: Sequence[Server]) -> str:
    replicas = "".join(
        f"<replica><host>127.0.0.1</host><port>{one.tcp}</port><user>default</user><password>{PASSWORD}</password>"
        "</replica>"
        for one in servers
    )
    return f"<shard><internal_replication>true</internal_replication>{replicas}</shard>"


@contextmanager
def _zookeeper(place: Path, port: int) -> Iterator[None]:
    place.mkdir()
    (place / "zoo.cfg").write_text(_ZOOKEEPER.format(place=place, port=port))
    jars = "/usr/share/java/*:/etc/zookeeper/conf"
    quick = "-Dzookeeper.forceSync=no"  # a slow disk does not end sessions
    command = [
        "java",
        "-Xmx128m",
        quick,
        "-cp",
        jars,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        f"{place}/zoo.cfg",
    ]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
    deadline = time.monotonic() + _START_SECONDS
    try:
        while not _serves(port):
            assert process.poll() is None, (place / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _serves(port: int) -> bool:
    """Return whether ZooKeeper serves: its port is open before, and a server that comes then does not recover."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(b"srvr")
            return b"Mode: standalone" in sock.makefile("rb").read()
    except OSError:
        return False
