"""Chromium without a window, driven over a pipe by the DevTools protocol: pages in a real browser."""

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--disable-gpu", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
    "--force-device-scale-factor=1", "--hide-scrollbars", "--disable-dev-shm-usage",
)  # fmt: skip


def executable() -> str:
    """Return the path of the browser. Raises `RuntimeError`, which names the packages to install, if there is none."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        raise RuntimeError("these tests need Chromium: apt-get install chromium")
    return path


_DRAWN = """new Promise((done) => {
  const drawn = [], write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const width = this.measureText(text).width;
    const left = x - width * ({ center: 0.5, right: 1 }[this.textAlign] ?? 0);
    drawn.push([text, left, left + width]);
    write.call(this, text, x, y);
  };
  document.querySelector("%s").style.width = "%dpx";
  setTimeout(() => {
    CanvasRenderingContext2D.prototype.fillText = write;
    done(drawn);
  }, 500);
})"""
_NAVIGATED = "Inspected target navigated"


class Page:
    """A tab: it opens files, runs expressions, presses keys, and knows every request that was made."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest, self._number, self._session = b"", 0, None
        self.requests = list[str]()
        self.faults = list[str]()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events received meanwhile are kept."""
        answer = self._ask(method, params)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._report(answer)
        return answer

    def look(self, width: int = 1400, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window, and which theme the system has."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until its page is built."""
        self.requests.clear()
        self.call("Page.navigate", url="about:blank")  # so that another fragment alone loads the page anew
        self.call("Page.navigate", url=f"{path.as_uri()}{'#' if fragment else ''}{fragment}")
        self.run(
            "new Promise((done) => { const look = () => document.querySelector('#page > :not(#loading)')"
            " ? done() : setTimeout(look, 2); look(); })"
        )

    def run(self, expression: str) -> Any:
        """Run an expression in the page, wait for it if it is a promise, and return its value."""
        parameters = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        while _NAVIGATED in (answer := self._ask("Runtime.evaluate", parameters)).get("error", {}).get("message", ""):
            pass  # the page was left for another one meanwhile
        assert "error" not in answer, answer["error"]
        answer = answer["result"]
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def drawn(self, picture: str, width: int) -> list[tuple[str, float, float]]:
        """Resize a picture, and return the texts drawn on it, each with its left and its right end."""
        return [(text, left_edge, right) for text, left_edge, right in self.run(_DRAWN % (picture, width))]

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Press a key: its name in the DOM, its code, and its text."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text else {}),
            )

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Return the visible part of the page as PNG, or all of it."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _report(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.faults.append(str(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.faults.append(params["entry"]["text"])


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own, and end it."""
    theirs_in, ours_out = map(_high, os.pipe())
    ours_in, theirs_out = map(_high, os.pipe())
    # The browser reads from descriptor 3 and writes to descriptor 4.
    script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    command = ["bash", "-c", script, "bash", executable(), *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        command,
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _high(descriptor: int) -> int:
    """Return a copy of a descriptor that is none of those which the browser's take the place of; close the other."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return copy
