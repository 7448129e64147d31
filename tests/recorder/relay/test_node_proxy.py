"""Node goes by the proxy: by itself, or by the file that NODE_OPTIONS names. Only where there is a Node."""

import asyncio
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.http2 import ACK, SETTINGS, frame
from tests.support.relay import DONE, Relay, chunk, on_loop, serving
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer
from wiretape.recorder.relay import environment, intercept
from wiretape.recorder.relay.intercept import Interception

NODE = shutil.which("node")
SCRIPT = """
const https = require("node:https");
const tls = require("node:tls");
const [address, name, nobody] = process.argv.slice(1);
const { hostname: host, port, pathname: path } = new URL(address);

const read = (stream) => new Promise((done, failed) => {
  let text = "";
  stream.setEncoding("utf8");
  stream.on("data", (data) => { text += data; }).on("end", () => done(text)).on("error", failed);
});
const sent = (url, options) => new Promise((done, failed) => {
  const request = https.request(url, { method: "POST", ...options }, (answer) => read(answer).then(done, failed));
  request.on("upgrade", (answer, socket) => { socket.destroy(); done("upgraded"); });
  request.on("error", failed);
  options?.headers ? request.end() : request.end("{}");
});

// As undici does from version 7 on: a dispatcher under a symbol that Node's own fetch does not look at.
const dispatcher = Symbol.for("undici.globalDispatcher.2");
Object.defineProperty(globalThis, dispatcher, { value: {
  dispatch(url) {
    const { hostname: host, port, pathname } = new URL(url);
    const options = { highWaterMark: 16384, servername: "", ALPNProtocols: ["http/1.1"], host, port: port || 443 };
    const socket = tls.connect(options).setNoDelay(true).setKeepAlive(true, 60000);
    socket.write(`POST ${pathname} HTTP/1.1\\r\\nhost: ${host}:${port}\\r\\ncontent-length: 2\\r\\n` +
      "connection: close\\r\\n\\r\\n{}");
    return read(socket);
  },
} });

// As ws does: a request whose createConnection is TLS of its own.
const asWs = { method: "GET", port, createConnection: (options) => tls.connect({ ...options, path: undefined }),
  headers: { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==" } };

const CALLS = {
  fetch: (url) => fetch(url, { method: "POST", body: "{}" }).then((answer) => answer.text()),
  https: sent,
  agent: (url) => sent(url, { agent: new https.Agent({ keepAlive: true }) }), // as axios and others are configured
  undici: (url) => globalThis[dispatcher].dispatch(url),
  ws: (url) => sent(url, asWs),
  esm: (url) => import("node:tls").then(({ connect }) => new Promise((done, failed) => {
    const socket = connect({ host, port, headers: {} }, () => done("[DONE]")).on("error", failed);
    socket.on("secureConnect", () => socket.destroy());
  })),
};
(async () => {
  for (const [call, made] of [["fetch", CALLS.fetch], ...Object.entries(CALLS)]) {
    console.log(call, (await made(address)).match(/\\[DONE\\]|upgraded/)?.[0]);
  }
  console.log(await CALLS.fetch(name).catch((error) => error.message));
  console.log(await CALLS.undici(nobody).catch((error) => error.message));
  process.exit();
})();
"""

HTTP2_SCRIPT = """
const http2 = require("node:http2");
const { readFileSync } = require("node:fs");
const [key, cert] = process.argv.slice(1).map((path) => readFileSync(path));

const listening = (server) => new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.address().port)));
const answered = (session, path, body = "{}") => new Promise((done, failed) => {
  let text = "";
  const request = session.request({ ":method": "POST", ":path": path });
  request.setEncoding("utf8").on("data", (data) => { text += data; }).on("close", () => done(text)).on("error", failed);
  session.on("error", failed);
  request.end(body);
});
const early = (stream) => stream.on("error", () => {}).on("finish", () => stream.close()).end("early");
const echo = (stream) => { stream.respond(); stream.pipe(stream); };

(async () => {
  const servers = [http2.createSecureServer({ key, cert }), http2.createServer()];
  for (const [at, scheme] of ["https", "http"].entries()) {
    const server = servers[at].on("session", (session) => session.unref());
    server.on("stream", (stream, { ":path": path }) => (path === "/early" ? early : echo)(stream));
    const port = await listening(server);
    const url = `${scheme}://127.0.0.1:${port}`;
    const { connect } = at ? http2 : await import("node:http2");
    const session = at ? connect(url, () => console.log("connected")) : connect(url, {});
    const whole = [await answered(session, "/v1/x"), await answered(session, "/early", Buffer.alloc(1 << 20))];
    console.log(port, ...whole, session.originSet?.[0] ?? url);
    session.unref();
    server.unref();
  }
  console.log(await answered(http2.connect("http://127.0.0.3:1"), "/").catch((error) => error.message));
})(); // and ends by itself: its connections are idle
"""

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"


LOCAL_SCRIPT = """
process.emitWarning("not ours", { code: "OTHER" });
process.emitWarning("EnvHttpProxyAgent is experimental", { code: "UNDICI-EHPA" });
fetch(process.argv[1], { method: "POST", body: "{}" }).then((answer) => answer.text()).then(console.log);
"""


