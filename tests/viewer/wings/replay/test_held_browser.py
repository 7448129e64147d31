"""A chat in Chromium, tested against a stream that is held: what its page shows meanwhile."""

import functools
import http.server
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.browser import Page, chromium
from tests.support.commands import RUN
from tests.support.forked import ROOT
from tests.support.frames import until

pytestmark = pytest.mark.nightly

TOKEN = "sixteen-or-more-characters"
CHAT = """<!doctype html><meta charset="utf-8"><title>Chat</title>
<button id="send">Send</button> <button id="stop" hidden>Stop</button> <p id="answer"></p>
<script>
const base = new URLSearchParams(location.search).get("base");
const [send, stop, answer] = ["send", "stop", "answer"].map((id) => document.getElementById(id));
send.onclick = async () => {
  const controller = new AbortController();
  stop.onclick = () => controller.abort();
  stop.hidden = false;
  try {
    const response = await fetch(`${base}/openai/v1/chat/completions`, {
      method: "POST", signal: controller.signal,
      headers: { "content-type": "application/json", authorization: "Bearer no-key" },
      body: JSON.stringify({ model: "demo-openai", stream: true,
                             messages: [{ role: "user", content: "Play the scene openai." }] }),
    });
    let text = "";
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const events = text.split("\\n\\n").slice(0, -1).map((event) => event.replace(/^data: /, ""));
      answer.textContent = events.filter((data) => data !== "[DONE]")
        .map((data) => JSON.parse(data).choices[0]?.delta.content ?? "").join("");
    }
  } catch (error) { answer.textContent += ` (${error.name})`; }
  stop.hidden = true;
};
</script>
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the chat's page at a port of its own, by another name of this machine."""
    (folder / "chat.html").write_text(CHAT, "utf-8")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        """A handler without a log."""

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/chat.html"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def controlled(tape: Path) -> Iterator[httpx.Client]:
    command = [*RUN, "serve", "--db", str(tape), "--control"]
    environment = os.environ | {"WIRETAPE_CONTROL_TOKEN": TOKEN}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, env=environment) as process:
        assert process.stdout is not None
        base = process.stdout.readline().decode().strip()
        try:
            with httpx.Client(base_url=base, trust_env=False, headers={"authorization": f"Bearer {TOKEN}"}) as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with chromium(tmp_path / "profile") as page:
        page.look()
        yield page


def test_a_chat_shows_its_stop_button_while_held(page: Page, demo: tuple[Path, str], tmp_path: Path) -> None:
    is_stoppable = "!document.getElementById('stop').hidden"
    answer = "document.getElementById('answer').textContent"

    def call(path: str, body: object = None) -> Any:
        method = "GET" if body is None else "POST"
        return control.request(method, f"/@control/{path}", content=json.dumps(body)).raise_for_status().json()

    with controlled(demo[0]) as control, serving(tmp_path) as url:
        page.call("Page.navigate", url=f"{url}?base={control.base_url}")
        until(lambda: page.run("document.getElementById('send') !== null"))
        call("hold", {"at": "#3"})
        page.run("document.getElementById('send').click()")
        call("streams/@?until=held")
        until(lambda: page.run(answer) == "Once upon")
        assert page.run(is_stoppable)
        call("streams/@/step", {})
        until(lambda: page.run(answer) == "Once upon a")
        assert page.run(is_stoppable)
        call("streams/@/release", {})
        until(lambda: not page.run(is_stoppable))
        assert page.run(answer).startswith("Once upon a time")
        call("hold", {"at": "#3"})
        page.run("document.getElementById('send').click()")
        call("streams/2?until=held")
        page.run("document.getElementById('stop').click()")
        assert call("streams/2?until=left")["ended"] == "client"
        until(lambda: not page.run(is_stoppable))
        assert page.run(answer).endswith("(AbortError)")
    assert not [fault for fault in page.faults if "favicon" not in fault and "404" not in fault]
