"""Node goes by the proxy: by itself, or by the file that NODE_OPTIONS names. Only where there is a Node."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from recorder.demo.upstream import answer
from recorder.relay import environment, intercept
from tests.relay import DONE, Relay, chunk, serving

NODE = shutil.which("node")
SCRIPT = """
const https = require("node:https");
const [address, name] = process.argv.slice(1);
const got = (url) => fetch(url, { method: "POST", body: "{}" }).then((answer) => answer.text());
const sent = (url) => new Promise((done, failed) => {
  const request = https.request(url, { method: "POST" }, (answer) => {
    answer.setEncoding("utf8");
    let text = "";
    answer.on("data", (data) => { text += data; }).on("end", () => done(text));
  });
  request.on("error", failed).end("{}");
});
(async () => {
  for (const call of [got, got, sent]) console.log((await call(address)).includes("[DONE]"));
  console.log(await got(name));
})();
"""


@pytest.mark.skipif(NODE is None, reason="there is no Node")
def test_nodes_fetch_and_https_are_recorded_by_address_and_by_name(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(("127.0.0.1", "*.test"))
    stream = answer([(0, chunk("Hello", finish="stop")), (0, DONE)])

    async def main() -> list[str]:
        own = settings.authority.certificate
        with environment.certificate_files(own, {}, None) as files:
            plain = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", *files)}
            program = await asyncio.create_subprocess_exec(
                *(NODE or "", "-e", SCRIPT, f"{relay.upstream.url}/v1/x", "https://no.loopback.test/v1/x"),
                env=environment.proxied(plain, settings.proxy_url(relay.base), files),
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await program.communicate()
        return out.decode().splitlines()

    tls = serving(authority, "good")
    with Relay(
        tmp_path, tls=tls, choose=lambda _: stream, interception=settings, ca_file=authority / "ca.pem"
    ) as relay:
        *recorded, unreached = relay.runner.run(main())
        assert recorded == ["true"] * 3
        assert "wiretape: upstream no.loopback.test: " in unreached
        assert relay.notices == []