PAST_SCRIPT = """
const [port, free] = process.argv.slice(1);
const said = (call) => call.then((answer) => answer.status, (error) => (error.cause ?? error).code);
const got = (url) => new Promise((done, failed) => require("node:https").get(url, done).on("error", failed));
const session = (url) => new Promise((_, failed) => require("node:http2").connect(url).on("error", failed));
(async () => {
  console.log(await said(fetch(`http://127.0.0.1:${port}/`)), await said(fetch(`http://localhost:${free}/`)));
  console.log(await said(got(`https://127.0.0.1:${free}/`)), await said(fetch(`https://127.0.0.1:${free}/`)));
  console.log(await said(session(`http://localhost:${free}/`)), await said(session(`https://localhost:${free}/`)));
  process.exit();
})();
"""


FIRST_SCRIPT = """
const session = require("node:http2").connect("http://127.0.0.1:9");
session.on("remoteSettings", () => console.log("settings")).on("error", (error) => console.log(error.message));
session.on("close", () => console.log("closed"));
"""


async def printed(
    base: str, settings: Interception, authority: Path, script: str, *arguments: str, excluded: Sequence[str] = ()
) -> list[str]:
    """Run a script by Node in the environment of an intercepting recorder; return the lines that it prints."""
    certificate = settings.authority.certificate
    with environment.certificate_files(certificate, {}, authority / "ca.pem") as files:
        plain = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", *files)}
        program = await asyncio.create_subprocess_exec(
            *(NODE or "", "-e", script, *arguments),
            env=environment.proxied(plain, settings.proxy_url(base), files, excluded=excluded),
            stdout=asyncio.subprocess.PIPE,
            stderr=None if script is not LOCAL_SCRIPT else asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(60):
                out, _ = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
    return out.decode().splitlines()


@pytest.mark.skipif(NODE is None, reason="there is no Node")
def test_every_kind_of_node_call_is_recorded(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(("127.0.0.1", "*.test"))
    stream = answer([(0, chunk("Hello", finish="stop")), (0, DONE)])

    def choose(request: ReceivedRequest) -> Scene:
        return Scene([(0, SWITCH)]) if request.method == "GET" else stream

    tls = serving(authority, "good")
    with Relay(tmp_path, tls=tls, choose=choose, interception=settings, ca_file=authority / "ca.pem") as relay:
        urls = f"{relay.upstream.url}/v1/x", "https://no.loopback.test/v1/x", "https://127.0.0.3:1/v1/x"
        *recorded, unreached, refused = relay.runner.run(printed(relay.base, settings, authority, SCRIPT, *urls))
        assert recorded == [
            *("fetch [DONE]", "fetch [DONE]", "https [DONE]", "agent [DONE]", "undici [DONE]"),
            *("ws upgraded", "esm [DONE]"),
        ]
        assert unreached == "fetch failed"
        assert refused == "the proxy answered 502 for 127.0.0.3:1"
        assert [decision for _, decision in relay.asked].count("intercepted") >= len(recorded) - 2
        (notice,) = relay.notices
        assert "no.loopback.test" in notice


@pytest.mark.skipif(NODE is None, reason="there is no Node")
def test_nodes_http2_uses_the_proxy_and_ends_with_it(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(())
    files = str(authority / "good.key"), str(authority / "good.pem")
    with Relay(tmp_path, interception=settings, ca_file=authority / "ca.pem") as relay:
        secure, connected, plain, refused = relay.runner.run(
            printed(relay.base, settings, authority, HTTP2_SCRIPT, *files)
        )
        origins = [origin for origin, _ in relay.asked]
    ports = [line.split()[0] for line in (secure, plain)]
    assert secure == f"{ports[0]} {{}} early https://127.0.0.1:{ports[0]}"
    assert plain == f"{ports[1]} {{}} early http://127.0.0.1:{ports[1]}"
    assert origins == [*(f"127.0.0.1:{port}" for port in ports), "127.0.0.3:1"]
    assert connected == "connected"
    assert refused == "the proxy answered 502 for 127.0.0.3:1"


@pytest.mark.skipif(NODE is None, reason="there is no Node")
@on_loop
async def test_node_accepts_early_server_data_and_its_end(
    authority: Path,
) -> None:
    async def answer_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n" + frame(SETTINGS))
        await reader.readuntil(frame(SETTINGS, flags=ACK))
        writer.close()

    async with await asyncio.start_server(answer_at_once, "127.0.0.1", 0) as proxy:
        base = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        assert await printed(base, intercept.make(()), authority, FIRST_SCRIPT) == ["settings", "closed"]


@pytest.mark.skipif(NODE is None, reason="there is no Node")
def test_nodes_fetch_of_a_local_server_is_recorded_silently(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(())
    stream = answer([(0, chunk("Hello", finish="stop")), (0, DONE)])
    with Relay(tmp_path, choose=lambda _: stream, interception=settings) as relay:
        url = f"{relay.upstream.url}/v1/chat/completions"
        lines = relay.runner.run(printed(relay.base, settings, authority, LOCAL_SCRIPT, url))
        row = relay.runner.run(relay.kept("/v1/chat/completions"))
    assert row.outcome == ("complete", None)
    assert "data: [DONE]" in lines
    assert [("not ours" in line, "UNDICI-EHPA" in line) for line in lines if "Warning" in line] == [(True, False)]


@pytest.mark.skipif(NODE is None, reason="there is no Node")
def test_node_connects_to_excluded_hosts_as_without_the_recorder(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(())
    with Relay(tmp_path, interception=settings) as relay, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = relay.upstream.url.rpartition(":")[2], str(closed.getsockname()[1])
        past = printed(relay.base, settings, authority, PAST_SCRIPT, *ports, excluded=["localhost", "127.0.0.1"])
        lines = relay.runner.run(past)
    assert lines == ["200 ECONNREFUSED", *["ECONNREFUSED ECONNREFUSED"] * 2]
    assert relay.asked == []
