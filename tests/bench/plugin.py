"""What the pytest plugin adds to a test: suites of 200 tests, unmarked, marked, and marked with a request.

Run as `python -m tests.bench.plugin [ROUNDS]`; nothing is asserted. The suites take turns, and the least of the rounds
counts: what is more is the machine's. What a suite of one test takes is told apart: there, the first marked test waits
until all is imported, the tape is read and the server is up.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import forked

TESTS = 200
ROUNDS = 3
HEAD = "import http.client, os, urllib.parse\nimport pytest\n"
ASK = """
def ask():
    url = urllib.parse.urlsplit(os.environ.get("OPENAI_BASE_URL", URL))
    connection = http.client.HTTPConnection(url.hostname, url.port)
    connection.request("POST", f"{url.path}/chat/completions", BODY)
    assert connection.getresponse().read()
    connection.close()
"""
BODY = '{"model":"demo-openai","stream":true,"messages":[{"role":"user","content":"Play the scene openai."}]}'
SUITES = {
    "no wiretape": ("", "pass", ("-p", "no:wiretape")),
    "unmarked": ("", "pass", ()),
    "marked": ("@pytest.mark.wiretape(TAPE)", "pass", ()),
    "marked, a fixture asked for": ("@pytest.mark.wiretape(TAPE)", "assert wiretape_server.url", ()),
    "a request to a server that runs": ("", "ask()", ()),
    "marked, with a request": ("@pytest.mark.wiretape(TAPE)", "ask()", ()),
}


def main(rounds: int) -> None:
    """Print a line for each suite."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        done = forked.run(["demo", "--db", directory / "tape.db"])
        assert done.returncode == 0, done.stderr
        cut = forked.run(["db", "cut", "--db", directory / "tape.db", "-o", directory / "tape.jsonl"])
        assert cut.returncode == 0, cut.stderr
        with _served(directory / "tape.jsonl") as url:
            took = _measured(directory, url, rounds)
    for suite, (seconds, all_) in took.items():
        first, each_request = took[
            "a request to a server that runs" if suite == "marked, with a request" else "unmarked"
        ]
        more = ((all_ - seconds) - (each_request - first)) / (TESTS - 1)
        print(f"{suite:<34} the first test {1000 * (seconds - first):+6.0f} ms, each other {1000 * more:+.3f} ms")


def _measured(directory: Path, url: str, rounds: int) -> dict[str, list[float]]:
    """Return for each suite how long one test takes, and how long all of them."""
    took = {suite: [float("inf"), float("inf")] for suite in SUITES}
    for _ in range(rounds):
        for place, (suite, (mark, body, options)) in enumerate(SUITES.items()):
            path = directory / f"test_{place}.py"
            fixture = "number, wiretape_server" if "wiretape_server" in body else "number"
            tests = f"{mark}\n@pytest.mark.parametrize('number', range(COUNT))\ndef test({fixture}):\n    {body}\n"
            names = f"TAPE, URL, BODY = {str(directory / 'tape.jsonl')!r}, {url + '/openai/v1'!r}, {BODY!r}\n"
            for which, count in enumerate((1, TESTS)):
                path.write_text(f"{HEAD}{names}COUNT = {count}\n{ASK}{tests}")
                took[suite][which] = min(took[suite][which], _run(path, count, options))
    return took


def _run(path: Path, count: int, options: tuple[str, ...]) -> float:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, path.name]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    assert f"{count} passed" in done.stdout, done.stdout
    return time.perf_counter() - began


class _served:
    """A server of a tape in a process of its own; gives its URL."""

    def __init__(self, tape: Path) -> None:
        self._tape, self._ready = tape, tape.with_name("url.txt")

    def __enter__(self) -> str:
        command = [*forked.CLI, "serve", "--db", str(self._tape), "--ready-file", str(self._ready), "--no-wait"]
        self._process = forked.Forked(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self._ready.exists():
            time.sleep(0.02)
        return self._ready.read_text().strip()

    def __exit__(self, *_: object) -> None:
        self._process.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
