"""The processes of connections: only a process that was started with the secret is let in without sending it."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.relay import Relay, on_loop, serving
from wiretape.recorder import process as proc
from wiretape.recorder.relay import intercept

CONNECTS = """
import socket, sys
made = socket.socket(socket.AF_INET6 if sys.argv[2] == "6" else socket.AF_INET)
made.connect(("::ffff:127.0.0.1" if sys.argv[2] == "6" else "127.0.0.1", int(sys.argv[1])))
made.sendall(sys.argv[3].encode())
sys.stdout.write(made.recv(4096).decode())
sys.stdout.flush()
sys.stdin.read()
"""


@contextlib.contextmanager
def connected(port: int, family: str, **environ: str) -> Iterator[None]:
    """Connect from another process, with these variables added to its environment."""
    command = [sys.executable, "-c", CONNECTS, str(port), family, ""]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env={**os.environ, **environ}, stdin=pipe, stdout=pipe) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("family", ["4", "6"])
def test_a_process_is_known_by_its_startup_secret(family: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for environ, is_known in (({"P": "http://wiretape:pass@127.0.0.1"}, True), ({"P": "wiretape:other@"}, False)):
            with connected(server.getsockname()[1], family, **environ):
                client, _ = server.accept()
                peer, address = client.getpeername(), client.getsockname()
                assert proc.has_secret(peer, address, b"wiretape:pass@") is is_known
                client.close()
            assert not proc.has_secret(peer, address, b"wiretape:pass@")


class Intercepting(Relay):
    """A recorder that intercepts, before an API server on this machine that speaks TLS."""

    def __init__(self, directory: Path, authority: Path) -> None:
        self.settings = intercept.make(("127.0.0.1",))
        tls = serving(authority, "good")
        super().__init__(directory, tls=tls, interception=self.settings, ca_file=authority / "ca.pem")


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[Intercepting]:
    with Intercepting(tmp_path_factory.mktemp("relay"), authority) as relay_:
        yield relay_
        assert relay_.troubles == []


async def answer_to(relay: Relay, request: str, environ: dict[str, str]) -> str:
    """Send a request to the proxy from another process; return the answer's first line."""
    command = (sys.executable, "-c", CONNECTS, relay.base.rpartition(":")[2], "4", request)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdin=pipe, stdout=pipe)
    out, _ = await process.communicate(b"")
    return out.decode().partition("\r\n")[0]


@on_loop
async def test_a_program_whose_environment_holds_the_password_is_trusted(relay: Intercepting) -> None:
    place = relay.upstream.url.removeprefix("https://")
    has = {**os.environ, "HTTPS_PROXY": relay.settings.proxy_url(relay.base)}
    connect = f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n"
    assert await answer_to(relay, f"{connect}\r\n", has) == "HTTP/1.1 200 Connection established"
    host = relay.base.removeprefix("http://")
    plain = f"POST http://{host}/v1/x HTTP/1.1\r\nhost: {host}\r\ncontent-length: 2\r\n\r\n{{}}"
    assert await answer_to(relay, plain, has) == "HTTP/1.1 200 Scripted"
    assert "407" in await answer_to(relay, plain, dict(os.environ))
    assert "407" in await answer_to(relay, f"{connect}\r\n", dict(os.environ))
    assert "407" in await answer_to(relay, f"{connect}proxy-authorization: Basic wrong\r\n\r\n", has)
