"""Programs that speak HTTP/2 speak it through the relay, too: curl, httpx and Node, where they are installed."""

import asyncio
import contextlib
import os
import shutil
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.http2 import Stream, Upstream
from tests.support.relay import DONE, Kept, Relay, chunk, on_loop, recording, serving, until
from tests.support.relay import kept as find
from wiretape.recorder.relay import environment, intercept

CURL, NODE = shutil.which("curl"), shutil.which("node")
PARTS = (chunk("Hello"), chunk(", world", finish="stop"), DONE)
BODY = b"".join(PARTS).decode()
PATH = "/v1/chat/completions"
HTTPX = """
import httpx, sys
answer = httpx.Client(http1=False, http2=True).post(sys.argv[1], content=b"{}")
print(answer.text + answer.http_version.removeprefix("HTTP/"), end="")
"""
HTTP2 = """
const { connect } = require("node:http2");
const { origin, pathname } = new URL(process.argv[1]);
const session = connect(origin);
const request = session.request({ ":method": "POST", ":path": pathname });
request.setEncoding("utf8").on("data", (data) => process.stdout.write(data));
request.on("trailers", (trailers) => { request.checked = trailers["x-checked"]; });
request.on("close", () => { process.stdout.write(request.checked === "yes" ? "2" : "no trailers"); session.close(); });
request.end("{}");
"""
ASKING = ("--data", "{}", "--write-out", "%{http_version}")
PROGRAMS = {
    "curl": (CURL, "-sS", "--http2", *ASKING),
    "httpx": (sys.executable, "-c", HTTPX),
    "node": (NODE, "-e", HTTP2),
}
PLAIN = {
    "curl": (CURL, "-sS", "--proxytunnel", "--http2-prior-knowledge", *ASKING),
    "node": (NODE, "-e", HTTP2),
}


async def answer(stream: Stream) -> None:
    """Answer with a stream and trailers."""
    await stream.over()
    stream.send_head([(":status", "200"), ("content-type", "text/event-stream")])
    for part in PARTS:
        await stream.send(part)
    stream.send_head([("x-checked", "yes")], end=True)


async def printed(command: tuple[str | None, ...], url: str, variables: dict[str, str]) -> str:
    """Run a program with a URL; return its output."""
    if command[0] is None:
        pytest.skip("curl or Node is not installed here; test_http2.py has the same by a client of its own")
    program = await asyncio.create_subprocess_exec(
        *map(str, command), url, env=variables, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, _ = await program.communicate()
    return out.decode()


@contextlib.asynccontextmanager
async def intercepting(
    directory: Path, authority: Path, tls: ssl.SSLContext | None
) -> AsyncIterator[tuple[Relay, Upstream, dict[str, str]]]:
    """Start an intercepting recorder and an HTTP/2 upstream; give them with the environment of a program."""
    settings = intercept.make(("127.0.0.1",))
    certificate = settings.authority.certificate
    relay = Relay(directory, interception=settings, ca_file=authority / "ca.pem")
    await relay.start()
    try:
        async with Upstream(answer, tls=tls) as upstream:
            with environment.certificate_files(certificate, {}, None) as files:
                clean = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", *files)}
                yield relay, upstream, environment.proxied(clean, settings.proxy_url(relay.base), files)
    finally:
        await relay.stop()


def check(exchange: Kept, upstream: Upstream) -> None:
    """Assert that an exchange was one stream of HTTP/2 and is whole on the tape."""
    ((stream,),) = [peer.streams.values() for peer in upstream.peers if peer.streams]
    assert bytes(stream.body) == b"{}"
    assert exchange.row["protocol"] == "h2"
    assert exchange.outcome == ("complete", None)
    assert exchange.body.decode() == BODY
    assert "h2_offered" not in exchange.flags


@pytest.mark.parametrize("name", PROGRAMS)
@on_loop
async def test_a_program_speaks_http2_over_tls_through_the_proxy(tmp_path: Path, authority: Path, name: str) -> None:
    async with intercepting(tmp_path, authority, serving(authority, "good")) as (relay, upstream, variables):
        assert await printed(PROGRAMS[name], upstream.url + PATH, variables) == BODY + "2"
        check(await relay.kept(PATH), upstream)


@pytest.mark.parametrize("name", PLAIN)
@on_loop
async def test_a_program_speaks_http2_without_tls_through_the_proxy(tmp_path: Path, authority: Path, name: str) -> None:
    async with intercepting(tmp_path, authority, None) as (relay, upstream, variables):
        assert await printed(PLAIN[name], upstream.url + PATH, variables) == BODY + "2"
        check(await relay.kept(PATH), upstream)


@pytest.mark.parametrize("name", PLAIN)
@on_loop
async def test_a_program_speaks_http2_to_record(tmp_path: Path, name: str) -> None:
    tape = tmp_path / "tape.db"
    command = tuple(word for word in PLAIN[name] if word != "--proxytunnel")
    async with Upstream(answer) as upstream, recording(tape, upstream.url) as (_, base):
        assert await printed(command, base + PATH, dict(os.environ)) == BODY + "2"
        check(await until(lambda: find(tape, PATH)), upstream)
