"""Java goes by the proxy and trusts the authority, by the options that it gets. Only where there is a Java."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.support.relay import DONE, Relay, chunk, serving
from wiretape.recorder.demo.upstream import answer
from wiretape.recorder.relay import environment, intercept

JAVA = shutil.which("java")
PROGRAM = """
import java.net.URI;
import java.net.http.*;

public class Calls {
    public static void main(String[] urls) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var url : urls) {
            var request = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString("{}"));
            var got = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
            System.out.println(got.statusCode() + " " + got.body().contains("[DONE]"));
        }
    }
}
"""


@pytest.mark.skipif(JAVA is None, reason="there is no Java")
def test_javas_client_is_recorded_over_tls_and_plain_http(tmp_path: Path, authority: Path) -> None:
    settings = intercept.make(("127.0.0.1",))
    stream = answer([(0, chunk("Hello", finish="stop")), (0, DONE)])
    (tmp_path / "Calls.java").write_text(PROGRAM)

    async def main() -> list[str]:
        with environment.certificate_files(settings.authority.certificate, {}, None) as files:
            plain = {name: value for name, value in os.environ.items() if name not in (environment.JAVA, *files)}
            program = await asyncio.create_subprocess_exec(
                *(JAVA or "", "Calls.java"),
                *(f"{relay.upstream.url}/v1/tls", f"{relay.base}/v1/plain"),
                cwd=tmp_path,
                env=environment.proxied(plain, settings.proxy_url(relay.base), files),
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await program.communicate()
        return out.decode().splitlines()

    tls = serving(authority, "good")
    with Relay(
        tmp_path, tls=tls, choose=lambda _: stream, interception=settings, ca_file=authority / "ca.pem"
    ) as relay:
        assert relay.runner.run(main()) == ["200 true", "200 true"]
        assert [request.target for request in relay.upstream.requests] == [b"/v1/tls", b"/v1/plain"]
        assert [request.body for request in relay.upstream.requests] == [b"{}", b"{}"]
        assert (relay.notices, relay.refused, relay.troubles) == ([], [], [])
